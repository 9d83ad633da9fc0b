"""The progress bar of a pass over rows: rows a second, atoms, effective dimension."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from squeak.core.progress import progress


class RowBar:
    """A bar over rows that reads the sampler's state; silent unless ``verbose``."""

    def __init__(self, sampler: Any, total: int | None, initial: int = 0) -> None:
        self._sampler = sampler
        self._bar: Any = None
        if sampler.verbose:
            name = type(sampler).__name__
            self._bar = progress(name, "rows", total, True, done=initial, unit_scale=True).__enter__()

    def advance(self, rows: int) -> None:
        """Move on by some rows."""
        if self._bar is None:
            return
        history = self._sampler.history_
        factor = self._sampler.factor_
        facts: dict[str, Any] = {"atoms": len(factor.weights)}
        if history:
            facts["d_eff"] = f"{history[-1]['effective_dimension']:.1f}"
        facts["ridge"] = f"{factor.ridge:.3g}"
        self._bar.set_postfix(facts, refresh=False)
        self._bar.update(rows)

    def __enter__(self) -> RowBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
