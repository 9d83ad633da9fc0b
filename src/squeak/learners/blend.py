"""Ridge regression with several kernels: each tuned on held-out rows, all blended by their errors there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import nnls
from sklearn.base import MultiOutputMixin, RegressorMixin

from squeak.core import engine, state
from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import RBF, Laplacian, Matern, Metric
from squeak.core.rows import width_of
from squeak.core.saved import Layout, NestedPiece
from squeak.core.seeds import SAMPLE, draw_seed, generator_at
from squeak.core.types import Array, BoolArray, IntArray
from squeak.data import PredictsBlocks, Preprocessing, RowSource, by_blocks
from squeak.learners.data import ArrayTraining
from squeak.learners.exact import exactly
from squeak.learners.expansion import Expansion, ExpansionsPiece, total
from squeak.learners.formula import Answers, Function, Numbers
from squeak.learners.leaf_passes import Sample, bounded, dense, enough_rows
from squeak.learners.metric import Held, Trial, check_tunable, is_settled, tuned, with_map
from squeak.learners.rows import RowLearner, all_or_nothing

DEFAULT_KERNELS = (Laplacian("learned"), Metric(RBF("learned"), None), Metric(Matern("learned", nu=0.5), None))
"""Rough along the columns, smooth along any directions, rough along any directions."""

SEARCH_ROWS = 8_000
"""Rows on which widths and metrics are tried at most; penalties and weights of the blend see them all."""

EVERY_ROW, ATOMS = 8_000, 1_000
"""Of so many rows each is an atom, and of more so few are, where nobody says how many there may be."""

CHOSEN = 4.0
"""The variance of a slope counts so many times, because the rows that tell it have chosen the model."""

CLEAR = 0.5
"""A metric is learned with every row an atom where few atoms leave no more than this part of the variance: where
there is more noise, the slopes of so many atoms follow it."""

LEAST_WEIGHT = 0.03
"""A kernel with a smaller part of the blend is left out."""


@parameters
class KernelBlend(MultiOutputMixin, RegressorMixin, PredictsBlocks, RowLearner):
    """Ridge regression with a blend of kernels, whose metrics are learned from the targets.

    The model is f = ȳ + Σ_b w_b (f_b − ȳ) with w_b ≥ 0 and Σ_b w_b ≤ 1. Every f_b is the function of a
    :class:`KernelRidge` with a kernel of its own. Its width, metric and penalty are those of the least error on
    rows that are held out from the fit, and the weights w minimise the squared error of the blend on the same
    rows. At the end, every f_b is fitted to all rows; ȳ is the mean target of the rows that were not held out.

    Parameters
    ----------
    kernels : sequence of kernels, optional
        The kernels from which the search begins. ``RBF("learned")`` learns a width for each column, and
        ``Metric(RBF("learned"), None)`` learns a linear map. From a kernel with numbers, width and metric are
        refined. The default is the product Laplacian with a width for each column, and the RBF and the Matérn-½
        kernel behind a linear map.
    max_atoms : int, optional
        The largest number of atoms for each kernel. If there are no more rows than that, every row is an atom. By
        default that is so for up to 8,000 rows, and more rows have 1,000 atoms.
    rounds : int
        How often a metric is learned again from the slopes of the model before, at most. The rounds end earlier if
        one gains less than half a percent. If every row is an atom and few atoms explain half of the variance of
        the targets, one more round takes the slopes of a model with all atoms; for a kernel with numbers and one
        round it is the only one. With 0, a kernel with numbers keeps its metric.
    search_atoms : int
        The number of atoms with which widths and metrics are tried.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.

    Attributes
    ----------
    weights_ : array of shape (kernels that were kept,)
    expansions_ : list
        The functions w_b·f_b.
    trials_ : list
        The best trial of every kernel: kernel, penalty, error on the held-out rows.
    back_, back_values_ : arrays
        The held-out rows, by their numbers, and what the blend predicts for them before it has seen them.

    References
    ----------
    Radhakrishnan, Beaglehole, Pandit and Belkin, "Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models", Science 383 (2024), for the metric. Breiman, "Stacked
    regressions", Machine Learning 24 (1996), for weights that are not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners import KernelBlend
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 5))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(600)
    >>> model = KernelBlend(max_atoms=100, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    kind: ClassVar[str] = "kernel-blend"
    _foundation: ClassVar[Layout] = {"preprocessing_": NestedPiece(Preprocessing, optional=True)}
    _state: ClassVar[Layout] = {
        "expansions_": ExpansionsPiece(),
        "weights_": state.numbers("kernels", low=0.0, high=1.0),
        "dimensions_": state.whole(low=1, high=2),
    }

    kernels: Sequence[Any] | None = field(default=None, kw_only=False)
    max_atoms: int | None = None
    rounds: int = 8
    search_atoms: int = 600
    expansions_: list[Expansion] = field(init=False)
    weights_: Array = field(init=False)
    trials_: list[Trial] = field(init=False)
    back_: IntArray = field(init=False)
    back_values_: Array = field(init=False)
    dimensions_: int = field(init=False)

    preprocessing_: Preprocessing | None = field(init=False, default=None)

    @all_or_nothing
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, back: Any = None, groups: Any = None
    ) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array of shape (n, d), or row source
            The rows of a source are gathered in memory up to 4 GB of them. Of more, and of more than 50,000 rows
            that the workers of a cluster read, the model is fitted to a sample of 50,000 rows, or of 50 for each
            atom if that is more: further rows hardly change so few numbers.
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional
        back : array of bool of shape (n,), optional
            The rows to hold out while kernels are chosen; 15% of them at random by default.
        groups : array of int of shape (d,), optional
            Columns with one number share a width: the categories of one column of a table.

        Returns
        -------
        self
        """
        for name in ("max_atoms", "rounds", "search_atoms"):
            if getattr(self, name) is not None or name != "max_atoms":
                check_whole(name, getattr(self, name), low=0 if name == "rounds" else 1)
        if self.kernels is not None and (not isinstance(self.kernels, list | tuple) or not self.kernels):
            raise TypeError(f"kernels must be a list of kernels, one at least; it is {self.kernels!r}")
        encoding = None
        if isinstance(X, RowSource):
            source, encoding = self._source(X, y, sample_weight, numeric=True), X.preprocessing
            seed = draw_seed(self.random_state)
            found = bounded(source, enough_rows(self.max_atoms or ATOMS), seed)
            if back is not None and isinstance(found, Sample):
                raise TypeError("back goes with rows that memory holds: this source has more of them")
            data = found.rows if isinstance(found, Sample) else found
        else:
            data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True)
            dense(data.X)
            seed = draw_seed(self.random_state)
        self.preprocessing_ = encoding
        back = kept_back(back, data.y if y is None else y, sample_weight)
        self.dimensions_ = data.y.ndim
        self._learn(data, seed, back, groups)
        return self

    def _learn(self, data: ArrayTraining, seed: int, back: Any, groups: Any) -> None:
        rows = np.asarray(data.X, dtype=np.float64)
        targets = data.y.reshape(len(rows), -1)
        held = Held.split(rows, targets, data.weight, self.search_atoms, generator_at(seed, SAMPLE, 0), back)
        few = held.first(SEARCH_ROWS, SEARCH_ROWS // 4)
        full = held.with_atoms(atoms_for(len(rows), self.max_atoms))
        every = atoms_for(len(rows), self.max_atoms) >= len(rows)
        starts = list(DEFAULT_KERNELS if self.kernels is None else self.kernels)
        clear = CLEAR * float(np.average(np.square(few.y_back).sum(axis=1), weights=few.weight_back))

        def begin(kernel: Any) -> Trial:
            check_tunable(kernel)
            if is_settled(kernel):
                first = few.at(with_map(kernel, few.X.shape[1]))
                # the only round is that of all atoms, where their slopes can be trusted
                if not self.rounds or (every and self.rounds == 1 and first.error <= clear):
                    return first
            return tuned(kernel, few, groups, self.rounds)

        def end(trial: Trial) -> Trial:
            if not every:
                return full.at(trial.kernel, keep=True)
            return exactly(trial, full, groups, learn=self.rounds > 0 and trial.error <= clear)

        tried = engine.map_ordered(end, engine.map_ordered(begin, starts))
        nothing = np.zeros_like(held.y_back)  # the mean alone, for targets that the columns tell little of
        weights = convex_weights([*(trial.back for trial in tried), nothing], held.y_back, held.weight_back)
        kept = np.flatnonzero(weights[:-1]).tolist() or [int(np.argmin([trial.error for trial in tried]))]
        self.weights_, self.back_ = weights[kept], held.back
        self.back_values_ = np.asarray(sum(weights[place] * tried[place].back for place in kept)) + held.mean
        chosen = [tried[place] for place in kept]
        atoms, _ = full.all_rows()
        whole = [(atoms, trial.coef) if every else full.whole(trial) for trial in chosen]
        self.expansions_ = [
            Expansion(trial.kernel, atoms, weight * coef, np.zeros_like(held.mean))
            for trial, weight, (atoms, coef) in zip(chosen, self.weights_, whole, strict=True)
        ]
        self.expansions_[0] = replace(self.expansions_[0], intercept=held.mean)
        self.trials_ = [replace(trial, equations=None) for trial in tried]

    def _width(self) -> int | None:
        return width_of(self.expansions_[0].atoms)

    @property
    def kernel_(self) -> Any:
        """The kernel of the largest part of the blend."""
        return self.expansions_[int(np.argmax(self.weights_))].kernel

    @property
    def kernels_(self) -> list[Any]:
        """The kernels that were kept, with every width a number."""
        return [one.kernel for one in self.expansions_]

    def _values(self, X: Any) -> Array:
        return total(self.expansions_, X)

    def _functions(self) -> Sequence[Function]:
        return self.expansions_

    def _answers(self) -> Answers:
        return Numbers(self.dimensions_ == 1)

    @by_blocks
    def predict(self, X: Any) -> Array:
        """Return f(x) for every row.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,) or (n, outputs)
        """
        values = self._values(self._rows_for(X))
        return values[:, 0] if self.dimensions_ == 1 else values

    def _restore(self, found: dict[str, Any]) -> None:
        self.preprocessing_ = found["preprocessing_"]
        if len(self.expansions_) != len(self.weights_):
            raise ValueError("the weights do not fit the kernels")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "expansions_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def atoms_for(n: int, max_atoms: int | None) -> int:
    """Return how many of n rows are atoms at most."""
    return max_atoms or (n if n <= EVERY_ROW else ATOMS)


def kept_back(back: Any, y: Any, sample_weight: Any) -> BoolArray | None:
    """Return which of the rows that have a weight are held out; None: nobody said.

    Parameters
    ----------
    back : array of bool of shape (n,), or None
    y : array of shape (n,) or (n, outputs)
    sample_weight : array of shape (n,), or None

    Returns
    -------
    array of bool, or None
    """
    if back is None:
        return None
    back = np.asarray(back)
    if back.shape != np.shape(y)[:1] or back.dtype != bool:
        raise ValueError("back must tell for every row, by True or False, whether it is held out")
    return np.asarray(back if sample_weight is None else back[np.asarray(sample_weight) != 0])


def convex_weights(values: Sequence[Array], y: Array, weight: Array | None = None) -> Array:
    """Return weights w ≥ 0, Σ w = 1, that minimise Σ (y − Σ_b w_b f_b)²; small ones are made 0.

    Parameters
    ----------
    values : sequence of arrays of shape (n, outputs)
        What each model predicts for rows that it has not seen.
    y : array of shape (n, outputs)
    weight : array of shape (n,), optional

    Returns
    -------
    array of shape (models,)

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.blend import convex_weights
    >>> y = np.arange(4.0)[:, None]
    >>> convex_weights([y + 1, y - 1], y).round(3)
    array([0.5, 0.5])
    """
    root = np.ones(len(y)) if weight is None else np.sqrt(weight)
    A = np.stack([((value - y) * root[:, None]).ravel() for value in values], axis=1)
    A /= np.abs(A).max() or 1.0
    # Σ w = 1 makes the error Σ_b w_b (f_b − y); the largest column sets how heavily the sum is held to 1
    heavy = 1e3 * (float(np.linalg.norm(A, axis=0).max()) or 1.0)
    found, _ = nnls(np.vstack([A, np.full(A.shape[1], heavy)]), np.append(np.zeros(len(A)), heavy))
    if not found.sum() > 0.0:
        found = np.ones(len(values))
    found = np.where(found < LEAST_WEIGHT * found.sum(), 0.0, found)
    return np.asarray(found / found.sum())


def trusted_part(said: Array, mean: Array, y: Array, weight: Array | None = None) -> float:
    """Return how much of a model to keep, the rest being the mean: t = max(0, 1 − 4(s/b)²).

    b is the slope of y − mean along said − mean over rows that neither has seen, and s its standard error, from the
    residuals of these rows. Where the slope is below two standard errors nothing of the model is kept, and where it
    is twenty 99% are: the positive part of an estimate like that of James and Stein, with the variance four times,
    since the same rows have chosen the model.

    Parameters
    ----------
    said, y : arrays of shape (n, outputs)
    mean : array of shape (outputs,)
    weight : array of shape (n,), optional

    Returns
    -------
    float

    References
    ----------
    James and Stein, "Estimation with quadratic loss", Berkeley Symposium (1961).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.blend import trusted_part
    >>> y = np.arange(4.0)[:, None]
    >>> trusted_part(y, y.mean(axis=0), y), trusted_part(-y, y.mean(axis=0), y)
    (1.0, 0.0)
    """
    share = np.full(len(y), 1.0 / len(y)) if weight is None else weight / weight.sum()
    along, target = said - mean, y - mean
    cross, energy = (float(share @ (along * other).sum(axis=1)) for other in (target, along))
    if not cross > 0.0:
        return 0.0
    parts = (along * (target - cross / energy * along)).sum(axis=1) / cross
    return max(0.0, 1.0 - CHOSEN * float(share**2 @ parts**2))
