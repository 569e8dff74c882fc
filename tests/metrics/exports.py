"""exports.py PROGRAM DIRECTORY [RUN.npz …]: exports of these, or of random recordings, opened the way their readers do; the
metrics once more from what is in them."""
import csv
import json
import subprocess
import sys

import numpy as np

from buoy import Recording, find_anchors, metrics
from recordings import Spec, write

PROGRAM, DIR = sys.argv[1:3]


def is_causal(r):
    return r.meta["attention"] == "causal"


def close(a, b, tolerance=1e-6):
    np.testing.assert_allclose(np.array(a, dtype=float), np.array(b, dtype=float), rtol=tolerance, atol=tolerance)


def export(path, form, out, *more):
    p = subprocess.run([PROGRAM, "export", path, "--format", form, "-o", out, *more], capture_output=True, text=True)
    assert p.returncode == 0 and not p.stdout, (path, form, p.returncode, p.stderr)


def program(*args):
    return json.loads(subprocess.check_output([PROGRAM, *args, "--json"]))["recordings"][0]


def check_figures(path, r, d, same_k):
    """Absorption, temporal and QK from the arrays alone, as the authors' scripts have them, against llama-attention."""
    absorbed = []
    for l in r.layers:
        full = d[f"layer_{l}_full_attention"]
        A = full[full.sum(1) > 0].mean(0)  # rows that were never computed are zero
        absorbed.append(100 * (A[0] if is_causal(r) else A.max()) / A.sum())
    close(absorbed, program("absorption", path, "--rule", "auto")["by_layer"]["absorption"], 1e-5)
    temporal = program("temporal", path)
    for one, ours in zip(d["step_attention_data"], temporal["received"], strict=True):
        maps = [one[f"layer_{l}_attention_avg"] for l in r.layers]
        close(np.mean([m[m.sum(1) > 0].mean(0) for m in maps], axis=0), ours)
    if "layer_0_query_states" not in d or not same_k:
        return 0
    for l in r.layers:
        q, k = d[f"layer_{l}_query_states"], d[f"layer_{l}_key_states"]
        assert q.shape == (len(r.heads), r.meta["n_positions"], r.meta["model"]["head_dim"]) and q.shape[0] % k.shape[0] == 0
        k = np.repeat(k, q.shape[0] // k.shape[0], axis=0)
        for head in [None, *range(len(r.heads))]:
            ours = program("qk", path, "--layer", str(l), *([] if head is None else ["--head", str(r.heads[head])]))
            qv, kv = (x.mean(0) if head is None else x[head] for x in (q, k))
            qk, norms = qv @ kv.T, np.linalg.norm(qv, axis=1)[:, None] * np.linalg.norm(kv, axis=1)
            maps = np.array([ours["maps"][name] for name in ["qk", "cos", "norms"]], dtype=float)
            for got, want in zip(maps, [qk, qk / np.where(norms > 0, norms, 1), norms]):
                want = want[ours["queries"], :got.shape[1]]
                close(got[np.isfinite(got)], want[np.isfinite(got)], 1e-4)
                assert np.isfinite(got).sum() > 0
    return 1


def check_neuir(path, r, out, same_k):
    m = r.meta
    export(path, "neuir", out)
    d = np.load(out, allow_pickle=True)
    T, P = r.meta["n_positions"], m["n_prompt"]
    assert int(d["input_length"]) == P and int(d["num_generated_tokens"]) == T - P
    assert str(d["question"]) == m["prompt"] and d["answer_tokens"].tolist() == r.tokens[-1, P:].tolist()
    assert str(d["gold_answer"]) == "".join(m["pieces"][j] for region in r.regions if region.name == "gold" for j in region.positions())
    rule = "bos" if is_causal(r) else "code"
    ours, theirs = metrics.absorption(r, "auto"), []
    for i, l in enumerate(r.layers):
        full = d[f"layer_{l}_full_attention"]
        assert full.shape == (T, T) and full.dtype == np.float32
        close(full, r.matrix(l))
        A = full[sorted({int(row) for s in r.steps for row in r.rows(s)})].mean(0)
        theirs.append(100 * A[find_anchors(A, rule)].sum() / A.sum())
        assert (f"layer_{l}_full_attention_heads" in d) == (r.reduce == "none")
        if r.reduce == "none":
            close(d[f"layer_{l}_full_attention_heads"].mean(0), full)
    close(theirs, ours["by_layer"]["absorption"], 1e-5)
    steps = d["step_attention_data"]
    assert steps.dtype == object and steps.shape == (len(r.steps),)
    for s, one in zip(r.steps, steps):
        assert type(one) is dict and type(one["step"]) is int and one["step"] == s
        K = r.get("attn", s, r.layers[0]).shape[-1]
        assert one["sequence"].tolist() == r.tokens[s, :K].tolist()
        for l in r.layers:
            avg = one[f"layer_{l}_attention_avg"]
            assert avg.shape == (K, K)
            close(avg, r.matrix(l, s)[:K, :K])
    return check_figures(path, r, d, same_k)


def check_others(path, r, out):
    export(path, "npz", out + ".npz")
    d = np.load(out + ".npz")
    assert d["received"].shape == (len(r.steps), len(r.layers), r.meta["n_positions"])
    for i, s in enumerate(r.steps):
        for j, l in enumerate(r.layers):
            A = r.received(l, s)
            close(d["received"][i, j, :len(A)], A)
            assert np.isnan(d["received"][i, j, len(A):]).all()
    np.testing.assert_array_equal(d["confidence"], r.confidence)
    assert json.loads(d["meta.json"])["n_steps"] == r.meta["n_steps"]

    export(path, "csv", out + ".csv")
    rows = list(csv.DictReader(open(out + ".csv", newline="")))
    want = [(s, l, j, v) for s in r.steps for l in r.layers for j, v in enumerate(r.received(l, s))]
    assert [(int(x["step"]), int(x["layer"]), int(x["position"])) for x in rows] == [w[:3] for w in want]
    close([float(x["received"]) for x in rows], [w[3] for w in want])
    assert [x["piece"] for x in rows[:r.meta["n_positions"]]] == [r.meta["pieces"][w[2]] for w in want[:r.meta["n_positions"]]]

    if r.reduce in ("none", "heads"):
        export(path, "bertviz", out + ".json", "--layers", str(r.layers[0]))
        j = json.load(open(out + ".json"))
        assert j["tokens"] == r.meta["pieces"] and j["layers"] == r.layers[:1]
        assert np.array(j["attention"]).shape == (1, len(r.heads) if r.reduce == "none" else 1, r.meta["n_positions"], r.meta["n_positions"])
        close(np.mean(j["attention"][0], axis=0), r.matrix(r.layers[0]))


def main():
    gold = [["bos", [[0, 1]]], ["gold", [[3, 5]]], ["answer", [[5, 11]]]]
    specs = {
        "full": Spec(taps=["attn", "q", "k"], regions=gold), "heads": Spec(reduce="heads", dtype="f2"),
        "ar": Spec(kind="causal", taps=["attn", "q", "k"]), "dual": Spec(cache="dual", reduce="heads"),
        "some": Spec(taps=["attn", "q", "k"], heads=[0, 2, 3], n_head=6, n_head_kv=3),
        "received": Spec(reduce="received"), "one": Spec(n_prompt=1, n_new=0, regions=[["bos", [[0, 1]]]]),
    }
    given = sys.argv[3:]
    paths = {path: None for path in given} or {f"{DIR}/x-{name}.npz": spec for name, spec in specs.items()}
    n_figures = 0
    for i, (path, spec) in enumerate(paths.items()):
        if spec:
            write(path, spec)
        r = Recording(path)
        # random recordings that compute some rows have other keys in every pass, real ones with causal attention never
        same_k = not spec or not is_causal(r) and spec.cache == "none"
        if r.reduce != "received":
            n_figures += check_neuir(path, r, f"{DIR}/{i}_attentions.npz", same_k)
        check_others(path, r, f"{DIR}/{i}-out")
    assert n_figures == (len(given) or 2), n_figures
    print(len(paths), "exports")


main()
