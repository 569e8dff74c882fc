"""Figures of recordings with matplotlib, which must be installed. Each draws on the given axes, or on new ones, and returns them."""

import matplotlib.pyplot as plt
import numpy as np

from .anchors import find_anchors


def temporal(run, layer=None, rule="std:3", axes=None):
    """Received attention by position and step; crosses mark the anchors that the rule finds."""
    received = run.temporal(layer)
    n_steps, n_positions = received.shape
    axes = axes or _axes(max(6, n_positions * 0.16), max(3, n_steps * 0.16))
    image = axes.imshow(received, cmap="viridis", aspect="auto", interpolation="nearest")
    axes.figure.colorbar(image, ax=axes, label="received attention")
    for row, A in enumerate(received):
        keys = A[~np.isnan(A)]
        if len(keys):
            anchors = find_anchors(keys, rule)
            axes.plot(anchors, [row] * len(anchors), "rx", markersize=4)
    axes.axvline(run.meta["n_prompt"] - 0.5, color="white", linewidth=1)
    axes.set_yticks(range(n_steps), run.steps, fontsize=6)
    axes.set(xlabel="position", ylabel="step",
             title=f"{_name(run)}, {'mean of all layers' if layer is None else f'layer {layer}'}")
    return _pieces(axes, run, n_positions)


def pattern(run, step, layer, head=None, axes=None):
    """One pattern: of a head, numbered as in the model, or of the heads' mean."""
    values = run.head_mean(step, layer) if head is None else run.pattern(step, layer)[run.heads.index(head)]
    axes = axes or _axes(max(6, values.shape[1] * 0.13), max(5, len(values) * 0.13))
    axes.figure.colorbar(axes.imshow(values, cmap="viridis", aspect="auto", interpolation="nearest"), ax=axes, label="attention")
    axes.set_yticks(range(len(values)), [run.pieces[row] for row in run.rows(step)], fontsize=6)
    axes.set(xlabel="key", ylabel="query",
             title=f"{_name(run)}, step {step}, layer {layer}, {'mean of heads' if head is None else f'head {head}'}")
    return _pieces(axes, run, values.shape[1])


def absorption(*runs, rule="std:3", axes=None):
    """Share of the attention that anchors receive, by layer, a curve for each recording."""
    from .metrics import absorption as measure

    axes = axes or _axes(6, 4)
    for run in runs:
        axes.plot(run.layers, measure(run, rule)["by_layer"]["absorption"], marker="o", label=_name(run))
    axes.set(xlabel="layer", ylabel="attention on anchors, %", ylim=(0, None))
    axes.legend()
    return axes


def commits(run, axes=None):
    """The step that wrote each position, and how confident it was."""
    written = np.flatnonzero(run.unmask_step >= 0)
    axes = axes or _axes(max(6, len(written) * 0.16), 4)
    steps = run.unmask_step[written]
    image = axes.scatter(written, steps, c=run.confidence[steps, written], cmap="viridis", vmin=0, vmax=1, marker="s", s=20)
    axes.figure.colorbar(image, ax=axes, label="confidence")
    axes.set(xlabel="position", ylabel="step that wrote it", title=_name(run))
    axes.invert_yaxis()
    return axes


def _axes(width, height):
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def _name(run):
    return run.meta["model"]["name"] or run.meta["model"]["arch"]


def _pieces(axes, run, n):
    axes.set_xticks(range(n), run.pieces[:n], rotation=90, fontsize=6)
    return axes
