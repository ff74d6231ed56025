"""Each program in examples/ runs without a warning, and shows what it promises; the slow test runs each by itself."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests import light_models

EXAMPLES = Path(__file__).parents[1] / "examples"
ALONE = pytest.param("alone", marks=pytest.mark.slow)
NUMBER = r"(\d+\.\d+)"


@pytest.fixture(params=["here", ALONE])
def run(request, tmp_path, monkeypatch, capsys):
    """A function that runs an example in this process, where libraries are imported already, or in one of its own.

    It returns what the example prints, and skips if a library that it needs is missing. In this process, the default
    models have fewer trees, and ``defaults`` replaces those of the example's functions.
    """
    monkeypatch.chdir(tmp_path)

    def here(name, *arguments, defaults):
        light_models.use(monkeypatch)
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        if defaults:
            Path(*arguments).mkdir(exist_ok=True)
            names = runpy.run_path(str(EXAMPLES / name))
            for function, values in defaults.items():
                names[function].__defaults__ = values
            names["main"](Path(*arguments))
        else:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr()

    def alone(name, *arguments, defaults):
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
        done = subprocess.run(command, env=os.environ | one_thread, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    def run(name, *arguments, needs=(), defaults=None):
        for library in needs:
            if importlib.util.find_spec(library) is None:
                pytest.skip(f"examples/{name} needs {library}")
        out, err = (here if request.param == "here" else alone)(name, *map(str, arguments), defaults=defaults)
        assert err == ""
        return out

    return run


def numbers(pattern, text):
    """The numbers in the one line that fits."""
    (line,) = re.findall(f"^{pattern}$", text, re.MULTILINE)
    return [float(number) for number in ([line] if isinstance(line, str) else line)]


def test_every_example_is_run_here():
    named = set(re.findall(r'run\(\s*"(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    assert named == {path.name for path in EXAMPLES.glob("*.py")}


def test_quickstart(run, tmp_path):
    shown = run("quickstart.py")
    rows = [numbers(rf"{name} +{NUMBER} +{NUMBER} \[{NUMBER}, {NUMBER}\]", shown) for name in ("ridge", "unflip")]
    (ridge, ridge_estimate, *_), (unflip, unflip_estimate, *_) = rows
    assert unflip > ridge + 0.2
    assert unflip_estimate > ridge_estimate + 0.2
    assert not list(tmp_path.iterdir())


def test_pytorch_loop(run):
    shown = run("pytorch_loop.py", needs=["torch"])
    names = ("cross-entropy", "MCLDCELoss", "NoisyLabelClassifier")
    (plain,), (corrected,), (classifier,) = (numbers(f"{name} +{NUMBER}", shown) for name in names)
    assert corrected > plain + 0.15
    assert classifier > plain + 0.15


@pytest.mark.parametrize("run", [ALONE], indirect=True)
def test_huggingface_trainer(run, tmp_path):
    shown = run("huggingface_trainer.py", needs=["torch", "transformers", "accelerate"])
    (plain,), (corrected,) = (numbers(f"{name} +{NUMBER}", shown) for name in ("cross-entropy", "MCLDCELoss"))
    assert corrected > plain + 0.04
    assert not list(tmp_path.iterdir())


def test_sklearn_pipeline(run):
    shown = run("sklearn_pipeline.py", needs=["pandas", "lightgbm"])
    rows = [
        numbers(f"{name} +accuracy on clean labels {NUMBER}, estimated {NUMBER}", shown)
        for name in ("pipeline", "corrected")
    ]
    (plain, _), (corrected, estimated) = rows
    assert corrected > plain + 0.03
    assert abs(estimated - corrected) < 0.03


def test_embeddings(run, tmp_path):
    shown = run("embeddings.py", "kept", needs=["safetensors"])
    precision = numbers(rf"\d+ labels are wrong; .* of which {NUMBER}% are wrong", shown)[0]
    assert precision > 90
    assert numbers(f"accuracy on clean labels {NUMBER}", shown)[0] > 0.85
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"embeddings.npz", "model"}


def test_dask_cluster(run, tmp_path):
    needs = ["dask", "distributed", "pandas", "pyarrow"]
    shown = run("dask_cluster.py", tmp_path, needs=needs, defaults={"write_files": (4, 1000)})
    (rate,) = numbers(f"40?,000 rows on 2 workers; labels wrong, estimated: {NUMBER}", shown)
    assert abs(rate - 0.3) < 0.03
    (difference,) = re.findall(r"difference from the fit in memory: (\S+)", shown)
    assert float(difference) < 1e-9


@pytest.mark.parametrize("run", [ALONE], indirect=True)  # what it calls is tested by itself
def test_csv_to_model(run, tmp_path):
    shown = run("csv_to_model.py", "kept", needs=["pandas", "safetensors"])
    true_rate, estimated_rate = numbers(f"{NUMBER}% of the labels are wrong; the estimate is {NUMBER}%", shown)
    assert abs(true_rate - estimated_rate) < 4
    estimate, low, high, true, plain = numbers(
        rf"accuracy on clean labels: estimated {NUMBER} \[{NUMBER}, {NUMBER}\], "
        rf"true {NUMBER}; without correction, estimated {NUMBER}",
        shown,
    )
    assert low <= true <= high
    assert estimate > plain
    assert "not used: id" in shown
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {
        *("fruit.csv", "model", "model-card.md", "predictions.csv")
    }


@pytest.mark.parametrize("run", [ALONE], indirect=True)  # what it calls is tested by itself, and in a browser
def test_audit_page(run, tmp_path):
    shown = run("audit_page.py", "page", needs=["jinja2", "PIL"])
    precision, left = numbers(rf"{NUMBER}% of the suspects are wrong; .* leaves {NUMBER}% wrong labels", shown)
    assert precision > 90
    assert left < 5  # of more than 20 %
    assert "<title>" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")


def test_choose_without_clean_labels(run):
    shown = run("choose_without_clean_labels.py")
    _, estimate, low, high, true = numbers(rf"(\d+) neighbors +{NUMBER} \[{NUMBER}, {NUMBER}\] +{NUMBER}", shown)
    assert low <= true <= high
    assert low < estimate
    assert true > numbers(rf" +1  {NUMBER}", shown)[0] + 0.3  # one neighbor believes every label


def test_compare_methods(run):
    shown = run("compare_methods.py")
    accuracies = dict(re.findall(rf"^(.{{21}}) {NUMBER} +[\d.]+ s$", shown, re.MULTILINE))
    accuracies = {name.strip(): float(accuracy) for name, accuracy in accuracies.items()}
    assert len(accuracies) == 12
    assert max(accuracies, key=accuracies.get).startswith("MC-LDCE")
    assert accuracies["MC-LDCE"] > accuracies["MC-LDCE, published M"] + 0.05


def test_label_studio(run, tmp_path):
    shown = run("label_studio.py", tmp_path, needs=["pandas"])
    (tasks,) = numbers(r"tasks (\d+)", shown)
    before, after = numbers(r"wrong labels before (\d+), after (\d+)", shown)
    assert after < before / 2
    assert tasks < 1.5 * before
    assert (tmp_path / "reviewed.changes.csv").exists()
