#!/usr/bin/env python3
"""Many clients at once: only 503 with Retry-After is an error, memory stays, /health answers at once, nothing is left over.
Usage: load.py BIN_DIR CLIENTS SECONDS; the long one is load.py BIN_DIR 64 300"""
import http.client
import json
import os
import random
import socket
import sys
import threading
import time
import urllib.parse

from running import Server

bin_dir, n_clients, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
errors, health, counts = [], [], {"answers": 0, "streams": 0, "busy": 0, "vanished": 0}
lock = threading.Lock()
ending = threading.Event()


def count(name):
    with lock:
        counts[name] += 1


def body(rng, stream):
    return json.dumps({"messages": [{"role": "user", "content": f"Tell a story about Mira and a fox. {rng.randrange(9)}"}],
                       "max_tokens": rng.randrange(4, 40), "temperature": 1, "stream": stream,
                       "diffusion_frames": stream and rng.random() < 0.3}).encode()


def client(address, number):
    rng = random.Random(number)
    while not ending.is_set():
        stream = rng.random() < 0.6
        connection = http.client.HTTPConnection(*address, timeout=300)
        try:
            connection.request("POST", "/v1/chat/completions", body(rng, stream), {"Content-Type": "application/json"})
            if rng.random() < 0.1:  # gone in the middle
                time.sleep(rng.random() * 0.05)
                count("vanished")
                continue
            answer = connection.getresponse()
            if answer.status == 503 and answer.getheader("Retry-After"):
                answer.read()
                count("busy")
                time.sleep(0.1 * rng.random())
                continue
            data = answer.read()
            if answer.status != 200:
                errors.append((answer.status, data[:200]))
            elif stream:
                if not data.endswith(b"data: [DONE]\n\n") or b'"error"' in data:
                    errors.append(("stream", data[-300:]))
                count("streams")
            else:
                json.loads(data)["choices"][0]["message"]["content"]
                count("answers")
        except OSError as error:
            errors.append(("connection", repr(error)))
        finally:
            connection.close()


def slow_reader(address):
    """Asks for a lot and reads a byte now and then."""
    request = json.dumps({"messages": [{"role": "user", "content": "Tell a story about Mira and a fox."}], "max_tokens": 200, "ignore_eos": True,
                          "stream": True, "diffusion_frames": True}).encode()
    with socket.create_connection(address) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(request) + request)
        while not ending.is_set():
            sock.recv(1)
            time.sleep(0.2)


def watch_health(address):
    while not ending.is_set():
        begin = time.time()
        connection = http.client.HTTPConnection(*address, timeout=300)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        health.append(time.time() - begin)
        time.sleep(0.05)


def status(pid, name):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


if not os.path.exists("/proc/self/status"):
    print("skipped: no /proc to tell memory and threads")
    sys.exit(77)
with Server(bin_dir, "-np", "8", "--queue", "16", "-t", "1") as server:
    url = urllib.parse.urlparse(server.url)
    address = (url.hostname, url.port)
    pid = server.process.pid
    idle_threads = status(pid, "Threads")
    threads = [threading.Thread(target=client, args=(address, i)) for i in range(n_clients)]
    threads += [threading.Thread(target=slow_reader, args=(address,)), threading.Thread(target=watch_health, args=(address,))]
    for thread in threads:
        thread.start()
    warm = min(60.0, seconds / 2)
    time.sleep(warm)
    memory_warm = status(pid, "VmRSS")
    time.sleep(seconds - warm)
    memory_end = status(pid, "VmRSS")
    ending.set()
    for thread in threads:
        thread.join()
    slots = []
    for _ in range(2000):
        slots = json.loads(server.get("/slots"))
        if not any(slot["is_processing"] for slot in slots) and status(pid, "Threads") <= idle_threads + 1:
            break
        time.sleep(0.05)
    threads_end = status(pid, "Threads")
health.sort()
p99 = health[int(len(health) * 0.99)] if health else 0
growth = memory_end / memory_warm - 1
print(f"{counts}, /health p99 {p99 * 1000:.0f} ms of {len(health)}, memory {memory_warm} to {memory_end} KiB ({growth:+.1%}), threads {idle_threads} to {threads_end}")
assert not errors, errors[:5]
assert not any(slot["is_processing"] for slot in slots), slots
assert threads_end <= idle_threads + 1, "threads are left over"
assert counts["answers"] + counts["streams"] > 0
if seconds >= 300:
    assert p99 < 0.05, p99
    assert growth < 0.02, growth
