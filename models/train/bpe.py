"""A byte-level BPE: trained here, stored as a Hugging Face tokenizer.json, with Llama 3's rules for splitting text."""

import json
import re
from collections import Counter

SPECIAL = ["<|startoftext|>", "<|endoftext|>", "<|mask|>", "<|user|>", "<|assistant|>"]
BOS, EOS, MASK, USER, ASSISTANT = SPECIAL

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
# The same for ASCII, which is all that the corpus has; Python's re has no \p.
SPLIT = re.compile(PATTERN.replace(r"\p{L}", "A-Za-z").replace(r"\p{N}", "0-9")
                   .replace("A-Za-z+", "[A-Za-z]+").replace("0-9{1,3}", "[0-9]{1,3}"))


def byte_letters():
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, spare = {}, 256
    for b in range(256):
        if b in printable:
            letters[b] = chr(b)
        else:
            letters[b] = chr(spare)
            spare += 1
    return letters


LETTERS = byte_letters()


def letters_of(text):
    return "".join(LETTERS[b] for b in text.encode())


def merge_word(word, pair):
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def train(texts, whole):
    """Merges the most frequent pair (first in the alphabet among equals) until every word of `whole` is one piece."""
    counts = Counter(piece for text in texts for piece in SPLIT.findall(text))
    for piece in whole:
        counts[piece] += 1
    words = Counter({tuple(letters_of(piece)): n for piece, n in counts.items()})
    merges = []
    while True:
        pairs = Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        if not pairs:
            return merges
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        merged = Counter()
        for word, n in words.items():
            merged[merge_word(word, best)] += n
        words = merged


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.rank = {m: i for i, m in enumerate(self.merges)}
        pieces = [LETTERS[b] for b in range(256)] + ["".join(m) for m in self.merges]
        self.ids = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
        self.special = {text: len(self.ids) + i for i, text in enumerate(SPECIAL)}
        self.bos, self.eos, self.mask, self.user, self.assistant = self.special.values()
        self.texts = {i: piece for piece, i in {**self.ids, **self.special}.items()}
        self.cache = {}

    def __len__(self):
        return len(self.ids) + len(self.special)

    def _piece(self, piece):
        word = tuple(letters_of(piece))
        if "".join(word) in self.ids:
            return [self.ids["".join(word)]]
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda p: self.rank.get(p, len(self.rank)))
            if best not in self.rank:
                break
            word = merge_word(word, best)
        return [self.ids[w] for w in word]

    def encode(self, text):
        ids = []
        for piece in SPLIT.findall(text):
            if piece not in self.cache:
                self.cache[piece] = self._piece(piece)
            ids += self.cache[piece]
        return ids

    def decode(self, ids):
        bytes_of = {letter: b for b, letter in LETTERS.items()}
        out = b""
        for i in ids:
            text = self.texts[int(i)]
            out += text.encode() if text in self.special else bytes(bytes_of[c] for c in text)
        return out.decode(errors="replace")

    def save(self, path):
        added = [dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
                 for t, i in self.special.items()]
        split = dict(type="Split", pattern={"Regex": PATTERN}, behavior="Isolated", invert=False)
        level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)
        model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                     fuse_unk=False, byte_fallback=False, ignore_merges=True, vocab=self.ids,
                     merges=[list(m) for m in self.merges])
        file = dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
                    pre_tokenizer=dict(type="Sequence", pretokenizers=[split, level]), post_processor=None,
                    decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
                    model=model)
        with open(path, "w") as f:
            json.dump(file, f, ensure_ascii=False, indent=1)

    @staticmethod
    def load(path):
        with open(path) as f:
            return Tokenizer(json.load(f)["model"]["merges"])
