"""Models of rows in several places, made one by adding their sums: no row is read, and none has to travel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from squeak.core.rows import same_rows


class MergesSums:
    """Adds ``merge`` to a model that keeps the sums of its fit."""

    dictionary_: Any
    dual_coef_: Any
    alpha: Any

    def _after_fit(self) -> Any:
        raise TypeError(f"{type(self).__name__} is abstract")

    def _take(self, stream: Any) -> None:
        raise TypeError(f"{type(self).__name__} is abstract")

    def merge(self, *others: Self) -> Self:
        """Return the model of the rows of this model and of others, fitted where those rows are.

        Each holds Σ w z zᵀ and, by its coefficients, Σ w z yᵀ over its rows. Where all have the same atoms these
        sums are added and solved, so that the result is that of one fit on all rows with these atoms. Models that
        were saved and loaded can be merged too. Of the rows nothing is needed but what a model's file has: atoms
        (which are rows, unless they come from elsewhere), sums, and leave-one-out scores of up to 4,000 rows.

        Parameters
        ----------
        *others : models of the same class
            Fitted with the same ``dictionary`` and ``alpha``, by the solver "direct", without an intercept.

        Returns
        -------
        model
            Its intervals are not known, because the leave-one-out scores belong to the models that were merged.

        References
        ----------
        The guide to DISQUEAK, "Merging across sites".

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.base import clone
        >>> from squeak import KernelRidge
        >>> from squeak.kernels import RBF
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, (3000, 1))
        >>> y = np.sin(2 * X[:, 0])
        >>> model = KernelRidge(RBF(0.5), alpha=0.1, dictionary=np.linspace(-3, 3, 30)[:, None])
        >>> sites = [clone(model).fit(X[i::3], y[i::3]) for i in range(3)]
        >>> merged, whole = sites[0].merge(*sites[1:]), model.fit(X, y)
        >>> bool(np.abs(merged.predict(X) - whole.predict(X)).max() < 1e-6)
        True
        """
        for number, model in enumerate((self, *others)):
            if type(model) is not type(self):
                raise TypeError(f"argument {number} is a {type(model).__name__}, not a {type(self).__name__}")
            check_is_fitted(model, "dual_coef_", msg="a model that is to be merged is not fitted")
        stream = self._after_fit()
        if self.alpha == "auto" or np.any(stream.intercept):
            raise ValueError("models with alpha='auto' or with an intercept hold no sums that could be added")
        total = stream.equations
        for number, other in enumerate(others, 1):
            theirs, alpha = other._after_fit(), other.alpha
            if alpha != self.alpha:
                raise ValueError(f"argument {number} has the alpha {alpha!r}, this model {self.alpha!r}")
            mine, its = self.dictionary_, other.dictionary_
            if its.kernel != mine.kernel or not same_rows(its.atoms, mine.atoms):
                raise ValueError(f"argument {number} has other atoms than this model: give all one dictionary")
            if its.preprocessing != mine.preprocessing:
                raise ValueError(
                    f"the rows of argument {number} were preprocessed in another way than those of this model: "
                    "fit each from squeak.rows(..., preprocessing=first.preprocessing)"
                )
            if _names_of(other) != _names_of(self):
                raise ValueError(f"argument {number} has other columns than this model, or in another order")
            if theirs.equations.moment.shape != total.moment.shape or np.any(theirs.intercept):
                raise ValueError(f"argument {number} has other outputs than this model, or an intercept")
            total = total.plus(theirs.equations)
        found: Any = clone(self)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(found, name, getattr(self, name))
        found._take(replace(stream, equations=total, drawn=None))
        return cast(Self, found)


def _names_of(model: Any) -> list[str] | None:
    """Return the names of a model's columns, where it was fitted to a table."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
