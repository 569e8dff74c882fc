#!/usr/bin/env python3
"""Trains one twin. Run it again with more --steps and it goes on from its checkpoint.

  buoy-train.py tokenizer --out DIR
  buoy-train.py arm --run DIR --steps N
  buoy-train.py mdm --run DIR --steps N --from ARM_CHECKPOINT

The data of a step depends on the seed and the step alone, so a run that was stopped and resumed equals one that was not.
"""

import argparse
import csv
import os
import time
from dataclasses import asdict

import numpy as np
import torch
import torch.nn.functional as F

import batches
import bpe
import corpus
import world
from model import Config, Model
from muon import Muon

STORY = corpus.LEVELS  # its place in lists of accuracy by kind
# (rows, length) of a batch: many questions per row, or one with a canvas as the program sees it
DENSE = [(20, 128), (16, 160), (16, 160), (16, 192), (12, 224)]
EASY = [(16, 64), (16, 80), (16, 96), (16, 112)]  # by level; small batches get through the first plateaus sooner
SINGLE = [(24, 128), (20, 160)]


def make_tokenizer(out):
    words = [f" {w}" for name, group in vars(world).items() if name.isupper() and isinstance(group, list)
             for w in group if isinstance(w, str) and " " not in w]
    os.makedirs(out, exist_ok=True)
    tok = bpe.Tokenizer(bpe.train(corpus.everything(3000), words))
    assert all(len(tok.encode(w)) == 1 for w in words)
    tok.save(os.path.join(out, "tokenizer.json"))
    print(f"{len(tok)} pieces")


class Run:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        self.args, self.path = args, os.path.join(args.run, "checkpoint.pt")
        os.makedirs(args.run, exist_ok=True)
        self.tok = bpe.Tokenizer.load(args.tokenizer)
        self.causal = args.twin == "arm"
        n_vocab = (len(self.tok) + 31) // 32 * 32
        self.c = Config(n_vocab, args.width, args.layers, args.heads, args.ff)
        self.model = Model(self.c)
        self.step, self.level, self.tokens, self.seconds = 0, args.level, 0, 0.0
        self.accuracy = [0.0] * (corpus.LEVELS + 1)
        parts = {"qkv": 3, "gate_up": 2}
        matrices = [(p, parts.get(name.split(".")[-2], 1)) for name, p in self.model.blocks.named_parameters()
                    if p.dim() == 2]
        groups = [dict(params=[self.model.embedding.weight], weight_decay=0.1),
                  dict(params=[p for p in self.model.parameters() if p.dim() == 1], weight_decay=0.0)]
        if args.muon:
            self.optims = [torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.98)), Muon(matrices, args.muon)]
        else:
            groups.append(dict(params=[p for p, _ in matrices], weight_decay=0.1))
            self.optims = [torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.98))]
        if os.path.exists(self.path):
            self.load()
        elif args.start:
            self.model.load_state_dict(torch.load(args.start)["model"])

    def load(self):
        saved = torch.load(self.path)
        self.model.load_state_dict(saved["model"])
        for optim, state in zip(self.optims, saved["optims"]):
            optim.load_state_dict(state)
        for key, value in saved["state"].items():
            setattr(self, key, value)

    def save(self):
        state = {k: getattr(self, k) for k in ("step", "level", "tokens", "seconds", "accuracy")}
        torch.save(dict(model=self.model.state_dict(), optims=[o.state_dict() for o in self.optims], state=state,
                        config=asdict(self.c), twin=self.args.twin), self.path + ".new")
        os.replace(self.path + ".new", self.path)

    def rate(self):
        """Warm-up, plateau, and a fall to a twentieth over the last --decay steps."""
        a = self.args
        up = min(1.0, (self.step + 1) / a.warmup)
        down = min(1.0, 0.05 + 0.95 * (a.steps - self.step) / a.decay) if a.decay else 1.0
        return up * down

    def choose(self, rng):
        """Level and density of this step: mostly the current level, some of the earlier ones, some stories."""
        if self.level >= 4 and rng.random() < self.args.stories:
            return None, rng.random() < 0.7
        if self.level == 0 or rng.random() < 0.7:
            level = self.level
        else:
            level = rng.randrange(0 if self.level < corpus.LEVELS - 1 else self.args.lowest, self.level)
        return level, level < 4 or rng.random() < 0.75

    def train_step(self):
        rng = corpus.generator(self.args.twin, self.args.seed, self.step)
        level, dense = self.choose(rng)
        n_rows, length = rng.choice(DENSE if dense else SINGLE)
        if level is not None and level < 4:
            n_rows, length = EASY[level]
        ids, kinds = batches.draw(self.tok, rng, level, dense, length, n_rows, not self.causal, self.args.islands,
                                 world.EVEN_STORY if self.args.even else world.STORY)
        if self.causal:
            inputs, targets, kind = ids[:, :-1], ids[:, 1:], kinds[:, 1:]
            weight = np.where(kind == batches.ANSWER, 1.0, 0.0)
        else:
            inputs, masked = batches.mask_canvases(ids, kinds, self.tok, rng)
            targets, kind = ids, kinds
            weight = masked * np.where(kind == batches.ANSWER, 1.0, 0.1)
        rows = torch.from_numpy(weight.reshape(-1) > 0)
        hidden = self.model(torch.from_numpy(inputs), self.causal).reshape(-1, self.c.n_embd)[rows]
        logits = self.model.logits(hidden)
        target = torch.from_numpy(targets.reshape(-1))[rows]
        w = torch.from_numpy(weight.reshape(-1)).float()[rows]
        losses = F.cross_entropy(logits, target, reduction="none")
        answers = torch.from_numpy((kind == batches.ANSWER).reshape(-1))[rows]
        loss = (losses * w).sum() / w.sum()
        for optim, top in zip(self.optims, (self.args.lr, self.args.muon)):
            for group in optim.param_groups:
                group["lr"] = top * self.rate()
        self.model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optim in self.optims:
            optim.step()
        right = np.zeros(weight.size, bool)
        right[rows.numpy()] = (logits.argmax(-1) == target).numpy()
        self.count(level, kinds, right.reshape(kind.shape), np.ones(kinds.shape, bool) if self.causal else masked)
        self.tokens += inputs.size
        self.step += 1
        return float(losses[answers].mean().detach()) if answers.any() else float("nan")

    def count(self, level, kinds, right, masked):
        """Share of answers without a wrong token, of those that were masked altogether; of stories, the share of right
        tokens. Every batch is new, so this is held-out accuracy."""
        whole = []
        for r in range(len(kinds)):
            for first, last in batches.spans(kinds[r]):
                n = int((kinds[r, first:last] == batches.ANSWER).sum())
                there = right[r, first - self.causal:first - self.causal + n]
                if level is None:
                    whole += list(there[masked[r, first:first + n]])
                elif n > 0 and masked[r, first:first + n].all():
                    whole.append(there.all())
        at, pace = STORY if level is None else level, 0.05
        if whole:
            self.accuracy[at] += pace * (float(np.mean(whole)) - self.accuracy[at])

    def go(self):
        log = open(os.path.join(self.args.run, "log.csv"), "a", newline="")
        out = csv.writer(log)
        losses, mark = [], time.process_time()
        while self.step < self.args.steps:
            losses.append(self.train_step())
            if self.level + 1 < corpus.LEVELS and self.accuracy[self.level] > self.args.advance:
                self.level += 1
                self.accuracy[self.level] = 0.0
            if self.step % 50 == 0 or self.step == self.args.steps:
                self.seconds += time.process_time() - mark
                mark = time.process_time()
                out.writerow([self.step, self.tokens, self.level, f"{np.nanmean(losses):.4f}"]
                             + [f"{a:.3f}" for a in self.accuracy] + [f"{self.seconds:.0f}", f"{self.rate():.5f}"])
                log.flush()
                losses = []
            if self.step % 200 == 0 or self.step == self.args.steps:
                self.save()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("twin", choices=["tokenizer", "arm", "mdm"])
    p.add_argument("--out", default=".", help="tokenizer: where tokenizer.json goes")
    p.add_argument("--tokenizer", default="tokenizer.json")
    p.add_argument("--run", help="directory of the checkpoint and the log")
    p.add_argument("--from", dest="start", help="checkpoint to start from, weights only")
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--decay", type=int, default=0, help="the last steps, in which the rate falls")
    p.add_argument("--warmup", type=int, default=100)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--muon", type=float, default=0.02, help="Muon's rate for the blocks' matrices; 0: AdamW for all")
    p.add_argument("--level", type=int, default=0, help="level to start with")
    p.add_argument("--advance", type=float, default=0.9, help="accuracy that opens the next level")
    p.add_argument("--lowest", type=int, default=3, help="lowest level that is mixed into the last")
    p.add_argument("--islands", type=int, default=corpus.LEVELS - 1, help="level from which on there are islands")
    p.add_argument("--stories", type=float, default=0.15, help="share of batches that are stories, from level 4 on")
    p.add_argument("--even", action="store_true", help="stories whose sentences have the same length")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--ff", type=int, default=384)
    args = p.parse_args()
    if args.twin == "tokenizer":
        make_tokenizer(args.out)
    else:
        Run(args).go()


if __name__ == "__main__":
    main()
