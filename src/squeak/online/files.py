"""Online estimators as files: parameters, kernel, preprocessing, and the whole state of the stream."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from squeak.core import state, storage
from squeak.core.described import estimator_from, params_to_data, restored_kernel, stored_kernel
from squeak.core.estimator import Estimator
from squeak.core.kernels.registry import check_stored
from squeak.core.rows import n_rows, rows_from_arrays, rows_to_arrays, width_of
from squeak.core.saved import LabelsPiece, Layout, Parts, Saved, put_together, take_apart
from squeak.core.types import Rows
from squeak.online.drift import LossWatch
from squeak.online.scaling import ScaledStream
from squeak.online.stream import Learner, Stream
from squeak.samplers.base import own_kernel
from squeak.samplers.dictionary import preprocessing_from_parts, preprocessing_parts


class InFiles(Saved, Estimator):
    """The part of an online estimator that files know of: it goes on in the same bits after it was loaded."""

    kind: ClassVar[str] = "online"
    kernel: Any
    _stream: Stream
    _head: Rows

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> Learner:
        raise self._abstract()

    def _abstract(self) -> TypeError:
        return TypeError(f"{type(self).__name__} is abstract: use ConKonsRegressor or another of squeak.online")

    def _own_kernel(self) -> Any:
        """Return the user's kernel as a copy, or the default."""
        return own_kernel(self.kernel)

    def _take_parts(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take what a file holds beside the stream, or raise what does not fit."""

    def _watch(self) -> LossWatch | None:
        """Return what watches the losses for drift, where that was asked for."""
        return None

    def _check_parameters(self) -> None:
        """Raise one clear error for a parameter that makes no sense."""

    def _check_stored(self, arrays: dict[str, Any], n_outputs: int) -> None:
        """Refuse the arrays of a file that belong to a model of another size, before one of that size is made."""

    @classmethod
    def load(cls, path: str | os.PathLike[str], kernel: Any = None) -> Any:
        """Read an estimator that was saved at any point of its stream.

        Parameters
        ----------
        path : path
        kernel : kernel, optional
            Needed only for a kernel that is code.

        Returns
        -------
        estimator
        """
        found = storage.load(InFiles, path, kernel)
        if not isinstance(found, cls):
            raise TypeError(f"{os.fspath(path)} holds a {type(found).__name__}, not a {cls.__name__}")
        return found

    def to_parts(self) -> Parts:
        """Return the parts for a file; see :meth:`squeak.Dictionary.to_parts`."""
        check_is_fitted(self, "_stream", msg="%(name)s has learned no row yet: there is nothing to save")
        stream = self._stream
        arrays, content = stream.to_parts()
        encoding, described = preprocessing_parts(stream.preprocessing)
        labels, classes = take_apart(self, LABELS) if is_classifier(self) else ({}, {})
        return {**arrays, **encoding, **labels, **rows_to_arrays(self._head, "head_")}, {
            "estimator": type(self).__name__,
            "params": params_to_data(self),
            "stream": content,
            "outputs": stream.n_outputs,
            "resolved": None if stream.resolved is None else stored_kernel(stream.resolved),
            "names": list(map(str, getattr(self, "feature_names_in_", []))),
            "preprocessing": described,
            **classes,
            "named": getattr(self, "_named", False),
        }

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
        """Return the estimator that :meth:`to_parts` took apart, ready for more rows."""
        from squeak import online

        name = content["estimator"]
        found = getattr(online, str(name), None) if name in online.__all__ else None
        if not (isinstance(found, type) and issubclass(found, InFiles)):
            raise ValueError(f"no online estimator is known by the name {name!r}")
        before = {
            "scale": None,
            "half_lives": [None],
            "linear": False,
        }  # older versions took columns as they were, did not forget, and had no linear expert
        known = found().get_params(deep=False)
        params = {name: value for name, value in before.items() if name in known} | content["params"]
        model: Any = estimator_from(found, params, kernel)
        model.set_params(**{name: tuple(value) for name, value in params.items() if isinstance(value, list)})
        model._check_parameters()
        expected = 1
        if is_classifier(model):
            model.classes_ = put_together(LABELS, arrays, content)["classes_"]
            model._named, expected = content.get("named") is True, max(len(model.classes_), 2)
        outputs = state.checked({"outputs": state.whole(low=1)}, {}, content)["outputs"]
        if outputs != (1 if expected == 2 else expected):
            raise ValueError("the outputs do not fit the classes")
        head = rows_from_arrays(arrays, "head_")
        if n_rows(head) != 1:
            raise ValueError("the first row is damaged")
        preprocessing = preprocessing_from_parts(arrays, content)
        if preprocessing is not None and preprocessing.n_features != width_of(head):
            raise ValueError("the preprocessing does not fit the rows")
        resolved = content["resolved"]
        if resolved is not None:
            resolved = restored_kernel(resolved, kernel if resolved["kernel"] is None else None)
            check_stored(resolved, head)
        if content["stream"]["learner"] is not None:
            model._check_stored(arrays, outputs)
        kind_of = ScaledStream if content["stream"].get("scaled") is True else Stream
        stream = kind_of(model._build, model._own_kernel(), outputs, 0, preprocessing, model._watch())
        stream.restore(arrays, content["stream"], resolved, head)
        model._head, model._stream = head, stream
        if width_of(head) is not None:
            model.n_features_in_ = width_of(head)
        names = content["names"]
        if names:
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError("the names of its columns are damaged")
            model.feature_names_in_ = np.array(names, dtype=object)
        model._take_parts(arrays, content)
        return model


LABELS: Layout = {"classes_": LabelsPiece("classes_type", least=1)}
