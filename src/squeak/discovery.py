"""Which estimators there are."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin, RegressorMixin, TransformerMixin

from squeak.kinds import room

ROOMS = ("samplers", "learners", "online", "graphs", "dpp")
MIXINS: dict[str, type] = {
    "classifier": ClassifierMixin,
    "cluster": ClusterMixin,
    "regressor": RegressorMixin,
    "transformer": TransformerMixin,
}


def all_estimators(type_filter: str | Iterable[str] | None = None) -> list[tuple[str, type[Any]]]:
    """Return the name and the class of every estimator, as :func:`sklearn.utils.discovery.all_estimators` does.

    Parameters
    ----------
    type_filter : str or list of str, optional
        Only those that are of one of these types: scikit-learn's "classifier", "cluster", "regressor" and
        "transformer", or a room of the package: "samplers", "learners", "online", "graphs" or "dpp". All estimators
        unless given.

    Returns
    -------
    list of (str, type)
        In the order of their names. Bandits are not among them, because they are asked and told, and not fitted.

    Examples
    --------
    >>> import squeak
    >>> [name for name, _ in squeak.all_estimators("transformer")]
    ['KernelCCA', 'KernelKMeans', 'KernelPCA', 'Nystroem', 'QuadratureFeatures', 'RandomFeatures']
    >>> dict(squeak.all_estimators(["cluster", "dpp"]))["DPP"]
    <class 'squeak.dpp.vfx.DPP'>
    """
    asked = [type_filter] if isinstance(type_filter, str) else type_filter
    wanted = None if asked is None else set(asked)
    if wanted is not None and (wrong := wanted - {*MIXINS, *ROOMS}):
        known = ", ".join(map(repr, (*MIXINS, *ROOMS)))
        raise ValueError(f"type_filter must be of {known}; it has {', '.join(sorted(map(repr, wrong)))}")
    found: dict[str, type[Any]] = {}
    for name in ROOMS:
        for public in room(name).__all__:
            kind = getattr(room(name), public)
            if not inspect.isclass(kind) or not issubclass(kind, BaseEstimator):
                continue
            types = {name, *(word for word, mixin in MIXINS.items() if issubclass(kind, mixin))}
            if wanted is None or types & wanted:
                found[public] = kind
    return sorted(found.items())
