#!/usr/bin/env python3
"""Runs every curl line of docs/server.md, in order, against a server. Usage: docs.py SOURCE_DIR BIN_DIR"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from running import Server

ROUTES = re.compile(r"`(GET|POST|DELETE) (/[^`]*)`")
# the lines whose answer is an error, as the page says
ERRORS = {"/v1/completions": "temperature", "/v1/chat/completions/chatcmpl-none": "no request"}

if not shutil.which("curl"):
    print("skipped: curl is not installed")
    sys.exit(77)
text = (pathlib.Path(sys.argv[1]) / "docs/server.md").read_text(encoding="utf-8")
lines = [block for block in re.findall(r"```sh\n(.*?)```", text, re.S) if "curl" in block]
called = set()
with Server(sys.argv[2], "-np", "2", "-m", "buoy-arm") as server, tempfile.TemporaryDirectory() as folder:
    for line in lines:
        command = line.rstrip().replace("http://127.0.0.1:8080", server.url) + " -w '\\n%{http_code}'"
        done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
        path = re.search(r"8080(/[^ \n]*)", line).group(1)
        method = "DELETE" if "DELETE" in line else "POST" if "-d " in line else "GET"
        called.add((method, re.sub(r"fox|chatcmpl-none", "{id}", path)))
        body, _, status = done.stdout.rpartition("\n")
        expected_error = (path in ERRORS and "-1}" in line) or "chatcmpl-none" in path
        assert done.returncode == 0, (line, done.stderr)
        assert (status[0] == "4") if expected_error else status == "200", (line, status, body[:300])
        if expected_error:
            assert ERRORS[path] in json.loads(body)["error"]["message"], body
    for name, magic in [("fox.npz", b"PK"), ("fox.html", b"<!doctype html>"), ("fox.gif", b"GIF89a")]:
        assert (pathlib.Path(folder) / name).read_bytes().startswith(magic), name
routes = {(method, path) for method, path in ROUTES.findall(text.split("## Answers")[0])}
missing = {(m, p) for m, p in routes if (m, p) not in called and (m, p) != ("DELETE", "/v1/completions/{id}")}
assert not missing, f"no curl line for {missing}"
print(f"{len(lines)} curl lines of docs/server.md work")
