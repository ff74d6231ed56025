import pytest
from typer.testing import CliRunner

from unflip.bench.spec import read_experiment
from unflip.bench.store import Store
from unflip.bench.work import make_record
from unflip.cli.bench import app

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
    from unflip.bench.work import work

    class Inline:
        slots = 1

        def __init__(self, jobs, data_dir):
            self.data_dir = data_dir

        def submit(self, task, T, checkpoint):
            self.task = task, work(task, T, self.data_dir, checkpoint)

        def wait(self, timeout):
            return [self.task]

        def close(self): ...

    monkeypatch.setattr("unflip.bench.pool.LocalPool", Inline)


def test_run_then_status(bench, inline, experiment_file):
    path = experiment_file()
    code, output = bench("run", path, "--where", "method=ridge,linear", "--where", "noise=sym 20")
    assert code == 0
    assert "[2/2] digits, sym 20, linear, seed 0:" in output
    assert (path.parents[1] / "results" / "tiny" / "records").is_dir()  # beside the folder of the experiment
    assert bench("run", path, "--where", "method=ridge,linear", "--where", "noise=sym 20") == (
        0,
        "2 cells, 2 of them done before.\n",
    )
    code, output = bench("status", path)
    assert code == 0
    assert "tiny, protocol paper" in output
    rows = {line.split()[1]: " ".join(line.split()[3:8]) for line in output.splitlines() if line.startswith("│")}
    assert rows == {"ridge": "1 / 0 / 1", "jocor": "0 / 0 / 2", "mcldce-exact": "0 / 0 / 2", "linear": "1 / 0 / 1"}


def test_a_failed_cell_gives_exit_code_1_and_its_traceback(bench, inline, experiment_file, tmp_path):
    path = experiment_file(("[datasets.digits]", f"[datasets.'{tmp_path}/none.npz']"))
    code, output = bench(
        "run", path, "--where", "method=ridge,linear", "--where", "noise=sym 20", "--store", tmp_path / "s"
    )
    assert code == 1
    assert "2 of 2 cells failed; the same command tries them again" in output
    assert "FileNotFoundError: there is no file" in output
    assert list(Store(tmp_path / "s").records(read_experiment(path).cells())) == []
    code, output = bench("status", path, "--store", tmp_path / "s")
    assert code == 0
    assert "0 / 1 / 1" in output
    assert "failed: " in output


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

    monkeypatch.setattr("unflip.bench.pool.LocalPool", Stopped)
    path = experiment_file()
    code, output = bench("run", path)
    assert code == 130
    assert output.endswith("stopped; the same command goes on\n")
    assert closed == [True]
    assert list((path.parents[1] / "results" / "tiny" / "locks").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--where", "method=magic"], "there is no 'magic'; there are ridge, jocor"),
        (["--where", "magic"], "--where takes KEY=VALUE"),
        (["--protocol", "long"], "there is no 'long'; there are paper"),
    ],
)
@pytest.mark.parametrize("command", ["run", "status", "report"])
def test_mistakes_on_the_command_line(bench, experiment_file, command, words, message):
    code, output = bench(command, experiment_file(), *words)
    assert code == 2
    assert message in output


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
    monkeypatch.setattr(report, "write_report", lambda *arguments: seen.update(arguments=arguments))
    code, output = bench("report", path, "--out", tmp_path / "tables")
    assert code == 0
    assert f"damaged, taken as missing: {store.path(cells[4])}" in output
    assert output.endswith(f"1 of 8 cells: {tmp_path / 'tables'}\n")
    experiment, records, folder = seen["arguments"]
    assert experiment.name == "tiny"
    assert [record["hash"] for record in records] == [cells[0].hash]
    assert folder == tmp_path / "tables"
