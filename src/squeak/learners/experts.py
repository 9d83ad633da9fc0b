"""Local experts: the space is split where the target changes most, and every part has a model of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import get_tags

from squeak.core import engine, state
from squeak.core.checks import check_between, check_labels, check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import RBF
from squeak.core.places import place
from squeak.core.progress import Job, progress
from squeak.core.saved import LabelsPiece, Layout, NestedPiece
from squeak.core.seeds import draw_seed
from squeak.core.types import Array, IntArray
from squeak.data import Preprocessing, RowSource, by_blocks
from squeak.learners import leaf_passes
from squeak.learners.blend import KernelBlend, kept_back
from squeak.learners.classes import check_classes
from squeak.learners.classifier import KernelClassifier
from squeak.learners.data import ArrayTraining, SourceTraining
from squeak.learners.descent import KernelGradientDescent
from squeak.learners.expansion import Expansion, ExpansionsPiece
from squeak.learners.formula import Answers, Classes, Experts, Function, Numbers
from squeak.learners.leaf_passes import Sample, bounded, dense, sampled
from squeak.learners.leaves import Slopes, Task, fitted, scores_of, shared, with_width
from squeak.learners.metric import check_tunable
from squeak.learners.odds import LeafOdds, OddsKnown
from squeak.learners.regions import REGION_SAMPLE, HeldOut, Regions, grafted, region_rows
from squeak.learners.ridge import KernelRidge
from squeak.learners.rows import RowLearner, all_or_nothing
from squeak.learners.splits import SplitTree, grown
from squeak.learners.told import TOLD, ErrorsKnown, ExpertErrors, Told, said, some_rows, told_by


@parameters
class LocalExperts(ErrorsKnown, OddsKnown, RowLearner):
    """One model for each part of the space, blended where parts meet: for rough functions of many rows.

    The rows are split at the median along the direction in which a small model of them changes most, the first
    eigenvector of G = (1/n) Σ ∇f ∇fᵀ. Each side is split again, until no part has more than ``leaf_rows`` rows. Of
    the rows, those nearest to the median (a part of ``margin``) belong to both sides. A copy of ``estimator`` is
    fitted to each part. In a margin the two models are blended linearly, f = (1 − w(x))·f_left + w(x)·f_right, so
    that the prediction has no jumps. Parts are fitted on all threads, or on the workers of an active Dask cluster.

    Parameters
    ----------
    estimator : KernelRidge, KernelRidgeCV, KernelBlend, KernelGradientDescent or KernelClassifier
        The model of which each part gets a copy. The default is a :class:`KernelBlend`.
    leaf_rows : int
        The largest number of rows of a part.
    margin : float
        The part of a node's rows that both of its sides get, from 0 to 0.5.
    split_kernel : kernel, optional
        The kernel of the small model that tells where to split. The default is ``RBF("learned")``.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.

    Attributes
    ----------
    tree_ : SplitTree
    experts_ : list of lists
        For every leaf of the tree the kernel functions that its model is the sum of.
    classes_ : array
        Of classifiers.
    knows_errors_ : bool
        Whether there are standard deviations and intervals.

    Notes
    -----
    With parts of a fixed size, time and memory grow with n·log n. A part of a classifier that holds one class only
    gives that class the score 1 and others −1. Probabilities go by Laplace's rule there: n rows of one class give
    it odds of n + 1 to 1 against each other one.

    References
    ----------
    Beaglehole, Holzmüller, Radhakrishnan and Belkin, "xRFM: Accurate, scalable, and interpretable feature learning
    models for tabular data" (2025), for splits along the first eigenvector of G.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import KernelRidge, LocalExperts
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (2000, 2))
    >>> y = np.sin(8 * X[:, 0])
    >>> one = KernelRidge(RBF(0.5), 1e-3, max_atoms=100, random_state=0)
    >>> bool(one.fit(X, y).score(X, y) > 0.5)
    False
    >>> local = LocalExperts(one, leaf_rows=600, random_state=0).fit(X, y)
    >>> local.tree_.n_leaves, bool(local.score(X, y) > 0.99)
    (8, True)
    """

    kind: ClassVar[str] = "local-experts"
    _foundation: ClassVar[Layout] = {"preprocessing_": NestedPiece(Preprocessing, optional=True)}
    _state: ClassVar[Layout] = {
        "tree_": NestedPiece(SplitTree),
        "_flat": ExpansionsPiece(),
        "_owners": state.wholes("parts"),
        "dimensions_": state.whole(low=1, high=2),
        "logistic_": state.flag(),
        "classes_": LabelsPiece("classes_dtype", optional=True),
        "_errors": NestedPiece(ExpertErrors, optional=True),
        "_odds": NestedPiece(LeafOdds, optional=True),
    }

    estimator: Any = field(default=None, kw_only=False)
    leaf_rows: int = 4000
    margin: float = 0.1
    split_kernel: Any = None
    tree_: SplitTree = field(init=False)
    experts_: list[list[Expansion]] = field(init=False)
    logistic_: bool = field(init=False)
    classes_: Any = field(init=False)
    dimensions_: int = field(init=False)
    back_values_: Array = field(init=False)
    preprocessing_: Preprocessing | None = field(init=False, default=None)
    _told: Told | ExpertErrors | None = field(init=False, default=None)
    _odds: LeafOdds | None = field(init=False, default=None)

    @all_or_nothing
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, back: Any = None, groups: Any = None
    ) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, table, or row source
            The rows of a source are gathered in memory up to 4 GB of them. Of more, a sample of 50,000 splits the
            space into regions, and the rows of as many regions as memory holds are read in each pass. On a cluster,
            rows that this program does not hold already stay with the workers, if there are more than 50,000: each
            task reads the rows of its region, and only the experts come back.
        y : array of shape (n,) or, for a regression, (n, outputs)
        sample_weight : array of shape (n,), optional
        back : array of bool of shape (n,), optional
            For a :class:`KernelBlend`: the rows that are held out while kernels are chosen; not for more rows than
            are gathered.
        groups : array of int of shape (d,), optional
            For a :class:`KernelBlend`: columns with one number share a width.

        Returns
        -------
        self
        """
        check_whole("leaf_rows", self.leaf_rows, low=10)
        check_between("margin", self.margin, 0.0, 0.5)
        estimator = KernelBlend() if self.estimator is None else self.estimator
        if not isinstance(estimator, KernelBlend | KernelRidge | KernelGradientDescent | KernelClassifier):
            raise TypeError(f"{estimator!r} cannot be an expert: use KernelRidge, KernelBlend or KernelClassifier")
        kernel = RBF("learned") if self.split_kernel is None else self.split_kernel
        check_tunable(kernel)
        if not isinstance(estimator, KernelBlend) and (back is not None or groups is not None):
            raise TypeError("back and groups go with a KernelBlend")
        self.logistic_ = getattr(estimator, "loss", "squared") == "logistic"
        classes, seed = isinstance(estimator, KernelClassifier), draw_seed(self.random_state)
        source, data = self._opened(X, y, sample_weight, classes, seed, back)
        beside = {} if groups is None else {"groups": groups}
        if isinstance(data, Sample):
            if not (back is None or isinstance(back, HeldOut)):
                raise TypeError("back goes with rows that memory holds: this source has more of them")
            self._fit_regions(source, data, estimator, kernel, seed, back, beside)
            return self
        back = kept_back(back, data.y if y is None else y, sample_weight)
        slopes, leaves = self._split(data, kernel, seed, self.leaf_rows)
        given = {} if back is None else {"back": back}
        told = None if classes else some_rows(len(slopes.X), seed)
        tasks = [
            Task(with_width(estimator, data.X, rows), data, given, beside, rows, self._labels, seed, leaf, told)
            for leaf, rows in enumerate(leaves)
        ]
        with place() as here, progress("local experts", "experts", len(tasks), Job.now is not None) as bar:

            def one(task: Task) -> Any:
                expert = fitted(task)
                bar.update(1)
                return expert

            found = here.map_ordered(fitted if here.remote else one, tasks)
        self.experts_ = [one.expert for one in found]
        self._odds = LeafOdds.of([one.odds for one in found])
        if not classes:
            values, shares = said(self.tree_, slopes.X, found, leaves)
            self._told = told_by(data, values, shares, seed)
            if isinstance(estimator, KernelBlend):
                self.back_values_ = values
        return self

    def _split(self, data: ArrayTraining, kernel: Any, seed: int, leaf_rows: int) -> tuple[Slopes, list[IntArray]]:
        """Set the tree, and return the slopes that it is of and the rows of every leaf."""
        slopes = Slopes.of(data, self._labels, kernel, seed)
        with engine.single_blas():  # as in threads: the bits of BLAS's own threads depend on their number
            self.tree_, leaves = grown(slopes.X, slopes.directions, leaf_rows, self.margin)
        return slopes, leaves

    def _fit_regions(
        self, data: SourceTraining, found: Sample, estimator: Any, kernel: Any, seed: int, back: Any, beside: Any
    ) -> None:
        """Split the space by a sample of the rows; those of a region are read where its experts are fitted."""
        few, part = found.rows, len(found.numbers) / found.n_all
        most = max(REGION_SAMPLE, round(region_rows(found.n_all, few.X.shape[1], self.leaf_rows) * part))
        _, leaves = self._split(few, kernel, seed, most)
        sizes = np.array([len(rows) for rows in leaves]) / part * few.X[0].nbytes
        told = back
        if back is None and self._labels is None:
            most = len(found.numbers) if isinstance(estimator, KernelBlend) else TOLD
            told = HeldOut(seed, None, np.sort(found.numbers)[:most])
        how = (estimator, kernel, self.leaf_rows, self.margin, self._labels, seed, beside, told)
        regions = Regions(data, self.tree_, *how).all(sizes)
        self.tree_ = grafted(self.tree_, [region.tree for region in regions])
        self.experts_ = [expert for region in regions for expert in region.experts]
        self._odds = LeafOdds.of([odds for region in regions for odds in region.odds])
        if back is not None:
            self.back_values_ = back.told_of(regions)
        elif told is not None:
            rows = np.flatnonzero(found.numbers <= told.told[-1])
            values = told.told_of(regions)[np.searchsorted(told.told, found.numbers[rows])]
            shares = 1.0 - np.isnan(values).any(axis=1)
            self._told = told_by(ArrayTraining(few.X[rows], few.y[rows]), values, shares, seed)

    def _set_classes(self, values: Any) -> None:
        check_labels(values)
        self.classes_ = np.unique(values)
        check_classes(self.classes_)

    def _opened(
        self, X: Any, y: Any, sample_weight: Any, classes: bool, seed: int, back: Any
    ) -> tuple[Any, ArrayTraining | Sample]:
        """Return the source, if it is one, and checked rows in memory, or a sample of more; set what they tell.

        ``back``: if it tells rows of a source by their places, these are not gathered, however few they are.
        """
        for name in ("classes_", "back_values_"):
            self.__dict__.pop(name, None)
        self.preprocessing_, self._told, self._odds = None, None, None
        source: SourceTraining | None = None
        data: ArrayTraining | Sample
        if isinstance(X, SourceTraining):
            source = X
        elif isinstance(X, RowSource):
            source = self._source(X, y, sample_weight, numeric=not classes)
        if source is not None:
            self.preprocessing_ = source.source.preprocessing
            draw = sampled if isinstance(back, HeldOut) else bounded
            data = draw(source, leaf_passes.SAMPLE_ROWS, seed, classes)
        else:
            data = self._array(
                X, y, sample_weight, **({} if classes else {"multi_output": True, "y_numeric": True})
            )
            dense(data.X)
        rows = data.rows if isinstance(data, Sample) else data
        if classes:
            self._set_classes(data.values if isinstance(data, Sample) else data.y)
        self.dimensions_ = rows.y.ndim
        return source, data

    @property
    def _labels(self) -> Any:
        """The classes; None of a regression, which has no ``classes_``."""
        return getattr(self, "classes_", None)

    @property
    def _flat(self) -> list[Expansion]:
        return [one for expert in self.experts_ for one in expert]

    @property
    def _owners(self) -> IntArray:
        return np.repeat(np.arange(len(self.experts_)), [len(expert) for expert in self.experts_])

    def _restore(self, found: dict[str, Any]) -> None:
        owners, flat, leaves = found["_owners"], found["_flat"], self.tree_.n_leaves
        outputs = {one.coef.shape[1] for one in flat}
        if len(owners) != len(flat) or not np.array_equal(np.unique(owners), np.arange(leaves)) or len(outputs) > 1:
            raise ValueError("the experts do not fit the tree")
        if any(one.atoms.shape[1] != self.tree_.columns for one in flat):
            raise ValueError("the experts' atoms do not fit the tree")
        self.experts_ = [
            [one for one, owner in zip(flat, owners, strict=True) if owner == leaf] for leaf in range(leaves)
        ]
        if self._labels is not None and outputs != {scores_of(self.classes_)}:
            raise ValueError("the experts do not fit the classes")
        self.preprocessing_, self._told = found["preprocessing_"], found["_errors"]
        if found["_errors"] is not None and not found["_errors"].fits(self.tree_.columns, *outputs):
            raise ValueError("the errors do not fit the experts")
        self._odds = found["_odds"]
        if self._odds is not None and (self._labels is None or not self._odds.fits(leaves, *outputs)):
            raise ValueError("the log odds do not fit the experts")

    def _width(self) -> int | None:
        return self.tree_.columns

    @property
    def kernel_(self) -> Any:
        """The kernel of the first expert."""
        return self.experts_[0][0].kernel

    def _values(self, X: Any) -> Array:
        return shared(self.tree_, self.experts_, np.asarray(X, dtype=np.float64))

    def _functions(self) -> Sequence[Function]:
        return [Experts(self.tree_, self.experts_ if self._odds is None else self._odds.beside(self.experts_))]

    def _answers(self) -> Answers:
        if self._labels is None:
            return Numbers(self.dimensions_ == 1)
        known = self.logistic_ or self._odds is not None
        return Classes(self.classes_, 1.0 if known else None, beside=self._odds is not None)

    @by_blocks
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return f(x), or the class, of every row: the class with the largest score.

        Parameters
        ----------
        X : array, table, or row source
        return_std : bool
            Of a regression, return the standard deviation of a new target as well, in its units.

        Returns
        -------
        mean : array of shape (n,) or (n, outputs)
        std : array of the same shape
            Where it was asked for.
        """
        rows = self._rows_for(X)
        values = self._values(rows)
        if self._labels is not None:
            if return_std:
                raise ValueError("return_std is for regression; these are classes")
            return self.classes_[
                (values[:, 0] > 0).astype(np.intp) if values.shape[1] == 1 else values.argmax(axis=1)
            ]
        return (self._shaped(values), self._shaped(self._known().std(rows))) if return_std else self._shaped(values)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R², or the accuracy of classes.

        Parameters
        ----------
        X : array, table, or row source
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
        """
        measure = r2_score if self._labels is None else accuracy_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "experts_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        estimator = KernelBlend() if self._labels is None else KernelClassifier()  # files do not hold the estimator
        theirs = get_tags(estimator if self.estimator is None else self.estimator)
        tags.estimator_type, tags.classifier_tags = theirs.estimator_type, theirs.classifier_tags
        tags.regressor_tags, tags.target_tags = theirs.regressor_tags, theirs.target_tags
        return tags
