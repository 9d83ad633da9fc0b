"""Changes to a ``.sqk`` file: of its bytes, its zip, its JSON by structure, its arrays by shape and value."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import zipfile
from typing import Any

import numpy as np

NUMBERS = [0, -1, 1, 2, 7, 2**31, 2**53, 2**63, -(2**70), 10**400, 1e308, -1e308, 1e-320, -0.0, 0.5, 1e-9]
"""Numbers at which something may break."""

HOSTILE = [
    None,
    True,
    False,
    *NUMBERS,
    "",
    "x" * 500,
    "median",
    "auto",
    "1",
    "<U200000000",
    "nan",
    [],
    {},
    [[]] * 9,
]
HOSTILE += [[0.0], [1.0, 1.0], [None] * 200, ["a", "a"], {"a": 1}, {"array": [1e308, 1]}, {"array": [[1.0]]}]
HOSTILE += [{"number": "inf"}, {"kernel": None}, {"origin": "squeak", "name": "Sum", "params": {}}]
HOSTILE += [float("nan"), float("inf"), "../../x", "/", [["/usr"]]]


def taken_apart(data: bytes) -> dict[str, bytes]:
    """Return the members of a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def put_together(members: dict[str, bytes], *, honest: bool = True) -> bytes:
    """Return a file of these members; ``honest``: with the sizes and hashes that they have."""
    if honest and "meta.json" in members:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            meta = json.loads(members["meta.json"])
            meta["members"] = {
                name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                for name, data in members.items()
                if name != "meta.json"
            }
            members = {**members, "meta.json": json.dumps(meta).encode()}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def npy(array: Any) -> bytes:
    """Return an array as the bytes of a member."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def arrays_of(members: dict[str, bytes]) -> dict[str, Any]:
    """Return the arrays among the members."""
    return {name: np.load(io.BytesIO(data)) for name, data in members.items() if name.endswith(".npy")}


def change_bytes(data: bytes, rng: Any, others: list[bytes]) -> bytes:
    """Change a few bytes anywhere."""
    changed = bytearray(data)
    for place in rng.integers(0, len(data), rng.integers(1, 9)):
        changed[place] = rng.integers(256)
    return bytes(changed)


def cut(data: bytes, rng: Any, others: list[bytes]) -> bytes:
    """Cut the file short."""
    return data[: rng.integers(len(data))]


def drop_or_repeat(data: bytes, rng: Any, others: list[bytes]) -> bytes:
    """Drop or repeat a stretch of bytes."""
    a, b = sorted(rng.integers(0, len(data), 2))
    return data[:a] + data[b:] if rng.random() < 0.5 else data[:b] + data[a:]


def change_the_end(data: bytes, rng: Any, others: list[bytes]) -> bytes:
    """Change the zip's list of members, where sizes and offsets are."""
    changed = bytearray(data)
    start = data.rindex(b"PK\x01\x02") if rng.random() < 0.7 else len(data) - 22
    for place in rng.integers(start, len(data), rng.integers(1, 5)):
        changed[place] = rng.choice([0, 1, 0x7F, 0xFF, rng.integers(256)])
    return bytes(changed)


def splice(data: bytes, rng: Any, others: list[bytes]) -> bytes:
    """Go on with another file from a place on."""
    other = others[rng.integers(len(others))]
    at = rng.integers(min(len(data), len(other)))
    return data[:at] + other[at:]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Yield the places of everything within JSON data, the whole at first."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from leaves(inner, (*path, key))


def within(value: Any, path: tuple[Any, ...]) -> Any:
    """Return what is at a place of JSON data."""
    for key in path:
        value = value[key]
    return value


def nested(value: Any, depth: int) -> Any:
    """Return a value within so many lists."""
    for _ in range(depth):
        value = [value]
    return value


def change_meta(data: bytes, rng: Any, others: list[bytes]) -> bytes:
    """Change the content by its structure: a leaf, a branch, a missing or an extra entry, two swapped ones."""
    members = taken_apart(data)
    meta = json.loads(members["meta.json"])
    content = meta["content"]
    for _ in range(rng.integers(1, 3)):
        found = list(leaves(content))[1:]
        path = found[rng.integers(len(found))]
        holder, key, how = within(content, path[:-1]), path[-1], rng.random()
        if how < 0.1:
            del holder[key]
        elif how < 0.15 and isinstance(holder, dict):
            holder["extra"] = 1
        elif how < 0.25:
            other = found[rng.integers(len(found))]
            with contextlib.suppress(LookupError, TypeError):
                there = within(content, other[:-1])
                if len(other) >= len(path):
                    holder[key] = copy.deepcopy(there[other[-1]])
        elif how < 0.3:
            holder[key] = nested(holder[key], int(rng.choice([1, 2, 40, 300])))
        elif how < 0.4 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = holder[key] * [-1, 0, 2, 0.5, 1000, 10**7][rng.integers(6)]
        elif how < 0.45 and isinstance(holder[key], list) and holder[key]:
            holder[key] = holder[key] * int(rng.integers(2, 4)) if rng.random() < 0.5 else holder[key][:-1]
        else:
            holder[key] = copy.deepcopy(HOSTILE[rng.integers(len(HOSTILE))])
    members["meta.json"] = json.dumps(meta).encode()
    return put_together(members)


def change_array(data: bytes, rng: Any, others: list[bytes]) -> bytes:
    """Change an array's values, shape, type or header; sizes and hashes are honest."""
    members = taken_apart(data)
    arrays = arrays_of(members)
    if not arrays:
        return change_meta(data, rng, others)
    name = sorted(arrays)[rng.integers(len(arrays))]
    array, how = arrays[name], rng.integers(12)
    if how in (0, 1, 2) and array.size:
        array = array.copy()
        bad = [0, -1, 1, 2**62, len(array)] if array.dtype.kind == "i" else [np.nan, np.inf, -1.0, 1e308, 0.0, 2.0]
        which = rng.integers(array.size) if how < 2 else slice(None)
        with np.errstate(over="ignore", invalid="ignore"):
            array.reshape(-1)[which] = np.array(bad)[rng.integers(len(bad))].astype(array.dtype)
    elif how == 3:
        array = array[: rng.integers(len(array) + 1)] if array.ndim else array
    elif how == 4:
        with np.errstate(invalid="ignore"):
            array = array.astype(rng.choice(["<f8", "<f4", "<i8", "<i4", "|b1", "|u1", "<c16", "<u8"]))
    elif how == 5:
        array = array.reshape(-1) if rng.random() < 0.5 else array[None]
    elif how == 6:
        array = np.ascontiguousarray(array.T) if rng.random() < 0.5 else array[..., :-1] if array.ndim else array
    elif how == 7:
        array = np.repeat(array, 2, axis=int(rng.integers(array.ndim))) if array.ndim else array
    elif how == 8:
        array = arrays[sorted(arrays)[rng.integers(len(arrays))]]
    elif how == 9:
        return put_together({key: value for key, value in members.items() if key != name})
    text = npy(array)
    if how == 10:
        text = text.replace(b"(", b"(99999999999, ", 1)
    elif how == 11:
        text = text.replace(b"'fortran_order': False", b"'fortran_order': __import__", 1)
    return put_together({**members, name: text})


def grow(data: bytes, rng: Any, others: list[bytes]) -> bytes:
    """Repeat everything of one length, in all arrays alike: a larger file whose arrays still fit each other."""
    members = taken_apart(data)
    arrays = arrays_of(members)
    lengths = sorted({length for array in arrays.values() for length in array.shape})
    if not lengths:
        return change_meta(data, rng, others)
    length, times = lengths[rng.integers(len(lengths))], int(rng.choice([2, 3, 20]))
    for name, array in arrays.items():
        for axis, size in enumerate(array.shape):
            if size == length and array.nbytes * times < 2**20:
                array = np.repeat(array, times, axis=axis)
        members[name] = npy(array)
    if rng.random() < 0.7:
        meta = json.loads(members["meta.json"])
        for path in list(leaves(meta["content"]))[1:]:
            holder = within(meta["content"], path[:-1])
            if type(holder[path[-1]]) is int and holder[path[-1]] == length:
                holder[path[-1]] = length * times
        members["meta.json"] = json.dumps(meta).encode()
    return put_together(members)


def change_zip(data: bytes, rng: Any, others: list[bytes]) -> bytes:
    """Add, rename or exchange members."""
    members = taken_apart(data)
    name, how = list(members)[rng.integers(len(members))], rng.integers(4)
    if how == 0:
        members["extra.npy"] = npy(np.zeros(3))
    elif how == 1:
        members[f"../{name}"] = members.pop(name)
    elif how == 2:
        members[name] = taken_apart(others[rng.integers(len(others))]).get(name, b"")
    else:
        other = taken_apart(others[rng.integers(len(others))])
        members["meta.json"] = other["meta.json"]
    return put_together(members, honest=bool(rng.random() < 0.7))


MUTATIONS = [
    *(change_bytes, cut, drop_or_repeat, change_the_end, splice, change_zip, grow),
    *(change_meta, change_meta, change_meta, change_meta, change_array, change_array, change_array),
]
