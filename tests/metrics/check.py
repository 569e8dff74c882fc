"""check.py PROGRAM DIRECTORY [RUN.npz …]: what the program says of recordings, those given or random ones, is what
reference.py computes."""
import json
import subprocess
import sys

import numpy as np

import reference as ref
from recordings import Spec, write

PROGRAM, DIR = sys.argv[1:3]
TOLERANCE = 1e-6
n_compared = 0


def run(*args):
    p = subprocess.run([PROGRAM, *args, "--json"], capture_output=True, text=True)
    assert p.returncode == 0, (args, p.returncode, p.stderr)
    return json.loads(p.stdout)


def same(ours, theirs, where):
    global n_compared
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            assert key in ours, (where, key, sorted(ours))
            same(ours[key], value, where + [key])
    elif isinstance(theirs, (list, tuple, np.ndarray)):
        assert len(ours) == len(theirs), (where, ours, theirs)
        for i, (a, b) in enumerate(zip(ours, theirs)):
            same(a, b, where + [i])
    elif theirs is None or (isinstance(theirs, float) and np.isnan(theirs)):
        assert ours is None, (where, ours)
    else:
        assert ours is not None and abs(ours - theirs) <= TOLERANCE * max(1.0, abs(theirs)) if not isinstance(
            theirs, str) else ours == theirs, (where, ours, theirs)
        n_compared += 1


def check(path):
    r = ref.Run(path)
    one = lambda *args: run(*args[:1], path, *args[1:])["recordings"][0]
    if r.reduce != "regions":
        if r.reduce == "received" and r.partly():
            for metric in ["absorption", "temporal", "floating", "sinks", "depth"]:
                p = subprocess.run([PROGRAM, metric, path], capture_output=True, text=True)
                assert p.returncode == 1 and "--attn-reduce heads" in p.stderr, (metric, p.returncode, p.stderr)
            return
        same(one("absorption"), ref.absorption(r), [path, "absorption"])
        for rule in ["auto", "code", "std:1.5", "bos", "top-k:3", "above:0.01", "above:3"]:
            same(one("absorption", "--rule", rule), ref.absorption(r, rule), [path, "absorption", rule])
        for step in [r.steps[0], r.steps[len(r.steps) // 2], r.steps[-1]]:
            same(one("absorption", "--step", str(step)), ref.absorption(r, step=step), [path, "absorption", step])
        same(one("depth", "--step", str(r.steps[-1])), ref.depth(r, r.steps[-1:]), [path, "depth", "step"])
        same(one("temporal"), ref.temporal(r), [path, "temporal"])
        l = r.layers[-1]
        same(one("temporal", "--layer", str(l), "--rule", "std:1"), ref.temporal(r, "std:1", [l]), [path, "temporal", l])
        for rule in ["std:3", "std:1.5", "code", "bos"]:
            same(one("floating", "--rule", rule), ref.floating(r, rule), [path, "floating", rule])
            same(one("sinks", "--rule", rule), ref.sinks(r, rule), [path, "sinks", rule])
        same(one("depth"), ref.depth(r), [path, "depth"])
    if r.reduce != "received":
        same(one("rollout"), ref.rollout(r), [path, "rollout"])
    if "q" in r.meta["recorded"]["taps"] and r.reduce != "regions":
        same(one("qk"), ref.qk(r), [path, "qk"])
        same(one("qk", "--rule", "std:1"), ref.qk(r, "std:1"), [path, "qk", "std:1"])
        same(one("qk", "--head", str(r.heads[-1])), ref.qk(r, head=r.heads[-1]), [path, "qk", "head"])
        for head in [None, r.heads[0]]:
            ours = one("qk", "--layer", str(r.layers[0]), *([] if head is None else ["--head", str(head)]))
            rows, maps = ref.qk_map(r, r.layers[0], head)
            assert ours["queries"] == rows, (ours["queries"], rows)
            same(ours["maps"], dict(zip(["qk", "cos", "norms"], maps.tolist())), [path, "maps", head])
    if r.reduce == "none" and r.regions.get("gold"):
        same(one("retrieval", "--min-recall", "-1"), ref.retrieval(r), [path, "retrieval"])


def check_many(paths):
    for metric in ["absorption", "floating"]:
        out = run(metric, *paths, "--label", "a", "--label", "a", "--label", "b")
        theirs = [getattr(ref, metric)(ref.Run(p)) for p in paths]
        for model, group in [("a", theirs[:2]), ("b", theirs[2:])]:
            ours = next(m for m in out["models"] if m["model"] == model)
            for name in group[0]["overall"]:
                values = [g["overall"][name] for g in group]
                there = [v for v in values if v is not None]
                same(ours["overall"][name], {"mean": ref.mean(values), "interval": ref.bootstrap(values),
                                             "deviation": float(np.std(there, ddof=1)) if len(there) > 1 else 0.0},
                     [metric, model, name])
            for name in group[0]["by_layer"]:
                values = [g["by_layer"][name] for g in group]
                same(ours["by_layer"][name]["mean"], [ref.mean(v) for v in zip(*values)], [metric, model, name])


def check_random():
    gold = [["bos", [[0, 1]]], ["query", [[1, 3]]], ["gold", [[3, 5]]], ["answer", [[5, 11]]]]
    few = [0, 1, 2, 5, 13, 5, 13, 5, 13, 5, 13]
    taps = ["attn", "q", "k"]
    specs = {
        "full": Spec(taps=taps, pattern="peaked"), "seed": Spec(seed=1), "heads": Spec(reduce="heads", seed=2),
        "received": Spec(reduce="received", seed=3), "regions": Spec(reduce="regions", seed=4),
        "dual": Spec(cache="dual", seed=5, taps=taps), "dual-received": Spec(cache="dual", seed=5, reduce="received"),
        "dual-heads": Spec(cache="dual", seed=6, reduce="heads", dtype="f2"),
        "some-steps": Spec(cache="dual", steps=[1, 3, 4], seed=20), "rows": Spec(kind="causal", rows=[2, 3, 4, 7], seed=21),
        "block-cache": Spec(kind="block_causal", block_length=4, cache="dual", n_new=9, seed=22, taps=taps),
        "ar": Spec(kind="causal", taps=taps, seed=7), "ar-received": Spec(kind="causal", reduce="received", seed=8),
        "ar-heads": Spec(kind="causal", reduce="heads", dtype="f2", seed=9),
        "ar-regions": Spec(kind="causal", reduce="regions", seed=10),
        "block": Spec(kind="block_causal", block_length=4, taps=taps, seed=11),
        "shift": Spec(shift=True, regions=gold, tokens=few, pattern="peaked", seed=12),
        "gold": Spec(regions=gold, tokens=few, pattern="peaked", n_head_kv=4, taps=taps, seed=13),
        "gold-ar": Spec(kind="causal", regions=gold, tokens=few, seed=14),
        "half": Spec(dtype="f2", taps=taps, seed=15), "layers": Spec(layers=[1, 2], n_layer=3, seed=16),
        "one-head": Spec(heads=[3], taps=taps, seed=17), "two-heads": Spec(heads=[1, 2], taps=taps, seed=18),
        "three-heads": Spec(heads=[0, 4, 5], n_head=6, n_head_kv=3, regions=gold, tokens=few, taps=taps, seed=19),
        "one-token": Spec(n_prompt=1, n_new=0, taps=taps, regions=[["bos", [[0, 1]]]]),
        "one-new": Spec(n_prompt=1, n_new=1), "one-layer": Spec(n_layer=1, taps=taps),
        "uniform": Spec(pattern="uniform", taps=taps), "one-key": Spec(pattern="one", taps=taps),
        "ar-one": Spec(kind="causal", n_prompt=1, n_new=3, pattern="one"),
        "wide": Spec(n_prompt=40, n_new=12, n_layer=4, pattern="peaked", reduce="heads"),
    }
    paths = {}
    for name, spec in specs.items():
        paths[name] = f"{DIR}/{name}.npz"
        write(paths[name], spec)
        check(paths[name])
    check_many([paths["full"], paths["heads"], paths["ar"]])
    check_many([paths["ar"], paths["ar-received"], paths["wide"]])
    for a, b in [("full", "seed"), ("heads", "full"), ("received", "full"), ("ar", "ar-heads"), ("layers", "full"),
                 ("dual", "full"), ("dual", "dual-heads"), ("some-steps", "dual"), ("block-cache", "block")]:
        same(run("compare", paths[a], paths[b])["recordings"][0], ref.compare(ref.Run(paths[a]), ref.Run(paths[b])), [a, b])
        same(run("compare", paths[a], paths[b], "--rule", "std:1.2")["recordings"][0],
             ref.compare(ref.Run(paths[a]), ref.Run(paths[b]), "std:1.2"), [a, b, "std:1.2"])


for path in sys.argv[3:]:
    check(path)
if not sys.argv[3:]:
    check_random()
print(n_compared, "numbers")
