import json
import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from unflip.bench.record import make_record
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store


@pytest.fixture
def cells(experiment_file):
    return read_experiment(experiment_file()).cells()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


RESULT = {"accuracy": [0.5], "transition": [[1.0, 0.0], [0.25, 0.75]], "transition_error": 0.0, "seconds": 1.0}


def test_a_record_is_read_as_it_was_written(store, cells):
    record = make_record(cells[0], RESULT)
    assert store.get(cells[0]) is None
    store.put(cells[0], record)
    assert store.done(cells[0]) == record
    path = store.folder / "records" / f"{cells[0].hash}.json"
    assert path == store.path(cells[0])
    assert "[0.25, 0.75]" in path.read_text()  # numbers stand on one line
    assert os.listdir(path.parent) == [path.name]  # nothing else is left
    assert set(record) == {
        *("format", "hash", "status", "cell", "result", "error", "warnings"),
        *("resolved", "data", "device", "transition_from", "tuned_from", "versions", "commit", "threads", "finished"),
    }
    assert record["versions"]["numpy"]


def test_text_is_kept_to_the_letter(store, cells):
    error = 'Traceback: ["a",  "b"] [1,  2]\n  [3,\n   4]\n'
    store.put(cells[0], make_record(cells[0], None, error))
    assert store.get(cells[0])["error"] == error


def test_a_failed_record_is_no_result_and_gives_way(store, cells):
    store.put(cells[0], make_record(cells[0], None, "oh"))
    assert store.get(cells[0])["status"] == "failed"
    assert store.done(cells[0]) is None
    assert list(store.records(cells)) == []
    store.put(cells[0], make_record(cells[0], RESULT))
    assert store.done(cells[0])["result"] == RESULT
    store.put(cells[0], make_record(cells[0], None, "oh"))  # a result does not
    assert store.done(cells[0])["result"] == RESULT


def test_only_a_result_removes_the_checkpoint(store, cells):
    checkpoint = store.checkpoint(cells[1], "abc")
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("state")
    store.put(cells[1], make_record(cells[1], None, "the worker process was killed"))
    assert checkpoint.exists()  # the next attempt goes on from it
    store.put(cells[1], make_record(cells[1], RESULT))
    assert not checkpoint.exists()


def test_t_has_its_own_folder(store, cells):
    task = cells[2].estimate
    store.put(task, make_record(task, {"transition": [[1.0]], "transition_error": 0.0, "seconds": 1.0}))
    assert store.path(task).parent.name == "transitions"
    assert store.done(task)["estimate"] == asdict(task)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: text.replace('"hash": "', '"hash": "x'),
        lambda text: text.replace('"status": "done"', '"status": "perhaps"'),
    ],
)
def test_a_damaged_record_is_named_and_counts_as_missing(store, cells, damage):
    store.put(cells[0], make_record(cells[0], RESULT))
    path = store.path(cells[0])
    path.write_text(damage(path.read_text()))
    assert store.get(cells[0]) is None
    assert store.get(cells[0]) is None
    assert store.damaged == [path]
    store.put(cells[0], make_record(cells[0], RESULT))
    assert store.done(cells[0]) is not None
    assert store.damaged == []


@pytest.mark.parametrize(
    "result",
    [{}, RESULT | {"accuracy": []}, RESULT | {"accuracy": [1.5]}, RESULT | {"seconds": None}, [], "0.5"],
    ids=str,
)
def test_a_result_without_its_numbers_counts_as_missing(store, cells, result):
    path = store.path(cells[0])
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(make_record(cells[0], RESULT) | {"result": result}))
    assert store.done(cells[0]) is None
    assert store.damaged == [path]


def test_an_accuracy_that_is_no_number_counts_as_missing(store, cells):
    path = store.path(cells[0])
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(make_record(cells[0], RESULT) | {"result": RESULT | {"accuracy": [float("nan")]}}))
    assert store.done(cells[0]) is None


def test_records_carry_the_names_of_the_cells_that_ask(store, cells, experiment_file):
    store.put(cells[0], make_record(cells[0], RESULT))
    renamed = read_experiment(experiment_file(("[methods.ridge]", "[methods.plain]"), ('"tiny"', '"other"'))).cells()
    (record,) = store.records(renamed)
    assert (record["cell"]["experiment"], record["cell"]["method"]) == ("other", "plain")
    assert record["result"] == RESULT


def test_stores_merge_by_copying(store, cells, tmp_path):
    other = Store(tmp_path / "other")
    store.put(cells[0], make_record(cells[0], RESULT))
    other.put(cells[1], make_record(cells[1], RESULT))
    for path in (other.folder / "records").iterdir():
        (store.folder / "records" / path.name).write_bytes(path.read_bytes())
    assert [record["hash"] for record in store.records(cells)] == [cells[0].hash, cells[1].hash]


HOLD = """
import sys
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store
store = Store(sys.argv[2])
print(store.lock(read_experiment(sys.argv[1]).cells()[0]), flush=True)
sys.stdin.read()
"""


def test_a_record_is_completed_and_not_changed(store, cells):
    store.complete(cells[0], tuned_from={"a": 1})  # nothing to complete
    assert store.get(cells[0]) is None
    record = make_record(cells[0], RESULT)
    store.put(cells[0], record)
    store.complete(cells[0], tuned_from={"a": 1}, commit="other")
    assert store.done(cells[0]) == record | {"tuned_from": {"a": 1}} | ({} if record["commit"] else {"commit": "other"})
    store.complete(cells[0], tuned_from={"b": 2})
    assert store.done(cells[0])["tuned_from"] == {"a": 1}
    other = Store(store.folder)
    assert other.lock(cells[1])  # another process writes this one
    other.put(cells[1], make_record(cells[1], RESULT))
    store.complete(cells[1], tuned_from={"a": 1})
    assert store.done(cells[1])["tuned_from"] is None
    other.unlock(cells[1])
    store.complete(cells[1], tuned_from={"a": 1})
    assert store.done(cells[1])["tuned_from"] == {"a": 1}


def test_a_lock_holds_between_processes_and_ends_with_its_own(store, cells, experiment_file):
    command = [sys.executable, "-c", HOLD, str(experiment_file()), str(store.folder)]
    other = Store(store.folder)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "True\n"
        assert not store.lock(cells[0])
        assert store.lock(cells[1])
        process.kill()
        process.wait()
        assert store.lock(cells[0])
        assert not other.lock(cells[0])
        store.unlock(cells[0])
        assert other.lock(cells[0])
    store.unlock_all()
    other.unlock_all()
    assert store.lock(cells[0])  # the files that are left lock nothing
    store.unlock(cells[0])


def test_numbers_that_are_none_are_not_written(store, cells):
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.put(cells[0], make_record(cells[0], RESULT | {"seconds": float("nan")}))
    assert store.get(cells[0]) is None
    assert json.loads(json.dumps(RESULT)) == RESULT
