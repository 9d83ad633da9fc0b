"""Categories as mean targets: against a loop, without a leak, from any format, saved and loaded."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak.data.columns import OTHER
from squeak.data.target_columns import FOLDS, PRIOR, column_from_data, column_to_data, folds_of


def by_hand(values, y, folds, asked, fold=None):
    """Return the mean target of one value, over the rows that are not in a fold."""
    kept = [(value, target) for value, target, f in zip(values, y, folds, strict=True) if f != fold]
    mean = sum(target for _, target in kept) / len(kept)
    own = [target for value, target in kept if value == asked]
    return (sum(own) + PRIOR * mean) / (len(own) + PRIOR)


def table(n=600, many=40, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"zip": rng.integers(0, many, n), "km": rng.standard_normal(n)})
    return frame.assign(zip="z" + frame["zip"].astype(str)), rng.standard_normal(n) + frame["zip"].to_numpy() / 10


def test_rows_of_a_fit_leave_their_fold_out_and_new_rows_do_not():
    frame, y = table()
    source = squeak.rows(frame, target=y, categories="target")
    X, _ = source.collect()
    folds = folds_of(np.arange(len(y)))
    values = frame["zip"].tolist()
    expected = [by_hand(values, y, folds, value, fold) for value, fold in zip(values, folds, strict=True)]
    np.testing.assert_allclose(X[:, 0], expected, rtol=1e-12)
    new = pd.DataFrame({"km": [0.0, 0.0, 0.0], "zip": ["z7", "z31", "never seen"]})
    found = source.preprocessing.encode(new)[:, 0]
    np.testing.assert_allclose(found[:2], [by_hand(values, y, folds, value) for value in ("z7", "z31")], rtol=1e-12)
    np.testing.assert_allclose(found[2], y.mean(), rtol=1e-12)


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
def test_classes_become_shares(classes):
    frame, _ = table()
    labels = np.random.default_rng(3).choice(classes, len(frame)).astype(object)
    source = squeak.rows(frame, target=labels, categories="target")
    X, _ = source.collect()
    folds, values = folds_of(np.arange(len(frame))), frame["zip"].tolist()
    shown = classes[1:] if len(classes) == 2 else classes
    names = ["zip"] if len(classes) == 2 else [f"zip: {name}" for name in classes]
    assert source.feature_names == (*names, "km")
    for place, name in enumerate(shown):
        hits = (labels == name).astype(float)
        expected = [by_hand(values, hits, folds, value, fold) for value, fold in zip(values, folds, strict=True)]
        np.testing.assert_allclose(X[:, place], expected, rtol=1e-12)


def noise(seed, n=6_000, many=1_000):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"zip": [f"z{code}" for code in rng.integers(0, many, n)]}), rng.standard_normal(n)


def leak(own_fold_left_out, seed=0):
    """Return the correlation of a column of pure noise with its target, and the error of a model on new rows."""
    frame, y = noise(seed)
    source = squeak.rows(frame, target=y, categories="target", scale="standard")
    if not own_fold_left_out:  # the mutated twin: all folds, as for rows to predict
        source = squeak.rows(frame, target=y, preprocessing=source.preprocessing)
    X, _ = source.collect()
    model = squeak.KernelRidge(squeak.kernels.RBF(0.5), alpha=10.0, max_atoms=50, random_state=0).fit(source)
    new = np.random.default_rng(seed + 100).standard_normal(len(y))
    return abs(np.corrcoef(X[:, 0], y)[0, 1]), np.mean((model.predict(frame) - new) ** 2) / np.mean(new**2)


def test_a_target_of_pure_noise_does_not_leak_through_a_thousand_values():
    """|r|√n is normal without a leak: above 4.5 with a chance of 7e-6 for each seed."""
    for seed in range(3):
        correlation, error = leak(own_fold_left_out=True, seed=seed)
        assert correlation * np.sqrt(6_000) < 4.5
        assert error < 1.02


def test_a_mean_that_includes_the_own_row_is_caught():
    correlation, error = leak(own_fold_left_out=False)
    assert correlation > 0.3
    assert error > 1.02


def test_a_useful_category_is_learned_from_its_mean():
    rng = np.random.default_rng(5)
    effect = rng.standard_normal(300)
    codes = rng.integers(0, 300, 12_000)
    frame = pd.DataFrame({"zip": [f"z{code}" for code in codes]})
    y = effect[codes] + 0.3 * rng.standard_normal(len(codes))
    train = squeak.rows(frame[:9_000], target=y[:9_000], categories="auto", scale="standard")
    model = squeak.KernelRidge(squeak.kernels.RBF(1.0), alpha=1.0, max_atoms=50, random_state=0).fit(train)
    assert train.feature_names == ("zip",)
    assert model.score(frame[9_000:], y[9_000:]) > 0.85


def test_blocks_files_and_parts_give_the_same_rows(tmp_path):
    frame, y = table(3_000)
    whole = frame.assign(y=y)
    whole.to_parquet(tmp_path / "t.parquet", row_group_size=700)
    whole.to_csv(tmp_path / "t.csv", index=False)
    how = {"categories": {"zip": "target"}, "target": "y", "learn_rows": 1_000, "scale": "robust"}
    X, _ = squeak.rows(whole, **how).collect()
    for origin in (tmp_path / "t.parquet", tmp_path / "t.csv"):
        assert np.array_equal(squeak.rows(origin, **how).collect()[0], X)
    pairs = lambda: ((frame[i : i + 90], y[i : i + 90]) for i in range(0, 3_000, 90))  # noqa: E731
    assert np.array_equal(squeak.rows(pairs, **(how | {"target": True})).collect()[0], X)
    file = squeak.rows(tmp_path / "t.parquet", **how)
    parts = [rows for part in range(file.n_parts) for rows in file.part_blocks(part, part + 1)]
    assert np.array_equal(np.vstack(parts), X)


def test_it_is_saved_loaded_and_decoded_as_the_nearest_value(tmp_path):
    frame, y = table()
    source = squeak.rows(frame, target=y, categories="target", scale="standard", missing="median")
    squeak.save(source.preprocessing, tmp_path / "p.sqk")
    again = squeak.load(tmp_path / "p.sqk")
    assert again == source.preprocessing
    rows = again.encode(frame)
    assert np.array_equal(rows, source.preprocessing.encode(frame))
    assert again.decode(rows)["zip"] == frame["zip"].tolist()
    holes = pd.DataFrame({"zip": pd.array([None, "no such"], dtype="string"), "km": [0.0, 0.0]})
    first, second = again.encode(holes)
    assert np.array_equal(first, second)
    model = squeak.KernelRidge(max_atoms=30, random_state=0).fit(source)
    model.save(tmp_path / "m.sqk")
    assert np.array_equal(squeak.load(tmp_path / "m.sqk").predict(frame), model.predict(frame))


def test_missing_targets_and_values_are_left_out():
    frame, y = table()
    y[::7] = np.nan
    frame.loc[::11, "zip"] = None
    source = squeak.rows(frame, target=y, categories="target", on_bad_rows="skip")
    column = source.preprocessing.columns[0]
    whole = np.isfinite(y) & frame["zip"].notna().to_numpy()
    assert sum(column.counts) == whole.sum()
    np.testing.assert_allclose(sum(column.sums), y[whole].sum())


def test_equal_targets_and_few_rows_make_a_sane_column():
    frame, y = table(8)
    X, _ = squeak.rows(frame, target=np.ones(8), categories="target", scale="standard").collect()
    np.testing.assert_allclose(X[:, 0], np.zeros(8), atol=1e-12)
    X, _ = squeak.rows(frame[:1], target=y[:1], categories="target").collect()
    np.testing.assert_allclose(X[0, 0], y[0])


def test_without_targets_it_says_so():
    with pytest.raises(ValueError, match="column 'zip' cannot become its mean target, for the rows have none"):
        squeak.rows(table()[0], categories="target").collect()
    assert OTHER in squeak.rows(table(many=30)[0], categories="auto").feature_names[30]


@pytest.mark.parametrize(
    "change", [{"sums": [1.0]}, {"counts": [-1] * 10}, {"outputs": []}, {"sums": [np.nan] * 10}, {"counts": "x"}]
)
def test_damaged_statistics_are_refused(change):
    frame, y = table(many=2)
    data = column_to_data(squeak.rows(frame, target=y, categories="target").preprocessing.columns[0])
    assert len(data["sums"]) == 2 * FOLDS
    assert column_from_data(data).values == ("z0", "z1")
    with pytest.raises(ValueError, match="column 'zip'"):
        column_from_data(data | change)
