#!/usr/bin/env python3
"""The server with clients that others wrote: npm's openai and @ai-sdk/openai-compatible. Usage: clients.py BIN_DIR"""
import os
import shutil
import subprocess
import sys

from running import Server, install

PACKAGES = ["openai@6", "ai@6", "@ai-sdk/openai-compatible@2", "ajv@8"]

folder = install(*PACKAGES)
if folder is None:
    print("skipped: the npm packages can't be installed")
    sys.exit(77)
with Server(sys.argv[1], "--api-key", "sesame", "-n", "24", "-np", "2", "--queue", "2") as server:
    here = os.path.dirname(os.path.abspath(__file__))
    script = os.path.join(folder, "clients.mjs")
    shutil.copy(os.path.join(here, "clients.mjs"), script)
    done = subprocess.run(["node", script, server.url, "sesame", os.path.join(here, "openai.schema.json")], cwd=folder, timeout=1700, check=False)
sys.exit(done.returncode)
