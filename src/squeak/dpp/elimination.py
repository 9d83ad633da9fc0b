"""A sample of a small determinantal point process from the Cholesky factor of I + L, without eigenvectors.

Rows are decided from the last to the first. With C Cᵀ = I + L, row j decided after S (the later rows that are in):

    P(j ∈ S | later decisions) = 1 − (1 + a)/C_jj²,   a = cᵀGc,   c = C[S, j],

where G is the inverse of L_SS less what the rows up to j explain, C[S, :j + 1] C[S, :j + 1]ᵀ. As a ≥ 0, a row
whose coin is not below 1 − 1/C_jj² is out whatever came before: only the others are looked at one by one. After
the factor, which the acceptance test of DPP-VFX needs anyway, the cost is O(u·|S|²) for u rows.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_lapack_funcs

from squeak.core.types import Array, IntArray

(_posv,) = get_lapack_funcs(("posv",), dtype=np.float64)


def sample_from_factor(factor: Array, uniforms: Array) -> IntArray:
    """Return a sample of DPP(L), ascending, from the lower factor C of I + L = C Cᵀ and a coin for each row.

    Derivation: eliminate the undecided rows before j from I + L with the 1 taken off the diagonal of those in S.
    What is left for S is Σ_j = Σ_{j+1} + c cᵀ, for j beside S it is C_jj·c, and for j itself C_jj²; the
    probability is 1 less the ratio of determinants without and with j. Out, j leaves Σ_j; in, it borders it.

    Source: Our own arrangement of the chain rule; Launay, Galerne, Desolneux, "Exact sampling of determinantal
    point processes without eigendecomposition", 2018, decide the rows in order with the marginal kernel instead.
    """
    squares = np.square(factor.diagonal())
    candidates = np.flatnonzero(uniforms * squares < squares - 1.0)[::-1].tolist()
    chosen: list[int] = []
    rows = np.empty((16, len(squares)))  # of the factor, those chosen
    G = np.empty((16, 16))
    upto = len(squares)  # columns from here on have been taken into G
    for j in candidates:
        k, left, h = len(chosen), squares[j], None
        if k:
            inverse = G[:k, :k]
            if upto > j + 1:
                _update(inverse, rows[:k, j + 1 : upto])
            c = rows[:k, j]
            g = inverse @ c
            a = 1.0 + max(float(c @ g), 0.0)
            inverse -= np.multiply.outer(g, g / a)
            left /= a
            h = (factor[j, j] / a) * g
        upto = j
        if uniforms[j] * left >= left - 1.0:
            continue
        if k == len(rows):
            rows, G = np.concatenate([rows, np.empty_like(rows)]), np.pad(G, (0, k))
        rows[k] = factor[j]
        G[k, k] = 1.0 / (left - 1.0)
        if h is not None:
            scaled = h / (left - 1.0)
            G[:k, :k] += np.multiply.outer(h, scaled)
            G[k, :k] = G[:k, k] = -scaled
        chosen.append(j)
    return np.array(chosen[::-1], dtype=np.int64)


def _update(G: Array, R: Array) -> None:
    """Put (G⁻¹ + R Rᵀ)⁻¹ in the place of G."""
    GR = G @ R
    inner = R.T @ GR
    inner.flat[:: len(inner) + 1] += 1.0
    _, solved, _ = _posv(inner, GR.T)
    G -= GR @ solved
