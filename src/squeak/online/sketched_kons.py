"""SKETCHED-KONS: KONS whose matrix takes in only some of the directions."""

from __future__ import annotations

from typing import ClassVar

from squeak.core.checks import check_between, check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.kons import Chances, _Kons


@parameters
class _SketchedKons(_Kons):
    _poor_on_few_rows: ClassVar[bool] = True

    oversampling: float = 1.0
    smallest_chance: float = 0.1
    copies: int = 1
    eps: float = 0.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("oversampling", self.oversampling)
        if check_positive("smallest_chance", self.smallest_chance) > 1.0:
            raise ValueError(f"smallest_chance must lie in (0, 1]; it is {self.smallest_chance!r}")

        check_whole("copies", self.copies)
        if check_between("eps", self.eps, 0.0, 1.0) == 1.0:
            raise ValueError("eps must lie below 1: the scores' factor 1 − eps would be 0")

    def _chances(self) -> Chances:
        eps = float(self.eps)
        return Chances(float(self.oversampling), float(self.smallest_chance), int(self.copies), 1.0 - eps)


class SketchedKonsRegressor(_SketchedKons, OnlineRegressor):
    """SKETCHED-KONS: KONS whose matrix takes in only some directions.

    A direction enters A with probability min(1, oversampling·max(τ̃, smallest_chance)).

    τ̃ is the leverage score of the scaled direction ġ√η·φ (KORS). A row at which it does not enter still moves
    the weights. Regret is that of KONS over max(smallest_chance, smallest τ); the matrix part costs
    smallest_chance² of it. Every row is kept, so a row costs O(t) kernel values still.

    Parameters
    ----------
    kernel, loss, alpha, bound, curvature, step, scale, random_state
        As in :class:`KonsRegressor`.
    oversampling : float
    smallest_chance : float
        The papers' β; with 1 all directions enter and it is KONS.
    copies : int
        Coins of a direction. 1: it enters wholly or not at all. With as many as oversampling it is the printed
        listing: q ~ Binomial(copies, max(τ̃, β)), and the part q/copies of η·ggᵀ enters A.
    eps : float
        The papers' ε: scores are multiplied by 1 − ε. The theorem asks for oversampling 3·log(T/δ)/ε².

    Notes
    -----
    The listing runs KORS apart, with coins of its own; here, as in the analysis (corollary 5.6), the coins that let
    a direction into A are those of KORS, with the larger chance max(τ̃, β).

    References
    ----------
    Thesis, algorithm 13 and theorem 5.7, with the corrections of the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import SketchedKonsRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (300, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> model = SketchedKonsRegressor(alpha=1.0, random_state=0).fit(X, y)
    >>> bool(np.mean((model.predict(X) - y) ** 2) < 0.1)
    True
    """


@parameters
class SketchedKonsClassifier(_SketchedKons, OnlineClassifier):
    """SKETCHED-KONS for labels: see :class:`SketchedKonsRegressor`.

    Parameters
    ----------
    kernel, loss, alpha, oversampling, smallest_chance, copies, eps, bound, curvature, step, scale, random_state
        As in :class:`SketchedKonsRegressor` and :class:`KonsClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import SketchedKonsClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> SketchedKonsClassifier(alpha=1.0, random_state=0).fit(X, y).score(X, y) > 0.85
    True
    """

    loss: str = "squared_hinge"
    bound: float = 10.0
