"""exports.py PROGRAM DIRECTORY: exports opened the way their readers do; the metrics once more from what is in them."""
import csv
import json
import subprocess
import sys

import numpy as np

import reference as ref
from recordings import Spec, write

PROGRAM, DIR = sys.argv[1:3]


def close(a, b, tolerance=1e-6):
    np.testing.assert_allclose(np.array(a, dtype=float), np.array(b, dtype=float), rtol=tolerance, atol=tolerance)


def export(path, form, out, *more):
    p = subprocess.run([PROGRAM, "export", path, "--format", form, "-o", out, *more], capture_output=True, text=True)
    assert p.returncode == 0 and not p.stdout, (path, form, p.returncode, p.stderr)


def check_neuir(path, r, out):
    m = r.meta
    export(path, "neuir", out)
    d = np.load(out, allow_pickle=True)
    T, P = r.T, m["n_prompt"]
    assert int(d["input_length"]) == P and int(d["num_generated_tokens"]) == T - P
    assert str(d["question"]) == m["prompt"] and d["answer_tokens"].tolist() == r.tokens[-1, P:].tolist()
    assert str(d["gold_answer"]) == "".join(m["pieces"][j] for j in r.regions.get("gold", []))
    rule = "bos" if r.causal else "code"
    ours, theirs = ref.absorption(r), []
    for i, l in enumerate(r.layers):
        full = d[f"layer_{l}_full_attention"]
        assert full.shape == (T, T) and full.dtype == np.float32
        close(full, r.finished_matrix(l))
        A = full[sorted(r.finished())].mean(0)
        theirs.append(100 * A[sorted(ref.anchors(A, rule))].sum() / A.sum())
        assert (f"layer_{l}_full_attention_heads" in d) == (r.reduce == "none")
        if r.reduce == "none":
            close(d[f"layer_{l}_full_attention_heads"].mean(0), full)
        if "q" in m["recorded"]["taps"] and not r.causal and "dual" not in path:
            q, k = d[f"layer_{l}_query_states"], d[f"layer_{l}_key_states"]
            assert q.shape[0] == m["model"]["n_head"] and k.shape[0] == m["model"]["n_head_kv"]
            close(q.mean(0) @ k.mean(0).T, ref.qk_map(r, l)[1][0], 1e-4)
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
            close(avg[r.rows(s)].mean(0), r.received(s, l))


def check_others(path, r, out):
    export(path, "npz", out + ".npz")
    d = np.load(out + ".npz")
    assert d["received"].shape == (len(r.steps), len(r.layers), r.T)
    for i, s in enumerate(r.steps):
        for j, l in enumerate(r.layers):
            A = r.received(s, l)
            close(d["received"][i, j, :len(A)], A)
            assert np.isnan(d["received"][i, j, len(A):]).all()
    np.testing.assert_array_equal(d["confidence"], r.a["confidence"])
    assert json.loads(d["meta.json"])["n_steps"] == r.S

    export(path, "csv", out + ".csv")
    rows = list(csv.DictReader(open(out + ".csv", newline="")))
    want = [(s, l, j, v) for s in r.steps for l in r.layers for j, v in enumerate(r.received(s, l))]
    assert [(int(x["step"]), int(x["layer"]), int(x["position"])) for x in rows] == [w[:3] for w in want]
    close([float(x["received"]) for x in rows], [w[3] for w in want])
    assert [x["piece"] for x in rows[:r.T]] == [r.meta["pieces"][w[2]] for w in want[:r.T]]

    if r.reduce in ("none", "heads"):
        export(path, "bertviz", out + ".json", "--layers", str(r.layers[0]))
        j = json.load(open(out + ".json"))
        assert j["tokens"] == r.meta["pieces"] and j["layers"] == r.layers[:1]
        assert np.array(j["attention"]).shape == (1, r.meta["model"]["n_head"] if r.reduce == "none" else 1, r.T, r.T)
        close(np.mean(j["attention"][0], axis=0), r.finished_matrix(r.layers[0]))


def main():
    gold = [["bos", [[0, 1]]], ["gold", [[3, 5]]], ["answer", [[5, 11]]]]
    specs = {
        "full": Spec(taps=["attn", "q", "k"], regions=gold), "heads": Spec(reduce="heads", dtype="f2"),
        "ar": Spec(kind="causal", taps=["attn", "q", "k"]), "dual": Spec(cache="dual", reduce="heads"),
        "received": Spec(reduce="received"), "one": Spec(n_prompt=1, n_new=0, regions=[["bos", [[0, 1]]]]),
    }
    for name, spec in specs.items():
        path = f"{DIR}/x-{name}.npz"
        write(path, spec)
        r = ref.Run(path)
        if r.reduce != "received":
            check_neuir(path, r, f"{DIR}/{name}_attentions.npz")
        check_others(path, r, f"{DIR}/{name}-out")
    print(len(specs), "exports")


main()
