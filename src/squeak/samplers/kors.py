"""KORS: one pass, atoms only ever added."""

from __future__ import annotations

from squeak.core.constructors import parameters
from squeak.samplers.stream import StreamSampler
from squeak.samplers.theory import kors_oversampling


@parameters
class Kors(StreamSampler):
    """Choose a dictionary in one pass that never drops an atom: kernel online row sampling.

    Each row is scored against the dictionary with itself added, τ̃ = s/(1 + s), s = (k(x, x) − ‖v(x)‖²)/ridge, and
    each of its coins keeps it with probability p = min(1, (oversampling/copies)·τ̃). The factor grows by one row in
    a time of order m², and is never computed again. An atom that is in stays in, which online learners need. In
    exchange, the dictionary is larger than that of :class:`Squeak` by a factor of order log n: it has about
    oversampling·d_onl atoms, with d_eff ≤ d_onl ≤ log det(I + K/ridge).

    Parameters
    ----------
    kernel, ridge, oversampling, copies, eps, delta, n, source, random_state, verbose
        As in :class:`Squeak`, except that the ridge is a number, because a factor that only grows cannot change it.
    half_life : float, optional
        As in :class:`Squeak`: atoms then leave as they fade, and for no other reason.

    Attributes
    ----------
    dictionary_ : Dictionary
        The dictionary of the rows so far.
    history_ : list of dict
        Rows, atoms and effective dimension on the way.

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
