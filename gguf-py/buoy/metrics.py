"""The metrics of llama-attention, computed from a Recording with numpy; docs/metrics.md defines them.

Each returns what `llama-attention METRIC --json` prints for a recording: `by_layer` has an array for each number, one value per
recorded layer, and `overall` one value. A number that does not exist is NaN.

>>> from buoy import Recording, metrics
>>> with Recording("run.npz") as run:
...     metrics.floating(run)["by_layer"]["moved"]
"""

import unicodedata

import numpy as np

from .anchors import find_anchors
from .recording import RecordingError

__all__ = ["absorption", "temporal", "floating", "sinks", "depth", "targets", "drift", "norms", "qk", "qk_maps", "retrieval", "rollout", "compare",
           "token_class"]

NAN = float("nan")
CLASSES = ["bos", "special", "punctuation", "space", "mask", "content"]


def absorption(run, rule="std:3", step=None):
    """Share of all attention that the anchors receive, in percent."""
    if rule == "auto":
        rule = "bos" if run.meta["attention"] == "causal" else "code"
    cells = [_Cell(run.received(layer, step), rule) for layer in run.layers]
    by_layer = {
        "absorption": np.array([100 * c.share for c in cells]),
        "even_share": np.array([100 * len(c.anchors) / len(c.received) for c in cells]),
        "with_anchors": np.array([c.found for c in cells]),
    }
    overall = {name: _mean(values) for name, values in by_layer.items()}
    overall["absorption_max"] = by_layer["absorption"].max()
    return {"rule": rule, "by_layer": by_layer, "overall": overall, "anchors": [sorted(c.anchors) for c in cells],
            "anchors_from": [c.source for c in cells]}


def temporal(run, rule="std:3", layers=None):
    """Received attention by step, the mean of the layers, and the anchors found in it."""
    steps = run.steps_with_rows
    by_layer = [_received_by_step(run, layer) for layer in layers or run.layers]
    cells = [_Cell(np.mean([of[step] for of in by_layer], axis=0), rule) for step in steps]
    pairs = list(zip(cells, cells[1:]))
    both = [(a, b) for a, b in pairs if a.anchors and b.anchors]
    return {
        "steps": steps,
        "received": [c.received for c in cells],
        "anchors": [sorted(c.anchors) for c in cells],
        "anchors_from": [c.source for c in cells],
        "largest_z": [_largest_z(c.received) for c in cells],
        "course": {
            "steps": len(cells),
            "with_anchors": sum(c.source == "rule" for c in cells),
            "fallback": sum(c.source == "fallback" for c in cells),
            "appeared": sum(len(b.anchors - a.anchors) for a, b in pairs),
            "vanished": sum(len(a.anchors - b.anchors) for a, b in pairs),
            "compared": len(both),
            "moved": sum(a.largest != b.largest for a, b in both),
        },
    }


def floating(run, rule="std:3"):
    """In which steps there are anchors, how many, and how far they move."""
    grid = _grid(run, rule)
    numbers, before = {}, None
    for layer, cells in grid.items():
        pairs = list(zip(cells, cells[1:]))
        both = [(a, b) for a, b in pairs if a.anchors and b.anchors]
        numbers[layer] = {
            "effective_keys": [_effective_keys(c.received) for c in cells],
            "with_anchors": [c.found for c in cells],
            "anchors": [len(c.anchors) for c in cells],
            "appeared": [len(b.anchors - a.anchors) for a, b in pairs],
            "vanished": [len(a.anchors - b.anchors) for a, b in pairs],
            "compared": [float(bool(a.anchors and b.anchors)) for a, b in pairs],
            "largest_moved": [float(a.received.argmax() != b.received.argmax()) for a, b in pairs],
            "overlap_steps": [_overlap(a.anchors, b.anchors) for a, b in pairs],
            "overlap_layers": [_overlap(a.anchors, b.anchors) for a, b in zip(before or [], cells)],
            "displacement": [abs(b.largest - a.largest) for a, b in both],
            "moved": [float(a.largest != b.largest) for a, b in both],
        }
        before = cells
    return {"anchors_from": [_merged(c.source for c in cells) for cells in grid.values()], **_collected(numbers)}


def sinks(run, rule="std:3"):
    """Which tokens are sinks (anchors under their other name), what they are, how long they stay, where they move."""
    steps, grid = run.steps_with_rows, _grid(run, rule)

    def numbers(layers):
        cells = [(step, c) for layer in layers for step, c in zip(steps, grid[layer])]
        pairs = [pair for layer in layers for pair in zip(grid[layer], grid[layer][1:])]
        moves = np.array([b.centre - a.centre for a, b in pairs if a.anchors and b.anchors])
        before = sum(len(a.anchors) for a, _ in pairs)
        kept = sum(len(a.anchors & b.anchors) for a, b in pairs)
        classes = [token_class(run, step, position) for step, c in cells for position in c.anchors]
        out = {"sinks": _mean([len(c.anchors) for _, c in cells]), "with_sinks": _mean([c.found for _, c in cells]),
               "share": _mean([c.share for _, c in cells]), "persistence": kept / before if before else NAN,
               "drift": _mean(moves), "left": _mean(moves < 0), "right": _mean(moves > 0)}
        return out | {name: classes.count(name) / len(classes) if classes else NAN for name in CLASSES}

    by_layer = [numbers([layer]) for layer in run.layers]
    return {"by_layer": {name: np.array([of[name] for of in by_layer]) for name in by_layer[0]}, "overall": numbers(run.layers),
            "sinks": [{"step": step, "layer": layer, "positions": sorted(grid[layer][i].anchors)}
                      for i, step in enumerate(steps) for layer in run.layers if grid[layer][i].anchors]}


def depth(run, steps=None, gold="gold"):
    """Shares of the attention on structure, on content, and on the gold region."""
    region = _positions(run, gold)
    numbers = {}
    for layer in run.layers:
        received = _received_by_step(run, layer) if steps is None else {step: run.received(layer, step) for step in steps}
        values = numbers[layer] = {name: [] for name in ["structure", "content", "gold"] + CLASSES[:-1]}
        for step, A in received.items():
            A = A / A.sum()
            classes = [token_class(run, step, position) for position in range(len(A))]
            share = {name: sum(a for a, c in zip(A, classes) if c == name) for name in CLASSES}
            values["structure"].append(1 - share["content"])
            if region:
                values["gold"].append(sum(A[position] for position in region if position < len(A)))
            for name in CLASSES:
                values[name].append(share[name])
    return _collected(numbers)


def targets(run):
    """Shares of the attention on the prompt, on written tokens and on masks, and the mean distance of query and key."""
    numbers, by_step = {}, {step: [] for step in run.steps_with_rows}
    for layer in run.layers:
        values = numbers[layer] = {name: [] for name in ["prompt", "written", "masks", "distance"]}
        far = np.full(run.meta["n_positions"], NAN)  # of the row that was computed last
        for step, A in _received_by_step(run, layer).items():
            at = np.arange(len(A))
            masked = (run.tokens[step, at] == run.meta["model"]["mask_id"]) & (run.tokens[step, at] >= 0)
            prompt = ~masked & (run.unmask_step[at] == -1)
            if run.reduce != "received":
                pattern, rows = run.head_mean(step, layer), run.rows(step)
                far[rows] = (pattern * abs(np.arange(pattern.shape[1])[None] - rows[:, None])).sum(1)
            shares = [A[which].sum() / A.sum() for which in (prompt, ~masked & ~prompt, masked)] + [_mean(far)]
            for name, value in zip(values, shares):
                values[name].append(value)
            by_step[step].append(shares)
    names = list(next(iter(numbers.values())))
    return {"by_step": [{"step": step} | {name: _mean([of[i] for of in all_layers]) for i, name in enumerate(names)}
                        for step, all_layers in by_step.items()], **_collected(numbers)}


def drift(run):
    """How patterns, keys and norms of values change between consecutive steps; needs individual rows."""
    if run.reduce not in ("none", "heads"):
        raise RecordingError(f"{run.path}: drift needs --attn-reduce none or heads")
    taps = run.meta["recorded"]["taps"]
    numbers = {}
    for layer in run.layers:
        values = numbers[layer] = {name: [] for name in ["pattern_distance", "head_similarity", "key_change", "value_norm_change"]}
        for a, b in zip(run.steps_with_rows, run.steps_with_rows[1:]):
            _, at_a, at_b = np.intersect1d(run.rows(a), run.rows(b), return_indices=True)
            pa, pb = run.head_mean(a, layer)[at_a], run.head_mean(b, layer)[at_b]
            values["pattern_distance"].append(_mean([_distance(x, y) for x, y in zip(pa, pb)]))
            if run.reduce == "none":
                pa, pb = (run.pattern(s, layer).astype(np.float64)[:, at] for s, at in [(a, at_a), (b, at_b)])
                n = min(pa.shape[2], pb.shape[2])
                values["head_similarity"].append(_mean([_cosine(x[:, :n].ravel(), y[:, :n].ravel()) for x, y in zip(pa, pb)]))
            if "k" in taps:
                ka, kb = (run.get("k", s, layer).astype(np.float64) for s in (a, b))
                values["key_change"].append(_mean([1 - _cosine(x, y) for ha, hb in zip(ka, kb) for x, y in zip(ha, hb)]))
            if "v_norm" in taps:
                va, vb = (run.get("v_norm", s, layer).astype(np.float64) for s in (a, b))
                n = min(va.shape[1], vb.shape[1])
                with np.errstate(all="ignore"):
                    values["value_norm_change"].append(_mean((abs(vb[:, :n] - va[:, :n]) / va[:, :n])[va[:, :n] > 0]))
    return _collected(numbers)


def norms(run, rule="std:3"):
    """Norms of values at anchors and elsewhere, and the share of anchors with keys weighted by them; needs v_norm and heads."""
    if run.reduce not in ("none", "received"):
        raise RecordingError(f"{run.path}: norms needs --attn-reduce none or received")
    numbers = {}
    for layer in run.layers:
        values = numbers[layer] = {name: [] for name in ["anchor_norm", "other_norm", "norm_ratio", "share", "weighted_share", "with_anchors"]}
        for step, A in _received_by_step(run, layer).items():
            cell = _Cell(A, rule)
            values["with_anchors"].append(cell.found)
            if not cell.anchors:
                continue
            pattern, v = run.pattern(step, layer).astype(np.float64), run.get("v_norm", step, layer).astype(np.float64)
            alpha = pattern if run.reduce == "received" else pattern.mean(1)  # [H,K]
            n_head = run.meta["model"]["n_head"]
            weighted = (alpha * v[[head * len(v) // n_head for head in run.heads]]).sum(0)
            at = np.isin(np.arange(v.shape[1]), sorted(cell.anchors))
            anchor, other = _mean(v.mean(0)[at]), _mean(v.mean(0)[~at])
            values["anchor_norm"].append(anchor)
            values["other_norm"].append(other)
            values["norm_ratio"].append(anchor / other if other > 0 else NAN)
            values["share"].append(alpha.sum(0)[at].sum() / alpha.sum())
            values["weighted_share"].append(weighted[at].sum() / weighted.sum())
    return _collected(numbers)


def qk(run, rule="std:3", head=None):
    """How q·k differs between anchors and other keys, and how much of that is angle and norm; needs the taps q and k."""
    names = ["qk_difference", "qk_difference_by_angle", "qk_difference_by_norm", "qk_difference_rest", "cos_difference",
             "norms_difference"]
    by_layer = {name: [] for name in names + ["with_anchors"]}
    for layer in run.layers:
        cell = _Cell(run.received(layer), rule)
        parts = [_difference(qk_maps(run, layer, one)[1], cell.anchors) for one in (run.heads if head is None else [head])]
        for i, name in enumerate(names):
            by_layer[name].append(_mean([part[i] for part in parts]))
        by_layer["with_anchors"].append(cell.found)
    by_layer = {name: np.array(values) for name, values in by_layer.items()}
    return {"by_layer": by_layer, "overall": {name: _mean(values) for name, values in by_layer.items()}}


def qk_maps(run, layer, head=None):
    """Positions of the queries [Q], and [3,Q,K]: q·k, cos and ‖q‖‖k‖ of one head or of the heads' mean; NaN where the model can't see."""
    latest = _latest(run)
    rows, maps = [], []
    for step in run.steps:
        here = [i for i, row in enumerate(run.rows(step)) if latest[int(row)] == step]
        if not here:
            continue
        here.sort(key=lambda i: run.rows(step)[i])
        q, k = (run.get(tap, step, layer).astype(np.float64) for tap in "qk")
        k = np.repeat(k, run.meta["model"]["n_head"] // len(k), axis=0)  # one for each of the model's heads
        q, k = (q.mean(0), k[run.heads].mean(0)) if head is None else (q[run.heads.index(head)], k[head])
        at = run.rows(step)[here]
        products, norms = q[here] @ k.T, np.outer(np.linalg.norm(q[here], axis=1), np.linalg.norm(k, axis=1))
        part = np.stack([products, products / norms, norms])
        part[:, ~_visible(run, at[:, None], np.arange(len(k))[None])] = NAN
        rows += at.tolist()
        maps.append(part)
    n_keys = max(part.shape[2] for part in maps)
    return rows, np.concatenate([np.pad(part, ((0, 0), (0, 0), (0, n_keys - part.shape[2])), constant_values=NAN) for part in maps],
                                axis=1)


def retrieval(run, gold="gold"):
    """[layers, heads]: how much each head copies from the gold region; needs whole patterns."""
    if run.reduce != "none":
        raise RecordingError(f"{run.path}: retrieval heads need --attn-reduce none")
    region = _positions(run, gold)
    if not region:
        raise RecordingError(f"{run.path}: the recording has no region {gold}")
    shift = 1 if run.meta["model"]["shift"] or run.meta["attention"] == "causal" else 0
    scores = np.zeros((len(run.layers), len(run.heads)))
    for step in run.steps_with_rows:
        rows = run.rows(step).tolist()
        written = [p for p in np.flatnonzero(run.unmask_step == step) if p - shift in rows]
        for i, layer in enumerate(run.layers if written else []):
            pattern = run.pattern(step, layer)
            for position in written:
                for h, key in enumerate(pattern[:, rows.index(position - shift)].argmax(-1)):
                    copied = key in region and run.tokens[step, key] == run.tokens[-1, position]
                    scores[i, h] += copied / len(region)
    return {"scores": scores}


def rollout(run):
    """[regions, regions]: flow of attention from the first recorded layer to the last."""
    names = [region.name for region in run.regions]
    flow = np.eye(len(names))
    for layer in run.layers:
        if run.reduce == "regions":
            A = sum(run.pattern(step, layer).astype(np.float64) for step in set(_latest(run).values()))
        else:
            pattern = run.matrix(layer)
            where = [_positions(run, name) for name in names]
            A = np.array([[pattern[np.ix_(a, b)].sum() for b in where] for a in where])
        flow = _rows_to_one(_rows_to_one(A) + np.eye(len(names))) @ flow
    return {"regions": names, "flow": _rows_to_one(flow)}


def compare(a, b, rule="std:3"):
    """Distance of two recordings' attention, and the anchors that both have, that A alone has (lost) and B alone (gained)."""
    steps = [step for step in a.steps_with_rows if step in b.steps_with_rows]
    numbers = {}
    for layer in [layer for layer in a.layers if layer in b.layers]:
        of_a, of_b = _received_by_step(a, layer), _received_by_step(b, layer)
        values = numbers[layer] = {name: [] for name in ["received_distance", "pattern_distance", "anchors_kept", "anchors_lost",
                                                         "anchors_gained", "overlap", "with_anchors_a", "with_anchors_b"]}
        for step in steps:
            A, B = _Cell(of_a[step], rule), _Cell(of_b[step], rule)
            values["received_distance"].append(_distance(A.received / A.received.sum(), B.received / B.received.sum()))
            if "received" not in (a.reduce, b.reduce):
                common, at_a, at_b = np.intersect1d(a.rows(step), b.rows(step), return_indices=True)
                pa, pb = a.head_mean(step, layer), b.head_mean(step, layer)
                if len(common):
                    values["pattern_distance"].append(_mean([_distance(pa[i], pb[j]) for i, j in zip(at_a, at_b)]))
            values["anchors_kept"].append(len(A.anchors & B.anchors))
            values["anchors_lost"].append(len(A.anchors - B.anchors))
            values["anchors_gained"].append(len(B.anchors - A.anchors))
            values["overlap"].append(_overlap(A.anchors, B.anchors))
            values["with_anchors_a"].append(A.found)
            values["with_anchors_b"].append(B.found)
    return _collected(numbers)


def token_class(run, step, position):
    """bos, mask, special, space, punctuation or content: of the token that stood there before the step."""
    token = int(run.tokens[step, position])
    if position == 0 and 0 in _positions(run, "bos"):
        return "bos"
    if token >= 0 and token == run.meta["model"]["mask_id"]:
        return "mask"
    if token in run.meta.get("special_ids", []):
        return "special"
    kinds = {"Z" if c in "\t\n\v\f\r" else unicodedata.category(c)[0] for c in run.piece_of.get(token, "x")}
    if kinds == {"Z"}:
        return "space"
    return "punctuation" if kinds and kinds <= {"Z", "P", "S"} else "content"


class _Cell:
    """What one layer's keys receive after one step, and the anchors among them."""

    def __init__(self, received, rule):
        self.received = received
        self.anchors = set(find_anchors(received, rule).tolist())
        exceeds = "above:3" if rule == "code" else rule
        if rule == "bos" or rule.startswith("top-k"):
            self.source = "named"  # whatever they receive
        elif len(find_anchors(received, exceeds)):
            self.source = "rule"
        else:
            self.source = "fallback" if rule == "code" else "none"
        self.found = NAN if self.source == "named" else float(self.source == "rule")

    @property
    def share(self):
        return self.received[sorted(self.anchors)].sum() / self.received.sum()

    @property
    def largest(self):
        return max(sorted(self.anchors), key=lambda position: self.received[position])

    @property
    def centre(self):
        at = np.array(sorted(self.anchors))
        return (self.received[at] * at).sum() / self.received[at].sum()


def _received_by_step(run, layer):
    """{step: received attention of the keys there are}, of the steps that computed a row."""
    return {step: A[~np.isnan(A)] for step, A in zip(run.steps, run.temporal(layer)) if len(run.rows(step))}


def _grid(run, rule):
    """{layer: a cell for each step}."""
    return {layer: [_Cell(A, rule) for A in _received_by_step(run, layer).values()] for layer in run.layers}


def _collected(numbers):
    """by_layer and overall of {layer: {name: values}}."""
    names = list(next(iter(numbers.values())))
    return {"by_layer": {name: np.array([_mean(of[name]) for of in numbers.values()]) for name in names},
            "overall": {name: _mean([value for of in numbers.values() for value in of[name]]) for name in names}}


def _mean(values):
    values = np.asarray(values, dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else NAN


def _merged(sources):
    sources = set(sources)
    return next((source for source in ("fallback", "named", "rule") if source in sources), "none")


def _overlap(a, b):
    return len(a & b) / len(a | b) if a and b else NAN


def _distance(a, b):
    """Total variation; the shorter one is zero where it ends."""
    n = max(len(a), len(b))
    return np.abs(np.pad(a, (0, n - len(a))) - np.pad(b, (0, n - len(b)))).sum() / 2


def _cosine(a, b):
    norms = np.sqrt((a * a).sum() * (b * b).sum())
    return (a * b).sum() / norms if norms > 0 else NAN


def _effective_keys(A):
    p = A[A > 0] / A.sum()
    return np.exp(-(p * np.log(p)).sum()) / len(A)


def _largest_z(A):
    return float((A.max() - A.mean()) / A.std()) if A.std() > 1e-12 * A.mean() else NAN


def _rows_to_one(A):
    sums = A.sum(1, keepdims=True)
    return np.divide(A, sums, out=np.zeros_like(A), where=sums != 0)


def _positions(run, name):
    return [int(p) for region in run.regions if region.name == name for p in region.positions() if p < run.meta["n_positions"]]


def _latest(run):
    """{position: the step that computed its row last}."""
    return {int(row): step for step in run.steps for row in run.rows(step)}


def _visible(run, row, key):
    if run.meta["attention"] == "block_causal":
        block = run.meta["model"]["block_length"]
        return key // block <= row // block
    return (key <= row) | (run.meta["attention"] != "causal")


def _difference(maps, anchors):
    """Means over rows of the differences, anchors minus other keys."""
    is_anchor = np.isin(np.arange(maps.shape[2]), sorted(anchors))
    rows = []
    for products, cosines, norms in zip(*maps):
        a, o = is_anchor & np.isfinite(products), ~is_anchor & np.isfinite(products)
        if a.any() and o.any():
            cos, norm = cosines[a].mean() - cosines[o].mean(), norms[a].mean() - norms[o].mean()
            all_of = products[a].mean() - products[o].mean()
            by_angle = cos * (norms[a].mean() + norms[o].mean()) / 2
            by_norm = norm * (cosines[a].mean() + cosines[o].mean()) / 2
            rows.append([all_of, by_angle, by_norm, all_of - by_angle - by_norm, cos, norm])
    return np.mean(rows, axis=0) if rows else [NAN] * 6
