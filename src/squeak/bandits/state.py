"""Bandits in files: everything that the next ask depends on, so that a resumed run ends in the same bits."""

from __future__ import annotations

import os
from typing import Any, ClassVar, TypeVar

import numpy as np

from squeak.bandits.widths import width_from_data, width_to_data
from squeak.core import storage
from squeak.core.dictionary import restored_kernel, stored_kernel
from squeak.core.kernels.registry import check_stored
from squeak.core.rows import n_rows, rows_from_arrays, rows_to_arrays
from squeak.core.state import HUGE, LEAST, checked, flags, number, numbers, parameters, parts, seed, whole, wholes

F = TypeVar("F", bound="Saved")

ARRAYS = ("counts", "sums", "active", "pending", "pulls", "rewards")


class Saved:
    """What bandits and boxes share: files."""

    kind: ClassVar[str] = ""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to a ``.sqk`` file; a run that goes on from it ends in the same bits."""
        storage.save(self, path)

    @classmethod
    def load(cls: type[F], path: str | os.PathLike[str], kernel: Any = None) -> F:
        """Read one back, as it stood when it was saved.

        Parameters
        ----------
        path : path
        kernel : kernel, optional
            Needed where the kernel of a bandit is code.

        Returns
        -------
        Bandit or BoxUCB
        """
        loaded: F = storage.load(path, kernel=kernel, kind=cls.kind)
        return loaded


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
        model, facts = self._model_parts()
        values = self._parameters() | {name: getattr(self, f"{name}_") for name in ARRAYS}
        values |= {name: getattr(self, f"_{name}") for name in ("seed", "draws", "square_sum", "log_sum")}
        arrays, content = parts(STATE, values | {"verbose": int(self.verbose)})
        return rows_to_arrays(self.arms_) | arrays | model, {
            **stored_kernel(self.kernel_),
            **content,
            "beta": width_to_data(self.beta),
            "refit": list(self.refit),
            "options": self._options(),
            "model": facts,
        }

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
        arms = rows_from_arrays(arrays)
        found = checked(STATE, arrays, content, arms=n_rows(arms))
        options = parameters(cls, content["options"])
        known = {"arms", "kernel", "beta", "refit", "random_state", *STATE}
        if not isinstance(content["refit"], list) or known & options.keys():
            raise ValueError("its options are damaged")
        made = cls(
            arms,
            check_stored(restored_kernel(content, kernel), arms),
            **{name: found[name] for name in ("noise", "norm", "delta", "prior_mean", "verbose")},
            beta=width_from_data(content["beta"]),
            refit=[int(step) for step in content["refit"]],
            random_state=0,
            **options,
        )
        made.set_parts(arrays, content)
        return made

    def set_parts(self: Any, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take over the state that :meth:`to_parts` took apart, all but the constructor's parameters."""
        n = self.n_arms
        found = checked(STATE, arrays, content, arms=n)
        pulls, pending = found["pulls"], found["pending"]
        beyond = np.any(pulls >= n) or np.any(pending >= n)
        if beyond or not np.array_equal(np.bincount(pulls, minlength=n), found["counts"]):
            raise ValueError("its counts are not those of its pulls")
        self.counts_, self.sums_, self.active_ = (found[name].copy() for name in ("counts", "sums", "active"))
        self._pulls, self._pending, self._rewards = pulls.tolist(), pending.tolist(), found["rewards"].tolist()
        self._seed, self._draws = found["seed"], found["draws"]
        self._square_sum, self._log_sum = found["square_sum"], found["log_sum"]
        self._restore_model(arrays, content["model"])


STATE = {
    "counts": wholes("arms"),
    "sums": numbers("arms", low=-HUGE, high=HUGE),
    "active": flags("arms"),
    "pending": wholes("pending"),
    "pulls": wholes("pulls"),
    "rewards": numbers("pulls"),
    "noise": number(low=LEAST),
    "norm": number(low=LEAST),
    "delta": number(low=LEAST, high=1.0),
    "prior_mean": number(),
    "verbose": whole(),
    "seed": seed(),
    "draws": whole(),
    "square_sum": number(low=0.0, high=HUGE),
    "log_sum": number(),
}
