"""SQUEAK and KORS against their literal forms; cut of the stream, limits, schedules, the papers' form."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from squeak import Kors, Squeak
from squeak.core.kernels import gram
from squeak.core.seeds import coins
from squeak.kernels import RBF, Laplacian, Linear
from squeak.leverage import accuracy, effective_dimension
from squeak.samplers import ExactRLS, Uniform
from tests.conftest import real_rows
from tests.oracles import literal_kors, literal_squeak


@pytest.fixture
def X(rng):
    return rng.standard_normal((1500, 2))


def cut(X, sizes):
    edges = np.cumsum([0, *sizes])
    return [X[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize(("oversampling", "copies", "eps"), [(3.0, 1, 0.0), (4.0, 4, 0.0), (4.0, 4, 0.5)])
def test_kors_is_the_literal_algorithm(clusters, oversampling, copies, eps, monkeypatch):
    sampler = Kors(kernel=RBF(1.0), ridge=0.5, oversampling=oversampling, copies=copies, random_state=1)
    if eps:
        monkeypatch.setattr(Kors, "_theory", staticmethod(lambda *_: oversampling))
        sampler.set_params(oversampling="theory", eps=eps, delta=0.1, n=300)
    d = sampler.fit(clusters).dictionary_
    u = coins(sampler._state.seed, 0, len(clusters))
    indices, p, counts = literal_kors(gram(RBF(1.0), clusters), 0.5, oversampling, copies, u, eps)
    assert np.array_equal(d.indices, indices)
    np.testing.assert_allclose(d.probabilities, p, rtol=1e-9)
    assert np.array_equal(d.counts, counts)


def test_online_dimension_obeys_its_chain_of_bounds(X):
    """Lemma 3.9: d_eff ≤ d_onl ≤ log det(I + K/γ) ≤ d_eff(1 + log(1 + ‖K‖/γ))."""
    K, ridge = gram(RBF(1.0), X[:400]), 1.0
    online = sum(1 - ridge * np.linalg.inv(K[:t, :t] + ridge * np.eye(t))[-1, -1] for t in range(1, len(K) + 1))
    eigenvalues = np.maximum(np.linalg.eigvalsh(K), 0)
    d_eff = (eigenvalues / (eigenvalues + ridge)).sum()
    logdet = np.log1p(eigenvalues / ridge).sum()
    assert d_eff <= online <= logdet <= d_eff * (1 + np.log1p(eigenvalues[-1] / ridge))
    sizes = [
        len(Kors(kernel=RBF(1.0), ridge=1.0, oversampling=3, random_state=s).fit(X[:400]).dictionary_)
        for s in range(20)
    ]
    # Σp over the stream is what is expected, up to estimation; 20 runs, far outside chance at 25%
    assert 0.75 * 3 * d_eff < np.mean(sizes) < 1.25 * 3 * online


@pytest.mark.parametrize("cls", [Squeak, Kors])
@pytest.mark.parametrize("params", [{}, {"copies": 10}, {"max_atoms": 60}, {"ridge": np.sqrt}], ids=str)
def test_the_cut_of_the_stream_does_not_matter(cls, params, X):
    if cls is Kors and not set(params) <= {"copies"}:
        pytest.skip("Kors has neither a limit nor a schedule")
    make = cls(**{"kernel": RBF(1.0), "ridge": 1.0, "oversampling": 10, "random_state": 3} | params)
    whole = make.fit(X).dictionary_
    for sizes in ([1] * 300 + [1200], [700, 1, 799], [1499, 1]):
        from sklearn.base import clone

        other = clone(make)
        for part in cut(X, sizes):
            other.partial_fit(part)
        d = other.dictionary_
        assert np.array_equal(d.indices, whole.indices)
        assert np.array_equal(d.counts, whole.counts)
        np.testing.assert_allclose(d.probabilities, whole.probabilities, rtol=1e-10)
        assert d.sources == whole.sources
        assert d.ridge == pytest.approx(whole.ridge, rel=1e-10)


@pytest.mark.parametrize("cls", [Squeak, Kors])
def test_the_number_of_threads_does_not_change_a_bit(cls, rng, monkeypatch):
    X = rng.standard_normal((9000, 4))
    make = cls(kernel=Laplacian(8.0), ridge=5.0, oversampling=4, random_state=0)
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "1")
    one = make.fit(X).dictionary_
    monkeypatch.setenv("SQUEAK_NUM_THREADS", "4")
    assert make.fit(X).dictionary_ == one


def test_rows_of_any_kind_give_the_same_dictionary(X):
    make = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0)
    dense = make.fit(X).dictionary_
    assert make.fit(X.tolist()).dictionary_ == dense
    assert make.fit(np.asfortranarray(X)).dictionary_ == dense
    sparse = make.fit(sp.csr_matrix(X)).dictionary_
    assert np.array_equal(sparse.indices, dense.indices)
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-8)
    small = make.fit(X.astype(np.float32)).dictionary_
    assert small.atoms.dtype == np.float32
    assert np.array_equal(small.indices, make.fit(X.astype(np.float32).astype(float)).dictionary_.indices)
    whole_numbers = make.fit((3 * X).astype(int)).dictionary_
    assert whole_numbers.atoms.dtype == np.float64


def test_a_memory_mapped_file_is_read_as_it_lies(X, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    make = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0)
    assert make.fit(mapped).dictionary_ == make.fit(X).dictionary_


@pytest.mark.parametrize("runs", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_size_follows_oversampling_times_effective_dimension(runs, X):
    d_eff = effective_dimension(X, RBF(1.0), 1.0)
    for copies in (1, 8):
        make = Squeak(kernel=RBF(1.0), ridge=1.0, oversampling=8, copies=copies)
        sizes = [len(make.set_params(random_state=s).fit(X).dictionary_) for s in range(runs)]
        assert 0.5 * 8 * d_eff < np.mean(sizes) < 1.5 * 1.2 * 8 * d_eff


def test_effective_dimension_of_the_dictionary_is_close(X):
    exact = effective_dimension(X, RBF(1.0), 1.0)
    d = Squeak(kernel=RBF(1.0), ridge=1.0, oversampling=30, random_state=0).fit(X).dictionary_
    assert d.effective_dimension() == pytest.approx(exact, rel=0.1)
    scores = d.leverage_scores(X)
    assert scores.sum() == pytest.approx(exact, rel=0.25)
    eigenvalues = np.linalg.eigvalsh(gram(RBF(1.0), X))[::-1]
    eps = accuracy(d, X)
    ours = d.eigenvalues()[:20]
    assert np.all(ours <= (1 + eps) * eigenvalues[:20] + eps + 1e-9)
    assert np.all(ours >= (1 - eps) * eigenvalues[:20] - eps - 1e-9)


@pytest.mark.parametrize("limit", [5, 20, 100])
def test_max_atoms_is_never_exceeded_and_the_ridge_only_grows(limit, X):
    sampler = Squeak(kernel=RBF(0.5), ridge=0.1, oversampling=5, max_atoms=limit, random_state=0)
    ridges = []
    for part in cut(X, [1, 2, 47, 150, 300, 1000]):
        d = sampler.partial_fit(part).dictionary_
        assert len(d) <= limit
        assert sampler._state.size <= 1.5 * limit + 1
        ridges.append(d.ridge)
    assert ridges == sorted(ridges)
    assert ridges[-1] > 0.1
    if limit >= 20:
        assert len(d) > 0.7 * limit  # the limit is used
    if limit == 100:
        assert d.weights.sum() == pytest.approx(1500, rel=0.35)


def test_reading_the_dictionary_changes_nothing(X):
    quiet, reader = (Squeak(kernel=RBF(0.5), ridge=0.1, max_atoms=50, random_state=0) for _ in range(2))
    for part in cut(X, [100] * 15):
        quiet.partial_fit(part)
        reader.partial_fit(part)
        assert reader.dictionary_ is reader.dictionary_
    assert reader.dictionary_ == quiet.dictionary_


def test_a_limit_of_one_atom_leaves_one(X):
    sampler = Squeak(kernel=RBF(0.05), ridge=0.1, max_atoms=1)
    assert [len(sampler.set_params(random_state=seed).fit(X).dictionary_) for seed in range(5)] == [1] * 5


def test_scores_so_small_that_nothing_is_left_say_so(X):
    sampler = Squeak(kernel=RBF(0.05), ridge=1e5, oversampling=1e-3, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"none of the 1,500 rows was kept.*raise oversampling or max_atoms"):
        _ = sampler.dictionary_


def test_a_schedule_raises_the_ridge_and_never_lowers_it(X):
    rising = Squeak(kernel=RBF(1.0), ridge=np.sqrt, random_state=0).fit(X).dictionary_
    assert rising.ridge == pytest.approx(np.sqrt(1500))
    falling = Squeak(kernel=RBF(1.0), ridge=lambda n: 5.0 / n, random_state=0).fit(X).dictionary_
    assert falling.ridge == 5.0


def test_the_history_tells_how_the_dictionary_grew(X):
    sampler = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(X)
    rows = [entry["rows"] for entry in sampler.history_]
    assert rows == sorted(rows)
    assert all(entry["atoms"] <= entry["rows"] for entry in sampler.history_)
    assert sampler.n_seen_ == 1500
    assert sampler.n_features_in_ == 2
    assert len(sampler.history_) < 80


def test_from_paper_reaches_its_accuracy_and_theory_needs_its_numbers(rng):
    X = rng.standard_normal((300, 1))
    d = Kors.from_paper(eps=0.5, delta=0.1, n=300, kernel=RBF(1.0), ridge=1.0, random_state=0).fit(X).dictionary_
    assert accuracy(d, X) <= 0.5
    coin = Squeak(kernel=RBF(1.0), oversampling="theory", eps=0.5, delta=0.1, n=300, ridge=1.0, random_state=0).fit(
        X
    )
    assert coin.dictionary_.oversampling == 4735
    assert accuracy(coin.dictionary_, X) <= 0.5
    with pytest.raises(ValueError, match="needs eps, delta and n"):
        Squeak(kernel=RBF(1.0), oversampling="theory").fit(X)
    for bad in ({"eps": 1.0}, {"eps": 0.0}, {"delta": 0.0}, {"n": 0}):
        with pytest.raises(ValueError, match="must"):
            Squeak.from_paper(**({"eps": 0.5, "delta": 0.1, "n": 300} | bad))


def test_the_accuracy_is_that_of_the_literal_per_point_algorithm():
    """Means of 12 runs each: 0.9 to 1.3 times the size, at most 1.15 times the error."""
    X = np.random.default_rng(0).standard_normal((220, 2))
    K, ridge, q = gram(RBF(1.0), X), 1.0, 8
    from squeak.samplers.measured import accuracy_meter

    literal, ours = [], []
    for seed in range(12):
        w = literal_squeak(K, ridge, q, 1, np.random.default_rng(seed))
        literal.append((np.count_nonzero(w), accuracy_meter(K, ridge)(w)))
        d = Squeak(kernel=RBF(1.0), ridge=ridge, oversampling=q, random_state=seed).fit(X).dictionary_
        ours.append((len(d), accuracy(d, X)))
    (size, eps), (our_size, our_eps) = np.mean(literal, axis=0), np.mean(ours, axis=0)
    assert 0.9 * size < our_size < 1.3 * size
    assert our_eps < 1.15 * eps


def test_the_outlier_that_uniform_misses(rng):
    """One orthogonal row among duplicates, far down the stream."""
    X = np.vstack([np.repeat(rng.standard_normal((4, 6)), 250, axis=0), 0.01 * rng.standard_normal((500, 6))])
    X = rng.permutation(X)
    X[1177] = 40.0
    kept = {"uniform": 0, "squeak": 0, "kors": 0, "exact": 0}
    for seed in range(8):
        common = {"kernel": RBF(1.0), "ridge": 1.0, "random_state": seed}
        kept["squeak"] += 1177 in Squeak(**common, oversampling=10).fit(X).dictionary_.indices
        kept["kors"] += 1177 in Kors(**common, oversampling=10).fit(X).dictionary_.indices
        size = len(Squeak(**common, oversampling=10).fit(X).dictionary_)
        kept["uniform"] += 1177 in Uniform(**common, max_atoms=size).fit(X).dictionary_.indices
    kept["exact"] = 8 * (
        1177 in ExactRLS(kernel=RBF(1.0), ridge=1.0, oversampling=10, random_state=0).fit(X).dictionary_.indices
    )
    assert kept["squeak"] == kept["kors"] == kept["exact"] == 8
    assert kept["uniform"] <= 2


def test_rows_unlike_each_other_stop_with_the_cure(rng):
    X = 1e3 * rng.standard_normal((10_500, 30))
    sampler = Squeak(kernel=Linear(), ridge=1.0, random_state=0)
    assert sampler.fit(X).n_seen_ == 10_500  # 30 directions: a kernel that resembles is fine
    with pytest.raises(ValueError, match=r"hardly any row resembles another.*larger length_scale.*max_atoms"):
        _with_small_guard(Squeak(kernel=RBF(1e-3), ridge=1e-3, random_state=0), X[:1200])
    with pytest.raises(ValueError, match="hardly any row resembles another"):
        Squeak(kernel=RBF(1e-3), ridge=1e-3, random_state=0).fit(X[:4000])  # seen long before 10,000 rows
    with pytest.raises(ValueError, match="hardly any row resembles another"):
        Squeak(kernel=RBF(1e-3), ridge=1.0, random_state=0).fit(X[:4000])  # where half is all there can be
    with pytest.raises(ValueError, match="hardly any row resembles another"):
        Squeak(kernel=RBF(1e-3), ridge=20.0, random_state=0).fit(X[:4000])  # where a twentieth is
    patient = Squeak(kernel=RBF(1e-3), ridge=1e-3, max_atoms=2500, random_state=0).fit(X[:2400])
    assert len(patient.dictionary_) == 2400  # a limit is the cure, even before it is reached
    limited = _with_small_guard(Squeak(kernel=RBF(1e-3), max_atoms=50, random_state=0), X[:1200])
    assert len(limited.dictionary_) <= 50


def _with_small_guard(sampler, X):
    from squeak.samplers import stream_state as stream

    before = stream.GUARD_ROWS
    stream.GUARD_ROWS = 1000
    try:
        return sampler.fit(X)
    finally:
        stream.GUARD_ROWS = before


def test_an_interrupt_leaves_a_usable_state(X, monkeypatch):
    from squeak.samplers import stream

    sampler = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0)
    calls = []
    real = stream.decide

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(stream, "decide", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sampler.fit(X)
    monkeypatch.setattr(stream, "decide", real)
    seen = sampler.n_seen_
    assert 0 < seen < 1500
    assert sampler.dictionary_.n_seen == seen
    sampler.partial_fit(X[seen:])
    whole = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(X).dictionary_
    assert np.array_equal(sampler.dictionary_.indices, whole.indices)


def test_an_interrupt_of_a_second_fit_keeps_the_first(X, monkeypatch):
    from squeak.samplers import stream

    sampler = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(X)
    before = sampler.dictionary_

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(stream, "screen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sampler.fit(X[::-1])
    assert sampler.dictionary_ == before


def test_an_error_in_the_users_own_function_changes_nothing(X):
    from squeak.kernels import PairwiseKernel

    calls = []

    def product(x, y):
        calls.append(1)
        if len(calls) > 20_000:
            raise KeyError("mine")
        return float(x @ y)

    sampler = Squeak(kernel=PairwiseKernel(product), ridge=1.0, oversampling=3, random_state=0).partial_fit(X[:30])
    before = sampler.dictionary_
    with pytest.raises(KeyError, match="mine"):
        sampler.partial_fit(X)
    assert sampler.n_seen_ == 30
    assert sampler.dictionary_ == before


def test_two_copies_of_a_sampler_go_their_own_ways(X):
    import copy

    one = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).partial_fit(X[:200])
    two = copy.copy(one)
    one.partial_fit(X[200:700])
    two.partial_fit(X[700:1200])
    alone = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).partial_fit(X[:200]).partial_fit(X[200:700])
    assert one.partial_fit(X[:300]).dictionary_ == alone.partial_fit(X[:300]).dictionary_


def test_parameters_are_fixed_by_the_first_block(X):
    sampler = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).partial_fit(X[:700])
    sampler.set_params(max_atoms=20, oversampling=1.0).partial_fit(X[700:])
    same = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).partial_fit(X[:700]).partial_fit(X[700:])
    assert sampler.dictionary_ == same.dictionary_
    assert len(sampler.fit(X).dictionary_) <= 20


def test_the_progress_bar_speaks_of_rows_and_atoms(X, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0, verbose=1).fit(X)
    shown = capsys.readouterr().err
    assert "atoms=" in shown
    assert "d_eff=" in shown


def test_real_rows_are_summarised_accurately():
    X = real_rows("kin40k", 2500)
    d = Squeak(kernel=RBF(8.0), ridge=1.0, oversampling=20, random_state=0).fit(X).dictionary_
    assert accuracy(d, X) < 0.45
    assert len(d) < 1300
