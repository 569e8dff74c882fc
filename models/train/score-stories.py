#!/usr/bin/env python3
"""How many sentences of a model's stories are ones that the corpus can produce.

  score-stories.py PROGRAM MODEL N [FLAG ...]     PROGRAM is llama-diffusion-cli
"""

import re
import subprocess
import sys

import corpus
import world

SLOTS = dict(n=world.WOMEN + world.MEN, a=world.ANIMALS, he=["he", "she"], place=world.PLACES, mood=world.MOODS,
             food=world.FOODS, colour=world.COLOURS)


def pattern(template):
    return re.sub(r"\\\{(\w+)\\\}", lambda slot: f"(?:{'|'.join(SLOTS[slot[1]])})", re.escape(template))


def main():
    program, model, n, *flags = sys.argv[1:]
    known = re.compile("|".join(pattern(t) for part in world.STORY for t in part))
    rng = corpus.generator("storyprobe")
    n_sentences = n_right = n_stories = 0
    for _ in range(int(n)):
        request, _ = corpus.story(rng)
        run = subprocess.run([program, "-m", model, "-p", request, "-n", "64", "--temp", "0", *flags],
                             capture_output=True, text=True, check=True)
        sentences = [s.strip() for s in re.findall(r"[^.]*\.|[^.]+$", run.stdout.strip())]
        right = [known.fullmatch(s) is not None for s in sentences]
        n_sentences += len(right)
        n_right += sum(right)
        n_stories += all(right) and len(right) == len(world.STORY)
    print(f"{n_right} of {n_sentences} sentences, {n_stories} of {n} stories")


if __name__ == "__main__":
    main()
