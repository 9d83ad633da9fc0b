"""Progress bars of runs."""

from __future__ import annotations

from typing import Any


def progress(words: str, unit: str, total: int, verbose: int, done: int = 0) -> Any:
    """Return a bar over the steps of a run, to be entered; silent unless ``verbose``."""
    from tqdm.auto import tqdm

    return tqdm(total=total, initial=done, desc=words, unit=f" {unit}", disable=not verbose)
