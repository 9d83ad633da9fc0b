"""A DPP as arrays and JSON data: what was learned, the rows or the way back to them, how far sampling has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from squeak import samplers
from squeak.core.dictionary import Dictionary, restored_kernel, stored_kernel
from squeak.core.nystrom import EigenFeatures
from squeak.core.rows import rows_from_arrays, rows_to_arrays
from squeak.core.sources import Preprocessing, reopen
from squeak.core.storage import NotStoredError
from squeak.core.types import Array
from squeak.dpp.preparing import Prepared
from squeak.dpp.proposals import Proposer
from squeak.dpp.store import MemoryRows, SourceRows
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
    arrays = {
        "mixing": surrogate.features.mixing,
        "spectrum": surrogate.spectrum,
        "bounds": prepared.bounds,
        **{DICTIONARY + name: array for name, array in described.items()},
    }
    recipe = preprocessing = None
    if isinstance(rows, MemoryRows):
        arrays.update(rows_to_arrays(rows.X, ROWS))
    else:
        recipe = rows.source.recipe
        if recipe is None:
            raise ValueError(
                "rows of an iterator or of a table in memory cannot be opened again: fit on an array or files"
            )
        if rows.source.preprocessing is not None:
            encoding, preprocessing = rows.source.preprocessing.to_parts(SOURCE)
            arrays.update(encoding)
    return arrays, {
        **stored_kernel(dpp.kernel_),
        "dictionary": content,
        "residual": surrogate.residual,
        "prepared_scale": prepared.scale,
        "exact": prepared.exact,
        "scale": dpp.scale_,
        "expected_size": None if dpp.expected_size is None else float(dpp.expected_size),
        "sampler": None if dpp.sampler is None else _sampler_to_data(dpp.sampler),
        "weighted": bool(dpp.weighted),
        "max_rejections": int(dpp.max_rejections),
        "n": rows.n,
        "recipe": recipe,
        "preprocessing": preprocessing,
        "seed": str(dpp._seed),
        "calls": dpp._calls,
        "attempts": dpp._attempts,
        "accepted": dpp._accepted,
    }


def dpp_from(cls: type[DPP], arrays: dict[str, Any], content: dict[str, Any], kernel: Any) -> DPP:
    """Return the DPP that :func:`parts_of` took apart; what does not fit together raises."""
    kernel = restored_kernel(content, kernel)
    inner = {name.removeprefix(DICTIONARY): a for name, a in arrays.items() if name.startswith(DICTIONARY)}
    dictionary = Dictionary.from_parts(inner, content["dictionary"], kernel=kernel)
    mixing, spectrum, bounds = (_finite(arrays[name], name) for name in ("mixing", "spectrum", "bounds"))
    n, exact, weighted = int(content["n"]), content["exact"], content["weighted"]
    if mixing.shape != (len(dictionary), len(spectrum)) or bounds.shape != (n,) or n < 1:
        raise ValueError("its arrays do not fit each other")
    if (spectrum < 0).any() or (bounds < 0).any() or not bounds.sum() > 0:
        raise ValueError("its scores are not those of a kernel")
    features = EigenFeatures.__new__(EigenFeatures)
    features.kernel, features.atoms, features.mixing = kernel, dictionary.atoms, mixing
    prepared = Prepared(
        Surrogate(features, spectrum, float(content["residual"])),
        float(content["prepared_scale"]),
        bounds,
        bool(exact),
        dictionary,
    )
    rows: MemoryRows | SourceRows
    if content["recipe"] is None:
        rows = MemoryRows(rows_from_arrays(arrays, ROWS))
        if rows.n != n:
            raise ValueError("its rows are not as many as it says")
    else:
        known = content["preprocessing"]
        encoding = None if known is None else Preprocessing.from_parts(arrays, known, prefix=SOURCE)
        rows = SourceRows(reopen(content["recipe"], encoding), kernel, n)
    found = cls(
        kernel,
        None if content["sampler"] is None else _sampler_from_data(content["sampler"]),
        expected_size=content["expected_size"],
        weighted=bool(weighted),
        max_rejections=int(content["max_rejections"]),
    )
    found._rows, found._seed, found.scale_ = rows, int(content["seed"]), float(content["scale"])
    found._prepared, found._proposer = {0: prepared}, Proposer(prepared, found.scale_)
    found._calls, found._attempts = int(content["calls"]), int(content["attempts"])
    found._accepted = int(content["accepted"])
    return found


def _finite(array: Any, name: str) -> Array:
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError(f"its {name} are not finite numbers")
    return np.asarray(array)


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
    made: Sampler = known[data["name"]](**data["params"])
    return made


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
