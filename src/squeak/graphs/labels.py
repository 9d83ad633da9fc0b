"""Labels of nodes: an array with a place for every node, or those that are known, by the name of the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from squeak.graphs.names import is_unknown, places_of


def read_labels(y: Any) -> tuple[Any, Any]:
    """Return y as an array and which of its values are labels: not −1, None or NaN, nor "-1" among text."""
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be one-dimensional; it has shape {y.shape}")
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError("y has infinite values: mark unlabelled nodes by -1, None or NaN")
    if y.dtype.kind in "OUS":
        unknown = np.array([is_unknown(v) or v in (-1, "-1", b"-1") for v in y.tolist()], dtype=bool)
    else:
        unknown = (y == -1) | (np.isnan(y) if y.dtype.kind == "f" else False)
    labelled = np.flatnonzero(~unknown)
    if len(labelled) == 0:
        raise ValueError("y has no labels: all are -1, None or NaN")
    return y, labelled


def of_one_kind(labels: Any) -> Any:
    """Return labels as an array of numbers, or of text, where an array of objects holds nothing else."""
    alike = labels.dtype == object and len({type(label) for label in labels.tolist()}) == 1
    return np.array(labels.tolist()) if alike else labels


def read_values(y: Any) -> tuple[Any, Any]:
    """Return y as an array of numbers and which of its values are not NaN or None."""
    y = np.asarray(y, dtype=np.float64)
    if y.ndim != 1:
        raise ValueError(f"y must be one-dimensional; it has shape {y.shape}")
    if np.isinf(y).any():
        raise ValueError("y has infinite values")
    labelled = np.flatnonzero(~np.isnan(y))
    if len(labelled) == 0:
        raise ValueError("y has no values: all are NaN")
    return y, labelled


def labels_by_name(labels: Mapping[Any, Any], names: Any, n_nodes: int) -> Any:
    """Return a label for every node, None where it is unknown, from labels by name."""
    found = np.empty(n_nodes, dtype=object)
    found[places_of(labels, names, n_nodes)] = list(labels.values())
    return found
