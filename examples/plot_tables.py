"""
A table in, a model and its intervals out
=========================================

Half of the columns of this table are noise. ``AutoRegressor`` learns from the slopes of its own model which columns
matter, makes the others short, and learns where the target is noisy: intervals are wide there and narrow elsewhere.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from squeak import AutoRegressor

rng = np.random.default_rng(0)
table = pd.DataFrame(rng.uniform(-2, 2, (900, 6)), columns=["a", "b", "c", "noise 1", "noise 2", "noise 3"])
noise = 0.05 + 0.25 * (table["a"] > 0)
y = np.sin(2 * table["a"]) + 0.5 * table["b"] * table["c"] + noise * rng.standard_normal(900)
model = AutoRegressor(max_atoms=150, random_state=0).fit(table[:700], y[:700])
print(f"R² on new rows: {model.score(table[700:], y[700:]):.3f}")
print(pd.DataFrame(model.search_)[["stage", "model", "error", "weight"]].to_string())

# %%
# The figure shows rows whose other columns are all 0, and the intervals that hold 90% of the targets there.
line = pd.DataFrame(0.0, index=range(200), columns=table.columns).assign(a=np.linspace(-2, 2, 200))
low, high = model.predict_interval(line, coverage=0.9)
figure, axes = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
axes[0].barh(table.columns[::-1], model.relevance_[::-1])
axes[0].set(title="relevance of each column")
axes[1].fill_between(line["a"], low, high, alpha=0.3, label="90% of new targets")
axes[1].plot(line["a"], model.predict(line), label="prediction")
axes[1].plot(line["a"], np.sin(2 * line["a"]), "k:", label="truth")
axes[1].set(xlabel="a", title="along the first column")
axes[1].legend(fontsize=8)
plt.show()
