#!/usr/bin/env python3
"""demo.py SOURCE BIN: scripts/demo.sh in a terminal of 80 columns. No line wraps, what it concludes is what the recordings and
answers say, and it offers to open the page; without a terminal, and in CI, it does not."""
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
from fcntl import ioctl
from pathlib import Path
from statistics import fmean, pstdev
from termios import TIOCSWINSZ

SOURCE, BIN = map(os.path.abspath, sys.argv[1:3])
WIDTH = 80


def set_up(work):
    """A checkout of links, so that nothing is written into the real one."""
    for name in ("scripts", "models"):
        os.symlink(f"{SOURCE}/{name}", f"{work}/{name}")
    os.makedirs(f"{work}/build")
    os.symlink(BIN, f"{work}/build/bin")
    os.makedirs(f"{work}/path")
    opener = Path(f"{work}/path/xdg-open")
    opener.write_text(f'#!/bin/sh\necho "$1" > {work}/opened\n')
    opener.chmod(0o755)
    env = {k: v for k, v in os.environ.items() if k not in ("CI", "NO_COLOR", "COLUMNS")}
    return {**env, "PATH": f"{work}/path:{env['PATH']}", "OMP_WAIT_POLICY": "passive", "TERM": "xterm"}


def in_terminal(work, env):
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(f"{work}/scripts/demo.sh", ["demo.sh"], env)
    ioctl(fd, TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
    out, answered = b"", False
    while True:
        ready, _, _ = select.select([fd], [], [], 500)
        assert ready, ("the demo hangs", out[-2000:])
        try:
            part = os.read(fd, 65536)
        except OSError:  # Linux says so at the end
            part = b""
        if not part:
            break
        out += part
        if not answered and b"[y/N]" in out:
            os.write(fd, b"y\n")
            answered = True
    _, status = os.waitpid(pid, 0)
    text = out.decode()
    assert status == 0, (status, text[-3000:])
    return text


def shown(text):
    """Lines as they stand on the screen: without colours, and what \\r writes over."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    return [line.rstrip("\r").split("\r")[-1] for line in text.split("\n")]


def conclusions(lines):
    """Each arrow with the lines that continue it, in one line."""
    out = []
    for line in lines:
        if line.startswith("→ "):
            out.append(line[2:])
        elif out and line.startswith("  ") and not line.startswith("   ") and out[-1] is not None:
            out[-1] += " " + line.strip()
        elif out and out[-1] is not None and not line.strip():
            out.append(None)
    return [o for o in out if o]


def json_of(work, *args):
    return json.loads(subprocess.check_output([f"{BIN}/llama-attention", *args, "--json"], cwd=work))


def one(found, pattern):
    match = [m for m in (re.fullmatch(pattern, c) for c in found) if m]
    assert len(match) == 1, (pattern, found)
    return match[0].groups()


def check_answers(work, found):
    item = json.loads(open(f"{work}/models/heldout-500.jsonl").readline())
    gold = item["answers"][0]
    said = sum(gold.lower() in Path(f"{work}/build/demo/{n}.txt").read_text().lower() for n in ("mdm", "arm"))
    assert one(found, r'The right answer is "(.*)": (\d) of 2 models say it\.') == (gold, str(said))
    prompt = Path(f"{work}/build/demo/prompt.txt").read_text()
    assert prompt.endswith(item["question"]) and all(c["text"] in prompt for c in item["ctxs"])


def check_anchors(work, found):
    """Counted from what each position receives, not from what the program calls an anchor."""
    for name in ("mdm", "arm"):
        run = json_of(work, "temporal", f"build/demo/{name}.npz")["recordings"][0]
        sets = [{j for j, a in enumerate(A) if a > fmean(A) + 3 * pstdev(A)} for A in run["received"]]
        top = [max(s, key=lambda j: A[j]) if s else None for s, A in zip(sets, run["received"])]
        pairs = list(zip(sets, sets[1:]))
        both = [i for i, (a, b) in enumerate(pairs) if a and b]
        appeared, vanished = sum(len(b - a) for a, b in pairs), sum(len(a - b) for a, b in pairs)
        text = next(c for c in found if c.startswith(f"buoy-{name} ({name}.npz)"))
        expected = f"anchors in {sum(map(bool, sets))} of {len(sets)} steps"
        assert expected in text, (expected, text)
        if appeared + vanished:
            counts = re.search(r"between steps, (\d+) appears? and (\d+) vanish", text)
            assert counts and counts.groups() == (str(appeared), str(vanished)), (appeared, vanished, text)
        elif any(sets):
            assert "the same in all" in text, text
        if both:
            moved = sum(top[i] != top[i + 1] for i in both)
            assert f"moves in {moved} of {len(both)} pairs of consecutive steps that both have one." in text, (moved, text)


def check_first_token(work, found):
    for name in ("mdm", "arm"):
        run = json_of(work, "absorption", f"build/demo/{name}.npz", "--rule", "bos")["recordings"][0]
        by_layer = run["by_layer"]["absorption"]
        mean, even, layer, most = one(found, rf"buoy-{name}: the first position receives ([\d.]+) % of the attention \(an even "
                                             r"share: ([\d.]+) %\), mean of all layers; most in layer (\d+), ([\d.]+) %\.")
        assert float(mean) == round(fmean(by_layer), 1), (mean, by_layer)
        assert float(even) == round(run["overall"]["even_share"], 1), even
        assert run["layers"][by_layer.index(max(by_layer))] == int(layer) and float(most) == round(max(by_layer), 1)


def check_intervention(work, found):
    lines = [json.loads(line) for line in open(f"{work}/build/demo/results.jsonl")][1:]
    for model in ("buoy-mdm", "buoy-arm"):
        acc = {c: [r["acc"] for r in lines if r["model"] == model and r["condition"] == c]
               for c in ("passages=5", "edit=gold-unseen")}
        before, after = (100 * fmean(acc[c]) for c in ("passages=5", "edit=gold-unseen"))
        text = next(c for c in found if re.match(f"edit=gold-unseen: {model}[: ]", c))
        if acc["passages=5"] == acc["edit=gold-unseen"]:  # question by question
            same = f"accuracy stays at {after:.1f} %: no score of the {len(acc['passages=5'])} questions changes."
            assert text.endswith(same), (same, text)
            continue
        expected = f"gets {after:.1f} % of {len(acc['passages=5'])} questions right instead of {before:.1f} %: {after - before:+.1f} "
        assert expected in text, (expected, text)
        low, high = map(float, re.search(r"\[([-+\d.]+), ([-+\d.]+)\] points", text).groups())
        assert low <= round(after - before, 1) <= high, text
        if low > 0 or high < 0:
            assert "includes zero" not in text, text
        elif low < 0 < high:
            assert text.endswith("the interval includes zero."), text


def main():
    with tempfile.TemporaryDirectory() as work:
        env = set_up(work)
        text = in_terminal(work, env)
        lines = shown(text)
        long = [line for line in lines if len(line) > WIDTH and str(work) not in line]  # the path is as long as it is
        assert not long, long
        found = conclusions(lines)
        check_answers(work, found)
        check_anchors(work, found)
        check_first_token(work, found)
        check_intervention(work, found)
        assert any("build/demo/report.html" in line for line in lines)
        opened = Path(f"{work}/opened")
        assert opened.read_text().strip().endswith("build/demo/report.html")
        assert "<html" in Path(f"{work}/build/demo/report.html").read_text()[:200]
        opened.unlink()

        piped = subprocess.run([f"{work}/scripts/demo.sh"], env={**env, "CI": "1"}, input="y\n", text=True, capture_output=True)
        assert piped.returncode == 0, piped.stderr
        assert not opened.exists() and "[y/N]" not in piped.stdout and "\x1b" not in piped.stdout
        assert conclusions(shown(piped.stdout)) == found
        print(len(found), "conclusions")


main()
