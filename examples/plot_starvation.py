"""
Variance starvation
===================

All pulls lie in the left half. On the right, where nothing was seen, the exact variance stays large, and so does
the variance of BKB (which is called DTC). Another approximation, the subset of regressors (SoR), leaves out what
its dictionary cannot see. It is sure that the function is 0 on the right, so it never looks there, and its
dictionary never gets atoms there either.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak.bandits import BKB, SorUCB
from squeak.kernels import RBF

arms = np.linspace(0, 1, 400).reshape(-1, 1)
f = np.sin(12 * arms[:, 0])

# %%
figure, panels = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True, layout="constrained")
for axes, n in zip(panels, (6, 63, 215), strict=True):
    rng = np.random.default_rng(n)
    pulls = rng.integers(0, 200, n)
    rewards = f[pulls] + 0.1 * rng.standard_normal(n)
    for cls, colour, name in ((SorUCB, "tab:red", "SoR"), (BKB, "tab:blue", "BKB (DTC)")):
        bandit = cls(arms, RBF(0.0707), noise=0.1, random_state=0)
        bandit.tell(pulls, rewards)
        mean, std = bandit.posterior()
        axes.fill_between(arms[:, 0], mean - 3 * std, mean + 3 * std, color=colour, alpha=0.25, label=name)
    axes.plot(arms[:, 0], f, "k", lw=1, label="f")
    axes.plot(arms[pulls, 0], rewards, ".k", ms=3)
    axes.set_title(f"{n} pulls, all left of ½")
panels[0].legend(loc="upper left", fontsize=8)
panels[0].set_ylabel("mean ± 3 std")
plt.show()
