"""Blends of kernels: weights against brute force, one kernel against plain ridge, rows kept back are not seen."""

import numpy as np
import pytest

import squeak
from squeak import KernelBlend, KernelRidge
from squeak.kernels import RBF, Laplacian, Linear, Matern, Metric
from squeak.learners.blend import LEAST_WEIGHT, convex_weights, trusted_part
from squeak.learners.metric import gradient_product

QUICK = {"max_atoms": 40, "search_atoms": 30, "rounds": 1, "random_state": 0}
KERNELS = [Laplacian("learned"), Metric(RBF("learned"), None)]


@pytest.fixture
def table(rng):
    X = rng.standard_normal((150, 3))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(150)


def simplex(parts, steps):
    """Return all weights of a grid that are not negative and add up to 1."""
    if parts == 1:
        return np.array([[1.0]])
    first = np.arange(steps + 1) / steps
    return np.array([[a, *((1 - a) * rest)] for a in first for rest in simplex(parts - 1, steps)])


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_are_the_best_of_all(rng, parts, weighted):
    y = rng.standard_normal((40, 2))
    values = [y + rng.standard_normal((40, 2)) * size for size in (0.5, 0.8, 0.6)[:parts]]
    weight = rng.uniform(0.1, 3.0, 40) if weighted else np.ones(40)

    def error(w):
        blend = sum(share * value for share, value in zip(w, values, strict=True))
        return float(weight @ np.square(y - blend).sum(axis=1))

    found = convex_weights(values, y, weight if weighted else None)
    best = min(map(error, simplex(parts, 100)))
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0)
    if found.min() > LEAST_WEIGHT:  # none was made 0
        assert error(found) <= best + 1e-9
    assert error(found) <= 1.01 * best


def test_weights_do_not_depend_on_the_units(rng):
    y = rng.standard_normal((40, 1))
    values = [y + rng.standard_normal((40, 1)), y + 0.5 * rng.standard_normal((40, 1))]
    expected = convex_weights(values, y)
    for unit in (1e-150, 1e-12, 1e12, 1e150):
        np.testing.assert_allclose(convex_weights([unit * v for v in values], unit * y), expected, rtol=1e-6)


def test_a_model_without_an_error_has_all_the_weight(rng):
    y = rng.standard_normal((30, 1))
    np.testing.assert_allclose(convex_weights([y, y + 1.0, 0 * y], y), [1.0, 0.0, 0.0])
    assert convex_weights([y, y], y).sum() == pytest.approx(1.0)


def test_one_kernel_is_ridge_regression_with_it(table):
    X, y = table
    model = KernelBlend([RBF(1.5)], **QUICK).fit(X, y)
    (trial,), (part,) = model.trials_, model.expansions_
    mean = np.delete(y, model.back_).mean()
    plain = KernelRidge(trial.kernel, trial.alpha * len(X), dictionary=part.atoms, solver="direct").fit(X, y - mean)
    np.testing.assert_allclose(model.predict(X), mean + model.weights_[0] * plain.predict(X), atol=1e-7)
    assert model.weights_[0] > 0.9
    assert model.score(X, y) > 0.9


def test_what_is_said_of_rows_kept_back_is_what_a_fit_without_them_says(table):
    X, y = table
    back = np.arange(150) % 5 == 0
    model = KernelBlend([RBF(1.5)], **{**QUICK, "max_atoms": 150}).fit(X, y, back=back)
    (trial,) = model.trials_
    rest = KernelRidge(trial.kernel, trial.alpha * np.count_nonzero(~back), dictionary=X[~back], solver="direct")
    mean = y[~back].mean()
    expected = mean + model.weights_[0] * rest.fit(X[~back], y[~back] - mean).predict(X[model.back_])
    assert set(model.back_) == set(np.flatnonzero(back))
    np.testing.assert_allclose(model.back_values_[:, 0], expected, atol=1e-5)


def test_values_of_rows_kept_back_never_see_their_targets(table):
    """With one kernel and no choice left, a change of a target that is kept back changes nothing said of others.

    The twin: the model that is fitted at last has seen the row, and follows it.
    """
    X, y = table
    back = np.arange(150) % 5 == 0
    other = y.copy()
    other[0] += 1e-4  # too little for another width or penalty to be chosen
    one, two = (KernelBlend([RBF(1.5)], **QUICK).fit(X, t, back=back) for t in (y, other))
    shares = [m.back_values_ - np.delete(t, m.back_).mean() for m, t in ((one, y), (two, other))]
    assert one.trials_[0].alpha == two.trials_[0].alpha
    np.testing.assert_allclose(shares[0] / one.weights_[0], shares[1] / two.weights_[0], rtol=1e-12)
    assert abs(one.predict(X[:1]) - two.predict(X[:1]))[0] > 1e-8


def test_gradients_in_blocks_are_those_of_all(table, rng):
    X, _ = table
    atoms, coef = X[:20], rng.standard_normal((20, 2))
    many = np.repeat(X, 9, axis=0)  # more than one tile
    for kernel in (
        RBF(1.5),
        Laplacian(np.array([1.0, 2.0, 3.0])),
        Metric(Matern(1.0), rng.standard_normal((2, 3))),
    ):
        whole = gradient_product(kernel, atoms, coef, many)
        parts = [gradient_product(kernel, atoms, coef, part) for part in np.array_split(many, 10)]
        np.testing.assert_allclose(whole, np.mean(parts, axis=0), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(np.diag(whole), gradient_product(kernel, atoms, coef, many, False), rtol=1e-12)


@pytest.mark.parametrize("most", [100, 130, 149])
def test_no_more_atoms_are_kept_than_are_asked_for(table, most):
    """Also where there are more rows than that, but not as many that are not held out."""
    model = KernelBlend([RBF(1.5)], **{**QUICK, "max_atoms": most}).fit(*table)
    assert max(len(part) for part in model.expansions_) <= most
    assert model.score(*table) > 0.9


@pytest.mark.parametrize("outputs", [1, 2])
def test_saved_and_loaded_it_predicts_the_same_bits(table, tmp_path, outputs):
    X, y = table
    model = KernelBlend(KERNELS, **QUICK).fit(X, y if outputs == 1 else np.c_[y, y**2])
    model.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.weights_, model.weights_)
    assert model.predict(X).shape == ((150,) if outputs == 1 else (150, 2))


def test_columns_that_do_not_matter_are_made_short(table, rng):
    X, _ = table
    wide = np.c_[X, rng.standard_normal((150, 3))]
    model = KernelBlend([RBF("learned")], **{**QUICK, "rounds": 3}).fit(wide, np.sin(2 * X[:, 0]))
    widths = model.kernel_.length_scale
    assert widths.argmin() == 0
    assert widths[0] < 0.5 * np.median(widths)


def test_columns_of_one_group_share_a_width(table):
    X, y = table
    model = KernelBlend([RBF("learned")], **QUICK).fit(X, y, groups=np.array([0, 1, 1]))
    widths = model.kernel_.length_scale
    assert widths[1] == widths[2] != widths[0]


def test_rows_without_weight_are_no_rows(table):
    X, y = table
    weight = np.where(np.arange(150) < 100, 1.0, 0.0)
    wild = np.where(weight > 0, y, 1e6)
    back = np.arange(150) % 7 == 0
    one = KernelBlend([RBF(1.5)], **QUICK).fit(X, wild, weight, back=back)
    two = KernelBlend([RBF(1.5)], **QUICK).fit(X[:100], y[:100], np.ones(100), back=back[:100])
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_a_map_that_nobody_gave_begins_as_the_identity(table):
    X, y = table
    plain, mapped = (KernelBlend([k], **{**QUICK, "rounds": 0}) for k in (RBF(1.5), Metric(RBF(1.5), None)))
    np.testing.assert_allclose(mapped.fit(X, y).predict(X), plain.fit(X, y).predict(X), atol=1e-9)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"kernels": []}, "one at least"),
        ({"kernels": RBF(1.0)}, "a list of kernels"),
        ({"kernels": "rbf"}, "a list of kernels"),
        ({"kernels": [Linear()]}, "must be RBF, Laplacian or Matern"),
        ({"kernels": [RBF(1.0) + Linear()]}, "must be RBF, Laplacian or Matern"),
        ({"kernels": [None]}, "must be RBF, Laplacian or Matern"),
        ({"kernels": [RBF(-1.0)]}, "length_scale must be positive"),
        ({"kernels": [RBF("wide")]}, "length_scale"),
        ({"rounds": -1}, "rounds must be"),
        ({"search_atoms": 0}, "search_atoms must be"),
    ],
)
def test_wrong_parameters_are_refused_and_change_nothing(table, params, words):
    X, y = table
    model = KernelBlend([RBF(1.5)], **QUICK).fit(X, y)
    before = model.predict(X)
    model.set_params(**params)
    with pytest.raises((TypeError, ValueError), match=words):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("back", [np.ones(3, dtype=bool), np.arange(150), "all"])
def test_rows_to_keep_back_are_told_by_truth_values(table, back):
    X, y = table
    with pytest.raises(ValueError, match="back must tell"):
        KernelBlend([RBF(1.5)], **QUICK).fit(X, y, back=back)


@pytest.mark.parametrize("mask", [np.zeros(150, dtype=bool), np.ones(150, dtype=bool)])
def test_none_or_all_of_the_rows_kept_back_is_fine(table, mask):
    X, y = table
    assert KernelBlend([RBF(1.5)], **QUICK).fit(X, y, back=mask).score(X, y) > 0.8


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_handful_of_rows_is_enough(n):
    X = np.arange(n, dtype=float)[:, None]
    model = KernelBlend(**QUICK).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()


def test_rows_and_targets_that_are_all_alike_give_the_mean():
    model = KernelBlend(**QUICK).fit(np.ones((30, 2)), np.arange(30.0))
    assert np.ptp(model.predict(np.ones((30, 2)))) < 1e-6
    assert abs(model.predict(np.ones((1, 2)))[0] - 14.5) < 3.0
    same = KernelBlend(**QUICK).fit(np.random.default_rng(0).random((30, 2)), np.full(30, 7.0))
    np.testing.assert_allclose(same.predict(np.zeros((3, 2))), 7.0)


def test_rows_of_which_most_are_alike_have_a_width():
    X = np.zeros((40, 2))
    X[::9] = np.random.default_rng(0).standard_normal((5, 2))
    model = KernelBlend(**QUICK).fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("unit", [1e-100, 1e-9, 1e9, 1e100])
def test_units_of_rows_and_targets_do_not_matter(table, unit):
    X, y = table
    plain, other = KernelBlend(KERNELS, **QUICK).fit(X, y), KernelBlend(KERNELS, **QUICK).fit(unit * X, y)
    np.testing.assert_allclose(other.predict(unit * X), plain.predict(X), atol=1e-3)
    targets = KernelBlend(KERNELS, **QUICK).fit(X, unit * y)
    np.testing.assert_allclose(targets.predict(X) / unit, plain.predict(X), atol=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_little_of_a_model_is_kept_where_its_slope_may_be_chance(rng, weighted):
    """t = max(0, 1 − 4(s/b)²): all of a model without an error, at most 3 of 200 of models of noise.

    A slope of noise is above two standard errors with a probability of 2.3%, a few percent more with weights; more
    than 14 of 200 are so with a probability below 1e-3. The twin, without the factor 4, keeps 16% of them.
    """
    n = 400
    weight = rng.uniform(0.5, 2.0, n) if weighted else None
    y = rng.standard_normal((n, 1))
    mean = np.average(y, axis=0, weights=weight)
    assert trusted_part(mean + 0.5 * (y - mean), mean, y, weight) == 1.0
    assert trusted_part(mean - y, mean, y, weight) == 0.0
    noise = [rng.standard_normal((n, 1)) for _ in range(200)]
    kept = [trusted_part(mean + said, mean, y, weight) for said in noise]
    assert np.count_nonzero(kept) <= 14
    slope = 0.3
    said = (y + rng.standard_normal((n, 1)) / slope) * slope
    share = np.full(n, 1.0) if weight is None else weight
    u, v = (said - mean)[:, 0], (y - mean)[:, 0]
    b = np.sum(share * u * v) / np.sum(share * u * u)
    s = np.sqrt(np.sum((share * u * (v - b * u)) ** 2)) / np.sum(share * u * u)
    assert trusted_part(said, mean, y, weight) == pytest.approx(1.0 - 4.0 * (s / b) ** 2)
