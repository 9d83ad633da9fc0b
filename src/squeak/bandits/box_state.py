"""Boxes in files: everything that the next ask depends on, so that a resumed run ends in the same bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squeak.bandits.box_model import BoxDictionary, BoxModel
from squeak.bandits.exact import ExactPosterior
from squeak.bandits.space import Categorical, Integer, Real, Space
from squeak.bandits.state import Saved
from squeak.core.kernels.registry import kernel_from_data, kernel_to_data
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
            **self._model.settings,
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
        points = [_to_numbers(self.space, point) for point in self._points]
        arrays = {
            "rows": self._rows[:n],
            "values": self._values[:n],
            "points": np.array(points).reshape(n, len(self.space.sides)),
            "pending": np.array(self._pending).reshape(-1, width),
            "recent": np.array(model.recent).reshape(-1, width),
        }
        if isinstance(model.posterior, ExactPosterior):
            arrays |= {MODEL + "arms": model.posterior.arms, **model.posterior.to_arrays()}
        elif model.posterior is not None:
            arrays |= {MODEL + name: array for name, array in model.posterior.to_arrays().items()}
        return arrays, {
            **self.settings(seeded=True),
            "asked": self._asked,
            "fitted_at": self._fitted_at,
            "median": self._median,
            "spread": self._spread,
            "fitted": None if model.kernel is None else _kernel_to_data(model.kernel),
            "numbers": [model.noise, model.centre, 1.0, model.recent_sum],
            "form": {ExactPosterior: "exact", BoxDictionary: "dictionary"}.get(type(model.posterior)),
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
        names = ("beta", "n_initial", "crossover", "max_atoms", "oversampling", "batch_factor")
        box = cls(
            [_side_from_data(side) for side in content["sides"]],
            kernel_from_data(content["kernel"]),
            random_state=0,
            **{name: content[name] for name in names},
        )
        box.set_parts(arrays, content)
        return box

    def set_parts(self: Any, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take over the state that :meth:`to_parts` took apart, all but the constructor's parameters."""
        n, width = len(arrays["values"]), self.space.width
        shapes = {"rows": (n, width), "values": (n,), "points": (n, len(self.space.sides))}
        shapes |= {name: (len(arrays[name]), width) for name in ("pending", "recent")}
        for name, shape in shapes.items():
            if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
                raise ValueError(f"its {name} do not fit")
        self._reseed(int(content["seed"]))
        self._rows, self._values = (
            np.vstack([arrays["rows"], self._rows]),
            np.append(arrays["values"], self._values),
        )
        self.n_told_ = n
        self._points = [_from_numbers(self.space, row) for row in arrays["points"]]
        self._pending, self._asked = list(np.array(arrays["pending"])), int(content["asked"])
        self._fitted_at = int(content["fitted_at"])
        self._median, self._spread = float(content["median"]), float(content["spread"])
        _restore_model(self._model, arrays, content)


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
