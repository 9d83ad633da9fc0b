"""What is said where sampling is given up."""

from __future__ import annotations

from squeak.dpp.preparing import OVERSAMPLING
from squeak.dpp.proposals import Proposer


class RejectionLimitError(ValueError):
    """No proposal was accepted within the limit; the message says what to change.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.dpp import DPP, RejectionLimitError
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import Uniform
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> try:
    ...     DPP(5.0 * RBF(0.7), Uniform(max_atoms=3), max_rejections=5, random_state=0).fit(X).sample()
    ... except RejectionLimitError as error:
    ...     print(str(error)[:31])
    5 proposals in a row were refus
    """


def refused(proposer: Proposer, k: int | None, limit: int, *, weighted: bool) -> RejectionLimitError:
    """Return the error after so many proposals in a row that were refused."""
    cure = ", leave out weighted=True" if weighted else ""
    rank = "" if k is None else " (the kernel's matrix may have too small a rank for k)"
    size = proposer.prepared.surrogate.size(proposer.scale) if k is None else k
    return RejectionLimitError(
        f"{limit:,} proposals in a row were refused: a dictionary of {len(proposer.prepared.dictionary):,} atoms "
        f"is too poor for samples of about {size:.0f} rows. Give a sampler with more atoms, as "
        f"sampler=Squeak(oversampling={4 * OVERSAMPLING:g}){cure}, ask for smaller samples{rank}, or raise "
        "max_rejections"
    )


def missed(k: int, size: int, misses: int) -> RejectionLimitError:
    """Return the error after so many samples in a row of another size than k."""
    return RejectionLimitError(
        f"{misses:,} samples in a row had another size than k = {k} (the last had {size}): the kernel's matrix may "
        "have too small a rank; ask for fewer rows or use a smaller length_scale"
    )
