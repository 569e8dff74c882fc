"""check.py PROGRAM DIRECTORY [RUN.npz …]: what the program says of recordings, those given or random ones, is what the Python
package computes from the definitions, with numpy alone."""
import json
import subprocess
import sys

import numpy as np

from buoy import Recording, RecordingError, metrics
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


def mean(values):
    there = [v for v in values if np.isfinite(v)]
    return float(np.mean(there)) if there else None


def bootstrap(values, seed=0):
    values = [v for v in values if np.isfinite(v)]
    if len(values) < 2:
        return [None, None]
    bits = np.random.MT19937()
    bits._legacy_seeding(seed)
    draws = np.array([int(bits.random_raw()) for _ in range(2000 * len(values))], dtype=np.uint64)
    index = (draws * np.uint64(len(values))) >> np.uint64(32)
    means = np.array(values)[index.astype(int)].reshape(2000, -1).mean(1)
    return [float(np.percentile(means, 2.5)), float(np.percentile(means, 97.5))]


def check(path):
    r = Recording(path)
    one = lambda *args: run(*args[:1], path, *args[1:])["recordings"][0]
    if r.reduce != "regions":
        try:
            r.temporal()
        except RecordingError as error:
            assert "--attn-reduce heads" in str(error), error
            for metric in ["absorption", "temporal", "floating", "sinks", "depth"]:
                p = subprocess.run([PROGRAM, metric, path], capture_output=True, text=True)
                assert p.returncode == 1 and "--attn-reduce heads" in p.stderr, (metric, p.returncode, p.stderr)
            return
        same(one("absorption"), metrics.absorption(r), [path, "absorption"])
        for rule in ["auto", "code", "std:1.5", "bos", "top-k:3", "above:0.01", "above:3"]:
            same(one("absorption", "--rule", rule), metrics.absorption(r, rule), [path, "absorption", rule])
        for step in [r.steps[0], r.steps[len(r.steps) // 2], r.steps[-1]]:
            same(one("absorption", "--step", str(step)), metrics.absorption(r, step=step), [path, "absorption", step])
        same(one("depth", "--step", str(r.steps[-1])), metrics.depth(r, r.steps[-1:]), [path, "depth", "step"])
        same(one("temporal"), metrics.temporal(r), [path, "temporal"])
        l = r.layers[-1]
        same(one("temporal", "--layer", str(l), "--rule", "std:1"), metrics.temporal(r, "std:1", [l]), [path, "temporal", l])
        for rule in ["std:3", "std:1.5", "code", "bos"]:
            same(one("floating", "--rule", rule), metrics.floating(r, rule), [path, "floating", rule])
            same(one("sinks", "--rule", rule), metrics.sinks(r, rule), [path, "sinks", rule])
        same(one("depth"), metrics.depth(r), [path, "depth"])
        same(one("targets"), metrics.targets(r), [path, "targets"])
    if r.reduce in ("none", "heads"):
        same(one("drift"), metrics.drift(r), [path, "drift"])
    if r.reduce in ("none", "received") and "v_norm" in r.meta["recorded"]["taps"]:
        for rule in ["std:3", "std:1", "bos", "code"]:
            same(one("norms", "--rule", rule), metrics.norms(r, rule), [path, "norms", rule])
    if r.reduce != "received":
        same(one("rollout"), metrics.rollout(r), [path, "rollout"])
    if "q" in r.meta["recorded"]["taps"] and r.reduce != "regions":
        same(one("qk"), metrics.qk(r), [path, "qk"])
        same(one("qk", "--rule", "std:1"), metrics.qk(r, "std:1"), [path, "qk", "std:1"])
        same(one("qk", "--head", str(r.heads[-1])), metrics.qk(r, head=r.heads[-1]), [path, "qk", "head"])
        for head in [None, r.heads[0]]:
            ours = one("qk", "--layer", str(r.layers[0]), *([] if head is None else ["--head", str(head)]))
            rows, maps = metrics.qk_maps(r, r.layers[0], head)
            assert ours["queries"] == rows, (ours["queries"], rows)
            same(ours["maps"], dict(zip(["qk", "cos", "norms"], maps.tolist())), [path, "maps", head])
    if r.reduce == "none" and any(region.name == "gold" for region in r.regions):
        same(one("retrieval", "--min-recall", "-1"), metrics.retrieval(r), [path, "retrieval"])


def check_many(paths):
    for metric in ["absorption", "floating"]:
        out = run(metric, *paths, "--label", "a", "--label", "a", "--label", "b")
        theirs = [getattr(metrics, metric)(Recording(p)) for p in paths]
        for model, group in [("a", theirs[:2]), ("b", theirs[2:])]:
            ours = next(m for m in out["models"] if m["model"] == model)
            for name in group[0]["overall"]:
                values = [g["overall"][name] for g in group]
                there = [v for v in values if np.isfinite(v)]
                same(ours["overall"][name], {"mean": mean(values), "interval": bootstrap(values),
                                             "deviation": float(np.std(there, ddof=1)) if len(there) > 1 else 0.0},
                     [metric, model, name])
            for name in group[0]["by_layer"]:
                values = [g["by_layer"][name] for g in group]
                same(ours["by_layer"][name]["mean"], [mean(v) for v in zip(*values)], [metric, model, name])


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
        "norms": Spec(taps=taps + ["v_norm"], seed=23), "ar-norms": Spec(kind="causal", taps=taps + ["v_norm"], seed=24),
        "received-norms": Spec(reduce="received", taps=["attn", "v_norm"], heads=[1, 3], seed=25),
        "dual-norms": Spec(cache="dual", taps=["attn", "v_norm"], pattern="peaked", seed=26),
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
        same(run("compare", paths[a], paths[b])["recordings"][0], metrics.compare(Recording(paths[a]), Recording(paths[b])), [a, b])
        same(run("compare", paths[a], paths[b], "--rule", "std:1.2")["recordings"][0],
             metrics.compare(Recording(paths[a]), Recording(paths[b]), "std:1.2"), [a, b, "std:1.2"])


def check_by_hand():
    """Two given tokens and two masks, written one by one: what a query sends to the four keys, evenly or to the first of them."""
    even, first = f"{DIR}/hand-even.npz", f"{DIR}/hand-first.npz"
    write(even, Spec(n_prompt=2, n_new=2, pattern="uniform"))
    write(first, Spec(n_prompt=2, n_new=2, pattern="one"))
    same(run("targets", even)["recordings"][0]["overall"],
         {"prompt": 1 / 2, "written": (0 + 1 / 4) / 2, "masks": (2 / 4 + 1 / 4) / 2,
          "distance": (6 / 4 + 4 / 4 + 4 / 4 + 6 / 4) / 4}, ["even"])
    same(run("targets", first)["recordings"][0]["overall"],
         {"prompt": 1.0, "written": 0.0, "masks": 0.0, "distance": (0 + 1 + 2 + 3) / 4}, ["first"])
    # two keys that receive the same; the value of the first is half as long as the other
    sink = f"{DIR}/hand-sink.npz"
    write(sink, Spec(n_prompt=1, n_new=1, n_layer=1, pattern="uniform", taps=["attn", "v_norm"], v_norm=[1.0, 2.0]))
    same(run("norms", sink, "--rule", "bos")["recordings"][0]["overall"],
         {"anchor_norm": 1.0, "other_norm": 2.0, "norm_ratio": 1 / 2, "share": 1 / 2, "weighted_share": 1 / 3, "with_anchors": None}, ["sink"])
    for path in [even, first]:
        same(run("drift", path)["recordings"][0]["overall"],
             {"pattern_distance": 0.0, "head_similarity": 1.0, "key_change": None, "value_norm_change": None}, [path])


for path in sys.argv[3:]:
    check(path)
if not sys.argv[3:]:
    check_random()
    check_by_hand()
print(n_compared, "numbers")
