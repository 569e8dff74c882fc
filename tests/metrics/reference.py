"""The metrics once more, from their definitions, with numpy alone."""
import io
import json
import unicodedata
import zipfile

import numpy as np


class Run:
    def __init__(self, path):
        z = zipfile.ZipFile(path)
        self.path, self.meta = path, json.loads(z.read("meta.json"))
        self.a = {n[:-4]: np.load(io.BytesIO(z.read(n))) for n in z.namelist() if n.endswith(".npy")}
        m = self.meta
        self.T, self.S, self.reduce = m["n_positions"], m["n_steps"], m["recorded"]["reduce"]
        self.layers, self.steps = m["recorded"]["layers"], m["recorded"]["steps"]
        heads = m["recorded"]["heads"]
        self.heads = list(range(m["model"]["n_head"])) if heads == "all" else heads
        self.causal = m["attention"] == "causal"
        self.tokens = self.a["tokens"]
        self.pieces = dict(zip(self.tokens[-1].tolist(), m["pieces"]))
        self.regions = {r["name"]: [p for s in r["spans"] for p in range(*s) if p < self.T] for r in m["regions"]}

    def get(self, tap, s, l):
        return self.a[f"{tap}/step_{s:04d}/layer_{l:02d}"].astype(np.float64)

    def rows(self, s):
        return self.a[f"rows/step_{s:04d}"]

    def with_rows(self):
        return [s for s in self.steps if len(self.rows(s))]

    def latest(self, until=None):
        """{position: (step, row)} of the last row computed for each position, up to a step."""
        out = {}
        for s in self.steps:
            if until is None or s <= until:
                for i, r in enumerate(self.rows(s)):
                    out[int(r)] = (s, i)
        return out

    def matrix(self, l, until=None):
        """[T, T], the mean over heads of those rows, zero elsewhere."""
        m = np.zeros((self.T, self.T))
        for r, (s, i) in self.latest(until).items():
            p = self.get("attn", s, l)
            p = p.mean(0) if self.reduce == "none" else p
            m[r, :p.shape[1]] = p[i]
        return m

    def partly(self):
        """Some rows of a step count and others do not, at some time, so that the mean over a step is of no use."""
        return any({i for t, i in self.latest(s).values() if t == u} not in (set(), set(range(len(self.rows(u)))))
                   for s in self.steps for u in self.steps)

    def received(self, l, until=None):
        """The mean over heads and over the latest rows."""
        latest = self.latest(until)
        steps = sorted({s for s, _ in latest.values()})
        K = max(self.get("attn", s, l).shape[-1] for s in steps)
        if self.reduce == "received":  # whole steps, each the mean of its rows
            total = np.zeros(K)
            for s in steps:
                p = self.get("attn", s, l).mean(0)
                total[:len(p)] += p * len(self.rows(s))
            return total / sum(len(self.rows(s)) for s in steps)
        return self.matrix(l, until)[sorted(latest)].mean(0)[:K]


def above(A, rule):
    name, _, value = rule.partition(":")
    if name == "std":
        return set(np.flatnonzero(A > A.mean() + float(value or 3) * A.std()).tolist())
    if name in ("code", "above"):
        others = (A.sum() - A) / (len(A) - 1) if len(A) > 1 else np.zeros(1)
        return set(np.flatnonzero(A > others + float(value or 3)).tolist())
    if name == "bos":
        return {0}
    if name == "top-k":
        return set(np.argsort(-A, kind="stable")[:int(value or 1)].tolist())
    raise ValueError(rule)


def anchors(A, rule):
    """What the rule finds, which may be nothing. Only the authors' code takes the largest column then."""
    found = above(A, rule)
    return {int(A.argmax())} if rule == "code" and not found else found


def source(A, rule):
    if rule == "bos" or rule.startswith("top-k"):
        return "named"  # whatever they receive
    return "rule" if above(A, rule) else "fallback" if rule == "code" else "none"


def found(A, rule):
    """Whether the rule finds an anchor; no number where it only names positions."""
    return float("nan") if source(A, rule) == "named" else float(source(A, rule) == "rule")


def merged(sources):
    return next((s for s in ("fallback", "named", "rule") if s in sources), "none")


def largest(A, S):
    return max(sorted(S), key=lambda j: A[j])


def mean(values):
    values = [v for v in values if v is not None and np.isfinite(v)]
    return float(np.mean(values)) if values else None


def jaccard(a, b):
    return len(a & b) / len(a | b) if a and b else None


def absorption(run, rule=None, step=None):
    rule = rule or "std:3"
    if rule == "auto":
        rule = "bos" if run.causal else "code"
    out = {"by_layer": {"absorption": [], "even_share": [], "with_anchors": []}, "anchors": [], "anchors_from": [], "rule": rule}
    for l in run.layers:
        A = run.received(l, step)
        S = anchors(A, rule)
        out["anchors"].append(sorted(S))
        out["anchors_from"].append(source(A, rule))
        out["by_layer"]["even_share"].append(100 * len(S) / len(A))
        out["by_layer"]["with_anchors"].append(found(A, rule))
        out["by_layer"]["absorption"].append(100 * A[sorted(S)].sum() / A.sum())
    v = out["by_layer"]["absorption"]
    out["overall"] = {"absorption": np.mean(v), "absorption_max": np.max(v),
                      "even_share": np.mean(out["by_layer"]["even_share"]),
                      "with_anchors": np.mean(out["by_layer"]["with_anchors"])}
    return out


def temporal(run, rule="std:3", layers=None):
    A = [np.mean([run.received(l, s) for l in layers or run.layers], axis=0) for s in run.with_rows()]
    S = [anchors(a, rule) for a in A]
    pairs = list(zip(range(len(A)), range(1, len(A))))
    both = [(i, j) for i, j in pairs if S[i] and S[j]]
    with np.errstate(all="ignore"):
        z = [float((a.max() - a.mean()) / a.std()) if a.std() > 1e-12 * a.mean() else None for a in A]
    return {"received": [a.tolist() for a in A], "anchors": [sorted(s) for s in S], "steps": run.with_rows(),
            "anchors_from": [source(a, rule) for a in A], "largest_z": z,
            "course": {"steps": len(A), "with_anchors": sum(source(a, rule) == "rule" for a in A),
                       "fallback": sum(source(a, rule) == "fallback" for a in A),
                       "appeared": sum(len(S[j] - S[i]) for i, j in pairs),
                       "vanished": sum(len(S[i] - S[j]) for i, j in pairs), "compared": len(both),
                       "moved": sum(largest(A[i], S[i]) != largest(A[j], S[j]) for i, j in both)}}


def floating(run, rule="std:3"):
    A = {(s, l): run.received(l, s) for s in run.with_rows() for l in run.layers}
    S = {k: anchors(v, rule) for k, v in A.items()}

    def effective(a):
        p = a / a.sum()
        p = p[p > 0]
        return np.exp(-(p * np.log(p)).sum()) / len(a)

    cells = {}
    pairs = list(zip(run.with_rows(), run.with_rows()[1:]))
    for i, l in enumerate(run.layers):
        column = {s: int(A[s, l].argmax()) for s in run.with_rows()}
        both = [(a, b) for a, b in pairs if S[a, l] and S[b, l]]
        top = {s: largest(A[s, l], S[s, l]) for s in run.with_rows() if S[s, l]}
        cells[l] = {
            "effective_keys": [effective(A[s, l]) for s in run.with_rows()],
            "with_anchors": [found(A[s, l], rule) for s in run.with_rows()],
            "anchors": [len(S[s, l]) for s in run.with_rows()],
            "appeared": [len(S[b, l] - S[a, l]) for a, b in pairs],
            "vanished": [len(S[a, l] - S[b, l]) for a, b in pairs],
            "compared": [float(bool(S[a, l] and S[b, l])) for a, b in pairs],
            "largest_moved": [float(column[a] != column[b]) for a, b in pairs],
            "overlap_steps": [jaccard(S[a, l], S[b, l]) for a, b in pairs],
            "overlap_layers": [jaccard(S[s, run.layers[i - 1]], S[s, l]) for s in run.with_rows()] if i else [],
            "displacement": [abs(top[b] - top[a]) for a, b in both],
            "moved": [float(top[b] != top[a]) for a, b in both],
        }
    out = collect(run, cells)
    out["anchors_from"] = [merged({source(A[s, l], rule) for s in run.with_rows()}) for l in run.layers]
    return out


def collect(run, cells):
    names = list(cells[run.layers[0]])
    return {"by_layer": {n: [mean(cells[l][n]) for l in run.layers] for n in names},
            "overall": {n: mean(sum((cells[l][n] for l in run.layers), [])) for n in names}}


CLASSES = ["bos", "special", "punctuation", "space", "mask", "content"]


def token_class(run, s, j):
    t = int(run.tokens[s, j])
    if j == 0 and 0 in run.regions.get("bos", []):
        return "bos"
    if t == run.meta["model"]["mask_id"] and t >= 0:
        return "mask"
    if t in run.meta.get("special_ids", []):
        return "special"
    piece = run.pieces.get(t, "x")
    kinds = {"Z" if c in "\t\n\v\f\r" else unicodedata.category(c)[0] for c in piece}
    if kinds == {"Z"}:
        return "space"
    return "punctuation" if kinds and kinds <= {"Z", "P", "S"} else "content"


def sinks(run, rule="std:3"):
    A = {(s, l): run.received(l, s) for s in run.with_rows() for l in run.layers}
    S = {k: anchors(v, rule) for k, v in A.items()}
    centre = {k: sum(A[k][j] * j for j in S[k]) / sum(A[k][j] for j in S[k]) for k in S if S[k]}
    pairs = list(zip(run.with_rows(), run.with_rows()[1:]))

    def numbers(layers):
        keys = [(s, l) for s in run.with_rows() for l in layers]
        moves = [centre[b, l] - centre[a, l] for a, b in pairs for l in layers if (a, l) in centre and (b, l) in centre]
        before = sum(len(S[a, l]) for a, _ in pairs for l in layers)
        kept = sum(len(S[a, l] & S[b, l]) for a, b in pairs for l in layers)
        classes = [token_class(run, s, j) for s, l in keys for j in S[s, l]]
        out = {"sinks": mean([len(S[k]) for k in keys]),
               "with_sinks": mean([found(A[k], rule) for k in keys]),
               "share": mean([A[k][sorted(S[k])].sum() / A[k].sum() for k in keys]),
               "persistence": kept / before if before else None, "drift": mean(moves),
               "left": mean([float(m < 0) for m in moves]), "right": mean([float(m > 0) for m in moves])}
        for c in CLASSES:
            out[c] = classes.count(c) / len(classes) if classes else None
        return out

    by = [numbers([l]) for l in run.layers]
    return {"by_layer": {n: [b[n] for b in by] for n in by[0]}, "overall": numbers(run.layers),
            "sinks": [{"step": s, "layer": l, "positions": sorted(S[s, l])} for s in run.with_rows() for l in run.layers
                      if S[s, l]]}


def depth(run, steps=None):
    cells = {l: {n: [] for n in ["structure", "content", "gold"] + CLASSES[:-1]} for l in run.layers}
    for s in steps or run.with_rows():
        for l in run.layers:
            A = run.received(l, s)
            share = {c: 0.0 for c in CLASSES}
            for j in range(len(A)):
                share[token_class(run, s, j)] += A[j] / A.sum()
            cells[l]["structure"].append(1 - share["content"])
            cells[l]["content"].append(share["content"])
            if run.regions.get("gold"):
                cells[l]["gold"].append(sum(A[j] for j in run.regions["gold"] if j < len(A)) / A.sum())
            for c in CLASSES[:-1]:
                cells[l][c].append(share[c])
    return collect(run, cells)


def visible(run, i, j):
    if run.meta["attention"] == "block_causal":
        b = run.meta["model"]["block_length"]
        return j // b <= i // b
    return j <= i if run.causal else True


def qk_map(run, l, head=None):
    fin = run.latest()
    steps = sorted({s for s, _ in fin.values()})
    order = [(s, i, r) for s in steps for r, (t, i) in sorted(fin.items()) if t == s]
    K = max(run.get("k", s, l).shape[1] for s in steps)
    maps = np.full((3, len(order), K), np.nan)
    for n, (s, i, r) in enumerate(order):
        q, k = run.get("q", s, l), run.get("k", s, l)
        k = np.repeat(k, run.meta["model"]["n_head"] // k.shape[0], axis=0)  # one for each of the model's heads
        qv = q.mean(0)[i] if head is None else q[run.heads.index(head), i]
        kv = k[run.heads].mean(0) if head is None else k[head]
        for j in range(kv.shape[0]):
            if visible(run, r, j):
                norm = np.linalg.norm(qv) * np.linalg.norm(kv[j])
                maps[:, n, j] = qv @ kv[j], (qv @ kv[j]) / norm, norm
    return [r for _, _, r in order], maps


def advantage(maps, S):
    cols = np.array([j in S for j in range(maps.shape[2])])
    rows = []
    for qk, c, n in zip(*maps):
        a, o = cols & np.isfinite(qk), ~cols & np.isfinite(qk)
        if a.any() and o.any():
            Ca, Co, Na, No = c[a].mean(), c[o].mean(), n[a].mean(), n[o].mean()
            gain = qk[a].mean() - qk[o].mean()
            angle, norm = (Ca - Co) * (Na + No) / 2, (Na - No) * (Ca + Co) / 2
            rows.append([gain, angle, norm, gain - angle - norm, Ca - Co, Na - No])
    return np.mean(rows, axis=0) if rows else [None] * 6


def qk(run, rule="std:3", head=None):
    out = []
    for l in run.layers:
        S = anchors(run.received(l), rule)
        parts = [advantage(qk_map(run, l, h)[1], S) for h in (run.heads if head is None else [head])]
        out.append([mean([p[i] for p in parts]) for i in range(6)] + [found(run.received(l), rule)])
    names = ["qk_difference", "qk_difference_by_angle", "qk_difference_by_norm", "qk_difference_rest", "cos_difference",
             "norms_difference", "with_anchors"]
    by = {n: [o[i] for o in out] for i, n in enumerate(names)}
    return {"by_layer": by, "overall": {n: mean(v) for n, v in by.items()}}


def retrieval(run):
    gold, final, when = set(run.regions["gold"]), run.tokens[-1], run.a["unmask_step"]
    shift = 1 if run.meta["model"]["shift"] or run.causal else 0
    H = len(run.heads)
    scores = np.zeros((len(run.layers), H))
    for p in range(run.T):
        if when[p] < 0:
            continue
        s = int(when[p])
        rows = run.rows(s).tolist()
        if p - shift not in rows:
            continue
        for i, l in enumerate(run.layers):
            for h in range(H):
                j = int(run.get("attn", s, l)[h, rows.index(p - shift)].argmax())
                if j in gold and run.tokens[s, j] == final[p]:
                    scores[i, h] += 1 / len(gold)
    return {"scores": scores.tolist()}


def rollout(run):
    names = [r["name"] for r in run.meta["regions"]]
    R = np.eye(len(names))
    for l in run.layers:
        if run.reduce == "regions":
            A = sum(run.get("attn", s, l) for s in sorted({s for s, _ in run.latest().values()}))
        else:
            m = run.matrix(l)
            A = np.array([[m[np.ix_(run.regions[a], run.regions[b])].sum() for b in names] for a in names])
        with np.errstate(all="ignore"):
            A = np.nan_to_num(A / A.sum(1, keepdims=True)) + np.eye(len(names))
        R = (A / A.sum(1, keepdims=True)) @ R
    return {"regions": names, "flow": (R / R.sum(1, keepdims=True)).tolist()}


def compare(a, b, rule="std:3"):
    layers = [l for l in a.layers if l in b.layers]
    steps = [s for s in a.with_rows() if s in b.with_rows()]
    cells = {}
    for l in layers:
        cells[l] = {n: [] for n in ["received_distance", "pattern_distance", "anchors_kept", "anchors_lost",
                                    "anchors_gained", "overlap", "with_anchors_a", "with_anchors_b"]}
        for s in steps:
            A, B = a.received(l, s), b.received(l, s)
            n = max(len(A), len(B))
            pa, pb = (np.pad(x / x.sum(), (0, n - len(x))) for x in (A, B))
            Sa, Sb = anchors(A, rule), anchors(B, rule)
            c = cells[l]
            c["received_distance"].append(np.abs(pa - pb).sum() / 2)
            if "received" not in (a.reduce, b.reduce):
                ma, mb = (r.get("attn", s, l).mean(0) if r.reduce == "none" else r.get("attn", s, l) for r in (a, b))
                ra, rb = a.rows(s).tolist(), b.rows(s).tolist()
                K = max(ma.shape[1], mb.shape[1])
                ds = [np.abs(np.pad(ma[ra.index(r)], (0, K - ma.shape[1])) -
                             np.pad(mb[rb.index(r)], (0, K - mb.shape[1]))).sum() / 2 for r in ra if r in rb]
                c["pattern_distance"] += [float(np.mean(ds))] if ds else []
            c["anchors_kept"].append(len(Sa & Sb))
            c["anchors_lost"].append(len(Sa - Sb))
            c["anchors_gained"].append(len(Sb - Sa))
            c["overlap"].append(jaccard(Sa, Sb))
            c["with_anchors_a"].append(found(A, rule))
            c["with_anchors_b"].append(found(B, rule))
    a.layers = layers
    return collect(a, cells)


def bootstrap(values, seed=0):
    values = [v for v in values if v is not None and np.isfinite(v)]
    if len(values) < 2:
        return [None, None]
    bits = np.random.MT19937()
    bits._legacy_seeding(seed)
    draws = np.array([int(bits.random_raw()) for _ in range(2000 * len(values))], dtype=np.uint64)
    index = (draws * np.uint64(len(values))) >> np.uint64(32)
    means = np.array(values)[index.astype(int)].reshape(2000, -1).mean(1)
    return [float(np.percentile(means, 2.5)), float(np.percentile(means, 97.5))]
