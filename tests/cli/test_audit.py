"""Which labels are probably wrong."""

import json

import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")

import pandas as pd

from tests.cli.conftest import T, invoke


def test_audit(folder, tmp_path, quick):
    done = invoke("audit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "audit", "--folds", 3)
    assert done.exit_code == 0, done.output
    for words in (
        "suspects",
        "P(wrong)",
        "have a better suggestion",
        "Column not used: id",
        "index.html",
        "Chosen: boosted",
    ):
        assert words in done.stdout
    page = (tmp_path / "audit" / "index.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page
    summary = json.loads((tmp_path / "audit" / "summary.json").read_text())
    assert len(pd.read_csv(tmp_path / "audit" / "suspects.csv")) == summary["n_suspects"]
    again = invoke(
        *("audit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "audit", "--folds", 3, "--json")
    )
    assert json.loads(again.stdout)["n_suspects"] == summary["n_suspects"]
    assert [one["chosen"] for one in summary["candidates"]] == [False, True, False]
    assert summary["notes"]


@pytest.mark.parametrize("options", [("--model", "logistic"), ("--network", "linear")])
def test_audit_with_a_linear_judge(folder, tmp_path, options):
    words = ("--label", "kind", "--out", tmp_path / "audit", "--folds", 2, *options)
    done = invoke("audit", folder / "people.csv", *words)
    assert done.exit_code == 0, done.output
    assert "ridge without correction" in done.stdout


def test_audit_with_a_network(folder, tmp_path):
    pytest.importorskip("torch")
    done = invoke(
        *("audit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "audit", "--folds", 2),
        *("--network", "mlp", "--epochs", 2, "--transition", folder / "T.npy", "--json"),
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["transition"] == T.tolist()
    assert (tmp_path / "audit" / "index.html").is_file()
