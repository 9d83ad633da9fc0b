"""Boxes: encoding, minimisation, pending points, the move to a dictionary."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import chisquare

import squeak
from squeak.bandits import BoxUCB, Categorical, Integer, Real, minimize
from squeak.bandits.box_model import BoxDictionary, BoxModel
from squeak.bandits.evidence import _Knobs, _Likelihood
from squeak.bandits.fronts import Direction, non_dominated
from squeak.bandits.searching import trusted
from squeak.bandits.space import Space
from squeak.core.storage import NotStoredError, StorageError
from squeak.kernels import RBF, Matern, PairwiseKernel
from tests.bandits.oracles import dense_dtc, dense_posterior, literal_region

MIXED = [(-2.0, 3.0), Real(1e-4, 1.0, log=True), Integer(1, 64, log=True), ["a", "b", "c"]]


def branin(x):
    a, b = x
    return (b - 5.1 / (4 * np.pi**2) * a * a + 5 / np.pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def test_encoding_and_decoding_are_inverse_and_snapping_keeps_points(rng):
    space = Space(MIXED)
    rows = space.snap(rng.random((200, space.width)))
    for row in rows:
        point = space.decode(row)
        assert -2 <= point[0] <= 3
        assert 1e-4 <= point[1] <= 1
        assert point[2] in range(1, 65)
        assert point[3] in "abc"
        np.testing.assert_allclose(space.encode(point), row, atol=1e-9)
    np.testing.assert_allclose(space.snap(rows), rows, atol=1e-12)


def test_categories_lie_at_distance_one():
    space = Space([["a", "b", "c"]])
    assert np.linalg.norm(space.encode(["a"]) - space.encode(["c"])) == pytest.approx(1.0)


def test_even_points_are_even_over_the_values_of_a_category(rng):
    space = Space([(0.0, 2.0), ["a", "b", "c"], Integer(1, 4), ["only"]])
    units = (np.arange(60) + 0.5)[:, None] / 60 * np.ones(4)
    points = [space.decode(row) for row in space.spread(units)]
    assert [[p[1] for p in points].count(value) for value in "abc"] == [20, 20, 20]
    assert [[p[2] for p in points].count(value) for value in range(1, 5)] == [15] * 4
    np.testing.assert_allclose([p[0] for p in points], 2 * units[:, 0])
    assert space.categories == [slice(1, 4)]
    np.testing.assert_array_equal(space.side_of_column, [0, 1, 1, 1, 2, 3])
    jumped = space.jumped(space.spread(units), 1.0, rng)
    assert {space.decode(row)[1] for row in space.snap(jumped)} == set("abc")
    np.testing.assert_array_equal(space.jumped(jumped, 0.0, rng), jumped)


def evenness(side, places):
    """Return the p-value of the places' whole numbers, if each k has the share of what is rounded to it."""
    numbers = np.arange(side.low, side.high + 1)
    shares = np.log((numbers + 0.5) / (numbers - 0.5)) if side.log else np.ones(len(numbers))
    counts = np.bincount([side.decode(place) - side.low for place in places], minlength=len(numbers))
    return chisquare(counts, shares / shares.sum() * len(places)).pvalue


WHOLE = [Integer(1, 5), Integer(-3, 6), Integer(1, 2, log=True), Integer(1, 8, log=True), Integer(2, 12, log=True)]


@pytest.mark.parametrize("side", WHOLE)
def test_the_ends_of_a_whole_number_are_as_likely_as_the_others(side, rng):
    """False alarms: 5 · 1e-4 in all. The twin rounds numbers between the ends, which so get too small a part."""
    units = rng.random((20_000, 1))
    assert evenness(side, side.spread(units)) > 1e-4
    assert evenness(side, side.snap(units)) < 1e-12


def test_first_points_of_a_box_try_every_whole_number_equally_often():
    """Of 64 Sobol points as many lie in each quarter of a side; 11, 21, 21 and 11 were tried of the four."""
    box = BoxUCB([(0.0, 1.0), Integer(1, 4)], n_initial=64, random_state=0)
    tried = [box.ask()[1] for _ in range(64)]
    assert np.bincount(tried).tolist() == [0, 16, 16, 16, 16]


def test_every_category_is_tried_and_the_best_one_is_found_in_noise():
    """Both categories have a bump of their own; the lower one was taken for good where refinement cannot cross."""
    rng = np.random.default_rng(102)
    bumps = {"low": (0.85, np.array([0.2, 0.3, 0.7])), "high": (1.0, np.array([0.7, 0.6, 0.2]))}

    def f(point):
        height, centre = bumps[point[3]]
        return height * np.exp(-((np.array(point[:3]) - centre) ** 2).sum() / 0.25)

    box = BoxUCB([(0.0, 1.0)] * 3 + [["low", "high"]], random_state=2)
    for _ in range(40):
        point = box.ask()
        box.tell(point, f(point) + 0.05 * rng.standard_normal())
    values = [point[3] for point in box.pulls_]
    assert min(values.count("low"), values.count("high")) >= int(3 * np.sqrt(39) / 2)
    assert values.count("high") > 20
    assert max(map(f, box.pulls_)) > 0.97


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ([(1.0, 0.0)], ValueError),
        ([(0.0, np.inf)], ValueError),
        ([Categorical], TypeError),
        ([], TypeError),
        ("ab", TypeError),
        ([3], TypeError),
    ],
)
def test_bad_bounds_are_refused(bounds, error):
    with pytest.raises(error):
        BoxUCB(bounds)


@pytest.mark.parametrize(
    "make", [lambda: Real(-1, 1, log=True), lambda: Integer(0.5, 3), lambda: Categorical(["a", "a"])]
)
def test_bad_sides_are_refused(make):
    with pytest.raises(ValueError):
        make()


def test_bad_values_change_nothing():
    box = BoxUCB([(0.0, 1.0)] * 2, random_state=0)
    for point, value in (
        ([0.5, 0.5], None),
        ([0.5, 0.5], "x"),
        ([0.5], 1.0),
        ([0.5, 2.0], 1.0),
        ([0.1, 0.1], 1e200),
    ):
        with pytest.raises(ValueError):
            box.tell(point, value)
    assert box.n_told_ == 0
    with pytest.raises(ValueError, match="no value"):
        _ = box.best_


def test_branin_is_minimised_and_random_points_do_worse():
    found = minimize(branin, [(-5.0, 10.0), (0.0, 15.0)], 50, random_state=0)
    rng = np.random.default_rng(0)
    random = min(branin(rng.random(2) * 15 - [5, 0]) for _ in range(50))
    assert found.fun - 0.397887 < 1e-2 < random - 0.397887
    assert found.fun == branin(found.x)
    assert len(found.points) == 50


def test_mixed_sides_are_minimised():
    def f(point):
        x, rate, n, letter = point
        return (
            (x - 1) ** 2
            + (np.log10(rate) + 2) ** 2
            + (np.log2(n) - 3) ** 2 / 4
            + {"a": 1.0, "b": 0.0, "c": 2.0}[letter]
        )

    found = minimize(f, MIXED, 60, random_state=0)
    assert found.fun < 0.2
    assert found.x[3] == "b"


def test_the_same_seed_gives_the_same_points():
    runs = [minimize(branin, [(-5.0, 10.0), (0.0, 15.0)], 25, random_state=3).values for _ in range(2)]
    assert np.array_equal(*runs)


def test_points_from_before_and_a_callback_that_stops():
    found = minimize(
        branin,
        [(-5.0, 10.0), (0.0, 15.0)],
        30,
        points=[[np.pi, 2.275]],
        values=[branin([np.pi, 2.275])],
        callback=lambda x, value: len(x) == 2,
        random_state=0,
    )
    assert len(found.values) == 2
    assert found.fun == pytest.approx(0.397887, abs=1e-4)


def test_a_run_is_asking_and_telling_and_what_fails_is_no_longer_pending():
    run, by_hand = (BoxUCB([(-5.0, 10.0), (0.0, 15.0)], random_state=4) for _ in range(2))
    seen = []
    run.run(lambda x: -branin(x), 14, callback=lambda *pull: seen.append(pull))
    for _ in range(14):
        point = by_hand.ask()
        by_hand.tell(point, -branin(point))
    assert np.array_equal(run.pulls_, by_hand.pulls_)
    assert np.array_equal([value for _, value in seen], run.rewards_)
    assert run.run(lambda x: 0.0, 9, callback=lambda *pull: True).n_told_ == 15
    with pytest.raises(ValueError, match="tell a number, or NaN"):
        run.run(lambda x: "much", 2)
    assert run.n_told_ == 15
    assert run.pending_ == []


def test_constant_values_do_no_harm():
    found = minimize(lambda x: 1.0, [(0.0, 1.0)] * 2, 30, random_state=0)
    assert len(np.unique([tuple(p) for p in found.points], axis=0)) == 30


@pytest.mark.parametrize("crossover", [100, 10])
def test_pending_points_lower_the_variance_as_if_they_were_told(rng, crossover):
    """Exact: the dense posterior with the pending points; on a dictionary of all points it is the same."""
    X, pending, places = rng.random((30, 2)), rng.random((3, 2)), rng.random((20, 2))
    model = BoxModel(crossover, 100, 1e6, 2.0)
    model.refit(X, np.sin(X).sum(axis=1), RBF(0.4), 0.1, 0.0, rng)
    every = np.vstack([X, pending, places])
    variance = dense_posterior(RBF(0.4)(every), np.arange(33), np.zeros(33), 0.01)[1]
    np.testing.assert_allclose(model.shrunk(places, pending)[1], variance[33:], atol=1e-5)
    assert (model.predict(places)[1] > variance[33:] + 1e-6).any()
    more = np.vstack([X, places[:1]])  # one more point is told, and the same ones are pending
    model.observe(more, np.sin(more).sum(axis=1), rng)
    after = model.shrunk(places, pending)[1]
    np.testing.assert_array_equal(after, model.shrunk(places, pending.copy())[1])  # nothing stale is left
    assert (variance[33:] > after + 1e-4).any()


def test_asked_points_are_pending_until_told_or_forgotten():
    box = BoxUCB([(0.0, 1.0)] * 2, random_state=0)
    asked = [box.ask() for _ in range(4)]
    box.tell(asked[2], 1.0)
    box.forget(asked[0])
    np.testing.assert_allclose(box.pending_, [asked[1], asked[3]])
    with pytest.raises(ValueError, match="is not pending; 2 others are"):
        box.forget(asked[0])
    box.set_pending([[0.5, 0.25]])
    np.testing.assert_allclose(box.pending_, [[0.5, 0.25]])


def test_the_dictionary_of_a_box_is_the_dense_posterior(rng):
    X, y = rng.random((80, 2)), rng.standard_normal(80)
    members = np.arange(0, 60, 5)
    model = BoxDictionary(RBF(0.4), 0.1, X[:60], y[:60], members)
    for i in range(60, 80):
        model.observe(X[i], y[i])
    mean, residual, signal = dense_dtc(RBF(0.4)(X), members, np.arange(80), y, 0.1)
    got = model.predict(X)
    np.testing.assert_allclose(got[0], mean, atol=1e-7)
    np.testing.assert_allclose(got[1], 0.1 * (residual + signal), atol=1e-8)


def test_points_that_the_dictionary_may_not_see_are_never_more_than_its_atoms(rng):
    """Also where their variances never add up to the batch factor, so that nothing else draws a new dictionary."""
    X, sizes = rng.random((120, 2)), []
    model = BoxModel(20, 10, 5.0, 1e6)
    model.refit(X[:30], X[:30].sum(axis=1), RBF(0.4), 0.1, 0.0, rng)
    for n in range(31, 121):
        model.observe(X[:n], X[:n].sum(axis=1), rng)
        sizes.append(len(model.recent))
    assert max(sizes) == 9
    assert sizes.count(0) == 9


def test_past_the_crossover_the_dictionary_is_limited_and_the_search_goes_on():
    box = BoxUCB([(-5.0, 10.0), (0.0, 15.0)], crossover=40, max_atoms=25, random_state=0)
    for _ in range(110):
        x = box.ask()
        box.tell(x, -branin(x))
    assert isinstance(box._model.posterior, BoxDictionary)
    assert box._model.posterior.features.rank <= 50
    assert -box.best_[1] - 0.397887 < 0.1


def test_a_box_has_the_face_of_a_bandit():
    box = BoxUCB([(0.0, 1.0), ["a", "b"]], n_initial=4, random_state=0)
    for i in range(10):
        assert np.isnan(box.best_.std) if 0 < i < 4 else True
        box.tell(box.ask(), float(np.cos(i)))
    best = box.best_
    point, value = best
    assert (best.index, best.mean, best.arm) == (0, 1.0, box.pulls_[0])
    assert (point, value) == (best[0], best[1]) == (best.arm, best.mean)
    assert 0.0 < best.std < 1.0
    assert box.told_[0] == box.pulls_
    np.testing.assert_array_equal(box.rewards_, np.cos(np.arange(10)))


def test_a_kernel_of_ones_own_is_taken():
    assert minimize(branin, [(-5.0, 10.0), (0.0, 15.0)], 25, kernel=Matern(0.4, nu=1.5), random_state=0).fun < 10


ODD = [(-2.0, 3.0), Integer(1, 64, log=True), ["a", None, 3, True]]


def bowl(point):
    return (point[0] - 1.0) ** 2 + (np.log2(point[1]) - 3) ** 2 / 4 + (point[2] is not None)


def test_words_and_truths_are_values_and_never_the_ends_of_an_interval():
    space = Space([[True, False], ("a", "b"), ("1", "2"), (0, 1), [0.0, 1.0]])
    assert [type(side).__name__ for side in space.sides] == ["Categorical"] * 3 + ["Real"] * 2
    assert space.decode(space.encode([False, "b", "2", 0.5, 1.0])) == [False, "b", "2", 0.5, 1.0]


def test_a_whole_number_is_whole():
    with pytest.raises(ValueError, match="finite"):
        Integer(0, np.inf)
    box = BoxUCB([Integer(1, 5)], random_state=0)
    with pytest.raises(ValueError, match=r"2\.5 is no whole number"):
        box.tell([2.5], 1.0)
    assert box.n_told_ == 0


@pytest.mark.parametrize(
    "bounds",
    [
        [(1e9, 1e9 + 1)],
        [(-1e-300, 1e-300)],
        [Integer(10**12, 10**12 + 7)],
        [Integer(1, 10**20, log=True)],
    ],
    ids=str,
)
def test_what_is_told_is_no_longer_pending_whatever_the_ends(bounds):
    box = BoxUCB(bounds, n_initial=3, random_state=0)
    for i in range(8):
        box.tell(box.ask(), float(np.sin(i)))
    assert box._pending == []


def test_a_single_category_is_a_space():
    found = minimize(lambda point: float(len(point[0])), [["only"]], 8, n_initial=3, random_state=0)
    assert found.x == ["only"]
    mixed = minimize(lambda p: (p[1] - 0.4) ** 2, [Categorical(["only"]), (0.0, 1.0)], 20, random_state=0)
    assert mixed.fun < 1e-2


def test_a_function_that_spoils_its_argument_does_no_harm():
    def spoils(x):
        value = float((x[0] - 0.3) ** 2)
        x[:] = 7.0
        return value

    clean = minimize(lambda x: float((x[0] - 0.3) ** 2), [(0.0, 1.0)], 12, random_state=0)
    np.testing.assert_array_equal(minimize(spoils, [(0.0, 1.0)], 12, random_state=0).values, clean.values)


@pytest.mark.parametrize(
    "known", [{"points": [[0.5]]}, {"values": [1.0]}, {"points": [[0.5]], "values": [1.0, 2.0]}]
)
def test_points_and_values_from_before_belong_together(known):
    with pytest.raises(ValueError, match="as many values as points"):
        minimize(lambda x: 0.0, [(0.0, 1.0)], 3, **known)


@pytest.mark.parametrize("told", [0, 3, 15, 40], ids=["new", "before the first fit", "exact", "dictionary"])
@pytest.mark.parametrize("bounds", [ODD, [(0.0, 1.0), (1e6, 1e6 + 3)]], ids=["mixed", "real"])
def test_a_saved_box_goes_on_in_the_same_bits(bounds, told, tmp_path):
    def value(point):
        return -bowl(point) if len(point) == 3 else float(np.sin(9 * point[0]) + np.cos(point[1]))

    box = BoxUCB(bounds, n_initial=5, crossover=25, max_atoms=12, random_state=0)
    for _ in range(told):
        point = box.ask()
        box.tell(point, value(point))
    waiting = [box.ask(), box.ask()]
    squeak.save(box, tmp_path / "b.sqk")
    again = squeak.load(tmp_path / "b.sqk")
    for one in (box, again):
        one.tell(waiting[1], 0.5)
    for _ in range(8):
        point, other = box.ask(), again.ask()
        assert list(point) == list(other)
        box.tell(point, value(point))
        again.tell(other, value(other))
    assert list(again.best_[0]) == list(box.best_[0])
    assert len(again._pending) == len(box._pending) == 1


def step(box, kind):
    """Ask a box once and tell it a value of the kind; every fourth trial of those that can fail does."""
    point = box.ask()
    x = 0.5 if point[0] is None else point[0]
    if kind == "fails" and box._asked % 4 == 3:
        box.fail(point)
    elif kind == "constraints":
        box.tell(point, -x, constraints=[0.25 - x * point[1], x - 0.9])
    else:
        box.tell(point, [-x, (x - 0.7) ** 2] if kind == "objectives" else -((x - 0.3) ** 2))
    return list(point)


KINDS = {
    "constraints": ([(0.0, 1.0)] * 2, {}),
    "objectives": ([(0.0, 1.0)] * 2, {"objectives": 2}),
    "fails": ([(0.0, 1.0)] * 2, {}),
    "conditions": (
        [(0.0, 1.0), ["a", None, "c"], ["p", "q"]],
        {"conditions": {0: (1, ["a", "c"]), 2: (1, [None])}},
    ),
}


@pytest.mark.parametrize("told", [0, 12, pytest.param(34, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_box_of_every_kind_goes_on_in_the_same_bits(kind, told, tmp_path):
    bounds, params = KINDS[kind]
    box = BoxUCB(bounds, n_initial=5, crossover=20, max_atoms=10, random_state=0, **params)
    for _ in range(told):
        step(box, kind)
    waiting = box.ask()
    box.save(tmp_path / "b.sqk")
    again = squeak.load(tmp_path / "b.sqk")
    assert again.settings(seeded=True) == box.settings(seeded=True)
    assert [list(point) for point in again.pulls_] == [list(point) for point in box.pulls_]
    for one in (box, again):
        one.forget(waiting)
    assert [step(again, kind) for _ in range(5)] == [step(box, kind) for _ in range(5)]
    np.testing.assert_array_equal(again.rewards_, box.rewards_)
    np.testing.assert_array_equal(again.front_, box.front_)
    assert again._failed == box._failed
    if told and kind != "conditions":
        arrays, content = box.to_parts()
        for broken in (content | {"surfaces": content["surfaces"][1:]}, content | {"objectives": 9}):
            with pytest.raises(ValueError):
                BoxUCB.from_parts(arrays, broken)


def test_what_cannot_be_stored_of_a_box_is_refused(tmp_path):
    for box in (
        BoxUCB([[("a", "tuple"), "b"]]),
        BoxUCB([(0.0, 1.0)], PairwiseKernel(lambda a, b: float(np.exp(-np.abs(a - b).sum())))),
    ):
        with pytest.raises(NotStoredError):
            box.save(tmp_path / "b.sqk")
    box = BoxUCB([(0.0, 1.0)], n_initial=3, random_state=0)
    for i in range(5):
        box.tell(box.ask(), float(i))
    arrays, content = box.to_parts()
    for name in ("rows", "values", "points", "box_arms", "model_inverse"):
        squeak.core.storage.write(tmp_path / "c.sqk", box.kind, arrays | {name: arrays[name][:-1]}, content)
        with pytest.raises(StorageError):
            BoxUCB.load(tmp_path / "c.sqk")


def test_a_minimisation_that_failed_goes_on_from_its_checkpoint_in_the_same_bits(tmp_path):
    def fails(point):
        calls.append(point)
        if len(calls) == 14:
            raise OSError("the machine is gone")
        return None if len(calls) == 20 else bowl(point)

    calls = []
    run = {"random_state": 3, "points": [[0.0, 8, None]], "values": [1.0]}
    whole = minimize(bowl, ODD, 24, **run)
    for error in (OSError, TypeError):
        with pytest.raises(error):
            minimize(fails, ODD, 24, checkpoint=tmp_path / "m.sqk", **run)
    found = minimize(fails, ODD, 24, checkpoint=tmp_path / "m.sqk", **run)
    assert found.values.tolist() == whole.values.tolist()
    assert found.points == whole.points
    assert len(calls) == 24 + 2  # the two that failed were asked again
    done = minimize(fails, ODD, 24, checkpoint=tmp_path / "m.sqk", **run)
    assert done.x == found.x
    assert len(calls) == 26
    for other in ({"bounds": ODD[:2]}, {"random_state": 4}, {"crossover": 7}):
        with pytest.raises(ValueError, match="other bounds or parameters"):
            minimize(bowl, **({"bounds": ODD, "n_steps": 30, "checkpoint": tmp_path / "m.sqk"} | run | other))


def test_the_slopes_of_the_likelihood_are_its_differences(rng):
    """Of widths, alone or in groups, and of the noise; amplitude and mean are fitted, or given."""
    X, counts = rng.random((30, 3)), rng.integers(1, 4, 30).astype(float)
    sums = rng.standard_normal(30) * counts
    data = _Likelihood(X, counts, sums, float((sums**2 / counts).sum()) + 5.0, None)
    for kernel in (Matern(0.5, nu=2.5), 2.0 * RBF(0.4), 3.0 * Matern(np.array([0.3, 0.5, 0.9]), nu=1.5)):
        for groups in (None, np.array([0, 1, 1])):
            knobs = _Knobs(kernel, groups)
            theta = np.append(knobs.start + 0.1, np.log(0.2))
            for fixed in ((None, None), (1.0, 0.3)):

                def value(theta, knobs=knobs, fixed=fixed):
                    return data.best(knobs.turned(theta[:-1]), np.exp(theta[-1]), *fixed)

                best = value(theta)[1:]
                slopes = knobs.slopes(*data.slopes(knobs.turned(theta[:-1]), 0.2, *best))
                differences = approx_fprime(theta, lambda at, value=value: value(at)[0], 1e-6)
                np.testing.assert_allclose(slopes, differences, atol=1e-3)


def test_few_sides_that_matter_are_found_among_many():
    found = minimize(lambda x: (x[3] - 0.7) ** 2 + (x[17] - 0.2) ** 2, [(0.0, 1.0)] * 30, 50, random_state=0)
    assert found.fun < 0.01  # fifty random points: about 0.02 at best, over these two sides alone


def test_a_search_that_is_done_here_looks_elsewhere():
    """Where little is promised and nothing has risen, every second point outside of the region of trust does."""
    box = BoxUCB([(0.0, 1.0)] * 2, random_state=0)
    box.run(lambda x: float(np.sin(14 * x[0]) * np.cos(11 * x[1])), 45)
    asked = []
    for _ in range(6):
        done = box._is_done(-10.0) and not box._is_done(0.0)
        row = box.space.encode(box.ask())
        asked.append((box._asked % 2 == 0 and box._asked % 3 > 0, done, row))
        box.set_pending([])
    best = box._rows[[box.best_.index]]
    like = [box._surface.likeness(row[None, :], best)[0] for second, done, row in asked if second and done]
    assert len(like) == 2
    assert max(like) < 0.5


def test_the_region_of_trust_is_that_of_the_literal_rule(rng):
    for _ in range(300):
        n, rise = int(rng.integers(1, 120)), rng.choice([0.0, 0.03, 0.2, 1.0])
        values = rng.standard_normal(n) + rise * np.arange(n)
        first = int(rng.integers(1, n + 20))  # where trials fail, there may be fewer values
        least, sides = rng.choice([0.0, 0.1, 1.0]), int(rng.integers(1, 8))
        assert trusted(values, first, least, sides) == literal_region(values, first, least, sides)


@pytest.mark.parametrize("bounds", [[(0.0, 1.0), (-3.0, 9.0)], [(0.0, 1.0), Integer(1, 50), ["a", "b"]]])
def test_every_third_point_lies_in_the_region_of_trust(bounds):
    box = BoxUCB(bounds, random_state=0)
    box.run(lambda x: -((x[0] - 0.3) ** 2) - 0.01 * x[1], 29)
    half = 0.5 * trusted(box.rewards_, box.n_initial, box._notable, len(bounds)) * box._surface.widths
    best = box._rows[box.best_.index]
    gaps = []
    for _ in range(9):
        gaps.append((np.abs(box.space.encode(box.ask()) - best)[:2] / half[:2]).max())
        if box._asked % 3:
            box.forget(box.pending_[-1])
    whole = 1.0 if box.space.is_real else 1.0 + 0.5 / 49 / half[1]  # a whole number is the nearest
    assert max(gaps[::3]) <= whole + 1e-9
    assert len({box.space.encode(point).tobytes() for point in box.pending_}) == 3  # pending points are respected


def test_constraints_are_satisfied_and_the_best_point_is_one_that_does():
    """Minimise x + y where x·y ≥ ¼: the best is (½, ½), on the border."""
    box = BoxUCB([(0.0, 1.0)] * 2, random_state=0)
    for _ in range(40):
        x = box.ask()
        box.tell(x, -x[0] - x[1], constraints=[0.25 - x[0] * x[1]])
    assert box.n_constraints_ == 1
    assert box.best_.arm[0] * box.best_.arm[1] >= 0.25
    assert -1.05 < box.best_.mean <= -1.0
    with pytest.raises(ValueError, match="same number of constraints"):
        box.tell([0.5, 0.5], 0.0)
    assert box.n_told_ == 40


def test_a_search_without_any_point_that_is_allowed_looks_for_one():
    box = BoxUCB([(0.0, 1.0)] * 3, random_state=0)
    for _ in range(40):
        x = box.ask()
        box.tell(x, -float(x.sum()), constraints=[float(np.abs(x - 0.8).max()) - 0.1])
    assert box._allowed.sum() > 10


def test_sides_with_conditions_are_none_where_they_are_not_there():
    bounds = [["tree", "line", "net"], Integer(1, 9), (0.0, 1.0), ["a", "b"]]
    conditions = {1: (0, ["tree"]), 2: (0, ["line", "net"]), 3: (0, ["net"])}
    box = BoxUCB(bounds, conditions=conditions, random_state=0)
    for _ in range(40):
        kind, depth, rate, letter = point = box.ask()
        assert (depth is None, rate is None, letter is None) == (kind != "tree", kind == "tree", kind != "net")
        loss = 1.0 if kind == "line" else 0.3 + abs(depth - 5) / 10 if kind == "tree" else (rate - 0.3) ** 2
        box.tell(point, -loss - (letter == "a"))
    assert box.best_.arm[0] == "net"
    assert box.best_.mean > -0.01
    for wrong in ({1: (0, ["bush"])}, {1: (2, [0.5])}, {9: (0, ["tree"])}, {0: (3, ["a"]), 3: (0, ["net"])}):
        with pytest.raises(ValueError):
            BoxUCB(bounds, conditions=wrong)


def test_the_front_of_several_objectives(rng):
    values = rng.integers(0, 6, (60, 3)).astype(float)
    at_least = (values[:, None, :] >= values[None, :, :]).all(axis=2)
    more = (values[:, None, :] > values[None, :, :]).any(axis=2)
    np.testing.assert_array_equal(non_dominated(values), ~(at_least & more).any(axis=0))
    box = BoxUCB([(0.0, 1.0)] * 2, objectives=2, random_state=0)
    for _ in range(30):
        x = box.ask()
        box.tell(x, [-x[0] - (x[1] - 0.4) ** 2, x[0] - 1 - (x[1] - 0.4) ** 2])
    assert box.rewards_.shape == (30, 2)
    front = box.rewards_[box.front_]
    assert len(front) >= 10
    assert front.sum(axis=1).max() > -1.001
    assert np.ptp(front[:, 0]) > 0.8
    for wrong in (1.0, [1.0], [1.0, "x"]):
        with pytest.raises(ValueError):
            box.tell([0.5, 0.5], wrong)
    with pytest.raises(ValueError, match="front_"):
        _ = box.best_


def test_the_mean_over_directions_is_the_volume(rng):
    """Golovin and Zhang: the mean of s over directions is the dominated area times 4/π for two objectives."""
    points = np.array([[1.0, 3.0], [2.0, 2.0], [3.5, 1.0]])
    drawn = [Direction(points, np.ones(3, dtype=bool), np.random.default_rng(i)) for i in range(4000)]
    low = points.min(axis=0) - 0.1 * np.ptp(points, axis=0)
    heights = points - low
    area = heights[0, 0] * (heights[0, 1] - heights[1, 1]) + heights[1, 0] * (heights[1, 1] - heights[2, 1])
    area += heights[2, 0] * heights[2, 1]
    assert np.mean([d.reached.max() for d in drawn]) * np.pi / 4 == pytest.approx(area, rel=0.03)


@pytest.mark.parametrize("seed", [0, 3])
def test_many_pending_points_may_crowd_at_an_optimum(seed):
    """Without noise and with 16 points pending, rounding outweighs what is left of their covariance."""
    box, rng = BoxUCB([(0.0, 1.0)] * 2, random_state=seed), np.random.default_rng(seed)
    pending = [box.ask() for _ in range(16)]
    for _ in range(60):
        point = pending.pop(int(rng.integers(16)))
        box.tell(point, -((point[0] - 0.3) ** 2) - (point[1] - 0.6) ** 2)
        pending.append(box.ask())
    assert -1e-6 < box.best_.mean <= 1e-6


def test_turns_of_other_numbers_draw_other_points():
    """Processes that share a study and a seed tell apart by the numbers of their trials what they draw."""
    boxes = [BoxUCB([(0.0, 1.0)] * 4, n_initial=4, random_state=0) for _ in range(3)]
    points = np.random.default_rng(0).random((8, 4))
    for box, turn in zip(boxes, (5, 5, 6), strict=True):
        box.tell_many(points, -np.sum((points - 0.3) ** 2, axis=1))
        box.skip_to(turn)
    first, same, other = (box.ask() for box in boxes)
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 0.0


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda p: float("inf"), ValueError, "all 5 trials failed: f returned no finite number, the first time at"),
        (lambda p: float("nan"), ValueError, "all 5 trials failed"),
        (lambda p: 1e200, ValueError, r"f returned 1e\+200.* return NaN"),
        (lambda p: (1.0, 2.0), TypeError, r"must return a number; at .* it returned \(1.0, 2.0\)"),
    ],
)
def test_a_function_that_returns_no_number_is_named_as_it_was_given(f, error, words):
    with pytest.raises(error, match=words):
        minimize(f, [(0.0, 1.0)], 5, random_state=0)
