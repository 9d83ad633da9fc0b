"""What a fitted learner's answers are made of, in parts that other programs can evaluate: see ``to_onnx``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from squeak.core.types import Array
from squeak.learners.expansion import Expansion
from squeak.learners.grown import Trees
from squeak.learners.splits import SplitTree


@dataclass(frozen=True)
class Experts:
    """Sums of kernel functions for every leaf of a tree, blended by the tree's shares."""

    tree: SplitTree
    experts: list[list[Expansion]]


@dataclass(frozen=True)
class Cosines:
    """The intercept + cos(x·frequencies + offsets) times a matrix, or each cosine times a number of its own.

    ``mixing``: the matrix, of shape (features, outputs), or the numbers, of shape (features,).
    """

    frequencies: Array
    offsets: Array
    mixing: Array
    intercept: Any = 0.0


Function = Expansion | Experts | Cosines | Trees
"""One of the functions whose sum a model is, shape (n, outputs) for n rows."""


@dataclass(frozen=True)
class Numbers:
    """Values are the answers of ``predict``; ``single``: without a dimension for outputs."""

    single: bool


@dataclass(frozen=True)
class Features:
    """Values are the answers of ``transform``."""


@dataclass(frozen=True)
class Classes:
    """Values are scores of classes; ``slope``·value + ``offsets`` are the logits of probabilities, where known.

    ``beside``: behind the scores are as many values more, from which slope and offsets make the logits.
    """

    classes: Any
    slope: float | None
    offsets: Any = 0.0
    beside: bool = False


@dataclass(frozen=True)
class Clusters:
    """Values are ‖φ(x) − c‖² − k(x, x) for every centre c; ``norms`` are ‖c‖².

    A squared distance below ``rounding`` times the squared norms is 0.
    """

    kernel: Any
    norms: Array
    rounding: float


Answers = Numbers | Features | Classes | Clusters
"""What becomes of the values."""
