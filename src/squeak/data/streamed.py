"""Answers to the rows of a source, block by block: what models that predict, decide or transform share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from squeak.data.blocks import Block
from squeak.data.columns import text_of
from squeak.data.source import RowSource

Method = TypeVar("Method", bound=Callable[..., Any])


class PredictsBlocks:
    """Adds ``predict_blocks`` to a model whose ``predict`` takes a :class:`Block`."""

    def predict_blocks(self, source: RowSource, **options: Any) -> Iterator[Any]:
        """Predict the rows of a source block by block, so that neither they nor the answers are all in memory.

        Parameters
        ----------
        source : row source
            What :func:`squeak.rows` returns, with the preprocessing of the rows that the model was fitted on.
        **options
            What ``predict`` takes beside the rows.

        Returns
        -------
        iterator
            For every block, in the order of the rows, what ``predict`` returns for it.

        Examples
        --------
        >>> import numpy as np, squeak
        >>> X = np.random.default_rng(0).random((100_000, 2))
        >>> model = squeak.KernelRidge(max_atoms=20, random_state=0).fit(X[:500], X[:500, 0])
        >>> [len(answers) for answers in model.predict_blocks(squeak.rows(X))]
        [65536, 34464]
        """
        return _answers(self, "predict", source, options)

    def predict_arrow(
        self,
        source: RowSource,
        *,
        keep: Sequence[str] = (),
        probabilities: bool = False,
        std: bool = False,
        coverage: float | None = None,
    ) -> Any:
        """Predict the rows of a source as an Arrow stream, which databases and data frames take in batch by batch.

        Parameters
        ----------
        source : row source
            What :func:`squeak.rows` returns, with the preprocessing of the rows that the model was fitted on.
        keep : sequence of str
            Columns of the source that come along as they are: the key of a database's table, for one.
        probabilities : bool
            Whether every class has a column ``p(class)`` with its probability.
        std : bool
            Whether there is a column ``std``, as ``predict(..., return_std=True)`` has it.
        coverage : float, optional
            Of intervals: there are columns ``low`` and ``high`` with the bounds of ``predict_interval``.

        Returns
        -------
        pyarrow.RecordBatchReader
            The columns kept, ``row`` where rows may be skipped (its number in the source, from 0), ``prediction``,
            and what else was asked for. Rows are read and predicted as the stream is.

        Notes
        -----
        The first batch is predicted at once. A DuckDB connection reads one result at a time: write predictions
        for the rows of one with another, as ``connection.cursor()`` gives it.

        References
        ----------
        The Arrow PyCapsule interface, arrow.apache.org.

        Examples
        --------
        >>> import pandas as pd, squeak
        >>> table = pd.DataFrame({"id": [7, 8, 9], "x": [0.0, 0.5, 1.0], "y": [1.0, 2.0, 3.0]})
        >>> model = squeak.KernelRidge(max_atoms=3, random_state=0).fit(squeak.rows(table, "y", drop=["id"]))
        >>> stream = model.predict_arrow(squeak.rows(table, preprocessing=model.preprocessing_), keep=["id"])
        >>> stream.read_all().column_names
        ['id', 'prediction']
        """
        import pyarrow as pa

        if isinstance(keep, str):
            raise TypeError(f"keep is a list of column names, not {keep!r}")
        _check_source(self, source, "predict_arrow")
        wanted = (probabilities, std, coverage)
        tables = (_table(self, block, others, source.skip, wanted) for block, others in source.blocks_with(keep))
        first = next(tables)
        batches = (batch for table in chain([first], tables) for batch in table.cast(first.schema).to_batches())
        return pa.RecordBatchReader.from_batches(first.schema, batches)


class DecidesBlocks(PredictsBlocks):
    """Adds the same for the other methods of a classifier."""

    def decision_function_blocks(self, source: RowSource) -> Iterator[Any]:
        """Return the scores of a source's rows block by block; see :meth:`predict_blocks`.

        Parameters
        ----------
        source : row source

        Returns
        -------
        iterator
            For every block what ``decision_function`` returns for it.
        """
        return _answers(self, "decision_function", source, {})

    @available_if(lambda self: hasattr(self, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba_blocks(self, source: RowSource) -> Iterator[Any]:
        """Return the probabilities of a source's rows block by block; see :meth:`predict_blocks`.

        Parameters
        ----------
        source : row source

        Returns
        -------
        iterator
            For every block what ``predict_proba`` returns for it.
        """
        return _answers(self, "predict_proba", source, {})


class TransformsBlocks:
    """Adds ``transform_blocks`` to a model whose ``transform`` takes a :class:`Block`."""

    def transform_blocks(self, source: RowSource) -> Iterator[Any]:
        """Transform the rows of a source block by block, so that they are never all in memory.

        Parameters
        ----------
        source : row source
            What :func:`squeak.rows` returns, with the preprocessing of the rows that the model was fitted on.

        Returns
        -------
        iterator
            For every block, in the order of the rows, what ``transform`` returns for it.

        Examples
        --------
        >>> import numpy as np, squeak
        >>> X = np.random.default_rng(0).random((100_000, 2))
        >>> pca = squeak.KernelPCA(2, max_atoms=20, random_state=0).fit(X[:500])
        >>> [scores.shape for scores in pca.transform_blocks(squeak.rows(X))]
        [(65536, 2), (34464, 2)]
        """
        return _answers(self, "transform", source, {})


def by_blocks(method: Method) -> Method:
    """Make a method that answers a :class:`Block` answer a row source too, with the rows never all in memory.

    ``method``: its first argument is the rows; it returns an array, or several, with an entry for each row.
    """

    @wraps(method)
    def answered(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(X, RowSource):
            return method(self, X, *args, **kwargs)
        _check_source(self, X, method.__name__)
        found = [method(self, block, *args, **kwargs) for block in X.blocks()]
        if isinstance(found[0], tuple):
            return tuple(np.concatenate(answers) for answers in zip(*found, strict=True))
        return np.concatenate(found)

    return cast(Method, answered)


def _answers(model: Any, method: str, source: Any, options: dict[str, Any]) -> Iterator[Any]:
    _check_source(model, source, f"{method}_blocks")
    answer, blocks = getattr(model, method), source.blocks()
    return (answer(block, **options) for block in blocks)


def _check_source(model: Any, source: Any, method: str) -> None:
    """Refuse what is no source, and one that was preprocessed in another way than the rows of the fit."""
    if not isinstance(source, RowSource):
        raise TypeError(f"{method} takes a row source, squeak.rows(...); predict takes rows in memory")
    check_is_fitted(model)
    source.check_preprocessed(model.preprocessing_, "those of the fit", "model.preprocessing_")


def predictions(
    model: Any, block: Block, probabilities: bool = False, std: bool = False, coverage: float | None = None
) -> dict[str, Any]:
    """Return the columns of predictions for a block of rows."""
    if probabilities:
        p = model.predict_proba(block)
        chances = {f"p({text_of(name)})": p[:, place] for place, name in enumerate(model.classes_)}
        return {"prediction": model.predict(block)} | chances
    found = dict(zip(("prediction", "std"), model.predict(block, return_std=True), strict=True)) if std else {}
    found = found or {"prediction": model.predict(block)}
    if coverage is not None:
        found |= dict(zip(("low", "high"), model.predict_interval(block, coverage), strict=True))
    return found


def _table(model: Any, block: Block, others: Any, skip: bool, wanted: tuple[bool, bool, float | None]) -> Any:
    """Return a table of the columns kept and of the predictions for a block."""
    import pyarrow as pa

    columns = {} if others is None else dict(zip(others.column_names, others.columns, strict=True))
    numbers = {"row": block.numbers} if skip else {}
    for name, values in {**numbers, **predictions(model, block, *wanted)}.items():
        if name in columns:
            raise ValueError(f"the column {name!r} that is kept has the name of an answer: give it another")
        if values.ndim > 1:
            columns |= {f"{name}_{place}": values[:, place] for place in range(values.shape[1])}
        else:
            columns[name] = values
    return pa.table(columns)
