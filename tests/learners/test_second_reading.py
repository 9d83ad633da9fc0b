"""What a second reader found: models that were silently wrong, or failed without a reason."""

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import KernelClassifier, KernelRidge, KernelRidgeCV, Squeak
from squeak.kernels import RBF

K = RBF(1.0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)


@pytest.fixture
def table(data, tmp_path):
    X, y = data
    frame = pd.DataFrame({"a": 100 * X[:, 0] + 500, "b": X[:, 1], "y": y})
    frame.to_csv(tmp_path / "d.csv", index=False)
    return tmp_path / "d.csv", frame[["a", "b"]], y


def test_auto_does_not_need_the_number_of_rows_beforehand(data, table):
    path, rows, y = table
    source = squeak.rows(path, "y", scale="standard")
    assert source.n_rows is None
    model = KernelRidge(K, alpha="auto", max_atoms=40, random_state=0).fit(source)
    assert model.alpha_ < 5
    assert model.score(rows, y) > 0.95


def test_auto_follows_the_scale_of_weights(data):
    X, y = data
    found = [
        KernelRidge(K, alpha="auto", max_atoms=50, random_state=0).fit(X, y, np.full(200, s)).alpha_ / s
        for s in (1e-6, 1.0, 1e6)
    ]
    assert np.allclose(found, found[1], rtol=1e-6)


def test_a_dictionary_brings_its_preprocessing(table):
    path, rows, y = table
    d = (
        KernelRidge(K, alpha=0.1, max_atoms=30, random_state=0)
        .fit(squeak.rows(path, "y", scale="standard"))
        .dictionary_
    )
    assert KernelRidge(dictionary=d, alpha=0.1).fit(rows, y).score(rows, y) > 0.9
    with pytest.raises(ValueError, match="preprocessed in another way"):
        KernelRidge(dictionary=d, alpha=0.1).fit(squeak.rows(path, "y", scale=None))
    encoded = np.asarray(d.preprocessing.encode(rows))
    given = KernelRidge(K, dictionary=encoded[:30], alpha=0.1).fit(squeak.rows(path, "y", scale="standard"))
    assert given.score(rows, y) > 0.9


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_targets_of_other_types_are_summed_as_doubles(dtype, data):
    X, _ = data
    y = (1e6 * X[:, 0]).astype(dtype)
    one, two = (
        KernelRidge(K, max_atoms=20, alpha="auto", random_state=0).fit(X, v).alpha_ for v in (y, y.astype(float))
    )
    assert one == two


def test_another_number_of_outputs_is_refused(data):
    X, y = data
    model = KernelRidge(K, dictionary=X[:20]).partial_fit(X[:100], np.c_[y, y][:100])
    with pytest.raises(ValueError, match="another number of outputs"):
        model.partial_fit(X[100:], y[100:, None])


def test_class_weights_may_be_zero_but_not_negative(data):
    X, y = data
    c = (y > 0).astype(int) + (X[:, 1] > 0)
    model = KernelClassifier(K, class_weight={0: 0, 1: 1, 2: 1}).fit(X[:50], c[:50])
    assert 0 not in model.predict(X[:50])
    for weights in ({0: -1, 1: 1}, {0: 0, 1: 0}):
        with pytest.raises(ValueError, match="class_weight must not be negative"):
            KernelClassifier(K, class_weight=weights, max_atoms=20).fit(X, (y > 0) * 1)


@pytest.mark.parametrize("size", [2.0**-660, 2.0**660])
def test_falkon_solves_targets_of_any_size_in_their_own_units(data, size):
    X, y = data
    model = KernelRidge(K, alpha=0.1, max_atoms=20, solver="falkon", random_state=0)
    right = model.fit(X, y).predict(X)
    assert np.abs(model.fit(X, y * size).predict(X) / size - right).max() < 1e-12


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_a_search_refuses_targets_whose_squares_are_no_numbers(data, size):
    X, y = data
    for model in (KernelRidge(K, alpha="auto", max_atoms=20), KernelRidgeCV(K, max_atoms=20)):
        with pytest.raises(ValueError, match="scale the targets"):
            model.fit(X, y * size)


def test_repeated_rows_with_a_tiny_alpha_are_solved_on_their_span(data):
    X, y = data
    model = KernelRidge(K, alpha=1e-14).fit(np.r_[X[:20], X[:20]], np.r_[y[:20], y[:20]])
    assert np.abs(model.predict(X[:20]) - y[:20]).max() < 1e-3


def test_parameters_go_through_files(data, tmp_path):
    X, y = data
    KernelRidge(K, alpha=np.float32(0.5), max_atoms=np.int64(20)).fit(X, y).save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    assert (again.alpha, again.max_atoms) == (0.5, 20)
    KernelRidgeCV(K, alphas=(0.5, 2.0)).fit(X, y).save(tmp_path / "m.sqk")
    assert squeak.load(tmp_path / "m.sqk").alphas == [0.5, 2.0]


def test_probabilities_belong_to_the_fit(data):
    X, y = data
    model = KernelClassifier(K, max_atoms=20).fit(X, y > 0)
    assert not hasattr(model.set_params(loss="logistic"), "predict_proba")
    assert hasattr(model.fit(X, y > 0), "predict_proba")


def test_a_dictionary_of_other_columns_is_refused(data):
    X, y = data
    d = Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(X).dictionary_
    with pytest.raises(ValueError, match=r"atoms have \d+ columns, these rows"):
        KernelRidge(dictionary=d).fit(X[:, :-1], y)


def test_two_different_kernels_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="leave one of them out"):
        KernelRidge(RBF(2.0), sampler=Squeak(RBF(1.0), ridge=1.0)).fit(X, y)
    KernelRidge(RBF(1.0), sampler=Squeak(RBF(1.0), ridge=1.0, random_state=0)).fit(X, y)


def test_a_plan_for_one_atom_is_measured():
    from squeak.samplers.plan import calibrate

    assert calibrate(1, 1).leaf(1e6) > 0


def test_every_model_can_be_shown_in_the_terminal(data, tmp_path):
    from squeak.page import page

    X, y = data
    for model in (KernelRidge(K, max_atoms=20, random_state=0).fit(X, y), KernelClassifier(K).fit(X, y > 0)):
        model.save(tmp_path / "m.sqk")
        text = page(squeak.load(tmp_path / "m.sqk"), tmp_path / "m.sqk", 3)
        assert type(model).__name__ in text
        assert "alpha" in text


def test_missing_values_at_prediction_are_a_matter_of_the_fit(table, tmp_path):
    from squeak.cli.models import _blocks

    path, columns, _ = table
    model = KernelRidge(RBF("median"), max_atoms=20).fit(squeak.rows(path, "y"))
    holes = columns.assign(a=np.nan)
    source = squeak.rows(holes, preprocessing=model.dictionary_.preprocessing)
    with pytest.raises(ValueError, match="or fit the model with missing='median'"):
        list(_blocks(source))
