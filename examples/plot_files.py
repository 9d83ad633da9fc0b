"""
A file larger than memory
=========================

A row source reads a file block by block, scales columns, turns words into numbers, and never holds more than
a few blocks. The dictionary and the model are the same as if the rows were in memory. The file below is small;
the same lines work for a file of a hundred gigabytes.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import squeak
from squeak import KernelRidge
from squeak.kernels import RBF

# %%
# These flights are made up: the delay grows through the day, and one carrier has a bad afternoon.
rng = np.random.default_rng(0)
n = 60_000
hour, carrier = rng.uniform(5, 24, n), rng.choice(["AA", "DL", "UA"], n)
delay = (
    0.04 * (hour - 5) ** 2 + 12 * (carrier == "UA") * np.exp(-((hour - 16) ** 2) / 4) + 6 * rng.standard_normal(n)
)
folder = Path(tempfile.mkdtemp())
pq.write_table(
    pa.table({"hour": hour, "carrier": carrier, "delay": delay}), folder / "flights.parquet", row_group_size=6_000
)

# %%
# The source remembers how columns became numbers; the model carries it along, also through ``save`` and
# ``load``.
flights = squeak.rows(folder / "flights.parquet", target="delay", scale="standard")
print(flights)
model = KernelRidge(RBF(0.5), alpha=10.0, max_atoms=150, random_state=0).fit(flights)
model.save(folder / "model.sqk")
model = squeak.load(folder / "model.sqk")

# %%
# New rows have the columns of the file.
figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
hours = np.linspace(5, 24, 100)
for name, colour in (("AA", "0.6"), ("DL", "#0b6e99"), ("UA", "#d9730d")):
    asked = pa.table({"hour": hours, "carrier": [name] * len(hours)})
    axes.plot(hours, model.predict(asked), color=colour, label=name)
axes.set(xlabel="hour of departure", ylabel="expected delay, minutes")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
