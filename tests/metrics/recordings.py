"""Recordings of random numbers, as the recorder writes them."""
import json
import zipfile

import numpy as np

WORDS = ["<s>", " the", " cat", ",", " ", " sat", ".", "\n", " on", " a", " mat", "!", "<eos>", " dog", " ran", "?"]
MASK = 99


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def repeat_kv(k, n_head):
    return np.repeat(k, n_head // k.shape[0], axis=0)


class Spec:
    def __init__(self, **kw):
        self.seed, self.model, self.kind = 0, "random", "full"
        self.n_prompt, self.n_new, self.n_layer, self.n_head, self.n_head_kv, self.dim = 5, 6, 3, 4, 2, 8
        self.reduce, self.dtype, self.cache = "none", "f4", "none"
        self.taps = ["attn"]
        self.pattern = "random"  # random, uniform, one, or peaked
        self.layers = None
        self.heads = None  # recorded of n_head
        self.steps = None  # recorded of all
        self.rows = None  # positions recorded of all
        self.regions = None
        self.block_length = 0
        self.shift = False
        self.tokens = None  # of the finished sequence
        self.v_norm = None  # of each position; random
        self.__dict__.update(kw)


def visible(kind, block, row, n_keys):
    key = np.arange(n_keys)
    if kind == "causal":
        return key <= row
    if kind == "block_causal":
        return key // block <= row // block
    return key >= 0


def write(path, spec):
    rng = np.random.default_rng(spec.seed)
    T, P, H, G, D = spec.n_prompt + spec.n_new, spec.n_prompt, spec.n_head, spec.n_head_kv, spec.dim
    causal = spec.kind == "causal"
    S = max(spec.n_new, 1)
    steps = list(range(S)) if spec.steps is None else spec.steps
    layers = list(range(spec.n_layer)) if spec.layers is None else spec.layers
    final = np.array(spec.tokens if spec.tokens is not None else rng.integers(0, len(WORDS), T), dtype=np.int32)
    final[0] = 0 if spec.tokens is None else final[0]

    tokens = np.full((S + 1, T), -1, dtype=np.int32)
    unmask = np.full(T, -1, dtype=np.int32)
    order = np.arange(P, T) if causal else P + rng.permutation(spec.n_new)
    for i, p in enumerate(order):
        unmask[p] = i
    for s in range(S + 1):
        tokens[s, :P] = final[:P]
        for p in range(P, T):
            tokens[s, p] = final[p] if unmask[p] < s else (-1 if causal else MASK)
    confidence = np.full((S, T), np.nan, dtype=np.float32)
    for s in range(S):
        scored = [p for p in range(P, T) if unmask[p] >= s]
        confidence[s, scored] = rng.random(len(scored))

    arrays = {}
    regions = spec.regions or [["bos", [[0, 1]]], ["user", [[1, P]]], ["answer", [[P, T]]]]
    for s in range(S):
        K = (P + s) if causal else T
        if causal:
            rows = np.arange(P) if s == 0 else np.array([P + s - 1])
        elif spec.cache == "dual" and s % 3:
            rows = np.arange(P, T)[s % 2:]
        else:
            rows = np.arange(T)
        if spec.rows is not None:
            rows = rows[np.isin(rows, spec.rows)]
        if s not in steps:
            continue
        arrays[f"rows/step_{s:04d}.npy"] = rows.astype(np.int32)
        if len(rows) == 0:
            continue
        for l in layers:
            q = rng.standard_normal((H, len(rows), D))
            k = rng.standard_normal((G, K, D))
            k[:, rng.integers(0, K)] *= 3
            scores = np.einsum("hqd,hkd->hqk", q, repeat_kv(k, H)) / np.sqrt(D)
            if spec.pattern == "uniform":
                scores[:] = 0
            elif spec.pattern == "one":
                scores[:] = -1e9
                scores[:, :, 0] = 0
            elif spec.pattern == "peaked":
                scores[:, :, (s * 2 + l) % K] += 6
            mask = np.stack([visible(spec.kind, spec.block_length, r, K) for r in rows])
            scores = np.where(mask[None], scores, -np.inf)
            if spec.heads is not None:  # all of k stays
                q, scores = q[spec.heads], scores[spec.heads]
            pattern = softmax(scores)
            if spec.reduce == "heads":
                pattern = pattern.mean(0)
            elif spec.reduce == "received":
                pattern = pattern.mean(1)
            elif spec.reduce == "regions":
                mean = np.zeros((T, T))
                mean[np.ix_(rows, np.arange(K))] = pattern.mean(0)
                sets = [sum([list(range(a, b)) for a, b in spans], []) for _, spans in regions]
                pattern = np.array([[mean[np.ix_(a, b)].sum() for b in sets] for a in sets])
            where = f"step_{s:04d}/layer_{l:02d}.npy"
            data = {"attn": pattern, "q": q, "k": k, "scores": scores}
            if "v_norm" in spec.taps:
                data["v_norm"] = np.abs(rng.standard_normal((G, K))) if spec.v_norm is None else np.tile(spec.v_norm[:K], (G, 1))
            for tap in spec.taps:
                arrays[f"{tap}/{where}"] = data[tap].astype(spec.dtype)
    arrays["tokens.npy"] = tokens
    arrays["unmask_step.npy"] = unmask
    arrays["confidence.npy"] = confidence

    pieces = WORDS + ["?"] * (MASK - len(WORDS)) + ["<mask>"]
    meta = {
        "format": "buoy-recording", "format_version": 1, "version": "test", "complete": True,
        "model": {"path": "/m/x.gguf", "name": spec.model, "arch": "test", "diffusion": not causal,
                  "shift": spec.shift or causal, "mask_id": -1 if causal else MASK,
                  "block_length": spec.block_length or None, "n_head": H, "n_head_kv": G, "head_dim": D},
        "attention": spec.kind, "settings": {}, "seed": 0, "single_pass": False, "prompt": "the cat", "n_prompt": P,
        "n_positions": T, "n_steps": S, "special_ids": [0, 12, MASK],
        "recorded": {"taps": spec.taps, "reduce": spec.reduce, "dtype": spec.dtype, "layers": layers,
                     "heads": "all" if spec.heads is None else spec.heads, "rows": "all" if spec.rows is None else spec.rows, "steps": steps},
        "regions": [{"name": n, "spans": s} for n, s in regions],
        "pieces": [pieces[i] for i in final],
    }
    with zipfile.ZipFile(path, "w") as z:
        for name, value in arrays.items():
            with z.open(name, "w") as f:
                np.lib.format.write_array(f, np.ascontiguousarray(value))
        z.writestr("meta.json", json.dumps(meta))
