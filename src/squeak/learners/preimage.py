"""Pre-images: rows whose feature vectors are nearest to given points of the atoms' span.

A point P = Σ_j c_j φ(atom_j) is rarely the image of a row. For the linear kernel it is, of Σ c_j atom_j. For other
kernels a first row is the combination of P's nearest atoms that comes closest to P in the kernel's own metric,

    min_a ‖P − Σ a_j φ(atom_j)‖²,   Σ a_j = 1,      x = Σ a_j atom_j,

and for the Gaussian kernel it is then improved by the fixed point of the gradient,
x ← Σ c_j k(x, atom_j) atom_j / Σ c_j k(x, atom_j), as long as ‖P − φ(x)‖ falls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core import engine
from squeak.core.kernels import RBF, Linear, Scaled, block, diagonal, gram
from squeak.core.kernels.width import checked_width
from squeak.core.types import Array, Rows

NEAREST = 10
STEPS = 100
SETTLED = 1e-7
"""A row has settled when it moves by less than this, in widths."""

DAMPING = 1e-3
"""Part of the mean square distance that is added to the nearest atoms' Gram matrix."""


def preimages(kernel: Any, atoms: Rows, coef: Array) -> Array:
    """Return a row for every point Σ_j coef[i, j]·φ(atom_j), shape (len(coef), d).

    References
    ----------
    Mika et al., "Kernel PCA and de-noising in feature spaces", NIPS 1998 (the fixed point); Kwok, Tsang, "The
    pre-image problem in kernel methods", 2004 (the nearest atoms).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.learners.preimage import preimages
    >>> atoms = np.linspace(0, 1, 6).reshape(-1, 1)
    >>> preimages(RBF(1.0), atoms, np.eye(6)[2:4]).round(4)      # atoms are their own pre-images
    array([[0.4],
           [0.6]])
    """
    if isinstance(atoms, list):
        raise TypeError("rows that are objects have no pre-images: none can be made by averaging")
    dense = np.asarray(atoms.toarray() if sp.issparse(atoms) else atoms, dtype=np.float64)
    while isinstance(kernel, Scaled):  # k and a multiple of it have the same nearest rows
        kernel = kernel.kernel
    if isinstance(kernel, Linear):
        return np.asarray(coef @ dense)
    K, diag = gram(kernel, atoms), diagonal(kernel, atoms)
    out = np.empty((len(coef), dense.shape[1]))

    def fill(tile: slice) -> None:
        first = _nearest_combination(K, diag, dense, coef[tile])
        out[tile] = _fixed_point(kernel, dense, coef[tile], first) if isinstance(kernel, RBF) else first

    engine.map_ordered(fill, engine.tiles(len(coef), 256))
    return out


def _nearest_combination(K: Array, diag: Array, atoms: Array, coef: Array) -> Array:
    """Return the combinations of the nearest atoms that come closest to the points."""
    near = coef @ K  # ⟨P, φ(atom)⟩
    square = np.einsum("ij,ij->i", coef, near)  # ‖P‖²
    q = min(NEAREST, len(atoms))
    chosen = np.argpartition(diag - 2.0 * near, q - 1, axis=1)[:, :q]
    beside = np.take_along_axis(near, chosen, axis=1)
    # ⟨P − φ_j, P − φ_l⟩ over the chosen atoms
    G = square[:, None, None] - beside[:, :, None] - beside[:, None, :] + K[chosen[:, :, None], chosen[:, None, :]]
    scale = np.maximum(np.trace(G, axis1=1, axis2=2) / q, np.finfo(float).tiny)
    G /= scale[:, None, None]
    G += DAMPING * np.eye(q)
    a = np.linalg.solve(G, np.ones((len(coef), q, 1)))[:, :, 0]
    a /= a.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("ij,ijk->ik", a, atoms[chosen]))


def _fixed_point(kernel: RBF, atoms: Array, coef: Array, x: Array) -> Array:
    """Return the rows after fixed-point steps; each keeps its best value of ⟨P, φ(x)⟩."""
    width = checked_width(kernel, atoms.shape[1])
    x, active = x.copy(), np.arange(len(x))
    products = coef * block(kernel, x, atoms)
    value = products.sum(axis=1)
    for _ in range(STEPS):
        mass = products.sum(axis=1)
        good = mass > 1e-12 * np.abs(products).sum(axis=1)
        active, products, mass = active[good], products[good], mass[good]
        if active.size == 0:
            break
        moved = (products @ atoms) / mass[:, None]
        products = coef[active] * block(kernel, moved, atoms)
        found = products.sum(axis=1)
        better = found > value[active]
        active, moved, products = active[better], moved[better], products[better]
        step = np.abs((moved - x[active]) / width).max(axis=1, initial=0.0)
        x[active], value[active] = moved, found[better]
        going = step > SETTLED
        active, products = active[going], products[going]
    return x
