#!/usr/bin/env python3
"""figures.py SOURCE BIN: the pictures of README.md and docs/ show what their captions say.

scripts/make-figures.sh knows each of them. Where cells are hatched as anchors, each is more than three standard deviations above the
mean, and no other cell is: counted from the numbers of a new run, in the committed SVG. Bars are the numbers of the tables beside
them. A wrong figure is planted to see that this is noticed."""
import json
import os
import re
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path
from statistics import fmean, pstdev

SOURCE, BIN = map(os.path.abspath, sys.argv[1:3])
SIGMAS = 3
NEAR = 0.15  # kernels round differently: a column this close to the threshold may be on either side


def pages():
    return [Path(SOURCE, "README.md"), *sorted(Path(SOURCE, "docs").glob("*.md")), Path(SOURCE, "models/README.md")]


def images():
    """{file: [captions]}"""
    out = {}
    for page in pages():
        for caption, link in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", page.read_text()):
            out.setdefault((page.parent / link).resolve(), []).append(caption)
    return out


def make(work, name):
    for link in ("scripts", "models", "ggml"):
        os.symlink(f"{SOURCE}/{link}", f"{work}/{link}")
    os.makedirs(f"{work}/build")
    os.symlink(BIN, f"{work}/build/bin")
    env = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    subprocess.run([f"{work}/scripts/make-figures.sh", "--only", name, "--out", f"{work}/out"], check=True, env=env)
    return Path(f"{work}/out")


def marked(svg, kind):
    cells = [c for part in re.findall(rf'data-{kind}="([^"]*)"', svg) for c in part.split()]
    return {tuple(map(int, c.split(","))) for c in cells}


def check_anchors(svg, run):
    """The hatched cells of an SVG against what the positions received; returns how many there are."""
    hatched = marked(svg, "hatched")
    said = sum(int(n) for n in re.findall(r"(\d+) cells hatched", svg))
    assert said == len(hatched), f"{said} cells are hatched, {len(hatched)} are listed"
    z = {(s, j): (a - fmean(A)) / pstdev(A) for s, A in enumerate(run["received"]) for j, a in enumerate(A)}
    assert hatched <= set(z), "cells that the run does not have"
    wrong = sorted(c for c in z if (c in hatched) != (z[c] > SIGMAS) and abs(z[c] - SIGMAS) > NEAR)
    assert not wrong, [(c, "hatched" if c in hatched else "not hatched", round(z[c], 2)) for c in wrong[:5]]
    return len(hatched)


def check_planted(svg, run):
    """Figures that are wrong, each in its way."""
    cell = re.search(r'data-hatched="(\d+,\d+)', svg).group(1)
    low = min(range(len(run["received"][0])), key=lambda j: run["received"][0][j])
    planted = {
        "an ordinary cell is hatched": svg.replace(f'data-hatched="{cell}', f'data-hatched="0,{low}', 1),
        "an anchor is not": svg.replace(f'data-hatched="{cell} ', 'data-hatched="', 1),
        "it does not say which": re.sub(r' data-hatched="[^"]*"', "", svg),
    }
    for what, wrong in planted.items():
        assert wrong != svg, what
        try:
            check_anchors(wrong, run)
        except AssertionError:
            continue
        raise SystemExit(f"a wrong figure passes: {what}")


def check_bars():
    """docs/evaluation.md: the bars are the rows with five passages."""
    svg = Path(SOURCE, "docs/images/eval-conditions.svg").read_text()
    bars = {m[:2]: float(m[2]) for m in re.findall(r"<title>([^<,]*), (buoy-\w+): ([\d.]+)</title>", svg)}
    rows = Path(SOURCE, "docs/evaluation.md").read_text().split("| condition | `buoy-mdm` |")[1].split("| 10 passages |")[0]
    conditions = {"closed book": "closed-book", "5 passages": "passages=5", "… sinks dropped": "edit=sinks-dropped",
                  "… anchors pinned": "edit=anchors-pinned", "… gold hidden from the writing rows": "edit=gold-unseen"}
    n = 0
    for line in rows.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if cells[0] in conditions:
            for model, cell in zip(("buoy-mdm", "buoy-arm"), cells[1:]):
                bar = bars.pop((conditions[cells[0]], model))
                assert abs(100 * bar - float(cell.split()[0])) < 0.051, (cells[0], model, bar, cell)
                n += 1
    assert n == 2 * len(conditions) and not bars, (n, bars)


def main():
    listed = subprocess.check_output([f"{SOURCE}/scripts/make-figures.sh", "--list"], text=True).split()
    shown, stored = images(), set(Path(SOURCE, "docs/images").iterdir())
    assert {p.stem for p in stored} == set(listed), ({p.stem for p in stored}, listed)
    assert set(shown) == stored, set(shown) ^ stored
    with_anchors = [p for p in stored if p.suffix == ".svg" and "hatched" in p.read_text()]
    assert [p.stem for p in with_anchors] == ["temporal"], with_anchors
    with tempfile.TemporaryDirectory() as work:
        run = json.loads((make(work, "temporal") / "temporal.json").read_text())["recordings"][0]
        svg = with_anchors[0].read_text()
        n = check_anchors(svg, run)
        assert n > 0 and all("anchor" in c for c in shown[with_anchors[0]])
        check_planted(svg, run)
    visual = unescape(Path(SOURCE, "docs/images/visual.svg").read_text())
    command = re.search(r"<title>(llama-diffusion-cli .*)</title>", visual).group(1)
    assert command.split()[1:] == re.search(r"<text [^>]*>\$ (.*)</text>\n<text [^>]*>(.*)</text>", visual).expand(r"\1 \2").split()[1:]
    check_bars()
    print(n, "anchors,", len(stored), "figures")


main()
