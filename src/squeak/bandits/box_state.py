"""Boxes in files: everything that the next ask depends on, so that a resumed run ends in the same bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squeak.bandits.box_model import BoxDictionary, BoxModel
from squeak.bandits.exact import ExactPosterior
from squeak.bandits.space import Categorical, Integer, Real, Space
from squeak.core.kernels.registry import kernel_from_data, kernel_to_data
from squeak.core.storage import NotStoredError
from squeak.core.types import Array

MODEL = "box_"


def settings_of_box(box: Any) -> dict[str, Any]:
    """Return what the box was made with, but its seed, as JSON data."""
    return {
        "sides": [_side_to_data(side) for side in box.space.sides],
        "kernel": _kernel_to_data(box.kernel),
        "beta": box.beta,
        "n_initial": box.n_initial,
        **box._model.settings,
    }


def parts_of_box(box: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a box's arrays and the rest as JSON data."""
    n, model, width = box.n_told_, box._model, box.space.width
    arrays = {
        "rows": box._rows[:n],
        "values": box._values[:n],
        "points": np.array([_to_numbers(box.space, point) for point in box._points]).reshape(
            n, len(box.space.sides)
        ),
        "pending": np.array(box._pending).reshape(-1, width),
        "recent": np.array(model.recent).reshape(-1, width),
    }
    if isinstance(model.posterior, ExactPosterior):
        arrays |= {MODEL + "arms": model.posterior.arms, **model.posterior.to_arrays()}
    elif model.posterior is not None:
        arrays |= {MODEL + name: array for name, array in model.posterior.to_arrays().items()}
    return arrays, {
        **settings_of_box(box),
        "seed": box._seed,
        "asked": box._asked,
        "fitted_at": box._fitted_at,
        "median": box._median,
        "spread": box._spread,
        "fitted": None if model.kernel is None else _kernel_to_data(model.kernel),
        "numbers": [model.noise, model.centre, 1.0, model.recent_sum],
        "form": {ExactPosterior: "exact", BoxDictionary: "dictionary"}.get(type(model.posterior)),
    }


def box_from_parts(cls: Any, arrays: dict[str, Any], content: dict[str, Any]) -> Any:
    """Return the box from its parts; anything that does not fit raises."""
    names = ("beta", "n_initial", "crossover", "max_atoms", "oversampling", "batch_factor")
    box = cls(
        [_side_from_data(side) for side in content["sides"]],
        kernel_from_data(content["kernel"]),
        random_state=0,
        **{name: content[name] for name in names},
    )
    n, width = len(arrays["values"]), box.space.width
    shapes = {"rows": (n, width), "values": (n,), "points": (n, len(box.space.sides))}
    shapes |= {name: (len(arrays[name]), width) for name in ("pending", "recent")}
    for name, shape in shapes.items():
        if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
            raise ValueError(f"its {name} do not fit")
    box._reseed(int(content["seed"]))
    box._rows, box._values = np.vstack([arrays["rows"], box._rows]), np.append(arrays["values"], box._values)
    box.n_told_ = n
    box._points = [_from_numbers(box.space, row) for row in arrays["points"]]
    box._pending, box._asked = list(np.array(arrays["pending"])), int(content["asked"])
    box._fitted_at = int(content["fitted_at"])
    box._median, box._spread = float(content["median"]), float(content["spread"])
    _restore_model(box._model, arrays, content)
    return box


def _restore_model(model: BoxModel, arrays: dict[str, Any], content: dict[str, Any]) -> None:
    model.noise, model.centre, _, model.recent_sum = (float(number) for number in content["numbers"])
    model.recent = list(np.array(arrays["recent"]))
    if content["fitted"] is None:
        return
    model.kernel = kernel_from_data(content["fitted"])
    if content["form"] == "exact":
        model.posterior = ExactPosterior(model.kernel, np.array(arrays[MODEL + "arms"]), model.noise**2)
        model.posterior.restore(arrays)
    else:
        inner = {name.removeprefix(MODEL): array for name, array in arrays.items() if name.startswith(MODEL)}
        model.posterior = BoxDictionary.from_arrays(model.kernel, model.noise**2, inner)


def _kernel_to_data(kernel: Any) -> dict[str, Any]:
    data = kernel_to_data(kernel)
    if data is None:
        raise NotStoredError(f"the kernel {kernel!r} is code, which is never stored")
    return data


def _side_to_data(side: Any) -> dict[str, Any]:
    if isinstance(side, Categorical):
        for choice in side.choices:
            plain = isinstance(choice, str | bool | int | float | None)
            if not plain or (isinstance(choice, float) and not math.isfinite(choice)):
                raise NotStoredError(f"the value {choice!r} of a category is no text or number and is not stored")
        return {"choices": list(side.choices)}
    kind = int if isinstance(side, Integer) else float
    return {"low": kind(side.low), "high": kind(side.high), "log": side.log, "whole": isinstance(side, Integer)}


def _side_from_data(data: dict[str, Any]) -> Any:
    if "choices" in data:
        return Categorical(data["choices"])
    return (Integer if data["whole"] else Real)(data["low"], data["high"], bool(data["log"]))


def _to_numbers(space: Space, point: Any) -> list[float]:
    """Return the values of a point as they are; of a category the number of the value."""
    return [
        float(int(np.argmax(side.encode(value))) if isinstance(side, Categorical) else value)
        for side, value in zip(space.sides, point, strict=True)
    ]


def _from_numbers(space: Space, numbers: Array) -> Any:
    if space.is_real:
        return np.array(numbers, dtype=np.float64)
    return [_value(side, number) for side, number in zip(space.sides, numbers.tolist(), strict=True)]


def _value(side: Any, number: float) -> Any:
    if isinstance(side, Categorical):
        return side.choices[int(number)]
    return int(number) if isinstance(side, Integer) else number
