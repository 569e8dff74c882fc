"""Acc, F1 and EM as SQuAD's evaluation defines them, written down once more, on synthetic predictions.

reference.py OUT.jsonl N: one line each, {"prediction", "answers", "acc", "f1", "em"}.
"""

import collections
import json
import random
import re
import string
import sys

WORDS = """a A an An AN the The THE thé a\u0301 apple Anne them theme Straße İstanbul ISTANBUL ıI naïve NAÏVE ½ ٣ 3 three No. №5
U.S.A. O'Neill rock’n’roll don't -- — ... ! ?! "the" (an) [a] the—a a-b _the_ the_end 日本 the日本 日本the ΟΔΟΣ ΣΑΣ Σ ΑΣ. Σ'Α ΑΣ\u0301Β Ω Å
ǅ Ǆ ﬁ Ⅷ ⅷ Ꮳ Ა 🙂 the🙂 🙂an x² a² 10,000 10.5 $5 Wilhelm Conrad Röntgen May 18, 2018 yes no Paris paris PARIS""".split()
GAPS = [" "] * 12 + ["  ", "\n", "\t", "\u00a0", "\u2003", "\u3000", "\x1c", "\x85", "\u2028", "\u200b", "", "-", ", ", "\r\n"]


def normalise(text):
    kept = [c for c in text.lower() if c not in set(string.punctuation)]
    return " ".join(re.sub(r"\b(?:the|an|a)\b", " ", "".join(kept)).split())


def f1(prediction, answer):
    said, right = collections.Counter(normalise(prediction).split()), collections.Counter(normalise(answer).split())
    common = sum((said & right).values())
    if not common:
        return 0.0
    precision, recall = common / sum(said.values()), common / sum(right.values())
    return 2 * precision * recall / (precision + recall)


def scores(prediction, answers):
    said = normalise(prediction)
    return dict(acc=max(float(normalise(a) in said) for a in answers), f1=max(f1(prediction, a) for a in answers),
                em=max(float(normalise(a) == said) for a in answers))


def text(rng, longest):
    out = ""
    for _ in range(rng.randint(0, longest)):
        out += rng.choice(WORDS) + rng.choice(GAPS)
    return out


def sample(rng):
    answers = [text(rng, 4) or rng.choice(WORDS) for _ in range(rng.choice([1, 1, 2, 3, 5]))]
    kind = rng.random()
    if kind < 0.15:
        prediction = rng.choice(["", " ", ".", "the", "a \n an"])
    elif kind < 0.5:  # near a right answer
        right = rng.choice(answers)
        prediction = rng.choice([right, right.upper(), right.lower(), "The " + right + ".", text(rng, 3) + " " + right,
                                 right[:-1], right + text(rng, 3)])
    else:
        prediction = text(rng, 10)
    return prediction, answers


def main():
    rng = random.Random(10)
    with open(sys.argv[1], "w") as out:
        for _ in range(int(sys.argv[2])):
            prediction, answers = sample(rng)
            out.write(json.dumps(dict(prediction=prediction, answers=answers, **scores(prediction, answers))) + "\n")


main()
