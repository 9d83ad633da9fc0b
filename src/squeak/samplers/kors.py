"""KORS: one pass, atoms only ever added."""

from __future__ import annotations

from squeak.core.constructors import parameters
from squeak.samplers.stream import StreamSampler
from squeak.samplers.theory import kors_oversampling


@parameters
class Kors(StreamSampler):
    """Learn a dictionary in one pass that never drops an atom: kernel online row sampling.

    Each row is scored against the dictionary, with itself added, τ̃ = s/(1 + s), s = (k(x, x) − ‖v(x)‖²)/ridge, and
    kept with probability p = min(1, (oversampling/copies)·τ̃) a coin. The factor grows by a row in O(m²); nothing
    is ever factored anew. An atom once in stays, as online learners need it; the price over
    :class:`Squeak` is a factor of order log n in size: about oversampling·d_onl atoms, with
    d_eff ≤ d_onl ≤ log det(I + K/ridge).

    Parameters
    ----------
    kernel, ridge, oversampling, copies, eps, delta, n, source, random_state, verbose
        As in :class:`Squeak`; the ridge is a number, for a factor that only grows cannot change it.

    Attributes
    ----------
    dictionary_ : Dictionary
    history_ : list of dict

    References
    ----------
    Thesis, algorithm 8 and theorem 3.11 (with the corrected oversampling of the theory page).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Kors
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((3000, 2))
    >>> d = Kors(kernel=RBF(2.0), ridge=1.0, oversampling=5, random_state=0).fit(X).dictionary_
    >>> len(d) < 300
    True
    """

    _theory = staticmethod(kors_oversampling)
