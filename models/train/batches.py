"""Turns chats into rows of token ids for the two kinds of training.

Both twins see the same chats: BOS, then per turn <|user|> text EOS <|assistant|> answer EOS. The diffusion model's answers
stand on a canvas that EOS fills up, as LLaDA's do; the last canvas of a row reaches to its end.
"""

import numpy as np

import corpus

CONTEXT, ANSWER, PADDING = 0, 1, 2


def user_ids(tok, user):
    return [tok.user, *tok.encode(user), tok.eos, tok.assistant]


def draw_chat(rng, level, dense, islands, story_parts):
    """level None asks for stories. A dense chat has many questions, to be cut where the row ends."""
    if level is None:
        return [corpus.story(rng, story_parts) for _ in range(6 if dense else 1)]
    if level <= 2:
        n = rng.choice([2, 3, 4, 5, 6])
    elif level == 3:
        n = rng.choice([2, 3, 4, 5, 6])
    elif level == 4:
        n = rng.choice([2, 3, 4, 5])
    else:
        n = rng.choice([1, 2, 3, 4, 5, 5, 5, 5, 6, 7, 8, 9, 10]) if dense else rng.choice([3, 4, 5, 5, 5, 6, 7])
    return corpus.questions(rng, corpus.Shape(level, n, 40 if dense else 1, islands))


def make_row(tok, rng, chat, length, canvas, bare):
    """ids and kinds of one row, or None when not even one turn fits. Whole turns only."""
    ids, kinds = [tok.bos], [CONTEXT]
    for user, answer in chat:
        if bare:
            before, after = tok.encode(user), tok.encode(answer)
        else:
            before, after = user_ids(tok, user), [*tok.encode(answer), tok.eos]
        if len(ids) + len(before) + len(after) > length:
            break
        slack = rng.choice([0, 0, 1, 2, 4]) if canvas else 0
        slack = min(slack, length - len(ids) - len(before) - len(after))
        ids += before + after + [tok.eos] * slack
        kinds += [CONTEXT] * len(before) + [ANSWER] * len(after) + [PADDING] * slack
    if len(ids) == 1:
        return None
    rest = length - len(ids)
    return ids + [tok.eos] * rest, kinds + [PADDING] * rest


def draw(tok, rng, level, dense, length, n_rows, canvas, islands, story_parts):
    rows, bare = [], level is not None and level <= 1
    while len(rows) < n_rows:
        row = make_row(tok, rng, draw_chat(rng, level, dense, islands, story_parts), length, canvas, bare)
        if row is not None:
            rows.append(row)
    ids, kinds = zip(*rows)
    return np.array(ids), np.array(kinds)


def spans(kinds):
    """[first, last) of every canvas of a row: an answer with its padding."""
    canvas = np.concatenate(([0], (kinds != CONTEXT).astype(int), [0]))
    edges = np.flatnonzero(np.diff(canvas))
    return list(zip(edges[::2], edges[1::2]))


def mask_canvases(ids, kinds, tok, rng):
    """Masks part of every canvas: a random share, everything, or everything from a point on (as decoding in blocks
    meets it). Returns the masked ids and which positions were masked."""
    masked = np.zeros(ids.shape, bool)
    for r in range(len(ids)):
        for first, last in spans(kinds[r]):
            how, n = rng.random(), last - first
            if how < 0.5:
                share = rng.random()
                masked[r, first:last] = np.array([rng.random() < share for _ in range(n)])
            elif how < 0.8:
                masked[r, first:last] = True
            else:
                masked[r, first + rng.randrange(n):last] = True
    return np.where(masked, tok.mask, ids), masked
