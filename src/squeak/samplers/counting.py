"""A kernel that counts how often it is evaluated, for comparisons."""

from __future__ import annotations

import threading
from typing import Any

from squeak.core.kernels import Kernel, block, diagonal, gram, resolve
from squeak.core.rows import n_rows
from squeak.core.types import Array, Rows


class Tally:
    """A number that several threads add to, and that copies of its owner share."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.Lock()

    def add(self, number: int) -> None:
        """Add to the total."""
        with self._lock:
            self.total += number

    def __deepcopy__(self, memo: object) -> Tally:
        return self


class CountingKernel(Kernel):
    """Any kernel, with every value that is computed counted in ``tally``."""

    def __init__(self, kernel: Any, tally: Tally) -> None:
        self.kernel = kernel
        self.tally = tally
        self.accepts_sparse = getattr(kernel, "accepts_sparse", False)
        self.requires_vector_input = getattr(kernel, "requires_vector_input", True)

    def _block(self, X: Rows, Y: Rows) -> Array:
        self.tally.add(n_rows(X) * n_rows(Y))
        return block(self.kernel, X, Y)

    def _gram(self, X: Rows) -> Array:
        self.tally.add(n_rows(X) ** 2)
        return gram(self.kernel, X)

    def _diag(self, X: Rows) -> Array:
        self.tally.add(n_rows(X))
        return diagonal(self.kernel, X)

    def resolve(self, X: Rows) -> CountingKernel:
        """Return this kernel with every width that is to be learned from data replaced by its value."""
        return CountingKernel(resolve(self.kernel, X), self.tally)

    def is_stationary(self) -> bool:
        """Tell whether values depend on x − y only."""
        return bool(getattr(self.kernel, "is_stationary", lambda: False)())
