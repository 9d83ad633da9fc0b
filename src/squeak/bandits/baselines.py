"""What to compare with on the exact posterior: uniform pulls, improvement acquisitions, batches of a fixed size."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr

from squeak.bandits.base import Bandit
from squeak.bandits.checks import check_count
from squeak.bandits.gp_ucb import ExactBandit
from squeak.core.kernels import diagonal
from squeak.core.storage import register
from squeak.core.types import Array, IntArray, Rows


@register
class UniformArms(Bandit):
    """Pull arms at random; the reference that regrets are divided by.

    Its posterior takes every arm for itself: mean reward and noise/√n for arms pulled, the prior for the others.

    Parameters
    ----------
    arms : rows
    kernel : kernel
    noise, norm, delta, beta, prior_mean, refit, random_state, verbose
        As in :class:`GPUCB`.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import UniformArms
    >>> bandit = UniformArms(np.eye(5), random_state=0).run(lambda i: float(i), 40)
    >>> bandit.best_.index
    4
    """

    kind: ClassVar[str] = "uniform_arms"

    def _start(self) -> None:
        self._prior = np.sqrt(diagonal(self.kernel_, self.arms_))

    def _learn(self, arms: IntArray, totals: Array, times: IntArray) -> None:
        pass

    def _grow(self, rows: Rows) -> None:
        self._prior = np.concatenate([self._prior, np.sqrt(diagonal(self.kernel_, rows))])

    def _choose(self, limit: int | None) -> list[int]:
        return [self._first()]

    def _posterior_at_arms(self) -> tuple[Array, Array]:
        seen, n = self.counts_ > 0, np.maximum(self.counts_, 1)
        mean = np.where(seen, self.sums_ / n - self.prior_mean_, 0.0)
        return mean, np.where(seen, self.noise_ / np.sqrt(n), self._prior)

    def _posterior(self, X: Rows) -> tuple[Array, Array]:
        prior = np.sqrt(diagonal(self.kernel_, X))
        return np.zeros(len(prior)), prior

    def _variance_sum(self) -> float:
        return float(np.count_nonzero(self.counts_))

    def _model_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {}

    def _restore_model(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        pass


class _Improvement(ExactBandit):
    """An acquisition that compares with the best posterior mean of the arms pulled."""

    def _incumbent(self, mean: Array) -> float:
        seen = (self.counts_ > 0) & self.active_
        return float(mean[seen].max()) if seen.any() else 0.0


@register
class ExpectedImprovement(_Improvement):
    """GP-EI: the largest expected improvement over the best mean of an arm pulled.

    E max(f(x) − f⁺, 0) = s·(z·Φ(z) + φ(z)) with z = (μ − f⁺)/s.

    Parameters
    ----------
    arms : rows
    kernel : kernel
    noise, norm, delta, beta, prior_mean, refit, random_state, verbose
        As in :class:`GPUCB`; beta is not used.

    References
    ----------
    Jones et al. 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import ExpectedImprovement
    >>> from squeak.kernels import RBF
    >>> arms = np.linspace(0, 1, 50).reshape(-1, 1)
    >>> bandit = ExpectedImprovement(arms, RBF(0.3), noise=0.01, random_state=0)
    >>> bandit = bandit.run(lambda i: float(arms[i, 0]), 12)
    >>> bandit.best_.index
    49
    """

    kind: ClassVar[str] = "expected_improvement"

    def _scores(self, mean: Array, std: Array) -> Array:
        return improvement(mean, std, self._incumbent(mean))


@register
class ProbabilityOfImprovement(_Improvement):
    """GP-PI: the largest P(f(x) > f⁺ + margin) = Φ((μ − f⁺ − margin)/s), margin a tenth of the noise.

    Parameters
    ----------
    arms : rows
    kernel : kernel
    noise, norm, delta, beta, prior_mean, refit, random_state, verbose
        As in :class:`GPUCB`; beta is not used.

    References
    ----------
    Kushner 1964.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import ProbabilityOfImprovement
    >>> from squeak.kernels import RBF
    >>> arms = np.linspace(0, 1, 50).reshape(-1, 1)
    >>> bandit = ProbabilityOfImprovement(arms, RBF(0.3), noise=0.01, random_state=0)
    >>> bandit.run(lambda i: float(arms[i, 0]), 20).best_.index
    49
    """

    kind: ClassVar[str] = "probability_of_improvement"

    def _scores(self, mean: Array, std: Array) -> Array:
        gap = mean - self._incumbent(mean) - 0.1 * self.noise_
        return gap / np.maximum(std, 1e-12 * self.noise_)  # Φ is monotone: the same arm, without its flat ends


@register
class GPBUCB(ExactBandit):
    """GP-BUCB: batches of a fixed size; the variance learns of each arm chosen, the mean waits.

    Parameters
    ----------
    arms : rows
    kernel : kernel
    batch_size : int
    noise, norm, delta, beta, prior_mean, refit, random_state, verbose
        As in :class:`GPUCB`.

    References
    ----------
    Desautels et al. 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import GPBUCB
    >>> from squeak.kernels import RBF
    >>> arms = np.random.default_rng(0).random((100, 2))
    >>> bandit = GPBUCB(arms, RBF(0.3), batch_size=8, random_state=0)
    >>> bandit.tell(bandit.ask(), 0.0)
    >>> len(bandit.ask())
    8
    """

    kind: ClassVar[str] = "gp_bucb"

    def __init__(self, arms: Any, kernel: Any = None, *, batch_size: int = 10, **params: Any) -> None:
        self.batch_size = check_count(batch_size, "batch_size")
        super().__init__(arms, kernel, **params)

    def ask(self) -> Any:
        """Return the numbers of the arms to pull next, an array."""
        return np.array(self._asked(None), dtype=np.int64)

    def _choose(self, limit: int | None) -> list[int]:
        chosen: list[int] = []
        beta, mean = self.beta_, self._model.mean
        for _ in range(min(self.batch_size, limit or self.batch_size)):
            variance = self._overlay.follow(self._model, self._pending + chosen, self.n_told_)
            scores = np.where(self.active_, mean + beta * np.sqrt(variance), -np.inf)
            chosen.append(int(np.argmax(scores)))
        return chosen

    def _options(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size}


def improvement(mean: Array, std: Array, incumbent: float) -> Array:
    """Return the expected improvement s·(z·Φ(z) + φ(z)), z = (mean − incumbent)/s; where z > 40 it is the gap."""
    std, gap = np.maximum(std, 1e-300), mean - incumbent
    with np.errstate(over="ignore"):
        z = np.clip(gap / std, -40.0, 40.0)  # beyond them nothing is left of one of the two terms
    return np.where(gap > 40.0 * std, gap, std * (z * ndtr(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)))
