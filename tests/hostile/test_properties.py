"""Nothing is silently wrong: what every public estimator and function keeps, over thousands of drawn problems.

Every problem is drawn from a seed. Numbers may be tiny, huge, equal or shifted, weights may mix orders of magnitude,
rows may repeat, and classes may be few, many or empty. A problem is refused in a sentence of ours, or it is solved: all
probabilities are finite and sum to one, T is row-stochastic, and what PROMISES says holds.

    make fuzz            these, and the damaged files of test_inputs.py
"""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

from unflip import registry
from unflip.audit import find_label_errors
from unflip.core import (
    ClassSums,
    clean_centroid,
    clean_posterior,
    clean_prior,
    corrected_labels,
    decomposed_risk,
    imputation_matrix,
    inverted_posterior,
    linear_risk,
    mixing_matrix,
    project_to_simplex,
)
from unflip.corrected import CorrectedClassifier
from unflip.crowd import AnnotatorModel
from unflip.linear import class_sums
from unflip.metrics import centroid_error, clean_accuracy, clean_scorer, transition_error
from unflip.noise import asymmetric, corrupt, instance_dependent, pairflip, symmetric
from unflip.transition import RidgeEM, estimate_transition, sample_rows

pytestmark = pytest.mark.fuzz

# What changes nothing beyond rounding, if T is given (docs/reliability.md): another order of the rows or of the
# classes, another unit for all columns or for each, an offset, rows repeated instead of weighted, and an empty class.
# The penalty of some methods is in the units of the features, and stochastic gradients depend on the order.
EVERY = {"rows", "classes", "unit", "units", "offset", "repeats", "empty"}
PROMISES = {
    "MCLDCEClassifier": EVERY - {"units"},
    "MCLDCEClassifierCV": EVERY - {"units"},
    "ForwardLogisticClassifier": EVERY,
    "RankPruningClassifier": EVERY,
    "FilterClassifier": {"unit", "units", "offset", "empty"},
    "ULEClassifier": EVERY - {"unit", "units"},
    "LICSClassifier": EVERY - {"unit", "units"},
    "CEGEClassifier": EVERY - {"unit", "units"},
    "MuSGDClassifier": {"classes", "offset"},
    "LNSIClassifier": {"rows", "classes", "unit", "offset"},
    "SCDClassifier": {"rows", "classes", "unit", "offset"},
    "VolMin": EVERY,
    "AnchorPoints": {"rows", "classes"},
    "DualT": {"rows", "classes"},
    "HOC": {"classes"},
    "Selective": {"classes"},
}
SLOW = (
    *("ForwardLogisticClassifier", "ULEClassifier", "SCDClassifier", "VolMin", "Selective", "RankPruningClassifier"),
    "FilterClassifier",
)
FOREIGN = (
    "must not contain infs",
    "did not converge",
    "cannot reshape",
    "contains NaN",
    "contains infinity",
    "zero-size",
)
ENTRIES = [entry for entry in registry.ENTRIES if entry.family in ("linear", "transition") and not entry.networks]
# These predict nothing themselves: CorrectedClassifier is built on the first, and the second is for wide sparse X.
ENTRIES = {entry.cls: entry for entry in ENTRIES if entry.cls not in ("StackedEM", "RidgeEM")}


def test_every_estimator_is_here():
    assert ENTRIES.keys() == PROMISES.keys()


@np.errstate(over="ignore", invalid="ignore")  # some numbers are too large for float32
def drawn(random, wild=True):
    """Return a problem: X, y, weights or None, and T."""
    n, d, c = int(random.integers(20, 50)), int(random.integers(1, 5)), int(random.integers(2, 5))
    clean = np.arange(n) % c
    X = random.normal(size=(n, d)) + 2 * np.eye(c, d)[clean]
    T = symmetric(c, 0.5 * random.random() * (1 - 1 / c))
    y = corrupt(clean, T, random_state=int(random.integers(2**31)))
    y[:c] = np.arange(c)  # each class occurs
    weights = None
    if wild:
        for _ in range(int(random.integers(3))):
            how, j = random.integers(8), int(random.integers(d))
            if how != 6:
                X = X.astype(float)
            if how == 0:
                X[:, j] *= 10.0 ** random.integers(-160, 160)
            elif how == 1:
                X *= 10.0 ** random.integers(-29, 29)
            elif how == 2:
                X[:, j] = 3.0
            elif how == 3:
                X[:, j] += 10.0 ** random.integers(0, 8)
            elif how == 4:
                X = np.round(X)
            elif how == 5:
                X[random.integers(n), j] = 10.0 ** random.integers(-300, 300)
            elif how == 6:
                X = X.astype(random.choice([np.float32, np.float16, np.int16, bool]))
            else:
                X = X[random.integers(n, size=n)]
            X = np.nan_to_num(X)  # what overflows in float32 becomes its largest number
        kind = random.integers(6)
        if kind == 0:
            weights = random.integers(0, 4, size=n).astype(float)
        elif kind == 1:
            weights = 10.0 ** random.integers(-300, 300, size=n)
        elif kind == 2:
            weights = random.random(n) * 10.0 ** random.integers(-300, 300)
    return X, y, weights, T


def model_of(name, T):
    model = ENTRIES[name].load()()
    given = {"transition": T, "random_state": 0}
    known = model.get_params(deep=False)
    model.set_params(**{key: given[key] for key in given if key in known})
    if name == "Selective":
        model.set_params(classifier=ExtraTreesClassifier(5, min_samples_leaf=2))
    return model


def fitted(model, X, y, weights=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).fit(X, y) if weights is None else clone(model).fit(X, y, sample_weight=weights)


def check_sound(model, X):
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert (p >= -1e-12).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    assert set(model.predict(X)) <= set(model.classes_)
    if hasattr(model, "transition_"):
        T = np.asarray(model.transition_)
        assert (T >= 0).all()
        np.testing.assert_allclose(T.sum(axis=1), 1, atol=1e-9)
    return p


def is_sentence(error):
    text = str(error)
    assert isinstance(error, ValueError), repr(error)
    assert not any(said in text for said in FOREIGN), text


def estimator_case(name, seed):
    """Fit a wild problem: it is refused in a sentence, or the result is sound."""
    random = np.random.default_rng(seed)
    X, y, weights, T = drawn(random)
    weights = None if name in ("LNSIClassifier", "SCDClassifier") else weights
    try:
        model = fitted(model_of(name, T), X, y, weights)
        check_sound(model, X)
    except Exception as error:
        is_sentence(error)


def promise_case(name, promise, seed):
    """Fit a tame problem twice, changed by what must change nothing."""
    random = np.random.default_rng(seed)
    X, y, _, T = drawn(random, wild=False)
    c, model = len(T), model_of(name, T)
    X2, y2, T2, at, columns, weights = X, y, T, X, np.arange(c), None
    if promise == "rows":
        order = random.permutation(len(y))
        X2, y2 = X[order], y[order]
    elif promise == "classes":
        columns = random.permutation(c)
        y2, T2 = columns[y], np.empty_like(T)
        T2[np.ix_(columns, columns)] = T
    elif promise in ("unit", "units"):
        units = 10 ** random.uniform(-3, 3, size=1 if promise == "unit" else X.shape[1])
        X2 = at = X * units
    elif promise == "offset":
        X2 = at = X + random.uniform(-50, 50, size=X.shape[1])
    elif promise == "repeats":
        weights = random.integers(1, 4, size=len(y))
        X2, y2 = np.repeat(X, weights, axis=0), np.repeat(y, weights)
    elif promise == "empty":
        T2 = np.zeros((c + 1, c + 1))
        T2[:c, :c], T2[c, c] = T, 1
    other = model_of(name, T2)
    if promise == "empty":
        other.set_params(classes=list(range(c + 1)))
    p = check_sound(fitted(model, X, y, weights), X)
    q = check_sound(fitted(other, X2, y2), at)[:, columns]
    # ULE gives an empty class a millionth in the mean, and so a little more in some rows.
    tolerance = 2e-5 if (name, promise) == ("ULEClassifier", "empty") else 2e-6
    np.testing.assert_allclose(p, q, atol=tolerance, err_msg=f"{name}, {promise}, seed {seed}")


def function_case(seed):
    """Call the functions of noise, core and metrics."""
    random = np.random.default_rng(seed)
    c, n = int(random.integers(2, 7)), int(random.integers(2, 40))
    T = random.dirichlet(np.full(c, 10.0 ** random.integers(-3, 3)), size=c)
    T = 0.55 * np.eye(c) + 0.45 * T
    prior = random.dirichlet(np.full(c, 10.0 ** random.integers(-3, 3)))
    i, j = random.choice(c, size=2, replace=False)
    for made in (symmetric(c, 0.4), pairflip(c, 0.4), asymmetric(c, {int(i): (int(j), 0.3)})):
        np.testing.assert_allclose(made.sum(axis=1), 1)
    found = clean_prior(prior, T)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(), 1)
    order = random.permutation(c)
    np.testing.assert_allclose(clean_prior(prior[order], T[np.ix_(order, order)]), found[order], atol=1e-9)
    np.testing.assert_allclose(clean_prior(found @ T, T), found, atol=1e-7)
    for operator in ("exact", "published"):
        M = mixing_matrix(T, found, operator)
        np.testing.assert_allclose(M.sum(axis=1), 1)
    np.testing.assert_allclose(T @ corrected_labels(T), np.eye(c), atol=1e-7)
    np.testing.assert_array_equal(imputation_matrix(i, j, c) @ imputation_matrix(i, j, c), np.eye(c))
    scores = random.normal(size=(n, c)) * 10.0 ** random.integers(-30, 30)
    proba = project_to_simplex(scores)
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(project_to_simplex(scores[:, order]), proba[:, order], atol=1e-9)
    y = random.integers(c, size=n)
    q = random.dirichlet(np.full(c, 10.0 ** random.integers(-3, 3)), size=n)
    for posterior in (clean_posterior(q, y, T), inverted_posterior(q, T, found)):
        assert np.isfinite(posterior).all()
        np.testing.assert_allclose(posterior.sum(axis=1), 1)
    weights = 10.0 ** random.integers(-300, 300, size=n) if seed % 2 else random.integers(1, 4, size=n)
    risk = decomposed_risk(scores, y, corrected_labels(T), weights)
    assert np.isfinite(risk.total)
    hits = random.integers(c, size=n)
    score = clean_accuracy(y, hits, T, sample_weight=weights, classes=np.arange(c))
    assert np.isfinite(score.estimate)
    assert score.low <= score.high
    assert transition_error(T, T[np.ix_(order, order)]) >= 0 == transition_error(T, T)


def sums_case(seed):
    """Sum, sample and corrupt a wild problem: by class, in blocks, and by noise that depends on the sample."""
    random = np.random.default_rng(seed)
    X, y, weights, T = drawn(random)
    c, d = len(T), X.shape[1]
    try:
        sums = class_sums(X, y, weights=weights, classes=np.arange(c), rows=7)
        whole = ClassSums.of(np.asarray(X, dtype=np.float64), y, c, weights)
        np.testing.assert_allclose(sums.counts, whole.counts)
        centroid = clean_centroid(sums, T)
        assert np.isfinite(centroid).all()
        assert centroid_error(centroid, centroid) == 0
        risk = linear_risk(sums, random.normal(size=(c, d)), random.normal(size=c), corrected_labels(T))
        assert np.isfinite(risk.total)
    except Exception as error:
        is_sentence(error)
    try:
        noisy = instance_dependent(X, y, 0.3, random_state=0, classes=np.arange(c))
        assert set(noisy) <= set(range(c))
    except Exception as error:
        is_sentence(error)
    sample = sample_rows(X, 10, y=y)
    assert len(sample.X) == len(sample.y) == 10


def crowd_case(seed):
    """Join the labels of annotators, some of whom are missing, alike, mad or silent."""
    random = np.random.default_rng(seed)
    n, m, c = int(random.integers(2, 40)), int(random.integers(1, 7)), int(random.integers(2, 5))
    y = random.integers(c, size=n)
    rates = 0.9 * random.random(m) * (1 - 1 / c)
    Y = np.stack([corrupt(y, symmetric(c, p), random_state=k, classes=np.arange(c)) for k, p in enumerate(rates)], 1)
    Y[random.random((n, m)) < random.random()] = -1
    Y[:, random.integers(m)] = random.integers(c)
    model = AnnotatorModel(hard_rows=bool(random.integers(2)), abstain=["auto", True, False][random.integers(3)])
    model.set_params(strength=[None, 1e-300, 1.0, 1e300][random.integers(4)], classes=np.arange(c))
    try:
        model.fit(Y, proba=None if random.integers(2) else random.dirichlet(np.full(c, 0.01), size=n))
    except Exception as error:
        is_sentence(error)
        return
    for rows in (model.posterior_, model.transition_, *model.transitions_):
        assert np.isfinite(rows).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-9)
    assert np.isfinite(model.quality_).all()


def audit_case(seed):
    """Audit a wild problem by a model of ours, one of scikit-learn's, or probabilities."""
    random = np.random.default_rng(seed)
    X, y, weights, T = drawn(random)
    how = seed % 3
    q = random.dirichlet(np.full(len(T), 10.0 ** random.integers(-3, 3)), size=len(y))
    given = {"y": y, "pred_probs": q} if how == 0 else {"X": X, "y": y}
    classifier = (None, model_of("MCLDCEClassifier", T), LogisticRegression())[how]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            errors = find_label_errors(
                **given, classifier=classifier, transition=T, cv=3, sample_weight=weights, random_state=0
            )
    except Exception as error:
        is_sentence(error)
        return
    for rows in (errors.posterior, errors.proba, errors.transition):
        assert np.isfinite(rows).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-9)
    assert ((errors.scores >= 0) & (errors.scores <= 1)).all()
    assert np.isfinite([errors.total, *errors.interval]).all()


def corrected_case(seed):
    """Correct a model of scikit-learn for a given T."""
    random = np.random.default_rng(seed)
    X, y, weights, T = drawn(random)
    model = CorrectedClassifier(LogisticRegression(), transition=T, random_state=0)
    try:
        model = fitted(model, X, y, weights)
        check_sound(model, X)
        score = clean_scorer(T, classes=model.classes_)(model, X, y)
        assert np.isfinite(score)
    except Exception as error:
        is_sentence(error)


def estimate_case(seed):
    """Estimate T by ridge regression, and by name."""
    random = np.random.default_rng(seed)
    X, y, weights, _ = drawn(random)
    for method in (RidgeEM(), ("volmin", "anchor", "dual-t", "hoc", "ridge-em")[seed % 5]):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                T = estimate_transition(X, y, method, sample_weight=weights, random_state=0)
        except Exception as error:
            is_sentence(error)
            continue
        assert (T >= 0).all()
        np.testing.assert_allclose(T.sum(axis=1), 1, atol=1e-9)


def network_case(seed):
    """Train a small network for an epoch."""
    from unflip.deep import NoisyLabelClassifier

    random = np.random.default_rng(seed)
    X, y, weights, T = drawn(random)
    methods = registry.names("deep")
    model = NoisyLabelClassifier(methods[seed % len(methods)], transition=T, epochs=1, device="cpu", random_state=0)
    model.set_params(network_options={"hidden": 8}, batch_size=16)
    try:
        check_sound(fitted(model, X, y, weights), X)
    except Exception as error:
        is_sentence(error)


QUICK = [name for name in PROMISES if name not in SLOW]
KEPT = [(name, promise) for name, promises in PROMISES.items() for promise in sorted(promises)]
# How many problems are drawn in `make test`, and in `make slow`, where cheap ones are drawn more often.
CASES = {
    function_case: (500, 4000),
    sums_case: (60, 2000),
    crowd_case: (40, 2000),
    audit_case: (12, 300),
    estimate_case: (10, 300),
    corrected_case: (3, 300),
    network_case: (0, 200),
}
ESTIMATOR_CASES, SLOW_CASES, PROMISE_CASES = (15, 500), (0, 150), (2, 20)
CHUNKS = 4  # of the slow ones, so that two processes share them


def test_enough_cases():
    """1,000 with the damaged files in `make test`, and 20,000 in `make slow`."""
    from tests.hostile.test_inputs import FILE_CASES, FUZZED

    for k, least in enumerate((1000, 20_000)):
        estimators = len(QUICK) * ESTIMATOR_CASES[k] + len(SLOW) * SLOW_CASES[k]
        promises = sum(PROMISE_CASES[k] for name, _ in KEPT if k or name in QUICK)
        files = len(FUZZED) * FILE_CASES[k]
        assert sum(n[k] for n in CASES.values()) + estimators + promises + files >= least


@pytest.mark.parametrize("case", [case for case, (n, _) in CASES.items() if n])
def test_cases(case):
    for seed in range(CASES[case][0]):
        case(seed)


@pytest.mark.parametrize("name", QUICK)
def test_estimators(name):
    for seed in range(ESTIMATOR_CASES[0]):
        estimator_case(name, seed)


@pytest.mark.parametrize(("name", "promise"), [kept for kept in KEPT if kept[0] in QUICK])
def test_promises(name, promise):
    for seed in range(PROMISE_CASES[0]):
        promise_case(name, promise, seed)


@pytest.mark.parametrize("name", ["ForwardLogisticClassifier", "ULEClassifier", "VolMin"])
def test_an_empty_class(name):
    """Neither the number of folds, nor the way to a local minimum, nor the end of the solver depend on it."""
    for seed in (1014, 1018, 1036, 1059):
        promise_case(name, "empty", seed)


@pytest.mark.slow
class TestMore:
    @pytest.mark.parametrize("chunk", range(CHUNKS))
    @pytest.mark.parametrize("case", CASES)
    def test_cases(self, case, chunk):
        if case is network_case:
            pytest.importorskip("torch")
        for seed in range(1000 + chunk, 1000 + CASES[case][1], CHUNKS):
            case(seed)

    @pytest.mark.parametrize("name", PROMISES)
    def test_estimators(self, name):
        for seed in range(1000, 1000 + (SLOW_CASES if name in SLOW else ESTIMATOR_CASES)[1]):
            estimator_case(name, seed)

    @pytest.mark.parametrize(("name", "promise"), KEPT)
    def test_promises(self, name, promise):
        for seed in range(1000, 1000 + PROMISE_CASES[1]):
            promise_case(name, promise, seed)


def test_sparse_input_to_a_network():
    pytest.importorskip("torch")
    from scipy import sparse

    from unflip.deep import NoisyLabelClassifier

    X = sparse.random(20, 5, density=0.5, random_state=0, format="csr")
    with pytest.raises(ValueError, match="X is a sparse matrix .* but networks take dense arrays"):
        NoisyLabelClassifier().fit(X, np.arange(20) % 2)


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (np.array([[1e155, 1.0], [2e155, 2.0]] * 10), "column 0 reaches 2e.155 in size"),
        (np.array([[1.0, 1e-40], [2.0, 2e-40]] * 10, dtype=np.float32), "column 1 does not exceed 2e-40 in size"),
    ],
)
def test_the_column_is_named(X, said):
    for name in ("MCLDCEClassifier", "LICSClassifier", "HOC"):
        with pytest.raises(ValueError, match=said):
            fitted(model_of(name, np.eye(2)), X, np.arange(20) % 2)
    pd = pytest.importorskip("pandas")
    from unflip.tables import Preprocessor

    with pytest.raises(ValueError, match="column '(height|age)'"):
        Preprocessor().fit(pd.DataFrame(X.astype(np.float64), columns=["height", "age"]))
