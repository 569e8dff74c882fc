"""Which positions of a distribution of received attention are anchors: the rules of llama-attention --rule."""

import numpy as np


def find_anchors(received, rule):
    """Positions that the rule (std[:E], above:F, code, bos, top-k[:K]) finds, ascending; none where nothing meets it.

    Rule `code` is the authors': its threshold is never met by a softmax, and then it takes the largest column, which is not an
    anchor but a fallback.
    """
    A = np.asarray(received, dtype=np.float64)
    name, _, value = rule.partition(":")
    if name == "std":
        found = np.flatnonzero(A > A.mean() + float(value or 3) * A.std())
    elif name == "above" and value or rule == "code":
        others = (A.sum() - A) / (len(A) - 1) if len(A) > 1 else np.zeros(1)
        found = np.flatnonzero(A > others + float(value or 3))
        if rule == "code" and not len(found):
            found = np.array([A.argmax()])
    elif rule == "bos":
        found = np.zeros(1, dtype=int)
    elif name == "top-k":
        found = np.sort(np.argsort(-A, kind="stable")[: int(value or 1)])
    else:
        raise ValueError(f"rule {rule!r} is unknown, expected std[:EPSILON], above:AMOUNT, code, bos or top-k[:K]")
    return found
