"""Bars that tell how far a run has come; tqdm is imported for them alone."""

from __future__ import annotations

from typing import Any


def progress(words: str, unit: str, total: int | None, verbose: Any, done: int = 0, **options: Any) -> Any:
    """Return a bar over the steps of a run, to be entered; silent unless ``verbose``; options are those of tqdm."""
    from tqdm.auto import tqdm

    return tqdm(total=total, initial=done, desc=words, unit=f" {unit}", disable=not verbose, **options)
