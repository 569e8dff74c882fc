"""run.npz, what llama-diffusion-cli --attn-dump writes; docs/recording.md tells its members."""

import json
import re
import zipfile
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .labelled import Labelled


# TransformerLens's names of what a block computes: the member's folder, and its axes in their order and in ours.
HOOKS = {
    "attn.hook_pattern": ("attn", "head query key", "head query key"),
    "attn.hook_attn_scores": ("scores", "head query key", "head query key"),
    "attn.hook_rot_q": ("q", "query head dim", "head query dim"),
    "attn.hook_rot_k": ("k", "key head_kv dim", "head_kv key dim"),
    "hook_resid_post": ("resid", "query dim", "query dim"),
}


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
        self._rows = {}
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

    def __repr__(self):
        recorded = self.meta["recorded"]
        what = ", ".join(recorded["taps"]) + (f" reduced to {self.reduce}" if self.reduce not in (None, "none") else "")
        return (f"<Recording {self.path}: {self.meta['model']['name'] or self.meta['model']['arch']}, "
                f"{self.meta['n_positions']} positions, {len(self.steps)} of {self.meta['n_steps']} steps, "
                f"{len(self.layers)} layers, {len(self.heads)} heads, {what}>")

    def __getitem__(self, name):
        """What a block computed at every recorded step, by TransformerLens's name, with a step axis in front.

        >>> run["blocks.3.attn.hook_pattern"].sel(step=0, head=2)

        Rows and keys that a step did not compute are NaN. names() lists what the recording has.
        """
        found = re.fullmatch(r"blocks\.(\d+)\.(.+)", name)
        if not found or name not in self.names():
            raise KeyError(f"{name}; the recording has {', '.join(self.names()) or 'no such arrays'}")
        layer, (kind, dims, stored) = int(found[1]), HOOKS[found[2]]
        parts, rows = [], []
        for step in self.steps:
            at = self.rows(step)
            if len(at):
                parts.append((step, self.get(kind, step, layer), at))
                rows.append(at)
        stored = stored.split()
        coords = {"step": [step for step, _, _ in parts], "head": self.heads, "query": np.unique(np.concatenate(rows)),
                  "key": np.arange(max(p.shape[stored.index("key")] for _, p, _ in parts) if "key" in stored else 0)}
        for axis, dim in enumerate(stored):
            coords.setdefault(dim, np.arange(parts[0][1].shape[axis]))
        out = np.full([len(coords[d]) for d in ["step"] + stored], np.nan, dtype=np.float32)
        for i, (_, part, at) in enumerate(parts):
            where = [np.searchsorted(coords["query"], at) if d == "query" else np.arange(n) for d, n in zip(stored, part.shape)]
            out[i][np.ix_(*where)] = part
        dims = dims.split()
        values = out.transpose(0, *[1 + stored.index(d) for d in dims])
        return Labelled(values, ["step"] + dims, {d: coords[d] for d in ["step"] + dims})

    def names(self):
        """TransformerLens's names of the arrays that the recording has."""
        taps = self.meta["recorded"]["taps"]
        return [f"blocks.{layer}.{hook}" for layer in self.layers for hook, (kind, _, _) in HOOKS.items()
                if kind in taps and (kind != "attn" or self.reduce == "none")]

    @property
    def pieces(self):
        """The text of each token of the finished sequence."""
        return self.meta["pieces"]

    @cached_property
    def piece_of(self):
        """{token id: its text}, of the finished sequence's tokens."""
        return dict(zip(self.tokens[-1].tolist(), self.pieces))

    @cached_property
    def steps_with_rows(self):
        """Recorded steps that computed a row."""
        return [step for step in self.steps if len(self.rows(step))]

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
        if step not in self._rows:
            self._rows[step] = self.array(f"rows/step_{step:04d}")
        return self._rows[step]

    def computed(self, step):
        """[L, T], 1 where a layer computed a position's row; only recordings of runs with an adaptive cache have it."""
        return self.array(f"computed/step_{step:04d}")

    def get(self, kind, step, layer):
        """attn, scores, q, k, v_norm or resid as float32."""
        return self.array(f"{kind}/step_{step:04d}/layer_{layer:02d}").astype(np.float32)

    def pattern(self, step, layer):
        """[H,Q,K], [Q,K], [H,K] or [R,R], as `reduce` says."""
        return self.get("attn", step, layer)

    def head_mean(self, step, layer):
        """[Q,K]: the pattern averaged over heads."""
        pattern = self.pattern(step, layer).astype(np.float64)
        return pattern if self.reduce == "heads" else pattern.mean(0)

    def matrix(self, layer, step=None):
        """[T,T]: the mean over heads of the row that was computed last for each position, up to that step; zero elsewhere."""
        T = self.meta["n_positions"]
        out = np.zeros((T, T))
        for at in [s for s in self.steps if step is None or s <= step]:
            rows = self.rows(at)
            if len(rows):
                pattern = self._mean(at, layer)
                out[rows] = 0
                out[rows, : pattern.shape[1]] = pattern
        return out

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
        """[recorded layers], percent of all attention that the anchors receive, 0 where a layer has none: metrics.absorption()'s."""
        from .metrics import absorption

        return absorption(self, rule, step)["by_layer"]["absorption"]

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
            mean = mean + self.head_mean(step, one) / len(layers)
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
