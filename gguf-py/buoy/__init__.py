"""Recordings of llama-diffusion-cli --attn-dump (Recording) and GGUF files (buoy.gguf), with numpy alone."""

from .anchors import find_anchors
from .recording import Recording, RecordingError, Region, Step

__all__ = ["Recording", "RecordingError", "Region", "Step", "find_anchors"]
