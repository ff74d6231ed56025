"""Ridge from sums: features of any scale, constant and dependent ones, and warnings that name them."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import LinAlgWarning
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

from unflip import load
from unflip.core import ClassSums
from unflip.core.sums import ROUNDING_FLOAT32
from unflip.linear import CEGEClassifier, MCLDCEClassifier, MCLDCEClassifierCV, _base
from unflip.models.folder import checksum
from unflip.noise import symmetric

T = symmetric(2, 0.1)


def solve_ridge(sums, alpha, fit_intercept=True):
    """Ridge regression on the labels as they are."""
    centroid = (sums.about_mean if fit_intercept else sums).centroid
    return _base.solve_ridge(sums, centroid, sums.noisy_prior, alpha, fit_intercept)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    return X, (X[:, 0] - X[:, 1] + rng.normal(size=200) > 0).astype(int)


def scores(X, y, alpha, **options):
    W, b = solve_ridge(ClassSums.of(X, y, 2), alpha, **options)
    return X @ W + b


def warnings_of(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [str(item.message) for item in caught if issubclass(item.category, LinAlgWarning)]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equals_scikit_learn(problem, fit_intercept):
    X, y = problem
    W, b = solve_ridge(ClassSums.of(X + 1, y, 2), 2.0, fit_intercept)
    ridge = Ridge(2.0, fit_intercept=fit_intercept).fit(X + 1, np.eye(2)[y])
    np.testing.assert_allclose(W.T, ridge.coef_, atol=1e-12)
    np.testing.assert_allclose(b, ridge.intercept_, atol=1e-12)


@pytest.mark.parametrize("alpha", [1e-30, 1e-3, 1.0])
def test_a_path_equals_single_solutions_on_any_scale(problem, alpha):
    X, y = problem
    sums = ClassSums.of(X * [1e-8, 1.0, 1e3, 1e8], y, 2)
    (W, b), *_ = _base.solve_ridge_path(sums, sums.about_mean.centroid, sums.noisy_prior, [alpha])
    expected, intercept = solve_ridge(sums, alpha)
    scale = np.sqrt(sums.scatter.diagonal()[:, np.newaxis])
    np.testing.assert_allclose(W * scale, expected * scale, atol=1e-4 * np.abs(expected * scale).max())
    np.testing.assert_allclose(b, intercept, atol=1e-4)


def test_scales_do_not_matter_without_a_penalty(problem):
    X, y = problem
    np.testing.assert_allclose(scores(X * [1e-8, 1.0, 1e3, 1e8], y, 0.0), scores(X, y, 0.0), atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 1e-20, 1.0])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 / 3])
def test_a_constant_feature_is_harmless_and_silent(problem, alpha, value):
    X, y = problem
    more = np.column_stack([X[:, :2], np.full(200, value), X[:, 2:]])
    W, _ = solve_ridge(ClassSums.of(more[:77], y[:77], 2) + ClassSums.of(more[77:], y[77:], 2), alpha)
    np.testing.assert_array_equal(W[2], 0)
    np.testing.assert_allclose(W[[0, 1, 3, 4]], solve_ridge(ClassSums.of(X, y, 2), alpha)[0], atol=1e-12)


def test_a_mean_that_was_rounded_makes_no_feature(problem):
    """A constant whose mean is one digit off has a scatter of rounding errors; its coefficient would be 1e8."""
    X, y = problem
    sums = ClassSums.of(np.column_stack([X, np.full(200, 1e9)]), y, 2)
    off = np.spacing(1e9)
    sums.mean[4] += off
    sums.scatter[4, 4] = 200 * off**2
    sums.centred_sums[:, 4] = -off * sums.counts
    assert np.abs(solve_ridge(sums, 0.0)[0]).max() < 1


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3, 1e-8, 1e8])
def test_duplicates_on_other_scales_keep_the_scores_and_are_named(problem, scale):
    X, y = problem
    more = np.column_stack([X, X[:, 1] * scale])
    with pytest.warns(LinAlgWarning, match="1 of 5 features are linear .*: feature 4 depends on feature 1. The"):
        found = scores(more, y, 0.0)
    np.testing.assert_allclose(found, scores(X, y, 0.0), atol=1e-8)
    with pytest.warns(LinAlgWarning):
        W, _ = solve_ridge(ClassSums.of(more, y, 2), 0.0)
    # The least norm: each of two that are alike gets a share as its scale.
    np.testing.assert_allclose(W[4] * min(1, 1 / scale), W[1] * min(1, scale), atol=1e-7 * np.abs(W[[1, 4]]).max())


def test_what_is_said_of_dependent_features(problem):
    X, y = problem
    sums = ClassSums.of(np.column_stack([X, X[:, 0] + 2 * X[:, 2] - 7, X[:, 3] * 1e5]), y, 2)
    named = replace(sums, feature_names=["age", "height", "weight", "income", "sum", "cents"])
    (said,) = warnings_of(lambda: solve_ridge(named, 0.0))
    assert "2 of 6 features" in said
    assert "'cents' depends on 'income'" in said
    trio = {"age", "weight", "sum"}
    first = said.split("others: ")[1].split(";")[0] if "'cents'" not in said.split(";")[0] else said.split(";")[1]
    assert {word.strip("',. ") for word in first.split()} & set(named.feature_names) == trio
    assert "raise alpha, which is 0" in said


def test_many_dependent_features_are_counted(problem):
    X, y = problem
    (said,) = warnings_of(lambda: solve_ridge(ClassSums.of(np.hstack([X] * 4), y, 2), 0.0))
    assert "12 of 16" in said
    assert "; and 7 more." in said
    (said,) = warnings_of(lambda: scores(np.random.default_rng(0).normal(size=(20, 40)), y[:20], 0.0))
    assert "21 of 40" in said
    assert "and 14 others" in said


def test_a_penalty_that_decides_is_silent(problem):
    """Warnings are errors here."""
    X, y = problem
    doubled = np.hstack([X, X])
    for alpha in (1e-6, 1.0):
        scores(doubled, y, alpha)
    scores(np.random.default_rng(0).normal(size=(20, 40)), y[:20], 1.0)
    near = np.column_stack([X, X[:, 0] + 1e-5 * np.random.default_rng(1).normal(size=200)])
    scores(near, y, 0.0)  # nearly dependent is not dependent


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (MCLDCEClassifier(T, alpha=0.0), "feature 4 depends on feature 0"),
        (MCLDCEClassifierCV(T, alphas=[1e-20, 1e-18], random_state=0), "feature 4 depends on feature 0"),
        (CEGEClassifier(T, alpha=0.0), "feature 4 depends on feature 0"),
    ],
    ids=["one", "cross-validated", "CEGE"],
)
def test_one_warning_a_fit(problem, model, columns):
    X, y = problem
    said = warnings_of(lambda: model.fit(np.column_stack([X, X[:, 0]]), y))
    assert len(said) == 1
    assert columns in said[0]


def test_names_of_a_data_frame_are_said(problem):
    pd = pytest.importorskip("pandas")
    X, y = problem
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(twice_b=2 * X[:, 1])
    with pytest.warns(LinAlgWarning, match="'twice_b' depends on 'b'"):
        MCLDCEClassifier(T, alpha=0.0).fit(frame, y)


def test_sums_that_are_not_finite(problem):
    X, y = problem
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="the sums are not finite: X holds NaN"):
        MCLDCEClassifier(T).fit_sums(ClassSums.of(X, y, 2))


class TestFloat32:
    """Sums of float32 rows are less exact than float64, and so is what can be told from them."""

    @pytest.fixture
    def rows(self):
        rng = np.random.default_rng(0)
        y = rng.integers(3, size=2000)
        X = rng.normal(size=(2000, 5)).astype(np.float32)
        X[:, :3] += 2 * np.eye(3, dtype=np.float32)[y]
        return np.column_stack([X, X[:, 0] + X[:, 1]]), y

    @pytest.mark.parametrize("alpha", [0.0, 1e-12])
    @pytest.mark.parametrize("scale", [1, 1000])
    def test_dependent_features_are_named_and_not_decided_by_rounding(self, rows, alpha, scale):
        X, y = rows
        X[:, 5] *= np.float32(scale)
        narrow, wide = ClassSums.of(X, y, 3), ClassSums.of(X.astype(np.float64), y, 3)
        with pytest.warns(LinAlgWarning, match="1 of 6 features .* depends on feature [015], feature [015]. The"):
            W, b = solve_ridge(narrow, alpha)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)
            expected, intercept = solve_ridge(wide, alpha)
        spread = np.sqrt(np.diag(wide.scatter) / 2000)[:, np.newaxis]
        np.testing.assert_allclose(W * spread, expected * spread, atol=1e-4)
        np.testing.assert_allclose(b, intercept, atol=1e-4)

    def test_a_rare_category_hides_nothing(self):
        """The last pivot is then far from zero, since its own error is a thousand times that of the others."""
        rng = np.random.default_rng(0)
        for seed in range(10):
            k = np.random.default_rng(seed).choice(5, size=8192, p=[0.3, 0.3, 0.2, 0.199, 0.001])
            sums = ClassSums.of(np.eye(5, dtype=np.float32)[k], rng.integers(2, size=8192), 2)
            with pytest.warns(LinAlgWarning, match="1 of 5 features"):
                W, _ = solve_ridge(sums, 0.0)
            assert np.abs(W).max() < 1
            assert np.abs(W.sum(axis=0)).max() < 1e-3  # of least norm

    def test_blocks_of_both_kinds(self, rows):
        X, y = rows
        sums = ClassSums.of(X[:900], y[:900], 3) + ClassSums.of(X[900:].astype(np.float64), y[900:], 3)
        with pytest.warns(LinAlgWarning, match="1 of 6 features"):
            solve_ridge(sums, 0.0)

    def test_a_penalty_that_decides_is_silent(self, rows):
        X, y = rows
        narrow, wide = (solve_ridge(ClassSums.of(Z, y, 3), 1.0)[0] for Z in (X, X.astype(np.float64)))
        np.testing.assert_allclose(narrow, wide, atol=1e-3)

    @pytest.mark.parametrize("alpha", [0.0, 1.0])
    @pytest.mark.parametrize("d", [10, 200])
    def test_correlated_features_are_silent(self, alpha, d):
        """The covariance has condition 10^4."""
        rng = np.random.default_rng(0)
        rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
        X = rng.normal(size=(5000, d)) * np.logspace(0, -2, d) @ rotation.T
        y = rng.integers(2, size=5000)
        narrow, wide = (solve_ridge(ClassSums.of(X.astype(t), y, 2), alpha)[0] for t in (np.float32, np.float64))
        np.testing.assert_allclose(narrow, wide, atol=1e-2 * np.abs(wide).max())

    def test_digits_are_silent(self):
        X, y = load_digits(return_X_y=True)
        for alpha in (0.0, 1.0):
            solve_ridge(ClassSums.of(X.astype(np.float32), y, 10), alpha)

    def test_a_model_file_keeps_how_exact_the_sums_are(self, rows, tmp_path):
        pytest.importorskip("safetensors")
        X, y = rows
        model = MCLDCEClassifier(symmetric(3, 0.1), alpha=1.0).fit(X, y)
        assert model.sums_.rounding == ROUNDING_FLOAT32
        folder = model.save(tmp_path / "m")
        assert load(folder).sums_.rounding == ROUNDING_FLOAT32
        document = json.loads((folder / "model.json").read_text())
        sums = document["attributes"]["dict"]["sums_"]["sums"]

        def rewrite():
            document["checksum"] = checksum(document)
            (folder / "model.json").write_text(json.dumps(document))

        for wrong in ("much", None, True, -1.0, 0.0, 2.0, float("nan"), {"list": []}):
            sums["rounding"] = wrong
            rewrite()
            with pytest.raises(ValueError, match="damaged or was edited: the rounding of the sums must be a number"):
                load(folder)
        del sums["rounding"]  # as a file of an earlier version
        rewrite()
        assert load(folder).sums_.rounding == np.finfo(np.float64).eps
