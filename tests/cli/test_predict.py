"""Predictions of a saved model."""

import json

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")

import pandas as pd

from tests.cli.conftest import NAMES, invoke


def test_predict(folder, tmp_path):
    done = invoke("predict", folder / "model", folder / "people.csv", "--out", tmp_path / "p.csv")
    assert done.exit_code == 0, done.output
    frame = pd.read_csv(tmp_path / "p.csv")
    assert len(frame) == 300
    assert list(frame.columns)[2:] == [f"probability_{name}" for name in sorted(NAMES)]
    assert np.allclose(frame.iloc[:, 2:].sum(axis=1), 1)
    told = invoke("predict", folder / "model", folder / "people.parquet", "--out", tmp_path / "p.parquet", "--json")
    assert json.loads(told.stdout)["predicted"] == frame["prediction"].value_counts().to_dict()
    assert pd.read_parquet(tmp_path / "p.parquet")["prediction"].tolist() == frame["prediction"].tolist()


def test_predictions_never_overwrite_the_data(folder):
    before = (folder / "people.csv").read_bytes()
    done = invoke("predict", folder / "model", folder / "people.csv", "--out", folder / "people.csv")
    assert done.exit_code == 1
    assert "is DATA itself" in done.stderr
    assert (folder / "people.csv").read_bytes() == before


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_abstain(folder, tmp_path, name):
    out = tmp_path / name
    done = invoke("predict", folder / "model", folder / name, "--out", out, "--abstain-below", 0.6, "--json")
    told = json.loads(done.stdout)
    frame = pd.read_parquet(out) if out.suffix == ".parquet" else pd.read_csv(out)
    unsure = frame.filter(like="probability_").max(axis=1) < 0.6
    assert 0 < unsure.sum() < 300
    assert np.array_equal(frame["prediction"].isna(), unsure)
    assert told["abstained"] == unsure.sum() == told["n_rows"] - sum(told["predicted"].values())
    text = invoke("predict", folder / "model", folder / name, "--out", out, "--abstain-below", 0.6).stdout
    assert text.startswith(f"{300 - unsure.sum()} predictions ({unsure.sum()} abstained)")
    assert invoke("predict", folder / "model", folder / name, "--out", out, "--abstain-below", 60).exit_code == 2
