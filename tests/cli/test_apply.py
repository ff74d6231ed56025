"""From suspects to clean labels on the command line."""

import json

import pytest

pytest.importorskip("pandas")
pytest.importorskip("jinja2")

import pandas as pd

from tests.cli.conftest import invoke


def test_audit_then_apply(folder, tmp_path, quick):
    data = folder / "people.csv"
    done = invoke("audit", data, "--label", "kind", "--id", "id", "--out", tmp_path / "audit", "--folds", 2)
    assert done.exit_code == 0, done.output
    suspects = pd.read_csv(tmp_path / "audit" / "suspects.csv", dtype={"name": int})
    words = ("apply", tmp_path / "audit" / "suspects.csv", "--to", data)  # label and id are those of the audit
    done = invoke(*words, "--out", tmp_path / "clean.csv")
    assert done.exit_code == 0, done.output
    assert f"{len(suspects)} of 300 labels changed" in done.stdout
    before, after = (pd.read_csv(path).set_index("id") for path in (data, tmp_path / "clean.csv"))
    changed = before.index[before["kind"] != after["kind"]]
    assert sorted(changed) == sorted(suspects["name"])
    assert after.loc[suspects["name"], "kind"].tolist() == suspects["suggested"].tolist()
    assert before.drop(columns="kind").equals(after.drop(columns="kind"))
    assert len(pd.read_csv(tmp_path / "clean.changes.csv")) == len(suspects)
    again = invoke(*words, "--out", tmp_path / "sure.csv", "--min-probability", 0.9, "--json")
    document = json.loads(again.stdout)
    assert document["changed"] == (suspects["probability_wrong"] >= 0.9).sum()
    assert document["label"] == "kind"


def test_mistakes_are_one_sentence(folder, tmp_path):
    (tmp_path / "some.csv").write_text("name,suggested\n4000,cat\n")
    done = invoke(
        "apply", tmp_path / "some.csv", "--to", folder / "people.csv", "--out", tmp_path / "c.csv", "--label", "kind"
    )
    assert done.exit_code == 1
    assert done.stderr.startswith("unflip: ")
    assert "no row called '4000'" in done.stderr
