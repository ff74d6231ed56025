import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition.varying import VaryingNoise, _Problem, fit_varying, shrunk


def draw(n, c=4, slope=0.35, offset=-1.3, m=0.5, seed=0, spread=4.0):
    """Return p(x), clean and noisy labels, whose rate falls with p of the clean class as in VaryingNoise."""
    random = np.random.default_rng(seed)
    p = softmax(spread * random.normal(size=(n, c)), axis=1)
    clean = (p.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    own = np.clip(p[np.arange(n), clean], 1e-4, 1 - 1e-4)
    wrong = random.random(n) < expit(offset - slope * logit(own))
    other = np.where(np.arange(c) == clean[:, np.newaxis], 0, p)
    other = m * other / other.sum(axis=1, keepdims=True) + (1 - m) / (c - 1) * (np.arange(c) != clean[:, np.newaxis])
    flipped = (other.cumsum(axis=1) > random.random((n, 1)) * (1 - 1e-9)).argmax(axis=1)
    return p, clean, np.where(wrong, flipped, clean)


def test_the_joint_probability_is_the_formula():
    random = np.random.default_rng(0)
    p, T = random.dirichlet(np.full(3, 3.0), 5), symmetric(3, 0.3)
    codes = np.array([0, 1, 2, 0, 1])
    noise = VaryingNoise(T, temperature=1.2, offset=-1.0, slope=0.3, resemblance=0.4)
    joint = noise.joint(p, codes)
    for i, y in enumerate(codes):
        t = p[i] ** 1.2 / np.sum(p[i] ** 1.2)
        for k in range(3):
            e = 1 / (1 + np.exp(1.0 + 0.3 * np.log(t[k] / (1 - t[k]))))
            flip = 0.4 * t[y] / (1 - t[k]) + 0.6 * T[k, y] / (1 - T[k, k])
            assert joint[i, k] == pytest.approx(t[k] * (1 - e if k == y else e * flip))


def test_the_labels_of_a_sample_have_probability_one():
    p = np.random.default_rng(0).dirichlet(np.ones(4), 20)
    noise = VaryingNoise(symmetric(4, 0.2), 1.3, -1.0, 0.4, 0.3)
    total = sum(noise.joint(p, np.full(20, y)).sum(axis=1) for y in range(4))
    np.testing.assert_allclose(total, 1)


def test_a_slope_of_zero_is_class_conditional_noise():
    p, T, codes = np.random.default_rng(0).dirichlet(np.ones(4), 30), symmetric(4, 0.25), np.arange(30) % 4
    varying = VaryingNoise(T, offset=float(logit(0.25)), slope=1e-12)
    np.testing.assert_allclose(varying.joint(p, codes), p * T.T[codes], rtol=1e-9)


def test_the_gradient():
    random = np.random.default_rng(0)
    problem = _Problem(
        np.log(random.dirichlet(np.ones(4), 40)), random.integers(0, 4, 40), shrunk(np.eye(4), np.ones(4))
    )
    theta = np.array([0.1, -1.0, 0.3, 0.3])
    _, gradient = problem.loss(theta)
    for k, step in enumerate(1e-6 * np.eye(4)):
        slope = (problem.loss(theta + step)[0] - problem.loss(theta - step)[0]) / 2e-6
        assert gradient[k] == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize(
    "T",
    [
        symmetric(4, 0.2),
        pairflip(4, 0.3),
        np.diag([0.6, 0.0, 0.0, 0.0]) + np.diag([0, 1, 1, 1]) + 0.4 * np.outer([1, 0, 0, 0], [0, 1, 0, 0]),
    ],
)
def test_constant_noise_gives_the_class_conditional_answer(T):
    p, clean, _ = draw(2000)
    noisy = corrupt(clean, T, random_state=0)
    noise = fit_varying(p, noisy, T)
    assert not noise.varies
    np.testing.assert_array_equal(noise.joint(p, noisy), p * T.T[noisy])
    assert noise.low <= np.mean(noisy != clean) <= noise.high


def test_the_count_is_better_than_that_of_one_rate_and_its_interval_covers_it():
    covered, errors, plain = [], [], []
    for seed in range(5):
        p, clean, noisy = draw(1000, seed=seed)
        share, T = np.mean(noisy != clean), symmetric(4, 0.06)
        noise, rows = fit_varying(p, noisy, T), np.arange(len(noisy))
        covered.append(noise.low <= share <= noise.high)
        errors.append(1 - noise.posterior(p, noisy)[rows, noisy].mean() - share)
        constant = p * T.T[noisy]
        plain.append(1 - (constant[rows, noisy] / constant.sum(axis=1)).mean() - share)
    assert np.mean(covered) >= 0.8
    assert np.mean(np.abs(errors)) < 0.5 * np.mean(np.abs(plain))


def test_more_rows_show_that_the_rate_varies():
    evidence = [fit_varying(*draw(n, spread=6.0)[::2], symmetric(4, 0.06)).evidence for n in (200, 2000)]
    assert evidence[0] < evidence[1]
    assert evidence[1] > 3


def test_noise_that_is_presumed_needs_no_support():
    p, clean, _ = draw(1000, c=2, spread=0.7)
    found, presumed = (fit_varying(p, clean, np.eye(2), presumed=presumed) for presumed in (False, True))
    assert found.evidence == presumed.evidence
    assert presumed.varies
    assert not found.varies
    assert found.high < presumed.high
