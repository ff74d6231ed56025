"""The formulas of the paper: prior, operators, centroid and risk, each against a naive twin or in a known limit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from tests.strategies import random_prior, transitions
from unflip.core import (
    ClassSums,
    clean_centroid,
    clean_prior,
    corrected_labels,
    decomposed_risk,
    imputation_matrix,
    ldce,
    linear_risk,
    mixing_matrix,
    project_to_simplex,
)
from unflip.core.ldce import Correction, well_conditioned
from unflip.metrics import centroid_error
from unflip.noise import asymmetric, corrupt, pairflip, symmetric

MATRICES = {
    "pair": pairflip(6, 0.4),
    "symmetric": symmetric(6, 0.6),
    "equal columns": 0.4 * np.eye(6) + 0.6 * np.tile([0.1, 0.3, 0.2, 0.05, 0.05, 0.3], (6, 1)),
    "one-sided": asymmetric(6, {0: (1, 0.3), 4: (2, 0.45)}),
    "dense": 0.5 * np.eye(6) + 0.5 * np.random.default_rng(0).dirichlet(np.ones(6), size=6),
    "not dominant": 0.3 * np.eye(6) + 0.7 * np.roll(np.eye(6), 1, axis=1),
}


@given(transitions(), st.integers(0, 1000))
def test_inverts_the_papers_equations(T, seed):
    prior = random_prior(len(T), seed)
    # Eq. (eq_priors), one equation a class
    noisy = [sum(T[i, j] * prior[i] for i in range(len(T))) for j in range(len(T))]
    np.testing.assert_allclose(clean_prior(noisy, T), prior, atol=1e-9)


@given(transitions(), st.integers(0, 1000))
def test_is_the_best_point_of_the_simplex(T, seed):
    """Whatever the noisy prior, no other point of the simplex fits better (checked against 200 random ones)."""
    noisy = np.random.default_rng(seed).dirichlet(np.full(len(T), 0.3))
    prior = clean_prior(noisy, T)
    assert prior.min() >= 0
    assert prior.sum() == pytest.approx(1)
    others = np.random.default_rng(seed + 1).dirichlet(np.full(len(T), 0.5), size=200)
    near = 0.99 * prior + 0.01 * others  # the problem is convex: no better neighbour means no better point
    error = np.linalg.norm(prior @ T - noisy)
    assert error <= np.linalg.norm(near @ T - noisy, axis=1).min() + 1e-9


def test_leaves_the_plain_solution_where_it_is_negative():
    T = pairflip(3, 0.4)
    noisy = np.array([0.05, 0.05, 0.9])
    assert np.linalg.solve(T.T, noisy).min() < 0
    prior = clean_prior(noisy, T)
    assert prior.min() == 0
    # KKT: the gradient is equal on the support and not smaller off it
    gradient = T @ (prior @ T - noisy)
    support = prior > 0
    np.testing.assert_allclose(gradient[support], gradient[support].mean(), atol=1e-12)
    assert (gradient[~support] >= gradient[support].mean() - 1e-12).all()


@given(transitions(), st.integers(0, 1000))
def test_gradient_steps_take_over_if_the_active_set_gives_up(T, seed):
    def fail(*_):
        raise RuntimeError("Maximum number of iterations reached.")

    noisy = np.random.default_rng(seed).dirichlet(np.full(len(T), 0.3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ldce, "nnls", fail)
        found = clean_prior(noisy, T)
    np.testing.assert_allclose(found, clean_prior(noisy, T), atol=1e-9)


@given(transitions(), st.integers(0, 1000))
def test_gradient_steps_end_where_the_active_set_ends(T, seed):
    noisy = np.random.default_rng(seed).dirichlet(np.full(len(T), 0.3))
    start = np.linalg.solve(T.T, noisy)
    np.testing.assert_allclose(ldce._projected_gradient(start, noisy, T), clean_prior(noisy, T), atol=1e-9)


@pytest.mark.parametrize("T", [pairflip(300, 0.4), symmetric(300, 0.6)], ids=["pair", "symmetric"])
def test_hundreds_of_classes_of_which_the_noise_emptied_some(T):
    noisy = np.random.default_rng(0).dirichlet(np.full(300, 0.3))
    assert np.linalg.solve(T.T, noisy).min() < 0
    prior = clean_prior(noisy, T)
    assert prior.min() == 0
    assert prior.sum() == pytest.approx(1)
    gradient = T @ (prior @ T - noisy)  # equal on the support, not smaller off it
    np.testing.assert_allclose(gradient[prior > 0], gradient[prior > 0].mean(), atol=1e-12)
    assert gradient.min() >= gradient[prior > 0].mean() - 1e-12


def test_uniform_stays_uniform_under_symmetric_noise():
    np.testing.assert_allclose(clean_prior(np.full(10, 0.1), symmetric(10, 0.6)), np.full(10, 0.1))


@pytest.mark.parametrize("noisy", [[0.5, 0.6], [1.0], [-0.1, 1.1], [np.nan, 1.0]])
def test_refuses_what_is_no_prior(noisy):
    with pytest.raises(ValueError, match="prior"):
        clean_prior(noisy, symmetric(2, 0.1))


def published_naively(T, prior):
    """Eq. (calculation_M) as printed: a double sum of swapped identities."""
    c = len(T)
    M = np.zeros((c, c))
    for i in range(c):
        for j in range(c):
            K = np.eye(c)
            K[[i, j]] = K[[j, i]]
            M += prior[i] * T[i, j] * K.T
    return M


@pytest.mark.parametrize(("i", "j"), [(0, 0), (0, 3), (3, 1)])
def test_imputation_matrix_moves_one_label_to_another(i, j):
    e = np.eye(4)
    K = imputation_matrix(i, j, 4)
    np.testing.assert_array_equal(K @ e[i], e[j])
    np.testing.assert_array_equal(K @ K, e)  # a swap undoes itself
    for other in set(range(4)) - {i, j}:
        np.testing.assert_array_equal(K @ e[other], e[other])


def test_imputation_matrix_refuses_codes_outside():
    with pytest.raises(ValueError, match=r"0 \.\. 2"):
        imputation_matrix(0, 3, 3)


@given(transitions(), st.integers(0, 1000))
def test_published_operator_equals_the_papers_double_sum(T, seed):
    prior = random_prior(len(T), seed)
    np.testing.assert_allclose(mixing_matrix(T, prior, "published"), published_naively(T, prior), atol=1e-12)


@given(transitions(), st.integers(0, 1000))
def test_published_operator_is_symmetric_and_stochastic(T, seed):
    M = mixing_matrix(T, random_prior(len(T), seed), "published")
    np.testing.assert_allclose(M, M.T, atol=1e-15)
    np.testing.assert_allclose(M.sum(axis=1), 1)


@given(st.floats(0, 0.49), st.integers(0, 1000))
def test_operators_agree_for_two_classes_that_flip_alike(rate, seed):
    T = symmetric(2, rate)
    np.testing.assert_allclose(mixing_matrix(T, random_prior(2, seed), "published"), T, atol=1e-12)


def test_operators_differ_for_two_classes_that_flip_unlike():
    """The published M is symmetric, so one-sided noise is out of its reach even for two classes."""
    T = asymmetric(2, {0: (1, 0.3)})
    np.testing.assert_allclose(mixing_matrix(T, [0.5, 0.5], "published"), symmetric(2, 0.15))


@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_published_closed_form_under_symmetric_noise(rate):
    c, J = 10, np.ones((10, 10))
    expected = (1 - 2 * rate / (c - 1)) * np.eye(c) + 2 * rate / (c * (c - 1)) * J
    np.testing.assert_allclose(mixing_matrix(symmetric(c, rate), operator="published"), expected)


@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_published_closed_form_under_pair_noise(rate):
    c, P = 10, np.roll(np.eye(10), 1, axis=1)
    expected = (1 - 2 * rate / c) * np.eye(c) + rate / c * (P + P.T)
    np.testing.assert_allclose(mixing_matrix(pairflip(c, rate), operator="published"), expected)


@pytest.mark.parametrize(
    ("T", "bias"),
    [(symmetric(10, 0.2), 0.56), (symmetric(10, 0.6), 1.85), (pairflip(10, 0.2), 0.81), (pairflip(10, 0.4), 1.73)],
)
def test_bias_of_each_operator(T, bias):
    """|T M^+ - I|: zero would be unbiased."""
    published, exact = corrected_labels(T, operator="published"), corrected_labels(T)
    assert np.linalg.norm(T @ published - np.eye(10)) == pytest.approx(bias, abs=0.005)
    assert np.linalg.norm(T @ exact - np.eye(10)) < 1e-12


@given(transitions())
def test_corrected_labels_sum_to_one_and_undo_the_noise(T):
    rows = corrected_labels(T)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-8)
    np.testing.assert_allclose(T @ rows, np.eye(len(T)), atol=1e-8)


def test_identity_corrects_nothing():
    for operator in ("exact", "published"):
        np.testing.assert_allclose(corrected_labels(np.eye(4), operator=operator), np.eye(4), atol=1e-15)


def test_clean_centroid_from_the_papers_sums():
    """Eq. (estiation_with_matrix) written naively: mu_noisy M^+ with mu = (1/n) sum x y'."""
    rng = np.random.default_rng(0)
    X, y, T = rng.normal(size=(60, 3)), np.arange(60) % 4, pairflip(4, 0.3)
    mu = sum(np.outer(x, np.eye(4)[label]) for x, label in zip(X, y, strict=True)) / 60
    sums = ClassSums.of(X, y, 4)
    np.testing.assert_allclose(clean_centroid(sums, T), mu @ np.linalg.inv(T), atol=1e-12)
    prior = np.full(4, 0.25)  # y is balanced and T doubly stochastic
    published = mu @ np.linalg.pinv(published_naively(T, prior))
    np.testing.assert_allclose(clean_centroid(sums, T, "published"), published, atol=1e-12)


@pytest.mark.parametrize("T", [symmetric(10, 0.6), pairflip(10, 0.4)], ids=["symmetric", "pair"])
def test_exact_error_falls_with_the_root_of_n_and_the_published_one_does_not(T):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(10, 5))

    def errors(n):
        y = np.arange(n) % 10
        X = centres[y] + rng.normal(size=(n, 5))
        true = ClassSums.of(X, y, 10).centroid
        draws = []
        for seed in range(5):
            sums = ClassSums.of(X, corrupt(y, T, random_state=seed), 10)
            draws.append([centroid_error(clean_centroid(sums, T, op), true) for op in ("exact", "published")])
        return np.mean(draws, axis=0)

    (small_exact, small_published), (large_exact, large_published) = errors(4_000), errors(400_000)
    assert small_exact / large_exact == pytest.approx(10, rel=0.35)  # sqrt(100)
    assert large_exact < 0.03
    assert large_published > 0.9 * small_published - small_exact
    assert large_published > 10 * large_exact


def test_unknown_operator_is_named():
    with pytest.raises(ValueError, match="'exact'.*'published'.*'paper'"):
        mixing_matrix(np.eye(2), operator="paper")


@pytest.fixture
def sums():
    rng = np.random.default_rng(0)
    y = np.arange(600) % 6
    X = rng.normal(size=(6, 4))[y] + rng.normal(1, 1, size=(600, 4))
    return ClassSums.of(X, corrupt(y, pairflip(6, 0.2), random_state=0), 6)


@pytest.mark.parametrize("operator", ["exact", "published"])
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("kind", ["few", "many", "sparse"])
def test_is_the_product_with_the_corrected_labels(sums, name, operator, kind, monkeypatch):
    T = MATRICES[name]
    prior = clean_prior(sums.noisy_prior, T)
    labels = corrected_labels(T, prior, operator)
    if kind == "many":
        monkeypatch.setattr(ldce, "MANY_CLASSES", 2)
    correct = Correction(sparse.csc_array(T) if kind == "sparse" else T, sums.noisy_prior, operator)
    np.testing.assert_allclose(correct.prior, prior, atol=1e-12)
    np.testing.assert_allclose(correct(sums.counts), sums.counts @ labels, atol=1e-9)
    np.testing.assert_allclose(correct(sums.centred_sums), labels.T @ sums.centred_sums, atol=1e-9)
    assert correct(sums.counts).sum() == pytest.approx(600)
    np.testing.assert_allclose(clean_centroid(sums, correct), clean_centroid(sums, T, operator), atol=1e-9)


def test_a_published_operator_that_is_singular_has_a_pseudo_inverse(sums, monkeypatch):
    T = np.roll(np.eye(6), 3, axis=1)  # every label flips, half of them each way: the published M mixes pairs fully
    labels = corrected_labels(T, clean_prior(sums.noisy_prior, T), "published")
    monkeypatch.setattr(ldce, "MANY_CLASSES", 2)
    for matrix in (T, sparse.csc_array(T)):
        correct = Correction(matrix, sums.noisy_prior, "published")
        np.testing.assert_allclose(correct(sums.centred_sums), labels.T @ sums.centred_sums, atol=1e-8)


def test_structure_is_seen_where_it_is_and_only_there():
    found = ldce._diagonal_plus_columns(MATRICES["equal columns"])
    np.testing.assert_allclose(found[0], 0.4)
    np.testing.assert_allclose(found[1], [0.06, 0.18, 0.12, 0.03, 0.03, 0.18])
    assert ldce._diagonal_plus_columns(MATRICES["symmetric"]) is not None
    for name in ("pair", "dense", "one-sided"):
        assert ldce._diagonal_plus_columns(MATRICES[name]) is None


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)), rng.integers(3, size=200)
    return X, y, rng.normal(size=(4, 3)), rng.normal(size=3)


def test_equals_the_squared_loss_when_nothing_flips(problem):
    X, y, W, b = problem
    h = X @ W + b
    plain = np.mean([np.sum((np.eye(3)[k] - row) ** 2) for row, k in zip(h, y, strict=True)])
    for operator in ("exact", "published"):
        assert decomposed_risk(h, y, corrected_labels(np.eye(3), operator=operator)).total == pytest.approx(plain)


def test_only_the_second_part_sees_the_label(problem):
    X, y, W, b = problem
    labels = corrected_labels(pairflip(3, 0.3))
    clean, noisy = (decomposed_risk(X @ W + b, codes, labels) for codes in (y, (y + 1) % 3))
    assert clean.label_free == noisy.label_free
    assert clean.label_dependent != noisy.label_dependent


def test_label_dependent_part_is_the_trace(problem):
    """Eq. (final_loss) with the transpose that its shapes need: -2 tr(W' mu M^+)."""
    X, y, W, _ = problem
    labels = corrected_labels(pairflip(3, 0.3))
    mu = ClassSums.of(X, y, 3).centroid
    assert decomposed_risk(X @ W, y, labels).label_dependent == pytest.approx(-2 * np.trace(W.T @ mu @ labels))


@pytest.mark.parametrize("weights", [None, np.arange(200) % 3], ids=["plain", "weighted"])
def test_sums_give_the_same_two_parts(problem, weights):
    X, y, W, b = problem
    labels = corrected_labels(pairflip(3, 0.3))
    np.testing.assert_allclose(
        linear_risk(ClassSums.of(X, y, 3, weights), W, b, labels), decomposed_risk(X @ W + b, y, labels, weights)
    )


def test_no_labels_are_the_identity(problem):
    X, y, W, b = problem
    sums = ClassSums.of(X, y, 3)
    np.testing.assert_allclose(linear_risk(sums, W, b), linear_risk(sums, W, b, np.eye(3)))


@pytest.mark.parametrize("T", [symmetric(3, 0.5), pairflip(3, 0.4)], ids=["symmetric", "pair"])
def test_is_unbiased_over_draws_of_the_noise(problem, T):
    X, y, W, b = problem
    h = X @ W + b
    draws = [decomposed_risk(h, corrupt(y, T, random_state=s), corrected_labels(T)).total for s in range(400)]
    error = np.std(draws) / np.sqrt(len(draws))
    assert abs(np.mean(draws) - decomposed_risk(h, y, np.eye(3)).total) < 3.5 * error


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_projection_is_a_distribution_in_the_same_order(row):
    p = project_to_simplex([row])[0]
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1)
    assert p[np.argmax(row)] == p.max()  # scores that differ by less than rounding may tie
    for i in range(len(row)):
        for j in range(len(row)):
            assert row[i] < row[j] or p[i] >= p[j] - 1e-12


@given(st.integers(0, 1000))
def test_projection_is_the_nearest_point(seed):
    s = np.random.default_rng(seed).normal(size=4)
    best = minimize(
        lambda p: np.sum((p - s) ** 2),
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14},
    ).x
    np.testing.assert_allclose(project_to_simplex([s])[0], best, atol=1e-5)


def test_projection_keeps_distributions():
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=10)
    np.testing.assert_allclose(project_to_simplex(p), p, atol=1e-15)


def test_a_well_conditioned_matrix_is_kept_and_another_is_mixed_with_the_identity():
    np.testing.assert_allclose(well_conditioned(pairflip(4, 0.3)), pairflip(4, 0.3), atol=1e-15)
    T = symmetric(4, 0.75)  # singular
    np.testing.assert_allclose(well_conditioned(T), 0.99 * T + 0.01 * np.eye(4))  # of condition 100
    np.testing.assert_allclose(well_conditioned(T, 1.0), np.eye(4))
