#!/usr/bin/env python3
"""Tokens per second of one request, of several at once, and of the program, on one model. By hand, on a quiet machine: a benchmark is
not a test. Usage: throughput.py BIN_DIR MODEL [TOKENS [PARALLEL]]"""
import concurrent.futures
import json
import subprocess
import sys
import time
import urllib.request

from running import Server

bin_dir, model = sys.argv[1], sys.argv[2]
n_tokens = int(sys.argv[3]) if len(sys.argv) > 3 else 64
n_parallel = int(sys.argv[4]) if len(sys.argv) > 4 else 8
prompt = [10 + i for i in range(32)]


def ask(url, seed):
    body = json.dumps({"prompt": prompt, "max_tokens": n_tokens, "ignore_eos": True, "seed": seed}).encode()
    request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as answer:
        return json.load(answer)["usage"]["completion_tokens"]


def timed(work):
    begin = time.time()
    return work() / (time.time() - begin)


def program():
    done = subprocess.run([f"{bin_dir}/llama-diffusion-cli", "-m", model, "--tokens", ",".join(map(str, prompt)), "-n", str(n_tokens), "--ignore-eos", "-s", "0",
                           "-c", "512", "--json"], capture_output=True, text=True, check=True)
    timings = json.loads(done.stdout)["timings"]
    return n_tokens * 1000 / (timings["prompt_ms"] + timings["decode_ms"])


with Server(bin_dir, "-np", str(n_parallel), "-c", "512", model=model, measured=True) as server:
    ask(server.url, 0)  # warm
    ones, manys, programs = [], [], []
    for _ in range(5):
        ones.append(timed(lambda: ask(server.url, 0)))
        programs.append(program())
        with concurrent.futures.ThreadPoolExecutor(n_parallel) as pool:
            manys.append(timed(lambda: sum(pool.map(lambda seed: ask(server.url, seed), range(n_parallel)))))
one, many, alone = sorted(ones)[2], sorted(manys)[2], sorted(programs)[2]
print(f"one request {one:.1f} tokens/s, {n_parallel} at once {many:.1f} ({many / one:.2f} times), the program {alone:.1f} (one request is {1 - one / alone:+.1%} slower)")
