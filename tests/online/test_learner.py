"""The growing learners against the printed algorithm, blocks against single rows, and the limits of budgets."""

import numpy as np
import pytest

from squeak import online
from squeak.core.nystrom import GrowingFeatures
from squeak.core.seeds import coins
from squeak.kernels import RBF, Linear
from squeak.online.kons import KonsLearner
from squeak.online.learner import NewtonLearner, NewtonPlan
from squeak.online.losses import LOSSES
from squeak.online.newton import REFRESH, StepRule
from squeak.online.space import Space
from tests.online.oracles import literal_pros
from tests.online.test_kons import eta_of
from tests.oracles import literal_kors

LOSS_CASES = [
    ("squared", None, "adaptive", 1.0),
    ("squared", 0.6, "adaptive", 1.0),
    ("squared", 1.5, "adaptive", 0.5),
    ("squared", 1.5, "worst", 0.5),
    ("logistic", 3.0, "adaptive", 1.0),
    ("squared_hinge", 5.0, "adaptive", 1.0),
    ("hinge", 2.0, "worst", 1.0),
]


def learner(X, loss="squared", bound=1.5, curvature="adaptive", step=1.0, **options):
    options = {"alpha": 0.1, "ridge": 0.3, "oversampling": 1.0, "max_atoms": None, "restarts": False} | options
    plan = NewtonPlan(
        options["alpha"],
        options["restarts"],
        options.get("guarded", False),
        StepRule(LOSSES[loss], bound, curvature, step),
        (options.get("half_life"),),
    )
    space = Space.empty(
        options.get("kernel", RBF(1.5)), X, options["ridge"], options["oversampling"], options["max_atoms"]
    )
    return NewtonLearner(plan, space, options.get("outputs", 1), options.get("seed", 0))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((700, 3))
    return X, np.sin(X).sum(axis=1) / 2 + 0.1 * rng.standard_normal(700)


def targets_of(y, loss, bound):
    if LOSSES[loss].for_labels:
        return np.sign(y)
    return y if bound is None else np.clip(y, -bound, bound)


@pytest.mark.parametrize(("guarded", "half_life"), [(False, None), (True, None), (True, 50.0)])
@pytest.mark.parametrize(("loss", "bound", "curvature", "step"), LOSS_CASES)
def test_a_block_is_its_rows_one_by_one(data, loss, bound, curvature, step, guarded, half_life):
    X, y = data
    y = targets_of(y, loss, bound)
    options = {"guarded": guarded, "half_life": half_life}
    many, one, cut = (learner(X, loss, bound, curvature, step, **options) for _ in range(3))
    at_once = many.learn(X, y[:, None])[:, 0]
    singly = np.array([one.learn_row(X[i : i + 1], [float(y[i])])[0] for i in range(len(y))])
    np.testing.assert_allclose(at_once, singly, atol=1e-9)
    pieces = [cut.learn(X[a:b], y[a:b, None])[:, 0] for a, b in ((0, 1), (1, 90), (90, 91), (91, 700))]
    np.testing.assert_allclose(np.concatenate(pieces), at_once, atol=1e-9)
    assert many.facts == one.facts == cut.facts
    assert many.heads[0].gain == pytest.approx(one.heads[0].gain, rel=1e-8)
    np.testing.assert_allclose(many.scores(X[:50]), one.scores(X[:50]), atol=1e-9)
    assert one.score_row(X[3:4])[0] == pytest.approx(one.scores(X[3:4])[0, 0], abs=1e-12)


def test_the_fast_block_agrees_with_the_rounds_to_1e_11(data):
    X, y = data
    fast, slow = learner(X, bound=None, max_atoms=20), learner(X, bound=None, max_atoms=20)
    for head in slow.heads:
        head.rule.step = 1.0 - 1e-16  # equal to 1 in effect, but taken through the general rounds
    slow.heads[0].rule.__class__ = type("General", (StepRule,), {"closed_form": property(lambda self: False)})
    np.testing.assert_allclose(fast.learn(X, y[:, None]), slow.learn(X, y[:, None]), atol=1e-11)


def entries_of(model, X, oversampling, ridge, seed=0):
    indices, _, _ = literal_kors(RBF(1.5)(X), ridge, oversampling, 1, coins(seed, 0, len(X)))
    assert len(indices) == model.facts["atoms"]
    return set(indices.tolist())


@pytest.mark.parametrize(("restarts", "half_life"), [(True, None), (False, None), (True, 20.0), (False, 20.0)])
@pytest.mark.parametrize(("loss", "bound", "curvature", "step"), LOSS_CASES[1:6])
def test_it_is_the_printed_algorithm_with_the_eigen_embedding(
    data, loss, bound, curvature, step, restarts, half_life
):
    X, y = data[0][:250], targets_of(data[1], loss, bound)[:250]
    options = {"restarts": restarts, "half_life": half_life}
    model = learner(X, loss, bound, curvature, step, ridge=1.0, oversampling=0.5, **options)
    fast = model.learn(X, y[:, None])[:, 0]
    eta = eta_of(loss, curvature, step, bound)
    entries = entries_of(model, X, 0.5, 1.0)
    slow = literal_pros(X, y, RBF(1.5), LOSSES[loss], 0.1, bound, eta, entries, **options)
    np.testing.assert_allclose(fast, slow, atol=1e-8)
    options["restarts"] = not restarts
    other = literal_pros(X, y, RBF(1.5), LOSSES[loss], 0.1, bound, eta, entries, **options)
    assert np.abs(fast - other).max() > 1e-3, "PROS and CON must differ"
    assert np.abs(fast).max() <= bound + 1e-12
    assert model.growths == model.space.size == len(entries)


@pytest.mark.parametrize("task", ["Regressor", "Classifier"])
@pytest.mark.parametrize(("name", "restarts"), [("ConKons", False), ("ProsNKons", True), ("BudgetKons", True)])
def test_which_classes_begin_anew_when_their_space_grows(data, name, restarts, task):
    loss, bound = ("squared", 1.5) if task == "Regressor" else ("squared_hinge", 5.0)
    X, y = data[0][:120], targets_of(data[1], loss, bound)[:120]
    options = {"alpha": 0.1, "ridge": 1.0, "oversampling": 0.5, "max_atoms": 100, "curvature": "adaptive"}
    model = getattr(online, name + task)(
        kernel=RBF(1.5), loss=loss, bound=bound, step=1.0, random_state=0, **options
    )
    said = []
    for x, target in zip(X, y, strict=True):
        if said:
            score = model.predict if task == "Regressor" else model.decision_function
            said.append(float(score(x[None])[0]))
        else:
            said.append(0.0)
        model.partial_fit(x[None], [target], **({} if task == "Regressor" else {"classes": [-1.0, 1.0]}))
    entries = {i for i in range(len(X)) if (model.atoms_ == X[i]).all(axis=1).any()}
    eta = eta_of(loss, "adaptive", 1.0, bound)
    literal = [
        literal_pros(X, y, RBF(1.5), LOSSES[loss], 0.1, bound, eta, entries, restarts=which)
        for which in (restarts, not restarts)
    ]
    np.testing.assert_allclose(said, literal[0], atol=1e-8)
    assert np.abs(said - literal[1]).max() > 1e-3


def test_the_atoms_are_those_of_kors(data):
    X, y = data
    model = learner(X, oversampling=0.7)
    model.learn(X, y[:, None].clip(-1, 1))
    indices, p, _ = literal_kors(RBF(1.5)(X), 0.3, 0.7, 1, coins(0, 0, len(X)))
    assert np.array_equal(model.space.scorer.atoms, X[indices])
    np.testing.assert_allclose(model.space.scorer.weights, 1 / p, rtol=1e-9)


def test_b_kons_is_pros_below_the_limit_and_stops_at_it(data):
    X, y = data[0], data[1].clip(-1, 1)[:, None]
    free = learner(X, restarts=True)
    said = free.learn(X, y)
    size = free.space.size
    limited = learner(X, restarts=True, max_atoms=size + 1)
    np.testing.assert_allclose(limited.learn(X, y), said, rtol=0.0, atol=1e-12)
    small = learner(X, restarts=True, max_atoms=12)
    before = small.learn(X, y)
    assert small.space.size == 12
    assert small.growths == 12
    last = next(i for i in range(700) if not np.allclose(before[i], said[i], rtol=0.0, atol=1e-12))
    assert last > 12, "equal until the limit is reached"


@pytest.mark.parametrize("restarts", [True, False])
def test_one_repeated_row_needs_one_coordinate_and_regret_grows_as_the_logarithm(restarts):
    X = np.full((8000, 2), 0.3)
    y = np.where(np.arange(8000) % 2 == 0, 1.0, -1.0)
    regrets, sizes = [], []
    for T in (1000, 8000):
        model = learner(X, bound=1.0, curvature="worst", alpha=1.0, ridge=1.0, restarts=restarts)
        said = model.learn(X[:T], y[:T, None])[:, 0]
        sizes.append(model.facts)
        regrets.append(float(np.sum((said - y[:T]) ** 2 - y[:T] ** 2)))  # the best constant is 0
    assert sizes[-1]["coordinates"] == sizes[-1]["growths"] == 1
    assert sizes[-1]["atoms"] > 1, "the row is sampled again, and adds no coordinate"
    assert regrets[1] < 4 * np.log(8000)
    assert regrets[1] - regrets[0] < 4 * np.log(8)
    limited = learner(X, bound=1.0, curvature="worst", alpha=1.0, ridge=1.0, restarts=restarts, max_atoms=3)
    limited.learn(X, y[:, None])
    assert limited.space.size == 1, "a limit of three is not reached by one row three times"


def test_a_fixed_budget_of_weighted_atoms_fails_there():
    """Spec 2.3: with B atoms that may only be reweighted, log regret of the gradients needs weight of order T."""
    T, budget = 4000, 10
    y = np.where(np.arange(T) % 2 == 0, 1.0, -1.0)
    A, u, said = 1.0, 0.0, []
    for t in range(T):  # ONS in one dimension whose A stops growing after `budget` rounds
        z = float(np.clip(u, -1, 1))
        said.append(z)
        g = 2 * (z - y[t])
        A += 0.125 * g * g if t < budget else 0.0
        u = z - g / A
    assert np.sum((np.array(said) - y) ** 2 - y**2) > 0.2 * T


def span_of(kernel, X):
    """Return the space of which every row is an atom: a uniform number of 0 is below every chance."""
    return Space.empty(kernel, X, 1.0, 1.0, len(X)).enter(X, np.zeros(len(X)))[0]


@pytest.mark.parametrize(("loss", "curvature", "step"), [("squared", "worst", 0.5), ("logistic", "adaptive", 1.0)])
def test_with_every_row_as_an_atom_from_the_start_it_is_kons(data, loss, curvature, step):
    X, y = data[0][:90], targets_of(data[1], loss, 1.2)[:90]
    rule = StepRule(LOSSES[loss], 1.2, curvature, step)
    space = span_of(RBF(1.0), X)
    assert space.size == 90
    all_rows = NewtonLearner(NewtonPlan(0.5, True, False, rule), space, 1, 0)
    kons = KonsLearner(RBF(1.0), rule, 0.5, None, 1, 0)
    np.testing.assert_allclose(all_rows.learn(X, y[:, None]), kons.learn(X, y[:, None]), atol=1e-9)


def test_each_epoch_keeps_its_own_regret_bound(data):
    X, y = data[0], data[1].clip(-1, 1)
    model = learner(X, bound=1.0, curvature="worst", step=0.5, restarts=True, oversampling=0.3)
    steps, said, gains = [], [], []
    for i in range(len(y)):
        steps.append(model.growths)
        said.append(model.learn_row(X[i : i + 1], [float(y[i])])[0])
        gains.append(model.heads[0].gain)
    steps, said, gains = np.array(steps), np.array(said), np.array(gains)
    rng = np.random.default_rng(0)
    longest = sorted(set(steps[steps > 0]), key=lambda e: -np.sum(steps == e))[:5]
    for epoch in longest:
        here = np.flatnonzero(steps == epoch)
        features = span_of(RBF(1.5), model.space.scorer.atoms[:epoch]).features.block(X[here])
        gain = gains[here[-1]] - gains[here[0] - 1]
        fitted = np.linalg.lstsq(features, y[here], rcond=1e-3)[0]
        for w in (np.zeros(epoch), fitted, rng.standard_normal(epoch)):
            w = w * min(1.0, 1.0 / max(np.abs(features @ w).max(), 1e-300))
            regret = np.sum((said[here] - y[here]) ** 2 - (features @ w - y[here]) ** 2)
            assert regret <= 0.5 * (0.1 * w @ w + gain) + 1e-9


def test_rounding_does_not_pile_up(rng):
    X = rng.standard_normal((3 * REFRESH + 100, 2))
    y = np.sin(X[:, 0])[:, None]
    model = learner(X, bound=None, alpha=1e-3, max_atoms=40)
    model.learn(X, y)
    head = model.heads[0]
    A = head.A + (lambda F: np.tril(F.T @ F))(head.pending)
    A = np.tril(A) + np.tril(A, -1).T
    P = np.tril(head.P) + np.tril(head.P, -1).T
    assert np.abs(P @ A - np.eye(40)).max() < 1e-6


def test_linear_rows_fill_their_space_and_no_more(rng):
    X = rng.standard_normal((500, 4))
    y = (X @ rng.standard_normal(4))[:, None]
    model = learner(X, bound=None, kernel=Linear(), ridge=0.1, oversampling=5.0, restarts=True)
    said = model.learn(X, y)
    assert model.space.size == 4
    assert model.space.n_atoms > 4
    assert np.abs(said[200:] - y[200:]).max() < 0.02


def test_rows_that_do_not_resemble_each_other_are_refused_before_they_fill_the_memory(rng, monkeypatch):
    monkeypatch.setattr("squeak.online.learner.GUARD_ROWS", 200)
    X, y = rng.standard_normal((300, 5)), np.zeros((300, 1))
    model = learner(X, kernel=RBF(0.01))
    with pytest.raises(ValueError, match="hardly any row resembles another"):
        model.learn(X, y)
    assert 0 < model.n_seen < 300
    assert np.isfinite(model.scores(X[:5])).all()
    limited = learner(X, kernel=RBF(0.01), max_atoms=30)
    limited.learn(X, y)
    assert limited.facts["coordinates"] == 30


def test_an_interrupt_leaves_a_usable_state(data, monkeypatch):
    X, y = data[0], data[1].clip(-1, 1)[:, None]
    model, twin = learner(X), learner(X)
    plain = GrowingFeatures.block
    calls = iter(range(10**6))

    def interrupted(self, rows):
        if next(calls) == 4:
            raise KeyboardInterrupt
        return plain(self, rows)

    monkeypatch.setattr(GrowingFeatures, "block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.learn(X, y)
    monkeypatch.undo()
    done = model.n_seen
    assert done < 700
    twin.learn(X[:done], y[:done])
    np.testing.assert_allclose(model.learn(X[done:], y[done:]), twin.learn(X[done:], y[done:]), atol=1e-9)


def test_memory_does_not_grow_with_the_rows(rng):
    import tracemalloc

    model = learner(rng.random((1, 4)), bound=None, max_atoms=30)

    def feed(blocks):
        tracemalloc.start()
        for _ in range(blocks):
            X = rng.random((500, 4))
            model.learn(X, X.sum(axis=1, keepdims=True))
            for i in range(20):
                model.learn_row(X[i : i + 1], [1.0])
        used = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return used

    feed(6)
    short, long = feed(4), feed(40)
    assert long[1] < short[1] + 500_000
