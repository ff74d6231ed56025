"""Which labels are probably wrong."""

import json

import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")

import numpy as np
import pandas as pd

from tests.cli.conftest import T, invoke


def test_audit(folder, tmp_path, quick):
    done = invoke("audit", folder / "people.csv", "--label", "kind", "--out", tmp_path / "audit", "--folds", 3)
    assert done.exit_code == 0, done.output
    for words in (
        "suspects",
        "P(wrong)",
        "are suspects",
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


def test_audit_with_names_groups_and_probabilities(folder, tmp_path, quick):
    frame = pd.read_csv(folder / "people.csv").assign(code=[f"{k:04d}" for k in range(300)])
    frame.to_csv(tmp_path / "people.csv", index=False)
    first = tmp_path / "first"
    words = ("audit", tmp_path / "people.csv", "--label", "kind", "--id", "code")
    done = invoke(*words, "--groups", "id", "--drop", "id", "--drop", "code", "--model", "logistic", "--out", first)
    assert done.exit_code == 0, done.output
    assert "are suspects, because another label is more likely" in done.stdout
    suspects = pd.read_csv(first / "suspects.csv", dtype=str)
    assert suspects["name"].str.fullmatch(r"\d{4}").all()  # as it is written
    assert "code" not in suspects.columns
    assert suspects["town"].isin(["Ulm", "Bonn"]).all()
    every = pd.read_csv(first / "labels.csv")
    q = pd.DataFrame(
        {f"probability_{k}": np.where(every["suggested"] == k, 0.8, 0.1) for k in sorted(set(every["given"]))}
    )
    q.to_csv(tmp_path / "q.csv", index=False)
    again = invoke(*words, "--probabilities", tmp_path / "q.csv", "--out", tmp_path / "second", "--json")
    assert again.exit_code == 0, again.output
    assert list(json.loads(again.stdout)["clean_accuracy"]) == ["the given probabilities"]
    wrong = invoke(*words, "--probabilities", tmp_path / "q.csv", "--model", "trees", "--out", tmp_path / "third")
    assert wrong.exit_code == 1
    assert "--probabilities and --model exclude each other" in wrong.stderr


def test_audit_by_a_saved_model(folder, tmp_path):
    done = invoke(
        *("audit", folder / "people.csv", "--label", "kind", "--judge", folder / "model", "--out", tmp_path / "audit")
    )
    assert done.exit_code == 0, done.output
    assert "model " in done.stdout
    assert json.loads((tmp_path / "audit" / "summary.json").read_text())["n_suspects"] > 20


def test_audit_for_label_studio(folder, tmp_path):
    words = ("--label", "kind", "--model", "logistic", "--out", tmp_path / "audit", "--export", "label-studio")
    done = invoke("audit", folder / "people.csv", *words)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "audit" / "label_studio.xml").is_file()
    assert not (tmp_path / "audit" / "argilla").exists()
