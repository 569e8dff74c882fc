"""Pages without a browser: the numbers they carry are the recording's, and no more of them than was asked for."""
import os
import sys

import numpy as np

import recordings
from pages import Page, Recorded, change_meta, make, run, write_hostile

program, folder = sys.argv[1], sys.argv[2]
checked = 0


def path(name):
    return os.path.join(folder, name)


def record(name, **kw):
    recordings.write(path(name), recordings.Spec(**kw))
    return path(name)


def near(values, slack, expected):
    global checked
    assert values.shape == expected.shape, (values.shape, expected.shape)
    assert np.array_equal(np.isnan(values), np.isnan(expected))
    worst = np.nanmax(np.abs(values - expected) - slack)
    assert worst <= 1e-6, worst
    checked += values.size


def as_recorded(name, **kw):
    """Nothing is reduced: every matrix is there."""
    source = record(name + ".npz", **kw)
    notes = make(program, path(name + ".html"), source)
    assert notes == "", notes
    page, rec = Page(path(name + ".html")), Recorded(source)
    info = page.runs[0]
    assert info["reduced"] == [] and info["pool"] == 1 and info["layers"] == rec.layers
    assert [s["step"] for s in info["steps"]] == rec.steps
    for s, step in enumerate(rec.steps):
        rows = [r for a, b in info["steps"][s]["rows"] for r in range(a, b + 1)]
        assert rows == ([] if rec.reduce in ("received", "regions") else rec.rows(step))
        for l, layer in enumerate(rec.layers):
            expected = rec.attn(step, layer)
            shape = {"none": expected.shape, "received": (expected.shape[0], 1, expected.shape[-1])}.get(rec.reduce, (1, *expected.shape))
            near(*page.matrix(0, s, l), expected.reshape(shape))
    ids = np.array(info["first"])
    for step, changed in enumerate(info["changes"]):
        assert np.array_equal(ids, rec.tokens[step])
        ids[changed[::2]] = changed[1::2]
    assert np.array_equal(ids, rec.tokens[-1])
    return page


as_recorded("none", heads=[1, 3])
assert as_recorded("heads", reduce="heads", dtype="f2").runs[0]["heads"] is None
assert as_recorded("received", reduce="received").runs[0]["heads"] == [0, 1, 2, 3]
as_recorded("regions", reduce="regions")
as_recorded("causal", kind="causal", shift=True)
as_recorded("cached", reduce="heads", cache="dual", layers=[0, 2])
as_recorded("one", n_prompt=1, n_new=0, n_layer=1, n_head=1, n_head_kv=1)

# smaller: first the heads go
source = record("big.npz", n_prompt=40, n_new=24, n_layer=10, n_head=4)
rec = Recorded(source)
whole = 24 * 10 * 4 * 64 * 68 * 4 // 3
limit = whole // 3
notes = make(program, path("big.html"), source, flags=["--max-size", str(limit)])
page = Page(path("big.html"))
assert len(page.matrices[0]) <= limit and "mean over 4 heads" in notes, notes
assert page.runs[0]["layers"] == rec.layers and len(page.runs[0]["steps"]) == 24
values, slack = page.matrix(0, 7, 3)
near(values, slack, rec.attn(7, 3).mean(0)[None])

# then steps and layers
notes = make(program, path("big.html"), source, flags=["--max-size", str(whole // 8)])
page = Page(path("big.html"))
assert len(page.matrices[0]) <= whole // 8 and page.runs[0]["pool"] == 1
kept = [s["step"] for s in page.runs[0]["steps"]]
assert 12 <= len(kept) < 24 and kept[0] == 0 and kept[-1] == 23 and f"{len(kept)} steps out of 24" in notes, notes
near(*page.matrix(0, 1, 1), rec.attn(kept[1], page.runs[0]["layers"][1]).mean(0)[None])

# then positions are pooled: rows to their mean, columns to their sum
notes = make(program, path("big.html"), source, flags=["--max-size", "64K"])
page = Page(path("big.html"))
pool = page.runs[0]["pool"]
assert len(page.matrices[0]) <= 65536 and pool > 1 and f"Every {pool} neighbouring" in notes, notes
mean = rec.attn(0, page.runs[0]["layers"][0]).mean(0)
starts = np.arange(0, 64, pool)
counts = np.diff(np.append(starts, 64))
expected = np.add.reduceat(np.add.reduceat(mean, starts, 0) / counts[:, None], starts, 1)
near(*page.matrix(0, 0, 0), expected[None])

for size in ["2K", "300"]:
    make(program, path("tiny.html"), source, flags=["--max-size", size])
    assert len(Page(path("tiny.html")).matrices[0]) <= (2048 if size == "2K" else 300)
assert run(program, source, "-o", path("no.html"), "--max-size", "4")[0] == 1 and not os.path.exists(path("no.html"))

# two recordings share the bytes; what one does not need the other has
small = record("small.npz", reduce="heads")
make(program, path("both.html"), source, small, flags=["--max-size", str(limit)])
page = Page(path("both.html"))
assert sum(map(len, page.matrices)) <= limit and page.runs[1]["reduced"] == [] and len(page.matrices[0]) > limit // 2

# a figure of what only one of them has
make(program, path("half.html"), small, path("regions.npz"))
html = Page(path("half.html")).html
assert html.count('id="metric-absorption"') == 1 and "regions.npz: absorption needs" in html
assert html.count('id="metric-rollout"') == 1

# no text of a recording is code, and nothing of this machine is on the page
write_hostile(path("hostile.npz"), reduce="heads")
make(program, path("hostile.html"), path("hostile.npz"))
html = Page(path("hostile.html")).html
for bad in ["<img", "<svg onload", "<b>", folder, "http://", "https://", "src=\"", "url("]:
    found = html.replace("http://www.w3.org/2000/svg", "").find(bad)
    assert found < 0 or bad == "<b>" and html.count("<b>") == html.count("<li><b>"), (bad, html[max(0, found - 80):found + 80])
assert html.count("<script") == 3 and html.count("</script") == 3

# meta.json may have anything where nobody looks
record("odd.npz", reduce="heads")
change_meta(path("odd.npz"), lambda meta: (meta.update(settings=None, edits=7, seed={}, version=[], complete="x"), meta["model"].update(path=3)))
make(program, path("odd.html"), path("odd.npz"))
odd = Page(path("odd.html")).runs[0]
assert odd["settings"] == {} and odd["edits"] == [] and odd["model"]["path"] == 3

# what is refused leaves nothing
for args in [[path("none.npz"), "-o", path("none.npz"), "--force"], [path("none.npz"), "-o", path("x.npz")], [path("absent.npz"), "-o", path("x.html")],
             [path("none.npz"), "-o", path("none.html")], [path("none.npz"), "--label", "a", "--label", "b", "-o", path("x.html")],
             [path("none.npz"), "-o", path("x.html"), "--max-size", "lots"], [path("none.npz"), path("none.npz"), path("none.npz"), "-o", path("x.html")]]:
    code, err = run(program, *args)
    assert code == 1 and err.count("\n") == 1, (args, code, err)
assert not os.path.exists(path("x.html")) and Recorded(path("none.npz"))
print("numbers", checked)
