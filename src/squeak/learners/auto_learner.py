"""What the automatic learners share: rows of any table become numbers, and a model is composed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import column_or_1d

from squeak.core import state
from squeak.core.advice import InputError
from squeak.core.checks import check_flag, check_positive, check_whole, is_missing
from squeak.core.constructors import parameters
from squeak.core.places import elsewhere
from squeak.core.progress import Job
from squeak.core.rows import refuse_hidden
from squeak.core.saved import Given, Layout, NestedPiece, Parts
from squeak.core.seeds import draw_seed
from squeak.core.types import Array, Rows
from squeak.data import Block, Preprocessing, RowSource, rows
from squeak.data.pieces import as_table
from squeak.learners.blend import ATOMS
from squeak.learners.composed import Composed, compose
from squeak.learners.data import SourceTraining, as_numbers, check_finite
from squeak.learners.expansion import Expansion, ExpansionsPiece, total
from squeak.learners.fold import Beyond, Problem, leaf_of
from squeak.learners.formula import Answers, Experts, Function, Numbers
from squeak.learners.grown import Trees
from squeak.learners.leaf_passes import MOST_BYTES, Sample, bounded, enough_rows
from squeak.learners.leaves import shared
from squeak.learners.rows import RowLearner
from squeak.learners.splits import SplitTree
from squeak.learners.tried import Search
from squeak.learners.warning import warn_if_unscaled


@dataclass(frozen=True)
class SearchPiece:
    """What was tried, or words about it, in a file: a list of dicts of plain values, or of texts.

    Parameters
    ----------
    form : type
        Of the entries: dict or str.
    """

    form: type = dict

    def take(self, name: str, value: Any) -> Parts:
        """Return the list as JSON data, which has no NaN; without times, so that equal models give equal files."""
        if self.form is str:
            return {}, {name: value}
        return {}, {name: [{k: None if v != v or k == "seconds" else v for k, v in one.items()} for one in value]}

    def give(self, name: str, given: Given) -> Any:
        """Return the list; files of before have none."""
        found = given.content.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, self.form) for one in found):
            raise ValueError("what it tells of the search is damaged")
        if self.form is str:
            return found
        if not all(isinstance(v, str | int | float | None) for one in found for v in one.values()):
            raise ValueError("what it tells of the search is damaged")
        return [{k: np.nan if v is None else v for k, v in one.items()} for one in found]


@dataclass(frozen=True)
class Table:
    """Rows in memory as numbers, all of them or a sample, their targets and weights, and the seed of the fit."""

    X: Array
    y: Any
    weight: Any
    seed: int
    classes: Any
    """The distinct targets of all rows, where they are classes."""
    beyond: Beyond | None
    """All rows, where those in memory are a sample."""

    def coded(self, coding: Any) -> Table:
        """Return the rows with targets beyond them as columns of numbers."""
        if self.beyond is None:
            return self
        data = replace(self.beyond.data, encode=coding)
        return replace(self, beyond=replace(self.beyond, data=data))


@parameters
class AutoLearner(RowLearner):
    """Base of the automatic learners: rows of any table become numbers, and the model is composed."""

    _foundation: ClassVar[Layout] = {"preprocessing_": NestedPiece(Preprocessing, optional=True)}
    _state: ClassVar[Layout] = {
        "tree_": NestedPiece(SplitTree),
        "_flat": ExpansionsPiece(),
        "_owners": state.wholes("parts"),
        "spread_": ExpansionsPiece(),
        "scores_": state.numbers("scores", "outputs"),
        "relevance_": state.numbers("columns", low=0.0, high=1.0),
        "dimensions_": state.whole(low=1, high=2),
        "search_": SearchPiece(),
        "limits_": SearchPiece(str),
        "trees_": NestedPiece(Trees, optional=True),
    }

    _for_text: ClassVar[str] = "a table, such as pandas.DataFrame(X), may have columns of text"

    time_budget: float | None = None
    max_atoms: int | None = None
    leaf_rows: int | None = None
    trees: bool = True
    folds: int | None = None
    verbose: int = 0
    tree_: SplitTree = field(init=False)
    experts_: list[list[Expansion]] = field(init=False)
    everywhere_: list[Expansion] = field(init=False)
    trees_: Trees | None = field(init=False)
    spread_: list[Expansion] = field(init=False)
    scores_: Array = field(init=False)
    relevance_: Array = field(init=False)
    dimensions_: int = field(init=False)
    search_: list[dict[str, Any]] = field(init=False)
    limits_: list[str] = field(init=False)
    preprocessing_: Preprocessing | None = field(init=False, default=None)

    def _check(self) -> None:
        if self.max_atoms is not None:
            check_whole("max_atoms", self.max_atoms)
        if self.leaf_rows is not None:
            check_whole("leaf_rows", self.leaf_rows, low=100)
        check_flag("trees", self.trees)
        if self.folds is not None:
            check_whole("folds", self.folds)
        if self.time_budget is not None:
            check_positive("time_budget", self.time_budget)

    def _numbers(self, X: Any, y: Any, weight: Any, classes: bool) -> Table:
        """Return rows in memory; of more, or of those that stay with workers, a sample, and with it all rows.

        Set what turns other rows into numbers.
        """
        if isinstance(X, RowSource):
            source, targets = self._source(X, y, weight, numeric=not classes), None
        else:
            opened, targets = self._opened(X, y, weight)
            source = SourceTraining(opened, None if classes else as_numbers, elsewhere())
        self.preprocessing_ = source.source.preprocessing
        seed = draw_seed(self.random_state)
        found = bounded(source, enough_rows(self.max_atoms or ATOMS), seed, classes)
        beyond, values = None, None
        if isinstance(found, Sample):
            if weight is not None:
                raise InputError(
                    f"the rows take more than {MOST_BYTES / 2**30:g} GB as numbers, and weights go with rows that "
                    "memory holds",
                    "leave sample_weight out",
                )
            beyond, values = Beyond(source, found.n_all, found.numbers, seed), found.values
            found, targets = found.rows, None
        rows, targets = found.X, found.y if targets is None else targets
        if isinstance(X, RowSource):
            warn_if_unscaled(rows, X)
        if not classes:
            targets = as_numbers(targets)
            check_finite(targets, "y")
        if weight is not None:
            weight = np.asarray(weight, dtype=np.float64)
            some = np.flatnonzero(weight)
            rows, targets, weight = rows[some], targets[some], weight[some] / weight[some].mean()
        if classes and values is None:
            values = np.unique(targets)
        return Table(rows, targets, weight, seed, values, beyond)

    def _opened(self, X: Any, y: Any, weight: Any) -> tuple[RowSource, Any]:
        """Return rows in memory as a source, scaled and encoded as suits learned widths, and y as an array."""
        table = as_table(X)
        if table is None:
            refuse_hidden(X)
        for values, name in ((y, "y"), (weight, "sample_weight")):
            refuse_hidden(values, name)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: give y, or a source with a target")
        given = np.asarray(y)
        gaps = [is_missing(one) for one in given.ravel()] if given.dtype == object else []
        if True in gaps:
            row = gaps.index(True) * len(given) // given.size
            raise ValueError(f"row {row} of y is missing: drop rows without a target first")
        numeric = not isinstance(self, ClassifierMixin)
        if table is None:
            if numeric and np.asarray(y).dtype.kind in "OUS":
                y = as_numbers(y)
            checks: Any = {"multi_output": numeric, "y_numeric": numeric, "ensure_all_finite": "allow-nan"}
            X, y = self._validated(X, y, **checks)
        else:
            self.feature_names_in_ = np.array(table.column_names, dtype=object)
            self.n_features_in_ = len(table.column_names)
            y = as_numbers(y) if numeric else column_or_1d(y, warn=True)
        y = np.asarray(y)
        check_finite(y, "y")
        n = table.num_rows if table is not None else len(X)
        if not n:
            raise ValueError("there are no rows")
        if y.shape[:1] != (n,):
            raise ValueError(f"there are {n:,} rows, and y has the shape {y.shape}")
        if weight is not None:
            check_finite(weight, "sample_weight")
            weight = np.asarray(weight, dtype=np.float64)
            if weight.shape != (n,) or (weight < 0).any() or not weight.sum() > 0:
                raise ValueError("sample_weight must have a number from 0 on for every row, and not only zeros")
        how: Any = {"scale": "robust", "missing": "median", "learn_rows": n, "max_categories": 10_000}
        categories = "auto" if y.size == n else "onehot"  # several targets would give each value several means
        return rows(X, target=y, categories=categories, **how), y

    def _compose(self, table: Table, y: Array) -> Composed:
        """Choose and fit the model of targets as columns; set all but what belongs to the kind of target."""
        search, groups = Search(self.time_budget), self._groups()
        n = len(table.X) if table.beyond is None else table.beyond.n
        problem = Problem(
            table.X,
            y,
            table.weight,
            groups,
            isinstance(self, ClassifierMixin),
            self.trees,
            self.max_atoms,
            leaf_of(n, self.leaf_rows),
            self.folds,
            table.beyond,
        )
        found = compose(problem, table.seed, search, Job.current())
        self.tree_, self.experts_, self.everywhere_ = found.tree, found.experts, found.everywhere
        self.trees_ = found.trees
        self.spread_, self.scores_ = [found.spread], found.scores
        slopes = found.slopes if groups is None else np.bincount(groups, found.slopes)
        self.relevance_ = np.asarray(slopes / (slopes.sum() or 1.0))
        self.search_ = [vars(stage) for stage in search.stages]
        self.limits_ = search.limits
        return found

    def _groups(self) -> Any:
        """Return for every number of a row which of the user's columns it comes from."""
        if self.preprocessing_ is None:
            return None
        sizes = [span.stop - span.start for _, span in self.preprocessing_.spans()]
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def _flat(self) -> list[Expansion]:
        return [*self.everywhere_, *(one for expert in self.experts_ for one in expert)]

    @property
    def _owners(self) -> Any:
        sizes = [len(self.everywhere_), *(len(expert) for expert in self.experts_)]
        return np.repeat(np.arange(len(sizes)), sizes)

    def _restore(self, found: dict[str, Any]) -> None:
        owners, flat, leaves = found["_owners"], found["_flat"], self.tree_.n_leaves
        parts = [*flat, *found["spread_"]]
        outputs = {one.coef.shape[1] for one in parts} | {self.scores_.shape[1]}
        fits = len(owners) == len(flat) and owners.max() <= leaves and len(found["spread_"]) == len(outputs) == 1
        if not fits or not len(self.scores_):
            raise ValueError("the parts of the model do not fit each other")
        if any(one.atoms.shape[1] != self.tree_.columns for one in parts):
            raise ValueError("the atoms do not have the columns of the tree")
        self.trees_ = found["trees_"]
        if self.trees_ is not None and (
            self.trees_.columns != self.tree_.columns or {len(self.trees_.scale)} != outputs
        ):
            raise ValueError("the boosted trees do not fit the rest of the model")
        listed = [
            [one for one, owner in zip(flat, owners, strict=True) if owner == leaf] for leaf in range(leaves + 1)
        ]
        self.everywhere_, self.experts_ = listed[0], listed[1:]
        if any(self.experts_) and not all(self.experts_):
            raise ValueError("a part of the space has no expert")
        self.preprocessing_ = made = found["preprocessing_"]
        if made is not None and made.n_features != self.tree_.columns:
            raise ValueError("the preprocessing does not make the columns of the tree")
        if len(self.relevance_) != (self.tree_.columns if made is None else len(made.columns)):
            raise ValueError("the columns' relevance does not fit the columns")

    def _width(self) -> int | None:
        return self.tree_.columns

    @property
    def kernel_(self) -> Any:
        """The kernel of the first part of the model."""
        return self._flat[0].kernel

    def _rows_for(self, X: Any) -> Rows:
        if not isinstance(X, Block | RowSource) and self.__sklearn_is_fitted__() and as_table(X) is None:
            refuse_hidden(X)
            X = self._validated(X, "no_validation", reset=False, ensure_all_finite="allow-nan")
        return super()._rows_for(X)

    def _values(self, X: Any) -> Array:
        X = np.asarray(X, dtype=np.float64)
        out = np.zeros((len(X), self.scores_.shape[1]))
        if self.everywhere_:
            out += total(self.everywhere_, X)
        if any(self.experts_):
            out += shared(self.tree_, self.experts_, X)
        if self.trees_ is not None:
            out += self.trees_.values(X)
        return out

    def _functions(self) -> Sequence[Function]:
        experts = [Experts(self.tree_, self.experts_)] if any(self.experts_) else []
        return [*self.everywhere_, *experts, *([] if self.trees_ is None else [self.trees_])]

    def _answers(self) -> Answers:
        return Numbers(self.dimensions_ == 1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "tree_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = True
        return tags
