"""What to compare with: uniform pulls, improvement, batches of a fixed size, other posteriors, other features."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from squeak.bandits.base import Bandit
from squeak.bandits.batch_bkb import MOST_AT_ONCE
from squeak.bandits.bkb import BKB
from squeak.bandits.exact import ExactPosterior
from squeak.bandits.gp_ucb import ExactBandit
from squeak.bandits.posterior import chance_of_improvement, highest, improvement
from squeak.bandits.sparse import SparsePosterior
from squeak.core.checks import check_whole
from squeak.core.fourier import FourierFeatures
from squeak.core.kernels import diagonal
from squeak.core.types import Array, IntArray, Rows


class ApartPosterior:
    """Every arm by itself: mean reward and λ/n at arms pulled, the prior at the others.

    Between calls: ``mean`` and ``variance`` are those of the counts and sums last given.
    """

    def __init__(self, kernel: Any, arms: Rows, ridge: float) -> None:
        self._kernel, self._ridge, self.variance = kernel, ridge, diagonal(kernel, arms)
        self.mean = np.zeros(len(self.variance))

    def rebuild(self, pulled: IntArray, counts: Array, sums: Array) -> None:
        """Take the arms pulled, how often, and the sums of their rewards."""
        self.mean[pulled], self.variance[pulled] = sums / counts, self._ridge / counts

    def variance_sum(self, counts: IntArray) -> float:
        """Return Σ_i n_i·s_i² over the arms."""
        return self._ridge * np.count_nonzero(counts)

    def predict(self, X: Rows) -> tuple[Array, Array]:
        """Return the prior."""
        variance = diagonal(self._kernel, X)
        return np.zeros(len(variance)), variance

    def add(self, rows: Rows) -> None:
        """Add arms."""
        mean, variance = self.predict(rows)
        self.mean, self.variance = np.append(self.mean, mean), np.append(self.variance, variance)


class UniformArms(Bandit):
    """Pull arms at random; the reference that regrets are divided by.

    Its posterior takes every arm for itself: mean reward and noise/√n for arms pulled, the prior for the others.

    Parameters
    ----------
    arms, kernel, noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
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
        self._model = ApartPosterior(self.kernel_, self.arms_, self.ridge_)
        self._model.rebuild(*self._counted())

    def _learn(self, arms: IntArray, totals: Array, times: IntArray) -> None:
        self._model.rebuild(*self._counted())

    def _choose(self, limit: int | None) -> list[int]:
        return [self._first()]

    def _model_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {}

    def _restore_model(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        self._start()


class _Improvement(ExactBandit):
    """An acquisition that compares with the best posterior mean of the arms pulled."""

    _posterior = ExactPosterior

    def _choose(self, limit: int | None) -> list[int]:
        mean, std = self._model.mean, np.sqrt(self._model.variance_with(self._pending))
        seen = (self.counts_ > 0) & self.active_
        return [highest(self._scores(mean, std, float(mean[seen].max()) if seen.any() else 0.0), self.active_)]

    def _scores(self, mean: Array, std: Array, incumbent: float) -> Array:
        """Return how much each arm promises."""
        return improvement(mean, std, incumbent)


class ExpectedImprovement(_Improvement):
    """GP-EI: the largest expected improvement over the best mean of an arm pulled.

    E max(f(x) − f⁺, 0) = s·(z·Φ(z) + φ(z)) with z = (μ − f⁺)/s.

    Parameters
    ----------
    arms, kernel, noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
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


class ProbabilityOfImprovement(_Improvement):
    """GP-PI: the largest P(f(x) > f⁺ + margin) = Φ((μ − f⁺ − margin)/s), margin a tenth of the noise.

    Parameters
    ----------
    arms, kernel, noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
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

    def _scores(self, mean: Array, std: Array, incumbent: float) -> Array:
        return chance_of_improvement(mean, std, incumbent + 0.1 * self.noise_, 1e-12 * self.noise_)


class GPBUCB(ExactBandit):
    """GP-BUCB: batches of a fixed size; the variance learns of each arm chosen, the mean waits.

    Parameters
    ----------
    batch_size : int
        Arms asked for at once; 10,000 at most are.
    arms, kernel, noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
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
    >>> bandit = GPBUCB(arms, RBF(0.3), noise=0.1, batch_size=8, random_state=0)
    >>> bandit.tell(bandit.ask(), 0.0)
    >>> len(bandit.ask())
    8
    """

    kind: ClassVar[str] = "gp_bucb"
    OPTIONS: ClassVar[tuple[str, ...]] = ("batch_size",)
    _posterior = ExactPosterior

    def __init__(self, arms: Any, kernel: Any = None, *, batch_size: int = 10, **params: Any) -> None:
        self.batch_size = check_whole("batch_size", batch_size)
        super().__init__(arms, kernel, **params)

    def ask(self) -> Any:
        """Return the numbers of the arms to pull next.

        Returns
        -------
        array of ints
        """
        return np.array(self._next_arms(None), dtype=np.int64)

    def _choose(self, limit: int | None) -> list[int]:
        chosen: list[int] = []
        for _ in range(min(self.batch_size, limit or MOST_AT_ONCE, MOST_AT_ONCE)):
            chosen.append(self._model.best(self._width(), self.active_, self._pending + chosen))
        return chosen


class SorPosterior(SparsePosterior):
    """DTC without the residual: the variance of SoR, which starves far from the dictionary."""

    def _total(self, residual: Array, signal: Array) -> Array:
        return signal


class SorUCB(BKB):
    """BKB with SoR's variance zᵀV⁻¹z: what goes wrong without the residual. Not for use.

    Far from the dictionary its intervals collapse, and arms there are never pulled.

    Parameters
    ----------
    arms, kernel, oversampling, noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
        As in :class:`BKB`.

    References
    ----------
    Carratino thesis, section 7.1 (variance starvation); the theory page, "Bandits".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import SorUCB
    >>> from squeak.kernels import RBF
    >>> arms = np.linspace(0, 1, 50).reshape(-1, 1)
    >>> bandit = SorUCB(arms, RBF(0.1), random_state=0)
    >>> bandit.tell([0, 1, 2], [0.0, 0.0, 0.0])
    >>> bool(bandit.posterior()[1][-1] < 1e-9)      # nothing was seen there, and it is sure of it
    True
    """

    kind: ClassVar[str] = "sor_ucb"
    _posterior = SorPosterior


class DictionaryThompson(BKB):
    """Thompson sampling on the dictionary: pull the best arm of one draw from the DTC posterior.

    The draw is f̃(x) = z(x)ᵀ(w + noise·V^(−1/2)ε) + noise·√residual(x)·ε_x.

    Parameters
    ----------
    arms, kernel, oversampling, noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
        As in :class:`BKB`; beta is not used.

    References
    ----------
    Thompson 1933; the theory page, "Bandits".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import DictionaryThompson
    >>> from squeak.kernels import RBF
    >>> arms = np.linspace(0, 1, 50).reshape(-1, 1)
    >>> bandit = DictionaryThompson(arms, RBF(0.3), noise=0.05, random_state=0)
    >>> bandit.run(lambda i: float(arms[i, 0]), 30).best_.index > 40
    True
    """

    kind: ClassVar[str] = "dictionary_thompson"

    def _choose(self, limit: int | None) -> list[int]:
        model, rng = self._model, self._generator()
        eigenvalues, vectors = np.linalg.eigh(model.solver)
        draw = vectors @ (np.sqrt(np.maximum(eigenvalues, 0.0)) * rng.standard_normal(len(eigenvalues)))
        sample = (model.weights + self.noise_ * draw) @ model.features
        sample += self.noise_ * np.sqrt(model.residual) * rng.standard_normal(self.n_arms)
        return [highest(sample, self.active_)]


class FourierPosterior(SorPosterior):
    """The posterior on features that were drawn before the data: no dictionary, no residual."""

    def embed(self, features: FourierFeatures) -> None:
        """Take the features; V begins as λI."""
        self._fourier, self._basis = features, list(range(features.rank))
        self._buffer = np.ascontiguousarray(self._features(self.arms).T)
        self.solver, self.weights = np.eye(features.rank) / self.ridge, np.zeros(features.rank)
        self.signal = np.einsum("ij,ij->j", self._buffer, self._buffer) / self.ridge

    def _features(self, X: Rows) -> Array:
        return self._fourier.block(np.asarray(X, dtype=np.float64))

    def update(self, *parts: Any) -> None:
        """Take the pulls told; the dictionary plays no part."""
        _, _, pulled, _, sums, told, times = parts
        for arm, count in zip(told.tolist(), times.tolist(), strict=True):
            self.signal, self.solver = self._after_pull(arm, count, self.signal, self.solver)
        self.weights = self.solver @ (np.take(self.features, pulled, axis=1) @ sums)
        self.mean = self.weights @ self.features


class RandomFeatureUCB(BKB):
    """UCB on random Fourier features of a stationary kernel: oblivious to where the pulls are.

    Parameters
    ----------
    arms : dense rows
    kernel : RBF, Laplacian, Matern or a scaled one
    n_features : int
        Two for each frequency, its cosine and its sine; an odd number is rounded up.
    noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
        As in :class:`GPUCB`.

    References
    ----------
    Rahimi and Recht 2007; the theory page, "Bandits".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import RandomFeatureUCB
    >>> from squeak.kernels import RBF
    >>> arms = np.linspace(0, 1, 50).reshape(-1, 1)
    >>> bandit = RandomFeatureUCB(arms, RBF(0.3), noise=0.05, n_features=100, random_state=0)
    >>> bandit.run(lambda i: float(arms[i, 0]), 20).best_.index > 40
    True
    """

    kind: ClassVar[str] = ""
    OPTIONS: ClassVar[tuple[str, ...]] = ("n_features",)

    def __init__(self, arms: Any, kernel: Any = None, *, n_features: int = 400, **params: Any) -> None:
        self.n_features = check_whole("n_features", n_features)
        super().__init__(arms, kernel, **params)

    def _start(self) -> None:
        columns, frequencies = self.arms_.shape[1], (self.n_features + 1) // 2
        self._model = FourierPosterior(self.kernel_, self.arms_, self.ridge_)
        self._model.embed(FourierFeatures.pairs(self.kernel_, columns, frequencies, self._generator()))
        pulled = np.flatnonzero(self.counts_)
        if len(pulled):
            self._update(pulled, np.ones(len(pulled), dtype=bool), pulled, self.counts_[pulled])

    def _grow(self, rows: Rows) -> None:
        raise TypeError("RandomFeatureUCB takes no new arms: it is for comparison only")
