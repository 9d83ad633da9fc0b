"""A DPP as arrays and JSON data: what was learned, the rows or the way back to them, how far sampling has come."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from squeak import samplers
from squeak.core.dictionary import Dictionary, restored_kernel, stored_kernel
from squeak.core.nystrom import EigenFeatures
from squeak.core.rows import check_same_kind, rows_from_arrays, rows_to_arrays, same_rows, take, width_of
from squeak.core.sources import Preprocessing
from squeak.core.state import LEAST, checked, flag, number, numbers, parameters, parts, text, whole
from squeak.core.storage import NotStoredError
from squeak.dpp.preparing import Prepared
from squeak.dpp.proposals import Proposer
from squeak.dpp.store import MemoryRows, NamedRows, SourceRows
from squeak.dpp.surrogate import Surrogate
from squeak.samplers.base import Sampler

if TYPE_CHECKING:
    from squeak.dpp.vfx import DPP

ROWS, DICTIONARY, SOURCE = "rows_", "dictionary_", "source_"


def parts_of(dpp: DPP) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays and the rest of a fitted DPP."""
    prepared, rows = dpp._prepared[0], dpp._rows
    surrogate = prepared.surrogate
    described, content = prepared.dictionary.to_parts()
    values = {
        "mixing": surrogate.features.mixing,
        "spectrum": surrogate.spectrum,
        "bounds": prepared.bounds,
        "n": rows.n,
        "residual": surrogate.residual,
        "prepared_scale": prepared.scale,
        "exact": bool(prepared.exact),
        "scale": dpp.scale_,
        "expected_size": dpp.expected_size,
        "weighted": bool(dpp.weighted),
        "max_rejections": int(dpp.max_rejections),
        "seed": str(dpp._seed),
        "calls": dpp._calls,
        "attempts": dpp._attempts,
        "accepted": dpp._accepted,
    }
    arrays, facts = parts(STATE, values)
    arrays |= {DICTIONARY + name: array for name, array in described.items()}
    recipe = preprocessing = None
    if isinstance(rows, MemoryRows):
        arrays.update(rows_to_arrays(rows.X, ROWS))
    else:
        recipe = rows.recipe
        if recipe is None:
            raise ValueError(
                "rows of an iterator or of a table in memory cannot be opened again: fit on an array or files"
            )
        if rows.preprocessing is not None:
            encoding, preprocessing = rows.preprocessing.to_parts(SOURCE)
            arrays.update(encoding)
    return arrays, {
        **stored_kernel(dpp.kernel_),
        **facts,
        "dictionary": content,
        "sampler": None if dpp.sampler is None else _sampler_to_data(dpp.sampler),
        "recipe": recipe,
        "preprocessing": preprocessing,
    }


def dpp_from(cls: type[DPP], arrays: dict[str, Any], content: dict[str, Any], kernel: Any) -> DPP:
    """Return the DPP that :func:`parts_of` took apart; what does not fit together raises."""
    kernel = restored_kernel(content, kernel)
    inner = {name.removeprefix(DICTIONARY): a for name, a in arrays.items() if name.startswith(DICTIONARY)}
    dictionary = Dictionary.from_parts(inner, content["dictionary"], kernel=kernel)
    state = checked(STATE, arrays, content, m=len(dictionary))
    n = state["n"]
    if len(state["bounds"]) != n or not state["bounds"].sum() > 0:
        raise ValueError("its scores are not those of its rows")
    features = EigenFeatures.__new__(EigenFeatures)
    features.kernel, features.atoms, features.mixing = kernel, dictionary.atoms, state["mixing"]
    surrogate = Surrogate(features, state["spectrum"], state["residual"])
    prepared = Prepared(surrogate, state["prepared_scale"], state["bounds"], state["exact"], dictionary)
    rows: MemoryRows | SourceRows
    if content["recipe"] is None:
        rows = MemoryRows(rows_from_arrays(arrays, ROWS))
        check_same_kind(rows.X, dictionary.atoms)
        if rows.n != n or width_of(rows.X) != width_of(dictionary.atoms):
            raise ValueError("its rows are not those of its dictionary")
        if len(dictionary.sources) == 1 and not same_rows(take(rows.X, dictionary.indices), dictionary.atoms):
            raise ValueError("its atoms are not among its rows")
    else:
        known = content["preprocessing"]
        encoding = None if known is None else Preprocessing.from_parts(arrays, known, prefix=SOURCE)
        paths = content["recipe"]["paths"]
        if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
            raise ValueError("the names of its files are damaged")
        rows = NamedRows(content["recipe"], encoding, kernel, n)
    found = cls(
        kernel,
        None if content["sampler"] is None else _sampler_from_data(content["sampler"]),
        **{name: state[name] for name in ("expected_size", "weighted", "max_rejections")},
    )
    if not re.fullmatch(r"\d{1,39}", state["seed"]):
        raise ValueError("its seed is damaged")
    found._rows, found._seed, found.scale_ = rows, int(state["seed"]), state["scale"]
    found._prepared, found._proposer = {0: prepared}, Proposer(prepared, found.scale_)
    found._calls, found._attempts, found._accepted = state["calls"], state["attempts"], state["accepted"]
    return found


STATE = {
    "mixing": numbers("m", "r"),
    "spectrum": numbers("r", low=0.0),
    "bounds": numbers("rows", low=0.0),
    "n": whole(low=1),
    "residual": number(),
    "prepared_scale": number(low=LEAST),
    "exact": flag(),
    "scale": number(low=LEAST),
    "expected_size": number(low=LEAST, optional=True),
    "weighted": flag(),
    "max_rejections": whole(low=1),
    "seed": text(),
    "calls": whole(),
    "attempts": whole(),
    "accepted": whole(high="attempts"),
}


def _sampler_to_data(sampler: Sampler) -> dict[str, Any]:
    """Return a sampler's class and parameters as JSON data, but for the kernel: it is the DPP's."""
    params = {name: _plain(value) for name, value in sampler.get_params(deep=False).items() if name != "kernel"}
    odd = [name for name, value in params.items() if not isinstance(value, str | bool | int | float | None)]
    name = type(sampler).__name__
    if odd or getattr(samplers, name, None) is not type(sampler):
        why = f"its {odd[0]} is no plain value" if odd else "it is code"
        raise NotStoredError(f"the sampler {sampler!r} is not stored: {why}, and larger samples may need it again")
    return {"name": name, "params": params}


def _sampler_from_data(data: dict[str, Any]) -> Sampler:
    """Return the sampler that :func:`_sampler_to_data` described; only squeak's own are known."""
    known = {
        name: cls for name, cls in vars(samplers).items() if isinstance(cls, type) and issubclass(cls, Sampler)
    }
    if data["name"] not in known:
        raise ValueError(f"it has an unknown sampler, {data['name']!r}")
    cls = known[data["name"]]
    made: Sampler = cls(**parameters(cls, data["params"]))
    return made


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
