"""Splits of the space with margins: shares against a slow recursion, rows that do not divide, damaged trees."""

import numpy as np
import pytest

from squeak.learners.splits import LARGEST_SIDE, SplitTree, grown, margin_at_middle


def share_of(tree, x, leaf, place=0):
    """Return the share of a leaf in one row, by going down the tree: the definition, slow and obvious."""
    if not len(tree.low):
        return 1.0
    along = float(tree.directions[place] @ x)
    right = min(1.0, max(0.0, (along - tree.low[place]) / (tree.high[place] - tree.low[place])))
    total = 0.0
    for child, part in zip(tree.children[place].tolist(), (1.0 - right, right), strict=True):
        if child < 0:
            total += part * (-1 - child == leaf)
        else:
            total += part * share_of(tree, x, leaf, child)
    return total


def dense(tree, X):
    """Return the shares as a matrix, one row a row and one column a leaf."""
    found = np.zeros((len(X), tree.n_leaves))
    for leaf, (rows, share) in enumerate(tree.shares(X)):
        found[rows, leaf] = share
    return found


def along_any(rng, d):
    return lambda rows, turns: rng.standard_normal((3, d))


@pytest.fixture
def rows(rng):
    return rng.standard_normal((400, 3))


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.5])
def test_shares_are_those_of_a_slow_recursion_and_add_up_to_one(rows, rng, margin):
    tree, leaves = grown(rows, along_any(rng, 3), 90, margin)
    new = rng.standard_normal((60, 3))
    found = dense(tree, new)
    slow = [[share_of(tree, x, leaf) for leaf in range(tree.n_leaves)] for x in new]
    np.testing.assert_allclose(found, slow, atol=1e-14)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-14)
    assert tree.n_leaves == len(leaves) >= 8


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.3])
def test_leaves_have_the_rows_in_which_they_have_a_share(rows, rng, margin):
    tree, leaves = grown(rows, along_any(rng, 3), 90, margin)
    for (some, _), own in zip(tree.shares(rows), leaves, strict=True):
        assert set(some) <= set(own)
    assert max(map(len, leaves)) <= 90
    assert set(np.concatenate(leaves)) == set(range(len(rows)))
    twice = sum(map(len, leaves)) - len(rows)
    assert twice == 0 if margin == 0 else twice > 0


def test_what_is_blended_by_shares_is_continuous(rows, rng):
    tree, _ = grown(rows, along_any(rng, 3), 60, 0.1)
    heights = rng.standard_normal(tree.n_leaves)
    for _ in range(5):  # along straight lines through all parts, the values have the slope of the steepest margins
        ends = 3.0 * rng.standard_normal((2, 3))
        line = ends[0] + np.linspace(0.0, 1.0, 20_001)[:, None] * (ends[1] - ends[0])
        steps = np.abs(np.diff(dense(tree, line) @ heights))
        steepest = np.sum(np.abs(tree.directions @ (ends[1] - ends[0])) / (tree.high - tree.low)) / 20_000
        assert steps.max() <= steepest * np.ptp(heights) + 1e-12


def test_a_split_without_a_margin_would_jump(rows, rng):
    """The twin of the test above: with the margins made thin, values jump between neighbours of a line."""
    tree, _ = grown(rows, along_any(rng, 3), 60, 0.1)
    middle = (tree.low + tree.high) / 2
    thin = SplitTree(tree.directions, middle, np.nextafter(middle, np.inf), tree.children, 3)
    line = np.linspace(-3.0, 3.0, 20_001)[:, None] * np.ones(3)
    assert np.abs(np.diff(dense(thin, line), axis=0)).max() == 1.0


def test_margin_nought_divides_at_the_middle(rows):
    low, high = margin_at_middle(rows[:, 0], 0.0)
    assert low < high
    assert np.count_nonzero(rows[:, 0] <= low) == np.count_nonzero(rows[:, 0] >= high) == 200


def test_an_odd_number_of_rows_divides_without_a_margin(rng):
    low, high = margin_at_middle(rng.standard_normal(101), 0.0)
    assert low < high


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.5])
def test_two_values_are_divided_between_them(margin):
    along = np.repeat([1.0, 2.0], [40, 60])
    assert margin_at_middle(along, margin) == (1.0, 2.0)
    tree, leaves = grown(along[:, None], lambda rows, turns: np.ones((1, 1)), 60, margin)
    assert [len(leaf) for leaf in leaves] == [40, 60]
    assert dense(tree, np.array([[1.0], [1.25], [2.0]])).tolist() == [[1.0, 0.0], [0.75, 0.25], [0.0, 1.0]]


def slowly(X, directions_at, leaf_rows, margin, rows, turns=()):
    """The leaves of a node, one side after the other: what ``grown`` finds level by level."""
    for v in directions_at(rows, turns) if len(rows) > leaf_rows else ():
        ends = margin_at_middle(X[rows] @ v, margin)
        if ends is not None:
            along = X[rows] @ v
            sides = rows[along < ends[1]], rows[along > ends[0]]
            halves = [
                slowly(X, directions_at, leaf_rows, margin, some, (*turns, i)) for i, some in enumerate(sides)
            ]
            return halves[0] + halves[1]
    return [(turns, rows)]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_leaves_are_those_of_a_slow_recursion_in_its_order(rows, monkeypatch, threads):
    monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)

    def directions(some, turns):
        drawn = np.random.default_rng([len(some), *turns]).standard_normal((2, 3))
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    tree, leaves = grown(rows, directions, 60, 0.1)
    expected = slowly(rows, directions, 60, 0.1, np.arange(len(rows)))
    assert len(leaves) == len(expected) == tree.n_leaves > 4
    for ours, (_, theirs) in zip(leaves, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_rows_that_nothing_divides_stay_together():
    same = np.ones((50, 2))
    assert margin_at_middle(same[:, 0], 0.1) is None
    tree, leaves = grown(same, lambda rows, turns: np.eye(2), 10, 0.1)
    assert (tree.n_leaves, [len(leaf) for leaf in leaves]) == (1, [50])
    most = np.append(np.zeros(int(100 * LARGEST_SIDE) + 2), np.arange(1.0, 19.0))
    assert margin_at_middle(most, 0.1) is None


def test_duplicated_rows_go_to_the_same_leaves(rng):
    twice = np.repeat(rng.standard_normal((30, 2)), 10, axis=0)
    tree, leaves = grown(twice, along_any(rng, 2), 80, 0.1)
    for leaf in leaves:
        assert set(np.unique(leaf // 10, return_counts=True)[1]) == {10}
    assert np.ptp(dense(tree, twice).reshape(30, 10, -1), axis=1).max() == 0.0


def test_the_second_direction_is_taken_where_the_first_does_not_divide(rng):
    X = np.c_[np.zeros(100), rng.standard_normal(100)]
    tree, _ = grown(X, lambda rows, turns: np.eye(2), 60, 0.1)
    assert tree.directions.tolist() == [[0.0, 1.0]]


def test_a_tree_is_saved_and_loaded(rows, rng):
    tree, _ = grown(rows, along_any(rng, 3), 90, 0.1)
    again = SplitTree.from_parts(*tree.to_parts())
    np.testing.assert_array_equal(dense(again, rows), dense(tree, rows))
    single = SplitTree.from_parts(*SplitTree.single(3).to_parts())
    assert dense(single, rows).tolist() == [[1.0]] * 400


GOOD = {
    "directions": np.eye(2),
    "low": np.zeros(2),
    "high": np.ones(2),
    "children": np.array([[1, -1], [-2, -3]]),
    "columns": 2,
}


@pytest.mark.parametrize(
    "damage",
    [
        {"high": np.array([1.0, 0.0])},
        {"directions": np.eye(3)},
        {"columns": 3},
        {"children": np.array([[1, -1], [-2, -2]])},
        {"children": np.array([[0, -1], [-2, -3]])},
        {"children": np.array([[-1, -2], [-3, -4]])},
        {"children": np.array([[1, -1], [1, -2]])},
        {"children": np.array([[2, -1], [-2, -3]])},
    ],
)
def test_a_damaged_tree_is_refused(damage):
    SplitTree(**GOOD)
    with pytest.raises(ValueError, match="damaged"):
        SplitTree(**{**GOOD, **damage})
