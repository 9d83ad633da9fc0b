"""Online estimators as files: parameters, kernel, preprocessing, and the whole state of the stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.dictionary import (
    preprocessing_from_parts,
    preprocessing_parts,
    restored_kernel,
    stored_kernel,
)
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
    if params["kernel"] is not None:
        params["kernel"] = restored_kernel(params["kernel"], kernel if params["kernel"]["kernel"] is None else None)
    model: Any = cls(**params)
    model._check_parameters()
    if isinstance(model, OnlineClassifier):
        labels = np.array(content["classes"])
        if labels.ndim != 1 or len(labels) < 2 or labels.dtype.kind not in "biufU":
            raise ValueError("the classes are damaged")
        model.classes_ = labels.astype(object) if content["classes_type"] == "O" else labels
    facts = content["stream"]
    outputs = int(content["outputs"])
    expected = len(model.classes_) if isinstance(model, OnlineClassifier) else 1
    if outputs != (1 if expected == 2 else expected):
        raise ValueError("the outputs do not fit the classes")
    head = rows_from_arrays(arrays, "head_")
    if n_rows(head) != 1:
        raise ValueError("the first row is damaged")
    stream = Stream(
        model._build,
        own_kernel(model.kernel),
        outputs,
        int(facts["seed"]),
        preprocessing_from_parts(arrays, content),
    )
    resolved = content["resolved"]
    if resolved is not None:
        resolved = restored_kernel(resolved, kernel if resolved["kernel"] is None else None)
    stream.set_parts(arrays, facts, resolved, head)
    model._head, model._stream = head, stream
    if width_of(head) is not None:
        model.n_features_in_ = width_of(head)
    if content["names"]:
        model.feature_names_in_ = np.array([str(name) for name in content["names"]], dtype=object)
    return model
