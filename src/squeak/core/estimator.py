"""What every estimator has from scikit-learn, and the link to its page that notebooks show."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from sklearn.base import BaseEstimator


@cache
def published() -> str:
    """Return the address of the site that the installed package names in its metadata, or an empty text."""
    try:
        urls = metadata("squeak-learn").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    named: dict[str, str] = dict(url.split(", ", 1) for url in urls)
    return named.get("Documentation", "").rstrip("/")


def site() -> str:
    """Return where the documentation is: a folder or an address in ``SQUEAK_DOCS``, or where it is published."""
    given = os.environ.get("SQUEAK_DOCS", "")
    if not given or "://" in given:
        return given.rstrip("/") or published()
    return Path(given).resolve().as_uri()


class Estimator(BaseEstimator):
    """Base of all estimators: scikit-learn's, with links to squeak's own pages in its HTML form."""

    _doc_link_module = "squeak"

    @property
    def _doc_link_template(self) -> str:
        """The address of the page of this class; empty, which shows no link, where there is no site."""
        where, kind = site(), type(self)
        top, room, *_ = kind.__module__.split(".")
        module = top if kind.__name__ in sys.modules["squeak"].__all__ else f"{top}.{room}"
        return f"{where}/api/generated/{module}.{kind.__name__}.html" if where else ""
