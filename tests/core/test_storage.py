import contextlib
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as gp

import squeak
from squeak import Dictionary, Kors, Squeak
from squeak.core.storage import StorageError
from squeak.data import Preprocessing
from squeak.data.columns import CodeColumn, NumberColumn
from squeak.kernels import RBF, Linear, Matern, PairwiseKernel
from squeak.samplers import Uniform


@pytest.fixture
def d(rng):
    return Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(rng.standard_normal((300, 2))).dictionary_


@pytest.fixture
def saved(d, tmp_path):
    d.save(tmp_path / "d.sqk")
    return tmp_path / "d.sqk"


KINDS = {
    "float32": (lambda X: X.astype(np.float32), RBF(np.array([1.0, 2.0]))),
    "sparse": (lambda X: sp.csr_matrix(X * (X > 0.5)), Linear(offset=1.0)),
    "sparse float32": (lambda X: sp.csr_array(X * (X > 0.5)).astype(np.float32), 2.0 * Matern(1.0, nu=0.5)),
    "scikit-learn": (lambda X: X, gp.ConstantKernel(2.0, (1e-5, np.inf)) * gp.RBF([1.0, 2.0]) + gp.DotProduct()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows_and_kernels_comes_back(kind, rng, tmp_path):
    make, kernel = KINDS[kind]
    d = (
        Kors(kernel=kernel, ridge=1.0, copies=4, random_state=0)
        .fit(make(rng.standard_normal((200, 2))))
        .dictionary_
    )
    d.save(tmp_path / "d.sqk")
    back = Dictionary.load(tmp_path / "d.sqk")
    assert back == d
    assert back.atoms.dtype == d.atoms.dtype
    assert back.effective_dimension() == d.effective_dimension()


def letters(a, b):
    return float(len(set(a) & set(b)))


def test_text_comes_back_and_code_is_asked_for_again(tmp_path):
    kernel = PairwiseKernel(letters)
    d = Squeak(kernel=kernel, ridge=0.1, random_state=0).fit(["squeak", "ünder", "", "größe"]).dictionary_
    d.save(tmp_path / "d.sqk")
    assert Dictionary.load(tmp_path / "d.sqk", kernel=kernel) == d
    with pytest.raises(ValueError, match=r"its kernel .*letters.* is code and is not stored; pass it"):
        Dictionary.load(tmp_path / "d.sqk")
    objects = Squeak(kernel=PairwiseKernel(lambda a, b: 1.0), ridge=0.1, random_state=0).fit([{1}, {2}]).dictionary_
    with pytest.raises(TypeError, match="rows of numbers or text"):
        objects.save(tmp_path / "o.sqk")
    assert not (tmp_path / "o.sqk").exists()


def rewrite(path, change, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def meta(change):
    def edit(members):
        facts = json.loads(members["meta.json"])
        change(facts)
        members["meta.json"] = json.dumps(facts).encode()

    return edit


def object_array(members):
    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    replace_member(members, "counts.npy", stream.getvalue())


def replace_member(members, name, data):
    import hashlib

    members[name] = data
    facts = json.loads(members["meta.json"])
    facts["members"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    members["meta.json"] = json.dumps(facts).encode()


def claims_to_be_huge(members):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2**20)})
    replace_member(members, "atoms.npy", stream.getvalue())


HOSTILE = {
    "other kind": (meta(lambda f: f.update(kind="model")), "holds a 'model'"),
    "newer": (meta(lambda f: f.update(version=99)), "format version 99.*update squeak"),
    "not ours": (meta(lambda f: f.update(format="zip")), "not a squeak file"),
    "altered": (lambda m: m.update({"counts.npy": m["counts.npy"][:-1] + b"\x07"}), "was altered"),
    "other size": (lambda m: m.update({"counts.npy": m["counts.npy"] + b"x"}), "another size than listed"),
    "extra member": (lambda m: m.update({"evil.py": b"boom"}), "not the ones it lists"),
    "missing member": (lambda m: m.pop("counts.npy"), "not the ones it lists"),
    "no meta": (lambda m: m.pop("meta.json"), "list of members"),
    "meta is a list": (lambda m: m.update({"meta.json": b"[]"}), "not a squeak file"),
    "deep meta": (lambda m: m.update({"meta.json": b"[" * 100_000}), "not a"),
    "not JSON": (lambda m: m.update({"meta.json": b"\xff{"}), "not a whole squeak file"),
    "pickle inside": (object_array, "no squeak object has"),
    "huge claim": (claims_to_be_huge, "its bytes do not"),
    "unknown kernel": (meta(lambda f: f["content"]["kernel"].update(name="system")), "no kernel is known"),
    "bad ridge": (meta(lambda f: f["content"].update(ridge=-1)), "content is damaged"),
    "bad n_seen": (meta(lambda f: f["content"].update(n_seen=5)), "content is damaged"),
    "bad sources": (meta(lambda f: f["content"].update(sources=[["a"]])), "content is damaged"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_damaged_and_hostile_files_get_a_clear_error(kind, saved):
    change, message = HOSTILE[kind]
    rewrite(saved, change)
    with pytest.raises(StorageError, match=message):
        Dictionary.load(saved)


def test_compressed_cut_and_foreign_files_are_refused(saved, tmp_path):
    whole = saved.read_bytes()
    for cut in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:cut])
        with pytest.raises(StorageError, match="not a whole squeak file"):
            Dictionary.load(saved)
    saved.write_bytes(whole)
    rewrite(saved, lambda m: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(StorageError, match="is compressed"):
        Dictionary.load(saved)
    saved.write_bytes(whole)
    with pytest.raises(ValueError, match="was learned with RBF"):
        Dictionary.load(saved, kernel=Linear())
    with pytest.raises(FileNotFoundError):
        Dictionary.load(tmp_path / "nowhere.sqk")


def test_random_damage_never_does_more_than_raise(saved, d):
    """300 files with a few bytes changed each: an error of ours, or (where the change is idle) the same object."""
    whole, rng = saved.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            data[place] = int(rng.integers(256))
        saved.write_bytes(bytes(data))
        with contextlib.suppress(ValueError):
            assert Dictionary.load(saved) == d


def test_a_failed_write_leaves_the_old_file(saved, d, monkeypatch):
    import os

    before = saved.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        d.save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_file_of_version_1_is_still_read():
    """Written by the first release of the format, before preprocessing and checkpoints."""
    old = Path(__file__).parents[1] / "data" / "dictionary-v1.sqk"
    with zipfile.ZipFile(old) as archive:
        assert json.loads(archive.read("meta.json"))["version"] == 1
    d = squeak.load(old)
    assert (len(d), d.n_seen, d.kernel, d.preprocessing) == (146, 2000, RBF(2.0), None)
    X = np.random.default_rng(0).standard_normal((2000, 2))
    now = Squeak(kernel=RBF(2.0), ridge=1.0, oversampling=10, random_state=0).fit(X).dictionary_
    assert np.array_equal(d.atoms, now.atoms)
    assert np.array_equal(d.counts, now.counts)
    np.testing.assert_allclose(d.probabilities, now.probabilities, rtol=1e-9)  # on whatever processor


def test_every_kind_of_object_comes_back_from_save_and_load(rng, tmp_path):
    X = rng.standard_normal((500, 2))
    source = squeak.rows(X, scale="robust")
    sampler = Squeak(kernel=RBF("median"), max_atoms=30, random_state=0).fit(source)
    for obj in (sampler.dictionary_, source.preprocessing):
        squeak.save(obj, tmp_path / "x.sqk")
        assert squeak.load(tmp_path / "x.sqk") == obj
    squeak.save(sampler, tmp_path / "x.sqk")
    again = squeak.load(tmp_path / "x.sqk")
    assert again.get_params() == sampler.get_params()
    more = rng.standard_normal((500, 2))
    assert again.partial_fit(more).dictionary_ == sampler.partial_fit(more).dictionary_
    assert again.history_ == sampler.history_


def test_what_cannot_be_saved_says_so(rng, tmp_path):
    fitted = Uniform(kernel=RBF(1.0), max_atoms=5, random_state=0).fit(rng.standard_normal((20, 2)))
    with pytest.raises(TypeError, match="a Uniform cannot be saved: save its dictionary_"):
        squeak.save(fitted, tmp_path / "x.sqk")
    with pytest.raises(NotFittedError, match="has seen no rows"):
        squeak.save(Squeak(), tmp_path / "x.sqk")
    with pytest.raises(TypeError, match="ridge is code, which is never stored"):
        squeak.save(Squeak(kernel=RBF(1.0), ridge=lambda n: 1.0).fit(rng.random((20, 2))), tmp_path / "x.sqk")
    assert not (tmp_path / "x.sqk").exists()


def with_array(path, name, change):
    """Write an array of a file anew, honestly hashed."""

    def edit(members):
        array = np.load(io.BytesIO(members[f"{name}.npy"])).copy()
        stream = io.BytesIO()
        np.save(stream, change(array))
        replace_member(members, f"{name}.npy", stream.getvalue())

    rewrite(path, edit)


def first_is(value):
    def change(array):
        array.reshape(-1)[0] = value
        return array

    return change


@pytest.mark.parametrize("cls", [Squeak, Kors])
@pytest.mark.parametrize(
    ("name", "value"),
    [("indices", -5), ("probabilities", 7.0), ("weights", np.nan), ("factor", np.inf), ("counts", 9)],
)
def test_a_stream_of_impossible_numbers_is_refused(cls, name, value, rng, tmp_path):
    squeak.save(cls(RBF(1.0), ridge=1.0, random_state=0).fit(rng.standard_normal((50, 2))), tmp_path / "s.sqk")
    with_array(tmp_path / "s.sqk", name, first_is(value))
    with pytest.raises(StorageError, match=rf"content is damaged: ValueError: '{name}'"):
        squeak.load(tmp_path / "s.sqk")


@pytest.mark.parametrize("change", [first_is(np.nan), lambda a: a[:3], lambda a: a[None], lambda a: a.astype(int)])
@pytest.mark.parametrize("name", ["dual_coef", "intercept"])
def test_coefficients_that_no_model_has_are_refused(name, change, rng, tmp_path):
    X = rng.standard_normal((50, 2))
    squeak.KernelRidge(RBF(1.0), max_atoms=9, random_state=0).fit(X, np.c_[X, X]).save(tmp_path / "m.sqk")
    with_array(tmp_path / "m.sqk", "intercept", lambda a: np.zeros(4))  # one for each output, as after a centring
    squeak.load(tmp_path / "m.sqk").predict(X)
    with_array(tmp_path / "m.sqk", name, change)
    with pytest.raises(StorageError, match="content is damaged"):
        squeak.load(tmp_path / "m.sqk")


def test_a_model_of_a_hundred_thousand_named_columns_comes_back(rng, tmp_path):
    names = [f"column_{i}" for i in range(100_000)]
    frame = pd.DataFrame(rng.random((3, len(names))), columns=names)
    model = squeak.KernelRidge(RBF(1e3), alpha=1.0).fit(frame, [1.0, 2.0, 3.0])
    encoding = Preprocessing((CodeColumn(names[0], ("a",)), *map(NumberColumn, names[1:])))
    model.dictionary_ = replace(model.dictionary_, preprocessing=encoding)
    squeak.save(model, tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    assert again.dictionary_.preprocessing == encoding
    assert again.feature_names_in_.tolist() == names
