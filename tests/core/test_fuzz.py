"""Files from strangers: mutated files of every kind are refused or work, and never cost more than they may."""

import gc
import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest

import squeak
from squeak import kinds
from squeak.core import storage
from squeak.core.storage import StorageError
from tests.core import fuzzing
from tests.core.mutations import put_together, taken_apart
from tests.core.specimens import SPECIMENS

QUICK, ALL, PARTS = 400, 100_000, 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a clean file of a dictionary, as bytes."""
    return fuzzing.files_of(tmp_path_factory.mktemp("whole"), "dictionary, table")["dictionary, table"]


def words(found):
    """Return the failures as text, the first few of them."""
    return "\n".join(map(str, found.failures[:10]))


def test_mutated_files_of_every_kind_are_refused_or_work():
    """400 of them: on load a StorageError or an object, in use finite numbers or a ValueError, within bounds."""
    found = fuzzing.run(QUICK, seed=0)
    assert not found.failures, words(found)
    assert found.counts["refused"] > QUICK / 3
    assert found.counts["used"] > QUICK / 20  # some changes are idle: the mutations are not all caught by one check


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_a_hundred_thousand_mutated_files_are_refused_or_work(part):
    found = fuzzing.run(ALL // PARTS, seed=part)
    assert not found.failures, words(found)


def test_every_kind_of_file_has_a_specimen(tmp_path):
    found = {json.loads(taken_apart(data)["meta.json"])["kind"] for data in fuzzing.files_of(tmp_path).values()}
    assert found == set(kinds.KINDS)


def test_the_net_catches_a_reader_that_believes_the_file(monkeypatch):
    """With the walker asleep, the same mutations do more than they may."""
    from squeak.core import state

    monkeypatch.setattr(state, "_check_array", lambda *rest: None)
    monkeypatch.setattr(state, "_check_range", lambda *rest: None)
    assert fuzzing.run(300, seed=0, only="kernel-ridge").failures


def test_the_audit_would_notice():
    fuzzing.watch()
    fuzzing._watching.append("begin")
    try:
        eval("1 + 1")
        assert "compile" in fuzzing._watching
    finally:
        fuzzing._watching.clear()


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
    path.write_bytes(put_together({**taken_apart(whole), "meta.json": BOMBS[kind]}, honest=False))
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
        for number in range(15_000):
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
    path.write_bytes(put_together({**taken_apart(whole), "atoms.npy": whole}))
    with pytest.raises(StorageError, match="not an npy array"):
        squeak.load(path)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**taken_apart(whole), "atoms.npy": bytes(50_000_000)}.items():
            archive.writestr(name, data)
    path.write_bytes(stream.getvalue())
    tracemalloc.start()
    try:
        with pytest.raises(StorageError, match="is compressed"):
            squeak.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def changed(tmp_path, name, change):
    """Return the path of a specimen's file with its content and arrays changed."""
    data = fuzzing.files_of(tmp_path, name)[name]
    members = taken_apart(data)
    meta = json.loads(members["meta.json"])
    change(meta["content"])
    path = tmp_path / "changed.sqk"
    path.write_bytes(put_together({**members, "meta.json": json.dumps(meta).encode()}))
    return path


def changed_array(tmp_path, name, array, make):
    """Return the path of a specimen's file in which one array is another, with its description made to fit."""
    members = taken_apart(fuzzing.files_of(tmp_path, name)[name])
    stream = io.BytesIO()
    np.save(stream, make(np.load(io.BytesIO(members[f"{array}.npy"]))))
    path = tmp_path / "changed.sqk"
    path.write_bytes(put_together({**members, f"{array}.npy": stream.getvalue()}))
    return path


def test_a_penalty_of_zero_is_refused(tmp_path):
    """It is divided by: the standard deviations would be infinite."""
    with pytest.raises(StorageError, match="'alpha' holds NaN, or lies outside"):
        squeak.load(changed(tmp_path, "kernel-ridge", lambda content: content.update(alpha=0)))


def test_a_stream_that_can_keep_nothing_is_refused(tmp_path):
    with pytest.raises(StorageError, match="'eps' holds NaN, or lies outside"):
        squeak.load(changed(tmp_path, "stream", lambda content: content["plan"].update(eps=1)))


def test_a_model_without_a_single_score_is_refused(tmp_path):
    with pytest.raises(StorageError, match="do not fit each other"):
        squeak.load(changed_array(tmp_path, "auto-regressor", "scores", lambda scores: scores[:0]))


def deep(content):
    width = 1.0
    for _ in range(900):
        width = [width]
    content["kernel"]["params"]["length_scale"] = width


LONG = ["x" * 1_000_000, *(str(number) for number in range(100_000))]
COSTLY = {
    "classes of a wide type": ("kernel-classifier", lambda c: c.update(classes_dtype="<U200000000"), None),
    "one long class of many": ("kernel-classifier", lambda c: c.update(classes=LONG), "too long"),
    "frequencies": (
        "online, FOGDRegressor",
        lambda c: c["params"].update(n_features=300_000_000),
        "not those of 300000000",
    ),
    "frequencies beside rows": (
        "online, DualSGDRegressor",
        lambda c: c["params"].update(n_features=300_000_000),
        "not those of 300000000",
    ),
    "choices": (
        "box_ucb, mixed",
        lambda c: c["sides"][0].update(choices=list(map(str, range(200_000)))),
        "columns; 21,201 are the most",
    ),
    "deep width": ("dictionary", deep, "nested more than 100 deep"),
    "infinite number": ("dictionary", lambda c: c.update(ridge=float("inf")), "which no squeak file has"),
}


@pytest.mark.parametrize("case", COSTLY)
def test_small_files_that_ask_for_much_cost_little(case, tmp_path):
    name, change, message = COSTLY[case]
    path = changed(tmp_path, name, change)
    gc.collect()
    tracemalloc.start()
    try:
        if message is None:
            assert squeak.load(path) is not None
        else:
            with pytest.raises(StorageError, match=message):
                squeak.load(path)
        assert tracemalloc.get_traced_memory()[1] < 30 * 2**20 + 4 * path.stat().st_size
    finally:
        tracemalloc.stop()


def test_what_is_loaded_goes_on_as_the_object_that_was_saved(tmp_path):
    """The walker refuses nothing that squeak writes, and the loaded object gives the same numbers."""
    fuzzing.files_of(tmp_path, "files")
    for name, specimen in SPECIMENS.items():
        obj = specimen.make()
        if obj is None or name == "dpp, files":
            continue
        specimen.save(obj, tmp_path / "x.sqk")
        again = specimen.use(specimen.load(tmp_path / "x.sqk"))
        for ours, theirs in zip(specimen.use(obj), again, strict=True):
            if not isinstance(ours, str):
                assert np.array_equal(ours, theirs), name


def test_numbers_that_come_out_infinite_are_refused(tmp_path, monkeypatch):
    """The last check of all, whatever a class's own reader lets through."""
    path, keep = changed(tmp_path, "kernel-pca", lambda content: None), squeak.KernelPCA._keep

    def careless(model, stream):
        keep(model, stream).eigenvalues_[0] = np.inf
        return model

    monkeypatch.setattr(squeak.KernelPCA, "_keep", careless)
    with pytest.raises(StorageError, match="eigenvalues_ comes out as infinite or NaN"):
        squeak.load(path)


@pytest.mark.parametrize("lost", ["gram", "mixing"])
def test_a_ridge_file_without_its_factor_or_its_features_alone_is_refused(lost, tmp_path):
    members = taken_apart(fuzzing.files_of(tmp_path, "kernel-ridge")["kernel-ridge"])
    meta = json.loads(members["meta.json"])
    del members[f"{lost}.npy"], meta["members"][f"{lost}.npy"]
    path = tmp_path / "lost.sqk"
    path.write_bytes(put_together({**members, "meta.json": json.dumps(meta).encode()}))
    with pytest.raises(StorageError, match="without its features, or these without it"):
        squeak.load(path)
