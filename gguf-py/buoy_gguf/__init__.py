"""Reads GGUF headers and run.npz, the recordings of llama-diffusion-cli --attn-dump."""

from .gguf import Gguf, GgufError, Tensor, read_gguf
from .recording import Recording, Region

__all__ = ["Gguf", "GgufError", "Recording", "Region", "Tensor", "read_gguf"]
