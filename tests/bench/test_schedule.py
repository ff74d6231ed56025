import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tests.bench.conftest import TINY
from unflip.bench.cells import Cell
from unflip.bench.record import make_record, work
from unflip.bench.schedule import run_cells
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store
from unflip.bench.workers import LocalPool

COMMAND = [sys.executable, "-c", "from unflip.cli.bench import app; app()", "run"]


class Silence:
    """A watch that remembers what started."""

    def __init__(self):
        self.order = []

    def begin(self, cells, store, slots): ...
    def tick(self): ...
    def ended(self, task, record): ...

    def started(self, task):
        self.order.append(task)


class InlinePool:
    """Tasks are done in this process, when they are waited for; ``outcome`` makes their records."""

    def __init__(self, slots, outcome):
        self.slots = slots
        self.outcome = outcome
        self.tasks = []

    def submit(self, task, T, checkpoint):
        assert len(self.tasks) < self.slots
        self.tasks.append((task, T))

    def wait(self, timeout):
        task, T = self.tasks.pop(0)
        return [(task, self.outcome(task, T))]

    def close(self): ...


def done(task, T=None):
    return make_record(task, {"accuracy": [0.5], "transition": [[task.seed]], "transition_error": 0.0, "seconds": 0.1})


def results(store):
    """What the records of a store say, but for times."""
    found = {}
    for path in sorted(store.folder.glob("[rt]*/*.json")):
        record = json.loads(path.read_text())
        assert record["status"] == "done"
        found[path.name] = {key: value for key, value in record["result"].items() if key != "seconds"}
    return found


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """The same bits for any number of jobs."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def cells(experiment_file):
    return read_experiment(experiment_file(("seeds = [0]", "seeds = [0, 1]"))).cells()


def test_each_t_is_made_once_just_before_the_cells_that_need_it(cells, tmp_path):
    given = {}

    def outcome(task, T):
        given[task.hash] = T
        return done(task)

    watch = Silence()
    assert run_cells(cells, Store(tmp_path), InlinePool(1, outcome), watch) == []
    kinds = [task.method if isinstance(task, Cell) else "T" for task in watch.order]
    assert kinds == ["ridge", "jocor", "T", "mcldce-exact", "linear"] * 4
    for cell in cells:
        assert given[cell.hash] == ([[cell.seed]] if cell.estimate else None)


def test_while_t_is_estimated_others_run(cells, tmp_path):
    watch = Silence()
    run_cells(cells[2:6], Store(tmp_path), InlinePool(2, done), watch)
    kinds = [task.method if isinstance(task, Cell) else "T" for task in watch.order]
    assert kinds == ["T", "ridge", "mcldce-exact", "linear", "jocor"]


def test_what_is_done_is_not_done_again_and_what_failed_is(cells, tmp_path):
    store = Store(tmp_path)
    bad = cells[1].hash

    def outcome(task, T):
        return make_record(task, None, "oh\n") if task.hash == bad else done(task)

    (failed,) = run_cells(cells, store, InlinePool(2, outcome), Silence())
    assert (failed["hash"], failed["error"]) == (bad, "oh\n")
    assert len(list(store.records(cells))) == len(cells) - 1
    watch = Silence()
    assert run_cells(cells, store, InlinePool(2, done), watch) == []
    assert [task.hash for task in watch.order] == [bad]
    assert len(list(store.records(cells))) == len(cells)


def test_a_failed_t_fails_its_cells_and_is_tried_again(cells, tmp_path):
    store = Store(tmp_path)

    def outcome(task, T):
        return done(task) if isinstance(task, Cell) else make_record(task, None, "no T\n")

    failed = run_cells(cells[:4], store, InlinePool(2, outcome), Silence())
    assert {record["hash"] for record in failed} == {cells[2].hash, cells[3].hash}
    assert all(record["error"] == "the estimate of its T failed: no T\n" for record in failed)
    watch = Silence()
    assert run_cells(cells[:4], store, InlinePool(2, done), watch) == []
    assert len(watch.order) == 3


def test_a_cell_whose_t_failed_is_left_to_the_process_that_is_at_it(cells, tmp_path, monkeypatch):
    mine, other = Store(tmp_path), Store(tmp_path)
    cell = cells[2]

    def other_ends(seconds):
        assert mine.get(cell) is None
        other.put(cell, done(cell))
        other.unlock(cell)

    monkeypatch.setattr("unflip.bench.schedule.time.sleep", other_ends)
    assert other.lock(cell)
    no_t = InlinePool(2, lambda task, T: make_record(task, None, "no T\n"))
    assert run_cells([cell], mine, no_t, Silence()) == []
    assert mine.done(cell) is not None


def test_a_record_names_the_t_that_its_cell_was_given(cells, tmp_path):
    store = Store(tmp_path)

    def outcome(task, T):
        return done(task) | {"commit": "cell" if isinstance(task, Cell) else "t", "resolved": {"of": task.hash}}

    run_cells(cells[:3], store, InlinePool(1, outcome), Silence())
    ridge, _, mcldce = store.records(cells[:3])
    T = cells[2].estimate.hash
    assert ridge["transition_from"] is None
    assert mcldce["transition_from"] == {"hash": T, "commit": "t", "resolved": {"of": T}}


def test_cells_of_one_hash_are_run_once(cells, tmp_path):
    twin = replace(cells[0], method="twin")
    watch = Silence()
    run_cells([cells[0], twin], Store(tmp_path), InlinePool(2, done), watch)
    assert len(watch.order) == 1
    assert [record["cell"]["method"] for record in Store(tmp_path).records([cells[0], twin])] == ["ridge", "twin"]


def test_a_damaged_record_is_made_again(cells, tmp_path):
    store = Store(tmp_path)
    run_cells(cells[:2], store, InlinePool(1, done), Silence())
    store.path(cells[0]).write_text("{")
    watch = Silence()
    run_cells(cells[:2], store, InlinePool(1, done), watch)
    assert watch.order == [cells[0]]
    assert store.damaged == []


def test_what_another_process_is_at_is_left_to_it(cells, tmp_path, monkeypatch):
    mine, other = Store(tmp_path), Store(tmp_path)
    watch = Silence()

    def other_ends(seconds):
        """Instead of sleeping: the other process ends its cell."""
        other.put(cells[0], done(cells[0]))
        other.unlock(cells[0])

    monkeypatch.setattr("unflip.bench.schedule.time.sleep", other_ends)
    assert other.lock(cells[0])
    assert run_cells(cells[:2], mine, InlinePool(2, done), watch) == []
    assert watch.order == [cells[1]]
    assert len(list(mine.records(cells[:2]))) == 2


def run_and_kill(experiment, folder, jobs, delays):
    """Run the command and kill all its processes, a delay after each sign of progress; return the command."""
    command = [*COMMAND, str(experiment), "--store", str(folder), "--jobs", str(jobs)]
    for delay in delays:
        with subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL) as process:
            wait_for_progress(folder, process, delay)
            assert process.poll() is None  # there was something left to kill
            os.killpg(process.pid, signal.SIGKILL)
    return command


def wait_for_progress(folder, process, delay):
    """Wait for a change in the store, then for the delay: moments that vary, but not with the speed of the machine."""
    before = set(folder.glob("*/*"))
    while process.poll() is None and set(folder.glob("*/*")) == before:
        time.sleep(0.002)
    time.sleep(delay)


def test_killed_it_loses_nothing(experiment_file, tmp_path):
    # Linear methods, because torch takes seconds to start; the slow test below and that of checkpoints have networks.
    start, end = TINY.index("[methods.jocor]"), TINY.index("[methods.linear]")
    experiment = experiment_file(text=TINY[:start] + TINY[end:])
    killed, plain = Store(tmp_path / "killed"), Store(tmp_path / "plain")
    run_and_kill(experiment, killed.folder, 1, [0.01])
    for store in (killed, plain):  # the rest in this process, which has imported what a new one would have to
        pool = InlinePool(1, lambda task, T: work(task, T, None, None))
        assert run_cells(read_experiment(experiment).cells(), store, pool, Silence()) == []
    assert len(results(plain)) == 4 + 2  # cells and T
    assert results(killed) == results(plain)


@pytest.mark.slow
def test_killed_ten_times_it_loses_nothing(experiment_file, tmp_path):
    experiment = experiment_file(("seeds = [0]", "seeds = [0, 1, 2]"), ("epochs = 3", "epochs = 12"))
    killed, plain = Store(tmp_path / "killed"), Store(tmp_path / "plain")
    command = run_and_kill(experiment, killed.folder, 2, [0.0, 0.01, 0.05, 0.003, 0.1, 0.02, 0.0, 0.2, 0.005, 0.03])
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    run_cells(read_experiment(experiment).cells(), plain, LocalPool(2), Silence())
    assert len(results(plain)) == 24 + 6
    assert results(killed) == results(plain)
    assert os.listdir(killed.folder / "checkpoints") == []
