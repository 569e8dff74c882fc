"""figure.py RUN.npz OUT.png [LAYER]: received attention by position and step, drawn with matplotlib.

The same figure as `llama-attention temporal RUN.npz --png OUT.png`, as a starting point for one's own.
"""

import sys

import matplotlib

matplotlib.use("Agg")

from buoy import Recording, plot

if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with Recording(sys.argv[1]) as recording:
        plot.temporal(recording, *map(int, sys.argv[3:])).figure.savefig(sys.argv[2], dpi=150)
