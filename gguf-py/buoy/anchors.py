"""Which positions of a distribution of received attention are anchors: the rules of llama-attention --rule."""

import numpy as np


def find_anchors(received, rule):
    """Positions that the rule (code, std[:E], above:F, bos, top-k[:K]) names, ascending; the largest where it names none.

    Rule `code` is never true for a softmax, so it is the largest column.
    """
    A = np.asarray(received, dtype=np.float64)
    name, _, value = rule.partition(":")
    if name == "std":
        found = np.flatnonzero(A > A.mean() + float(value or 3) * A.std())
    elif name == "above" and value or rule == "code":
        others = (A.sum() - A) / (len(A) - 1) if len(A) > 1 else np.zeros(1)
        found = np.flatnonzero(A > others + float(value or 3))
    elif rule == "bos":
        found = np.zeros(1, dtype=int)
    elif name == "top-k":
        found = np.sort(np.argsort(-A, kind="stable")[: int(value or 1)])
    else:
        raise ValueError(f"rule {rule!r} is none of code, std[:EPSILON], above:AMOUNT, bos and top-k[:K]")
    return found if len(found) else np.array([A.argmax()])
