#!/usr/bin/env python3
"""Scores a model's stories: sentences that the corpus could have, stories made of five of them in their order, and of those
the ones that hold together (one person and one animal throughout, those of the request).

  score-stories.py PROGRAM MODEL N [FLAG ...]     PROGRAM is llama-diffusion-cli

Stories that fail are shown.
"""

import re
import subprocess
import sys

import corpus
import world

def patterns(templates):
    return [re.compile(corpus.story_pattern(t, "(?P<{slot}>{})")) for t in templates]


PARTS = [patterns(part) for part in world.EVEN_STORY]
REQUESTS = patterns(world.REQUESTS)


def slots_of(text, choices):
    """What stands in the slots of the pattern that fits, None when none does."""
    found = (p.fullmatch(text) for p in choices)
    return next((m.groupdict() for m in found if m), None)


def coherent(request, slots):
    known = slots_of(request, REQUESTS)
    return all(known.setdefault(k, v) == v for new in slots for k, v in new.items() if k in ("n", "a"))


def main():
    program, model, n, *flags = sys.argv[1:]
    n_sentences = n_right = n_stories = n_coherent = 0
    for request in corpus.story_requests(int(n)):
        run = subprocess.run([program, "-m", model, "-p", request, "-n", "64", "--temp", "0", *flags],
                             capture_output=True, text=True, check=True)
        sentences = [s.strip() for s in re.findall(r"[^.]*\.|[^.]+$", run.stdout.strip())]
        slots = [slots_of(s, part) for s, part in zip(sentences, PARTS)]
        right = len(sentences) == len(PARTS) and None not in slots
        together = right and coherent(request, slots)
        n_sentences += len(sentences)
        n_right += sum(s is not None for s in slots)
        n_stories += right
        n_coherent += together
        if not together:
            print(f"{'does not hold together' if right else 'wrong'}: {request} -> {run.stdout.strip()}")
    print(f"{n_right} of {n_sentences} sentences, {n_stories} of {n} stories, {n_coherent} hold together")


if __name__ == "__main__":
    main()
