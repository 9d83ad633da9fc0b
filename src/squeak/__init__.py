"""squeak: kernel learning at scale, on a small weighted dictionary of the rows.

One pass over the data (:class:`Squeak`) leaves a :class:`Dictionary` chosen by ridge leverage scores; every kernel
problem is then solved on the dictionary.
"""

from squeak import bandits, dpp, graphs, kernels, learners, leverage, online, samplers
from squeak._version import __version__
from squeak.core.dictionary import Dictionary
from squeak.core.sources import rows
from squeak.core.storage import load, save
from squeak.learners import (
    KernelCCA,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
    Nystroem,
    RandomFeatureClassifier,
    RandomFeatureRegressor,
    RandomFeatures,
)
from squeak.samplers import Disqueak, Kors, Squeak, merge

__all__ = [
    "Dictionary",
    "Disqueak",
    "KernelCCA",
    "KernelClassifier",
    "KernelKMeans",
    "KernelPCA",
    "KernelRidge",
    "KernelRidgeCV",
    "Kors",
    "Nystroem",
    "RandomFeatureClassifier",
    "RandomFeatureRegressor",
    "RandomFeatures",
    "Squeak",
    "__version__",
    "bandits",
    "dpp",
    "graphs",
    "kernels",
    "learners",
    "leverage",
    "load",
    "merge",
    "online",
    "rows",
    "samplers",
    "save",
]
