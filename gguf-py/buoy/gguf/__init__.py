"""GGUF files: keys, and tensors as float32. `python -m buoy.gguf FILE` prints them."""

from .reader import Gguf, GgufError, Tensor, read_gguf

__all__ = ["Gguf", "GgufError", "Tensor", "read_gguf"]
