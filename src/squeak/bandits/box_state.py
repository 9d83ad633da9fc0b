"""Boxes in files: everything that the next ask depends on, so that a resumed run ends in the same bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squeak.bandits.box_model import BoxDictionary, BoxModel
from squeak.bandits.exact import ExactPosterior
from squeak.bandits.space import Categorical, Integer, Real, Space
from squeak.core.kernels.registry import check_stored, kernel_from_data, kernel_to_data
from squeak.core.saved import Saved
from squeak.core.state import LEAST, checked, flag, number, numbers, parameters, parts, seed, text, whole
from squeak.core.storage import NotStoredError
from squeak.core.types import Array

MODEL = "box_"


class SavedBox(Saved):
    """How a :class:`~squeak.bandits.continuous.BoxUCB` is taken apart for a file, and made from its parts."""

    def settings(self: Any, *, seeded: bool) -> dict[str, Any]:
        """Return what the box was made with as JSON data, its seed only where it is asked for.

        Parameters
        ----------
        seeded : bool

        Returns
        -------
        dict
        """
        return {
            "sides": [_side_to_data(side) for side in self.space.sides],
            "kernel": _kernel_to_data(self.kernel),
            "beta": self.beta,
            "n_initial": self.n_initial,
            **{name: getattr(self._model, name) for name in OPTIONS[2:]},
            **({"seed": self._seed} if seeded else {}),
        }

    def to_parts(self: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parts for a file.

        Returns
        -------
        arrays : dict of str to array
        content : dict
            The rest, as JSON data.
        """
        n, model, width = self.n_told_, self._model, self.space.width
        points = [_to_numbers(self.space, point) for point in self._pulls]
        values = {
            "rows": self._rows[:n],
            "values": self._values[:n],
            "points": np.array(points).reshape(n, len(self.space.sides)),
            "pending": np.array(self._pending).reshape(-1, width),
            "recent": np.array(model.recent).reshape(-1, width),
            "form": {ExactPosterior: "exact", BoxDictionary: "dictionary"}.get(type(model.posterior)),
        }
        values |= {name: getattr(self, f"_{name}") for name in ("seed", "asked", "fitted_at", "median", "spread")}
        arrays, content = parts(STATE, values)
        if isinstance(model.posterior, ExactPosterior):
            arrays |= {MODEL + "arms": model.posterior.arms, **model.posterior.to_arrays()}
        elif model.posterior is not None:
            arrays |= {MODEL + name: array for name, array in model.posterior.to_arrays().items()}
        return arrays, {
            **self.settings(seeded=True),
            **content,
            "fitted": None if model.kernel is None else _kernel_to_data(model.kernel),
            "numbers": [model.noise, model.centre, 1.0, model.recent_sum],
        }

    @classmethod
    def from_parts(cls: Any, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
        """Return the box that :meth:`to_parts` took apart; anything that does not fit raises.

        Parameters
        ----------
        arrays, content : dicts
        kernel : None
            Kernels that are code are never stored with a box.

        Returns
        -------
        BoxUCB
        """
        options = parameters(cls, {name: content[name] for name in OPTIONS})
        made = cls(
            [_side_from_data(side) for side in content["sides"]], kernel_from_data(content["kernel"]), **options
        )
        made.set_parts(arrays, content)
        return made

    def set_parts(self: Any, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take over the state that :meth:`to_parts` took apart, all but the constructor's parameters."""
        width, model = self.space.width, self._model
        check_stored(self.kernel, np.zeros((1, width)))
        found = checked(STATE, arrays, content, width=width, sides=len(self.space.sides))
        n = len(found["values"])
        if found["fitted_at"] > n:
            raise ValueError("it was fitted to more points than it was told")
        self._seed, self._asked, self._fitted_at = found["seed"], found["asked"], found["fitted_at"]
        self._rows, self._values = np.vstack([found["rows"], self._rows]), np.append(found["values"], self._values)
        self._pulls = [_from_numbers(self.space, row) for row in found["points"]]
        self._pending, model.recent = list(found["pending"].copy()), list(found["recent"].copy())
        self._median, self._spread = found["median"], found["spread"]
        if (content["fitted"] is None) != (found["fitted_at"] == 0):
            raise ValueError("its model does not fit its points")
        _restore_model(model, arrays, content, width)


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
    model.noise, model.centre, scale, model.recent_sum = (
        checked({"figure": number()}, {}, figure)["figure"] for figure in figures
    )
    if not model.noise > 0 or scale != 1:
        raise ValueError("its noise must be positive and its scale 1")
    if content["fitted"] is None:
        return
    model.kernel = check_stored(kernel_from_data(content["fitted"]), np.zeros((1, width)))
    if content["form"] == "exact":
        arms = checked({"arms": numbers("arms", width)}, arrays, {}, MODEL)["arms"].copy()
        model.posterior = ExactPosterior(model.kernel, arms, model.noise**2)
        model.posterior.restore(arrays)
    elif content["form"] == "dictionary":
        inner = {name.removeprefix(MODEL): array for name, array in arrays.items() if name.startswith(MODEL)}
        model.posterior = BoxDictionary.from_arrays(model.kernel, model.noise**2, inner, width)
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
