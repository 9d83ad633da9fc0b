"""
Batches of experiments at the same time
=======================================

Waiting for each reward before the next pull is slow where experiments can run side by side. BatchBKB freezes
what it believes about the mean until its variances have fallen by a factor, and asks for whole batches. A few
batches have a regret close to that of one reward at a time.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak.bandits import GPUCB, BatchBKB, UniformArms, regret
from squeak.kernels import RBF

rng = np.random.default_rng(0)
arms = rng.random((1000, 2))
f = RBF(0.2)(arms, arms[:12]) @ rng.standard_normal(12)
steps = 400

# %%
# ``ask`` returns the rows to pull at the same time; ``tell`` takes their rewards.
batches = BatchBKB(arms, RBF(0.2), noise=0.1, beta=2.0, max_batch=40, random_state=0)
ends = []
while batches.n_told_ < steps:
    batch = batches.ask()
    batches.tell(batch, f[batch] + 0.1 * rng.standard_normal(len(batch)))
    ends.append(batches.n_told_)
print(f"{batches.n_told_} pulls in {len(ends)} batches, the largest of {max(np.diff([0, *ends]))}")

# %%
one_by_one = GPUCB(arms, RBF(0.2), noise=0.1, beta=2.0, random_state=0)
one_by_one.run(lambda arm: f[arm] + 0.1 * rng.standard_normal(), steps)
uniform = UniformArms(arms, RBF(0.2), random_state=0).run(lambda arm: f[arm], steps)

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
axes.plot(regret(f, uniform.pulls_).cumulative, "k:", label="uniform")
axes.plot(regret(f, one_by_one.pulls_).cumulative, color="#d9730d", label=f"GP-UCB: {steps} rewards, one by one")
total = regret(f, batches.pulls_).cumulative
axes.plot(total, color="#0b6e99", label=f"BatchBKB: {len(ends)} batches")
axes.plot(np.array(ends) - 1, total[np.array(ends) - 1], "|", color="#0b6e99", markersize=9)
axes.set(xlabel="pulls", ylabel="regret", ylim=(0, 3 * max(total[-1], regret(f, one_by_one.pulls_).cumulative[-1])))
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
