"""Dictionaries of streams that fade: a dense oracle, unbiased weights with a wrong twin, old atoms that leave."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import squeak
from squeak import Kors, Squeak
from squeak.kernels import RBF
from squeak.samplers import stream_state

HALF_LIFE = 60.0


def weights_of(d, n):
    """Return the weight of every row, 0 for those that were not kept."""
    found = np.zeros(n)
    found[d.indices] = d.weights
    return found


def literal_fading(X, kernel, ridge, half_life, oversampling, seed, spell):
    """Return indices and weights by the definition, row by row with dense matrices: KORS, thinned by age."""
    from squeak.core.seeds import FADE, coins, generator_at

    u, kept, p, weights_known = coins(seed, 0, len(X)), [], [], []
    for t in range(len(X)):
        # scores come from the factor: weights as they were when it was last made, 1/p for rows since
        s = kernel(X[t : t + 1])[0, 0] / ridge
        if kept:
            inner = kernel(X[kept]) + ridge * np.diag(1.0 / np.array(weights_known))
            k = kernel(X[kept], X[t : t + 1])[:, 0]
            s -= float(k @ np.linalg.solve(inner, k)) / ridge
        chance = min(1.0, oversampling * s / (1.0 + s))
        if u[t] < chance:
            kept, p, weights_known = [*kept, t], [*p, chance], [*weights_known, 1.0 / chance]
        if (t + 1) % spell == 0:
            fading = 2.0 ** (-(t - np.array(kept)) / half_life)
            K, w = kernel(X[kept]), fading / np.array(p)
            scores = np.diag(K @ np.linalg.inv(w[:, None] * K + ridge * np.eye(len(kept))))
            lowered = np.minimum(p, oversampling * fading * scores)
            heads = generator_at(seed, FADE, t + 1).binomial(1, lowered / p)
            kept = [i for i, head in zip(kept, heads, strict=True) if head]
            p = [one for one, head in zip(lowered, heads, strict=True) if head]
            weights_known = [2.0 ** (-(t - i) / half_life) / one for i, one in zip(kept, p, strict=True)]
    ages = len(X) - 1 - np.array(kept)
    return np.array(kept), 2.0 ** (-ages / half_life) / np.array(p)


def test_it_is_the_definition_with_dense_matrices():
    X = np.random.default_rng(0).standard_normal((200, 2))
    sampler = Kors(RBF(1.0), ridge=0.5, oversampling=2.0, half_life=HALF_LIFE, random_state=3).fit(X)
    indices, weights = literal_fading(X, RBF(1.0), 0.5, HALF_LIFE, 2.0, sampler._state.seed, round(HALF_LIFE / 8))
    d = sampler.dictionary_
    assert d.indices.tolist() == indices.tolist()
    np.testing.assert_allclose(d.weights, weights, rtol=1e-9)
    assert len(indices) < 60


@pytest.mark.parametrize("make", [Squeak, Kors])
def test_rows_singly_in_blocks_and_saved_are_alike(make, tmp_path):
    X = np.random.default_rng(0).standard_normal((400, 2))
    whole, cut = (make(RBF(1.0), ridge=0.5, oversampling=2.0, half_life=HALF_LIFE, random_state=0) for _ in "ab")
    whole.fit(X)
    for at in range(0, 150):
        cut.partial_fit(X[at : at + 1])
    squeak.save(cut, tmp_path / "s.sqk")
    cut = squeak.load(tmp_path / "s.sqk")
    cut.partial_fit(X[150:173]).partial_fit(X[173:])
    assert cut.dictionary_.indices.tolist() == whole.dictionary_.indices.tolist()
    np.testing.assert_allclose(cut.dictionary_.weights, whole.dictionary_.weights, rtol=1e-9)
    squeak.save(whole.dictionary_, tmp_path / "d.sqk")
    again = squeak.load(tmp_path / "d.sqk")
    assert again.half_life == HALF_LIFE
    np.testing.assert_array_equal(again.weights, whole.dictionary_.weights)


def worst_deviation(make, n=96, runs=40):
    """Return the largest deviation of mean weights from 2^(−age/half_life), in standard errors, over stretches."""
    X = np.random.default_rng(1).standard_normal((n, 1))
    options = {"kernel": RBF(1.0), "ridge": 1.0, "oversampling": 4.0, "half_life": HALF_LIFE}
    found = np.array([weights_of(make(random_state=r, **options).fit(X).dictionary_, n) for r in range(runs)])
    sums = found.reshape(runs, 4, -1).sum(axis=2)
    wanted = (2.0 ** (-(n - 1 - np.arange(n)) / HALF_LIFE)).reshape(4, -1).sum(axis=1)
    return float(np.abs((sums.mean(axis=0) - wanted) / (sums.std(axis=0, ddof=1) / np.sqrt(runs))).max())


@pytest.mark.parametrize("make", [pytest.param(Squeak, marks=pytest.mark.slow), Kors])
def test_weights_are_unbiased_for_the_stream_as_it_fades(make, monkeypatch):
    """Four stretches, two samplers: false alarms once in 10⁴ by the union bound; the twin's chances are wrong."""
    limit = stats.t.ppf(1 - 1e-4 / 16, 39)
    assert worst_deviation(make) < limit
    real = stream_state.shrink

    def biased(*arguments, **options):
        left = real(*arguments, **options)
        return replace(left, probabilities=np.minimum(1.0, 1.3 * left.probabilities))

    monkeypatch.setattr(stream_state, "shrink", biased)
    assert worst_deviation(make) > limit


def test_old_atoms_leave_and_the_sum_follows_the_stream():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 2)) + np.linspace(0, 30, 1500)[:, None]  # the rows move
    fading, staying = (
        Squeak(RBF(1.5), ridge=0.5, oversampling=8.0, half_life=half_life, random_state=0).fit(X).dictionary_
        for half_life in (100.0, None)
    )
    assert len(fading) < 0.6 * len(staying)
    assert np.mean(fading.indices < 500) < 0.05
    weight = 2.0 ** (-(1499 - np.arange(1500)) / 100.0)
    assert fading.weights.sum() == pytest.approx(weight.sum(), rel=0.25)
    new = X[-200:] + 0.1
    exact = RBF(1.5)(new, X) * weight @ RBF(1.5)(X, new)
    sketch = RBF(1.5)(new, fading.atoms) * fading.weights @ RBF(1.5)(fading.atoms, new)
    assert np.abs(sketch - exact).max() < 0.4 * np.abs(exact).max()


def test_what_fades_is_not_merged_and_goes_on_only_as_it_was():
    X = np.random.default_rng(0).standard_normal((300, 2))
    options = {"kernel": RBF(1.0), "ridge": 1.0, "random_state": 0}
    a, b = (Squeak(source=name, half_life=50.0, **options).fit(X).dictionary_ for name in "ab")
    with pytest.raises(ValueError, match="cannot be merged"):
        squeak.merge(a, b)
    with pytest.raises(ValueError, match="half-life"):
        Squeak(**options).go_on_from(a)
    assert Squeak(half_life=50.0, **options).go_on_from(a).partial_fit(X).n_seen_ == 600
    with pytest.raises((ValueError, TypeError), match="half_life"):
        Squeak(half_life=-1.0, **options).fit(X)
