"""Bandits in files: everything that the next ask depends on, so that a resumed run ends in the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.bandits.widths import width_from_data, width_to_data
from squeak.core.saved import KernelPiece, Layout, RowsPiece, Saved, put_together, take_apart
from squeak.core.state import HUGE, LEAST, flags, number, numbers, parameters, seed, whole, wholes


class SavedBandit(Saved):
    """How a :class:`~squeak.bandits.base.Bandit` is taken apart for a file, and made from its parts."""

    def to_parts(self: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parts for a file.

        Returns
        -------
        arrays : dict of str to array
        content : dict
            The rest, as JSON data.
        """
        arrays, content = take_apart(self, STATE)
        model, facts = self._model_parts()
        chosen = {"beta": width_to_data(self.beta), "refit": list(self.refit), "options": self._options()}
        return arrays | model, {**content, **chosen, "model": facts}

    @classmethod
    def from_parts(cls: Any, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
        """Return the bandit that :meth:`to_parts` took apart; anything that does not fit raises.

        Parameters
        ----------
        arrays, content : dicts
        kernel : kernel, optional
            Needed where the kernel is code.

        Returns
        -------
        Bandit
        """
        found = put_together(STATE, arrays, content, kernel)
        options = parameters(cls, content["options"])
        if not isinstance(content["refit"], list) or COMMON & options.keys():
            raise ValueError("its options are damaged")
        common = {name.strip("_"): found[name] for name in FIGURES}
        beta, refit = width_from_data(content["beta"]), [int(step) for step in content["refit"]]
        made = cls(found["arms_"], found["kernel_"], **common, beta=beta, refit=refit, random_state=0, **options)
        made.set_parts(found, arrays, content["model"])
        return made

    def _parameters(self: Any) -> dict[str, Any]:
        """Return the parameters that all bandits have, by the constructor's names, but arms, kernel and seed."""
        figures = {name.strip("_"): getattr(self, name) for name in FIGURES}
        return {**figures, "beta": self.beta, "refit": self.refit}

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

COMMON = {"arms", "kernel", "beta", "refit", "random_state", *(name.strip("_") for name in FIGURES)}

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
}
