"""The progress bar of a run: pulls, and the best arm so far."""

from __future__ import annotations

from types import TracebackType
from typing import Any


class PullBar:
    """A bar over pulls; silent unless the bandit's ``verbose``."""

    def __init__(self, bandit: Any, total: int) -> None:
        self._bandit = bandit
        self._bar: Any = None
        if bandit.verbose:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, desc=type(bandit).__name__, unit=" pulls")

    def watch(self, bandit: Any) -> None:
        """Show another bandit from now on: the same study, begun anew."""
        self._bandit = bandit

    def advance(self, pulls: int) -> None:
        """Move on by some pulls."""
        if self._bar is not None:
            best = self._bandit.best_
            self._bar.set_postfix({"best": f"{best.mean:.4g} (arm {best.index})"}, refresh=False)
            self._bar.update(pulls)

    def __enter__(self) -> PullBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
