"""Kernel values as nodes of ONNX, in float64: k(x, atoms) for a block of rows, and k(x, x).

Rows of radial kernels are centred on the atoms' mean and divided by the width first, so that what they have in
common costs no digits. Kernels that are not smooth at 0 are computed from differences, one column after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from squeak.core.kernels import RBF, Constant, Laplacian, Linear, Matern, Metric, Polynomial, Product, Scaled, Sum
from squeak.core.kernels.radial import FAR
from squeak.core.kernels.width import checked_width
from squeak.core.types import Array
from squeak.learners.onnx_graph import Graph

LARGEST = 1e75
"""Coordinates are cut off here, in widths: their squares do not overflow, and values beyond are 0 in any case."""

KNOWN = (
    "RBF, Laplacian, Matern, Polynomial, Linear and Constant, Metric, sums, products and multiples of these, and "
    "scikit-learn's own kernels (Matern with nu 0.5, 1.5, 2.5 or inf) can be exported"
)


def not_exported(kernel: Any, why: str) -> TypeError:
    """Return the error that names a kernel and says why ONNX cannot hold it."""
    return TypeError(f"the kernel {kernel!r} cannot be exported to ONNX, for {why}; {KNOWN}")


def kernel_values(graph: Graph, x: str, kernel: Any, atoms: Array | None) -> str:
    """Return k(x, atoms), shape (n, m), for dense atoms in float64; k(x, x), shape (n, 1), where atoms is None.

    A kernel that is code is refused by its name.
    """
    if _theirs(kernel):
        return _their_values(graph, x, kernel, atoms)
    found = VALUES.get(type(kernel))
    if found is None:
        raise not_exported(kernel, "it is code")
    return found(graph, x, kernel, atoms)


Values = Callable[[Graph, str, Any, Array | None], str]
"""How the values of a kernel are computed: the function of a graph, rows, the kernel and atoms."""


def _full(graph: Graph, x: str, value: float, atoms: Array | None) -> str:
    """Return the same number for all pairs."""
    zeros = graph("Mul", graph("Gather", x, [0], axis=1), 0.0)
    return graph("Add", zeros, np.full((1, 1 if atoms is None else len(atoms)), value))


def _apart(graph: Graph, x: str, kernel: Any, atoms: Array) -> tuple[str, Array]:
    """Return rows and atoms less the atoms' mean, over the width."""
    centre, width = atoms.mean(axis=0), checked_width(kernel, atoms.shape[1])
    rows = graph("Div", graph("Sub", x, centre), width)
    return graph("Clip", rows, -LARGEST, LARGEST), (atoms - centre) / width


def _square(graph: Graph, values: str) -> str:
    return graph("Mul", values, values)


def _squared(graph: Graph, x: str, kernel: Any, atoms: Array, exact: bool = False) -> str:
    """Return ‖x − y‖²/width², by one product of matrices, or ``exact`` from differences."""
    rows, fixed = _apart(graph, x, kernel, atoms)
    norms = np.einsum("ij,ij->i", fixed, fixed)
    if exact or 0.5 * norms.max() > FAR:
        return graph.over_columns(rows, fixed, _square)
    products = graph("MatMul", rows, -2.0 * fixed.T)
    sums = graph("Add", graph("Add", products, graph("ReduceSumSquare", rows, axes=[1])), norms)
    return graph("Max", sums, 0.0)


def _decay(graph: Graph, values: str) -> str:
    return graph("Exp", graph("Neg", values))


def _rbf(graph: Graph, x: str, kernel: Any, atoms: Array | None) -> str:
    if atoms is None:
        return _full(graph, x, 1.0, None)
    return graph("Exp", graph("Mul", _squared(graph, x, kernel, atoms), -0.5))


def _laplacian(graph: Graph, x: str, kernel: Any, atoms: Array | None) -> str:
    if atoms is None:
        return _full(graph, x, 1.0, None)
    rows, fixed = _apart(graph, x, kernel, atoms)
    return _decay(graph, graph.over_columns(rows, fixed, lambda inside, values: inside("Abs", values)))


def _matern(graph: Graph, x: str, kernel: Any, atoms: Array | None) -> str:
    if atoms is None:
        return _full(graph, x, 1.0, None)
    nu = float(kernel.nu)
    r = graph("Sqrt", graph("Mul", _squared(graph, x, kernel, atoms, exact=nu == 0.5), 2.0 * nu))
    if nu == 0.5:
        return _decay(graph, r)
    polynomial = graph("Add", r, 1.0)
    if nu == 2.5:
        polynomial = graph("Add", polynomial, graph("Div", _square(graph, r), 3.0))
    return graph("Mul", polynomial, _decay(graph, r))


def _polynomial(graph: Graph, x: str, kernel: Any, atoms: Array | None) -> str:
    width = np.asarray(kernel.length_scale, dtype=np.float64)
    if atoms is None:
        products = graph("ReduceSumSquare", graph("Div", x, width), axes=[1])
    else:
        products = graph("MatMul", graph("Div", x, width), (atoms / width).T)
    moved = graph("Add", products, float(kernel.offset))
    return moved if kernel.degree == 1 else graph("Pow", moved, float(kernel.degree))


def _pair(operator: str, first: str = "first", second: str = "second") -> Values:
    """Return the function for two kernels under one sign, which the pair knows by these names."""

    def values(graph: Graph, x: str, kernel: Any, atoms: Array | None) -> str:
        parts = (kernel_values(graph, x, getattr(kernel, name), atoms) for name in (first, second))
        return graph(operator, *parts)

    return values


def _scaled(graph: Graph, x: str, kernel: Any, atoms: Array | None) -> str:
    return graph("Mul", kernel_values(graph, x, kernel.kernel, atoms), float(kernel.factor))


def _constant(graph: Graph, x: str, kernel: Any, atoms: Array | None) -> str:
    return _full(graph, x, float(kernel.value), atoms)


def _metric(graph: Graph, x: str, kernel: Any, atoms: Array | None) -> str:
    mapped = graph("MatMul", x, np.asarray(kernel.T, dtype=np.float64).T)
    return kernel_values(graph, mapped, kernel.kernel, None if atoms is None else kernel.mapped(atoms))


VALUES: dict[type, Values] = {
    RBF: _rbf,
    Laplacian: _laplacian,
    Matern: _matern,
    Polynomial: _polynomial,
    Linear: _polynomial,
    Sum: _pair("Add"),
    Product: _pair("Mul"),
    Scaled: _scaled,
    Constant: _constant,
    Metric: _metric,
}
"""How the values of each kernel are computed; subclasses are code of somebody else's."""


def _theirs(kernel: Any) -> bool:
    return type(kernel).__module__ == "sklearn.gaussian_process.kernels"


def _their_values(graph: Graph, x: str, kernel: Any, atoms: Array | None) -> str:
    """Return the values of scikit-learn's kernels, most of which are ours under other names."""
    name = type(kernel).__name__
    if name == "Matern" and kernel.nu not in (0.5, 1.5, 2.5, np.inf):
        raise not_exported(kernel, "its nu has no short formula")
    if name == "RBF" or (name == "Matern" and kernel.nu == np.inf):
        return _rbf(graph, x, RBF(kernel.length_scale), atoms)
    if name == "Matern":
        return _matern(graph, x, Matern(kernel.length_scale, kernel.nu), atoms)
    if name == "ConstantKernel":
        return _full(graph, x, float(kernel.constant_value), atoms)
    if name == "DotProduct":
        return _polynomial(graph, x, Linear(offset=float(kernel.sigma_0) ** 2), atoms)
    if name in ("Sum", "Product"):
        return _pair("Add" if name == "Sum" else "Mul", "k1", "k2")(graph, x, kernel, atoms)
    if name == "Exponentiation":
        return graph("Pow", kernel_values(graph, x, kernel.kernel, atoms), float(kernel.exponent))
    if name in ("RationalQuadratic", "ExpSineSquared"):
        if atoms is None:
            return _full(graph, x, 1.0, None)
        if name == "RationalQuadratic":  # (1 + r²/(2·alpha·length_scale²))^(−alpha)
            part = graph("Div", _squared(graph, x, kernel, atoms), 2.0 * float(kernel.alpha))
            return graph("Pow", graph("Add", part, 1.0), -float(kernel.alpha))
        r = graph("Sqrt", _squared(graph, x, RBF(1.0), atoms, exact=True))
        sine = graph("Sin", graph("Mul", r, np.pi / float(kernel.periodicity)))
        return graph("Exp", graph("Mul", _square(graph, sine), -2.0 / float(kernel.length_scale) ** 2))
    raise not_exported(kernel, "its formula is not known here")
