"""run.npz, what llama-diffusion-cli --attn-dump writes; docs/recording.md tells its members."""

import json
import zipfile
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .anchors import find_anchors


class RecordingError(ValueError):
    """The file is not a recording, or does not contain what you asked for."""


@dataclass(frozen=True)
class Region:
    name: str
    spans: tuple  # (first, one past the last) positions

    def positions(self):
        return np.concatenate([np.arange(first, last) for first, last in self.spans])


@dataclass(frozen=True)
class Step:
    """One recorded step; its arrays are read when asked for."""

    run: "Recording"
    number: int

    @property
    def tokens(self):
        """int32 [T]: the sequence before the step."""
        return self.run.tokens[self.number]

    @property
    def confidence(self):
        return self.run.confidence[self.number]

    @property
    def committed(self):
        """Positions that the step wrote."""
        return np.flatnonzero(self.run.unmask_step == self.number)

    @property
    def rows(self):
        return self.run.rows(self.number)

    def pattern(self, layer):
        return self.run.pattern(self.number, layer)

    def received(self, layer=None):
        return self.run.received(layer, self.number)


class Recording:
    """A recording. Members are read from the archive when asked for, one at a time.

    >>> with Recording("run.npz") as run:
    ...     run.pattern(step=3, layer=5).sum(-1)   # rows add up to one
    ...     run.received(layer=5).argmax()         # the most attended position of the finished sequence
    ...     run.absorption(rule="std")             # percent, by layer
    ...     for step in run:
    ...         step.number, step.committed, step.received()
    """

    def __init__(self, path):
        self.path = str(path)
        self._zip = zipfile.ZipFile(path)
        names = set(self._zip.namelist())
        if "meta.json" in names:
            text = self._zip.read("meta.json")
        elif "meta.json.npy" in names:  # saved once more by numpy
            text = self.array("meta.json").tobytes()
        else:
            raise RecordingError(f"{path}: not a recording: it has no meta.json")
        self.meta = json.loads(text)
        if self.meta.get("format") != "buoy-recording" or self.meta.get("format_version") != 1:
            raise RecordingError(f"{path}: not a recording of format version 1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._zip.close()

    def __iter__(self):
        return (Step(self, step) for step in self.steps)

    def array(self, name):
        """Any member by its name, as it is stored."""
        try:
            with self._zip.open(name + ".npy") as file:
                return np.lib.format.read_array(file, allow_pickle=False)
        except KeyError:
            raise RecordingError(f"{self.path}: the recording has no {name}") from None

    @cached_property
    def tokens(self):
        """int32 [S+1, T]: the sequence before each step and after the last."""
        return self.array("tokens")

    @cached_property
    def unmask_step(self):
        """int32 [T]: the step that wrote a position; -1 for what was given."""
        return self.array("unmask_step")

    @cached_property
    def confidence(self):
        """float32 [S, T], NaN where a position was not scored."""
        return self.array("confidence")

    @property
    def steps(self):
        """Those recorded."""
        return self.meta["recorded"]["steps"]

    @property
    def layers(self):
        return self.meta["recorded"]["layers"]

    @property
    def heads(self):
        heads = self.meta["recorded"]["heads"]
        return list(range(self.meta["model"]["n_head"])) if heads == "all" else heads

    @property
    def reduce(self):
        """none, heads, received or regions: what the pattern was reduced to."""
        return self.meta["recorded"]["reduce"]

    @property
    def regions(self):
        return [Region(r["name"], tuple(tuple(s) for s in r["spans"])) for r in self.meta["regions"]]

    def rows(self, step):
        """int32 [Q]: positions of the queries that the step computed."""
        return self.array(f"rows/step_{step:04d}")

    def get(self, kind, step, layer):
        """attn, scores, q, k, v_norm or resid as float32."""
        return self.array(f"{kind}/step_{step:04d}/layer_{layer:02d}").astype(np.float32)

    def pattern(self, step, layer):
        """[H,Q,K], [Q,K], [H,K] or [R,R], as `reduce` says."""
        return self.get("attn", step, layer)

    def received(self, layer=None, step=None):
        """[K]: attention that each key receives, the mean over heads and queries; of one layer or the mean of all.

        Of each position the row counts that was computed last, up to that step or in the whole recording.
        """
        if step is not None and step not in self.steps:
            raise RecordingError(f"{self.path}: step {step} is not in the recording")
        latest = {}  # position: its step and row
        for at in [s for s in self.steps if step is None or s <= step]:
            latest.update({int(position): (at, i) for i, position in enumerate(self.rows(at))})
        if not latest:
            raise RecordingError(f"{self.path}: no query row was recorded")
        parts = []
        for at in sorted({at for at, _ in latest.values()}):
            parts.append(self._row_sum(at, self._mean(at, layer), [i for s, i in latest.values() if s == at]))
        return _add(parts) / len(latest)

    def temporal(self, layer=None):
        """[recorded steps, T]: received() of every step, each member read once; NaN where a position is no key yet."""
        until = self._replaced()
        alive = {}  # the step that replaces rows: their sums and number
        out = np.full((len(self.steps), self.meta["n_positions"]), np.nan)
        for i, step in enumerate(self.steps):
            alive.pop(step, None)
            if len(until[step]) == 0:
                continue
            pattern = self._mean(step, layer)
            for end in np.unique(until[step]):
                rows = np.flatnonzero(until[step] == end)
                sums, count = alive.get(end, (np.zeros(0), 0))
                alive[end] = _add([sums, self._row_sum(step, pattern, rows)]), count + len(rows)
            total = _add([sums for sums, _ in alive.values()])
            out[i, : len(total)] = total / sum(count for _, count in alive.values())
        return out

    def absorption(self, rule="std", step=None):
        """[recorded layers], percent of all attention that the anchors receive, 0 where a layer has none; rule as in
        find_anchors().

        auto is the paper's: position 0 for autoregressive models, the largest column (a fallback) for others.
        """
        if rule == "auto":
            rule = "bos" if self.meta["attention"] == "causal" else "code"
        out = []
        for layer in self.layers:
            A = self.received(layer, step)
            out.append(100 * A[find_anchors(A, rule)].sum() / A.sum())
        return np.array(out)

    def _replaced(self):
        """For the rows of each step the step that computes the same position again; one past the last where none does."""
        end = {}
        until = {}
        for step in reversed(self.steps):
            rows = self.rows(step).tolist()
            until[step] = np.array([end.get(position, self.steps[-1] + 1) for position in rows])
            end.update({position: step for position in rows})
        return until

    def _mean(self, step, layer):
        """The mean over heads and layers: [Q,K], or [K] of patterns reduced to `received`."""
        if self.reduce == "regions":
            raise RecordingError(f"{self.path}: received attention needs patterns that are not reduced to regions")
        mean = 0
        layers = self.layers if layer is None else [layer]
        for one in layers:
            pattern = self.pattern(step, one).astype(np.float64)
            mean = mean + (pattern if self.reduce == "heads" else pattern.mean(0)) / len(layers)
        return mean

    def _row_sum(self, step, pattern, rows):
        if self.reduce != "received":
            return pattern[rows].sum(0)
        if len(rows) != len(self.rows(step)):
            raise RecordingError(f"{self.path}: only some of step {step}'s rows count, but the recording has the mean of all; "
                                 "record with --attn-reduce heads")
        return pattern * len(rows)


def _add(parts):
    """The sum of arrays that may have different lengths, as a causal model's rows do."""
    out = np.zeros(max(len(part) for part in parts))
    for part in parts:
        out[: len(part)] += part
    return out
