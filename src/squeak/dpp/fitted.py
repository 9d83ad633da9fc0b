"""A fitted DPP and its file: what was learned, the rows or the way back to them, how far sampling has come."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from squeak import samplers
from squeak.core.nystrom import EigenFeatures
from squeak.core.rows import check_same_kind, same_rows, take, width_of
from squeak.core.saved import KernelPiece, Layout, NestedPiece, RowsPiece, Saved, put_together
from squeak.core.state import LEAST, flag, number, numbers, parameters, plain, whole
from squeak.core.storage import NotStoredError
from squeak.data import Preprocessing
from squeak.data.opening import paths_of
from squeak.dpp.preparing import Prepared
from squeak.dpp.proposals import Proposer
from squeak.dpp.store import MemoryRows, NamedRows, SourceRows
from squeak.dpp.surrogate import Surrogate
from squeak.samplers.base import Sampler
from squeak.samplers.dictionary import Dictionary


@dataclass(eq=False)
class Fitted(Saved):
    """All that sampling needs.

    ``scale``: the factor on the kernel. ``levels``: the work done once, for growing scales; level 0 is that of the
    fit. ``calls``, ``attempts``, ``accepted``: calls of ``sample``, proposals and those that were accepted, so far.
    """

    _state: ClassVar[Layout] = {
        "kernel": KernelPiece(),
        "prepared.dictionary": NestedPiece(Dictionary, size="m"),
        "rows.X": RowsPiece("rows_", optional=True),
        "rows.preprocessing": NestedPiece(Preprocessing, "source_", optional=True),
        "prepared.surrogate.features.mixing": numbers("m", "r"),
        "prepared.surrogate.spectrum": numbers("r", low=0.0),
        "prepared.surrogate.residual": number(),
        "prepared.bounds": numbers("rows", low=0.0),
        "prepared.exact": flag(),
        "prepared_scale": number(low=LEAST),
        "rows.n": whole(low=1),
        "scale": number(low=LEAST),
        "calls": whole(),
        "attempts": whole(),
        "accepted": whole(high="attempts"),
    }

    rows: MemoryRows | SourceRows
    seed: int
    scale: float
    levels: dict[int, Prepared]
    calls: int = 0
    attempts: int = 0
    accepted: int = 0

    @property
    def prepared(self) -> Prepared:
        """The work of the fit."""
        return self.levels[0]

    @property
    def prepared_scale(self) -> float:
        """The scale that the work of the fit was done for."""
        return self.prepared.scale

    @property
    def kernel(self) -> Any:
        """The kernel, every width a number, without the scale."""
        return self.prepared.surrogate.features.kernel

    @cached_property
    def proposer(self) -> Proposer:
        """What draws samples of any size."""
        return Proposer(self.prepared, self.scale)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the rest as JSON data; rows that could not be opened again raise."""
        recipe = getattr(self.rows, "recipe", None)
        if recipe is None and not isinstance(self.rows, MemoryRows):
            raise ValueError(
                "rows of an iterator or of a table in memory cannot be opened again: fit on an array or files"
            )
        arrays, content = super().to_parts()
        return arrays, {**content, "seed": str(self.seed), "recipe": recipe}

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Fitted:
        """Return what :meth:`to_parts` took apart; what does not fit together raises."""
        found = put_together(cls._state, arrays, content, kernel)
        n, bounds = found["rows.n"], found["prepared.bounds"]
        if len(bounds) != n or not bounds.sum() > 0:
            raise ValueError("its scores are not those of its rows")
        if not re.fullmatch(r"\d{1,39}", content["seed"]):
            raise ValueError("its seed is damaged")
        dictionary, kernel = found["prepared.dictionary"], found["kernel"]
        features = EigenFeatures.__new__(EigenFeatures)
        features.kernel, features.atoms = kernel, dictionary.atoms
        features.mixing = found["prepared.surrogate.features.mixing"]
        surrogate = Surrogate(features, *(found[f"prepared.surrogate.{name}"] for name in ("spectrum", "residual")))
        prepared = Prepared(surrogate, found["prepared_scale"], bounds, found["prepared.exact"], dictionary)
        rows: MemoryRows | SourceRows
        if content["recipe"] is None:
            rows = _stored_rows(found["rows.X"], n, dictionary)
        else:
            paths_of(content["recipe"])  # or it is damaged
            rows = NamedRows(content["recipe"], found["rows.preprocessing"], kernel, n)
        counts = {name: found[name] for name in ("scale", "calls", "attempts", "accepted")}
        made = cls(rows, int(content["seed"]), levels={0: prepared}, **counts)
        _ = made.proposer  # proposals that do not fit into memory are refused now
        return made


def _stored_rows(X: Any, n: int, dictionary: Dictionary) -> MemoryRows:
    """Return the rows of a file, which must be those of its dictionary."""
    rows = MemoryRows(X)
    check_same_kind(X, dictionary.atoms)
    if rows.n != n or width_of(X) != width_of(dictionary.atoms):
        raise ValueError("its rows are not those of its dictionary")
    if len(dictionary.sources) == 1 and not same_rows(take(X, dictionary.indices), dictionary.atoms):
        raise ValueError("its atoms are not among its rows")
    return rows


def sampler_to_data(sampler: Sampler | None) -> dict[str, Any] | None:
    """Return a sampler's class and parameters as JSON data, but for the kernel: it is the DPP's."""
    if sampler is None:
        return None
    given = {name: value for name, value in sampler.get_params(deep=False).items() if name != "kernel"}
    params = {name: plain(value) for name, value in given.items()}
    odd = [name for name, value in params.items() if not isinstance(value, str | bool | int | float | None)]
    name = type(sampler).__name__
    if odd or getattr(samplers, name, None) is not type(sampler):
        why = f"its {odd[0]} is no plain value" if odd else "it is code"
        raise NotStoredError(f"the sampler {sampler!r} is not stored: {why}, and larger samples may need it again")
    return {"name": name, "params": params}


def sampler_from_data(data: dict[str, Any] | None) -> Sampler | None:
    """Return the sampler that :func:`sampler_to_data` described; only squeak's own are known."""
    if data is None:
        return None
    cls = getattr(samplers, data["name"]) if data["name"] in samplers.__all__ else None
    if not (isinstance(cls, type) and issubclass(cls, Sampler)):
        raise ValueError(f"it has an unknown sampler, {data['name']!r}")
    made: Sampler = cls(**parameters(cls, data["params"]))
    return made
