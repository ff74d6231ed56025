import json
from importlib.util import find_spec

import pytest
from joblib import cpu_count
from typer.testing import CliRunner

from unflip.bench.record import make_record
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store
from unflip.cli.bench import app

needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="needs unflip[deep]")
RESULT = {"accuracy": [0.5], "transition": None, "transition_error": None, "seconds": 1.0}


@pytest.fixture
def bench():
    """A function that runs ``unflip bench`` and returns exit code and output."""

    def call(*words):
        result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    return call


@pytest.fixture
def inline(monkeypatch):
    """Local tasks are done in this process."""
    from unflip.bench.record import work

    class Inline:
        slots = 1

        def __init__(self, jobs, data_dir):
            self.data_dir = data_dir

        def submit(self, task, T, checkpoint):
            self.task = task, work(task, T, self.data_dir, checkpoint)

        def wait(self, timeout):
            return [self.task]

        def close(self): ...

    monkeypatch.setattr("unflip.bench.workers.LocalPool", Inline)


def test_run_then_status(bench, inline, experiment_file):
    path = experiment_file()
    code, output = bench("run", path, "--where", "method=ridge,linear", "--where", "noise=sym 20")
    assert code == 0
    assert "[2/2] digits, sym 20, linear, seed 0:" in output
    assert (path.parents[1] / "results" / "tiny" / "records").is_dir()  # next to the folder of the experiment
    assert bench("run", path, "--where", "method=ridge,linear", "--where", "noise=sym 20") == (
        0,
        "2 cells, 2 of them already done.\n",
    )
    code, output = bench("status", path)
    assert code == 0
    assert "tiny, protocol paper" in output
    rows = {line.split()[1]: " ".join(line.split()[3:8]) for line in output.splitlines() if line.startswith("│")}
    assert rows == {"ridge": "1 / 0 / 1", "jocor": "0 / 0 / 2", "mcldce-exact": "0 / 0 / 2", "linear": "1 / 0 / 1"}


def test_run_for_a_program(inline, experiment_file):
    arguments = ["run", str(experiment_file()), "--where", "method=ridge", "--where", "noise=sym 20", "--json"]
    done = CliRunner().invoke(app, arguments)
    told = json.loads(done.stdout)
    assert (told["experiment"], told["cells"], told["failed"]) == ("tiny", 1, [])
    assert "[1/1] digits" in done.stderr
    assert CliRunner().invoke(app, [*arguments[:-1], "--quiet"]).output == ""


def test_a_failed_cell_gives_exit_code_1_and_its_traceback(bench, inline, experiment_file, tmp_path):
    (tmp_path / "broken.npz").write_text("PK")
    path = experiment_file(("[datasets.digits]", f"[datasets.'{tmp_path}/broken.npz']"))
    code, output = bench(
        "run", path, "--where", "method=ridge,linear", "--where", "noise=sym 20", "--store", tmp_path / "s"
    )
    assert code == 1
    assert "2 of 2 cells failed; run the same command to try them again" in output
    assert "broken.npz is truncated" in output
    assert list(Store(tmp_path / "s").records(read_experiment(path).cells())) == []
    code, output = bench("status", path, "--store", tmp_path / "s")
    assert code == 0
    assert "0 / 1 / 1" in output
    assert "failed: " in output
    command = ["run", str(path), "--where", "method=ridge", "--where", "noise=sym 20", "--json"]
    done = CliRunner().invoke(app, command)
    (failed,) = json.loads(done.stdout)["failed"]
    assert failed["cell"]["method"] == "ridge"
    assert "broken.npz is truncated" in failed["error"]
    assert done.exit_code == 1


@needs_torch
def test_ctrl_c_stops_cleanly(bench, experiment_file, monkeypatch):
    closed = []

    class Stopped:
        slots = 1

        def __init__(self, jobs, data_dir): ...
        def submit(self, task, T, checkpoint): ...

        def wait(self, timeout):
            raise KeyboardInterrupt

        def close(self):
            closed.append(True)

    monkeypatch.setattr("unflip.bench.workers.LocalPool", Stopped)
    path = experiment_file()
    code, output = bench("run", path)
    assert code == 130
    assert output.endswith("stopped; run the same command again to continue\n")
    assert closed == [True]
    cell = read_experiment(path).cells()[0]
    assert Store(path.parents[1] / "results" / "tiny").lock(cell)  # no lock is left


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--where", "method=magic"], "unknown method 'magic'; choose one of ridge, jocor"),
        (["--where", "magic"], "--where takes KEY=VALUE"),
        (["--protocol", "long"], "unknown protocol 'long'; choose one of paper"),
    ],
)
@pytest.mark.parametrize("command", ["run", "status", "report"])
def test_mistakes_on_the_command_line(bench, experiment_file, command, words, message):
    code, output = bench(command, experiment_file(), *words)
    assert code == 2
    assert message in output


@needs_torch
def test_an_unknown_setting_is_refused_before_anything_runs(bench, experiment_file, tmp_path):
    path = experiment_file(("dropout = 0.5", "dropuot = 0.5"))
    code, output = bench("run", path)
    assert code == 2
    assert "[methods.mcldce-exact]: method 'mcldce' has no setting dropuot" in output
    assert not (tmp_path / "results").exists()


def test_report_gets_the_finished_records_of_the_cells(bench, experiment_file, tmp_path, monkeypatch):
    path = experiment_file()
    cells = read_experiment(path).cells()
    code, output = bench("report", path)
    assert code == 2
    assert "none of the 8 cells is done" in output
    store = Store(path.parents[1] / "results" / "tiny")
    store.put(cells[0], make_record(cells[0], RESULT))
    store.put(cells[1], make_record(cells[1], None, "oh"))
    store.put(cells[4], make_record(cells[4], RESULT))
    store.path(cells[4]).write_text("{")
    seen = {}
    report = pytest.importorskip("unflip.report")
    monkeypatch.setattr(report, "write_report", lambda *given, **named: seen.update(arguments=given, named=named))
    code, output = bench("report", path, "--out", tmp_path / "tables", "--commit", "0123456")
    assert code == 0
    assert f"damaged record, treated as missing: {store.path(cells[4])}" in output
    assert output.endswith(f"1 of 8 cells: {tmp_path / 'tables'}\n")
    experiment, records, folder = seen["arguments"]
    assert experiment.name == "tiny"
    assert [record["hash"] for record in records] == [cells[0].hash]
    assert folder == tmp_path / "tables"
    assert seen["named"] == {"commit": "0123456"}
    bench("report", path)
    assert seen["named"] == {"commit": None}


@pytest.fixture
def two_protocols(experiment_file):
    """The path of the tiny experiment with a protocol long, and its store, which has records of long alone."""
    long = "[protocols.long]\nepochs = 9\ndecay_from = 3\nbatch_size = 64\nlr = 0.01\nseeds = [7]\n\n"
    path = experiment_file(("[datasets.digits]", long + "[datasets.digits]"))
    store = Store(path.parents[1] / "results" / "tiny")
    first, second = read_experiment(path).cells({"method": ["ridge"]}, "long")
    store.put(first, make_record(first, RESULT))
    store.put(second, make_record(second, None, "Traceback\nValueError: oh\n"))
    return path, store


def test_without_a_protocol_status_and_report_take_those_with_records(bench, two_protocols, monkeypatch):
    path, store = two_protocols
    code, output = bench("status", path)
    assert code == 0
    assert "tiny, protocol long: done / failed / missing cells in" in output
    assert "protocol paper" not in output
    assert "protocol paper" in bench("status", path, "--protocol", "paper")[1]
    assert "protocol paper" in bench("status", path, "--where", "seed=0")[1]  # long has no such seed
    seen = []
    report = pytest.importorskip("unflip.report")
    monkeypatch.setattr(report, "write_report", lambda plan, records, *_, **__: seen.append(records))
    paper = read_experiment(path).cells()[0]
    code, output = bench("report", path)
    assert (code, output.startswith("1 of 8 cells: ")) == (0, True)
    store.put(paper, make_record(paper, RESULT))
    assert bench("status", path)[1].count("tiny, protocol ") == 2
    assert bench("report", path)[1].startswith("2 of 16 cells: ")
    assert [record["cell"]["protocol"]["name"] for record in seen[-1]] == ["paper", "long"]
    bench("report", path, "--protocol", "long")
    assert [record["cell"]["protocol"]["name"] for record in seen[-1]] == ["long"]


def test_status_for_a_program(bench, two_protocols):
    path, store = two_protocols
    code, output = bench("status", path, "--json")
    assert code == 0
    found = json.loads(output)
    assert (found["experiment"], found["store"], found["damaged"]) == ("tiny", str(store.folder), [])
    assert len(found["counts"]) == 8
    where = {"protocol": "long", "dataset": "digits", "method": "ridge"}
    zero = {"done": 0, "stale": 0, "failed": 0, "missing": 0}
    assert where | {"noise": "sym 20"} | zero | {"done": 1} in found["counts"]
    assert where | {"noise": "pair 40"} | zero | {"failed": 1} in found["counts"]
    (failed,) = found["failed"]
    assert failed.pop("hash") == read_experiment(path).cells({"method": ["ridge"]}, "long")[1].hash
    assert failed == where | {"noise": "pair 40", "seed": 7, "error": "Traceback\nValueError: oh\n"}


def test_stale_records_are_told_kept_and_made_again_on_demand(bench, inline, experiment_file):
    path = experiment_file()
    run = ("run", path, "--where", "method=ridge,linear", "--where", "noise=sym 20")
    assert bench(*run)[0] == 0
    store = Store(path.parents[1] / "results" / "tiny")
    ridge, linear = read_experiment(path).cells({"method": ["ridge", "linear"], "noise": ["sym 20"]})
    assert store.done(linear)["transition_from"]["hash"] == linear.estimate.hash
    T = store.done(linear.estimate)
    T["resolved"]["estimator"]["max_iter"] += 1  # as if the code had another default then
    store.path(linear.estimate).write_text(json.dumps(T))
    record = store.done(linear)
    record["transition_from"]["resolved"] = T["resolved"]
    store.path(linear).write_text(json.dumps(record))
    before = store.done(ridge)
    code, output = bench(*run)
    assert code == 0
    assert "2 records are stale, made with other defaults of the code; they are kept" in output
    assert "2 cells, 2 of them already done." in output
    code, output = bench("status", path)
    assert "done / stale / failed / missing" in output
    assert "0 / 1 / 0 / 1" in output
    code, output = bench(*run, "--refresh-stale")
    assert code == 0
    assert "2 records are stale, made with other defaults of the code; they are run again" in output
    assert "T by volmin" in output
    assert store.done(ridge) == before
    assert store.done(linear)["transition_from"]["resolved"]["estimator"]["max_iter"] == 1000
    assert bench(*run, "--refresh-stale")[1] == "2 cells, 2 of them already done.\n"


@needs_torch
def test_missing_data_are_refused_before_anything_runs(bench, experiment_file, tmp_path, monkeypatch):
    path = experiment_file(("[datasets.digits]", "[datasets.mnist]"))
    code, output = bench("run", path, "--data-dir", tmp_path)
    assert code == 2
    assert output.startswith(f"error: [datasets.mnist]: MNIST is not on disk: looked in {tmp_path} for ")
    assert not (tmp_path / "results").exists()
    # The workers of a cluster have their own data.
    pytest.importorskip("distributed")
    monkeypatch.setattr("distributed.Client", lambda *_, **__: (_ for _ in ()).throw(OSError("nobody")))
    code, output = bench("run", path, "--data-dir", tmp_path, "--dask", "tcp://127.0.0.1:1")
    assert (code, "no Dask scheduler answers" in output) == (2, True)


def test_more_jobs_than_cores_are_told(bench, inline, experiment_file):
    words = ("run", experiment_file(), "--where", "method=ridge", "--where", "noise=sym 20")
    assert (
        f"share {cpu_count()} cores; more jobs than cores are not faster\n"
        in bench(*words, "--jobs", cpu_count() + 1)[1]
    )
    assert "cores" not in bench(*words, "--jobs", cpu_count())[1]


@pytest.mark.parametrize("command", ["run", "status", "report"])
def test_a_mistake_in_the_file_is_one_sentence(bench, experiment_file, command):
    path = experiment_file(("epochs = 3", 'epochs = "40"'))
    place = f"error: {path}: [protocols.paper]: epochs must be a whole number, at least 1; got '40'\n"
    assert bench(command, path) == (2, place)
    assert bench(command, path.parent) == (
        2,
        f"error: the experiment file cannot be read: {path.parent} is a folder, but a regular file is expected\n",
    )


def test_the_help_says_what_is_taken_by_default(bench):
    assert "(default: the commit of most records)" in bench("report", "--help")[1]
    assert "(default: all that have records)" in bench("status", "--help")[1]
    assert "(default: the first)" in bench("run", "--help")[1]
