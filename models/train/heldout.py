#!/usr/bin/env python3
"""Writes what the finished twins are tested with.

  heldout.py questions N OUT.jsonl   one JSON object a line: five passages, one question, every phrasing
  heldout.py stories N OUT.json      requests, and for each of a story's sentences a pattern of those the corpus has

Its streams of random numbers have keys of their own, which no training step uses.
"""

import json
import sys

import corpus
import world


def questions(n, out):
    rng = corpus.generator("heldout/2026")
    for _ in range(n):
        (prompt, answer), = corpus.questions(rng, corpus.Shape(corpus.LEVELS - 1, 5, 1))
        out.write(json.dumps(dict(prompt=prompt, answer=answer)) + "\n")


def stories(n, out):
    patterns = ["|".join(corpus.story_pattern(t) for t in part) for part in world.EVEN_STORY]
    json.dump(dict(requests=corpus.story_requests(n), sentences=patterns), out, indent=1)
    out.write("\n")


def main():
    kind, n, path = sys.argv[1:]
    with open(path, "w") as out:
        dict(questions=questions, stories=stories)[kind](int(n), out)


if __name__ == "__main__":
    main()
