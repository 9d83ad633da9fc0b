"""Robust scaling with a soft clip: against the formula written out, and there and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak.data.scaling import soft_clip, soft_unclip
from squeak.kernels import RBF


def by_hand(x, first=None):
    """Return one column, scaled robustly and clipped, with a loop over its values."""
    first = np.sort(x if first is None else first)

    def quantile(share):
        place = share * (len(first) - 1)
        low = int(place)
        return first[low] + (place - low) * (first[min(low + 1, len(first) - 1)] - first[low])

    spread = quantile(0.75) - quantile(0.25)
    if spread == 0:
        spread = 1.5 * sum(abs(value - quantile(0.5)) for value in first) / len(first)
    if spread == 0:
        spread = 1.0
    found = []
    for value in x:
        z = (value - quantile(0.5)) / spread
        found.append(z / (1 + (z / 3) ** 2) ** 0.5)
    return np.array(found)


def tails(n=400):
    """Return a table with every kind of column that a robust scale treats in a way of its own."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "pareto": rng.pareto(0.7, n) * 1e4,
            "normal": rng.standard_normal(n),
            "mostly one": np.where(np.arange(n) % 10 == 0, rng.gamma(2.0, 30.0, n), 5.0),
            "constant": np.full(n, 7.0),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D"),
            "to": rng.choice(["A", "B"], n),
        }
    )


def test_numbers_and_dates_are_scaled_as_by_hand_and_categories_stay():
    frame = tails()
    source = squeak.rows(frame, scale="robust", learn_rows=150)
    X, _ = source.collect()
    days = (frame["day"] - pd.Timestamp("1970-01-01")).dt.days.to_numpy(float)
    for place, name in enumerate(["pareto", "normal", "mostly one", "constant"]):
        x = frame[name].to_numpy()
        np.testing.assert_allclose(X[:, place], by_hand(x, x[:150]), rtol=1e-12, atol=1e-14, err_msg=name)
    np.testing.assert_allclose(X[:, 4], by_hand(days, days[:150]), rtol=1e-12, atol=1e-14)
    assert np.abs(X[:, :5]).max() <= 3.0
    assert source.feature_names[5:] == ("to=A", "to=B", "to=(other)")
    assert np.array_equal(X[:, 5], frame["to"] == "A")
    assert repr(source.preprocessing) == "Preprocessing(4 number, 1 date, 1 onehot, scaled, 5 clipped: 8 features)"


def test_a_soft_clip_keeps_the_order_and_the_bound_whatever_the_size():
    z = np.concatenate([-np.logspace(300, -300, 61), [0.0], np.logspace(-300, 300, 61)])[:, None]
    x = soft_clip(z, np.array([3.0]))
    assert np.all(np.diff(x[:, 0]) >= 0)
    assert np.abs(x).max() <= 3.0 * (1 + 1e-15)
    inner = np.abs(z[:, 0]) < 1e-6
    np.testing.assert_allclose(x[inner], z[inner], rtol=1e-12)
    assert np.array_equal(soft_clip(z, np.array([0.0])), z)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_decoding_gives_the_values_back(dtype):
    x = np.random.default_rng(1).standard_t(2.0, (300, 2)).astype(dtype) * [1.0, 50.0]
    frame = pd.DataFrame(x.astype(dtype), columns=["a", "b"])
    p = squeak.rows(frame, scale="robust").preprocessing
    rows = p.encode(frame)
    assert rows.dtype == dtype
    again = p.decode(rows)
    near = np.abs(rows) < 2.9
    precision = 1e-12 if dtype == np.float64 else 3e-5
    for place, name in enumerate("ab"):
        inner = near[:, place]
        assert inner.sum() > 250
        scale = p.scale[place]
        np.testing.assert_allclose(
            np.array(again[name])[inner], frame[name].to_numpy()[inner], rtol=precision, atol=precision * scale
        )


def test_what_lies_at_the_bound_decodes_to_a_large_number():
    for precision, least in ((np.float64, 1e7), (np.float32, 1e3)):
        found = soft_unclip(np.array([[3.0], [-3.0], [1e300]]), np.array([3.0]), precision)[:, 0]
        assert np.isfinite(found).all()
        assert found[0] > least
        assert found[1] == -found[0]
        assert found[2] == found[0]


def test_a_clip_is_saved_loaded_compared_and_used_again(tmp_path):
    frame = tails()
    source = squeak.rows(frame, scale={"pareto": "robust", "constant": (0.0, 2.0), "*": "standard"})
    p = source.preprocessing
    assert p.clip.tolist() == [3.0] + [0.0] * 7
    squeak.save(p, tmp_path / "p.sqk")
    again = squeak.load(tmp_path / "p.sqk")
    assert again == p
    assert np.array_equal(again.encode(frame), source.collect()[0])
    assert p != replace(p, clip=None)
    assert p != replace(p, clip=np.where(p.clip > 0, 4.0, 0.0))
    d = squeak.Squeak(RBF(1.0), ridge=5.0, random_state=0).fit(source).dictionary_
    d.save(tmp_path / "d.sqk")
    assert squeak.load(tmp_path / "d.sqk").preprocessing == p
    assert "within ±3" in p.formula(0)
    assert "within" not in p.formula(1)


@pytest.mark.parametrize("clip", [[-1.0, 3.0], [np.nan, 3.0], [3.0], [np.inf, 3.0]])
def test_a_clip_that_does_not_fit_is_refused(clip):
    p = squeak.rows(np.random.default_rng(0).standard_normal((20, 2)), scale="standard").preprocessing
    with pytest.raises(ValueError, match="clip does not fit"):
        replace(p, clip=np.array(clip))
    with pytest.raises(ValueError, match="scale is damaged"):
        replace(p, centre=None, scale=None, clip=np.array([3.0, 3.0]))
