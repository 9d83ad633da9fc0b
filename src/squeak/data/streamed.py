"""Answers to the rows of a source, block by block: what models that predict, decide or transform share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from squeak.data.blocks import Block
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
        found = [method(self, block, *args, **kwargs) for block in _blocks(self, X)]
        if isinstance(found[0], tuple):
            return tuple(np.concatenate(answers) for answers in zip(*found, strict=True))
        return np.concatenate(found)

    return cast(Method, answered)


def _answers(model: Any, method: str, source: Any, options: dict[str, Any]) -> Iterator[Any]:
    if not isinstance(source, RowSource):
        raise TypeError(f"{method}_blocks takes a row source, squeak.rows(...); {method} takes rows in memory")
    answer, blocks = getattr(model, method), _blocks(model, source)
    return (answer(block, **options) for block in blocks)


def _blocks(model: Any, source: RowSource) -> Iterator[Block]:
    """Return the blocks of a source that was preprocessed as the rows of the fit were."""
    check_is_fitted(model)
    source.check_preprocessed(model.preprocessing_, "those of the fit", "model.preprocessing_")
    return source.blocks()
