"""Every kind of object that a ``.sqk`` file may hold, and the two functions that write and read any of them.

The table is fixed, whatever a file says. A room is imported when a file holds one of its kinds, or when it is first
asked for, so that ``import squeak`` stays fast.
"""

from __future__ import annotations

import os
from operator import attrgetter
from typing import Any

from squeak.core import storage

KINDS: dict[str, str] = {
    "dictionary": "samplers.dictionary.Dictionary",
    "stream": "samplers.stream.StreamSampler",
    "preprocessing": "data.Preprocessing",
    "auto-classifier": "learners.AutoClassifier",
    "auto-regressor": "learners.AutoRegressor",
    "basic-falkon": "learners.BasicFalkon",
    "divide-and-conquer-ridge": "learners.DivideAndConquerRidge",
    "kernel-blend": "learners.KernelBlend",
    "kernel-cca": "learners.KernelCCA",
    "kernel-classifier": "learners.KernelClassifier",
    "kernel-gradient-descent": "learners.KernelGradientDescent",
    "kernel-k-means": "learners.KernelKMeans",
    "kernel-pca": "learners.KernelPCA",
    "kernel-ridge": "learners.KernelRidge",
    "kernel-ridge-cv": "learners.KernelRidgeCV",
    "local-experts": "learners.LocalExperts",
    "nystroem": "learners.Nystroem",
    "nytro-regressor": "learners.NytroRegressor",
    "random-feature-classifier": "learners.RandomFeatureClassifier",
    "random-feature-regressor": "learners.RandomFeatureRegressor",
    "quadrature-features": "learners.QuadratureFeatures",
    "random-features": "learners.RandomFeatures",
    "online": "online.base.OnlineEstimator",
    "edges": "graphs.EdgeSample",
    "edge-stream": "graphs.stream.EdgeStream",
    "auto_ucb": "bandits.AutoUCB",
    "batch_bkb": "bandits.BatchBKB",
    "bkb": "bandits.BKB",
    "box_ucb": "bandits.BoxUCB",
    "dictionary_thompson": "bandits.DictionaryThompson",
    "expected_improvement": "bandits.ExpectedImprovement",
    "gp_bucb": "bandits.GPBUCB",
    "gp_ucb": "bandits.GPUCB",
    "probability_of_improvement": "bandits.ProbabilityOfImprovement",
    "sor_ucb": "bandits.SorUCB",
    "thompson_sampling": "bandits.ThompsonSampling",
    "uniform_arms": "bandits.UniformArms",
    "dpp": "dpp.DPP",
}
"""The class of each kind, by its place; the first word is its room."""


def room(name: str) -> Any:
    """Return a room, imported when it is first asked for."""
    if name == "bandits":
        import squeak.bandits
    elif name == "data":
        import squeak.data
    elif name == "dpp":
        import squeak.dpp
    elif name == "graphs":
        import squeak.graphs
    elif name == "learners":
        import squeak.learners
    elif name == "online":
        import squeak.online
    elif name == "report":
        import squeak.report
    else:
        import squeak.samplers
    return getattr(squeak, name)


def class_of(kind: str) -> Any:
    """Return the class of a kind of file.

    ``kind``: one of :data:`KINDS`.
    """
    name, place = KINDS[kind].split(".", 1)
    return attrgetter(place)(room(name))


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write an object to a ``.sqk`` file, which holds data and no code.

    Parameters
    ----------
    obj : Dictionary, Preprocessing, fitted learner, or a sampler or an online learner that has read rows
        What to save.
    path : path
        The file to write. Its folder must exist. An older file of that name is replaced once the new one is
        completely on disk.

    Examples
    --------
    >>> import numpy as np, squeak, tempfile
    >>> s = squeak.Squeak(ridge=1.0, random_state=0).fit(np.random.default_rng(0).random((500, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     squeak.save(s, folder + "/stream.sqk")
    ...     again = squeak.load(folder + "/stream.sqk")
    >>> again.dictionary_ == s.dictionary_
    True
    """
    if getattr(obj, "kind", None) not in KINDS or isinstance(obj, type):
        hint = ": save its dictionary_" if hasattr(obj, "dictionary_") else ""
        raise TypeError(f"a {type(obj).__name__} cannot be saved{hint}; {', '.join(sorted(KINDS))} can")
    storage.save(obj, path)


def load(path: str | os.PathLike[str], kernel: Any = None, kind: str | None = None) -> Any:
    """Read any object that :func:`save` wrote.

    Parameters
    ----------
    path : path
        The ``.sqk`` file.
    kernel : kernel, optional
        The kernel of the object, if it is a function of your own: files never hold code.
    kind : str, optional
        The kind of object that is expected; any other kind is refused.

    Returns
    -------
    object
        The object as it was when it was saved.

    Raises
    ------
    StorageError
        The file is damaged, cut short, hostile, or of a newer squeak. It is never run and never trusted: at most
        128 MiB and four times its size are allocated.

    Examples
    --------
    >>> import numpy as np, squeak, tempfile
    >>> d = squeak.Squeak(ridge=1.0, random_state=0).fit(np.random.default_rng(0).random((500, 2))).dictionary_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     squeak.save(d, folder + "/d.sqk")
    ...     squeak.load(folder + "/d.sqk") == d
    True
    """
    where = os.fspath(path)
    found, arrays, content = storage.read(path, kind)
    if found not in KINDS:
        raise storage.StorageError(f"{where}: it holds a {found!r}, which this squeak does not know")
    return storage.made(class_of(found), where, arrays, content, kernel)
