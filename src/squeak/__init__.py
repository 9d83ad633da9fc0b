"""squeak: kernel learning at scale, on a small weighted dictionary of the rows.

One pass over the data (:class:`Squeak`) leaves a :class:`Dictionary` chosen by ridge leverage scores; every kernel
problem is then solved on the dictionary.
"""

from typing import TYPE_CHECKING, Any

from squeak import kernels, leverage, places, samplers
from squeak._version import __version__
from squeak.data import GeneratedRows, rows
from squeak.discovery import all_estimators
from squeak.kinds import load, room, save
from squeak.samplers import Disqueak, Kors, Squeak, merge
from squeak.samplers.dictionary import Dictionary

if TYPE_CHECKING:
    from squeak import bandits, checks, dpp, graphs, learners, online, report
    from squeak.learners import (
        AutoClassifier,
        AutoRegressor,
        KernelBlend,
        KernelCCA,
        KernelClassifier,
        KernelKMeans,
        KernelPCA,
        KernelRidge,
        KernelRidgeCV,
        LocalExperts,
        Nystroem,
        RandomFeatureClassifier,
        RandomFeatureRegressor,
        RandomFeatures,
    )

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "Dictionary",
    "Disqueak",
    "GeneratedRows",
    "KernelBlend",
    "KernelCCA",
    "KernelClassifier",
    "KernelKMeans",
    "KernelPCA",
    "KernelRidge",
    "KernelRidgeCV",
    "Kors",
    "LocalExperts",
    "Nystroem",
    "RandomFeatureClassifier",
    "RandomFeatureRegressor",
    "RandomFeatures",
    "Squeak",
    "__version__",
    "all_estimators",
    "bandits",
    "checks",
    "dpp",
    "graphs",
    "kernels",
    "learners",
    "leverage",
    "load",
    "merge",
    "online",
    "places",
    "report",
    "rows",
    "samplers",
    "save",
]

_ROOMS = ("bandits", "dpp", "graphs", "learners", "online", "report")


def __getattr__(name: str) -> Any:
    """Import a room, or a learner, when it is first asked for: ``import squeak`` stays fast."""
    if name in _ROOMS:
        return room(name)
    if name == "checks":
        import squeak.checks as found

        return found
    if name in __all__:
        return getattr(room("learners"), name)
    home = next((at for at in _ROOMS if not name.startswith("_") and name in room(at).__all__), None)
    advice = "" if home is None else f"; it is squeak.{home}.{name}"
    raise AttributeError(f"module 'squeak' has no attribute {name!r}{advice}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
