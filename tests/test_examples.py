"""Each program in examples/ runs by itself, without a warning, and shows what it promises."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NUMBER = r"(\d+\.\d+)"


def run(name, *arguments, cwd, needs=()):
    """Return what an example prints; skip if a library that it needs is missing."""
    for library in needs:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"examples/{name} needs {library}")
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)],
        cwd=cwd,
        env=os.environ | one_thread,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def numbers(pattern, text):
    """The numbers in the one line that fits."""
    (line,) = re.findall(f"^{pattern}$", text, re.MULTILINE)
    return [float(number) for number in ([line] if isinstance(line, str) else line)]


def test_every_example_is_run_here():
    named = set(re.findall(r'run\(\s*"(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    assert named == {path.name for path in EXAMPLES.glob("*.py")}


def test_quickstart(tmp_path):
    shown = run("quickstart.py", cwd=tmp_path)
    rows = [numbers(rf"{name} +{NUMBER} +{NUMBER} \[{NUMBER}, {NUMBER}\]", shown) for name in ("ridge", "unflip")]
    (ridge, ridge_estimate, *_), (unflip, unflip_estimate, *_) = rows
    assert unflip > ridge + 0.2
    assert unflip_estimate > ridge_estimate + 0.2
    assert not list(tmp_path.iterdir())


def test_pytorch_loop(tmp_path):
    shown = run("pytorch_loop.py", cwd=tmp_path, needs=["torch"])
    names = ("cross-entropy", "MCLDCELoss", "NoisyLabelClassifier")
    (plain,), (corrected,), (classifier,) = (numbers(f"{name} +{NUMBER}", shown) for name in names)
    assert corrected > plain + 0.15
    assert classifier > plain + 0.15


@pytest.mark.slow
def test_huggingface_trainer(tmp_path):
    shown = run("huggingface_trainer.py", cwd=tmp_path, needs=["torch", "transformers", "accelerate"])
    (plain,), (corrected,) = (numbers(f"{name} +{NUMBER}", shown) for name in ("cross-entropy", "MCLDCELoss"))
    assert corrected > plain + 0.04
    assert not list(tmp_path.iterdir())


def test_sklearn_pipeline(tmp_path):
    shown = run("sklearn_pipeline.py", cwd=tmp_path, needs=["pandas", "lightgbm"])
    rows = [
        numbers(f"{name} +accuracy on clean labels {NUMBER}, estimated {NUMBER}", shown)
        for name in ("pipeline", "corrected")
    ]
    (plain, _), (corrected, estimated) = rows
    assert corrected > plain + 0.03
    assert abs(estimated - corrected) < 0.03


def test_embeddings(tmp_path):
    shown = run("embeddings.py", "kept", cwd=tmp_path, needs=["safetensors"])
    precision = numbers(rf"\d+ labels are wrong; .* of which {NUMBER}% are wrong", shown)[0]
    assert precision > 90
    assert numbers(f"accuracy on clean labels {NUMBER}", shown)[0] > 0.85
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"embeddings.npz", "model"}


def test_dask_cluster(tmp_path):
    shown = run("dask_cluster.py", cwd=tmp_path, needs=["dask", "distributed", "pandas", "pyarrow"])
    (rate,) = numbers(f"40,000 rows on 2 workers; labels wrong, estimated: {NUMBER}", shown)
    assert abs(rate - 0.3) < 0.03
    (difference,) = re.findall(r"difference from the fit in memory: (\S+)", shown)
    assert float(difference) < 1e-9


def test_csv_to_model(tmp_path):
    shown = run("csv_to_model.py", "kept", cwd=tmp_path, needs=["pandas", "safetensors"])
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


@pytest.mark.slow  # what it calls is tested by itself, and in a browser
def test_audit_page(tmp_path):
    shown = run("audit_page.py", "page", cwd=tmp_path, needs=["jinja2", "PIL"])
    precision, left = numbers(rf"{NUMBER}% of the suspects are wrong; .* leaves {NUMBER}% wrong labels", shown)
    assert precision > 90
    assert left < 5  # of more than 20 %
    assert "<title>" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")


def test_choose_without_clean_labels(tmp_path):
    shown = run("choose_without_clean_labels.py", cwd=tmp_path)
    _, estimate, low, high, true = numbers(rf"(\d+) neighbors +{NUMBER} \[{NUMBER}, {NUMBER}\] +{NUMBER}", shown)
    assert low <= true <= high
    assert low < estimate
    assert true > numbers(rf" +1  {NUMBER}", shown)[0] + 0.3  # one neighbor believes every label


def test_compare_methods(tmp_path):
    shown = run("compare_methods.py", cwd=tmp_path)
    accuracies = dict(re.findall(rf"^(.{{21}}) {NUMBER} +[\d.]+ s$", shown, re.MULTILINE))
    accuracies = {name.strip(): float(accuracy) for name, accuracy in accuracies.items()}
    assert len(accuracies) == 12
    assert max(accuracies, key=accuracies.get).startswith("MC-LDCE")
    assert accuracies["MC-LDCE"] > accuracies["MC-LDCE, published M"] + 0.05


def test_label_studio(tmp_path):
    shown = run("label_studio.py", tmp_path, cwd=tmp_path, needs=["pandas"])
    (tasks,) = numbers(r"tasks (\d+)", shown)
    before, after = numbers(r"wrong labels before (\d+), after (\d+)", shown)
    assert after < before / 2
    assert tasks < 1.5 * before
    assert (tmp_path / "reviewed.changes.csv").exists()
