"""Learn from every row as it comes: online kernel learning with a cost a row that does not grow.

:class:`ConKonsRegressor` and :class:`ConKonsClassifier` are the ones to begin with, :class:`MixedKonsRegressor` and
:class:`MixedKonsClassifier` the ones for streams that drift;
:func:`progressive_validation` measures any of them honestly, each row predicted before it is learned.
"""

from squeak.online.first_order import KernelOGDClassifier, KernelOGDRegressor
from squeak.online.fogd import DualSGDClassifier, DualSGDRegressor, FOGDClassifier, FOGDRegressor
from squeak.online.kons import KonsClassifier, KonsRegressor
from squeak.online.mixture import MixedKonsClassifier, MixedKonsRegressor
from squeak.online.nogd import NOGDClassifier, NOGDRegressor
from squeak.online.projectron import ProjectronClassifier, ProjectronRegressor
from squeak.online.pros_n_kons import (
    BudgetKonsClassifier,
    BudgetKonsRegressor,
    ConKonsClassifier,
    ConKonsRegressor,
    ProsNKonsClassifier,
    ProsNKonsRegressor,
)
from squeak.online.sketched_kons import SketchedKonsClassifier, SketchedKonsRegressor
from squeak.online.validation import Batch, Progress, progressive_validation, regret_bound

__all__ = [
    "Batch",
    "BudgetKonsClassifier",
    "BudgetKonsRegressor",
    "ConKonsClassifier",
    "ConKonsRegressor",
    "DualSGDClassifier",
    "DualSGDRegressor",
    "FOGDClassifier",
    "FOGDRegressor",
    "KernelOGDClassifier",
    "KernelOGDRegressor",
    "KonsClassifier",
    "KonsRegressor",
    "MixedKonsClassifier",
    "MixedKonsRegressor",
    "NOGDClassifier",
    "NOGDRegressor",
    "Progress",
    "ProjectronClassifier",
    "ProjectronRegressor",
    "ProsNKonsClassifier",
    "ProsNKonsRegressor",
    "SketchedKonsClassifier",
    "SketchedKonsRegressor",
    "progressive_validation",
    "regret_bound",
]
