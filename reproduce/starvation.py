"""Figure 7.1 of Carratino's thesis: arms pulled in one half only, and what a sparse posterior says of the other half.

A Gaussian process on [0, 1]; 6, 63 and 215 rewards at arms drawn uniformly from [0, ½]; mean ± 3 standard deviations.
The length scale and the noise are not printed: 0.07 and 0.1 here. The thesis' point, in a figure only: the subset of
regressors (SoR) loses its variance where there are no atoms, BKB's posterior (DTC) keeps it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduce.figures import figure
from squeak.bandits import BKB, GPUCB, SorUCB
from squeak.kernels import RBF

ARMS, WIDTH, NOISE = 400, 0.07, 0.1
PULLS = (6, 63, 215)
POSTERIORS = {"exact": GPUCB, "BKB (DTC)": BKB, "SoR": SorUCB}


def posteriors(pulls: int) -> tuple[np.ndarray, np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Return arms, truth, each posterior's mean and standard deviation, and the rewards' places and values."""
    arms = np.linspace(0, 1, ARMS).reshape(-1, 1)
    truth = np.sin(12 * arms[:, 0])
    rng = np.random.default_rng(pulls)
    chosen = rng.integers(0, ARMS // 2, pulls)
    rewards = truth[chosen] + NOISE * rng.standard_normal(pulls)
    found = {}
    for name, maker in POSTERIORS.items():
        bandit = maker(arms, RBF(WIDTH), noise=NOISE, random_state=0)
        bandit.tell(chosen, rewards)
        found[name] = bandit.posterior()
    return arms[:, 0], truth, found, np.column_stack([arms[chosen, 0], rewards])


def run() -> dict[str, Any]:
    table: dict[str, Any] = {}
    with figure("starvation", len(PULLS), height=3.0, share=True) as axes:
        for axis, pulls in zip(axes, PULLS, strict=True):
            x, truth, found, rewards = posteriors(pulls)
            far = x > 0.5 + 3 * WIDTH
            table[str(pulls)] = {name: float(std[far].mean()) for name, (_, std) in found.items()}
            for name, colour in (("SoR", "tab:red"), ("BKB (DTC)", "tab:blue")):
                mean, std = found[name]
                axis.fill_between(x, mean - 3 * std, mean + 3 * std, color=colour, alpha=0.25, label=name)
            axis.plot(x, truth, "k", lw=1, label="f")
            axis.plot(rewards[:, 0], rewards[:, 1], ".k", ms=3)
            axis.set_title(f"{pulls} pulls, all left of ½")
        axes[0].legend(loc="upper left", fontsize=8)
        axes[0].set_ylabel("mean ± 3 std")
    for pulls, row in table.items():
        print(f"  {pulls:>3} pulls: " + ", ".join(f"{name} {std:.3f}" for name, std in row.items()), flush=True)
    return {"far_std": table}


def page(found: dict[str, Any]) -> str:
    text = [
        "## Variance starvation (Carratino's thesis, figure 7.1)",
        "",
        f"Rewards at arms of the left half only, length scale {WIDTH:g}, noise {NOISE:g} (not printed in the thesis). Mean standard deviation at the arms more "
        "than three length scales to the right of ½, where the prior's is 1. The thesis has the figure and no numbers; ours shows the same.",
        "",
        "| pulls | " + " | ".join(POSTERIORS) + " |",
        "|---|" + "---|" * len(POSTERIORS),
    ]
    for pulls, row in found["far_std"].items():
        text.append(f"| {pulls} | " + " | ".join(f"{row[name]:.3f}" for name in POSTERIORS) + " |")
    return "\n".join([*text, "", "![variance starvation](images/starvation.png)"]) + "\n"
