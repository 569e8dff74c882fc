"""figure.py RUN.npz OUT.png [LAYER]: received attention by position and step, drawn with matplotlib.

The same figure as `llama-attention temporal RUN.npz --png OUT.png`, as a starting point for one's own.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from buoy import Recording, find_anchors


def draw(run, layer=None):
    received = run.temporal(layer)
    n_steps, n_positions = received.shape
    figure, axes = plt.subplots(figsize=(max(6, n_positions * 0.16), max(3, n_steps * 0.16)), layout="constrained")
    image = axes.imshow(received, cmap="viridis", aspect="auto", interpolation="nearest")
    figure.colorbar(image, label="received attention")
    for row, A in enumerate(received):
        keys = A[A == A]  # not NaN
        if len(keys):
            anchors = find_anchors(keys, "std")
            axes.plot(anchors, [row] * len(anchors), "rx", markersize=4)
    axes.axvline(run.meta["n_prompt"] - 0.5, color="white", linewidth=1)
    axes.set_xticks(range(n_positions), run.meta["pieces"], rotation=90, fontsize=6)
    axes.set_yticks(range(n_steps), run.steps, fontsize=6)
    axes.set(xlabel="position", ylabel="step",
             title=f"{run.meta['model']['name']}, {'mean of all layers' if layer is None else f'layer {layer}'}")
    return figure


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with Recording(sys.argv[1]) as recording:
        draw(recording, *map(int, sys.argv[3:])).savefig(sys.argv[2], dpi=150)
