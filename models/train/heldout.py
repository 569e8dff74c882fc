#!/usr/bin/env python3
"""Writes what the finished twins are tested with.

  heldout.py questions N OUT.jsonl   one JSON object a line: five passages, one question, every phrasing
  heldout.py evaluation N OUT.jsonl  the same for llama-diffusion-eval: ten passages, the one that answers among the first five
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


def evaluation(n, out):
    rng = corpus.generator("evaluation/2026")
    shape = corpus.Shape(corpus.LEVELS - 1, 10, 1)
    for i in range(n):
        gold, facts = None, []
        while gold is None:  # the first five may all be passages that do not matter
            texts, facts = corpus.passages(rng, shape)
            some = [p for p in range(5) if facts[p]]
            gold = rng.choice(some) if some else None
        fact = rng.choice(facts[gold])
        ctxs = [dict(text=text, isgold=p == gold) for p, text in enumerate(texts)]
        item = dict(id=f"world-{i + 1}", question=fact.question(rng, shape.level), answers=[fact.value, fact.answer()], ctxs=ctxs)
        out.write(json.dumps(item) + "\n")


def stories(n, out):
    patterns = ["|".join(corpus.story_pattern(t) for t in part) for part in world.EVEN_STORY]
    json.dump(dict(requests=corpus.story_requests(n), sentences=patterns), out, indent=1)
    out.write("\n")


def main():
    kind, n, path = sys.argv[1:]
    with open(path, "w") as out:
        dict(questions=questions, evaluation=evaluation, stories=stories)[kind](int(n), out)


if __name__ == "__main__":
    main()
