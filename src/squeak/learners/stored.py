"""Fitted learners as arrays and JSON data: what they stand on, what was solved for, and the plain parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from squeak.core import state, storage
from squeak.core.estimator import Estimator
from squeak.core.kernels.registry import kernel_from_data, kernel_to_data
from squeak.core.rows import width_of
from squeak.core.saved import Layout, NestedPiece, fill, put_together, take_apart
from squeak.data import Preprocessing
from squeak.learners.expansion import Expansion
from squeak.learners.formula import Answers, Function, Numbers
from squeak.samplers.base import Sampler
from squeak.samplers.dictionary import Dictionary

STORED = (bool, int, float, str, list)
CURVES = ("residuals_", "validation_errors_")
"""What a solver records of its way, kept for reports; the last values where there are very many."""

MOST_VALUES = 10_000

OWN = "own"
"""Stands for a dictionary that was given: the file holds it as what the learner stands on."""


class StoredLearner(Estimator):
    """Gives a learner ``to_parts`` and ``from_parts``, by the table of its state.

    The table is one of :mod:`squeak.core.saved`. A learner that holds its state in another form makes it in
    ``_restore``.
    """

    _state: ClassVar[Layout] = {}
    _foundation: ClassVar[Layout] = {"dictionary_": NestedPiece(Dictionary, size="m")}
    """What the learner stands on, with the lengths that its state must fit."""
    _columns_part: ClassVar[str] = "n_features"
    """What the number of columns is called in a file."""
    dictionary_: Dictionary
    dual_coef_: Any
    kernel: Any

    @property
    def kernel_(self) -> Any:
        """The kernel with every width a number."""
        return self.dictionary_.kernel

    @property
    def preprocessing_(self) -> Preprocessing | None:
        """What turns the user's columns into rows, where a row source brought it; else None."""
        return self.dictionary_.preprocessing

    def _width(self) -> int | None:
        """Return how many columns the kernel's rows have; None for objects."""
        return width_of(self.dictionary_.atoms)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted learner to a ``.sqk`` file: data only; :func:`squeak.load` reads it.

        Parameters
        ----------
        path : path
        """
        check_is_fitted(self)
        storage.save(self, path)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted learner to an ONNX file, which runtimes of many languages run without squeak.

        The file takes the user's columns. Its outputs have the names of the methods whose answers they are:
        ``predict`` (with ``decision_function`` and ``predict_proba`` for classes) and ``transform``. It computes in
        float64, a block of rows at a time, so that memory does not grow with rows times atoms.

        If the learner was fitted on named columns of a row source or a table, each of them is an input of shape
        (n, 1). Numbers are float64, with NaN for a gap. Dates are days since 1970, times of day are hours, and
        durations are seconds. Categories are text, with an empty text for a gap. Otherwise the only input is ``X``,
        of shape (n, columns). For a row that squeak would refuse, numbers come out as NaN.

        Needs the extra ``onnx``.

        Parameters
        ----------
        path : path
            The folder must exist; an older file of that name is replaced.

        Raises
        ------
        TypeError
            A part cannot be exported: a kernel that is code, or rows that are objects. The message names it.

        References
        ----------
        Open Neural Network Exchange, onnx.ai; how to run such a file: docs/howto/deploy.md.

        Examples
        --------
        >>> import numpy as np, squeak, tempfile
        >>> import onnxruntime
        >>> X = np.random.default_rng(0).random((300, 2))
        >>> model = squeak.KernelRidge(max_atoms=20, random_state=0).fit(X, X[:, 0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.to_onnx(folder + "/model.onnx")
        ...     session = onnxruntime.InferenceSession(folder + "/model.onnx")
        >>> (answers,) = session.run(["predict"], {"X": X})
        >>> bool(np.allclose(answers, model.predict(X)))
        True
        """
        from squeak.learners.onnx_models import write_onnx

        check_is_fitted(self)
        name = type(self).__name__
        write_onnx(path, name, self._functions(), self._answers(), self.preprocessing_, self._width())

    def _functions(self) -> Sequence[Function]:
        """Return the functions whose sum the learner's values are."""
        if not hasattr(self, "dual_coef_"):
            raise TypeError(f"a {type(self).__name__} cannot be exported to ONNX: it has no coefficients of atoms")
        return [Expansion.of(self)]

    def _answers(self) -> Answers:
        """Return what becomes of the values."""
        return Numbers(self.dual_coef_.ndim == 1)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Take the fitted learner apart, for a file.

        Returns
        -------
        arrays : dict
        content : dict
            The rest, as JSON data.
        """
        arrays, content = take_apart(self, {**self._foundation, **self._state})
        curves = {name: np.asarray(getattr(self, name, ()), dtype=np.float64).ravel() for name in CURVES}
        kept = {f"curve_{name}": values[-MOST_VALUES:] for name, values in curves.items() if values.size}
        params = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        names = getattr(self, "feature_names_in_", None)
        content |= {
            "parameters": {n: value for n, value in params.items() if value is None or isinstance(value, STORED)},
            "objects": _objects_to_data(self),
            self._columns_part: getattr(self, "n_features_in_", None),
            "feature_names": None if names is None else [str(name) for name in names],
        }
        return {**arrays, **kept}, content

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Self:
        """Put a learner together from what :meth:`to_parts` returned; it can do all but read the rows again.

        Parameters
        ----------
        arrays, content : dict
        kernel : kernel, optional
            Needed where the learner's is code; it stands for all kernels that are.

        Returns
        -------
        learner
        """
        model = cls(**state.parameters(cls, content["parameters"]))
        found = put_together({**cls._foundation, **cls._state}, arrays, content, kernel)
        fill(model, found)._restore(found)
        objects = _objects_from_data(content.get("objects", {}))
        if objects.pop("dictionary", None) == OWN:
            objects["dictionary"] = getattr(model, "dictionary_", None)
        model.set_params(**objects)
        model._restore_columns(content[cls._columns_part], content["feature_names"])
        curves = {f"curve_{name}": state.numbers(name, optional=True) for name in CURVES}
        for name, values in state.checked(curves, arrays, {}).items():
            if values is not None:
                setattr(model, name.removeprefix("curve_"), values)
        return model

    def _restore(self, found: dict[str, Any]) -> None:
        """Make what the learner holds of its state in another form, and check what no table says."""
        self.kernel = self.kernel_

    def _restore_columns(self, count: Any, names: Any) -> None:
        """Take back the number of the columns and their names, which must fit the rows or their preprocessing.

        A table may have had more columns than are used. Files of version 0.1 have no names beside a preprocessing,
        and may count the numbers that it makes.
        """
        made = self.preprocessing_
        if count is None and names is None:
            return
        fits = type(count) is int
        if made is None:
            fits &= count == self._width()
        else:
            own = len(made.columns) if made.width is None else made.width
            if names is None:
                fits &= count in (own, made.n_features)
                count = own
            else:
                fits = fits and (count >= own if made.width is None else count == own)
        if names is not None:
            fits = fits and isinstance(names, list) and len(names) == count
            fits = fits and all(isinstance(name, str) for name in names)
            fits = fits and (made is None or made.width is not None or set(made.column_names) <= set(names))
        if not fits:
            raise ValueError("the columns that it names do not fit its rows")
        self.n_features_in_ = count
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)


def _plain(value: Any) -> Any:
    """Return a number or a sequence of numbers as JSON has it, anything else as it is."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple | np.ndarray):
        numbers = np.asarray(value)
        return numbers.tolist() if numbers.ndim == 1 and numbers.dtype.kind in "iuf" else object()
    return value


def _objects_to_data(model: Any) -> dict[str, Any]:
    """Return those parameters that are kernels, samplers or estimators, as JSON data; code is left out."""
    given = model.get_params(deep=False)
    found = {name: _object_to_data(value) for name, value in given.items() if value is not None}
    if given.get("dictionary") is not None:
        found["dictionary"] = OWN
    left_open = {"kernel": None} if "kernel" in given and given["kernel"] is None else {}
    return {name: data for name, data in found.items() if data is not None} | left_open


def _object_to_data(value: Any) -> Any:
    if isinstance(value, list | tuple):
        items = [_object_to_data(item) for item in value]
        return items if items and None not in items else None
    if _known_classes().get(type(value).__name__) is not type(value):
        kernel = kernel_to_data(value) if hasattr(value, "get_params") else None
        return None if kernel is None else {"kernel": kernel}
    params = {name: _plain(inner) for name, inner in value.get_params(deep=False).items()}
    plain = {name: inner for name, inner in params.items() if inner is None or isinstance(inner, STORED)}
    return {"class": type(value).__name__, "parameters": plain, "objects": _objects_to_data(value)}


def _objects_from_data(given: Any, depth: int = 0) -> dict[str, Any]:
    if not isinstance(given, dict) or depth > 4:
        raise ValueError("its parameters are damaged")
    return {
        name: data if data in (OWN, None) else _object_from_data(name, data, depth) for name, data in given.items()
    }


def _object_from_data(name: str, data: Any, depth: int) -> Any:
    """Return a parameter: a kernel, a list of them or a sampler where its name says so, and else an estimator."""
    if name == "kernels":
        if not isinstance(data, list) or not data:
            raise ValueError("its parameter kernels is damaged")
        return [_object_from_data("kernel", item, depth) for item in data]
    if "kernel" in name:
        return kernel_from_data(data["kernel"])
    found = _known_classes().get(data["class"])
    if found is None or not issubclass(found, Sampler if name == "sampler" else StoredLearner):
        raise ValueError(f"its parameter {name} is damaged")
    objects = _objects_from_data(data["objects"], depth + 1)
    given = {inner: value for inner, value in objects.items() if value not in (OWN, None)}
    return found(**state.parameters(found, data["parameters"])).set_params(**given)


def _known_classes() -> dict[str, Any]:
    """Return our samplers and learners by their names."""
    found, open_ = {}, [Sampler, StoredLearner]
    while open_:
        cls: Any = open_.pop()
        open_ += cls.__subclasses__()
        if cls.__module__.startswith("squeak.") and not cls.__name__.startswith("_"):
            found[cls.__name__] = cls
    return found
