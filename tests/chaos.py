#!/usr/bin/env python3
"""Kills, full disks and slow readers: chaos.py SOURCE_DIR BIN_DIR [--kills N] [--seed N].

kill -9 at random moments of recording, converting and evaluating: under an output's name there is nothing or a whole file, what was there
before stays until the new one is whole, and the next run on the same name works. A disk that is full after N bytes, for many N: one line, exit code 2, no
partial output. A program that is stopped and continued all the time, and one whose reader is slow, write the same bytes as ever."""

import argparse
import contextlib
import hashlib
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

ENV = {**os.environ, "OMP_WAIT_POLICY": "passive", "LLAMA_ARG_THREADS": "1"}
SECONDS_MAX = 300


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def check(holds, what):
    if not holds:
        raise AssertionError(what)


class Job:
    """A program that writes one output, the same bytes each time."""

    def __init__(self, name, command, output):
        self.name, self.command, self.output = name, [str(part) for part in command], output
        self.part = output.with_name(output.name + ".part")
        self.remove()
        began = time.monotonic()
        self.run()
        self.seconds = time.monotonic() - began
        self.good = output.read_bytes()

    def remove(self):
        for path in (self.output, self.part):
            path.unlink(missing_ok=True)

    def start(self, **options):
        return subprocess.Popen(self.command, env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                errors="replace", **options)

    def run(self):
        """To its end."""
        process = self.start()
        _, said = process.communicate(timeout=SECONDS_MAX)
        check(process.returncode == 0, f"{self.name}: exit code {process.returncode}: {said}")

    def check_killed(self, before):
        """before: what the output's name held when the run began, None for nothing."""
        now = self.output.read_bytes() if self.output.exists() else None
        check(now in (before, self.good), f"{self.name}: a broken file under its name")

    def check_next(self):
        """A run after a killed one is as any other."""
        self.run()
        check(self.output.read_bytes() == self.good, f"{self.name}: the run after a killed one wrote something else")
        check(not self.part.exists(), f"{self.name}: {self.part.name} is left behind")


class Evaluation(Job):
    """Its output grows line by line, and the next run goes on where it ends."""

    def check_killed(self, before):
        now = self.output.read_bytes() if self.output.exists() else b""
        lines = now[:now.rfind(b"\n") + 1]
        check(self.good.startswith(lines), f"{self.name}: a line that is not of this run")
        check(lines.startswith(before or b""), f"{self.name}: lines that were complete are lost")


class Recording(Job):
    def __init__(self, attention, *rest):
        self.attention = str(attention)
        super().__init__(*rest)

    def check_killed(self, before):
        super().check_killed(before)
        if self.part.exists():
            said = subprocess.run([self.attention, "info", str(self.part)], env=ENV, capture_output=True, text=True)
            check("unfinished" in said.stdout, f"{self.name}: info does not recognise {self.part.name}: {said}")


def kill_at_random(jobs, n_kills, rng):
    """Every third time the output is there already and is to be replaced, or, of an evaluation, continued."""
    for i in range(n_kills):
        job = jobs[i % len(jobs)]
        evaluates = isinstance(job, Evaluation)
        if not evaluates and rng.random() < 2 / 3 or evaluates and digest(job.output) == hashlib.sha256(job.good).hexdigest():
            job.remove()
        before = job.output.read_bytes() if job.output.exists() else None
        process = job.start()
        time.sleep(rng.uniform(0, job.seconds * 1.05))
        process.kill()
        process.communicate()
        job.check_killed(before)
        if rng.random() < 0.1:
            job.check_next()
    for job in jobs:
        job.check_next()


def fill_disk(job, rng, n_sizes):
    """The system refuses what goes beyond a size: the write that meets it is short, the next one fails."""
    sizes = {0, 1, len(job.good) - 1} | {rng.randrange(len(job.good)) for _ in range(n_sizes)}
    for size in sorted(sizes):
        job.remove()
        process = job.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        _, said = process.communicate(timeout=SECONDS_MAX)
        where = f"{job.name}, disk full after {size} bytes"
        check(process.returncode == 2, f"{where}: exit code {process.returncode}: {said}")
        check(job.output.name in said.splitlines()[-1], f"{where}: the last line does not name the output: {said!r}")
        if isinstance(job, Evaluation):
            job.check_killed(None)
        else:
            check(not job.output.exists() and not job.part.exists(), f"{where}: something is left behind")
    job.check_next()


@contextlib.contextmanager
def small_disk(directory, size):
    """A file system of that size, where we may mount one."""
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], capture_output=True)
    try:
        yield made.returncode == 0
    finally:
        if made.returncode == 0:
            subprocess.run(["umount", str(directory)], check=True)


def fill_small_disk(make_job, directory):
    """The same on a file system without space, where it is noticed before or while writing."""
    directory.mkdir()
    with small_disk(directory, 16 * 1024) as mounted:
        if not mounted:
            return False
        name, command, _ = make_job(directory)
        process = subprocess.run([str(part) for part in command], env=ENV, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        check(process.returncode == 2, f"{name}, no space: exit code {process.returncode}: {process.stderr}")
        check(not list(directory.iterdir()), f"{name}, no space: something is left behind")
    return True


def stop_and_continue(job, rng):
    """System calls end early (EINTR) and go on."""
    job.remove()
    process = job.start()
    while process.poll() is None:
        time.sleep(rng.uniform(0, 0.004))
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
    check(process.returncode == 0, f"{job.name}, stopped and continued: exit code {process.returncode}: {process.stderr.read()}")
    check(job.output.read_bytes() == job.good, f"{job.name}, stopped and continued: other bytes")


def read_slowly(command, rng):
    """A pipe that is nearly always full: writes are short."""
    whole = subprocess.run(command, env=ENV, capture_output=True).stdout
    process = subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE)
    got = b""
    while piece := os.read(process.stdout.fileno(), rng.randrange(1, 4096)):
        got += piece
        time.sleep(0.0002)
    check(process.wait() == 0 and got == whole, f"{command[0]}: a slow reader got other bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=36)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    models = args.source / "models"
    with tempfile.TemporaryDirectory(prefix="buoy-chaos-") as folder:
        work = pathlib.Path(folder)

        def recording(directory):
            out = directory / "run.npz"
            return "recording", [args.bin / "llama-diffusion-cli", "-m", "buoy-mdm", "-p", "Once upon a time", "-n", "24", "--diffusion-steps", "24",
                                 "--temp", "0", "-s", "1", "--attn-dump", out, "--attn-reduce", "none", "--force"], out

        def converting(directory):
            out = directory / "out.gguf"
            return "converting", [args.bin / "llama-diffusion-convert", models / "buoy-mdm.gguf", "-o", out, "--outtype", "q8_0", "--force"], out

        def evaluating(directory):
            out = directory / "results.jsonl"
            return "evaluating", [args.bin / "llama-diffusion-eval", "qa", "-m", "buoy-mdm", "-d", models / "heldout-500.jsonl", "--template",
                                  models / "qa-template.txt", "-n", "8", "--limit", "6", "-o", out], out

        jobs = [Recording(args.bin / "llama-attention", *recording(work)), Job(*converting(work)), Evaluation(*evaluating(work))]
        print(", ".join(f"{job.name}: {len(job.good)} bytes in {job.seconds:.2f} s" for job in jobs), flush=True)
        kill_at_random(jobs, args.kills, rng)
        for job in jobs:
            fill_disk(job, rng, 6)
            stop_and_continue(job, rng)
        read_slowly([str(args.bin / "llama-attention"), "info", "--json", str(jobs[0].output)], rng)
        mounted = [fill_small_disk(make, work / f"disk{i}") for i, make in enumerate((recording, converting))]
        print(f"{args.kills} kills, {len(jobs) * 9} full disks" + ("" if all(mounted) else "; no right to mount a small file system"))


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        sys.exit(f"chaos: {error}")
