"""MCLDCEClassifierCV: the corrected risk of each penalty, from sums and from rows, and the choice it makes."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold, ShuffleSplit

from unflip.core import ClassSums, corrected_labels, decomposed_risk
from unflip.linear import MCLDCEClassifier, MCLDCEClassifierCV
from unflip.noise import corrupt, pairflip, symmetric

T = pairflip(10, 0.4)
ALPHAS = [1e-1, 1e2, 1e5, 1e8]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X, y, corrupt(y, T, random_state=0)


def risk_naively(X, noisy, alpha, cv, weights):
    """Fit on the training rows, score on the held-out rows, average over all rows."""
    labels = corrected_labels(T)
    risks = []
    for train, test in cv.split(X):
        model = MCLDCEClassifier(T, alpha=alpha).fit(X[train], noisy[train], weights[train])
        scores = model.decision_function(X[test])
        risks.append(decomposed_risk(scores, noisy[test], labels, weights[test]).total)
    return np.average(risks, weights=[weights[test].sum() for _, test in cv.split(X)])


@pytest.mark.parametrize("cv", [KFold(4), ShuffleSplit(3, random_state=0)], ids=["partition", "overlapping"])
@pytest.mark.parametrize("weighted", [False, True])
def test_risk_equals_a_naive_cross_validation(digits, cv, weighted):
    X, _, noisy = digits
    weights = (np.arange(len(noisy)) % 3).astype(float) if weighted else None
    model = MCLDCEClassifierCV(T, alphas=ALPHAS, cv=cv).fit(X, noisy, weights)
    expected = [
        risk_naively(X, noisy, alpha, cv, np.ones(len(noisy)) if weights is None else weights) for alpha in ALPHAS
    ]
    np.testing.assert_allclose(model.risk_, expected, rtol=1e-8)
    assert model.alpha_ == ALPHAS[np.argmin(expected)]
    refit = MCLDCEClassifier(T, alpha=model.alpha_).fit(X, noisy, weights)
    np.testing.assert_allclose(model.coef_, refit.coef_, atol=1e-10)


def test_risk_follows_the_risk_on_clean_labels(digits):
    """The noisy labels alone rank the penalties as the clean labels would, and cost nearly nothing."""
    X, y, noisy = digits
    cv = KFold(5, shuffle=True, random_state=0)
    corrected = MCLDCEClassifierCV(T, cv=cv).fit(X, noisy)
    oracle = []
    for alpha in corrected.alphas_:
        risks = []
        for train, test in cv.split(X):
            scores = MCLDCEClassifier(T, alpha=alpha).fit(X[train], noisy[train]).decision_function(X[test])
            risks.append(decomposed_risk(scores, y[test], np.eye(10)).total)
        oracle.append(np.mean(risks))
    assert np.corrcoef(corrected.risk_, oracle)[0, 1] > 0.9
    assert oracle[corrected.risk_.argmin()] < min(oracle) + 0.02


def test_sparse_and_wide_choose_alike(digits, monkeypatch):
    X, _, noisy = digits
    X, noisy = X[:600], noisy[:600]
    options = {"alphas": ALPHAS, "cv": KFold(3)}
    dense = MCLDCEClassifierCV(T, **options).fit(X, noisy)
    monkeypatch.setattr("unflip.linear._centroid_ridge.WIDE_SPARSE", 1)
    rows = MCLDCEClassifierCV(T, **options).fit(sparse.csr_array(X), noisy)
    np.testing.assert_allclose(rows.risk_, dense.risk_, rtol=1e-5)
    assert rows.alpha_ == dense.alpha_
    np.testing.assert_allclose(rows.coef_, dense.coef_, atol=1e-6)
    default = MCLDCEClassifierCV(T, cv=3, random_state=0).fit(sparse.csr_array(X[:100]), noisy[:100])
    assert len(default.risk_) == 17


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_wide_data_have_the_same_grid_and_skip_empty_folds(digits, monkeypatch, kind):
    X, _, noisy = digits
    X, noisy = X[:300], noisy[:300]
    weights = np.where(np.arange(300) < 100, 0.0, 1.0)  # the first of three folds counts nothing
    sums = MCLDCEClassifierCV(T, cv=KFold(3)).fit(X, noisy, weights)
    monkeypatch.setattr("unflip.linear.mcldce_cv.is_wide", lambda _: True)
    rows = MCLDCEClassifierCV(T, cv=KFold(3)).fit(kind(X), noisy, weights)
    np.testing.assert_allclose(rows.alphas_, sums.alphas_)
    np.testing.assert_allclose(rows.risk_[4:], sums.risk_[4:], rtol=1e-4)


def test_folds_as_sums(digits):
    X, _, noisy = digits
    folds = [ClassSums.of(X[test], noisy[test], 10) for _, test in KFold(4).split(X)]
    model = MCLDCEClassifierCV(T, alphas=ALPHAS).fit_sums(folds)
    expected = MCLDCEClassifierCV(T, alphas=ALPHAS, cv=KFold(4)).fit(X, noisy)
    np.testing.assert_allclose(model.risk_, expected.risk_, rtol=1e-10)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_names_of_any_fold_are_kept(digits):
    X, _, noisy = digits
    folds = [ClassSums.of(X[test], noisy[test], 10) for _, test in KFold(3).split(X)]
    names, features = [f"digit {k}" for k in range(10)], [f"pixel {j}" for j in range(64)]
    folds[1] = replace(folds[1], classes=names, feature_names=features)
    model = MCLDCEClassifierCV(T, alphas=ALPHAS).fit_sums(folds)
    assert model.classes_.tolist() == names
    assert model.feature_names_in_.tolist() == features
    folds[2] = replace(folds[2], classes=names[1:] + names[:1])
    with pytest.raises(ValueError, match="differ in their classes"):
        MCLDCEClassifierCV(T, alphas=ALPHAS).fit_sums(folds)


def test_default_grid_fits_data_of_any_scale(digits):
    X, _, noisy = digits
    a = MCLDCEClassifierCV(T, random_state=0).fit(X, noisy)
    b = MCLDCEClassifierCV(T, random_state=0).fit(X * 1e4, noisy)
    assert b.alpha_ == pytest.approx(a.alpha_ * 1e8)
    np.testing.assert_array_equal(a.predict(X), b.predict(X * 1e4))


def test_fewer_rows_than_folds():
    model = MCLDCEClassifierCV(symmetric(2, 0.1), random_state=0).fit([[0.0], [1.0], [0.1]], [0, 1, 0])
    np.testing.assert_array_equal(model.predict([[0.0], [1.0]]), [0, 1])


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"alphas": [0.0, 1.0]}, "alphas must be"),
        ({"alphas": []}, "alphas must be"),
        ({"alphas": 1.0}, "alphas must be"),
        ({"cv": 1}, "at least 2 folds"),
        ({"operator": "paper"}, "operator must be"),
    ],
)
def test_bad_parameters(digits, parameters, match):
    X, _, noisy = digits
    with pytest.raises(ValueError, match=match):
        MCLDCEClassifierCV(T, **parameters).fit(X, noisy)


def test_bad_folds(digits):
    X, _, noisy = digits
    for folds in (ClassSums.of(X, noisy, 10), [ClassSums.of(X, noisy, 10)]):
        with pytest.raises(ValueError, match="at least two folds"):
            MCLDCEClassifierCV(T).fit_sums(folds)
