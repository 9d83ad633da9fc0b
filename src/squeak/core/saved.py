"""Classes that are saved by their declared state alone: they write no code that takes them apart.

A class lists, in ``_state``, the attributes that it is made of. Each is a :class:`~squeak.core.state.Part` (arrays,
numbers, flags, text), or one of the pieces below: :class:`RowsPiece`, :class:`KernelPiece`, :class:`NestedPiece`,
:class:`LabelsPiece`, :class:`SourcesPiece`. The name in the file is that of the attribute without its underscores
(``dual_coef_`` is written as ``dual_coef``, ``_shift`` as ``shift``), and of a dotted name its last word
(``_features.mixing`` as ``mixing``).

A class whose constructor takes what its state lists needs nothing else::

    @dataclass
    class Cloud(Saved):
        kind = "cloud"
        _state = {"points": RowsPiece(size="m"), "kernel": KernelPiece("points"), "weights": numbers("m", low=0.0)}
        points: Any
        kernel: Any
        weights: Any

An estimator makes itself of its parameters first and takes its fitted attributes from :func:`put_together`::

    @classmethod
    def from_parts(cls, arrays, content, kernel=None):
        model = cls(**parameters(cls, content["parameters"]))
        return fill(model, put_together(cls._state, arrays, content, kernel))

Pieces are read in the order of the table, and parts after them: a length that a piece fixes holds for the parts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Protocol, TypeVar

from squeak.core import state, storage
from squeak.core.described import restored_kernel, stored_kernel
from squeak.core.kernels.registry import check_stored
from squeak.core.rows import n_rows, rows_from_arrays, rows_to_arrays

Parts = tuple[dict[str, Any], dict[str, Any]]
"""Arrays, and the rest as JSON data."""

Made = TypeVar("Made", bound="Saved")
Obj = TypeVar("Obj")


@dataclass
class Given:
    """A file's parts while an object is put together of them."""

    arrays: dict[str, Any]
    content: dict[str, Any]
    kernel: Any
    found: dict[str, Any]


class Piece(Protocol):
    """An entry of a table that is more than an array or a number.

    One with a ``size`` fixes a length by that name: the number of rows, or of atoms, of its value.
    """

    def take(self, name: str, value: Any) -> Parts:
        """Return the parts of a value, by the name that it has in the file."""

    def give(self, name: str, given: Given) -> Any:
        """Return the value, or raise what does not fit."""


Layout = Mapping[str, "state.Part | Piece"]


@dataclass(frozen=True)
class RowsPiece:
    """Rows of any kind: a table, CSR, texts.

    ``prefix``: what the names of their arrays begin with. ``size``: the name by which shapes refer to their number.
    """

    prefix: str = ""
    size: str = ""
    optional: bool = False

    def take(self, name: str, value: Any) -> Parts:
        """Return the rows as arrays."""
        return ({} if value is None and self.optional else rows_to_arrays(value, self.prefix)), {}

    def give(self, name: str, given: Given) -> Any:
        """Return the rows."""
        if self.optional and not any(
            f"{self.prefix}{end}" in given.arrays for end in ("atoms", "text", "csr_data")
        ):
            return None
        return rows_from_arrays(given.arrays, self.prefix)


@dataclass(frozen=True)
class KernelPiece:
    """A kernel: its data, or None where it is code, and its words.

    ``rows``: the attribute whose rows it must give finite values on.
    """

    rows: str = ""

    def take(self, name: str, value: Any) -> Parts:
        """Return the kernel as JSON data."""
        return {}, stored_kernel(value)

    def give(self, name: str, given: Given) -> Any:
        """Return the kernel, or the one that was given where the file's was code."""
        kernel = restored_kernel(given.content, given.kernel)
        return check_stored(kernel, given.found[self.rows]) if self.rows else kernel


@dataclass(frozen=True)
class NestedPiece:
    """Another object that can be saved, within the file of its owner.

    ``cls``: with ``to_parts`` and ``from_parts``. ``prefix``: what the names of its arrays begin with; the name of
    the piece and an underscore where it is left out. ``name``: what its description is called in the file, where it
    is not the name of the attribute. ``size``: the name by which shapes refer to its length. ``optional``: whether
    it may be None.
    """

    cls: Any
    prefix: str = ""
    name: str = ""
    size: str = ""
    optional: bool = False

    def take(self, name: str, value: Any) -> Parts:
        """Return the parts of the object."""
        arrays, content = ({}, None) if value is None and self.optional else value.to_parts()
        prefix = self.prefix or f"{name}_"
        return {prefix + inner: array for inner, array in arrays.items()}, {self.name or name: content}

    def give(self, name: str, given: Given) -> Any:
        """Return the object."""
        described = given.content.get(self.name or name)
        if described is None and self.optional:
            return None
        return self.cls.from_parts(within(given.arrays, self.prefix or f"{name}_"), described, kernel=given.kernel)


@dataclass(frozen=True)
class LabelsPiece:
    """The labels of a classifier.

    ``dtype``: what the type of their array is called in the file. ``optional``: whether there may be none, as of a
    regressor. ``least``: how many there are at least.
    """

    dtype: str
    optional: bool = False
    least: int = 2

    def take(self, name: str, value: Any) -> Parts:
        """Return the labels as JSON data."""
        if value is None and self.optional:
            return {}, {name: None}
        labels = [state.plain(label) for label in value]
        if not all(isinstance(label, str | int | float | bool) for label in labels):
            raise TypeError("only labels that are numbers or text can be saved")
        return {}, {name: labels, self.dtype: value.dtype.str}

    def give(self, name: str, given: Given) -> Any:
        """Return the labels as the array they were."""
        if self.optional and given.content.get(name) is None:
            return None
        return state.labels(given.content[name], given.content[self.dtype], self.least)


@dataclass(frozen=True)
class SourcesPiece:
    """The names of parts of the data, each with its number of rows."""

    def take(self, name: str, value: Any) -> Parts:
        """Return them as JSON data."""
        return {}, {name: [list(source) for source in value]}

    def give(self, name: str, given: Given) -> Any:
        """Return them as they were."""
        return tuple((str(source), int(size)) for source, size in given.content[name])


class Saved:
    """What every class that is saved by its declared state has: files, and the walker behind them.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from squeak.core.saved import Saved
    >>> from squeak.core.state import numbers, whole
    >>> @dataclass
    ... class Sums(Saved):
    ...     _state = {"n": whole(low=1), "totals": numbers("columns")}
    ...     n: int
    ...     totals: object
    >>> Sums.from_parts(*Sums(3, np.ones(2)).to_parts())
    Sums(n=3, totals=array([1., 1.]))
    """

    kind: ClassVar[str] = ""
    _state: ClassVar[Layout] = {}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the object to a ``.sqk`` file; data only, replaced whole or not at all.

        Parameters
        ----------
        path : path
        """
        storage.save(self, path)

    @classmethod
    def load(cls: type[Made], path: str | os.PathLike[str], kernel: Any = None) -> Made:
        """Read an object of this kind, as it stood when it was saved.

        A damaged, cut or hostile file gives a :class:`~squeak.core.storage.StorageError`.

        Parameters
        ----------
        path : path
        kernel : kernel, optional
            Needed where the kernel of the object is code, which is never stored.

        Returns
        -------
        object
            Of this class.
        """
        found: Made = storage.load(cls, path, kernel)
        return found

    def to_parts(self) -> Parts:
        """Return the parts for a file.

        Returns
        -------
        arrays : dict of str to array
        content : dict
            The rest, as JSON data.
        """
        return take_apart(self, self._state)

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
        """Return the object that :meth:`to_parts` took apart; anything that does not fit raises.

        Parameters
        ----------
        arrays, content : dict
        kernel : kernel, optional
            Needed where the kernel is code.

        Returns
        -------
        object
            Of this class.
        """
        return cls(**put_together(cls._state, arrays, content, kernel))


def take_apart(obj: Any, layout: Layout, prefix: str = "", **sizes: int) -> Parts:
    """Return the parts of an object that its table lists; what could not be read back raises.

    ``obj``: an attribute that it does not have counts as None. ``layout``: by the names of the attributes; dotted
    ones are those of its attributes' attributes. ``prefix``: what the names of the arrays shall begin with.
    ``**sizes``: lengths that are known already.
    """
    arrays: dict[str, Any] = {}
    content: dict[str, Any] = {}
    plain: dict[str, state.Part] = {}
    values: dict[str, Any] = {}
    for path, entry in layout.items():
        name, value = name_of(path), reduce(lambda at, inner: getattr(at, inner, None), path.split("."), obj)
        if isinstance(entry, state.Part):
            plain[name], values[name] = entry, value
        else:
            _count(entry, value, sizes)
            some, more = entry.take(name, value)
            arrays |= {prefix + inner: array for inner, array in some.items()}
            content |= more
    some, more = state.parts(plain, values, prefix, **sizes)
    return arrays | some, content | more


def put_together(
    layout: Layout,
    arrays: dict[str, Any],
    content: dict[str, Any],
    kernel: Any = None,
    prefix: str = "",
    **sizes: int,
) -> dict[str, Any]:
    """Return what a table lists, from a file's parts, by the names of the attributes; what does not fit raises.

    ``kernel``: stands for the file's where that was code. ``prefix``: what the names of the arrays begin with.
    ``**sizes``: lengths that are known already.
    """
    if not isinstance(content, dict):
        raise ValueError("its description is damaged")
    given = Given(within(arrays, prefix), content, kernel, {})
    plain = {}
    for path, entry in layout.items():
        if isinstance(entry, state.Part):
            plain[name_of(path)] = entry
        else:
            given.found[path] = value = entry.give(name_of(path), given)
            _count(entry, value, sizes)
    found = state.checked(plain, given.arrays, content, "", **sizes)
    return {path: given.found[path] if path in given.found else found[name_of(path)] for path in layout}


def _count(piece: Piece, value: Any, sizes: dict[str, int]) -> None:
    size = getattr(piece, "size", "")
    if size and value is not None:
        sizes[size] = n_rows(value) if isinstance(piece, RowsPiece) else len(value)


def fill(obj: Obj, found: Mapping[str, Any]) -> Obj:
    """Set the attributes that :func:`put_together` found, but for those of attributes, and return the object.

    ``found``: what is None is left out, and so are properties that cannot be set: they are made of other
    attributes.
    """
    for path, value in found.items():
        settable = getattr(getattr(type(obj), path, None), "fset", True) is not None
        if value is not None and "." not in path and settable:
            setattr(obj, path, value)
    return obj


def name_of(path: str) -> str:
    """Return what an attribute is called in a file: its last word without underscores at its ends."""
    return path.rsplit(".", 1)[-1].strip("_")


def within(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the arrays whose names begin with a prefix, by the rest of their names."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
