"""What local experts say of classes: their scores, and the log odds of which probabilities are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from squeak.core import state
from squeak.core.saved import Layout, Saved
from squeak.core.types import Array
from squeak.data import DecidesBlocks, by_blocks
from squeak.learners.calibration import probabilities
from squeak.learners.expansion import Expansion
from squeak.learners.leaves import Odds, shared
from squeak.learners.splits import SplitTree
from squeak.learners.told import decides


@dataclass(frozen=True)
class LeafOdds(Saved):
    """How the log odds of classes are made of the scores of every leaf's expert: slope·score + offsets.

    Parameters
    ----------
    slopes : array of shape (leaves,)
    offsets : array of shape (leaves, outputs)

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.odds import LeafOdds
    >>> from squeak.learners.spread import constant
    >>> score = constant(np.zeros((1, 1)), np.array([0.5]))
    >>> [[expert]] = LeafOdds(np.array([4.0]), np.array([[1.0]])).of_experts([[score]])
    >>> expert.values(np.zeros((1, 1)))
    array([[3.]])
    """

    _state: ClassVar[Layout] = {
        "slopes": state.numbers("leaves", low=-state.HUGE, high=state.HUGE),
        "offsets": state.numbers("leaves", "outputs", low=-state.HUGE, high=state.HUGE),
    }

    slopes: Array
    offsets: Array

    @classmethod
    def of(cls, found: Sequence[Odds | None]) -> LeafOdds | None:
        """Return those of all leaves; None where scores are log odds, and of a regression."""
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        return cls(np.array([one.slope for one in known]), np.stack([one.offsets for one in known]))

    def of_experts(self, experts: list[list[Expansion]]) -> list[list[Expansion]]:
        """Return the experts with log odds in place of scores; ``experts``: one function for every leaf."""
        found = []
        for [one], slope, offsets in zip(experts, self.slopes, self.offsets, strict=True):
            scaled = one.times(slope)
            found.append([replace(scaled, intercept=scaled.intercept + offsets)])
        return found

    def beside(self, experts: list[list[Expansion]]) -> list[list[Expansion]]:
        """Return the experts with log odds behind the scores."""
        return [
            [
                replace(
                    scores,
                    coef=np.hstack([scores.coef, odds.coef]),
                    intercept=np.concatenate([scores.intercept, odds.intercept]),
                )
            ]
            for [scores], [odds] in zip(experts, self.of_experts(experts), strict=True)
        ]

    def fits(self, leaves: int, outputs: int) -> bool:
        """Tell whether it is of so many leaves and scores."""
        return self.offsets.shape == (leaves, outputs) and self.slopes.shape == (leaves,)


class OddsKnown(DecidesBlocks):
    """Adds scores and probabilities to experts of classes."""

    tree_: SplitTree
    experts_: list[list[Expansion]]
    logistic_: bool
    _odds: LeafOdds | None
    _rows_for: Callable[[Any], Any]
    _values: Callable[[Any], Array]

    def _check_probabilities(self) -> bool:
        """Tell whether these are classes, or raise an AttributeError that says what their file lacks."""
        if not decides(self):
            return False
        if hasattr(self, "classes_") and not self.logistic_ and self._odds is None:
            raise AttributeError(
                "these experts were fitted by the squared loss, and their file was written before models kept what "
                "probabilities take: fit them anew"
            )
        return True

    @available_if(decides)  # type: ignore[untyped-decorator]
    @by_blocks
    def decision_function(self, X: Any) -> Array:
        """Return the scores of every row: of classifiers.

        Parameters
        ----------
        X : array, table, or row source

        Returns
        -------
        array of shape (n,) or (n, classes)
        """
        values = self._values(self._rows_for(X))
        return values[:, 0] if values.shape[1] == 1 else values

    @available_if(lambda self: self._check_probabilities())  # type: ignore[untyped-decorator]
    @by_blocks
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every class for every row: of classifiers.

        Where two parts meet, the log odds of their experts are blended by their shares, as scores are, so that
        probabilities have no jumps. With the logistic loss the scores are log odds. With the squared loss every
        expert calibrates its own, as :meth:`KernelClassifier.predict_proba` does, on leave-one-out scores of up to
        1,000 rows of its part. The most probable class may then differ from :meth:`predict`, which goes by the
        scores, where two are nearly alike, and rows of different parts may have another order than by their scores.

        A class that none of the n rows of a part has is improbable there, but never impossible: its odds are about
        1 to n + 1, as Laplace's rule has it. With a probability of 0, one such row makes the log loss infinite.

        Parameters
        ----------
        X : array, table, or row source

        Returns
        -------
        array of shape (n, classes)

        Examples
        --------
        >>> import numpy as np
        >>> from squeak import KernelClassifier, LocalExperts
        >>> from squeak.kernels import RBF
        >>> X = np.random.default_rng(0).uniform(-3, 3, (2000, 1))
        >>> y = np.array(["low", "middle", "high"])[np.searchsorted([-1.0, 1.0], X[:, 0])]
        >>> expert = KernelClassifier(RBF(0.5), 0.1, max_atoms=20)
        >>> model = LocalExperts(expert, leaf_rows=600, random_state=0).fit(X, y)
        >>> model.classes_.tolist(), model.predict_proba([[-2.0], [0.0], [2.0]]).round(1).tolist()
        (['high', 'low', 'middle'], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
        """
        rows = self._rows_for(X)
        if self._odds is None:
            values = self._values(rows)
        else:
            values = shared(self.tree_, self._odds.of_experts(self.experts_), np.asarray(rows, dtype=np.float64))
        return probabilities(values, 1.0, np.zeros(values.shape[1]))
