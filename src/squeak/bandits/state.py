"""Bandits in files: everything that the next ask depends on, so that a resumed run ends in the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.bandits.widths import width_from_data, width_to_data
from squeak.core.dictionary import restored_kernel, stored_kernel
from squeak.core.kernels import diagonal
from squeak.core.rows import n_rows, rows_from_arrays, rows_to_arrays


def parts_of_bandit(bandit: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a bandit's arrays and the rest as JSON data."""
    model, facts = bandit._model_parts()
    arrays = {
        **rows_to_arrays(bandit.arms_),
        "counts": bandit.counts_,
        "sums": bandit.sums_,
        "active": bandit.active_,
        "pending": bandit.pending_,
        "pulls": bandit.pulls_,
        "rewards": bandit.rewards_,
        **model,
    }
    content = {
        **stored_kernel(bandit.kernel_),
        "noise": bandit.noise_,
        "norm": bandit.norm,
        "delta": bandit.delta,
        "beta": width_to_data(bandit.beta),
        "prior_mean": bandit.prior_mean_,
        "refit": list(bandit.refit),
        "verbose": int(bandit.verbose),
        "options": bandit._options(),
        "seed": bandit._seed,
        "draws": bandit._draws,
        "square_sum": bandit._square_sum,
        "log_sum": bandit._log_sum,
        "model": facts,
    }
    return arrays, content


def bandit_from_parts(cls: Any, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
    """Return the bandit from its parts; anything that does not fit raises."""
    arms = rows_from_arrays(arrays)
    bandit = cls(
        arms,
        restored_kernel(content, kernel),
        noise=float(content["noise"]),
        norm=float(content["norm"]),
        delta=float(content["delta"]),
        beta=width_from_data(content["beta"]),
        prior_mean=float(content["prior_mean"]),
        refit=[int(step) for step in content["refit"]],
        random_state=0,
        verbose=int(content["verbose"]),
        **content["options"],
    )
    n = n_rows(arms)
    pulls, rewards, pending = arrays["pulls"], arrays["rewards"], arrays["pending"]
    counts, sums, active = (np.array(arrays[name]) for name in ("counts", "sums", "active"))
    fits = counts.shape == sums.shape == active.shape == (n,) and pulls.shape == rewards.shape
    named = np.concatenate([pulls, pending])
    if not fits or pulls.ndim != 1 or pending.ndim != 1 or (named.size and not 0 <= named.min() <= named.max() < n):
        raise ValueError("its arrays do not fit each other")
    if not np.array_equal(np.bincount(pulls, minlength=n), counts) or not np.isfinite(rewards).all():
        raise ValueError("its counts are not those of its pulls")
    bandit.counts_, bandit.sums_, bandit.active_ = counts, sums, active.astype(bool)
    bandit._pulls, bandit._rewards, bandit._pending = pulls.tolist(), rewards.tolist(), pending.tolist()
    bandit._seed, bandit._draws = int(content["seed"]), int(content["draws"])
    bandit._square_sum, bandit._log_sum = float(content["square_sum"]), float(content["log_sum"])
    bandit._largest = float(diagonal(bandit.kernel_, arms).max())
    bandit._restore_model(arrays, content["model"])
    return bandit
