"""Boxes in files: everything that the next ask depends on, so that a resumed run ends in the same bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squeak.bandits.box_model import BoxDictionary, BoxModel
from squeak.bandits.exact import ExactModel
from squeak.bandits.space import Categorical, Integer, Real, Space
from squeak.core.kernels.registry import check_stored, kernel_from_data, kernel_to_data
from squeak.core.state import LEAST, checked, flag, number, numbers, parameters, parts, seed, text, whole
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
        **box._model.settings(),
    }


def parts_of_box(box: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a box's arrays and the rest as JSON data."""
    n, model, width = box.n_told_, box._model, box.space.width
    points = [_to_numbers(box.space, point) for point in box._points]
    values = {
        "rows": box._rows[:n],
        "values": box._values[:n],
        "points": np.array(points).reshape(n, len(box.space.sides)),
        "pending": np.array(box._pending).reshape(-1, width),
        "recent": np.array(model._recent).reshape(-1, width),
        "seed": box._seed,
        "asked": box._asked,
        "fitted_at": box._fitted_at,
        "median": box._median,
        "spread": box._spread,
        "form": "exact" if model.exact is not None else "dictionary" if model.dictionary is not None else None,
    }
    arrays, content = parts(STATE, values)
    if model.exact is not None:
        arrays |= {MODEL + "arms": model.exact.arms, **model.exact.to_arrays()}
    if model.dictionary is not None:
        arrays |= {MODEL + name: array for name, array in model.dictionary.to_arrays().items()}
    return arrays, {
        **settings_of_box(box),
        **content,
        "fitted": None if model.kernel is None else _kernel_to_data(model.kernel),
        "numbers": [model.noise, model.centre, model.scale, model._sum],
    }


def box_from_parts(cls: Any, arrays: dict[str, Any], content: dict[str, Any]) -> Any:
    """Return the box from its parts; anything that does not fit raises."""
    options = parameters(cls, {name: content[name] for name in OPTIONS})
    box = cls([_side_from_data(side) for side in content["sides"]], kernel_from_data(content["kernel"]), **options)
    width, sides = box.space.width, len(box.space.sides)
    check_stored(box.kernel, np.zeros((1, width)))
    found = checked(STATE, arrays, content, width=width, sides=sides)
    n = len(found["values"])
    if found["fitted_at"] > n:
        raise ValueError("it was fitted to more points than it was told")
    box._seed, box._asked, box._fitted_at = found["seed"], found["asked"], found["fitted_at"]
    box._rows, box._values = np.vstack([found["rows"], box._rows]), np.append(found["values"], box._values)
    box.n_told_ = n
    box._points = [_from_numbers(box.space, row) for row in found["points"]]
    box._pending = list(found["pending"].copy())
    box._median, box._spread = found["median"], found["spread"]
    box._model._recent = list(found["recent"].copy())
    if (content["fitted"] is None) != (found["fitted_at"] == 0):
        raise ValueError("its model does not fit its points")
    _restore_model(box._model, arrays, content, width)
    return box


OPTIONS = ("beta", "n_initial", "crossover", "max_atoms", "oversampling", "batch_factor")
STATE = {
    "values": numbers("n"),
    "rows": numbers("n", "width", low=0.0, high=1.0),
    "points": numbers("n", "sides"),
    "pending": numbers("pending", "width", low=0.0, high=1.0),
    "recent": numbers("recent", "width", low=0.0, high=1.0),
    "seed": seed(),
    "asked": whole(),
    "fitted_at": whole(),
    "median": number(),
    "spread": number(low=LEAST),
    "form": text("exact", "dictionary", optional=True),
}


def _restore_model(model: BoxModel, arrays: dict[str, Any], content: dict[str, Any], width: int) -> None:
    figures = ({"figure": value} for value in content["numbers"])
    model.noise, model.centre, model.scale, model._sum = (
        checked({"figure": number()}, {}, figure)["figure"] for figure in figures
    )
    if not (model.noise > 0 and model.scale > 0):
        raise ValueError("its noise and its scale must be positive")
    if content["fitted"] is None:
        return
    model.kernel = check_stored(kernel_from_data(content["fitted"]), np.zeros((1, width)))
    if content["form"] == "exact":
        arms = checked({"arms": numbers("arms", width)}, arrays, {}, MODEL)["arms"].copy()
        model.exact = ExactModel(model.kernel, arms, model.noise**2)
        model.exact.restore(arrays)
    elif content["form"] == "dictionary":
        inner = {name.removeprefix(MODEL): array for name, array in arrays.items() if name.startswith(MODEL)}
        model.dictionary = BoxDictionary.from_arrays(model.kernel, model.noise**2, inner, width)
    else:
        raise ValueError("its model is missing")


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
        choices = data["choices"]
        if not isinstance(choices, list) or any(isinstance(choice, list | dict) for choice in choices):
            raise ValueError("the values of a category are damaged")
        return Categorical(choices)
    found = checked(SIDE, {}, data)
    kind = int if found["whole"] else float
    return (Integer if found["whole"] else Real)(kind(found["low"]), kind(found["high"]), found["log"])


SIDE = {"low": number(), "high": number(), "log": flag(), "whole": flag()}


def _to_numbers(space: Space, point: Any) -> list[float]:
    """Return the values of a point as they are; of a category the number of the value."""
    return [
        float(int(np.argmax(side.encode(value))) if isinstance(side, Categorical) else value)
        for side, value in zip(space.sides, point, strict=True)
    ]


def _from_numbers(space: Space, numbers: Array) -> Any:
    values = [_value(side, value) for side, value in zip(space.sides, numbers.tolist(), strict=True)]
    return np.array(values, dtype=np.float64) if space.is_real else values


def _value(side: Any, number: float) -> Any:
    if isinstance(side, Categorical):
        if not 0 <= number < len(side.choices):
            raise ValueError("a point has a value that its category lacks")
        return side.choices[int(number)]
    if not side.low <= number <= side.high:
        raise ValueError("a point lies outside of the box")
    return int(number) if isinstance(side, Integer) else number
