"""Kernels: blocks ``k(X, Y)``, diagonals, algebra, and the three functions the library calls them by."""

from squeak.core.kernels.algebra import Constant, Product, Scaled, Sum
from squeak.core.kernels.base import Kernel, against, against32, block, diagonal, gradients, gram, resolve
from squeak.core.kernels.inner import Linear, Polynomial
from squeak.core.kernels.metric import Metric
from squeak.core.kernels.pairwise import PairwiseKernel
from squeak.core.kernels.radial import RBF, Laplacian, Matern

__all__ = [
    "RBF",
    "Constant",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Metric",
    "PairwiseKernel",
    "Polynomial",
    "Product",
    "Scaled",
    "Sum",
    "against",
    "against32",
    "block",
    "diagonal",
    "gradients",
    "gram",
    "resolve",
]
