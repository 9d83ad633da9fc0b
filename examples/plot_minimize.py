"""
Minimise an expensive function
==============================

:func:`squeak.bandits.minimize` looks for the least value of a function over a box, in as few calls as it can;
sides may be real, whole numbers or categories. The example is the Branin function, which has three equal
minima, in 50 calls.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak.bandits import minimize


def branin(x):
    """Return the Branin function; its least value is 0.3979."""
    a, b = x
    bend = b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6
    return bend**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


# %%
# The figure shows the points in the order in which they were tried, beside a random search with as many calls.
tried, values = [], []


def noted(x):
    """Call the function and note where."""
    tried.append(x)
    values.append(branin(x))
    return values[-1]


found = minimize(noted, [(-5.0, 10.0), (0.0, 15.0)], 50, random_state=0)
rng = np.random.default_rng(0)
random = [branin(rng.uniform([-5, 0], [10, 15])) for _ in range(50)]
print(f"least value {found.fun:.4f} at {np.round(found.x, 2)}; by random search {min(random):.4f}")

# %%
across, up = np.meshgrid(np.linspace(-5, 10, 120), np.linspace(0, 15, 120))
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.contourf(across, up, np.log(branin((across, up))), levels=20, cmap="Blues_r")
left.scatter(*np.array(tried).T, c=np.arange(50), cmap="autumn", s=18, edgecolor="k", linewidth=0.4)
left.set_title("calls, from red to yellow")
for name, series, colour in (("minimize", values, "#0b6e99"), ("random search", random, "#d9730d")):
    right.plot(np.arange(1, 51), np.minimum.accumulate(series) - 0.397887, color=colour, label=name)
right.set(yscale="log", xlabel="calls", ylabel="least value so far, above the minimum")
right.legend(frameon=False)
right.spines[["top", "right"]].set_visible(False)
plt.show()
