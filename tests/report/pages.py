"""Recordings for the report, the pages made of them, and what they must show, from the recordings' own numbers."""
import base64
import io
import json
import re
import subprocess
import zipfile

import numpy as np

import recordings

HOSTILE = ["</script><img src=x onerror=window.hacked=1>", "<!--<script>", "\"'`${window.hacked=1}", "&lt;b&gt;&amp;", "\u2028]]>", "\u202eabc",
           "\\\\x41", "<svg onload=window.hacked=1>"]


class Recorded:
    """A recording, read with nothing but numpy."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path)
        self.meta = json.loads(self.zip.read("meta.json"))
        self.reduce = self.meta["recorded"]["reduce"]
        self.layers, self.steps = self.meta["recorded"]["layers"], self.meta["recorded"]["steps"]
        self.tokens = self.get("tokens")

    def get(self, name):
        return np.load(io.BytesIO(self.zip.read(name + ".npy")))

    def rows(self, step):
        return self.get(f"rows/step_{step:04d}").tolist()

    def attn(self, step, layer):
        return self.get(f"attn/step_{step:04d}/layer_{layer:02d}").astype(np.float64)

    def latest(self, step, layers, heads):
        """[T, T]: of each position the row computed last up to a step; mean of layers and heads; NaN where there is none."""
        T = self.tokens.shape[1]
        out = np.full((T, T), np.nan)
        for s in [s for s in self.steps if s <= step]:
            a = np.mean([self.attn(s, l) if self.reduce == "heads" else self.attn(s, l)[heads].mean(0) for l in layers], axis=0)
            for i, row in enumerate(self.rows(s)):
                out[row] = np.nan
                out[row, :a.shape[1]] = a[i]
        if self.meta["attention"] == "causal":
            out[np.triu_indices(T, 1)] = np.nan
        return out


class Page:
    """The data that a page carries."""

    def __init__(self, path):
        self.html = open(path, encoding="utf-8").read()
        data = re.findall(r'<script type="application/json" id="data">(.*?)</script>', self.html, re.S)
        self.matrices = re.findall(r'<script type="text/plain" id="matrices-\d">(.*?)</script>', self.html, re.S)
        assert len(data) == 1
        self.runs = json.loads(data[0])["runs"]

    def matrix(self, run, step_index, layer_index):
        """[H, Q, K] and how far each number may be off: half a step of the square root's 254."""
        info = self.runs[run]
        offset, H, Q, K = info["matrices"][step_index * len(info["layers"]) + layer_index]
        size = H * Q * (4 + K)
        raw = np.frombuffer(base64.b64decode(self.matrices[run][offset:offset + (size + 2) // 3 * 4]), np.uint8)[:size].reshape(H * Q, 4 + K)
        largest = raw[:, :4].copy().view("<f4").astype(np.float64)
        codes = raw[:, 4:].astype(np.float64)
        values = np.where(codes == 255, np.nan, largest * (codes / 254) ** 2)
        slack = largest * ((codes + 0.51) / 254) ** 2 - values
        return values.reshape(H, Q, K), slack.reshape(H, Q, K)


def run(program, *args):
    result = subprocess.run([program, "report", *args], capture_output=True, text=True)
    return result.returncode, result.stderr


def make(program, out, *paths, flags=()):
    code, err = run(program, *paths, "-o", out, "--force", *flags)
    assert code == 0, err
    return err


def change_meta(path, change):
    """Rewrites a recording with change(meta) done."""
    with zipfile.ZipFile(path) as z:
        members = {name: z.read(name) for name in z.namelist()}
    meta = json.loads(members["meta.json"])
    change(meta)
    members["meta.json"] = json.dumps(meta)
    with zipfile.ZipFile(path, "w") as z:
        for name, data in members.items():
            z.writestr(name, data)


def write_hostile(path, **kw):
    """A recording whose texts want to be code."""
    words, recordings.WORDS[:] = recordings.WORDS[:], (HOSTILE * 2)[:len(recordings.WORDS)]
    try:
        recordings.write(path, recordings.Spec(model="<img src=x onerror=window.hacked=1>", tokens=list(range(11)),
                                               regions=[["</script><b>", [[0, 4]]], ["answer", [[5, 11]]]], **kw))
    finally:
        recordings.WORDS[:] = words
