"""The spectrum of a dictionary's weighted kernel matrix, all of it or its largest values."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigvalsh

from squeak.core.leverage import weighted_gram
from squeak.core.types import Array
from squeak.report.charts import curves
from squeak.report.shell import Panel
from squeak.report.tags import number
from squeak.samplers.dictionary import Dictionary

ALL_UP_TO = 2000
"""Atoms up to which every eigenvalue is computed; beyond, the largest by subspace iteration."""

LARGEST = 500
EXTRA, PASSES = 100, 3


def spectrum_of(K: Array, weights: Array) -> Array:
    """Return the eigenvalues of S K S, S² the weights, largest first: all of them, or the largest 500.

    The latter are Ritz values of a random subspace of 600 dimensions after three products with the matrix:
    never above the true ones.
    """
    W = weighted_gram(K, weights)
    if len(W) <= ALL_UP_TO:
        return np.asarray(np.maximum(eigvalsh(W, check_finite=False)[::-1], 0.0))
    basis = np.random.default_rng(0).standard_normal((len(W), LARGEST + EXTRA))
    for _ in range(PASSES):
        basis = np.linalg.qr(W @ basis)[0]
    found = eigvalsh(basis.T @ (W @ basis), check_finite=False)[::-1]
    return np.asarray(np.maximum(found[:LARGEST], 0.0))


def spectrum_panels(d: Dictionary, values: Array) -> list[Panel]:
    """Return the spectrum with the ridge marked, and the effective dimension against the ridge."""
    whole = len(values) == len(d)
    shown = values[values > max(1e-6 * d.ridge, 1e-12 * values[0])]
    above = int(np.sum(values > d.ridge))
    places = np.arange(1, len(shown) + 1)
    chart = curves(
        [("eigenvalue", places, shown)],
        "place",
        "eigenvalue",
        "eigenvalues of the kernel matrix with the ridge marked",
        log_x=True,
        log_y=True,
        level=(d.ridge, f"ridge {number(d.ridge)}"),
    )
    more = "" if whole else f" The largest {len(values)} of {len(d):,} are shown."
    words = (
        f"Estimated eigenvalues of K over all {d.n_seen:,} rows. {above:,} stand above the ridge: the directions "
        f"that the dictionary keeps. What lies below is smoothed away.{more}"
    )
    panels = [Panel("Spectrum", chart, words)]
    if whole:
        low, high = max(d.ridge / 100, 1e-9 * values[0]), max(values[0], d.ridge * 10)
        ridges = np.geomspace(low, high, 60)
        dimensions = (values[None, :] / (values[None, :] + ridges[:, None])).sum(axis=1)
        curve = curves(
            [("effective dimension", ridges, dimensions)],
            "ridge",
            "effective dimension",
            "effective dimension against the ridge",
            log_x=True,
            log_y=True,
            upright=(d.ridge, f"ridge {number(d.ridge)}"),
        )
        words = (
            "What another ridge would ask for: a dictionary has about oversampling times this many atoms. "
            "Left of the mark the curve is a lower estimate, since atoms were chosen for the ridge at the mark."
        )
        panels.append(Panel("Effective dimension", curve, words))
    return panels
