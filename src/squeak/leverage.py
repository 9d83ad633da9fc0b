"""Ridge leverage scores, effective dimension, and how accurate a dictionary is.

Examples
--------
>>> import numpy as np
>>> from squeak.kernels import RBF
>>> from squeak.leverage import effective_dimension
>>> round(effective_dimension(np.random.default_rng(0).standard_normal((200, 2)), RBF(2.0), ridge=1.0), 2)
7.56
"""

from squeak.core.leverage import effective_dimension, exact_leverage_scores
from squeak.samplers.measured import AccuracyBounds, accuracy, estimate_accuracy

__all__ = ["AccuracyBounds", "accuracy", "effective_dimension", "estimate_accuracy", "exact_leverage_scores"]
