"""Exported models predict in onnxruntime what they predict here."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

pytest.importorskip("onnx", reason="unflip[onnx] is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from tests.models.conftest import T, deep  # noqa: E402
from unflip import registry  # noqa: E402
from unflip.corrected import CorrectedClassifier  # noqa: E402
from unflip.linear import FilterClassifier, MCLDCEClassifier, RankPruningClassifier  # noqa: E402
from unflip.models import as_arrays, load, to_onnx  # noqa: E402
from unflip.models.arrays import Blend  # noqa: E402
from unflip.noise import corrupt  # noqa: E402
from unflip.tables import TableClassifier  # noqa: E402

CLOSE = 1e-5


def run(model, X):
    """Labels and probabilities of the exported model, computed by onnxruntime."""
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    labels, proba = session.run(["label", "probabilities"], X if isinstance(X, dict) else {"X": X})
    return labels, proba


def check(model, X, feeds=None, close=CLOSE):
    labels, proba = run(model, X if feeds is None else feeds)
    expected = model.predict_proba(X)
    assert proba.dtype == np.float64
    np.testing.assert_allclose(proba, expected, atol=close, rtol=0)
    clear = np.diff(np.sort(expected, axis=1)[:, -2:]).ravel() > 2 * close  # a tie may go either way
    assert clear.mean() > 0.5
    assert np.array_equal(labels[clear], np.asarray(model.predict(X))[clear])


@pytest.mark.parametrize(
    "name", [entry.cls for entry in registry.ENTRIES if entry.family == "linear" or entry.cls == "VolMin"]
)
def test_every_linear_classifier(iris, name):
    X, y = iris
    known = {"transition": T, "random_state": 0}
    cls = registry.find_class(name).load()
    model = cls(**{key: value for key, value in known.items() if key in cls().get_params(deep=False)})
    check(model.fit(X, np.array(["a", "b", "c"])[y]), X, close=1e-9)


def test_a_class_that_never_occurs(iris):
    X, y = iris
    check(FilterClassifier(classes=[0, 1, 2, 3], random_state=0).fit(X, y), X, close=1e-9)
    check(RankPruningClassifier(classes=[0, 1, 2, 3], random_state=0).fit(X, y), X, close=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda: HistGradientBoostingClassifier(max_iter=20),
        lambda: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=70),  # trees of a single leaf
        lambda: ExtraTreesClassifier(20, min_samples_leaf=2, random_state=0),
        lambda: RandomForestClassifier(20, random_state=0),
        lambda: DecisionTreeClassifier(random_state=0),
        lambda: LogisticRegression(max_iter=1000),
        lambda: make_pipeline(StandardScaler(), LogisticRegression()),
        lambda: make_pipeline(TruncatedSVD(2, random_state=0), ExtraTreesClassifier(5, random_state=0)),
        lambda: make_pipeline(StandardScaler(), Nystroem(n_components=20, random_state=0), LogisticRegression()),
    ],
)
def test_models_of_scikit_learn(iris, make, n_classes):
    X, y = iris
    X, y = X[y < n_classes], y[y < n_classes]
    check(as_arrays(make().fit(X, y)), np.vstack([X, np.random.default_rng(0).normal(3, 2, size=(500, 4))]))


def test_trees_with_missing_values(iris):
    X, y = iris
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    for make in (HistGradientBoostingClassifier(max_iter=10), RandomForestClassifier(10, random_state=0)):
        check(as_arrays(make.fit(gaps, y)), gaps)


def test_a_blend_with_all_its_parts(iris):
    X, y = iris
    known = y < 2
    members = [as_arrays(LogisticRegression(max_iter=1000).fit(X, y))]
    members.append(as_arrays(HistGradientBoostingClassifier(max_iter=5).fit(X[known], y[known])))  # knows two classes
    blend = Blend(members, [0.7, 0.3], [0, 1, 2], [0.6, 1.4], [1.2, 0.1, -0.2, 0.3])
    check(blend, X)


def test_the_default_model(iris, tmp_path):
    X, noisy = iris
    model = CorrectedClassifier(transition=T, cv=2, random_state=0).fit(X, noisy)
    check(model, X)
    check(load(model.save(tmp_path / "m")), X)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "jocor"},  # two networks
        {"standardize": False},
        {"network_options": {"hidden": 8, "slope": 0.2}, "dropout": 0.0},
        {"method": "volminnet"},
    ],
)
def test_the_mlp(iris, options):
    X, y = iris
    model = deep(**options)
    if options.get("method") == "volminnet":
        model.set_params(transition=None)
    X = X.astype(np.float32)
    check(model.fit(X, y), X)


def test_the_mlp_on_images(iris):
    random, y = np.random.default_rng(0), iris[1]
    images = random.integers(0, 256, size=(len(y), 1, 4, 4), dtype=np.uint8)
    check(deep().fit(images, y), images)


@pytest.fixture(scope="module")
def people():
    pd = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    y = random.integers(3, size=300)
    frame = pd.DataFrame(random.normal(size=(300, 2)) + 3 * np.eye(3)[y][:, :2], columns=["age", "net pay"])
    frame["town"] = np.array(["Ulm", "Bonn", "Köln"])[(y + (random.random(300) < 0.2)) % 3]
    frame["size"] = np.where(random.random(300) < 0.1, None, np.where(y > 1, "big", "small"))
    frame.loc[random.random(300) < 0.1, "age"] = np.nan
    return frame, np.array(["x", "y", "z"])[corrupt(y, T, random_state=0)]


def feeds(frame):
    """A table as the exported model takes it."""
    numbers = {name: frame[[name]].to_numpy(np.float64) for name in ("age", "net pay")}
    words = {name: frame[[name]].fillna("").to_numpy(object) for name in ("town", "size")}
    return numbers | words


@pytest.mark.parametrize("classifier", [MCLDCEClassifier(T), "trees", "mlp"])
def test_a_table(people, classifier, tmp_path):
    frame, y = people
    if classifier == "trees":
        classifier = CorrectedClassifier(HistGradientBoostingClassifier(max_iter=10), transition=T, random_state=0)
    model = TableClassifier(deep() if classifier == "mlp" else classifier).fit(frame, y)
    model = load(model.save(tmp_path / "m"))
    new = frame.assign(town=frame["town"].where(frame["town"] != "Ulm", "Rome"))  # which training did not see
    check(model, new, feeds(new))


def test_a_table_without_names(iris):
    X, y = iris
    X = np.column_stack([np.ones(len(X)), X])  # a column that is not used
    X[::7, 2] = np.nan
    check(TableClassifier(MCLDCEClassifier(T)).fit(X, y), X)


@pytest.mark.parametrize("classes", [np.array([10, 20, 30]), np.array([0.5, 1.5, 2.5])])
def test_numbers_as_classes(iris, classes):
    X, y = iris
    model = MCLDCEClassifier(T).fit(X, y)
    model.classes_ = classes
    check(model, X)


def test_what_cannot_be_exported(iris, people):
    X, y = iris
    with pytest.raises(ValueError, match="KNeighborsClassifier cannot be saved without code"):
        to_onnx(CorrectedClassifier(KNeighborsClassifier(), transition=T).fit(X, y))
    with pytest.raises(ValueError, match="not a fitted classifier"):
        to_onnx(MCLDCEClassifier(T))
    frame, labels = people
    model = TableClassifier(MCLDCEClassifier(T)).fit(frame, labels)
    with pytest.raises(ValueError, match="not a fitted classifier"):
        to_onnx(model.preprocessor_)
    model.preprocessor_.texts_ = {"note": {}}
    with pytest.raises(ValueError, match="the column 'note' is free text"):
        to_onnx(model)
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="the network Linear cannot be exported here, only mlp; PyTorch exports any"):
        to_onnx(deep(network=torch.nn.Linear(4, 3)).fit(X, y))
