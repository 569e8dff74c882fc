#!/usr/bin/env python3
"""Writes what the finished twins are tested with.

  heldout.py questions N OUT.jsonl   one JSON object a line: five passages, one question, every phrasing
  heldout.py evaluation N OUT.jsonl  the same for llama-diffusion-eval: ten passages, the one that answers among the first five
  heldout.py stories N OUT.json      requests, and for each of a story's sentences a pattern of those the corpus has
  heldout.py frontier N OUT.json     the same for llama-diffusion-eval: other requests, each once, and the words that a story has one of
  heldout.py tuning N OUT            what settings are tuned with, none of it held out: N questions in OUT.jsonl, N requests in OUT.json

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


def evaluation(n, out, key="evaluation/2026"):
    rng = corpus.generator(key)
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


def write_stories(requests, out, **more):
    patterns = ["|".join(corpus.story_pattern(t) for t in part) for part in world.EVEN_STORY]
    json.dump(dict(requests=requests, sentences=patterns, **more), out, indent=1)
    out.write("\n")


def stories(n, out):
    write_stories(corpus.story_requests(n), out)


def frontier_requests(n):
    """Without those that the grammar was chosen by."""
    known = corpus.story_requests(20)
    return [r for r in dict.fromkeys(corpus.story_requests(5 * n)) if r not in known][:n]


ROLES = dict(person=world.WOMEN + world.MEN, animal=world.ANIMALS)


def frontier(n, out):
    write_stories(frontier_requests(n), out, roles=ROLES)


def tuning(n, path):
    with open(path + ".jsonl", "w") as out:
        evaluation(n, out, "tuning/2026")
    rng = corpus.generator("tuning stories/2026")
    held_out = set(frontier_requests(200))  # those of heldout-stories-200.json
    drawn = dict.fromkeys(corpus.story(rng, world.EVEN_STORY)[0] for _ in range(100 * n))
    with open(path + ".json", "w") as out:
        write_stories([r for r in drawn if r not in held_out][:n], out, roles=ROLES)


def main():
    kind, n, path = sys.argv[1:]
    if kind == "tuning":
        tuning(int(n), path)
        return
    with open(path, "w") as out:
        dict(questions=questions, evaluation=evaluation, stories=stories, frontier=frontier)[kind](int(n), out)


if __name__ == "__main__":
    main()
