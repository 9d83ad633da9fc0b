"""Kernels. scikit-learn's Gaussian-process kernels work too; these are the fast ones.

Examples
--------
>>> from squeak.kernels import RBF, Linear
>>> k = 2.0 * RBF("median") + Linear()
"""

from squeak.core.kernels import (
    RBF,
    Constant,
    Kernel,
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
]
