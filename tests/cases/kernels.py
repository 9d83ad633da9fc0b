"""Every kernel: its values, its diagonal, on dense, sparse and float32 rows, and widths learned from rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from squeak.kernels import (
    RBF,
    Constant,
    Laplacian,
    Linear,
    Matern,
    Metric,
    PairwiseKernel,
    Polynomial,
    Product,
    Scaled,
    Sum,
)
from tests.cases import SINGLE, case, points

KERNELS = {
    "RBF": RBF(1.5),
    "RBF, a width for each column": RBF(np.array([1.0, 2.0, 0.5])),
    "Laplacian": Laplacian(2.0),
    "Matern": Matern(2.0, nu=1.5),
    "Matern, nu 0.5": Matern(2.0, nu=0.5),
    "Matern, nu 2.5": Matern(np.array([1.0, 2.0, 0.5]), nu=2.5),
    "Metric": Metric(RBF(1.5), np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.5]])),
    "Linear": Linear(2.0, offset=0.5),
    "Polynomial": Polynomial(2, length_scale=2.0),
    "algebra": Sum(Product(RBF(1.0), Linear()), Scaled(Matern(1.0), 0.5)) + 2.0 * Constant(0.3),
}


def _values(kernel):
    def run(folder):
        X, Z = points(60), points(40, seed=9)
        sparse = sp.csr_array(X * (X > 0)), sp.csr_array(Z * (Z > 0))
        return {
            "values": kernel(X, Z),
            "own": kernel(X),
            "diagonal": kernel.diag(X),
            "sparse": kernel(*sparse),
            "shown": repr(kernel),
        }

    return run


for _name, _kernel in KERNELS.items():
    case(f"kernels: {_name}")(_values(_kernel))


@case("kernels: float32 rows", SINGLE)
def _(folder):
    X, Z = points(60).astype(np.float32) + 100, points(40, seed=9).astype(np.float32) + 100
    return {name: np.asarray(kernel(X, Z)) for name, kernel in KERNELS.items() if kernel.is_stationary()}


@case("kernels: widths learned from rows")
def _(folder):
    X = points(300)
    found = [make("median").resolve(X).length_scale for make in (RBF, Laplacian, Matern)]
    sparse = RBF("median").resolve(sp.csr_array(X * (X > 0))).length_scale
    return {"median": np.array(found), "sparse": float(sparse), "sum": repr(Sum(RBF("median"), Linear()))}


@case("kernels: a function of two objects")
def _(folder):
    kernel = PairwiseKernel(lambda a, b: 1.0 / (1 + abs(len(a) - len(b))))
    words = ["a", "bc", "def", "ghij"]
    return {"values": kernel(words, words[:2]), "diagonal": kernel.diag(words)}
