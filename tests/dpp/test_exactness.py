"""Samples are exact: chi-square on counts over all subsets, and the mistakes that it catches.

Family of tests: 6 dictionaries × 2 values of r, 4 small samplers, 4 k-DPPs, 5 others: 25 chi-square tests that pass
at p > 2e-5, and as many sets of at most 17 frequencies that pass at 5.2 standard errors (2e-7 each, two-sided):
family-wise under 1e-3. The slow ones are those whose proposals are most often refused.
"""

import math

import numpy as np
import pytest

from squeak.dpp import DPP, ExactDPP, proposals
from squeak.dpp.preparing import lost
from squeak.dpp.proposals import sample_from_factor
from squeak.dpp.surrogate import ScaleSearch
from squeak.kernels import RBF, Linear
from squeak.learners.base import landmarks
from squeak.samplers import ExactRLS, Kors, Uniform
from tests.dpp.counting import brute_force, largest_error, p_value

N = 20_000
SMALLEST_P, ERRORS = 2e-5, 5.2


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(3).standard_normal((5, 2))


def kernel_of_size(X, size):
    from squeak.dpp import scale_for_size

    return scale_for_size(X, RBF(1.2), size) * RBF(1.2)


def marginal_kernel(L):
    return np.eye(len(L)) - np.linalg.inv(np.eye(len(L)) + L)


def is_exact(samples, L, k=None):
    if k is None and largest_error(samples, marginal_kernel(L)) > ERRORS:
        return False
    return p_value(samples, brute_force(L, k)) > SMALLEST_P


@pytest.mark.parametrize("n", [N // 4, pytest.param(N, marks=pytest.mark.slow)])
def test_the_eigenvector_sampler_is_exact(n, X):
    kernel = kernel_of_size(X, 2.0)
    dpp = ExactDPP(kernel, random_state=1).fit(X)
    assert is_exact(dpp.sample(n), kernel(X))
    for k in (1, 3):
        assert is_exact(dpp.sample(n // 4, k=k), kernel(X), k)


def test_the_cholesky_sampler_is_exact(X, rng):
    L = kernel_of_size(X, 2.0)(X)
    factor = np.linalg.cholesky(np.eye(len(L)) + L)
    coins = rng.random((N, len(L)))
    assert is_exact([sample_from_factor(factor, u) for u in coins], L)


def dense_weight(L, members, free):
    """Return Σ det(L_S) over the sets S that hold the members and any of the first ``free`` rows."""
    which = members + list(range(free))
    M = L[np.ix_(which, which)] + np.diag([0.0] * len(members) + [1.0] * free)
    return np.linalg.det(M) if which else 1.0


def test_the_cholesky_sampler_decides_like_the_dense_chain_rule(rng):
    """Row by row from the last, P(j in | decided) as a ratio of dense determinants; same coins, same set."""
    for _ in range(20):
        rows = rng.standard_normal((14, 2))
        L = 4.0 * RBF(0.8)(rows)
        coins = rng.random(14)
        inside: list[int] = []
        for j in range(13, -1, -1):
            with_j, without = dense_weight(L, [*inside, j], j), dense_weight(L, inside, j)
            if coins[j] < with_j / (with_j + without):
                inside.append(j)
        found = sample_from_factor(np.linalg.cholesky(np.eye(14) + L), coins)
        assert found.tolist() == inside[::-1]


DICTIONARIES = {
    "full": (ExactRLS(oversampling=1e6), False),
    "partial": (Uniform(max_atoms=3), False),
    "poor": (Uniform(max_atoms=1), False),
    "full, weighted": (ExactRLS(oversampling=1e6), True),
    "partial, weighted": (Uniform(max_atoms=3), True),
    "one pass, weighted": (Kors(oversampling=1.0), True),
}


QUICK = [("full", True), ("one pass, weighted", False)]
CASES = [
    pytest.param(name, paper, marks=() if (name, paper) in QUICK else pytest.mark.slow, id=f"{name}, {words}")
    for name in DICTIONARIES
    for paper, words in ((True, "r as in the papers"), (False, "the best r"))
]


@pytest.mark.parametrize(("name", "paper"), CASES)
def test_samples_are_exact_whatever_the_dictionary(name, paper, X, monkeypatch):
    sampler, weighted = DICTIONARIES[name]
    if paper:
        monkeypatch.setattr(proposals, "best_draws", lambda total, n: max(total, 1.0))
    kernel = kernel_of_size(X, 1.0 if name == "poor" else 1.7)
    seen = watch_acceptance(monkeypatch)
    dpp = DPP(kernel, sampler, weighted=weighted, random_state=5).fit(X)
    samples = dpp.sample(N)
    assert is_exact(samples, kernel(X))
    assert max(seen) <= 1e-9
    expected = closed_form(dpp, kernel(X))
    attempts = dpp._fitted.attempts
    assert abs(dpp.acceptance_rate_ - expected) < ERRORS * math.sqrt(expected * (1 - expected) / attempts) + 1e-9


def watch_acceptance(monkeypatch):
    """Return a list that gets every log a."""
    seen = []
    real = proposals.Proposer._accept

    def watched(self, *args):
        factor, log_accept = real(self, *args)
        seen.append(log_accept)
        return factor, log_accept

    monkeypatch.setattr(proposals.Proposer, "_accept", watched)
    return seen


def closed_form(dpp, L):
    """Return exp(z − log det(I + A) − r·s·(e^(1/r) − 1))·det(I + L), s the sum of the scores of all rows."""
    surrogate, r = dpp._fitted.prepared.surrogate, dpp._fitted.proposer.draws
    s = surrogate.scores(dpp._fitted.rows.X, 1.0).sum()
    log = surrogate.trace(1.0) - surrogate.log_det(1.0) - r * s * math.expm1(1 / r)
    return float(np.exp(log) * np.linalg.det(np.eye(len(L)) + L))


@pytest.mark.parametrize("name", ["full", "partial", "one pass, weighted"])
@pytest.mark.parametrize("n", [400, pytest.param(1_500, marks=pytest.mark.slow)])
def test_samples_of_k_rows_are_exact(n, name, X):
    sampler, weighted = DICTIONARIES[name]
    kernel = kernel_of_size(X, 1.7)
    dpp = DPP(kernel, sampler, weighted=weighted, random_state=2).fit(X)
    samples = dpp.sample(n, k=2)
    assert {len(s) for s in samples} == {2}
    assert is_exact(samples, kernel(X), 2)


@pytest.mark.parametrize("n", [400, pytest.param(1_500, marks=pytest.mark.slow)])
def test_a_larger_k_than_the_kernel_gives_is_exact_too(n, X):
    """Samples of 4 of 5 rows where the mean size is 1: the work is done anew at a larger scale."""
    kernel = kernel_of_size(X, 1.0)
    dpp = DPP(kernel, random_state=2).fit(X)
    assert is_exact(dpp.sample(n, k=4), kernel(X), 4)
    assert len(dpp._fitted.levels) == 2


@pytest.mark.slow
def test_expected_size_is_what_samples_have(X):
    dpp = DPP(RBF(1.2), expected_size=1.5, random_state=0).fit(X)
    assert dpp.expected_size_ == pytest.approx(1.5)
    assert is_exact(dpp.sample(N), dpp.scale_ * RBF(1.2)(X))


# The mutated twins.


def at_size_one(X, monkeypatch, count=N // 4, seed=5):
    """Return samples and the matrix where the scores sum to 1 and r = 1, as in the papers."""
    monkeypatch.setattr(proposals, "best_draws", lambda total, n: max(total, 1.0))
    kernel = kernel_of_size(X, 1.0)
    dpp = DPP(kernel, ExactRLS(oversampling=1e6), random_state=seed).fit(X)
    return dpp.sample(count), kernel(X)


def test_rounding_the_poisson_rate_is_caught(X, monkeypatch):
    """The public sampler's mistake: ceil of the rate gives DPP(f·L), f the factor by which it was rounded."""
    samples, L = at_size_one(X, monkeypatch, N)
    assert is_exact(samples, L)
    real = proposals.Proposer._rate
    monkeypatch.setattr(proposals.Proposer, "_rate", lambda self, total: math.ceil(real(self, total)))
    samples, L = at_size_one(X, monkeypatch, N)
    assert not is_exact(samples, L)
    assert p_value(samples, brute_force(L)) < 1e-10
    assert is_exact(samples, 3 / math.e * L)  # what it draws from instead


def test_forgetting_the_factor_of_the_tilt_is_caught(X, monkeypatch):
    """Poisson(r·Σl) draws in place of Poisson(r·e^(1/r)·Σl)."""
    monkeypatch.setattr(proposals.Proposer, "_rate", lambda self, total: self.draws * total)
    assert not is_exact(*at_size_one(X, monkeypatch))


def test_accepting_every_proposal_is_caught(X, monkeypatch):
    real = proposals.Proposer._accept
    monkeypatch.setattr(proposals.Proposer, "_accept", lambda self, *args: (real(self, *args)[0], 0.0))
    assert not is_exact(*at_size_one(X, monkeypatch))


@pytest.mark.slow
def test_forgetting_to_thin_by_the_true_score_is_caught(X, monkeypatch):
    """Bounds of one pass taken for the scores of the whole dictionary, in the draw but not in the weights."""
    monkeypatch.setattr(proposals.Proposer, "decide", careless)
    kernel = kernel_of_size(X, 1.7)
    dpp = DPP(kernel, Kors(oversampling=1.0), weighted=True, random_state=5).fit(X)
    dpp._fitted.prepared.bounds[:2] *= 3.0  # still bounds
    dpp._fitted.prepared.__dict__.pop("heights", None)
    dpp._fitted.proposer = proposals.Proposer(dpp._fitted.prepared, 1.0)
    assert not is_exact(dpp.sample(N // 4), kernel(X))
    monkeypatch.undo()
    assert is_exact(dpp.sample(N // 4), kernel(X))


def careless(self, drawn, X, values):
    if len(drawn.rows) == 0:
        factor, log_accept = self._accept(X, values, drawn.counts, np.zeros(0))
    else:
        factor, log_accept = self._accept(X, values, drawn.counts, self.prepared.surrogate.scores(X, 1.0))
    if math.log(1.0 - drawn.rng.random()) > log_accept:
        return None
    return drawn.rows[sample_from_factor(factor, drawn.rng.random(len(drawn.rows)))]


@pytest.fixture(scope="module")
def few_rows():
    return np.random.default_rng(0).standard_normal((300, 3))


@pytest.mark.parametrize("subset", [[1.5], [True, False], [[1, 2]], 3, ["a"]], ids=str)
def test_the_probability_of_what_is_no_set_of_row_numbers_is_refused(few_rows, subset):
    exact = ExactDPP(RBF(1.0)).fit(few_rows)
    with pytest.raises(TypeError, match="row numbers"):
        exact.log_probability(subset)
    assert exact.log_probability([]) == exact.log_probability(np.zeros(0))


def test_the_eigenvector_sampler_draws_as_many_rows_as_the_rank_and_no_more():
    X = np.random.default_rng(0).standard_normal((12, 3))
    model = ExactDPP(Linear(), random_state=0).fit(X)
    assert [len(s) for s in model.sample(5, k=3)] == [3] * 5
    with pytest.raises(ValueError, match="rank 3: no 4 rows"):
        model.sample(k=4)


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_what_a_dictionary_loses_is_the_gap_of_the_tangent_of_log_det(scale):
    """log det(I + αA) + Tr (I + αA)⁻¹α(C − A) − log det(I + αC), A and C dense; 0 where atoms span the rows."""
    X = np.random.default_rng(0).standard_normal((40, 2))
    K = RBF(1.0)(X)
    for size in (5, 15):
        C = K[:, :size]
        low = C @ np.linalg.solve(K[:size, :size], C.T)  # ΦᵀPΦ: the same non-zero spectrum as A = P C P
        tangent = np.linalg.slogdet(np.eye(40) + scale * low)[1] + scale * np.trace(K - low)
        expected = tangent - np.linalg.slogdet(np.eye(40) + scale * K)[1]
        assert lost(landmarks(X[:size], RBF(1.0)), X, scale) == pytest.approx(expected, rel=1e-6)
        assert expected > 1e-3
    assert lost(landmarks(X, RBF(1.0)), X, scale) == pytest.approx(0.0, abs=1e-6)


def test_the_search_for_a_scale_moves_after_so_many_sizes_by_the_side_that_most_fell_on():
    search = ScaleSearch(9, 1.0)
    assert [search.record(5) for _ in range(6)] == [False] * 5 + [True]  # ⌈√9⌉ + 3 sizes
    assert search.scale == pytest.approx(2.0)  # the geometric mean of 1 and WIDEST
    assert [search.record(20) for _ in range(6)][-1]
    assert search.scale == pytest.approx(2.0**0.5)
    assert not any(search.record(size) for size in (9, 9, 1, 1, 1, 1) * 3), "two hits settle it"
    narrow = ScaleSearch(9, 1.0)
    moves = sum(narrow.record(5) for _ in range(6 * 40))
    assert moves == 9  # log 4 is halved until it is at most log(1 + 1/144)
