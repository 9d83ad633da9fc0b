"""
One model of three sites whose rows stay
========================================

Three sites measure the same thing in different parts of its range, and their rows may not leave. Each learns a
dictionary; the dictionaries are merged from files. Then each site sums its rows on the merged atoms, and the sums
are added from files. The result is the model of all rows on these atoms.

Atoms are rows: with the dictionaries, some hundred rows leave each site. Where not one may, take the atoms from
public rows. Then sums leave, with a number for each of some thousand rows that says how well the model fits it, but
no row; and the loss is what the public atoms cannot represent.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import squeak
from squeak import KernelRidge, Squeak
from squeak.kernels import RBF

rng = np.random.default_rng(0)
kernel, alpha, centres = RBF(2.0), 0.5, [(-2.0, -1.0, 0.0), (2.0, -1.0, 1.0), (0.0, 2.0, -1.0)]


def measured(X):
    """Return what a site measures at its rows."""
    return np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 4 + 0.1 * rng.standard_normal(len(X))


sites = [rng.standard_normal((4_000, 3)) + centre for centre in centres]
targets = [measured(X) for X in sites]
test = np.vstack([rng.standard_normal((1_000, 3)) + centre for centre in centres])
truth = np.sin(2 * test[:, 0]) + test[:, 1] ** 2 / 4
folder = Path(tempfile.mkdtemp())

# %%
# Round 1: each site writes a dictionary. The file holds its atoms (rows of the site), their weights, and how many
# rows there were.
for number, X in enumerate(sites):
    sampler = Squeak(kernel, ridge=10.0, oversampling=4, source=f"site {number}", random_state=number)
    sampler.fit(X).dictionary_.save(folder / f"dictionary-{number}.sqk")
files = [squeak.load(folder / f"dictionary-{number}.sqk") for number in range(3)]
merged = squeak.merge(*files, random_state=0)
print(merged)


# %%
# Round 2: each site sums its rows on atoms that all have. The file holds the atoms, an m x m matrix of sums, m
# coefficients and leave-one-out scores of up to 4,000 rows. Public atoms are drawn here from the whole range,
# without a look at any site's rows.
def added(atoms, name):
    """Return the model of all sites on some atoms, and those of each alone, through files."""
    for number, (X, y) in enumerate(zip(sites, targets, strict=True)):
        KernelRidge(kernel, alpha, dictionary=atoms).fit(X, y).save(folder / f"{name}-{number}.sqk")
    alone = [squeak.load(folder / f"{name}-{number}.sqk") for number in range(3)]
    return alone[0].merge(*alone[1:]), alone


def error(model):
    """Return the root mean squared error on new rows of all sites."""
    return float(np.sqrt(np.mean((model.predict(test) - truth) ** 2)))


public = rng.uniform(-5, 5, (len(merged), 3))
everything = np.vstack(sites), np.concatenate(targets)
own = Squeak(kernel, ridge=10.0, oversampling=4, random_state=0).fit(everything[0]).dictionary_
together = KernelRidge(kernel, alpha, dictionary=own.atoms).fit(*everything)
(model, alone), (public_model, _) = added(merged.atoms, "ridge"), added(public, "public")
errors = {
    "each site alone": float(np.mean([error(one) for one in alone])),
    "all rows\nin one place": error(together),
    "merged atoms,\nsums added": error(model),
    "public atoms,\nsums added": error(public_model),
}
same = KernelRidge(kernel, alpha, dictionary=merged.atoms).fit(*everything)
print(
    f"sums added against all rows on the same atoms: {np.abs(model.predict(test) - same.predict(test)).max():.1e}"
)
for name, value in errors.items():
    print(f"{' '.join(name.split())}: {value:.4f}")

# %%
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axes.bar(list(errors), list(errors.values()), color=["0.6", "0.3", "tab:blue", "tab:orange"])
axes.set_yscale("log")
axes.set_ylabel("error on new rows")
axes.set_title(f"Three sites of 4,000 rows, {len(merged)} atoms")
