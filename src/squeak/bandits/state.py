"""Bandits and boxes in files: everything that the next ask depends on, so that a resumed run ends in equal bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squeak.bandits.box_model import BoxDictionary
from squeak.bandits.exact import ExactPosterior
from squeak.bandits.space import Categorical, Integer, Real, Space
from squeak.bandits.surface import Surface
from squeak.bandits.widths import width_from_data, width_to_data
from squeak.core.kernels.registry import check_stored, kernel_from_data, kernel_to_data
from squeak.core.saved import KernelPiece, Layout, RowsPiece, Saved, put_together, take_apart, within
from squeak.core.state import (
    HUGE,
    LEAST,
    checked,
    flag,
    flags,
    number,
    numbers,
    parameters,
    parts,
    seed,
    text,
    whole,
    wholes,
)
from squeak.core.storage import NotStoredError
from squeak.core.types import Array, BoolArray


class SavedBandit(Saved):
    """How a :class:`~squeak.bandits.base.Bandit` is taken apart for a file, and made from its parts."""

    def to_parts(self: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parts for a file."""
        arrays, content = take_apart(self, STATE)
        model, facts = self._model_parts()
        chosen = {"beta": width_to_data(self.beta), "refit": list(self.refit), "options": self._options()}
        chosen |= {"scale": self.scale} if self.scale else {}
        return arrays | model, {**content, **chosen, "model": facts}

    @classmethod
    def from_parts(cls: Any, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
        """Return the bandit that :meth:`to_parts` took apart; anything that does not fit raises."""
        found = put_together(STATE, arrays, content, kernel)
        options = parameters(cls, content["options"])
        if not isinstance(content["refit"], list) or COMMON & options.keys():
            raise ValueError("its options are damaged")
        common = {name.strip("_"): found[name] for name in FIGURES}
        beta, refit = width_from_data(content["beta"]), [int(step) for step in content["refit"]]
        common |= {"beta": beta, "refit": refit, "scale": content.get("scale"), "random_state": 0}
        made = cls(found["arms_"], found["kernel_"], **common, **options)
        made.set_parts(found, arrays, content["model"])
        return made

    def _parameters(self: Any) -> dict[str, Any]:
        """Return the parameters that all bandits have, by the constructor's names, but arms, kernel and seed."""
        figures = {name.strip("_"): getattr(self, name) for name in FIGURES}
        return {**figures, "beta": self.beta, "refit": self.refit, "scale": self.scale}

    def _options(self: Any) -> dict[str, Any]:
        """Return a subclass's own parameters."""
        return {name: getattr(self, name) for name in self.OPTIONS}

    def _model_parts(self: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the model's arrays, and what else the next ask depends on as JSON data."""
        return self._model.to_arrays(), {}

    def _restore_model(self: Any, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        self._model.restore(arrays)

    def set_parts(self: Any, values: dict[str, Any], arrays: dict[str, Any], model: dict[str, Any]) -> None:
        """Take over what a file says: of the rewards told, by the names of the attributes, and of the model."""
        n, pulls, pending = self.n_arms, values["pulls_"], values["pending_"]
        beyond = np.any(pulls >= n) or np.any(pending >= n)
        if beyond or not np.array_equal(np.bincount(pulls, minlength=n), values["counts_"]):
            raise ValueError("its counts are not those of its pulls")
        for name in ("counts_", "sums_", "active_"):
            setattr(self, name, values[name].copy())
        for name in ("pulls_", "pending_", "rewards_"):
            setattr(self, f"_{name.strip('_')}", values[name].tolist())
        for name in ("_seed", "_draws", "_square_sum", "_log_sum"):
            setattr(self, name, values[name])
        self.unit_ = 1.0 if values["unit_"] is None else values["unit_"]
        self._refitted = len(pulls) if values["_refitted"] is None else values["_refitted"]
        self._restore_model(arrays, model)


FIGURES = {
    "noise_": number(low=LEAST),
    "norm": number(low=LEAST),
    "delta": number(low=LEAST, high=1.0),
    "prior_mean_": number(),
    "verbose": whole(),
}
"""The parameters that all bandits have, but those that are no numbers."""

COMMON = {"arms", "kernel", "beta", "refit", "scale", "random_state", *(name.strip("_") for name in FIGURES)}

STATE: Layout = {
    "arms_": RowsPiece(size="arms"),
    "kernel_": KernelPiece("arms_"),
    "counts_": wholes("arms"),
    "sums_": numbers("arms", low=-HUGE, high=HUGE),
    "active_": flags("arms"),
    "pending_": wholes("pending"),
    "pulls_": wholes("pulls"),
    "rewards_": numbers("pulls"),
    **FIGURES,
    "_seed": seed(),
    "_draws": whole(),
    "_square_sum": number(low=0.0, high=HUGE),
    "_log_sum": number(),
    "_refitted": whole(optional=True),
    "unit_": number(low=LEAST, optional=True),
}


MODEL = "box_"


class SavedBox(Saved):
    """How a :class:`~squeak.bandits.continuous.BoxUCB` is taken apart for a file, and made from its parts.

    The parts of the first objective's surface have names of their own, as in files of older versions; those of
    surface i beyond it (further objectives, then constraints, then failures) begin with ``surface{i}_``.
    """

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
            "conditions": self.space.conditions,
            "objectives": self.objectives,
            "kernel": None if self.kernel is None else _kernel_to_data(self.kernel),
            "beta": self.beta,
            "n_initial": self.n_initial,
            **{name: getattr(self._model, name) for name in BOX_OPTIONS[2:]},
            **({"seed": self._seed} if seeded else {}),
        }

    def to_parts(self: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parts for a file."""
        n, width, gaps = self.n_told_, self.space.width, self.space.has_gaps
        points = [_to_numbers(self.space, point) for point in self._pulls]
        numbered = np.array(points, dtype=np.float64).reshape(n, len(self.space.sides))  # NaN: not there
        values = {
            "rows": self._rows[:n],
            "values": self._values[:n],
            "extra": self._extra[:n] if self._extra.shape[1] else None,
            "points": np.nan_to_num(numbered),
            "gaps": np.isnan(numbered) if gaps else None,
            "tried": np.array(self._tried) if self._failed else None,
            "failed": np.array(self._failed) if self._failed else None,
            "pending": np.array(self._pending).reshape(-1, width),
            "seed": self._seed,
            "asked": self._asked,
        }
        arrays, content = parts(BOX, values)
        described = []
        for i, surface in enumerate(self._surfaces):
            some, more = _surface_parts(surface)
            arrays |= {f"surface{i}_{name}" if i else name: array for name, array in some.items()}
            described.append(more)
        return arrays, {**self.settings(seeded=True), **content, **described[0], "surfaces": described[1:]}

    @classmethod
    def from_parts(cls: Any, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
        """Return the box that :meth:`to_parts` took apart; anything that does not fit raises."""
        options = parameters(cls, {name: content[name] for name in BOX_OPTIONS})
        own = None if content["kernel"] is None else kernel_from_data(content["kernel"])
        sides = [_side_from_data(side) for side in content["sides"]]
        limit = whole(low=1, high=1 + len(content.get("surfaces", [])), optional=True)  # each has a surface
        objectives = checked({"objectives": limit}, {}, content)["objectives"] or 1
        conditions = _conditions_from_data(content.get("conditions"), sides)
        made = cls(sides, own, conditions=conditions, objectives=objectives, **options)
        made.set_parts(arrays, content)
        return made

    def set_parts(self: Any, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take over the state that :meth:`to_parts` took apart, all but the constructor's parameters."""
        width, described = self.space.width, [content, *content.get("surfaces", [])]
        if self.kernel is not None:
            check_stored(self.kernel, np.zeros((1, width)))
        found = checked(BOX, arrays, content, width=width, sides=len(self.space.sides))
        n, extra, failed = len(found["values"]), found["extra"], found["failed"]
        extra = np.zeros((n, 0)) if extra is None else extra
        limits = extra.shape[1] + 1 - self.objectives
        if limits < 0 or extra.shape[1] + (failed is not None) != len(described) - 1:
            raise ValueError("its surfaces are not those of its values")
        if (failed is None) != (found["tried"] is None):
            raise ValueError("its failures are damaged")
        if failed is not None:
            if np.any(np.abs(failed) != 1) or np.count_nonzero(failed < 0) != n or len(failed) == n:
                raise ValueError("its failures do not fit its points")
            self._tried, self._failed = list(found["tried"].copy()), failed.tolist()
        self._seed, self._asked = found["seed"], found["asked"]
        self._rows, self._values = np.vstack([found["rows"], self._rows]), np.append(found["values"], self._values)
        self._extra = np.vstack([extra, np.zeros((len(self._values) - n, extra.shape[1]))])
        self._limits = [self._more(level=True) for _ in range(limits)]
        gaps = np.zeros(found["points"].shape, dtype=bool) if found["gaps"] is None else found["gaps"]
        if gaps.any() and not self.space.has_gaps:
            raise ValueError("a point lacks a value")
        self._pulls = [_from_numbers(self.space, *point) for point in zip(found["points"], gaps, strict=True)]
        self._pending = list(found["pending"].copy())
        for i, (surface, said) in enumerate(zip(self._surfaces, described, strict=True)):
            told = n if surface is not self._failures else len(self._failed)
            _restore_surface(surface, within(arrays, f"surface{i}_") if i else arrays, said, told)


BOX_OPTIONS = ("beta", "n_initial", "crossover", "max_atoms", "oversampling", "batch_factor")
BOX = {
    "values": numbers("n"),
    "extra": numbers("n", "extra", optional=True),
    "rows": numbers("n", "width", low=0.0, high=1.0),
    "points": numbers("n", "sides"),
    "gaps": flags("n", "sides", optional=True),
    "tried": numbers("tried", "width", low=0.0, high=1.0, optional=True),
    "failed": numbers("tried", low=-1.0, high=1.0, optional=True),
    "pending": numbers("pending", "width", low=0.0, high=1.0),
    "seed": seed(),
    "asked": whole(),
}
SURFACE = {
    "recent": numbers("recent", "width", low=0.0, high=1.0),
    "fitted_at": whole(),
    "median": number(),
    "spread": number(low=LEAST),
    "form": text("exact", "dictionary", optional=True),
}


def _surface_parts(surface: Surface) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts of what is known of one function."""
    model = surface.model
    values = {name: getattr(surface, name) for name in ("fitted_at", "median", "spread")} | {
        "recent": np.array(model.recent).reshape(-1, surface.space.width),
        "form": {ExactPosterior: "exact", BoxDictionary: "dictionary"}.get(type(model.posterior)),
    }
    arrays, content = parts(SURFACE, values)
    if isinstance(model.posterior, ExactPosterior):
        arrays |= {MODEL + "arms": model.posterior.arms, **model.posterior.to_arrays()}
    elif model.posterior is not None:
        arrays |= {MODEL + name: array for name, array in model.posterior.to_arrays().items()}
    return arrays, {
        **content,
        "fitted": None if model.kernel is None else _kernel_to_data(model.kernel),
        "numbers": [model.noise, model.centre, 1.0, model.recent_sum],
    }


def _restore_surface(surface: Surface, arrays: dict[str, Any], content: dict[str, Any], told: int) -> None:
    """Take over the parts of one function, of which so many values were told."""
    width, model = surface.space.width, surface.model
    found = checked(SURFACE, arrays, content, width=width)
    if found["fitted_at"] > told:
        raise ValueError("it was fitted to more points than it was told")
    if (content["fitted"] is None) != (found["fitted_at"] == 0):
        raise ValueError("its model does not fit its points")
    for name in ("fitted_at", "median", "spread"):
        setattr(surface, name, found[name])
    model.recent = list(found["recent"].copy())
    figures = ({"figure": value} for value in content["numbers"])
    model.noise, model.centre, scale, model.recent_sum = (
        checked({"figure": number()}, {}, figure)["figure"] for figure in figures
    )
    if not model.noise > 0 or scale != 1:
        raise ValueError("its noise must be positive and its scale 1")
    if content["fitted"] is None:
        return
    model.kernel = check_stored(kernel_from_data(content["fitted"]), np.zeros((1, width)))
    if found["form"] == "exact":
        arms = checked({"arms": numbers("arms", width)}, arrays, {}, MODEL)["arms"].copy()
        model.posterior = ExactPosterior(model.kernel, arms, model.noise**2)
        model.posterior.restore(arrays)
    elif found["form"] == "dictionary":
        model.posterior = BoxDictionary.from_arrays(model.kernel, model.noise**2, within(arrays, MODEL), width)
    else:
        raise ValueError("its model is missing")


def _conditions_from_data(data: Any, sides: list[Any]) -> dict[int, tuple[int, list[Any]]] | None:
    """Return the conditions of sides, from child, parent and the numbers of the parent's values for each."""
    if data is None:
        return None
    found = {}
    for child, parent, values in data:
        if any(type(i) is not int or i < 0 for i in (child, parent, *values)):
            raise ValueError("the conditions of its sides are damaged")
        found[child] = (parent, [sides[parent].choices[i] for i in values])
    return found


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


def _to_numbers(space: Space, point: Any) -> list[float | None]:
    """Return the values of a point as they are, of a category the number of the value; None: it is not there."""
    return [
        list(side.choices).index(value) if isinstance(side, Categorical) and value in side.choices else value
        for side, value in zip(space.sides, point, strict=True)
    ]


def _from_numbers(space: Space, numbers: Array, gaps: BoolArray) -> Any:
    values = [
        None if gap else _value(side, value)
        for side, value, gap in zip(space.sides, numbers.tolist(), gaps.tolist(), strict=True)
    ]
    return np.array(values, dtype=np.float64) if space.is_real else values


def _value(side: Any, number: float) -> Any:
    if isinstance(side, Categorical):
        if not 0 <= number < len(side.choices):
            raise ValueError("a point has a value that its category lacks")
        return side.choices[int(number)]
    if not side.low <= number <= side.high:
        raise ValueError("a point lies outside of the box")
    return int(number) if isinstance(side, Integer) else number
