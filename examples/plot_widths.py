"""
The width matters more than the algorithm
=========================================

An upper confidence bound is mean + width · standard deviation. The widths of the theory are safe and
slow; constants are quick and may settle on a wrong arm. The figure shows the regret over time of every width, on
one problem with 400 arms.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak.bandits import BKB, GPUCB, UniformArms, regret
from squeak.kernels import RBF

rng = np.random.default_rng(0)
arms = rng.random((400, 2))
f = RBF(0.2)(arms, arms[:12]) @ rng.standard_normal(12)

# %%
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for beta in (1.0, 3.0, "logdet", "public", "theory"):
    noise = np.random.default_rng(1)
    cls = BKB if beta in ("public", "theory") else GPUCB
    bandit = cls(arms, RBF(0.2), noise=0.1, norm=2.0, beta=beta, random_state=0)
    bandit.run(lambda arm, noise=noise: f[arm] + 0.1 * noise.standard_normal(), 400)
    axes.plot(regret(f, bandit.pulls_).cumulative, label=f"{cls.__name__}, beta={beta!r}")
uniform = UniformArms(arms, RBF(0.2), random_state=0).run(lambda arm: f[arm], 400)
axes.plot(regret(f, uniform.pulls_).cumulative, "k:", label="uniform")
axes.set(xlabel="pulls", ylabel="regret")
axes.legend(fontsize=8)
plt.show()
