from dataclasses import replace

import numpy as np
import pytest

from unflip.bench.spec import read_experiment
from unflip.bench.trial import check_data, noisy_data, run_cell, run_estimate, unit_scale
from unflip.datasets import load_dataset
from unflip.noise import corrupt, pairflip

PAIR = {"kind": "pairflip", "rate": 0.4}

pytest.importorskip("torch", reason="unflip[deep] is not installed")


@pytest.fixture
def cells(experiment_file):
    """ridge, jocor, mcldce-exact and linear with pair noise 40."""
    return read_experiment(experiment_file()).cells({"noise": ["pair 40"]})


@pytest.fixture
def human(tmp_path):
    """Digits whose noisy labels come with the data, as a file."""
    digits = load_dataset("digits")
    noisy = corrupt(digits.y_train, pairflip(10, 0.3), random_state=5)
    path = tmp_path / "human.npz"
    arrays = {name: getattr(digits, name) for name in ("x_train", "x_test", "y_train", "y_test")}
    np.savez(path, **arrays, y_noisy=noisy)
    return path, noisy


def without_seconds(result):
    return {key: value for key, value in result.items() if key != "seconds"}


def test_the_noise_is_drawn_with_the_seed():
    digits = load_dataset("digits")
    data = noisy_data("digits", None, PAIR, 3, None)
    assert np.array_equal(data.y, corrupt(digits.y_train, pairflip(10, 0.4), random_state=3))
    assert np.array_equal(data.T, pairflip(10, 0.4))
    assert data.noise_rate == np.mean(data.y != digits.y_train)
    assert np.array_equal(data.y_test, digits.y_test)
    assert not hasattr(data, "y_train")  # the clean labels stop here


def test_a_subset_is_drawn_with_the_seed():
    digits = load_dataset("digits")
    first, second = (noisy_data("digits", {"rows": 200}, PAIR, seed, None) for seed in (0, 1))
    again = noisy_data("digits", {"rows": 200}, PAIR, 0, None)
    assert len(first.x) == len(first.y) == 200
    assert len(first.x_test) == len(digits.x_test)  # always all of it
    assert np.array_equal(first.x, again.x)
    assert np.array_equal(first.y, again.y)
    assert not np.array_equal(first.x, second.x)
    rows = np.sort(np.random.default_rng([0, 1]).permutation(len(digits.x_train))[:200])
    assert np.array_equal(first.x, digits.x_train[rows])
    with pytest.raises(ValueError, match="a subset of 5000 cannot be drawn"):
        noisy_data("digits", {"rows": 5000}, PAIR, 0, None)


def test_human_labels_and_their_counted_t(human):
    path, noisy = human
    data = noisy_data(str(path), None, {"kind": "given"}, 0, None)
    assert np.array_equal(data.y, noisy)
    clean = load_dataset("digits").y_train
    for i in range(10):
        for j in range(10):
            assert data.T[i, j] == pytest.approx(np.sum((clean == i) & (noisy == j)) / np.sum(clean == i))
    with pytest.raises(ValueError, match="has no noisy labels of its own"):
        noisy_data("digits", None, {"kind": "given"}, 0, None)


def test_the_counted_t_of_a_subset_that_lacks_a_class(human):
    path, _ = human
    data = noisy_data(str(path), {"rows": 12}, {"kind": "given"}, 0, None)
    rows = np.sort(np.random.default_rng([0, 1]).permutation(1078)[:12])
    absent = sorted(set(range(10)) - set(load_dataset("digits").y_train[rows]))
    assert absent
    assert np.array_equal(data.T[absent], np.eye(10)[absent])
    assert np.allclose(data.T.sum(axis=1), 1)


def test_every_method_gives_an_accuracy_an_epoch_and_the_same_twice(cells):
    T = run_estimate(cells[2].estimate)["transition"]
    ridge, jocor, mcldce, linear = (run_cell(cell, np.array(T) if cell.transition else None) for cell in cells)
    assert [len(result["accuracy"]) for result in (ridge, jocor, mcldce, linear)] == [1, 3, 3, 1]
    assert ridge["transition"] is None
    assert ridge["transition_error"] is None
    assert mcldce["transition"] == linear["transition"] == T
    assert mcldce["transition_error"] == pytest.approx(np.abs(np.array(T) - pairflip(10, 0.4)).sum() / 10)
    assert linear["accuracy"][0] > ridge["accuracy"][0]
    for cell, result in ((cells[1], jocor), (cells[2], mcldce)):
        again = run_cell(cell, np.array(T) if cell.transition else None)
        assert without_seconds(again) == without_seconds(result)
        other = run_cell(replace(cell, seed=1), np.array(T) if cell.transition else None)
        assert other["accuracy"] != result["accuracy"]


def test_ridge_is_scikit_learn_s(cells):
    from sklearn.linear_model import RidgeClassifier

    digits = load_dataset("digits")
    y = corrupt(digits.y_train, pairflip(10, 0.4), random_state=0)
    model = RidgeClassifier(random_state=0).fit(digits.x_train.reshape(-1, 64), y)
    expected = model.score(digits.x_test.reshape(-1, 64), digits.y_test)
    assert run_cell(cells[0])["accuracy"] == [expected]


def test_settings_reach_the_network_and_the_trainer(cells, monkeypatch):
    from unflip import deep

    seen = {}

    class Spy(deep.Trainer):
        def __init__(self, method, **settings):
            seen.update(settings, method=method)
            super().__init__(method, **settings)

    monkeypatch.setattr(deep, "Trainer", Spy)
    cell = replace(cells[2], settings=cells[2].settings | {"beta1_after_decay": 0.1, "dropout": 0.25})
    run_cell(cell, pairflip(10, 0.4))
    chosen = {
        key: seen[key] for key in ("epochs", "decay_from", "batch_size", "lr", "ema", "beta1_after_decay", "seed")
    }
    assert chosen == {
        **{"epochs": 3, "decay_from": 1, "batch_size": 64, "lr": 0.01},
        **{"ema": 0.9, "beta1_after_decay": 0.1, "seed": 0},
    }
    (network,) = seen["method"].networks
    assert [module.p for module in network.modules() if type(module).__name__ == "Dropout"] == [0.25]


def test_volminnet_as_a_method_reports_the_t_that_it_learnt(cells):
    cell = replace(cells[1], settings={"kind": "volminnet"})
    result = run_cell(cell)
    assert np.allclose(np.sum(result["transition"], axis=1), 1)
    assert 0 < result["transition_error"] < 2


@pytest.mark.parametrize("kind", ["true", "volmin", "volminnet", "crossfit-em"])
def test_estimators(cells, kind, monkeypatch):
    for module in ("volminnet", "crossfit"):  # T need not be good
        monkeypatch.setattr(f"unflip.transition.{module}.LEAST_STEPS", 10)
    few = {"volmin": {"rounds": 1}, "volminnet": {"epochs": 1}, "crossfit-em": {"rounds": 3}}
    network = {} if kind in ("true", "volmin") else {"network": {"kind": "mlp", "hidden": 8}}
    task = replace(cells[2].estimate, subset={"rows": 300}, transition={"kind": kind, **few.get(kind, {}), **network})
    result = run_estimate(task)
    assert np.allclose(np.sum(result["transition"], axis=1), 1)
    assert without_seconds(run_estimate(task)) == without_seconds(result)
    if kind == "true":
        assert result["transition_error"] == 0


def test_a_stopped_cell_goes_on_from_its_checkpoint_to_the_same_bits(cells, tmp_path, monkeypatch):
    from unflip import deep

    whole = run_cell(cells[2], pairflip(10, 0.4))
    checkpoint = tmp_path / "state.pt"
    evaluations = []
    evaluate = deep.Trainer._evaluate

    def stop_in_the_third_epoch(trainer, *arguments):
        evaluations.append(len(trainer.history))
        if evaluations == [0, 1, 2]:
            raise KeyboardInterrupt
        return evaluate(trainer, *arguments)

    monkeypatch.setattr(deep.Trainer, "_evaluate", stop_in_the_third_epoch)
    with pytest.raises(KeyboardInterrupt):
        run_cell(cells[2], pairflip(10, 0.4), checkpoint=checkpoint)
    assert checkpoint.exists()
    resumed = run_cell(cells[2], pairflip(10, 0.4), checkpoint=checkpoint)
    assert evaluations == [0, 1, 2, 2]  # two epochs were not run again
    assert without_seconds(resumed) == without_seconds(whole)


def test_the_fingerprint_is_of_all_that_is_trained_and_tested_on():
    data = noisy_data("digits", {"rows": 50}, PAIR, 0, None)
    assert data.fingerprint() == noisy_data("digits", {"rows": 50}, PAIR, 0, None).fingerprint()
    assert data.fingerprint() == data._replace(x=np.asfortranarray(data.x)).fingerprint()
    for name in ("x", "y", "x_test", "y_test"):
        changed = getattr(data, name).copy()
        changed.flat[-1] += 1
        assert data._replace(**{name: changed}).fingerprint() != data.fingerprint()


def test_missing_data_are_named_without_reading_the_others(tmp_path, monkeypatch):
    there = tmp_path / "there.npz"
    there.write_text("not read")
    check_data(["digits", str(there)], str(tmp_path))
    with pytest.raises(ValueError, match="looked in") as caught:
        check_data(["digits", "mnist", str(there), str(tmp_path / "none.npz")], str(tmp_path))
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"[datasets.mnist]: MNIST is not on disk: looked in {tmp_path} for ")
    assert second.startswith(f"[datasets.{tmp_path / 'none.npz'}]: the file {tmp_path}")


def test_a_cell_without_its_t_says_so(cells):
    with pytest.raises(ValueError, match="needs T; run its estimate first"):
        run_cell(cells[2])


def test_tables_are_brought_to_unit_scale_and_images_are_not():
    x = np.random.default_rng(0).normal([3, -1, 7], [2, 0.1, 0], (500, 3)).astype(np.float32)
    train, test = unit_scale(x, x[:10])
    assert np.allclose(train.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(train.std(axis=0), [1, 1, 0], atol=1e-4)
    assert np.array_equal(test, train[:10])
    images = np.zeros((2, 1, 8, 8), np.float32)
    assert unit_scale(images)[0] is images
