"""Rows that the reader gives with an object: read once, as the kernel takes them, within a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.rows import check_rows, join, n_rows, take, width_of
from squeak.core.types import Rows
from squeak.data import Preprocessing, RowSource
from squeak.report.plot import some
from squeak.samplers.dictionary import Dictionary

MOST_BYTES = 2**30
"""Rows are read up to this size; of longer data the report looks at the beginning, and says so."""


MOST_NAMED = 300
"""Columns without names are numbered up to so many."""


@dataclass(frozen=True)
class Given:
    """Rows as the kernel takes them, their targets, and whether these are all the rows there were."""

    X: Rows
    y: Any
    whole: bool
    skipped: int
    names: tuple[str, ...] = ()
    """The columns' names, where the rows came with them."""

    @property
    def n(self) -> int:
        """The number of rows."""
        return n_rows(self.X)

    def sample(self, most: int) -> Given:
        """Return at most so many of the rows, evenly spread."""
        places = some(self.n, most)
        return replace(self, X=take(self.X, places), y=None if self.y is None else self.y[places])


def preprocessing_of(obj: Any) -> Preprocessing | None:
    """Return what turns the user's columns into an object's rows."""
    d = dictionary_of(obj)
    found: Preprocessing | None = getattr(obj, "preprocessing_", None) if d is None else d.preprocessing
    return found


def dictionary_of(obj: Any) -> Dictionary | None:
    """Return the dictionary that an object is, or holds."""
    found = obj if isinstance(obj, Dictionary) else getattr(obj, "dictionary_", None)
    return found if isinstance(found, Dictionary) else None


def kernel_of(obj: Any) -> Any:
    """Return an object's kernel with every width a number, where it has one."""
    d = dictionary_of(obj)
    return d.kernel if d is not None else getattr(obj, "kernel_", None)


def has_targets(obj: Any) -> bool:
    """Tell whether an object was fitted to targets: it predicts, and not clusters."""
    return hasattr(obj, "predict") and not hasattr(obj, "cluster_weights_")


def read_given(obj: Any, X: Any, y: Any) -> Given | None:
    """Return the rows that go with an object; a row source is read block by block."""
    if X is None:
        if y is not None:
            raise ValueError("targets come with rows: give X too")
        return None
    kernel, encoding, d = kernel_of(obj), preprocessing_of(obj), dictionary_of(obj)
    if kernel is None and not has_targets(obj):
        raise ValueError(f"a {type(obj).__name__} takes no rows: make its report without data")
    width = getattr(obj, "n_features_in_", None) if d is None else width_of(d.atoms)
    if d is None and encoding is not None:
        width = encoding.n_features
    if isinstance(X, RowSource):
        if y is not None:
            raise ValueError("a row source carries its targets: squeak.rows(..., target=...), and no y")
        return _read_source(X, kernel, encoding, width)
    rows = check_rows(X if encoding is None else encoding.encode(X), kernel, width=width)
    targets = None if y is None else np.asarray(y)
    if targets is not None and len(targets) != n_rows(rows):
        raise ValueError(f"there are {n_rows(rows):,} rows, and {len(targets):,} targets")
    return Given(rows, targets, True, 0)


def _read_source(source: RowSource, kernel: Any, encoding: Preprocessing | None, width: int | None) -> Given:
    if encoding is not None:
        source.check_preprocessed(encoding, "the object's", "obj.preprocessing")
    parts, targets, size, whole = [], [], 0, True
    for block in source.blocks():
        if size > MOST_BYTES:
            whole = False
            break
        rows = check_rows(block.X, kernel, width=width)
        parts.append(rows)
        targets.append(block.y)
        size += _bytes(rows)
    if not parts:
        raise ValueError("there are no rows in the data")
    X = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else reduce(join, parts)
    y = None if targets[0] is None else np.concatenate([np.asarray(target) for target in targets])
    return Given(X, y, whole, source.skipped_, tuple(map(str, source.feature_names)))


def _bytes(rows: Rows) -> int:
    return int(rows.data.nbytes if sp.issparse(rows) else getattr(rows, "nbytes", 64 * len(rows)))


def column_names(obj: Any, given: Given | None = None) -> list[str] | None:
    """Return the user's names of an object's columns, where they are known."""
    encoding = preprocessing_of(obj)
    if encoding is not None:
        return [f"column {name}" if encoding.width is not None else name for name in encoding.column_names]
    names = getattr(obj, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    d = dictionary_of(obj)
    width = None if d is None or isinstance(d.atoms, list) else width_of(d.atoms)
    if given is not None and given.names and width == len(given.names):
        return list(given.names)
    return [f"column {place}" for place in range(width)] if width is not None and width <= MOST_NAMED else None
