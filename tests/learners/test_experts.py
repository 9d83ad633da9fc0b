"""Local experts: against their definition, across margins, with classes that not every part has, on threads."""

import numpy as np
import pytest

import squeak
from squeak import KernelBlend, KernelClassifier, KernelPCA, KernelRidge, LocalExperts
from squeak.kernels import RBF, Linear
from squeak.learners import KernelGradientDescent, leaf_passes, regions
from squeak.learners.data import SourceTraining
from tests.learners.test_splits import share_of

RIDGE = KernelRidge(RBF(0.8), 1e-2, max_atoms=30, fit_intercept=True)
BLEND = KernelBlend([RBF(0.8)], max_atoms=30, search_atoms=20, rounds=0)
QUICK = {"leaf_rows": 100, "split_kernel": RBF(1.0), "random_state": 0}


@pytest.fixture
def table(rng):
    X = rng.uniform(-2, 2, (300, 2))
    return X, np.sin(4 * X[:, 0]) + 0.2 * X[:, 1]


def test_the_prediction_is_the_blend_of_the_parts(table, rng):
    X, y = table
    model = LocalExperts(RIDGE, **QUICK).fit(X, np.c_[y, -y])
    new = rng.uniform(-2, 2, (40, 2))
    slow = np.zeros((40, 2))
    for place, x in enumerate(new):
        for leaf, expert in enumerate(model.experts_):
            said = sum(one.kernel(x[None], one.atoms) @ one.coef + one.intercept for one in expert)
            slow[place] += share_of(model.tree_, x, leaf) * said[0]
    assert model.tree_.n_leaves >= 4
    np.testing.assert_allclose(model.predict(new), slow, atol=1e-10)


def test_the_prediction_is_continuous_across_margins(table):
    X, y = table
    line = np.linspace(-2, 2, 40_001)[:, None] * np.array([1.0, 0.3])
    model = LocalExperts(RIDGE, **QUICK).fit(X, y)
    assert len({rows.tobytes() for rows, _ in model.tree_.shares(line)}) > 2  # the line goes through several parts
    assert np.abs(np.diff(model.predict(line))).max() < 5e-3


def test_one_part_is_the_estimator_itself(table):
    X, y = table
    model = LocalExperts(RIDGE, leaf_rows=1000, random_state=0).fit(X, y)
    (expert,) = model.experts_
    atoms = expert[0].atoms
    plain = KernelRidge(RBF(0.8), 1e-2, dictionary=atoms, fit_intercept=True).fit(X, y)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-5)


@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_margins_at_their_ends(table, margin):
    X, y = table
    model = LocalExperts(RIDGE, margin=margin, **QUICK).fit(X, y)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize(
    "estimator",
    [RIDGE, BLEND, KernelGradientDescent(RBF(0.8), max_iter=20), KernelClassifier(RBF(0.8), max_atoms=30)],
)
def test_saved_and_loaded_it_predicts_the_same_bits(table, tmp_path, estimator):
    X, y = table
    if isinstance(estimator, KernelClassifier):
        y = np.where(y > 0, "up", "down")
    model = LocalExperts(estimator, **QUICK).fit(X, y)
    model.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if isinstance(estimator, KernelClassifier):
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.score(X, y) == model.score(X, y) > 0.5


def test_a_regression_has_no_classes_and_nothing_of_a_fit_before(table, tmp_path):
    X, y = table
    model = LocalExperts(KernelClassifier(RBF(0.8), max_atoms=30), **QUICK).fit(X, y > 0)
    assert hasattr(model, "classes_")
    model.set_params(estimator=BLEND).fit(X, y)
    assert not hasattr(model, "classes_")
    assert hasattr(model, "back_values_")
    model.set_params(estimator=RIDGE).fit(X, y)
    assert not hasattr(model, "back_values_")
    model.save(tmp_path / "m.sqk")
    assert not hasattr(squeak.load(tmp_path / "m.sqk"), "classes_")


def test_what_is_said_of_rows_kept_back_has_not_seen_them(table):
    """What is said of rows kept back stays as it is when one of their targets changes."""
    X, y = table
    back = np.arange(300) % 5 == 0
    other = y.copy()
    other[0] += 1e-5
    one, two = (LocalExperts(BLEND, **QUICK).fit(X, t, back=back) for t in (y, other))
    assert np.isfinite(one.back_values_[back]).all()
    assert np.isnan(one.back_values_[~back]).all()
    np.testing.assert_allclose(one.back_values_[back], two.back_values_[back], atol=1e-4)
    error = np.sqrt(np.mean((one.back_values_[back][:, 0] - y[back]) ** 2))
    assert np.sqrt(np.mean((one.predict(X)[back] - y[back]) ** 2)) < error < 0.5


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_classes_that_not_every_part_has(rng, loss, n_classes):
    X = rng.uniform(0, n_classes, (400, 2))
    y = np.array(["a", "b", "c", "d"])[X[:, 0].astype(int)]
    estimator = KernelClassifier(RBF(0.7), 1e-2, loss=loss, max_atoms=30)
    model = LocalExperts(estimator, **QUICK).fit(X, y)
    assert min(len(set(y[rows])) for rows, _ in model.tree_.shares(X)) < n_classes
    assert model.score(X, y) > 0.93
    scores = model.decision_function(X)
    assert scores.shape == ((400,) if n_classes == 2 else (400, n_classes))
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert np.mean(np.log(chances[np.arange(400), np.searchsorted(model.classes_, y)])) > -0.25


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_part_of_one_class_is_as_sure_as_its_rows_allow(rng, loss):
    X = np.sort(rng.uniform(-1, 1, (400, 1)), axis=0)
    y = X[:, 0] > 0.9  # the left parts hold one class only
    estimator = KernelClassifier(RBF(0.3), 1e-2, loss=loss, max_atoms=20)
    model = LocalExperts(estimator, **QUICK).fit(X, y)
    far = model.predict_proba(np.array([[-1.0]]))[0]
    assert 0.98 < far[0] < 1.0


def test_weights_of_nought_are_no_rows(table):
    X, y = table
    weight = np.where(np.arange(300) < 200, 1.0, 0.0)
    wild = np.where(weight > 0, y, 1e6)
    back = np.arange(300) % 4 == 0
    one = LocalExperts(BLEND, **QUICK).fit(X, wild, weight, back=back)
    two = LocalExperts(BLEND, **QUICK).fit(X[:200], y[:200], np.ones(200), back=back[:200])
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_sources_are_gathered_and_their_columns_known(table, tmp_path):
    X, y = table
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": 100 * X[:, 0], "b": X[:, 1], "y": y})
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = squeak.rows(tmp_path / "t.csv", target="y", scale="standard")
    model = LocalExperts(RIDGE, **QUICK).fit(source)
    assert model.score(frame[["a", "b"]], y) > 0.9
    model.save(tmp_path / "m.sqk")
    np.testing.assert_array_equal(squeak.load(tmp_path / "m.sqk").predict(frame), model.predict(frame))


def in_blocks(X, y, size):
    """Return a source whose blocks have so many rows."""
    places = range(0, len(X), size)
    return squeak.rows(lambda: ((X[i : i + size], y[i : i + size]) for i in places), target=True)


@pytest.mark.parametrize("classes", [False, True])
def test_rows_that_memory_does_not_hold_are_read_in_passes(table, monkeypatch, classes):
    X, y = table
    y = np.where(y > 0, "high", "low") if classes else y
    source = in_blocks(X, y, 70)
    expert = KernelClassifier(RBF(1.0), 1e-3, max_atoms=40) if classes else RIDGE
    monkeypatch.setattr(leaf_passes, "MOST_BYTES", X.nbytes // 2)  # the sample has half of the rows
    monkeypatch.setattr(regions, "REGIONS", 4)
    passes = []
    read = leaf_passes.rows_of
    monkeypatch.setattr(regions, "rows_of", lambda *given: passes.append(given[2]) or read(*given))
    model = LocalExperts(expert, **QUICK).fit(source)
    assert len(passes) > 1
    np.testing.assert_array_equal(np.concatenate(passes), np.arange(passes[-1][-1] + 1))
    assert max(len(rows) for rows, _ in model.tree_.shares(X)) <= QUICK["leaf_rows"]
    assert model.score(X, y) > 0.9
    monkeypatch.setattr(leaf_passes, "SAMPLE_ROWS", 100)
    assert LocalExperts(expert, **QUICK).fit(source).score(X, y) > 0.9
    with pytest.raises(TypeError, match="memory holds"):
        LocalExperts(BLEND, **QUICK).fit(in_blocks(X, X[:, 1], 70), back=np.arange(len(X)) % 2 == 0)


def test_a_sample_has_every_row_with_the_same_chance():
    """Of 40 rows in blocks of 7, 10 are drawn 500 times: each 125 times, with a deviation of 9.7.

    The largest deviation of 40 counts is beyond 4.5 of these with a probability below 1e-3. The twin, which draws
    as many rows of every block in which some are left, is caught.
    """
    X = np.arange(40.0)[:, None]
    data, rng = SourceTraining(in_blocks(X, X[:, 0], 7)), np.random.default_rng(0)
    counts = np.zeros(40)
    for seed in range(500):
        found = leaf_passes.sampled(data, 10, seed)
        rows = found.rows
        assert found.n_all == 40
        assert np.all(np.diff(rows.X[:, 0]) > 0)
        np.testing.assert_array_equal(rows.X[:, 0], rows.y)
        counts[rows.y.astype(int)] += 1
    deviation = np.sqrt(500 * 0.25 * 0.75)
    assert np.abs(counts - 125).max() < 4.5 * deviation
    blocks = [list(range(start, min(start + 7, 40))) for start in range(0, 40, 7)]
    twin = np.zeros(40)
    for _ in range(500):
        for block in blocks:
            twin[rng.permutation(block)[:2]] += 10 / 12
    assert np.abs(twin - 125).max() > 4.5 * deviation


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"estimator": KernelPCA(2)}, "cannot be an expert"),
        ({"estimator": "ridge"}, "cannot be an expert"),
        ({"leaf_rows": 3}, "leaf_rows must be"),
        ({"margin": 0.6}, "margin must"),
        ({"margin": -0.1}, "margin must"),
        ({"split_kernel": Linear()}, "must be RBF, Laplacian or Matern"),
    ],
)
def test_wrong_parameters_are_refused_and_change_nothing(table, params, words):
    X, y = table
    model = LocalExperts(RIDGE, **QUICK).fit(X, y)
    before = model.predict(X)
    with pytest.raises((TypeError, ValueError), match=words):
        model.set_params(**params).fit(X, y)
    np.testing.assert_array_equal(model.set_params(estimator=RIDGE).predict(X), before)


def test_rows_to_keep_back_go_with_a_blend(table):
    X, y = table
    with pytest.raises(TypeError, match="KernelBlend"):
        LocalExperts(RIDGE, **QUICK).fit(X, y, back=np.zeros(300, dtype=bool))
    with pytest.raises(ValueError, match="back must tell"):
        LocalExperts(BLEND, **QUICK).fit(X, y, back=[1, 2])


def test_rows_that_are_alike_are_one_part():
    model = LocalExperts(RIDGE, leaf_rows=10, random_state=0).fit(np.ones((50, 2)), np.arange(50.0))
    assert model.tree_.n_leaves == 1
    assert model.predict(np.ones((1, 2)))[0] == pytest.approx(24.5, abs=1.0)


def test_it_is_the_same_on_one_thread_and_on_two(table, monkeypatch):
    X, y = table
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        found.append(LocalExperts(BLEND, **QUICK).fit(X, y).predict(X))
    np.testing.assert_array_equal(*found)


def test_a_task_travels_with_its_own_rows_alone(table):
    from squeak.learners.data import ArrayTraining
    from squeak.learners.leaves import Task, fitted

    X, y = table
    rows = np.arange(0, 300, 3)
    task = Task(BLEND, ArrayTraining(X, y, None), {"back": np.arange(300) % 2 == 0}, {}, rows, None, 0, 4)
    made, args = task.__reduce__()
    again = made(*args)
    assert len(again.data.X) == len(again.by_row["back"]) == 100
    for one, two in zip(fitted(task)[1:], fitted(again)[1:], strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_experts_of_rows_of_any_type_come_back_from_a_file(dtype, tmp_path):
    X = (10 * np.random.default_rng(0).standard_normal((60, 2))).astype(dtype)
    model = LocalExperts(KernelRidge(RBF(5.0), max_atoms=8), leaf_rows=20, random_state=0).fit(X, X[:, 0])
    model.save(tmp_path / "m.sqk")
    assert np.array_equal(squeak.load(tmp_path / "m.sqk").predict(X), model.predict(X))


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    X = 1e150 * np.random.default_rng(0).standard_normal((60, 2))
    labels = np.where(X[:, 0] > 0, "a", "b")
    model = LocalExperts(KernelClassifier(RBF("median"), max_atoms=8), leaf_rows=100, random_state=0).fit(X, labels)
    with pytest.raises(ValueError, match="lies outside of"):
        model.save(tmp_path / "m.sqk")
    assert not list(tmp_path.iterdir())


def test_a_leaf_whose_rows_are_all_alike_takes_the_width_of_all_rows():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 2))
    X, y = np.repeat(rows, 10, axis=0), rng.standard_normal(60)
    model = LocalExperts(KernelRidge(RBF("median"), 1e-6), leaf_rows=10, random_state=0).fit(X, y)
    assert model.tree_.n_leaves > 1
    np.testing.assert_allclose(model.predict(rows), y.reshape(6, 10).mean(axis=1), atol=1e-4)
