"""A table with noisy labels and a model of it, and how to run commands."""

import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from tests import quick_corrected
from tests.bench.conftest import experiment_file  # noqa: F401
from tests.datasets.conftest import forbid, site  # noqa: F401
from unflip.cli import app
from unflip.noise import corrupt, pairflip

NAMES = np.array(["<script>", "cat", "[red]dog"])
T = pairflip(3, 0.3)


def invoke(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def start(*arguments, **options):
    command = [sys.executable, "-m", "unflip.cli", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    return subprocess.Popen(command, **pipes, **options)


@pytest.fixture
def quick(monkeypatch):
    """The default model without its search, which takes seconds."""
    quick_corrected.register(monkeypatch)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """300 rows with noisy labels, a saved model of them, and T as a file, which no test changes."""
    pd, *_ = map(pytest.importorskip, ("pandas", "safetensors", "jinja2"))
    place = tmp_path_factory.mktemp("people")
    random = np.random.default_rng(0)
    y = random.integers(3, size=300)
    frame = pd.DataFrame(random.normal(size=(300, 3)) + 4 * np.eye(3)[y], columns=["age", "height", "pay"])
    frame["town"] = np.where(y == 1, "Ulm", "Bonn")
    frame["id"] = range(300)
    frame["count"] = random.integers(1, 4, size=300)
    frame["kind"] = NAMES[corrupt(y, T, random_state=2)]
    frame.to_csv(place / "people.csv", index=False)
    frame.to_parquet(place / "people.parquet")
    frame[200:].drop(columns=["town", "kind"]).to_csv(place / "without.csv", index=False)
    np.save(place / "T.npy", T)
    np.save(place / "two.npy", np.eye(2))
    done = invoke("fit", place / "people.csv", "--label", "kind", "--model", "mcldce", "--out", place / "model")
    assert done.exit_code == 0, done.output
    (place / "fit.txt").write_text(done.stdout, encoding="utf-8")
    return place
