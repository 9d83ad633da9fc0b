"""Rows with missing or infinite values: refused with advice, or left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.advice import Advice, InputError
from squeak.core.types import Array, IntArray, Rows
from squeak.data.pieces import Piece

SKIP = Advice("skip such rows with {}", "on_bad_rows", "skip")
FILL = Advice("fill missing values with {}", "missing", "median", otherwise="fit the model with {}")


def finite_rows(
    X: Array, raw: Array, piece: Piece, skip: bool, label: Callable[[int], str]
) -> tuple[Array, IntArray | None]:
    """Return the finite rows of an array, and which of them they are (None for all).

    ``X``, ``raw``: the rows, and their values as the user has them. ``piece``: where they stand. ``skip``: whether
    the others are left out, or refused. ``label``: words for a column by its place in X.
    """
    finite = np.isfinite(X)
    if finite.all():
        return X, None
    whole = finite.all(axis=1)
    if not skip:
        row = int(np.argmin(whole))
        column = int(np.argmin(finite[row]))
        value = raw[row, column]
        strange = f"{value:g}, which no {X.dtype} holds when scaled" if np.isfinite(value) else str(value)
        fact = f"{piece.row(row)}: {label(column)} is {strange}"
        raise InputError(fact, SKIP, *([FILL] if np.isnan(value) else []))
    kept = np.flatnonzero(whole)
    return X[kept], kept


def finite_matrix(piece: Piece, skip: bool) -> tuple[Rows, IntArray | None]:
    """Return the finite rows of a plain matrix, and which of them they are (None for all)."""
    if sp.issparse(piece.data):
        return finite_sparse(piece.data, piece, skip)
    return finite_rows(piece.data, piece.data, piece, skip, lambda place: f"column {piece.column_number(place)}")


def finite_sparse(X: Any, piece: Piece, skip: bool) -> tuple[Rows, IntArray | None]:
    """Return the finite rows of a CSR matrix, and which of them they are (None for all)."""
    csr = sp.csr_array(X)
    finite = np.isfinite(csr.data)
    if finite.all():
        return csr, None
    owners = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    if not skip:
        place = int(np.argmin(finite))
        column = piece.column_number(int(csr.indices[place]))
        raise InputError(f"{piece.row(int(owners[place]))}: column {column} is {csr.data[place]}", SKIP)
    kept = np.setdiff1d(np.arange(csr.shape[0]), owners[~finite])
    return csr[kept], kept
