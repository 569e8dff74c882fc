"""Recordings of llama-diffusion-cli --attn-dump (Recording, run), their metrics, and GGUF files (buoy.gguf), with numpy alone."""

from . import metrics
from .anchors import find_anchors
from .labelled import Labelled
from .program import ProgramError, run
from .recording import Recording, RecordingError, Region, Step

__all__ = ["Labelled", "ProgramError", "Recording", "RecordingError", "Region", "Step", "find_anchors", "metrics", "run"]
