"""run.npz, opened by numpy.load; this only knows what the members are called."""

import json
import re
from dataclasses import dataclass

import numpy as np

_MEMBER = re.compile(r"(attn|scores|q|k|v_norm|resid)/step_(\d+)/layer_(\d+)(?:\.npy)?$")


@dataclass(frozen=True)
class Region:
    name: str
    spans: tuple  # (first, one past the last) positions

    def positions(self):
        return np.concatenate([np.arange(first, last) for first, last in self.spans])


class Recording:
    """A recording. Members are read when asked for.

    >>> run = Recording("run.npz")
    >>> run.attn(3, 5).sum(-1)          # rows of step 3, layer 5 add up to one
    >>> run.received(3, 5)              # mean over heads and queries
    """

    def __init__(self, path):
        self._file = np.load(path, allow_pickle=False)
        self.meta = json.loads(self._bytes("meta.json"))
        found = [_MEMBER.match(name) for name in self._file.files]
        self._members = {(m[1], int(m[2]), int(m[3])): m[0] for m in found if m}

    def _bytes(self, name):
        value = self._file[name]
        return value if isinstance(value, bytes) else value.tobytes()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    @property
    def tokens(self):
        """int32 [S+1, T]: the sequence before each step and after the last."""
        return self._file["tokens"]

    @property
    def unmask_step(self):
        return self._file["unmask_step"]

    @property
    def confidence(self):
        return self._file["confidence"]

    @property
    def regions(self):
        return [Region(r["name"], tuple(tuple(s) for s in r["spans"])) for r in self.meta.get("regions", [])]

    def steps(self, kind="attn"):
        return sorted({step for k, step, _ in self._members if k == kind})

    def layers(self, kind="attn"):
        return sorted({layer for k, _, layer in self._members if k == kind})

    def rows(self, step):
        """int32 [Q]: the positions of the queries computed in that step."""
        return self._file[f"rows/step_{step:04d}"]

    def get(self, kind, step, layer):
        """attn, scores, q, k, v_norm or resid as float32."""
        return self._file[self._members[kind, step, layer]].astype(np.float32)

    def attn(self, step, layer):
        """[H,Q,K], [Q,K], [H,K] or [R,R], as meta["recorded"] says it was reduced."""
        return self.get("attn", step, layer)

    def received(self, step, layer):
        """[K]: attention that each key receives, mean over heads and queries; not of region sums."""
        pattern = self.attn(step, layer)
        return pattern.reshape(-1, pattern.shape[-1]).mean(0)
