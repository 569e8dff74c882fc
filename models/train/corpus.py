"""Draws samples: passages with facts made up on the spot, questions about them, short answers, and small stories.

A sample is a chat: a list of (user text, answer text). The passages stand at the start of the first user text.
Levels, from easy to hard: 0 a list of pairs said again in another order, 1 the same with words between name and value,
2 questions about such a list, 3 one plain fact per passage, 4 several facts per passage with pronouns, 5 everything: all
phrasings, islands beside people, passages that do not matter.
"""

import random
import re
from dataclasses import dataclass

import world

LEVELS = 6


@dataclass
class Shape:
    level: int
    n_passages: int
    n_questions: int
    islands: int = LEVELS - 1  # the level from which on islands stand beside people


@dataclass
class Fact:
    subject: str
    attribute: str
    value: str
    table: dict

    def predicate(self, rng, level):
        return _pick(rng, self.table[self.attribute][1], level).format(v=self.value)

    def question(self, rng, level):
        return _pick(rng, self.table[self.attribute][2], level).format(n=self.subject)

    def answer(self):
        return self.table[self.attribute][3].format(v=self.value)


def _pick(rng, templates, level):
    return rng.choice(templates[:1] if level <= 3 else templates[:2] if level == 4 else templates)


def pronoun(name):
    return "she" if name in world.WOMEN else "he"


class Context:
    """The facts of one sample: subjects are distinct, and no two share a value of the same attribute."""

    def __init__(self, rng, n_attributes):
        self.rng = rng
        self.people = rng.sample(world.WOMEN + world.MEN, 24)
        self.islands = rng.sample(world.ISLANDS, 8)
        self.kinds = {id(t): rng.sample(sorted(t), min(n_attributes, len(t))) for t in (world.PERSON, world.ISLAND)}
        self.values = {}

    def draw(self, table, n_facts):
        subject = (self.people if table is world.PERSON else self.islands).pop()
        kinds = self.kinds[id(table)]
        facts = []
        for attribute in self.rng.sample(kinds, min(n_facts, len(kinds))):
            left = self.values.setdefault(attribute, self.rng.sample(table[attribute][0], len(table[attribute][0])))
            if left:
                facts.append(Fact(subject, attribute, left.pop(), table))
        return facts


def passage(rng, facts, level):
    name = facts[0].subject
    predicates = [f.predicate(rng, level) for f in facts]
    if level <= 3:
        return " ".join(f"{name} {p}." for p in predicates)
    he = pronoun(name).capitalize() if facts[0].table is world.PERSON else "It"
    text = f"{rng.choice(world.OPENINGS)} {name}" if level >= 5 and rng.random() < 0.2 else name
    text += f" {predicates[0]}"
    rest = predicates[1:]
    if rest and rng.random() < 0.4:
        text += f" and {rest.pop(0)}"
    text += "."
    for p in rest:
        text += f" {he if rng.random() < 0.6 else name} {p}."
    if level >= 5 and rng.random() < 0.1:
        text += " " + rng.choice(world.NOTES)
    return text


def _ask(rng, facts, shape, first):
    """A list of turns; the passages, if any, go into the first."""
    asked = rng.sample(facts, min(shape.n_questions, len(facts)))
    turns = [(f.question(rng, shape.level), f.answer()) for f in asked]
    return [(f"{first}\n{turns[0][0]}", turns[0][1])] + turns[1:]


def _pairs(rng, shape):
    names, pools = world.WOMEN + world.MEN, [world.COLOURS, world.ANIMALS, world.JOBS, world.TOWNS, world.FOODS]
    if shape.level >= shape.islands:
        names, pools = names + world.ISLANDS, pools + [world.MATERIALS, world.WEATHERS, world.GOODS] * 2
    names = rng.sample(names, shape.n_passages)
    pool = rng.choice(pools)
    values = rng.sample(pool, min(len(pool), shape.n_passages))
    pairs = list(zip(names, values))
    asked = [rng.choice(pairs) for _ in range(shape.n_questions)]
    said, again = ("", "") if shape.level == 0 else (rng.choice(world.LINKS), rng.choice(world.LINKS))
    first = "List: " + " ".join(f"{n}{said} {v}." for n, v in pairs)
    if shape.level <= 1:  # no chat: what follows the list are the same pairs again
        return [(f"{first}\nAgain:", "")] + [(f" {n}{again}", f" {v}.") for n, v in asked]
    turns = [(f"So {n}{again}?", f"It is {v}.") for n, v in asked]
    return [(f"{first}\n{turns[0][0]}", turns[0][1])] + turns[1:]


def passages(rng, shape):
    """Passages as texts, and the facts of each; a passage that does not matter has none."""
    context = Context(rng, rng.choice([2, 3]) if shape.level <= 4 else rng.choice([2, 3, 4, 6]))
    texts, facts = [], []
    for _ in range(shape.n_passages):
        island = shape.level >= shape.islands and rng.random() < 0.2 and context.islands
        drawn = context.draw(world.ISLAND if island else world.PERSON, 1 if shape.level == 3 else rng.choice([1, 2, 2, 3]))
        note = shape.level >= 5 and any(facts) and rng.random() < 0.1
        if note or not drawn:
            texts.append(" ".join(rng.sample(world.NOTES, rng.choice([1, 2]))))
            facts.append([])
        else:
            texts.append(passage(rng, drawn, shape.level))
            facts.append(drawn)
    return texts, facts


def questions(rng, shape):
    if shape.level <= 2:
        return _pairs(rng, shape)
    texts, facts = passages(rng, shape)
    first = "\n".join(f"{i + 1}. {p}" for i, p in enumerate(texts))
    return _ask(rng, sum(facts, []), shape, first)


def story(rng, parts=world.STORY):
    name = rng.choice(world.WOMEN + world.MEN)
    animal = rng.choice(world.ANIMALS)
    slots = dict(n=name, a=animal, he=pronoun(name), place=rng.choice(world.PLACES), mood=rng.choice(world.MOODS),
                 food=rng.choice(world.FOODS), colour=rng.choice(world.COLOURS))
    text = " ".join(rng.choice(part).format(**slots) for part in parts)
    return rng.choice(world.REQUESTS).format(**slots), text


def story_requests(n):
    """Held-out requests: their stream of random numbers has a key that no training step uses."""
    rng = generator("storyprobe")
    return [story(rng, world.EVEN_STORY)[0] for _ in range(n)]


def story_pattern(template, group="(?:{})"):
    """A regular expression for the sentences of a template; group is put around what stands in a slot."""
    words = dict(n=world.WOMEN + world.MEN, a=world.ANIMALS, place=world.PLACES, mood=world.MOODS, food=world.FOODS,
                 colour=world.COLOURS)
    return re.sub(r"\{(\w+)\}", lambda slot: group.format("|".join(words[slot[1]]), slot=slot[1]),
                  template.replace(".", r"\."))


def generator(*key):
    """A stream of random numbers for every key, the same on every machine."""
    return random.Random("/".join(map(str, key)))


def everything(n, seed="tokenizer"):
    """Texts of all kinds, for the tokenizer."""
    rng = generator(seed)
    for _ in range(n):
        level = rng.randrange(LEVELS)
        for user, answer in questions(rng, Shape(level, 4 if level > 2 else 12, 6)) + [story(rng)]:
            yield user
            yield answer
