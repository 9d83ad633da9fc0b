"""What oversampling buys: the measured accuracy falls like one over its root, whatever the data's size.

The exact ε̂ of SQUEAK on 1,500 rows, mean of five runs, in the papers' form (as many copies as oversampling) and
with one coin a row. One coin is the default: at equal oversampling it keeps a few more atoms, at equal size it is
more accurate, and its error ends at 0 once all rows are kept.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from squeak import Squeak
from squeak.kernels import RBF
from squeak.leverage import accuracy


def main(out: Path) -> None:
    """Draw ε̂ against the number of atoms."""
    X = np.random.default_rng(0).standard_normal((1500, 2))
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for coin, colour, label in ((False, "#d9730d", "papers' copies"), (True, "#0b6e99", "one coin")):
        sizes, errors = [], []
        for oversampling in (5, 10, 20, 40):
            sampler = Squeak(
                kernel=RBF(1.0), ridge=1.0, oversampling=oversampling, copies=1 if coin else oversampling
            )
            found = [sampler.set_params(random_state=seed).fit(X).dictionary_ for seed in range(5)]
            sizes.append(np.mean([len(d) for d in found]))
            errors.append(np.mean([accuracy(d, X) for d in found]))
        axes.plot(sizes, errors, marker="o", color=colour, label=label)
    guide = np.array([sizes[0], sizes[-1]])
    axes.plot(guide, 0.9 * np.sqrt(sizes[0] / guide), color="0.7", linestyle=":", label="∝ 1/√atoms")
    axes.set(xscale="log", yscale="log", xlabel="atoms", ylabel="measured accuracy ε̂")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out / "accuracy.png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main(Path(__file__).resolve().parents[1] / "docs" / "images")
