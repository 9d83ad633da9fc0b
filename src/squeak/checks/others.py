"""What kernels, sparsifiers, learners on graphs and bandits promise."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from squeak import kinds
from squeak.checks.contract import CONTRACT, Bad, Case, Check, ensure, is_stored, refused, same, when
from squeak.checks.rows import BAD_ROWS, X
from squeak.core import storage


def _of_vectors(kernel: Any) -> bool:
    return bool(getattr(kernel, "requires_vector_input", True))


def values_are_symmetric_and_their_diagonal_is_diag(kernel: Any) -> None:
    K = kernel(X[:60])
    ensure(np.abs(K - K.T).max() <= 1e-12 * np.abs(K).max(), "k(x, y) differs from k(y, x)")
    ensure(np.array_equal(np.diag(K), kernel.diag(X[:60])), "diag is not the diagonal")
    np.testing.assert_allclose(kernel(X[:60], X[:5]), K[:, :5], rtol=1e-9, atol=1e-9 * np.abs(K).max())


def values_are_positive_semi_definite(kernel: Any) -> None:
    eigenvalues = np.linalg.eigvalsh(kernel(X[:60]))
    ensure(eigenvalues[0] > -1e-9 * eigenvalues[-1], f"its matrix has the eigenvalue {eigenvalues[0]:.3g}")


def kernels_are_values(kernel: Any) -> None:
    copy = clone(kernel, safe=False)
    ensure(copy == kernel and hash(copy) == hash(kernel), "a copy is another kernel")
    ensure(repr(copy) == repr(kernel), "a copy is shown otherwise")
    ensure(same(pickle.loads(pickle.dumps(kernel))(X[:9]), kernel(X[:9])), "a pickled kernel has other values")


@when(_of_vectors)
def sparse_and_narrow_rows_have_the_same_values(kernel: Any) -> None:
    K = kernel(X[:40])
    size = np.abs(K).max()
    np.testing.assert_allclose(kernel(X[:40].astype(np.float32)), K, rtol=1e-4, atol=1e-4 * size)
    if getattr(kernel, "accepts_sparse", False):
        np.testing.assert_allclose(kernel(sp.csr_array(X[:40])), K, rtol=1e-7, atol=1e-7 * size)


@when(_of_vectors)
def bad_rows_get_one_clear_error(kernel: Any) -> None:
    for kind, bad in BAD_ROWS.items():
        if not bad.later:
            refused(kind, bad.error, bad.words, kernel, bad.make(X))


KERNEL: tuple[Check, ...] = (
    values_are_symmetric_and_their_diagonal_is_diag,
    values_are_positive_semi_definite,
    kernels_are_values,
    sparse_and_narrow_rows_have_the_same_values,
    bad_rows_get_one_clear_error,
)


def _graph(nodes: int, edges: int) -> Any:
    """Return a connected graph as an array of ends and weights."""
    rng = np.random.default_rng(0)
    u, v = rng.integers(nodes, size=(2, edges))
    path = np.arange(nodes - 1)
    u, v = np.concatenate([path, u[u != v]]), np.concatenate([path + 1, v[u != v]])
    pairs = np.unique(np.sort(np.column_stack([u, v]), axis=1), axis=0)
    return rng.permutation(np.column_stack([pairs, rng.uniform(0.5, 2.0, len(pairs))]))


EDGES = _graph(300, 12_000)


def _edge(place: int, value: float) -> Callable[[Any], Any]:
    def put(edges: Any) -> Any:
        edges = edges.copy()
        edges[17, place] = value
        return edges

    return put


def sparsifier_case(sparsifier: Any) -> Case:
    """Return the case of a sparsifier: its answer is the sample of edges."""
    bad = {
        "an edge of weight nan": Bad(_edge(2, np.nan), "nan"),
        "an edge of negative weight": Bad(_edge(2, -1.0), "-1"),
        "an edge to half a node": Bad(_edge(1, 3.5), "whole|3.5", (ValueError, TypeError)),
        "an edge to a negative node": Bad(_edge(0, -4), "-4|negative"),
        "four columns": Bad(lambda edges: np.column_stack([edges, edges[:, 2]]), "", (ValueError, TypeError)),
        "text": Bad(lambda edges: "edges.csv" * 3, "", (ValueError, TypeError, OSError)),
    }
    parameters = (
        ({"oversampling": 0}, "oversampling must be"),
        ({"ridge": -1.0}, "ridge must"),
        ({"copies": 0}, "copies must be a whole number"),
        ({"random_state": "x"}, "random_state must be"),
        ({"n_leaves": 0}, "n_leaves"),
    )
    return Case(sparsifier, (EDGES,), lambda one: one.sample_, bad, parameters)


def the_sparsifier_is_a_smaller_graph(case: Case) -> None:
    one = case.fitted()
    sample, A = one.sample_, one.sparsifier_
    ensure(len(sample) < len(EDGES), "no edge is left out")
    ensure(A.shape == (300, 300), f"it has the shape {A.shape}, and there are 300 nodes")
    ensure(abs(A - A.T).max() == 0, "it is not symmetric")
    ensure((A.data > 0).all(), "it has an edge whose weight is not positive")
    ensure(case.fitted(random_state=1).sample_ != sample, "another seed gives the same edges")


SPARSIFIER: tuple[Check, ...] = (*CONTRACT, the_sparsifier_is_a_smaller_graph)

TRUTH = np.arange(200) % 2
PLACES = X[:200] + 6.0 * TRUTH[:, None]


def graph_learner_case(learner: Any, graph: Any = None) -> Case:
    """Return the case of a learner of labels from few: −1 in y stands for unknown."""
    y = np.where(np.arange(200) < 10, TRUTH, -1)
    given = PLACES if graph is None else graph(PLACES)
    bad = {name: bad for name, bad in BAD_ROWS.items() if name != "a path"}  # which may be that of a graph
    return Case(learner, (given, y), _labels, bad if graph is None else {})


def _labels(learner: Any) -> Any:
    check_is_fitted(learner)
    return learner.predict(PLACES) if hasattr(learner, "partial_fit") else learner.transduction_


def few_labels_are_spread_to_all(case: Case) -> None:
    found = _labels(case.fitted())
    ensure(np.mean(found == TRUTH) > 0.9, f"of two clusters far apart {np.mean(found == TRUTH):.0%} are right")


def labels_of_another_number_are_refused(case: Case) -> None:
    given, y = case.data
    refused("labels of some rows only", ValueError, "y has|y must|labels", case.new().fit, given, y[:50])


GRAPH_LEARNER: tuple[Check, ...] = (*CONTRACT, few_labels_are_spread_to_all, labels_of_another_number_are_refused)


@dataclass(frozen=True)
class BanditCase:
    """What makes a bandit of arms and parameters."""

    make: Callable[..., Any]

    def new(self, **params: Any) -> Any:
        """Return a bandit over eighty arms that was told nothing."""
        return self.make(ARMS.copy(), **{"random_state": 0, **params})

    def told(self, steps: int = 12) -> Any:
        """Return one that ran a while."""
        return self.new().run(reward, steps)


ARMS = np.random.default_rng(1).random((80, 2))


def reward(arm: int) -> float:
    """Return what an arm of the checks gives."""
    return float(np.sin(0.2 * arm))


def _known(bandit: Any) -> list[Any]:
    return [*bandit.posterior(), bandit.counts_.copy(), bandit.sums_.copy(), bandit.pulls_, bandit.rewards_]


def _step(bandit: Any) -> list[int]:
    asked = np.atleast_1d(bandit.ask())
    bandit.tell(asked, [reward(arm) for arm in asked])
    return [int(arm) for arm in asked]


def the_same_seed_gives_the_same_pulls(case: BanditCase) -> None:
    first, again, other = case.told(40), case.told(40), case.new(random_state=7).run(reward, 40)
    ensure(same(first.pulls_, again.pulls_), "the same seed pulls other arms")
    ensure(not same(first.pulls_, other.pulls_), "another seed pulls the same arms")
    ensure(first.n_told_ == 40, "rewards are not counted")


def arms_are_neither_modified_nor_aliased(case: BanditCase) -> None:
    arms = ARMS.copy()
    bandit = case.make(arms, random_state=0).run(reward, 12)
    ensure(same(arms, ARMS), "the arms are changed")
    arms[:] = 7.0
    ensure(_step(bandit) == _step(case.told()), "pulls follow the array that was given")


def a_bad_reward_gets_one_clear_error_and_changes_nothing(case: BanditCase) -> None:
    bandit = case.told()
    before = _known(bandit)
    for told, error, words in (
        ((3, np.nan), ValueError, "reward of arm 3 is nan"),
        ((3, np.inf), ValueError, "reward of arm 3 is inf"),
        ((80, 1.0), ValueError, "arm 80 is unknown"),
        ((-1, 1.0), ValueError, "arm -1 is unknown"),
        (([1, 2], [1.0]), ValueError, "2 arms were pulled"),
        (([], []), ValueError, "no arm"),
        ((1.5, 1.0), TypeError, "by their numbers"),
        (("a", 1.0), TypeError, "by their numbers"),
        (([[1, 2]], [[1.0, 2.0]]), TypeError, "flat list"),
        ((3, "x"), TypeError, "rewards must be numbers"),
        ((3, 1e300), ValueError, "too large"),
    ):
        refused(f"tell{told}", error, words, bandit.tell, *told)
        ensure(same(_known(bandit), before), f"tell{told} changes what is known")


def rewards_may_come_late_and_in_any_order(case: BanditCase) -> None:
    bandit = case.told()
    asked = np.concatenate([np.atleast_1d(bandit.ask()) for _ in range(5)])
    for arm in asked[::-1]:
        bandit.tell(arm, reward(arm))
    ensure(len(bandit.pending_) == 0, "a reward that was told is still awaited")
    ensure(bandit.n_told_ == 12 + len(asked), "rewards are not counted")
    bandit.tell([3, 3, 9], [1.0, 1.2, 0.1])
    ensure(bandit.n_told_ == 15 + len(asked), "rewards that nobody asked for are not taken")


def retired_arms_are_never_asked_for(case: BanditCase) -> None:
    bandit = case.new()
    bandit.retire(np.arange(0, 80, 2))
    ensure((bandit.run(reward, 30).pulls_ % 2 == 1).all(), "a retired arm is pulled")
    bandit.retire(np.arange(80))
    refused("a pull of no arm", ValueError, "every arm is retired", bandit.ask)


def an_interrupt_leaves_what_was_told(case: BanditCase) -> None:
    bandit = case.new()

    def stops(arm: int) -> float:
        if bandit.n_told_ >= 10:
            raise KeyboardInterrupt
        return reward(arm)

    try:
        bandit.run(stops, 50)
    except KeyboardInterrupt:
        pass
    else:
        ensure(False, "a run goes on after an interrupt")
    ensure(bandit.n_told_ >= 10 and len(bandit.pending_) == 0, "it does not stand at the last reward")
    bandit.run(reward, 5)


@when(lambda case: is_stored(case.new()))
def saved_and_loaded_it_goes_on_in_the_same_bits(case: BanditCase) -> None:
    for steps in (0, 5, 30):
        bandit = case.new()
        for _ in range(steps):
            _step(bandit)
        bandit.ask()
        with tempfile.TemporaryDirectory() as folder:
            storage.save(bandit, Path(folder) / "bandit.sqk")
            again = kinds.load(Path(folder) / "bandit.sqk")
        ensure(type(again) is type(bandit), f"it comes back as a {type(again).__name__}")
        ensure(same(again.pending_, bandit.pending_), "it awaits other rewards")
        ensure([_step(bandit) for _ in range(15)] == [_step(again) for _ in range(15)], "it pulls other arms")
        ensure(same([*_known(again), again.beta_], [*_known(bandit), bandit.beta_]), "it knows something else")


BANDIT: tuple[Check, ...] = (
    the_same_seed_gives_the_same_pulls,
    arms_are_neither_modified_nor_aliased,
    a_bad_reward_gets_one_clear_error_and_changes_nothing,
    rewards_may_come_late_and_in_any_order,
    retired_arms_are_never_asked_for,
    an_interrupt_leaves_what_was_told,
    saved_and_loaded_it_goes_on_in_the_same_bits,
)
