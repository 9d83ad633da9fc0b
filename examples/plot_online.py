"""
A target that drifts
====================

An online learner can trust everything it has seen (adaptive curvature), which is best when the order of rows
means nothing. Or it can keep taking large steps (worst-case curvature), which follows a target that moves.
``curvature="auto"`` runs both over the same atoms and predicts with the one that was better lately. Each row is
predicted before it is learned.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak.kernels import RBF
from squeak.online import ConKonsRegressor, FOGDRegressor, progressive_validation

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (8000, 2))
phase = np.linspace(0, 16 * np.pi, len(X))
streams = {
    "a steady target": np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.2 * rng.standard_normal(len(X)),
    "a target that drifts": np.sin(3 * X[:, 0] + phase) * np.cos(2 * X[:, 1]),
}
kernel = RBF(1.0)
models = {
    "CON-KONS, adaptive": (ConKonsRegressor(kernel, curvature="adaptive", random_state=0), "#0b6e99"),
    "CON-KONS, worst": (ConKonsRegressor(kernel, curvature="worst", random_state=0), "#d9730d"),
    "CON-KONS, auto": (ConKonsRegressor(kernel, curvature="auto", random_state=0), "#1f1f1f"),
    "FOGD": (FOGDRegressor(kernel, random_state=0), "#b8b7b3"),
}

# %%
# None of these learners forgets old rows: on the right even the one with the worst-case curvature becomes slower
# in time.
figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
window = 300
for axes, (words, y) in zip(panels, streams.items(), strict=True):
    for name, (model, colour) in models.items():
        losses = progressive_validation(model.fit(X[:2], y[:2]), X[2:], y[2:]).losses
        sums = np.concatenate([[0.0], np.cumsum(losses)])
        shown = (sums[window:] - sums[:-window]) / window
        style = "--" if name.endswith("auto") else "-"
        label = f"{name}: {losses.mean():.4f} in all"
        axes.plot(np.arange(window, len(sums)), shown, style, color=colour, linewidth=1.3, label=label)
    axes.set(title=words, xlabel="rows", yscale="log")
    axes.grid(visible=True, which="major", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
panels[0].set_ylabel("squared error of the last 300 rows")
plt.show()
