"""Draw variance starvation, and what the width does to the regret, for docs/bandits.md."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from squeak.bandits import BKB, GPUCB, SorUCB, UniformArms, regret
from squeak.kernels import RBF

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def starvation() -> None:
    """Pull arms in the left half only; SoR is sure of the right half, DTC is not."""
    arms = np.linspace(0, 1, 400).reshape(-1, 1)
    f = np.sin(12 * arms[:, 0])
    figure, axes = plt.subplots(1, 3, figsize=(11, 3), sharey=True)
    for axis, n in zip(axes, (6, 63, 215), strict=True):
        rng = np.random.default_rng(n)
        pulls = rng.integers(0, 200, n)
        rewards = f[pulls] + 0.1 * rng.standard_normal(n)
        for cls, colour, name in ((SorUCB, "tab:red", "SoR"), (BKB, "tab:blue", "BKB (DTC)")):
            bandit = cls(arms, RBF(0.0707), noise=0.1, random_state=0)
            bandit.tell(pulls, rewards)
            mean, std = bandit.posterior()
            axis.fill_between(arms[:, 0], mean - 3 * std, mean + 3 * std, color=colour, alpha=0.25, label=name)
        axis.plot(arms[:, 0], f, "k", lw=1, label="f")
        axis.plot(arms[pulls, 0], rewards, ".k", ms=3)
        axis.set_title(f"{n} pulls, all left of ½")
    axes[0].legend(loc="upper left", fontsize=8)
    axes[0].set_ylabel("mean ± 3 std")
    figure.tight_layout()
    figure.savefig(IMAGES / "starvation.png", dpi=110)


def widths() -> None:
    """Run one problem with every width; the regret over time."""
    rng = np.random.default_rng(0)
    arms = rng.random((400, 2))
    f = RBF(0.2)(arms, arms[:12]) @ rng.standard_normal(12)
    figure, axis = plt.subplots(figsize=(6, 4))
    for beta in (1.0, 3.0, "logdet", "public", "theory"):
        draw = np.random.default_rng(1)
        bandit = (BKB if beta in ("public", "theory") else GPUCB)(
            arms, RBF(0.2), noise=0.1, norm=2.0, beta=beta, random_state=0
        )
        bandit.run(lambda i, draw=draw: f[i] + 0.1 * draw.standard_normal(), 400)
        axis.plot(regret(f, bandit.pulls_).cumulative, label=f"{type(bandit).__name__}, beta={beta!r}")
    uniform = UniformArms(arms, RBF(0.2), random_state=0).run(lambda i: f[i], 400)
    axis.plot(regret(f, uniform.pulls_).cumulative, "k:", label="uniform")
    axis.set(xlabel="pulls", ylabel="regret")
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(IMAGES / "widths.png", dpi=110)


def main() -> None:
    """Draw both figures."""
    starvation()
    widths()


if __name__ == "__main__":
    main()
