import json
from dataclasses import replace

import pytest

from unflip.bench.record import commit, is_stale, make_record, work
from unflip.bench.settings import resolved
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store, states
from unflip.bench.trial import noisy_data, run_cell

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


def test_a_setting_that_did_not_exist_makes_no_record_stale(cells):
    record = made(cells[0])
    known = dict(record["resolved"]["method"])
    name, _ = known.popitem()
    assert not is_stale(cells[0], record | {"resolved": {"method": known}})
    assert not is_stale(cells[0], record | {"resolved": {"method": known | {name: record["resolved"]["method"][name]}}})
    assert is_stale(cells[0], record | {"resolved": {"method": known | {name: "another"}}})
    assert is_stale(cells[0], record | {"resolved": {"method": known | {"removed": 1}}})
    assert not is_stale(cells[0], record | {"resolved": {"method": known | {"removed": False}}})  # it was off


def test_a_cell_is_stale_with_the_t_that_it_was_given(cells):
    cell = cells[3]
    source = {"hash": cell.estimate.hash, "commit": None, "resolved": resolved(cell.estimate)}
    assert not is_stale(cell, made(cell, transition_from=source))
    source["resolved"]["estimator"]["max_iter"] += 1
    assert is_stale(cell, made(cell, transition_from=source))


def test_without_torch_nobody_can_tell(cells, monkeypatch):
    pytest.importorskip("torch", reason="unflip[deep] is not installed")
    record = made(cells[1], resolved={"training": {"lr": 0.5}})
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


def test_work_records_a_failure_with_its_traceback(cells, tmp_path):
    cell = replace(cells[0], dataset=str(tmp_path / "none.npz"))
    record = work(cell, None, None, None)
    assert record["status"] == "failed"
    assert record["result"] is None
    assert "Traceback" in record["error"]
    assert "none.npz" in record["error"]


def test_work_keeps_warnings_in_the_record(cells):
    few = replace(cells[0], settings={"kind": "logistic", "max_iter": 2})
    record = work(few, None, None, None)
    assert record["status"] == "done"
    (warning,) = record["warnings"]
    assert warning.startswith("ConvergenceWarning: lbfgs failed to converge")


def test_a_result_that_is_no_number_is_a_failure(cells, monkeypatch):
    monkeypatch.setattr("unflip.bench.trial.run_cell", lambda *_, **__: {"accuracy": [float("nan")]})
    record = work(cells[0], None, None, None)
    assert (record["status"], record["result"]) == ("failed", None)
    assert "not JSON compliant" in record["error"]


def test_an_exception_discards_the_checkpoint(cells, tmp_path):
    checkpoint = tmp_path / "state.pt"
    checkpoint.write_text("no state")
    assert work(cells[1], None, None, checkpoint)["status"] == "failed"
    assert not checkpoint.exists()


def test_a_record_names_its_data(cells):
    record, other = (work(replace(cells[0], seed=seed), None, None, None) for seed in (0, 1))
    data = noisy_data("digits", None, cells[0].noise, 0, None)
    assert record["data"] == data.fingerprint() != other["data"]
    assert set(record["result"]) == {"accuracy", "transition", "transition_error", "noise_rate", "seconds"}
    assert work(cells[3].estimate, None, None, None)["data"] == data.fingerprint()
    assert record["device"] == "cpu"  # of a linear method, whatever the machine has


def test_the_commit_is_that_of_the_checkout(cells):
    made = make_record(cells[0], {"seconds": 0.0})["commit"]
    assert made == commit()
    assert made is None or len(made.removesuffix(" + changes")) == 40
