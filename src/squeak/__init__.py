"""squeak: kernel learning at scale, on a small weighted dictionary of the rows.

One pass over the data (:class:`Squeak`) leaves a :class:`Dictionary` chosen by ridge leverage scores; every kernel
problem is then solved on the dictionary.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from squeak import kernels, leverage, samplers
from squeak._version import __version__
from squeak.core.dictionary import Dictionary
from squeak.core.sources import rows
from squeak.core.storage import load, save
from squeak.samplers import Disqueak, Kors, Squeak, merge

if TYPE_CHECKING:
    from squeak import bandits, dpp, graphs, learners, online, report
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
    "report",
    "rows",
    "samplers",
    "save",
]

_ROOMS = ("bandits", "dpp", "graphs", "learners", "online", "report")


def __getattr__(name: str) -> Any:
    """Import a room, or a learner, when it is first asked for: ``import squeak`` stays fast."""
    if name in _ROOMS:
        return import_module(f"squeak.{name}")
    if name in __all__:
        return getattr(import_module("squeak.learners"), name)
    raise AttributeError(f"module 'squeak' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
