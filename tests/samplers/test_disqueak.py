"""DISQUEAK: the same bits however it runs, accurate at every node, and nothing lost when a part fails.

Statistical tests fix their seeds. Unbiasedness over trees: 5 settings × 29 comparisons at 5.5 standard errors (see
test_unbiased), family-wise below 1e-4; the twin at the end is caught.
"""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import Disqueak, Kors, Squeak, merge
from squeak.kernels import RBF, Linear
from squeak.leverage import accuracy, effective_dimension
from squeak.samplers import Tree
from squeak.samplers import disqueak as work_room
from squeak.samplers import squeak as squeak_room
from squeak.trees import run as run_room
from squeak.trees.parts import PartError
from tests.oracles import dense_accuracy
from tests.samplers.test_unbiased import biased

KERNEL = RBF(1.0)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((3_000, 2))


def learn(**changes):
    return Disqueak(
        **{"kernel": KERNEL, "ridge": 1.0, "oversampling": 5, "n_leaves": 6, "random_state": 3, **changes}
    )


TREES = {
    "balanced": Tree.balanced(6),
    "sequential": Tree.sequential(6),
    "three by three": Tree.balanced(6, arity=3),
    "by locality": Tree.by_locality(["a", "b", "c", "a", "b", "c"]),
    "arbitrary": Tree((3, (5, (0, 4), (1, 2)))),
}


def test_trees_are_values_with_height_work_and_span():
    for k in (1, 2, 3, 7, 64, 1000):
        tree = Tree.balanced(k)
        assert tree.n_leaves == k
        assert tree.height == int(np.ceil(np.log2(k)))
        assert tree.work(leaf=2.0, merge=3.0) == 2 * k + 3 * (k - 1)
        assert tree.span(leaf=2.0, merge=3.0) == 2 + 3 * tree.height
        assert Tree.sequential(k).height == k - 1
        assert Tree.sequential(k).work() == tree.work()
    assert Tree.balanced(9, arity=3).height == 2
    assert Tree.balanced(9, arity=3).span(merge=lambda children: children**3) == 1 + 2 * 27
    assert Tree(((0, 1), (2, 3))) == Tree.balanced(4) != Tree.sequential(4)
    assert len({Tree.balanced(4), Tree([[0, 1], [2, 3]])}) == 1
    assert repr(TREES["arbitrary"]) == "Tree((3, (5, (0, 4), (1, 2))))"
    assert str(Tree.sequential(3)).splitlines() == ["─┬─┬─ 0", " │ └─ 1", " └─ 2"]
    assert Tree.sequential(50_000).height == 49_999  # no recursion


@pytest.mark.parametrize(
    ("nested", "message"),
    [
        ((0, 2), "each once"),
        ((0, 0), "each once"),
        ((0,), "two children"),
        ("ab", "not 'ab'"),
        ((0, True), "not True"),
    ],
)
def test_what_is_no_tree_is_refused(nested, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Tree(nested)


@pytest.mark.parametrize("name", TREES)
def test_the_same_bits_on_any_number_of_threads(name, X, monkeypatch):
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        found.append(learn(tree=TREES[name]).fit(X).dictionary_)
    assert found[0] == found[1] == found[2]
    assert np.array_equal(found[0].atoms, X[found[0].indices])
    assert found[0].sources[0][1] == 3_000


def test_a_node_is_the_merge_of_its_children(X):
    """The run is what one would write by hand: leaves by Squeak, merges by merge, seeds by place."""
    s = learn(n_leaves=3, tree=((0, 2), 1)).fit(X)
    keep = run_room.Keep.open(None, {}, squeak.core.seeds.draw_seed(3))
    leaves = [
        Squeak(KERNEL, 1.0, oversampling=5, source=str(i), random_state=run_room.node_seed(keep.seed, i))
        .fit(part)
        .dictionary_
        for i, part in enumerate(np.array_split(X, 3))
    ]
    inner = merge(leaves[0], leaves[2], random_state=run_room.node_seed(keep.seed, 3))
    root = merge(inner, leaves[1], random_state=run_room.node_seed(keep.seed, 4))
    places = [1000 * int(root.sources[number][0]) for number in root.source_numbers] + root.indices
    order = np.argsort(places)
    assert np.array_equal(s.dictionary_.indices, np.array(places)[order])
    assert np.array_equal(s.dictionary_.weights, root.weights[order])
    assert [node.atoms for node in s.nodes_] == [*map(len, leaves), len(inner), len(root)]
    assert [node.rows for node in s.nodes_] == [1000, 1000, 1000, 2000, 3000]


@pytest.mark.parametrize("leaf", [Squeak(), Kors(), "exact"])
@pytest.mark.parametrize("tree", ["balanced", "sequential"])
def test_every_node_is_about_as_accurate_as_its_oversampling_says(leaf, tree, X):
    """Practical oversampling: the mean of ε̂ over 5 runs is at most 1.3·√(4/q̄), at the root."""
    few = X[:800]
    errors = [
        accuracy(
            learn(tree=tree, leaf=leaf, n_leaves=4, oversampling=20, random_state=seed).fit(few).dictionary_, few
        )
        for seed in range(5)
    ]
    assert np.mean(errors) < 1.3 * np.sqrt(4 / 20)


def own_rows(d, X, cuts):
    """Return the rows below a node and the weight that its dictionary gives to each of them."""
    rows, weights = [], []
    for number, (name, count) in enumerate(d.sources):
        first = cuts[int(name)]
        rows.append(X[first : first + count])
        w = np.zeros(count)
        mine = d.source_numbers == number
        w[d.indices[mine]] = d.weights[mine]
        weights.append(w)
    return np.vstack(rows), np.concatenate(weights)


@pytest.mark.parametrize("tree", ["balanced", "sequential", Tree((2, (0, 3), 1))])
def test_in_the_papers_form_every_node_keeps_the_promise(tree, tmp_path):
    """Theory oversampling, ε = 0.5: ε̂ ≤ ε at every node, on its own rows."""
    X = np.random.default_rng(1).standard_normal((240, 1)) * 0.3
    s = Disqueak.from_paper(0.5, 0.1, 240, kernel=KERNEL, ridge=30.0, n_leaves=4, tree=tree, random_state=0)
    s.fit(X, checkpoint=tmp_path / "run")
    assert (s.dictionary_.eps, s.dictionary_.copies) == (0.5, s.copies)
    files = sorted((tmp_path / "run").glob("node-*.sqk"))
    assert len(files) == len(s.nodes_) > 5
    for path in files:
        d = squeak.load(path)
        rows, weights = own_rows(d, X, [0, 60, 120, 180])
        assert dense_accuracy(KERNEL(rows), weights, d.ridge) <= 0.5
        assert dense_accuracy(KERNEL(rows), 2.0 * weights, d.ridge) > 0.5  # the measure itself can fail


def test_effective_dimensions_add_up_as_they_should(X):
    """Lemma 3.13: 2·d(D ∪ D') ≥ d(D) + d(D') ≥ d(D ∪ D')."""
    for ridge in (0.1, 1.0, 30.0):
        a, b = (effective_dimension(part, KERNEL, ridge) for part in (X[:150], X[150:400]))
        both = effective_dimension(X[:400], KERNEL, ridge)
        assert 2 * both >= a + b >= both


def test_a_union_of_two_accurate_dictionaries_is_accurate_only_at_twice_the_ridge():
    """Spec 1.4: two halves of three equal rows, γ = 5, each at ε = .4; their union has .58 at γ and .40 at 2γ."""
    K, gamma = np.ones((3, 3)), 5.0
    weights = np.full(3, 1 - 0.4 * (3 + gamma) / 3)
    assert dense_accuracy(K, weights, gamma) == pytest.approx(0.4)
    union, w = np.ones((6, 6)), np.concatenate([weights, weights])
    assert dense_accuracy(union, w, gamma) == pytest.approx(0.58, abs=0.005)
    assert dense_accuracy(union, w, 2 * gamma) == pytest.approx(0.40, abs=0.005)


@pytest.fixture(scope="module")
def few():
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((28, 2))
    rows[19] = [9.0, -9.0]
    return rows


SETTINGS = {
    "random": {"tree": Tree((3, ((0, 2), 1)))},
    "balanced": {"tree": "balanced"},
    "sequential": {"tree": "sequential"},
    "Kors leaves": {"tree": "balanced", "leaf": Kors()},
    "max_atoms": {"tree": "balanced", "max_atoms": 12},
}


@pytest.mark.parametrize(
    "name", [n if n == "random" else pytest.param(n, marks=pytest.mark.slow) for n in SETTINGS]
)
def test_weights_are_unbiased_over_trees(name, few, monkeypatch):
    monkeypatch.setattr(squeak_room, "SMALLEST", 8)

    def make(X, seed):
        given = {"oversampling": 2, "ridge": 0.5, "n_leaves": 4, "random_state": seed, **SETTINGS[name]}
        return learn(**given).fit(X).dictionary_

    assert not biased(make, few, 400).any()


def test_a_merge_that_draws_anew_is_caught(few, monkeypatch):
    """A twin whose merges forget the probabilities of their children, and so count what was dropped as kept."""

    def forgetful(children, plan, seed):
        found = merge(*children, random_state=seed)
        return replace(found, probabilities=np.minimum(1.0, 1.3 * found.probabilities)), 1.0

    monkeypatch.setattr(work_room, "run_merge", forgetful)
    make = lambda X, seed: learn(oversampling=2, ridge=0.5, n_leaves=4, random_state=seed).fit(X).dictionary_  # noqa: E731
    assert biased(make, few, 400).any()


def test_the_limit_holds_at_every_node_and_the_ridge_only_grows(X):
    s = learn(max_atoms=40, n_leaves=8, ridge=0.01).fit(X)
    assert all(node.atoms <= 40 for node in s.nodes_)
    ridges = {node.node: node.ridge for node in s.nodes_}
    for number in range(8, 15):
        assert ridges[number] >= max(ridges[child] for child in s.tree_.children(number))
    grown = learn(ridge=lambda rows: 0.01 * rows, n_leaves=4).fit(X)
    assert grown.dictionary_.ridge == pytest.approx(30.0)
    assert [node.ridge for node in grown.nodes_] == pytest.approx([7.5] * 4 + [15.0] * 2 + [30.0])


def test_parts_of_files_are_the_leaves(X, tmp_path):
    for number, part in enumerate(np.array_split(X, 5)):
        frame = pd.DataFrame(part, columns=["a", "b"]).assign(to=np.where(part[:, 0] > 0, "x", "y"))
        frame.to_parquet(tmp_path / f"{number}.parquet")
    source = squeak.rows(tmp_path, scale="standard")
    s = learn(n_leaves=None).fit(source)
    assert s.tree_ == Tree.balanced(5)
    rows, _ = source.collect()
    assert np.array_equal(s.dictionary_.atoms, rows[s.dictionary_.indices])
    assert s.dictionary_.preprocessing == source.preprocessing
    assert learn(n_leaves=2).fit(source).tree_.n_leaves == 2
    with pytest.raises(ValueError, match="only 5 to share out"):
        learn(n_leaves=6).fit(source)


def test_leaves_that_fail_twice_are_tried_again_and_give_the_same_bits(X):
    failures = dict.fromkeys(range(4), 2)

    def loader(number, part):
        def load():
            if failures[number]:
                failures[number] -= 1
                raise OSError("the disk blinked")
            return part

        return load

    calm = [partial(lambda part: part, part) for part in np.array_split(X, 4)]
    flaky = [loader(number, part) for number, part in enumerate(np.array_split(X, 4))]
    expected = learn(n_leaves=None).fit(calm).dictionary_
    assert learn(n_leaves=None, retries=2).fit(flaky).dictionary_ == expected
    failures.update(dict.fromkeys(range(4), 2))
    with pytest.raises(PartError, match="part 0: the disk blinked"):
        learn(n_leaves=None, retries=1).fit(flaky)


def test_finished_subtrees_are_kept_and_not_run_again(X, tmp_path, monkeypatch):
    parts = np.array_split(X, 8)
    broken = {5}
    calls = []

    def loader(number):
        def load():
            calls.append(number)
            if number in broken:
                raise OSError("gone")
            return parts[number]

        return load

    loaders = [loader(number) for number in range(8)]
    expected = learn(n_leaves=None).fit([partial(lambda part: part, part) for part in parts]).dictionary_
    sampler = learn(n_leaves=None, retries=0)
    with pytest.raises(PartError, match="part 5: gone"):
        sampler.fit(loaders, checkpoint=tmp_path / "run")
    assert not hasattr(sampler, "_dictionary")
    kept = {path.name for path in (tmp_path / "run").glob("node-*.sqk")}
    assert kept
    broken.clear()
    calls.clear()
    assert sampler.fit(loaders, checkpoint=tmp_path / "run").dictionary_ == expected
    done_before = {number for number in range(8) if f"node-{number}.sqk" in kept}
    assert done_before.isdisjoint(set(calls) - {0})  # part 0 is looked at for the kernel's width
    calls.clear()
    assert sampler.fit(loaders, checkpoint=tmp_path / "run").dictionary_ == expected
    assert set(calls) <= {0}


def test_a_folder_of_another_run_is_refused(X, tmp_path):
    learn().fit(X, checkpoint=tmp_path / "run")
    for changes, message in (
        ({"ridge": 2.0}, "of other ridge"),
        ({"tree": "sequential"}, "of other tree"),
        ({"n_leaves": 3}, "of other tree"),
        ({"random_state": 9}, "of other random_state"),
        ({"leaf": Kors()}, "of other leaf"),
    ):
        with pytest.raises(ValueError, match=message):
            learn(**changes).fit(X, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="of other source"):
        learn().fit(X + 1.0, checkpoint=tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("…")
    with pytest.raises(ValueError, match="holds other files"):
        learn().fit(X, checkpoint=tmp_path / "mine")
    (tmp_path / "run" / "run.json").write_text("{")
    with pytest.raises(squeak.core.storage.StorageError, match=r"run.json is damaged"):
        learn().fit(X, checkpoint=tmp_path / "run")


def test_without_a_seed_the_run_keeps_its_own(X, tmp_path):
    first = learn(random_state=None).fit(X, checkpoint=tmp_path / "run").dictionary_
    (tmp_path / "run" / "node-10.sqk").unlink()
    assert learn(random_state=None).fit(X, checkpoint=tmp_path / "run").dictionary_ == first
    assert json.loads((tmp_path / "run" / "run.json").read_text())["seed"] > 0


def test_new_parts_are_merged_into_a_saved_dictionary(X, tmp_path):
    X = X[:800]
    old = learn(source="monday").fit(X[:400]).dictionary_
    old.save(tmp_path / "old.sqk")
    both = learn(source="tuesday", kernel=None).fit(X[400:], start=squeak.load(tmp_path / "old.sqk")).dictionary_
    assert both.n_seen == 800
    assert [name for name, _ in both.sources] == ["monday", "tuesday"]
    assert accuracy(both, X) < 1.3
    for changes, message in (
        ({"source": "monday"}, "is in start already"),
        ({"oversampling": 7}, "learned with oversampling 5"),
        ({"kernel": Linear()}, "learned with kernel"),
    ):
        with pytest.raises(ValueError, match=message):
            learn(**changes).fit(X[400:], start=old)
    with pytest.raises(ValueError, match="2 columns, these 3"):
        learn().fit(np.ones((50, 3)) * np.arange(50)[:, None], start=old)


BAD = {
    "no rows at all": ([lambda: iter([]), lambda: iter([])], "there are no rows"),
    "other columns": ([lambda: np.eye(2), lambda: np.ones((3, 4))], r"part 1|columns"),
    "NaN": ([lambda: np.eye(2), lambda: np.full((3, 2), np.nan)], "part 1: row 0, column 0 is nan"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_part_gets_one_error_that_names_it(what):
    parts, message = BAD[what]
    with pytest.raises(ValueError, match=message):
        learn(n_leaves=None).fit(parts)


@pytest.mark.parametrize("empty", [[0], [1], [3], [0, 1], [2, 3], [0, 1, 2]])
def test_parts_without_rows_are_left_out(X, empty, tmp_path):
    pieces = [X[:0] if number in empty else X[100 * number : 100 * number + 100] for number in range(4)]
    parts = [(lambda rows=rows: iter([rows] if len(rows) else [])) for rows in pieces]
    kept = [part for number, part in enumerate(parts) if number not in empty]
    for leaf in (None, "exact"):
        found = learn(n_leaves=None, leaf=leaf).fit(parts, checkpoint=tmp_path / str(leaf)).dictionary_
        again = learn(n_leaves=None, leaf=leaf).fit(parts, checkpoint=tmp_path / str(leaf)).dictionary_
        assert found.n_seen == 100 * len(kept)
        np.testing.assert_array_equal(found.atoms, again.atoms)
        rows = np.concatenate([piece for piece in pieces if len(piece)])
        np.testing.assert_array_equal(rows[found.indices], found.atoms)
        assert accuracy(found, rows) < 1.3


def test_a_damaged_file_in_the_middle_is_named(X, tmp_path):
    for number, part in enumerate(np.array_split(X, 5)):
        pd.DataFrame(part, columns=["a", "b"]).to_parquet(tmp_path / f"{number}.parquet")
    path = tmp_path / "2.parquet"
    source = squeak.rows(tmp_path, learn_rows=100)
    data = bytearray(path.read_bytes())
    data[4:2_000] = b"\xff" * 1_996
    path.write_bytes(bytes(data))
    with pytest.raises(PartError, match=r"2.parquet \(row group 0\): 2.parquet was changed or replaced"):
        learn(n_leaves=None).fit(source, checkpoint=tmp_path / "run")
    assert len(list((tmp_path / "run").glob("node-*.sqk"))) >= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tree": "star"}, "tree must be 'balanced', 'sequential' or a Tree"),
        ({"tree": ((0, 1), 2), "n_leaves": 4}, "3 leaves, the data 4 parts"),
        ({"leaf": "all"}, "leaf must be a Squeak, a Kors or 'exact'"),
        ({"leaf": RBF(1.0)}, "leaf must be a Squeak"),
        ({"leaf": Kors(), "max_atoms": 5}, "a Kors leaf takes neither max_atoms"),
        ({"n_leaves": 0}, "n_leaves must be a whole number"),
        ({"retries": -1}, "retries must be a whole number"),
        ({"ridge": -1.0}, "ridge must be positive"),
    ],
)
def test_bad_parameters_get_one_clear_error(changes, message, X):
    with pytest.raises((ValueError, TypeError), match=message):
        learn(**changes).fit(X)


def test_a_thousand_leaves_end(X):
    s = learn(n_leaves=1_000, leaf="exact", ridge=5.0).fit(X)
    assert len(s.nodes_) == 1_999
    assert s.dictionary_.n_seen == 3_000


def test_a_part_that_changes_from_reading_to_reading_is_refused(X):
    rng = np.random.default_rng(0)
    with pytest.raises(PartError, match="part 0: it gives other rows each time"):
        learn(n_leaves=None, retries=1).fit([lambda: rng.standard_normal((50, 2)), lambda: X[:50]])
