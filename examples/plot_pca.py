"""Kernel PCA and k-means on a dictionary: how few atoms do, what pre-images are for, and rings as clusters.

Left: the error of 40 components, as a multiple of the best possible, against the number of atoms (2,000 rows, most
of them in one cluster; mean of five runs). Middle: a noisy curve and its pre-images under 12 components. Right: two
rings, which no straight line parts, by k-means with a Gaussian kernel.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from squeak import KernelKMeans, KernelPCA
from squeak.kernels import RBF
from squeak.samplers import BlessR, Uniform

BLUE, ORANGE, GREY = "#0b6e99", "#d9730d", "0.75"


def coherent_rows(rng: np.random.Generator) -> np.ndarray:
    """Return 2,000 rows: one large cluster, and a dozen of ten rows each around it."""
    centres = 6 * rng.standard_normal((12, 3))
    few = np.concatenate([c + 0.3 * rng.standard_normal((10, 3)) for c in centres])
    return rng.permutation(np.concatenate([rng.standard_normal((1880, 3)), few]))


def main(out: Path) -> None:
    """Draw the three panels."""
    rng = np.random.default_rng(0)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")

    X, kernel = coherent_rows(rng), RBF(1.0)
    best = np.linalg.eigvalsh(kernel(X))[:-40].sum()
    sizes = (50, 100, 200, 400)
    for sampler, colour, label in ((Uniform, ORANGE, "uniform"), (BlessR, BLUE, "leverage scores (BLESS-R)")):
        errors = [
            np.mean(
                [
                    KernelPCA(40, kernel, centre=False, sampler=sampler(max_atoms=m, random_state=seed))
                    .fit(X)
                    .reconstruction_error_
                    for seed in range(5)
                ]
            )
            / best
            for m in sizes
        ]
        print(label, dict(zip(sizes, np.round(errors, 3).tolist(), strict=True)))
        left.plot(sizes, np.array(errors) - 1, marker="o", color=colour, label=label)
    left.set(xscale="log", yscale="log", xlabel="atoms", ylabel="error of 40 components over the best, less 1")
    left.set_xticks(sizes, [str(m) for m in sizes])
    left.minorticks_off()
    left.legend(frameon=False)

    turn = np.sort(rng.uniform(0, 3 * np.pi, 1500))
    clean = np.column_stack([turn * np.cos(turn), turn * np.sin(turn)]) / 4
    noisy = clean + 0.15 * rng.standard_normal(clean.shape)
    pca = KernelPCA(12, RBF(0.5), max_atoms=150, random_state=0).fit(noisy)
    found = pca.inverse_transform(pca.transform(noisy))
    for rows, name in ((noisy, "noisy"), (found, "pre-images")):
        off = np.sqrt(((rows[:, None] - clean[None, ::3]) ** 2).sum(axis=2).min(axis=1)).mean()
        print(f"{name}: mean distance from the curve {off:.3f}")
    middle.scatter(*noisy.T, s=4, color=GREY, label="rows")
    middle.scatter(*found.T, s=4, color=BLUE, label="pre-images")
    middle.legend(frameon=False, markerscale=3)

    angle, radius = rng.uniform(0, 2 * np.pi, 1000), np.repeat([0.4, 3.0], 500)
    rings = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.15 * rng.standard_normal(
        (1000, 2)
    )
    labels = KernelKMeans(2, RBF(1.0), max_atoms=60, random_state=0).fit(rings).labels_
    right.scatter(*rings.T, s=6, c=np.where(labels == labels[0], BLUE, ORANGE))

    middle.set_aspect("equal")
    right.set_aspect("equal")
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out / "pca.png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main(Path(__file__).resolve().parents[1] / "docs" / "images")
