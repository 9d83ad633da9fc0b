"""Bandits in files: everything that the next ask depends on, so that a resumed run ends in the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.bandits.widths import width_from_data, width_to_data
from squeak.core.dictionary import restored_kernel, stored_kernel
from squeak.core.kernels import diagonal
from squeak.core.kernels.registry import check_stored
from squeak.core.rows import n_rows, rows_from_arrays, rows_to_arrays
from squeak.core.state import HUGE, LEAST, checked, flags, number, numbers, parameters, parts, seed, whole, wholes


def parts_of_bandit(bandit: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a bandit's arrays and the rest as JSON data."""
    model, facts = bandit._model_parts()
    names = ("counts", "sums", "active", "pending", "pulls", "rewards", "noise", "prior_mean")
    values = {name: getattr(bandit, f"{name}_") for name in names}
    values |= {name: getattr(bandit, f"_{name}") for name in ("seed", "draws", "square_sum", "log_sum")}
    values |= {"norm": bandit.norm, "delta": bandit.delta, "verbose": int(bandit.verbose)}
    arrays, content = parts(STATE, values)
    return {**rows_to_arrays(bandit.arms_), **arrays, **model}, {
        **stored_kernel(bandit.kernel_),
        **content,
        "beta": width_to_data(bandit.beta),
        "refit": list(bandit.refit),
        "options": bandit._options(),
        "model": facts,
    }


def bandit_from_parts(cls: Any, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
    """Return the bandit from its parts; anything that does not fit raises."""
    arms = rows_from_arrays(arrays)
    kernel = check_stored(restored_kernel(content, kernel), arms)
    found = checked(STATE, arrays, content, arms=n_rows(arms))
    options = parameters(cls, content["options"])
    known = {"arms", "kernel", "beta", "refit", "random_state", *STATE}
    if not isinstance(content["refit"], list) or known & options.keys():
        raise ValueError("its options are damaged")
    bandit = cls(
        arms,
        kernel,
        **{name: found[name] for name in ("noise", "norm", "delta", "prior_mean", "verbose")},
        beta=width_from_data(content["beta"]),
        refit=[int(step) for step in content["refit"]],
        random_state=0,
        **options,
    )
    pulls, pending, n = found["pulls"], found["pending"], n_rows(arms)
    if (
        np.any(pulls >= n)
        or np.any(pending >= n)
        or not np.array_equal(np.bincount(pulls, minlength=n), found["counts"])
    ):
        raise ValueError("its counts are not those of its pulls")
    bandit.counts_, bandit.sums_, bandit.active_ = (found[name].copy() for name in ("counts", "sums", "active"))
    bandit._pulls, bandit._pending, bandit._rewards = pulls.tolist(), pending.tolist(), found["rewards"].tolist()
    bandit._seed, bandit._draws = found["seed"], found["draws"]
    bandit._square_sum, bandit._log_sum = found["square_sum"], found["log_sum"]
    bandit._largest = float(diagonal(bandit.kernel_, arms).max())
    bandit._restore_model(arrays, content["model"])
    return bandit


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
