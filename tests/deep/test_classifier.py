"""NoisyLabelClassifier: scikit-learn's checks, every method, images, weights, going on, and what T does for it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="unflip[deep] is not installed")

from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_digits, make_blobs  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from tests import light_models, sklearn_checks  # noqa: E402
from unflip import registry  # noqa: E402
from unflip.core import corrected_labels  # noqa: E402
from unflip.deep import MLP, NoisyLabelClassifier  # noqa: E402
from unflip.deep import classifier as module  # noqa: E402
from unflip.deep.classifier import clear_gain, default_estimator, held_out_errors  # noqa: E402
from unflip.metrics import clean_scorer, transition_error  # noqa: E402
from unflip.models import load  # noqa: E402
from unflip.noise import corrupt, pairflip, symmetric  # noqa: E402
from unflip.transition import CrossFitEM, StackedEM, VolMin, VolMinNet  # noqa: E402

T3 = pairflip(3, 0.3)
NOT_REPETITION = "batches are drawn from the samples, so a weight of two is not the sample twice"
# Matrix products in float32 round one row and many differently, on some processors by more than this check allows.
ROUNDED = ("check_methods_subset_invariance",)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# VolMin, which needs no training, gives T here: the checks fit hundreds of times.
@sklearn_checks.parametrize(
    [NoisyLabelClassifier(transition=VolMin(rounds=0), epochs=20, batch_size=32, lr=0.02)],
    left_out=ROUNDED,
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": NOT_REPETITION},
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@sklearn_checks.parametrize(
    [VolMinNet(batch_size=64), CrossFitEM(VolMin(rounds=0), rounds=12, lr=0.01)],
    left_out=ROUNDED,
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": NOT_REPETITION},
)
def test_scikit_learn_for_estimators_of_T(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(600, centers=3, cluster_std=1.5, random_state=1)
    return X * [1e3, 1e-3], y, corrupt(y, T3, random_state=0)  # features of very different scales


def quick(method="mcldce", **options):
    settings = {"transition": T3, "epochs": 15, "lr": 0.01, "ema": 0.9, "random_state": 0}
    return NoisyLabelClassifier(method, **{**settings, **options})


@pytest.mark.parametrize("method", registry.names("deep"))
def test_every_method_learns_through_noise(blobs, method):
    X, y, noisy = blobs
    model = quick(method, epochs=20, batch_size=64).fit(X, noisy)
    assert model.score(X, y) > 0.85
    assert len(model.history_) == 20
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-6)


def test_estimates_T_by_itself(monkeypatch):
    """On a small table, trees and linear models estimate T: they memorize fewer labels than networks do."""
    light_models.use(monkeypatch)
    monkeypatch.setattr("unflip.deep.classifier.LEAST_STEPS", 400)
    X, y = load_digits(n_class=3, return_X_y=True)
    T = pairflip(3, 0.3)
    model = NoisyLabelClassifier(random_state=0).fit(X, corrupt(y, T, random_state=0))
    assert isinstance(model.transition_estimator_, StackedEM)
    assert transition_error(model.transition_, T) < 0.15
    assert model.score(X, y) > 0.9
    assert model.class_prior_.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("limit", "shape", "expected"),
    [
        ({}, (2,), StackedEM),
        ({"FEW_FEATURES": 1}, (2,), VolMin),
        ({"FEW_ROWS": 599}, (2,), CrossFitEM),
        ({"FEW_FEATURES": 1, "MOST_FEATURES": 1}, (2,), CrossFitEM),
        ({}, (1, 1, 2), CrossFitEM),
    ],
    ids=["small table", "many features", "many rows", "too many features", "images"],
)
def test_who_estimates_T(blobs, monkeypatch, limit, shape, expected):
    for name, value in ({"FEW_ROWS": 600, "FEW_FEATURES": 2, "MOST_FEATURES": 2} | limit).items():
        monkeypatch.setattr(f"unflip.deep.classifier.{name}", value)
    X, _, _ = blobs
    assert isinstance(default_estimator(X.reshape(-1, *shape)), expected)
    assert isinstance(default_estimator(X, 601), CrossFitEM)  # X is a sample of them


@pytest.mark.parametrize(
    ("n", "d", "expected"),
    [
        (50_000, 100, StackedEM),
        (9, 101, VolMin),
        (50_000, 1024, VolMin),
        (9, 1025, CrossFitEM),
        (50_001, 9, CrossFitEM),
    ],
)
def test_sizes_that_decide_who_estimates_T(n, d, expected):
    assert isinstance(default_estimator(np.empty((9, d)), n), expected)


def test_T_of_many_features():
    random = np.random.default_rng(0)
    y = np.arange(900) % 3
    X = random.normal(size=(900, 101))
    X[:, :3] += 4 * np.eye(3)[y]
    noisy = corrupt(y, pairflip(3, 0.3), random_state=0)
    weight = random.uniform(0.5, 1.5, size=900)
    model = NoisyLabelClassifier(epochs=2, weight_decay=0, classes=[0, 1, 2], random_state=0)
    assert isinstance(model.fit(X, noisy, sample_weight=weight).transition_estimator_, VolMin)
    assert transition_error(model.transition_, pairflip(3, 0.3)) < 0.15


def test_a_method_without_T_estimates_none(blobs):
    X, _, noisy = blobs
    model = quick("ce", transition=None).fit(X, noisy)
    assert model.transition_ is None
    np.testing.assert_allclose(model.class_prior_, np.bincount(noisy) / len(noisy))


def test_volminnet_keeps_the_T_it_learnt(blobs):
    X, _, noisy = blobs
    model = quick("volminnet", transition=None, epochs=60).fit(X, noisy)
    assert transition_error(model.transition_, T3) < 0.3


def test_a_module_of_ones_own(blobs):
    X, y, noisy = blobs
    own = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    before = own[0].weight.clone()
    assert quick(network=own).fit(X, noisy).score(X, y) > 0.85
    assert torch.equal(own[0].weight, before)  # it was copied
    assert quick(network=lambda: MLP(2, 3)).fit(X, noisy).score(X, y) > 0.85


def test_weights_count(blobs):
    X, y, _ = blobs
    wrong = np.where(np.arange(600) % 2 == 0, y, (y + 1) % 3)  # every second label is wrong
    weights = np.where(np.arange(600) % 2 == 0, 1.0, 0.0)
    assert quick(transition=np.eye(3)).fit(X, wrong, weights).score(X, y) > 0.9


def test_same_seed_same_result_and_the_global_seed_is_left_alone(blobs):
    X, _, noisy = blobs
    state = torch.get_rng_state()
    a, b = (quick().fit(X, noisy).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(a, b)
    assert torch.equal(torch.get_rng_state(), state)
    assert (a != quick(random_state=1).fit(X, noisy).predict_proba(X)).any()


def test_one_row_is_predicted_as_among_others(blobs):
    X, _, noisy = blobs
    model = quick(epochs=2).fit(X, noisy)
    alone = np.concatenate([model.predict_proba(row[np.newaxis]) for row in X[:30]])
    np.testing.assert_allclose(alone, model.predict_proba(X)[:30], atol=1e-5)


def test_warm_start_goes_on(blobs):
    X, _, noisy = blobs
    model = quick(epochs=1, warm_start=True, ema=None).fit(X, noisy)
    first = model.history_[-1]["loss"]
    T = model.transition_
    for _ in range(4):
        model.fit(X, noisy)
    assert model.history_[-1]["loss"] < first
    np.testing.assert_array_equal(model.transition_, T)
    with pytest.raises(ValueError, match="warm_start"):
        model.fit(X, np.where(noisy == 2, 7, noisy))


def test_warm_start_takes_new_settings(blobs):
    X, _, noisy = blobs
    model = quick("forward", epochs=2, warm_start=True).fit(X, noisy)  # T has zeros, and their logarithms
    model.fit(X, noisy)
    assert np.isfinite(model.history_[-1]["loss"])
    model.set_params(transition=np.eye(3)).fit(X, noisy)
    np.testing.assert_array_equal(model.transition_, np.eye(3))
    model = quick(epochs=2, warm_start=True).fit(X, noisy)
    model.set_params(method_options={"operator": "published"}).fit(X, noisy)
    expected = torch.from_numpy(corrected_labels(T3, model.class_prior_, "published")).float()
    torch.testing.assert_close(model.methods_[0].loss.rows, expected)
    with pytest.raises(ValueError, match="one of them"):
        model.set_params(checkpoint="run.pt").fit(X, noisy)


def test_evaluation_is_kept_and_does_not_train(blobs):
    X, y, noisy = blobs
    seen = quick().fit(X, noisy, evaluate=(X, y))
    assert seen.history_[-1]["accuracy"] == pytest.approx(seen.score(X, y))
    np.testing.assert_array_equal(seen.predict_proba(X), quick().fit(X, noisy).predict_proba(X))


def test_checkpoint_resumes(blobs, tmp_path):
    X, _, noisy = blobs
    straight = quick(decay_from=None).fit(X, noisy)
    quick(decay_from=None, epochs=5, checkpoint=tmp_path / "run.pt").fit(X, noisy)
    resumed = quick(decay_from=None, checkpoint=tmp_path / "run.pt").fit(X, noisy)
    np.testing.assert_array_equal(straight.predict_proba(X), resumed.predict_proba(X))


class Unfit(VolMin):
    """An estimator of T that must not be reached."""

    def fit(self, X, y, sample_weight=None):
        pytest.fail("T was estimated before the parameters were checked")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"dropout": 1.0}, r"dropout must be a number in \[0, 1\); got 1.0"),
        ({"ema": 1.5}, r"ema must be a number in \[0, 1\) or None; got 1.5"),
        ({"lr": "fast"}, "lr must be a number > 0; got 'fast'"),
        ({"batch_size": 0}, "batch_size must be a whole number >= 1"),
        ({"epochs": 0.5}, "epochs must be a whole number >= 1 or None"),
        ({"weight_decay": -1}, "weight_decay must be a number >= 0"),
        ({"decay_from": 1}, "decay_from must be a fraction of the epochs"),
        ({"method": "magic"}, "unknown method"),
        ({"method_options": {"operator": "paper"}}, "operator must be 'exact'"),
        ({"method": "coteaching", "method_options": {"num_gradual": -1}}, "num_gradual must not be negative"),
        ({"network": "resnet"}, "network must be 'mlp'"),
        ({"network": "cnn6"}, "needs images"),
        ({"network_options": {"foo": 1}}, "network 'mlp' has no option foo; its options are hidden, dropout, slope"),
        ({"network_options": {"dropout": 2.0}}, "probability has to be between 0 and 1"),
    ],
)
def test_parameters_are_checked_before_T_is_estimated(blobs, options, match):
    X, _, noisy = blobs
    with pytest.raises(ValueError, match=match):
        quick(transition=Unfit()).set_params(**options).fit(X, noisy)
    with pytest.raises(ValueError, match="shape seen in fit"):
        quick(transition=Unfit()).fit(X, noisy, evaluate=(X[:, :, np.newaxis], noisy))


def test_in_a_pipeline_and_a_grid_search(blobs):
    X, y, noisy = blobs
    pipe = make_pipeline(StandardScaler(), quick(epochs=5))
    grid = {"noisylabelclassifier__method": ["mcldce", "gce"]}
    search = GridSearchCV(clone(pipe), grid, scoring=clean_scorer(T3), cv=2).fit(X, noisy)
    assert search.best_estimator_.score(X, y) > 0.8


def test_a_checkpoint_does_not_keep_a_model_from_its_file(blobs, tmp_path):
    X, _, noisy = blobs
    options = {"checkpoint": str(tmp_path / "run.pt"), "random_state": np.random.RandomState(0)}
    model = quick(epochs=1, **options).fit(X, noisy)
    assert load(model.save(tmp_path / "m")).random_state is None


def test_an_emptied_class(blobs):
    X, _, noisy = blobs
    rows = noisy != 1
    model = quick(classes=[0, 1, 2]).fit(X[rows], noisy[rows])
    assert model.predict_proba(X).shape == (600, 3)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"method_options": {"q": 0.5}}, "no setting q"),
        ({"network": "resnet"}, "resnet"),
        ({"epochs": 0}, "epochs"),
        ({"lr": 0.0}, "lr"),
        ({"decay_from": 16}, "fraction of the epochs"),
        ({"checkpoint": "run.pt", "random_state": None}, "needs a random_state"),
        ({"transition": np.full((3, 3), 1 / 3)}, "singular"),
    ],
)
def test_bad_parameters(blobs, options, match):
    X, _, noisy = blobs
    with pytest.raises(ValueError, match=match):
        quick().set_params(**options).fit(X, noisy)


def loader(X, y, **options):
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(y))
    generator = torch.Generator().manual_seed(0)
    return torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, generator=generator, **options)


def test_a_data_loader(blobs):
    X, y, noisy = blobs
    batches = loader(X, noisy)
    model = quick().fit(batches, evaluate=loader(X, y))
    arrays = quick().fit(X, noisy, evaluate=(X, y))
    assert model.score(X, y) > 0.85
    np.testing.assert_allclose(model.mean_, arrays.mean_, rtol=1e-6)
    np.testing.assert_allclose(model.scale_, arrays.scale_, rtol=1e-6)
    np.testing.assert_allclose(model.class_prior_, arrays.class_prior_)
    assert model.input_shape_ == (2,)
    assert model.history_[-1]["accuracy"] == model.score(X, y)
    in_order = [(x, None) for x in np.array_split(X, 7)]
    assert np.array_equal(model.predict(x for x in in_order), model.predict(X))
    assert model.predict_proba(iter([])).shape == (0, 3)


def test_batches_of_any_kind(blobs):
    X, y, noisy = blobs
    names = np.array(["cat", "cow", "dog"])

    class Batches:
        def __iter__(self):
            for rows in np.array_split(np.random.default_rng(0).permutation(len(X)), 10):
                yield X[rows].tolist(), tuple(names[noisy[rows]]), np.full(len(rows), 2.0)

    model = quick(transition=None, network_options={"hidden": 16}).set_params(transition=VolMin()).fit(Batches())
    assert model.classes_.tolist() == names.tolist()
    assert (model.predict(X) == names[y]).mean() > 0.85
    assert transition_error(model.transition_, T3) < 0.3
    again = model.set_params(warm_start=True, epochs=1).fit([*Batches()])  # a list of batches
    assert (again.predict(X) == names[y]).mean() > 0.85


def test_batches_that_cannot_be_trained_on(blobs):
    X, _, noisy = blobs
    with pytest.raises(TypeError, match="read only once"):
        quick().fit(iter(loader(X, noisy)))
    with pytest.raises(ValueError, match="let the batches be"):
        quick().fit(loader(X, noisy), sample_weight=np.ones(600))
    with pytest.raises(ValueError, match="requires y to be passed"):
        quick().fit(X)


@pytest.mark.parametrize("transition", [symmetric(2, 0.2), None], ids=["T", "no T"])
def test_augmentation_is_chosen_on_noisy_labels(tmp_path, transition):
    """One bright pixel whose place says nothing within its half: shifts by one pixel keep the class."""
    random = np.random.default_rng(0)
    y = np.arange(1200) % 2
    X = np.zeros((1200, 1, 12, 24), np.float32)
    X[np.arange(1200), 0, random.integers(1, 11, 1200), random.integers(1, 11, 1200) + 12 * y] = 1
    noisy = corrupt(y, symmetric(2, 0.2), random_state=0)
    method = "mcldce" if transition is not None else "gce"
    settings = {"transition": transition, "epochs": 8, "lr": 0.01, "batch_size": 16, "random_state": 0}
    model = NoisyLabelClassifier(method, augment="auto", **settings).fit(X, noisy)
    assert model.augment_ == "shift"
    same = NoisyLabelClassifier(method, augment=model.augment_, **settings).fit(X, noisy)
    assert np.array_equal(model.predict_proba(X), same.predict_proba(X))
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.augment_ == model.augment_
    assert np.array_equal(loaded.predict(X), model.predict(X))


@pytest.fixture
def wide():
    """Fifty features that say a little each, of which a network without a penalty learns the noise by heart."""
    random = np.random.default_rng(0)
    y = np.arange(2000) % 2
    X = random.normal(size=(2000, 50)) + 0.6 * y[:, None]
    return X[:1200], corrupt(y[:1200], symmetric(2, 0.3), random_state=0), X[1200:], y[1200:]


@pytest.mark.parametrize("method", ["discounted-forward", "gce"])
def test_weight_decay_is_chosen_on_noisy_labels(monkeypatch, tmp_path, wide, method):
    X, noisy, X_test, y_test = wide
    transition = symmetric(2, 0.3) if method == "discounted-forward" else None
    settings = {"transition": transition, "epochs": 30, "batch_size": 32, "random_state": 0}
    model = NoisyLabelClassifier(method, **settings).fit(X, noisy)
    assert model.weight_decay_ in module.DECAYS[1:]
    plain = NoisyLabelClassifier(method, weight_decay=0, **settings).fit(X, noisy)
    assert model.score(X_test, y_test) > plain.score(X_test, y_test)
    same = NoisyLabelClassifier(method, weight_decay=model.weight_decay_, **settings).fit(X, noisy)
    assert np.array_equal(model.predict_proba(X), same.predict_proba(X))
    for kept in ({"standardize": False}, {"weight_decay": 0.0}):
        assert NoisyLabelClassifier(method, **settings | kept | {"epochs": 1}).fit(X, noisy).weight_decay_ == 0
    model.save(tmp_path / "m")
    monkeypatch.setattr(NoisyLabelClassifier, "_best", Never.fit)  # from here on, nothing is chosen
    again = load(tmp_path / "m").set_params(warm_start=True, epochs=1)
    assert again.fit(X, noisy).weight_decay_ == model.weight_decay_
    with pytest.raises(ValueError, match="NaN"):
        again.fit(np.full_like(X, np.nan), noisy)
    assert again.weight_decay_ == model.weight_decay_


def test_weight_decay_is_only_chosen_for_tables_in_memory(monkeypatch, wide):
    monkeypatch.setattr(NoisyLabelClassifier, "_best", Never.fit)
    X, noisy, _, _ = wide
    model = NoisyLabelClassifier(transition=symmetric(2, 0.3), epochs=1, random_state=0)
    assert model.fit(X.reshape(-1, 1, 5, 10), noisy).weight_decay_ == 0
    assert model.fit(loader(X, noisy)).weight_decay_ == 0
    assert clone(model).set_params(standardize=False).fit(X, noisy).weight_decay_ == 0
    monkeypatch.setattr(module, "MOST_ROWS", 1199)
    assert model.fit(X, noisy).weight_decay_ == 0
    monkeypatch.setattr(module, "MOST_ROWS", 1200)
    with pytest.raises(AssertionError):
        model.fit(X, noisy)


def test_a_checkpoint_keeps_the_weight_decay(monkeypatch, tmp_path, wide):
    X, noisy, _, _ = wide
    settings = {"transition": symmetric(2, 0.3), "decay_from": None, "batch_size": 32, "random_state": 0}
    model = NoisyLabelClassifier(epochs=30, checkpoint=tmp_path / "c", **settings).fit(X, noisy)
    assert model.weight_decay_ > 0
    monkeypatch.setattr(NoisyLabelClassifier, "_best", Never.fit)
    assert model.set_params(epochs=31).fit(X, noisy).weight_decay_ > 0
    assert len(model.history_) == 31


@pytest.mark.parametrize(
    ("method", "used"), [("forward", "given"), ("ce", "none"), ("gce", "given"), ("volminnet", "learned")]
)
def test_choices_see_held_out_labels_through_T_with_their_weights(monkeypatch, method, used):
    seen = []

    def error(z, y, T, weight):
        seen.append((len(z), T, weight))
        return held_out_errors(z, y, T, weight)

    monkeypatch.setattr(module, "held_out_errors", error)
    random = np.random.default_rng(0)
    X, y, given = random.normal(size=(60, 4)), random.integers(3, size=60), symmetric(3, 0.3)
    weight = np.repeat([0.0, 1.0, 2.0], 20)
    model = NoisyLabelClassifier(method, transition=given, epochs=2, batch_size=13, random_state=0)
    model.fit(X, y, sample_weight=weight)
    assert len(seen) == len(module.DECAYS)
    for n, T, w in seen:
        assert n == 14  # a third of the 40 rows with a weight, and one more: 27 would leave a batch of one
        assert w.min() > 0
        assert len(set(w)) == 2
        assert np.array_equal(T, given) == (used == "given")
        assert np.array_equal(T, np.eye(3)) == (used == "none")


@pytest.mark.parametrize(
    ("weight", "trains"),
    [
        (np.arange(40) < 29, False),  # nine held-out labels do not tell their standard error
        (np.arange(40) < 30, True),
        (np.geomspace(1, 1e-99, 40), False),  # nor do a few weights
    ],
)
def test_too_few_labels_choose_nothing(monkeypatch, weight, trains):
    seen = []
    monkeypatch.setattr(module, "held_out_errors", lambda z, *_: seen.append(len(z)) or np.zeros(len(z)))
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    weight = weight.astype(float)
    assert NoisyLabelClassifier("ce", epochs=1, random_state=0).fit(X, y, sample_weight=weight).weight_decay_ == 0
    assert seen == ([10] * len(module.DECAYS) if trains else [])


@pytest.mark.parametrize(
    ("gains", "expected"), [((0, 1.4, 1.4), 0.0), ((0, 1.6, 1.4), 1e-3), ((0, 1.6, 2.0), 1e-2), ((0, -3, -2), 0.0)]
)
def test_only_a_clear_gain_is_chosen(monkeypatch, gains, expected):
    told = iter(gains)

    def errors(z, *_):
        noise = np.resize([1.0, -1.0], len(z))  # of standard error 1 / sqrt(n)
        gain = next(told)
        return np.zeros(len(z)) if gain == 0 else noise - gain / len(z) ** 0.5

    monkeypatch.setattr(module, "held_out_errors", errors)
    X, y = np.random.default_rng(0).normal(size=(120, 3)), np.arange(120) % 2
    assert NoisyLabelClassifier("ce", epochs=1, random_state=0).fit(X, y).weight_decay_ == expected


def test_a_choice_that_diverges_is_not_chosen(monkeypatch, wide):
    X, noisy, _, _ = wide
    fit = module.Trainer.fit

    def diverges(trainer, *arguments, **settings):
        if trainer.weight_decay:
            raise FloatingPointError("diverged")
        return fit(trainer, *arguments, **settings)

    monkeypatch.setattr(module.Trainer, "fit", diverges)
    assert NoisyLabelClassifier("ce", epochs=1, random_state=0).fit(X, noisy).weight_decay_ == 0
    monkeypatch.setattr(module, "DECAYS", (1e-3,))  # if the plain choice diverges, the fit fails
    with pytest.raises(FloatingPointError):
        NoisyLabelClassifier("ce", epochs=1, random_state=0).fit(X, noisy)


def test_the_weights_of_each_choice_have_mean_one(monkeypatch, wide):
    X, noisy, _, _ = wide
    seen = []
    fit = module.Trainer.fit

    def watched(trainer, x, y, sample_weight=None, **settings):
        seen.append(1.0 if sample_weight is None else float(np.mean(sample_weight)))
        return fit(trainer, x, y, sample_weight=sample_weight, **settings)

    monkeypatch.setattr(module.Trainer, "fit", watched)
    weight = np.repeat([1.0, 0.0], [300, 900])
    NoisyLabelClassifier("ce", epochs=1, random_state=0).fit(X, noisy, sample_weight=weight)
    assert seen == pytest.approx([1.0] * 4)  # the scale of the loss, to which a weight decay is relative


def test_sixteen_bits(blobs, tmp_path):
    X, _, noisy = blobs
    settings = {"transition": T3, "epochs": 2, "weight_decay": 0, "random_state": 0}
    model = NoisyLabelClassifier(precision="bfloat16", **settings).fit(X, noisy)
    exact = NoisyLabelClassifier(**settings).fit(X, noisy)
    difference = np.abs(model.predict_proba(X) - exact.predict_proba(X)).max()
    assert 0 < difference < 0.05
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.precision == "bfloat16"
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="precision must be 'float32' or 'bfloat16'; got 'half'"):
        NoisyLabelClassifier(precision="half", transition=Never()).fit(X, noisy)


def test_the_error_on_held_out_labels_is_that_of_the_best_temperature():
    random = np.random.default_rng(0)
    z, y, weight = random.normal(size=(200, 3)), random.integers(3, size=200), random.random(200)
    y[:60] = z[:60].argmax(axis=1)
    errors = []
    for t in np.geomspace(0.1, 10, 401):
        h = np.exp(z / t) / np.exp(z / t).sum(axis=1, keepdims=True)
        errors.append(sum(w * ((T3.T @ p - np.eye(3)[k]) ** 2).sum() for p, k, w in zip(h, y, weight, strict=True)))
    expected = min(errors)
    assert weight @ held_out_errors(z, y, T3, weight) == pytest.approx(expected, rel=1e-4)
    assert weight @ held_out_errors(3 * z, y, T3, weight) == pytest.approx(expected, rel=1e-4)  # however sharp z is
    assert held_out_errors(z, y, None, weight).tolist() == (z.argmax(axis=1) != y).tolist()


def test_a_gain_is_clear_from_one_and_a_half_standard_errors_on():
    random = np.random.default_rng(0)
    gain, zero = random.normal(size=400), np.zeros(400)
    gain -= gain.mean()
    std = gain.std() / 20
    for share, expected in ((1.49, 0), (1.51, 1.51 * std), (-3, 0)):
        assert clear_gain(gain + share * std, zero) == pytest.approx(expected)
        weight = np.tile([3.0, 0.0], 400)  # rows without a weight do not count
        both = np.column_stack([gain + share * std, np.full(400, -9.0)]).ravel()
        assert clear_gain(both, np.zeros(800), weight) == pytest.approx(expected)
    assert clear_gain(zero, zero) == 0


def test_settings_that_are_none_can_be_saved(monkeypatch, tmp_path, blobs):
    X, _, noisy = blobs
    monkeypatch.setattr(module, "LEAST_STEPS", 1)
    model = NoisyLabelClassifier(transition=T3, ema=None, decay_from=None, random_state=0)
    assert [model.epochs, model.weight_decay] == [None, None]  # the defaults
    model.fit(X, noisy).save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict(X), model.predict(X))


def test_tables_have_nothing_to_shift():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    for augment, message in (
        ("auto", "augment needs images"),
        ("shift", "augment needs images"),
        ("spin", "unknown aug"),
    ):
        with pytest.raises(ValueError, match=message):
            NoisyLabelClassifier(augment=augment, transition=Never(), epochs=1).fit(X, y)


class Never:
    """An estimator of T that must not be asked."""

    def fit(self, *arguments):
        raise AssertionError("this must not be called")


def test_weights_count_in_the_choice_of_an_augmentation(tmp_path):
    """The place of the bright pixel is the class, so shifts harm, whatever rows without weight say."""
    random = np.random.default_rng(0)
    y = random.integers(2, size=300)
    X = np.zeros((300, 1, 3, 3), np.float32)
    X[np.arange(300), 0, 1, y] = 1
    weight = (np.arange(300) < 100).astype(float)
    labels = np.where(weight > 0, y, random.integers(2, size=300))
    settings = {"epochs": 20, "lr": 0.02, "batch_size": 16, "dropout": 0.0, "random_state": 0}
    model = NoisyLabelClassifier("ce", augment="auto", **settings).fit(X, labels, sample_weight=weight)
    assert model.augment_ is None
    own = NoisyLabelClassifier("ce", augment=lambda x: x, **settings).fit(X, y)
    own.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert np.array_equal(loaded.predict(X), own.predict(X))
