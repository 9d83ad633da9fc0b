"""Centres of clusters in the span of a dictionary's atoms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squeak.core.types import Array

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Centres:
    """Centres in the span of the atoms: by features (k, rank), by atoms (m, k), and their squared norms."""

    points: Array
    coef: Array
    norms: Array

    @classmethod
    def of(cls, points: Array, mixing: Array) -> Centres:
        """Return the centres with these features."""
        return cls(points, mixing @ points.T, np.einsum("ij,ij->i", points, points))


def means(sums: Array, counts: Array, mixing: Array, places: Array) -> Centres:
    """Return the means of the clusters; one without rows begins anew at the place farthest from all centres."""
    points = (sums @ mixing) / np.maximum(counts, TINY)[:, None]
    settled = list(np.flatnonzero(counts > 0))
    for empty in np.flatnonzero(counts == 0):
        there = points[settled]
        near = np.min(np.sum(there**2, axis=1) - 2.0 * (places @ there.T), axis=1) + np.sum(places**2, axis=1)
        points[empty] = places[int(np.argmax(near))]
        settled.append(empty)
    return Centres.of(points, mixing)
