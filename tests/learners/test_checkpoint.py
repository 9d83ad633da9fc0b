"""Fits that are stopped go on from their checkpoint and end in the same bits."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import squeak
from squeak import KernelClassifier, KernelRidge
from squeak.core import storage
from squeak.core.storage import StorageError
from squeak.data import RowSource, readers
from squeak.data import blocks as sources
from squeak.kernels import RBF
from squeak.learners import KernelRidgeCV
from squeak.places import Executors, use
from squeak.samplers import Uniform
from squeak.trees.sums import GROUP
from tests.stopping import StoppedError, run_with_stops, stopped


@pytest.fixture
def rows(monkeypatch):
    """Return a source of rows in blocks of 256, with numbers or classes as targets."""
    monkeypatch.setattr(sources, "BLOCK_BYTES", 8)
    rng = np.random.default_rng(0)
    X = rng.random((1500, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(1500)
    classes = np.array(["low", "middle", "high"])[np.digitize(y, [0.3, 1.0])]
    return lambda kind="numbers", n=1500: squeak.rows(X[:n], (y if kind == "numbers" else classes)[:n])


RIDGE = {"kernel": RBF(0.5), "alpha": 0.1, "fit_intercept": True, "random_state": 0}
FITS = {
    "direct": (
        lambda: KernelRidge(**{**RIDGE, "kernel": RBF("auto"), "alpha": "auto"}, max_atoms=30),
        "numbers",
        3,
    ),
    "falkon": (lambda: KernelRidge(**RIDGE, max_atoms=30, solver="falkon"), "numbers", 5),
    "sketched": (lambda: KernelRidge(**RIDGE, sampler=Uniform(max_atoms=30), solver="falkon"), "numbers", 7),
    "given rows": (lambda: KernelRidge(**RIDGE, dictionary=np.random.default_rng(1).random((20, 2))), "numbers", 3),
    "cross-validated": (
        lambda: KernelRidgeCV(RBF(0.5), alphas=[0.1, 1.0], max_atoms=30, random_state=0),
        "numbers",
        4,
    ),
    "classes": (lambda: KernelClassifier(RBF(0.5), alpha=0.1, max_atoms=30, random_state=0), "classes", 3),
    "logistic": (
        lambda: KernelClassifier(RBF(0.5), alpha=1.0, loss="logistic", max_atoms=20, random_state=0),
        "classes",
        60,
    ),
}


LONG = ("sketched", "logistic", "cross-validated")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in FITS]
)
def test_a_stopped_fit_goes_on_in_the_same_bits(rows, tmp_path, monkeypatch, name):
    make, kind, writes = FITS[name]
    path = tmp_path / "run.sqk"
    whole = make().fit(rows(kind))
    found, stops = run_with_stops(monkeypatch, lambda: make().fit(rows(kind), checkpoint=path, every=0), writes)
    assert stops >= 2
    for model in (found, make().fit(rows(kind), checkpoint=path)):  # the second time nothing is left to do
        assert np.array_equal(model.dual_coef_, whole.dual_coef_)
        assert np.array_equal(model.intercept_, whole.intercept_)
        assert model.dictionary_ == whole.dictionary_


class Workers(Executors):
    """Two threads that stand for workers, and need nothing pickled."""

    def __init__(self, keeps):
        super().__init__(lambda: ThreadPoolExecutor(2))
        self.keeps = keeps

    def _packed(self, function, values):
        return lambda: function(*values)


@pytest.mark.parametrize("name", ["direct", "falkon", "classes", "given rows"])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_stopped_fit_of_workers_goes_on_in_the_same_bits(rows, tmp_path, monkeypatch, name, keeps):
    """There are 38 parts, three groups: a fit is stopped within a pass, and goes on there."""
    monkeypatch.setattr(readers, "PART", 40)
    make, kind, _ = FITS[name]
    path = tmp_path / "run.sqk"
    with use(Workers(keeps)):
        whole = make().fit(rows(kind))
        found, stops = run_with_stops(monkeypatch, lambda: make().fit(rows(kind), checkpoint=path, every=0), 2)
        again = make().fit(rows(kind), checkpoint=path)
    assert stops >= 1
    for model in (found, again):
        assert np.array_equal(model.dual_coef_, whole.dual_coef_)
        assert np.array_equal(model.intercept_, whole.intercept_)


def test_workers_do_not_sum_again_what_a_checkpoint_holds(rows, tmp_path, monkeypatch):
    """The fit is stopped after two groups of parts: workers read the rest; without them the pass begins again."""
    monkeypatch.setattr(readers, "PART", 40)
    path, runs, real = tmp_path / "run.sqk", [], RowSource.part_pairs
    make = FITS["given rows"][0]

    def counted(source, first, stop):
        runs[-1].append(first)
        return real(source, first, stop)

    def fit():
        runs.append([])
        return make().fit(rows(), checkpoint=path, every=0)

    whole = make().fit(rows())
    with use(Workers(True)), monkeypatch.context() as patch:
        patch.setattr(RowSource, "part_pairs", counted)
        found, _ = run_with_stops(monkeypatch, fit, writes=2)
        assert sorted(runs[0]) == list(range(38))
        assert sorted(runs[1]) == list(range(2 * GROUP, 38))
        path.unlink()
        with pytest.raises(StoppedError):
            stopped(monkeypatch, fit, writes=2)
    assert storage.read(path, "fit")[2]["part"] == 2 * GROUP
    for model in (found, make().fit(rows(), checkpoint=path)):
        assert np.array_equal(model.dual_coef_, whole.dual_coef_)


def stop_early(rows, path, monkeypatch):
    def stopping(*arguments):
        write(*arguments)
        raise KeyboardInterrupt

    write = storage.write
    model = KernelRidge(**RIDGE, max_atoms=30)
    with monkeypatch.context() as patch:
        patch.setattr(storage, "write", stopping)
        with pytest.raises(KeyboardInterrupt):
            model.fit(rows(), checkpoint=path, every=0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 0.2}, r"another alpha \(0.1; now 0.2\)"),
        ({"kernel": RBF(0.6)}, r"another kernel \(RBF\(length_scale=0.5\); now RBF"),
        ({"max_atoms": 31}, "another max_atoms"),
        ({"random_state": 1}, "another random_state"),
        ({"solver": "falkon"}, "another solver"),
    ],
)
def test_a_checkpoint_of_other_parameters_is_refused(rows, tmp_path, monkeypatch, changes, words):
    path = tmp_path / "run.sqk"
    stop_early(rows, path, monkeypatch)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"unfinished run with {words}.*or delete it"):
        KernelRidge(**{**RIDGE, "max_atoms": 30, **changes}).fit(rows(), checkpoint=path)
    assert path.read_bytes() == before


def test_a_checkpoint_of_other_data_learners_or_files_is_refused(rows, tmp_path, monkeypatch):
    path = tmp_path / "run.sqk"
    stop_early(rows, path, monkeypatch)
    with pytest.raises(ValueError, match="over other data"):
        KernelRidge(**RIDGE, max_atoms=30).fit(rows(n=1400), checkpoint=path)
    with pytest.raises(ValueError, match=r"another learner \(KernelRidge\)"):
        KernelClassifier(RBF(0.5), max_atoms=30, random_state=0).fit(rows("classes"), checkpoint=path)
    squeak.Squeak(ridge=1.0, random_state=0).fit(rows(), checkpoint=tmp_path / "other.sqk")
    with pytest.raises(StorageError, match="'stream', not a 'fit'"):
        KernelRidge(**RIDGE, max_atoms=30).fit(rows(), checkpoint=tmp_path / "other.sqk")


def test_what_can_have_no_checkpoint_says_so(rows, tmp_path):
    path = tmp_path / "run.sqk"
    X, y = rows().collect()
    with pytest.raises(ValueError, match="a row source that can be read again"):
        KernelRidge(**RIDGE).fit(X, checkpoint=path)
    with pytest.raises(ValueError, match="a row source carries its targets"):
        KernelRidge(**RIDGE).fit(X, y, checkpoint=path)
    with pytest.raises(ValueError, match="a number as random_state"):
        KernelRidge(max_atoms=5).fit(rows(), checkpoint=path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        KernelRidge(**RIDGE).fit(rows(), checkpoint=tmp_path / "no" / "run.sqk")
    assert not path.exists()


def test_a_run_that_ended_may_be_replaced(rows, tmp_path):
    path = tmp_path / "run.sqk"
    KernelRidge(**RIDGE, max_atoms=30).fit(rows(), checkpoint=path)
    changed = KernelRidge(**{**RIDGE, "alpha": 0.7}, max_atoms=30).fit(rows(), checkpoint=path)
    assert changed.alpha_ == 0.7
    again = KernelRidge(**{**RIDGE, "alpha": 0.7}, max_atoms=30).fit(rows())
    assert np.array_equal(changed.dual_coef_, again.dual_coef_)
