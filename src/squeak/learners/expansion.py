"""Sums of kernel functions, f(x) = intercept + Σ_j c_j k(x, z_j): what every fitted ridge model comes down to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from squeak.core import state
from squeak.core.kernels.registry import check_stored, kernel_from_data, kernel_to_data
from squeak.core.saved import Given, Parts, within
from squeak.core.types import Array, Rows
from squeak.learners.tiles import atom_values


@dataclass(frozen=True)
class Expansion:
    """One kernel function for each atom, and an intercept: f(x) = intercept + Σ_j coef_j k(x, atom_j).

    Parameters
    ----------
    kernel : kernel
    atoms : array of shape (m, d)
    coef : array of shape (m, outputs)
    intercept : array of shape (outputs,)

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import KernelRidge
    >>> from squeak.learners.expansion import Expansion
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> model = KernelRidge(alpha=0.1, max_atoms=20, random_state=0).fit(X, X[:, 0])
    >>> bool(np.allclose(Expansion.of(model).values(X)[:, 0], model.predict(X)))
    True
    """

    kernel: Any
    atoms: Array
    coef: Array
    intercept: Array

    @classmethod
    def of(cls, model: Any) -> Expansion:
        """Return the sum that a fitted ridge regression or classifier stands for."""
        m, outputs = len(model.dictionary_), len(np.atleast_2d(model.dual_coef_.T))
        intercept = np.broadcast_to(getattr(model, "intercept_", 0.0), (outputs,))
        return cls(model.kernel_, model.dictionary_.atoms, model.dual_coef_.reshape(m, -1), intercept)

    def __len__(self) -> int:
        return len(self.coef)

    def values(self, X: Rows) -> Array:
        """Return f(x) for every row, shape (n, outputs)."""
        return atom_values(X, self, self.coef, -self.intercept)

    def times(self, factor: float | Array) -> Expansion:
        """Return the function times a number, or each of its outputs times a number of its own."""
        return replace(self, coef=factor * self.coef, intercept=factor * self.intercept)


def total(expansions: Iterable[Expansion], X: Rows) -> Array:
    """Return the sum of some functions for every row, shape (n, outputs)."""
    return np.asarray(sum(expansion.values(X) for expansion in expansions))


@dataclass(frozen=True)
class ExpansionsPiece:
    """A list of expansions in a file: their atoms below each other, whatever their number.

    Arrays within the descriptions of kernels, such as widths by column and linear maps, stand apart as well: the
    description of an object is small.
    """

    def take(self, name: str, value: Any) -> Parts:
        """Return the expansions as arrays, and the kernels as JSON data."""
        numbers: list[Array] = []
        kernels = [_cut(kernel_to_data(one.kernel), numbers) for one in value]
        if any(kernel is None for kernel in kernels):
            raise TypeError("a kernel that is code cannot be saved")
        arrays = {
            "sizes": np.array([len(one) for one in value], dtype=np.int64),
            "atoms": np.concatenate([one.atoms for one in value], dtype=np.float64),
            "coef": np.concatenate([one.coef for one in value]),
            "intercepts": np.stack([one.intercept for one in value]),
            "numbers": np.concatenate([np.zeros(0), *numbers]),
        }
        return state.parts(_table(len(kernels)), arrays, f"{name}_")[0], {name: kernels}

    def give(self, name: str, given: Given) -> list[Expansion]:
        """Return the expansions."""
        kernels = given.content[name]
        if not isinstance(kernels, list) or not kernels:
            raise ValueError("the kernels of its parts are damaged")
        found = state.checked(_table(len(kernels)), within(given.arrays, f"{name}_"), {})
        ends = np.cumsum(found["sizes"])
        if ends[-1] != len(found["atoms"]):
            raise ValueError("its parts do not have the atoms that they say")
        expansions = []
        for kernel, end, size, intercept in zip(kernels, ends, found["sizes"], found["intercepts"], strict=True):
            part = slice(int(end - size), int(end))
            atoms = np.asarray(found["atoms"][part])
            made = check_stored(kernel_from_data(_joined(kernel, found["numbers"])), atoms)
            expansions.append(Expansion(made, atoms, found["coef"][part], intercept))
        return expansions


def _table(n: int) -> dict[str, state.Part]:
    """Return what n expansions are in a file."""
    return {
        "sizes": state.wholes(n, low=1),
        "atoms": state.numbers("m", "d"),
        "coef": state.numbers("m", "outputs"),
        "intercepts": state.numbers(n, "outputs"),
        "numbers": state.numbers("numbers"),
    }


def _cut(data: Any, numbers: list[Array]) -> Any:
    """Return JSON data with every array replaced by its place among the numbers of all, to which it is added."""
    if isinstance(data, dict):
        if set(data) == {"array"}:
            values = np.asarray(data["array"], dtype=np.float64)
            begin = sum(map(len, numbers))
            numbers.append(values.ravel())
            return {"begin": begin, "shape": list(values.shape)}
        return {key: _cut(value, numbers) for key, value in data.items()}
    return data


def _joined(data: Any, numbers: Array) -> Any:
    """Return the data that :func:`_cut` took apart."""
    if isinstance(data, dict):
        if set(data) == {"begin", "shape"}:
            begin, shape = data["begin"], data["shape"]
            if type(begin) is not int or not isinstance(shape, list) or any(type(n) is not int for n in shape):
                raise ValueError("the kernels of its parts are damaged")
            size = int(np.prod(shape, dtype=object))
            if not 0 <= begin <= begin + size <= len(numbers) or min(shape, default=1) < 1:
                raise ValueError("the kernels of its parts are damaged")
            return {"array": numbers[begin : begin + size].reshape(shape)}
        return {key: _joined(value, numbers) for key, value in data.items()}
    return data
