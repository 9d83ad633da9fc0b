"""Determinantal point processes: exact samples of diverse rows, from any number of them.

Examples
--------
>>> import numpy as np
>>> from squeak.dpp import DPP
>>> from squeak.kernels import RBF
>>> X = np.random.default_rng(0).standard_normal((2000, 2))
>>> len(DPP(RBF(1.0), random_state=0).fit(X).sample(k=12))
12
"""

from squeak.dpp.exact import ExactDPP
from squeak.dpp.proposals import RejectionLimitError
from squeak.dpp.surrogate import scale_for_size
from squeak.dpp.vfx import DPP

__all__ = ["DPP", "ExactDPP", "RejectionLimitError", "scale_for_size"]
