"""Online estimators as files: parameters, kernel, preprocessing, and the whole state of the stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core import state
from squeak.core.dictionary import (
    preprocessing_from_parts,
    preprocessing_parts,
    restored_kernel,
    stored_kernel,
)
from squeak.core.kernels.registry import check_stored
from squeak.core.rows import n_rows, rows_from_arrays, rows_to_arrays, width_of
from squeak.online.base import OnlineEstimator
from squeak.online.faces import OnlineClassifier
from squeak.online.stream import Stream
from squeak.samplers.base import own_kernel


def parts_of(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an estimator's arrays and the rest as JSON data."""
    stream: Stream = model._stream
    arrays, content = stream.to_parts()
    encoding, described = preprocessing_parts(stream.preprocessing)
    arrays = {**arrays, **encoding, **rows_to_arrays(model._head, "head_")}
    params: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if name == "kernel":
            params[name] = None if value is None else stored_kernel(value)
        elif name == "random_state":
            params[name] = int(value) if isinstance(value, int | np.integer) else None
        else:
            params[name] = value.item() if isinstance(value, np.generic) else value
    described_model: dict[str, Any] = {
        "estimator": type(model).__name__,
        "params": params,
        "stream": content,
        "outputs": stream.n_outputs,
        "resolved": None if stream.resolved is None else stored_kernel(stream.resolved),
        "names": list(map(str, getattr(model, "feature_names_in_", []))),
        "preprocessing": described,
    }
    if isinstance(model, OnlineClassifier):
        labels = model.classes_.tolist()
        if not all(isinstance(label, str | int | float | bool) for label in labels):
            raise TypeError("only labels that are numbers or text can be saved")
        described_model["classes"] = labels
        described_model["classes_type"] = model.classes_.dtype.kind
    return arrays, described_model


def estimator_from(arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
    """Return the estimator that :func:`parts_of` took apart, or raise what does not fit."""
    from squeak import online

    cls = getattr(online, str(content["estimator"]), None) if content["estimator"] in online.__all__ else None
    if not (isinstance(cls, type) and issubclass(cls, OnlineEstimator)):
        raise ValueError(f"no online estimator is known by the name {content['estimator']!r}")
    params = dict(content["params"])
    own = params.pop("kernel")
    if own is not None:
        own = restored_kernel(own, kernel if own["kernel"] is None else None)
    model: Any = cls(kernel=own, **state.parameters(cls, params))
    model._check_parameters()
    if isinstance(model, OnlineClassifier):
        model.classes_ = state.labels(content["classes"], content["classes_type"])
    expected = len(model.classes_) if isinstance(model, OnlineClassifier) else 1
    outputs = state.checked({"outputs": state.whole(low=1)}, {}, content)["outputs"]
    if outputs != (1 if expected == 2 else expected):
        raise ValueError("the outputs do not fit the classes")
    head = rows_from_arrays(arrays, "head_")
    if n_rows(head) != 1:
        raise ValueError("the first row is damaged")
    facts = state.checked(STREAM, {}, content["stream"])
    preprocessing = preprocessing_from_parts(arrays, content)
    if preprocessing is not None and preprocessing.n_features != width_of(head):
        raise ValueError("the preprocessing does not fit the rows")
    stream = Stream(model._build, own_kernel(model.kernel), outputs, facts["seed"], preprocessing)
    resolved = content["resolved"]
    if resolved is not None:
        resolved = restored_kernel(resolved, kernel if resolved["kernel"] is None else None)
        check_stored(resolved, head)
    if content["stream"]["learner"] is not None:
        model._check_stored(arrays, outputs)
    stream.set_parts(arrays, {**facts, "learner": content["stream"]["learner"]}, resolved, head)
    model._head, model._stream = head, stream
    if width_of(head) is not None:
        model.n_features_in_ = width_of(head)
    names = content["names"]
    if names:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("the names of its columns are damaged")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


STREAM = {"seed": state.seed(), "n_seen": state.whole(), "warming": state.flag()}
