import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from unflip.bench.progress import Progress
from unflip.bench.record import make_record
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store

ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


@pytest.fixture
def cells(experiment_file):
    return read_experiment(experiment_file()).cells()


@pytest.fixture
def clock(monkeypatch):
    """The time that the progress sees, in a list of one."""
    now = [0.0]
    monkeypatch.setattr("unflip.bench.progress.time.monotonic", lambda: now[0])
    return now


def done(task, seconds):
    result = {"accuracy": [0.25, 0.5], "transition": None, "transition_error": 0.125, "seconds": seconds}
    return make_record(task, result)


def test_time_left_follows_the_finished_cells_of_the_same_method(cells, tmp_path, clock):
    progress = Progress(Console(file=io.StringIO()))
    store = Store(tmp_path)
    store.put(cells[0], done(cells[0], 10.0))  # ridge, from an earlier run
    progress.begin([cells[0], cells[1], cells[4], cells[5]], store, 2)
    assert progress.seconds_left() == (10 + 10 + 10) / 2  # jocor is not known yet
    progress.started(cells[1])
    clock[0] = 40.0
    progress.ended(cells[1], done(cells[1], 39.0))
    assert progress.seconds_left() == (10 + 40) / 2
    progress.started(cells[5])
    clock[0] = 70.0
    assert progress.seconds_left() == (10 + 40 - 30) / 2
    clock[0] = 700.0
    assert progress.seconds_left() == 10 / 2  # what takes longer than it should is about to end


def test_time_left_of_a_method_whose_first_cell_still_runs(cells, tmp_path, clock):
    progress = Progress(Console(file=io.StringIO()))
    store = Store(tmp_path)
    store.put(cells[0], done(cells[0], 10.0))
    progress.begin([cells[0], cells[1], cells[5]], store, 1)  # ridge, and two of jocor
    progress.started(cells[1])
    clock[0] = 500.0
    assert progress.seconds_left() == 500
    clock[0] = 600.0
    progress.ended(cells[1], done(cells[1], 2000.0))  # with what it took before it was stopped
    assert progress.seconds_left() == 2000


def test_a_failed_cell_tells_nothing_about_time(cells, tmp_path, clock):
    progress = Progress(Console(file=io.StringIO()))
    progress.begin(cells, Store(tmp_path), 1)
    progress.started(cells[0])
    clock[0] = 5.0
    progress.ended(cells[0], make_record(cells[0], None, "Traceback\nValueError: oh\n"))
    assert progress.seconds_left() is None


def test_lines_when_piped(cells, tmp_path, clock):
    file = io.StringIO()
    with Progress(Console(file=file)) as progress:
        progress.begin(cells, Store(tmp_path), 1)
        for task, record in (
            (cells[0], done(cells[0], 1.5)),
            (cells[2].estimate, done(cells[2].estimate, 75.0)),
            (cells[1], make_record(cells[1], None, "Traceback\n  [red]\nValueError: [red] oh\n")),
        ):
            progress.started(task)
            progress.ended(task, record)
    assert file.getvalue().splitlines() == [
        "8 cells, 0 of them already done.",
        "[1/8] digits, sym 20, ridge, seed 0: 50.00 %, 1.5 s",
        "[1/8] digits, sym 20, T by volmin, seed 0: error 0.125, 1 min",
        "[2/8] digits, sym 20, jocor, seed 0: failed, ValueError: [red] oh",
    ]


def test_table_on_a_terminal(cells, tmp_path, clock):
    file = io.StringIO()
    with Progress(Console(file=file, force_terminal=True, width=100)) as progress:
        progress.begin(cells, Store(tmp_path), 1)
        progress.started(cells[0])
        progress.live.refresh()
        assert "running 0.0 s: digits, sym 20, ridge, seed 0" in file.getvalue()
        assert "time left: unknown" in file.getvalue()
        clock[0] = 3600.0
        progress.ended(cells[0], done(cells[0], 3600.0))
        progress.live.refresh()
        assert "time left: 9 h 00 min" in file.getvalue()  # seven cells and two T


def test_the_time_left_is_seen_on_a_small_terminal(cells, tmp_path, clock):
    many = [
        replace(cell, dataset=f"a-data-set-with-a-long-name-{n}", method="a-method-with-a-long-name-too")
        for n in range(30)
        for cell in cells[:2]
    ]
    file = io.StringIO()
    with Progress(Console(file=file, force_terminal=True, width=80, height=24)) as progress:
        progress.begin(many, Store(tmp_path), 16)
        for cell in many[-16:]:
            progress.started(cell)
        file.truncate(file.seek(0))
        progress.live.refresh()
        lines = ANSI.sub("", file.getvalue()).splitlines()
        assert len(lines) <= 24
        assert lines[0].strip() == "time left: unknown"
        assert sum(line.startswith("running") for line in lines) == 16
        shown = [line.split()[1] for line in lines if "a-data-set" in line and line.startswith("│")]
        assert shown
        assert set(shown) <= {cell.dataset for cell in many[-16:]}  # rows at work come first
        file.truncate(file.seek(0))
    assert all(f"{cell.dataset} " in file.getvalue() for cell in many)  # at the end the whole table
