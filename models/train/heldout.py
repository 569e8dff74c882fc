#!/usr/bin/env python3
"""Writes held-out questions, one JSON object a line: five passages, one question, every phrasing.

  heldout.py N OUT.jsonl

Its stream of random numbers has a key of its own, "heldout", which no training step uses.
"""

import json
import sys

import corpus

SEED = "heldout/2026"


def main():
    n, out = int(sys.argv[1]), sys.argv[2]
    rng = corpus.generator(SEED)
    with open(out, "w") as f:
        for _ in range(n):
            (prompt, answer), = corpus.questions(rng, corpus.Shape(corpus.LEVELS - 1, 5, 1))
            f.write(json.dumps(dict(prompt=prompt, answer=answer)) + "\n")


if __name__ == "__main__":
    main()
