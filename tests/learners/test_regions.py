"""Local experts and automatic models of rows that stay where they are: in files, or with workers that see them."""

import os
import signal

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import AutoClassifier, AutoRegressor, KernelClassifier, KernelRidge, LocalExperts
from squeak.kernels import RBF
from squeak.learners import KernelBlend, leaf_passes, leaves, regions
from squeak.learners.data import SourceTraining
from squeak.learners.drawn import numbers_of, of_part
from squeak.learners.regions import HeldOut, grafted
from squeak.learners.splits import SplitTree, grown
from squeak.places import use
from tests.engines import cluster_of
from tests.learners.test_worker_files import PARTS, ROWS, Workers, collection, hidden, made

N, FEW = PARTS * ROWS, 1_000
COLUMNS = ["a", "b", "c"]
BLEND = KernelBlend([RBF("learned")], max_atoms=20, rounds=1, search_atoms=20)
MODELS = {
    "ridge": (
        "y",
        LocalExperts(
            KernelRidge(RBF(1.0), 1e-3, max_atoms=20), leaf_rows=800, split_kernel=RBF(1.0), random_state=0
        ),
    ),
    "blend": ("y", LocalExperts(BLEND, leaf_rows=800, split_kernel=RBF(1.0), random_state=0)),
    "classes": (
        "kind",
        LocalExperts(
            KernelClassifier(RBF(1.0), max_atoms=20), leaf_rows=800, split_kernel=RBF(1.0), random_state=0
        ),
    ),
    "logistic": (
        "kind",
        LocalExperts(
            KernelClassifier(RBF(1.0), loss="logistic", max_atoms=10),
            leaf_rows=1_000,
            split_kernel=RBF(1.0),
            random_state=0,
        ),
    ),
    "one blend": ("y", KernelBlend(BLEND.kernels, max_atoms=20, rounds=1, search_atoms=20, random_state=0)),
    "auto": ("y", AutoRegressor(max_atoms=20, leaf_rows=800, random_state=0)),
    "auto classes": ("kind", AutoClassifier(max_atoms=20, leaf_rows=800, random_state=0)),
}


@pytest.fixture
def small(monkeypatch):
    """Take 4,800 rows for more than memory holds, a thousand for a sample, and a fifth for a region."""
    monkeypatch.setattr(leaf_passes, "SAMPLE_ROWS", FEW)
    monkeypatch.setattr(leaf_passes, "MOST_BYTES", 8 * 3 * N // 2)
    monkeypatch.setattr(regions, "REGIONS", 5)


@pytest.fixture
def quick(small, monkeypatch):
    """Find where to split with few atoms: where workers are threads, they do so too."""
    monkeypatch.setattr(leaves, "SPLIT_ATOMS", 60)


def said(model):
    new = made(99)[COLUMNS]
    return model.decision_function(new) if hasattr(model, "decision_function") else model.predict(new)


def is_good(model):
    new = made(99)
    if hasattr(model, "classes_") and model.classes_ is not None:
        return model.score(new[COLUMNS], new["kind"]) > 0.85
    return model.score(new[COLUMNS], new["y"]) > 0.9


@pytest.mark.parametrize("name", MODELS)
def test_workers_learn_the_bits_of_threads_and_send_the_model_alone(name, quick, two_blas_threads):
    target, model = MODELS[name]
    here = said(model.fit(collection(made, target, "frame")))
    assert is_good(model)
    with use(Workers()) as there:
        source = collection(hidden, target, "frame")
        assert source.preprocessing is not None  # of the first rows, which come here
        there.got = there.largest = 0
        found = said(model.fit(source))
    np.testing.assert_array_equal(found, here)
    parts = [expert for leaf in getattr(model, "experts_", []) for expert in leaf]
    experts = sum(one.atoms.nbytes + one.coef.nbytes + 1_000 for one in parts)
    samples = 2 if "auto" in name else 1
    assert there.largest < max(60 * FEW, experts)  # a sample, or a region's experts
    assert there.got < samples * 60 * FEW + experts + 40 * FEW  # and what was said of the rows held out
    assert max(there.sent) < 30_000  # graphs of all partitions, and the tree


@pytest.mark.parametrize("name", ["ridge", "auto"])
def test_few_rows_of_workers_are_learned_as_rows_in_memory(name, monkeypatch):
    monkeypatch.setattr(leaves, "SPLIT_ATOMS", 60)
    target, model = MODELS[name]
    here = said(model.fit(collection(made, target, "frame")))
    with use(Workers()):
        np.testing.assert_array_equal(said(model.fit(collection(hidden, target, "frame"))), here)


@pytest.mark.parametrize("name", ["ridge", "auto"])
def test_rows_of_this_program_are_sent_region_by_region(name, quick):
    """They are here already: they are read here, and a task gets those of its region."""
    target, model = MODELS[name]
    frame = pd.concat([made(part) for part in range(PARTS)])[[*COLUMNS, target]]
    here = said(model.fit(squeak.rows(frame, target=target)))
    with use(Workers()) as there:
        np.testing.assert_array_equal(said(model.fit(squeak.rows(frame, target=target))), here)
    assert max(there.sent) < 8 * 6 * N // 2


def test_what_is_held_out_is_told_by_experts_that_have_not_seen_it(quick):
    """Wild targets of the rows told of change nothing of what the experts say, but change the experts."""
    X = np.concatenate([made(part)[COLUMNS].to_numpy() for part in range(PARTS)])
    numbers = numbers_of(3, of_part(0), 0, N)
    held = HeldOut(3, 0.15, np.sort(numbers)[:200])
    told = np.flatnonzero(numbers <= held.told[-1])
    experts = LocalExperts(
        KernelBlend([RBF(1.0)], rounds=0, search_atoms=20), leaf_rows=800, split_kernel=RBF(1.0), random_state=0
    )
    y = np.sin(2 * X[:, 0])

    def fitted(y):
        source = SourceTraining(squeak.rows(lambda: iter([(X, y)]), target=True))
        return experts.fit(source, back=held)

    order = np.argsort(numbers[told])
    found = fitted(y).back_values_[:, 0]
    np.testing.assert_allclose(found, y[told[order]], atol=0.3)
    assert np.abs(found - y[told[order]]).mean() < 0.02
    seen = experts.predict(X[told])
    wild = y.copy()
    wild[told] += 100.0
    again = fitted(wild)
    assert np.abs(again.predict(X[told]) - seen).max() > 1.0
    # penalties are chosen on the rows held out, wild ones too: what is said comes near to the rest of the rows
    assert np.abs(again.back_values_[:, 0] - found).max() < 2.0


def test_an_automatic_model_of_a_sample_says_what_it_did(quick):
    target, model = MODELS["auto"]
    model.fit(collection(made, target, "frame"))
    *_, one, experts, trees, mixture = model.search_
    assert trees["rows"] == FEW
    assert mixture["rows"] == N
    assert one["rows"] == FEW
    assert experts["rows"] == N
    assert experts["model"] == f"{model.tree_.n_leaves} local experts"
    assert len(model.scores_) == FEW // 3  # of a sample, no more than a third is held out
    low, high = model.predict_interval(made(99)[COLUMNS], coverage=0.9)
    inside = np.mean((low <= made(99)["y"]) & (made(99)["y"] <= high))
    assert 0.8 < inside < 0.97


def test_weights_go_with_rows_that_memory_holds(quick):
    frame = pd.concat([made(part) for part in range(PARTS)])
    with pytest.raises(ValueError, match="weights go with rows"):
        AutoRegressor().fit(frame[COLUMNS], frame["y"], sample_weight=np.ones(N))
    model = AutoRegressor(max_atoms=20, leaf_rows=800, random_state=0).fit(frame[COLUMNS], frame["y"])
    assert is_good(model)  # without weights, rows in memory are read in passes too


def test_a_source_that_is_read_once_and_is_too_large_is_refused(small):
    X = np.zeros((N, 3))
    for model in (AutoRegressor(), KernelBlend(), LocalExperts()):
        with pytest.raises(ValueError, match="read only once"):
            model.fit(squeak.rows(iter([(X[:N], X[:, 0])]), target=True))


def test_trees_below_leaves_are_one_tree(rng):
    """Its shares are the products of the shares of both, and its leaves follow each other."""
    X = rng.standard_normal((400, 2))
    top, parts = grown(X, lambda rows, turns: np.eye(2), 150, 0.2)
    below = [
        grown(X[rows], lambda rows, turns: np.eye(2)[::-1], size, 0.2)[0]
        for rows, size in zip(parts, [40, 300, 90, 300], strict=True)
    ]
    whole = grafted(top, below)
    assert whole.n_leaves == sum(tree.n_leaves for tree in below) > top.n_leaves > 2
    expected = []
    for (rows, share), tree in zip(top.shares(X), below, strict=True):
        expected += [(rows[some], share[some] * inner) for some, inner in tree.shares(X[rows])]
    for (rows, share), (there, inner) in zip(whole.shares(X), expected, strict=True):
        np.testing.assert_array_equal(np.sort(rows), np.sort(there))
        np.testing.assert_allclose(share[np.argsort(rows)], inner[np.argsort(there)], rtol=1e-12)
    single = SplitTree.single(2)
    assert grafted(single, [top]).children.tolist() == top.children.tolist()
    assert grafted(top, [single] * top.n_leaves).children.tolist() == top.children.tolist()


@pytest.mark.parametrize("name", ["ridge", "auto"])
def test_a_worker_that_is_killed_changes_no_bit(name, small, tmp_path):
    """Real processes, of which the one that reads a partition for the third time kills itself."""
    target, model = MODELS[name]
    here = said(model.fit(collection(made, target, "frame")))

    def load(part):
        from distributed import get_worker

        get_worker()  # raises where there is none
        if part == 5:
            (tmp_path / f"read{len(list(tmp_path.glob('read*')))}").touch()
            if len(list(tmp_path.glob("read*"))) >= 3 and not (tmp_path / "killed").exists():
                (tmp_path / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return made(part)

    with cluster_of(2):
        found = said(model.fit(collection(load, target, "frame")))
    assert (tmp_path / "killed").exists()
    np.testing.assert_array_equal(found, here)
