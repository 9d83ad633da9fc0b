"""Rows: checked once where they enter, then taken and joined without asking what they are made of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.types import IntArray, Rows

ENCODE = "squeak.rows(X, y) makes numbers of text and dates"


def check_rows(X: Any, kernel: Any, *, width: int | None = None, first_row: int = 0) -> Rows:
    """Return ``X`` as rows that ``kernel`` takes, or raise one clear error that names the row.

    Dense rows come back as a 2-D float32 or float64 array and CSR rows as a CSR array, without a copy
    where none is needed (dense rows in C order); kernels on objects (``requires_vector_input`` false) take any
    sequence.

    ``width``: the number of columns that earlier rows had. ``first_row``: the number of the first row in the whole
    stream, for messages.
    """
    if not getattr(kernel, "requires_vector_input", True) and not _is_numeric_table(X):
        return _check_objects(X)
    if sp.issparse(X):
        return _check_sparse(X, kernel, width, first_row)
    if X is None:
        raise TypeError("rows must be numbers, not None")
    refuse_masked(X, first_row)
    if isinstance(X, str | bytes):
        raise TypeError("rows must be a 2-D table of numbers, not text; to read a file, pass squeak.rows(path)")
    if hasattr(X, "__next__"):
        raise TypeError("rows come from an iterator here: pass squeak.rows(iterator)")
    array = np.asarray(X)
    if array.dtype.kind in "bui":
        array = array.astype(np.float64)
    elif array.dtype.kind == "f":
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    elif array.dtype.kind == "c":
        raise TypeError("rows must be real numbers; these are complex")
    else:
        array = _numbers_from_objects(array, first_row)
    if array.ndim != 2:
        hint = " (one row? pass x.reshape(1, -1))" if array.ndim == 1 else ""
        raise ValueError(f"rows must form a 2-D table (rows, columns); this has shape {array.shape}{hint}")
    _check_shape(array.shape, width)
    finite = np.isfinite(array)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(
            f"row {first_row + row}, column {column} is {array[row, column]}: "
            "drop or impute missing and infinite values first"
        )
    return np.ascontiguousarray(array)  # the order in memory must not change a bit


def refuse_masked(X: Any, first_row: int = 0) -> None:
    """Refuse an array with masked values, or a list of such rows: numpy would pass on what the mask hides.

    Refuse a Dask collection too, which numpy would compute and bring here whole, unless it is a single part.
    """
    if hasattr(X, "__dask_graph__") and getattr(X, "npartitions", 1) > 1:
        raise TypeError(
            "a Dask collection would be computed and sent here whole: learn from squeak.rows(collection), which "
            "workers read part by part, and predict where the parts are, with map_partitions or map_blocks"
        )
    if isinstance(X, list | tuple):
        masked = [at for at, row in enumerate(X) if np.ma.isMaskedArray(row) and np.ma.getmaskarray(row).any()]
    else:
        masked = np.argwhere(np.ma.getmaskarray(X))[:1, 0].tolist() if np.ma.isMaskedArray(X) else []
    if masked:
        raise ValueError(f"row {first_row + masked[0]} has masked values: drop or impute missing values first")


def _is_numeric_table(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fbui"


def _check_objects(X: Any) -> Rows:
    if isinstance(X, str | bytes) or not isinstance(X, Sequence | np.ndarray):
        raise TypeError(f"rows for this kernel must be a sequence of objects, not {type(X).__name__}")
    if len(X) == 0:
        raise ValueError("there are no rows: at least one is needed")
    return list(X)


def _numbers_from_objects(array: Any, first_row: int) -> Any:
    """Turn an object array of plain numbers into float64; text is refused, for nobody asked for codes."""
    if array.dtype.kind == "O":
        if any(isinstance(value, str | bytes) for value in array.flat):
            raise TypeError("rows must be numbers; there is text among them: encode the text columns first")
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"rows must be numbers (from row {first_row} on): {error}") from None
    raise TypeError(f"rows must be numbers; these are of type {array.dtype}; {ENCODE}")


def _check_sparse(X: Any, kernel: Any, width: int | None, first_row: int) -> Rows:
    if not getattr(kernel, "accepts_sparse", False):
        raise TypeError(f"{kernel!r} takes dense rows only; pass X.toarray() or one of squeak's own kernels")
    if X.dtype.kind == "c":
        raise TypeError("rows must be real numbers; these are complex")
    csr = sp.csr_array(X)
    if not csr.has_canonical_format:  # scipy would sort in place, on several threads at once
        csr = csr.copy()
        csr.sum_duplicates()
    if csr.dtype not in (np.float32, np.float64):
        csr = csr.astype(np.float64)
    if csr.ndim != 2:
        raise ValueError(f"rows must form a 2-D table (rows, columns); this has shape {csr.shape}")
    _check_shape(csr.shape, width)
    finite = np.isfinite(csr.data)
    if not finite.all():
        place = int(np.argmin(finite))
        row = int(np.searchsorted(csr.indptr, place, side="right")) - 1
        raise ValueError(
            f"row {first_row + row}, column {csr.indices[place]} is {csr.data[place]}: "
            "drop or impute missing and infinite values first"
        )
    return csr


def _check_shape(shape: tuple[int, ...], width: int | None) -> None:
    if shape[0] == 0:
        raise ValueError("there are no rows: at least one is needed")
    if shape[1] == 0:
        raise ValueError("the rows have no columns")
    if width is not None and shape[1] != width:
        raise ValueError(f"rows have {shape[1]} columns; the rows before had {width}")


def refuse_hidden(values: Any, name: str = "rows", first_row: int = 0) -> None:
    """Refuse masked values and dates, which numpy would hand on as numbers that nobody meant.

    ``values``: rows, targets or weights as a user gave them. ``name``: what they are, for messages. ``first_row``:
    the number of the first row in the whole stream, for messages.
    """
    try:
        refuse_masked(values.reshape(1) if values is np.ma.masked else values, first_row)
    except ValueError as error:
        raise error if name == "rows" else ValueError(f"{name}: {error}") from None
    kinds = getattr(values, "dtypes", None)  # of a table, each column its own
    if kinds is None:
        some = values
        while isinstance(some, list | tuple) and some:
            some = some[0]
        kinds = getattr(some, "dtype", None)
    for kind in kinds if isinstance(kinds, Iterable) else [kinds]:
        if str(kind).lower().startswith(("date", "time", "duration")):
            raise TypeError(f"{name} must be numbers; there are dates ({kind}); {ENCODE}")


def n_rows(rows: Rows) -> int:
    """Return how many rows there are."""
    return len(rows) if isinstance(rows, list) else int(rows.shape[0])


def width_of(rows: Rows) -> int | None:
    """Return the number of columns, or None for rows that are objects."""
    return None if isinstance(rows, list) else int(rows.shape[1])


def take(rows: Rows, which: slice | IntArray) -> Rows:
    """Return some of the rows: by slice or by row numbers. Arrays are copied but for slices."""
    if isinstance(rows, list):
        if isinstance(which, slice):
            return rows[which]
        return [rows[i] for i in which]
    return rows[which]


def check_same_kind(first: Rows, second: Rows) -> None:
    """Refuse to mix dense rows, sparse rows and objects."""
    if isinstance(first, list) != isinstance(second, list) or sp.issparse(first) != sp.issparse(second):
        raise TypeError("rows of one dictionary must be all dense, all sparse, or all objects")


def copy_rows(rows: Rows) -> Rows:
    """Return the rows in memory of their own."""
    return list(rows) if isinstance(rows, list) else rows.copy()


def join(first: Rows, second: Rows) -> Rows:
    """Return the rows of ``first`` and then those of ``second``; float32 with float64 gives float64."""
    check_same_kind(first, second)
    if isinstance(first, list):
        return first + second
    if sp.issparse(first):
        return sp.csr_array(sp.vstack([first, second], format="csr"))
    return np.concatenate([first, second])


def same_rows(first: Rows, second: Rows) -> bool:
    """Tell whether two sets of rows are equal, value by value."""
    if n_rows(first) != n_rows(second) or isinstance(first, list) != isinstance(second, list):
        return False
    if isinstance(first, list):
        return all(bool(np.all(a == b)) for a, b in zip(first, second, strict=True))
    if sp.issparse(first) or sp.issparse(second):
        if not (sp.issparse(first) and sp.issparse(second)) or first.shape != second.shape:
            return False
        return bool((first != second).nnz == 0)
    return first.shape == second.shape and bool(np.array_equal(first, second))


def label_of(rows: Rows) -> str:
    """Return a short name for the source that begins with these rows, the same for the same rows.

    It tells apart the parts of a merge without asking the user to name them. Only the first row counts, so that the
    name stays as a stream grows; objects that are not text or numbers all get the one name ``rows-objects``.
    """
    digest = hashlib.blake2b(digest_size=6)
    head = take(rows, slice(0, 1))
    if isinstance(head, list):
        if not all(isinstance(item, str | bytes | int | float | np.ndarray) for item in head):
            return "rows-objects"
        for item in head:
            part = item.tobytes() if isinstance(item, np.ndarray) else repr(item).encode()
            digest.update(len(part).to_bytes(8, "little") + part)
    elif sp.issparse(head):
        for array in (head.indptr.astype(np.int64), head.indices.astype(np.int64), head.data.astype(float)):
            digest.update(array.tobytes())
    else:
        digest.update(np.ascontiguousarray(head, dtype=np.float64).tobytes())
    return f"rows-{digest.hexdigest()}"


def rows_to_arrays(atoms: Rows, prefix: str = "") -> dict[str, Any]:
    """Return rows as plain arrays for a file; every name begins with ``prefix``."""
    if isinstance(atoms, list):
        if not all(isinstance(item, str) for item in atoms):
            raise TypeError("only atoms that are rows of numbers or text can be saved; these are objects")
        encoded = [item.encode() for item in atoms]
        return {
            f"{prefix}text": np.frombuffer(b"".join(encoded), dtype=np.uint8),
            f"{prefix}text_ends": np.cumsum([len(item) for item in encoded]).astype(np.int64),
        }
    if sp.issparse(atoms):
        return {
            f"{prefix}csr_data": atoms.data,
            f"{prefix}csr_indices": atoms.indices.astype(np.int64),
            f"{prefix}csr_indptr": atoms.indptr.astype(np.int64),
            f"{prefix}csr_shape": np.array(atoms.shape, dtype=np.int64),
        }
    return {f"{prefix}atoms": atoms}


def rows_from_arrays(arrays: dict[str, Any], prefix: str = "") -> Rows:
    """Return the rows that :func:`rows_to_arrays` took apart."""
    if f"{prefix}text" in arrays:
        data, ends = arrays[f"{prefix}text"].tobytes(), arrays[f"{prefix}text_ends"].tolist()
        if not ends or ends[-1] != len(data) or any(b < a for a, b in zip([0, *ends], ends, strict=False)):
            raise ValueError("the ends of the texts do not fit")
        return [data[a:b].decode() for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    if f"{prefix}csr_data" in arrays:
        rows, columns = (int(size) for size in arrays[f"{prefix}csr_shape"])
        parts = (arrays[f"{prefix}csr_data"], arrays[f"{prefix}csr_indices"], arrays[f"{prefix}csr_indptr"])
        if rows != arrays[f"{prefix}csr_indptr"].size - 1 or columns < 1:
            raise ValueError("the sparse atoms' shape does not fit")
        matrix = sp.csr_array(parts, shape=(rows, columns))
        matrix.check_format(full_check=True)
        if matrix.data.dtype.kind != "f" or not np.isfinite(matrix.data).all():
            raise ValueError("the atoms are not a table of finite numbers")
        return matrix
    atoms = arrays[f"{prefix}atoms"]
    if atoms.ndim != 2 or not atoms.shape[1] or atoms.dtype.kind != "f" or not np.isfinite(atoms).all():
        raise ValueError("the atoms are not a table of finite numbers")
    return atoms
