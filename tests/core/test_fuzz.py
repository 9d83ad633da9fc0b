"""Files from strangers: 12,000 mutated files never do more than raise, and never cost more than they may."""

import contextlib
import copy
import gc
import hashlib
import io
import json
import sys
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import squeak
from squeak import Kors, Squeak
from squeak.core import storage
from squeak.core.storage import StorageError
from squeak.kernels import RBF, Linear, Matern

FILES = 12_000
FORBIDDEN = ("compile", "exec", "pickle.find_class", "os.system", "os.exec", "os.fork", "subprocess.Popen")
HOSTILE = [None, True, -1, 0, 1, 2**31, 2**63, -(2**70), 1e308, -0.0, 1e-320, "", "x" * 500, [], {}, [[]] * 9]
HOSTILE += ["inf", {"array": [1e999]}, [None] * 200, {"origin": "squeak", "name": "Sum", "params": {}}]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return one clean file of each kind, as bytes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    frame = pd.DataFrame({"km": X[:, 0], "to": np.where(X[:, 1] > 0, "A", "B")})
    table = squeak.rows(frame, scale="standard", missing="mean")
    objects = [
        Squeak(kernel=RBF(np.array([1.0, 2.0])), ridge=1.0, random_state=0).fit(X).dictionary_,
        Kors(kernel=2.0 * Matern(1.0) + Linear(), ridge=1.0, random_state=0)
        .fit(sp.csr_array(X * (X > 0)))
        .dictionary_,
        Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(table).dictionary_,
        Squeak(kernel=RBF("median"), max_atoms=20, random_state=0).fit(X),
        table.preprocessing,
    ]
    folder = tmp_path_factory.mktemp("whole")
    files = []
    for number, obj in enumerate(objects):
        squeak.save(obj, folder / f"{number}.sqk")
        squeak.load(folder / f"{number}.sqk")  # whatever is imported on the way is imported now
        files.append((folder / f"{number}.sqk").read_bytes())
    return files


def taken_apart(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def put_together(members, *, honest=True):
    if honest and "meta.json" in members:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            meta = json.loads(members["meta.json"])
            for name in meta["members"]:
                facts = {"size": len(members[name]), "sha256": hashlib.sha256(members[name]).hexdigest()}
                meta["members"][name] = facts
            members = {**members, "meta.json": json.dumps(meta).encode()}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def change_bytes(data, rng, files):
    changed = bytearray(data)
    for place in rng.integers(0, len(data), rng.integers(1, 9)):
        changed[place] = rng.integers(256)
    return bytes(changed)


def cut(data, rng, files):
    return data[: rng.integers(len(data))]


def drop_or_repeat(data, rng, files):
    a, b = sorted(rng.integers(0, len(data), 2))
    return data[:a] + data[b:] if rng.random() < 0.5 else data[:b] + data[a:]


def change_the_end(data, rng, files):
    """Change the zip's list of members, where sizes and offsets are."""
    changed = bytearray(data)
    start = data.rindex(b"PK\x01\x02") if rng.random() < 0.7 else len(data) - 22
    for place in rng.integers(start, len(data), rng.integers(1, 5)):
        changed[place] = rng.choice([0, 1, 0x7F, 0xFF, rng.integers(256)])
    return bytes(changed)


def splice(data, rng, files):
    other = files[rng.integers(len(files))]
    at = rng.integers(min(len(data), len(other)))
    return data[:at] + other[at:]


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def change_meta(data, rng, files):
    """Put a hostile value somewhere into the JSON; sizes and hashes are honest."""
    members = taken_apart(data)
    meta = json.loads(members["meta.json"])
    for _ in range(rng.integers(1, 3)):
        found = list(places(meta.get("content", {}), ("content",)))
        path = found[rng.integers(len(found))]
        holder = meta
        for key in path[:-1]:
            holder = holder[key] if not isinstance(holder, dict) or key in holder else {}
        if isinstance(holder, dict) and rng.random() < 0.2:
            holder.pop(path[-1], None)
        elif isinstance(holder, dict) or (isinstance(holder, list) and path[-1] < len(holder)):
            holder[path[-1]] = copy.deepcopy(HOSTILE[rng.integers(len(HOSTILE))])
    members["meta.json"] = json.dumps(meta).encode()
    return put_together(members)


def change_array(data, rng, files):
    """Change an array's values, shape, type or header; sizes and hashes are honest."""
    members = taken_apart(data)
    names = [name for name in members if name.endswith(".npy")]
    if not names:
        return change_meta(data, rng, files)
    name = names[rng.integers(len(names))]
    array = np.load(io.BytesIO(members[name]))
    how = rng.integers(6)
    if how == 0 and array.size:
        array = array.copy()
        bad = [0, -1, 2**62] if array.dtype.kind == "i" else [np.nan, np.inf, -1.0, 1e308, 0.0]
        array.reshape(-1)[rng.integers(array.size)] = np.array(bad)[rng.integers(len(bad))].astype(array.dtype)
    elif how == 1:
        array = array[: rng.integers(len(array) + 1)] if array.ndim else array
    elif how == 2:
        with np.errstate(invalid="ignore"):
            array = array.astype(rng.choice(["<f8", "<i8", "<i4", "|b1", "<c16", "<u8"]))
    elif how == 3:
        array = array.reshape(-1) if rng.random() < 0.5 else array[None]
    stream = io.BytesIO()
    np.save(stream, array)
    text = stream.getvalue()
    if how == 4:
        text = text.replace(b"(", b"(99999999999, ", 1)
    elif how == 5:
        text = text.replace(b"'fortran_order': False", b"'fortran_order': __import__", 1)
    return put_together({**members, name: text})


MUTATIONS = [change_bytes, cut, drop_or_repeat, change_the_end, splice, change_meta, change_meta, change_array]
watching = []


def audit(event, arguments):
    if watching and event in FORBIDDEN:
        watching.append(event)


@pytest.mark.parametrize("quarter", range(4))
def test_twelve_thousand_mutated_files_do_no_more_than_raise(quarter, whole, tmp_path):
    """Every one loads or gives a StorageError; none runs code; none allocates more than it may."""
    sys.addaudithook(audit)
    rng, path = np.random.default_rng(quarter), tmp_path / "x.sqk"
    refused = loaded = 0
    for number in range(FILES // 4):
        mutate = MUTATIONS[number % len(MUTATIONS)]
        data = mutate(whole[rng.integers(len(whole))], rng, whole)
        path.write_bytes(data)
        watching.append("begin")
        tracemalloc.start()
        try:
            squeak.load(path)
            loaded += 1
        except (StorageError, storage.NotStoredError):
            refused += 1
        finally:
            seen, peak = watching[1:], tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            watching.clear()
        assert not seen, (number, mutate.__name__, seen)
        assert peak < 4 * len(data) + 2**20, (number, mutate.__name__, peak, len(data))
    assert refused > FILES / 8
    assert loaded > FILES / 400  # some changes are idle: the mutations are not all caught by one check


def test_the_audit_would_notice():
    sys.addaudithook(audit)
    watching.append("begin")
    try:
        eval("1 + 1")
        assert "compile" in watching
    finally:
        watching.clear()


BOMBS = {
    "empty lists": b"[" + b"[]," * 1_390_000 + b"[]]",
    "small objects": b"[" + b'{"":0},' * 590_000 + b"{}]",
    "digits": b"[" + b"1," * 2_090_000 + b"1]",
    "deep": b"[" * 4_000_000,
    "long number": b"9" * 4_000_000,
    "too large": b" " * (storage.META_LIMIT + 1),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_the_largest_meta_costs_no_more_than_stated(kind, whole, tmp_path):
    path = tmp_path / "bomb.sqk"
    path.write_bytes(put_together({**taken_apart(whole[0]), "meta.json": BOMBS[kind]}, honest=False))
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.raises(StorageError):
            squeak.load(path)
        assert tracemalloc.get_traced_memory()[1] < storage.META_COST + 4 * path.stat().st_size
    finally:
        tracemalloc.stop()


def test_a_zip_of_many_members_is_refused_before_they_are_listed(tmp_path):
    path = tmp_path / "many.sqk"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(60_000):
            archive.writestr(str(number), b"")
    tracemalloc.start()
    try:
        with pytest.raises(StorageError, match="list of members is not that of a squeak file"):
            squeak.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_zips_within_zips_and_compressed_bombs_are_refused(whole, tmp_path):
    path = tmp_path / "x.sqk"
    path.write_bytes(put_together({**taken_apart(whole[0]), "atoms.npy": whole[0]}))
    with pytest.raises(StorageError, match="not an npy array"):
        squeak.load(path)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**taken_apart(whole[0]), "atoms.npy": bytes(50_000_000)}.items():
            archive.writestr(name, data)
    path.write_bytes(stream.getvalue())
    tracemalloc.start()
    try:
        with pytest.raises(StorageError, match="is compressed"):
            squeak.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
