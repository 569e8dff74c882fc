#!/usr/bin/env python3
"""The server's page in Chromium: chat, frames, scrubbing, two panes, infill, phone width, keyboard, dark.
Usage: page.py BIN_DIR [SCREENSHOT_DIR]"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "report"))

from chromium import find_chromium
from running import Server, install

browser = find_chromium()
folder = install("playwright-core@1") if browser else None
if folder is None:
    print("skipped: there is no Chromium, or playwright-core can't be installed")
    sys.exit(77)
shots = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="buoy-page-")
os.makedirs(shots, exist_ok=True)
with Server(sys.argv[1], "-np", "2", "-m", "buoy-arm") as server:
    script = os.path.join(folder, "page.mjs")
    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.mjs"), script)
    done = subprocess.run(["node", script, server.url, browser, shots], cwd=folder, timeout=1700, check=False)
if len(sys.argv) < 3:
    shutil.rmtree(shots, ignore_errors=True)
sys.exit(done.returncode)
