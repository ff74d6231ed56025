import json
from dataclasses import replace

import pytest

from unflip.bench.run import run_cell
from unflip.bench.settings import is_stale, resolved
from unflip.bench.spec import read_experiment
from unflip.bench.status import states
from unflip.bench.store import Store
from unflip.bench.work import make_record, work

RESULT = {"accuracy": [0.5], "transition": [[1.0]], "transition_error": None, "seconds": 1.0}


@pytest.fixture
def cells(experiment_file):
    """ridge, jocor, mcldce-exact and linear with symmetric noise 20."""
    return read_experiment(experiment_file()).cells({"noise": ["sym 20"]})


@pytest.fixture
def ridge_alpha(monkeypatch):
    """A function that changes the default alpha of scikit-learn's ridge."""
    from sklearn.linear_model import RidgeClassifier

    def change(alpha):
        class Ridge(RidgeClassifier):
            def __init__(self, alpha=alpha, *, random_state=None):
                super().__init__(alpha, random_state=random_state)

        monkeypatch.setattr("sklearn.linear_model.RidgeClassifier", Ridge)

    return change


def made(task, **more):
    return make_record(task, RESULT) | {"resolved": resolved(task)} | more


def test_resolved_are_all_settings_with_the_defaults_of_the_code(cells):
    ridge, jocor, mcldce, _ = map(resolved, cells)
    assert ridge["method"]["alpha"] == 1.0
    assert "random_state" not in ridge["method"]
    assert jocor["method"] == {"forget_rate": 0.2, "num_gradual": 10, "exponent": 1.0, "co_lambda": 0.9}
    assert (mcldce["method"]["operator"], mcldce["method"]["output"]) == ("exact", "softmax")
    assert not {"kind", "dropout", "ema", "transition", "prior"} & set(mcldce["method"])
    assert mcldce["network"] == {"kind": "mlp", "hidden": 16, "dropout": 0.5, "slope": 0.01}
    expected = {"epochs": 3, "lr": 0.01, "ema": 0.9, "weight_decay": 0.0, "betas": [0.9, 0.999]}
    assert {key: mcldce["training"][key] for key in expected} == expected
    assert not {"seed", "device", "progress", "checkpoint"} & set(mcldce["training"])


def test_resolved_of_an_estimator_of_t(cells):
    volmin = resolved(cells[2].estimate)["estimator"]
    assert (volmin["rounds"], volmin["alpha"], volmin["max_iter"]) == (1, 0.1, 1000)
    own = {"kind": "crossfit-em", "network": {"kind": "lenet"}, "folds": 2}
    em = resolved(replace(cells[2].estimate, transition=own))
    assert (em["estimator"]["rounds"], em["estimator"]["folds"]) == (24, 2)
    assert em["network"] == {"kind": "lenet"}
    assert em["start"]["epochs"] == 24  # T starts from VolMinNet, whose defaults count too
    assert resolved(replace(cells[2].estimate, transition={"kind": "true"})) == {"estimator": {}}


def test_a_record_has_them_and_a_failed_one_needs_none(cells):
    record = work(cells[0], None, None, None)
    assert record["resolved"] == resolved(cells[0])
    assert json.loads(json.dumps(record["resolved"])) == record["resolved"]
    assert run_cell(cells[0])["accuracy"] == record["result"]["accuracy"]
    failed = work(replace(cells[0], dataset="none.npz"), None, None, None)
    assert (failed["resolved"], failed["data"]) == (None, None)


def test_another_default_makes_a_record_stale(cells, ridge_alpha):
    record, old = made(cells[0]), make_record(cells[0], RESULT)
    for key in ("resolved", "data", "transition_from"):
        del old[key]  # as records were before
    assert not is_stale(cells[0], record)
    ridge_alpha(2.0)
    assert is_stale(cells[0], record)
    assert not is_stale(cells[0], old)
    assert not is_stale(replace(cells[0], settings={"kind": "ridge", "alpha": 1.0}), record | {"resolved": None})


def test_a_cell_is_stale_with_the_t_that_it_was_given(cells):
    cell = cells[3]
    source = {"hash": cell.estimate.hash, "commit": None, "resolved": resolved(cell.estimate)}
    assert not is_stale(cell, made(cell, transition_from=source))
    source["resolved"]["estimator"]["max_iter"] += 1
    assert is_stale(cell, made(cell, transition_from=source))


def test_without_torch_nobody_can_tell(cells, monkeypatch):
    record = made(cells[1], resolved={"method": {}})
    assert is_stale(cells[1], record)
    monkeypatch.setitem(__import__("sys").modules, "unflip.deep", None)
    assert not is_stale(cells[1], record)


def test_a_stale_record_is_kept_unless_it_is_to_be_refreshed(cells, ridge_alpha, tmp_path):
    store, refreshing = Store(tmp_path), Store(tmp_path, refresh_stale=True)
    first = made(cells[0])
    store.put(cells[0], first)
    assert refreshing.done(cells[0]) == first
    ridge_alpha(2.0)
    assert store.is_stale(cells[0])
    assert (store.done(cells[0]), refreshing.done(cells[0])) == (first, None)
    assert [state.name for state in states(cells[:2], store)] == ["stale", "missing"]
    store.put(cells[0], made(cells[0]))
    refreshing.put(cells[0], make_record(cells[0], None, "oh"))
    assert store.get(cells[0]) == first  # only a new result replaces it
    second = made(cells[0])
    refreshing.put(cells[0], second)
    assert store.get(cells[0]) == refreshing.done(cells[0]) == second
    assert [state.name for state in states(cells[:1], store)] == ["done"]
