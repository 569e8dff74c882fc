"""Runs llama-diffusion-cli and opens what it recorded."""

import json
import os
import shutil
import subprocess
import tempfile
import weakref

from .recording import Recording


class ProgramError(RuntimeError):
    """The program failed. The message is the last line it printed; code is its exit code, stderr all it printed there."""

    def __init__(self, code, stderr):
        super().__init__(stderr.strip().splitlines()[-1] if stderr.strip() else f"the program ended with code {code}")
        self.code = code
        self.stderr = stderr


def run(prompt=None, model="buoy-mdm", path=None, program="llama-diffusion-cli", **flags):
    """Generates, records, and returns the Recording; its `result` is what the program's --json prints.

    >>> r = buoy.run("Where does Gundo live?", n_predict=32, temp=0, attn_reduce="none", attn_taps="pattern,q,k")
    >>> r.result["text"], r["blocks.0.attn.hook_pattern"].sel(step=0, head=0)

    A flag of the program is given by its name without the leading dashes, with _ for -: attn_edit="drop keys=sinks". True stands for
    a flag without a value, a list repeats the flag. Without a path the file is temporary and goes away with the Recording. program
    is a name in PATH, or a path.
    """
    found = shutil.which(program)
    if found is None:
        raise FileNotFoundError(f"{program} is not in PATH: install buoy, or give its path as program=…")
    folder = None
    if path is None:
        folder = tempfile.mkdtemp(prefix="buoy-")
        path = os.path.join(folder, "run.npz")
    command = [found, "-m", model, "--json", "--attn-dump", str(path)] + ([] if prompt is None else ["-p", prompt])
    for name, value in flags.items():
        flag = "-" + name if len(name) == 1 else "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            command += [flag] if one is True else [] if one is False or one is None else [flag, str(one)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
        if done.returncode != 0:
            raise ProgramError(done.returncode, done.stderr)
        recording = Recording(path)
    except BaseException:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    recording.result = json.loads(done.stdout)
    if folder:
        weakref.finalize(recording, shutil.rmtree, folder, ignore_errors=True)
    return recording
