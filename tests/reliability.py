#!/usr/bin/env python3
"""docs/reliability.md names tests and their cases: each has to exist. Usage: reliability.py SOURCE_DIR BUILD_DIR"""

import json
import pathlib
import re
import subprocess
import sys

source, build = map(pathlib.Path, sys.argv[1:])
listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, capture_output=True, text=True, check=True).stdout
tests = {test["name"] for test in json.loads(listed)["tests"]}
tests |= set(re.findall(r"add_test\(NAME ([a-z-]+)", (source / "cmake/cpack.cmake").read_text()))  # of the preset dl

missing, n_cases, used = [], 0, set()
for line in (source / "docs/reliability.md").read_text().splitlines():
    if not line.startswith("|"):
        continue
    cells = line.strip("|").split("|")
    name = None
    for token in re.findall(r"`[^`]*`|\*[^*]+\*", cells[-1]):
        text = token[1:-1]
        if token[0] == "`":
            name = text
            used.add(text)
            continue
        n_cases += 1
        path = source / f"tests/test-{name}.cpp"
        titles = re.findall(r'TEST_CASE\("((?:[^"\\]|\\.)*)"', path.read_text()) if path.exists() else []
        if not any(text.rstrip(" …") in title for title in titles):
            missing.append(f"{name}: {text}")
known_words = {name for name in used if not re.fullmatch(r"[a-z][a-z0-9-]*", name)}  # paths, flags, code
missing += sorted(name for name in used - known_words - tests if name not in {"readelf"})
if missing:
    sys.exit("docs/reliability.md names what is not there:\n  " + "\n  ".join(missing))
print(f"{len(used & tests)} tests, {n_cases} of their cases")
