"""Predictions of a saved model."""

import io
import json

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")

import pandas as pd
from typer.testing import CliRunner

from tests.cli.conftest import NAMES, invoke, start
from unflip.cli import app


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
    assert "is an input of this command" in done.stderr
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


def test_streams(folder, tmp_path):
    """DATA and the predictions may be standard input and output; what is told goes elsewhere."""
    expected = tmp_path / "p.csv"
    invoke("predict", folder / "model", folder / "people.csv", "--out", expected)
    for kind in ("csv", "parquet"):
        told = CliRunner().invoke(
            app, ["predict", str(folder / "model"), "-", "--out", "-"], input=(folder / f"people.{kind}").read_bytes()
        )
        assert told.exit_code == 0, told.output
        frame = pd.read_csv(io.StringIO(told.stdout))
        pd.testing.assert_frame_equal(frame, pd.read_csv(expected), rtol=0, atol=1e-12)
        assert "300 predictions" in told.stderr
    both = invoke("predict", folder / "model", folder / "people.csv", "--out", "-", "--json")
    assert (both.exit_code, both.stdout) == (1, "")
    assert "choose one of them" in both.stderr


def test_a_reader_that_stops_early(folder):
    command = start("predict", folder / "model", *[folder / "people.csv"] * 40, "--out", "-")
    assert command.stdout.readline().startswith("name,prediction")
    command.stdout.close()
    assert command.wait(60) == 0
    assert "Traceback" not in command.stderr.read()
    command.stderr.close()


def test_several_files_and_an_encoding(folder, tmp_path):
    frame = pd.read_csv(folder / "people.csv")
    names = [tmp_path / f"part-{k}.csv" for k in range(3)]
    for k, name in enumerate(names):
        frame[100 * k : 100 * (k + 1)].to_csv(name, index=False, encoding="utf-16-le")
    invoke("predict", folder / "model", folder / "people.csv", "--out", tmp_path / "p.csv")
    for data in (names, [tmp_path / "part-*.csv"]):
        done = invoke("predict", folder / "model", *data, "--encoding", "utf-16-le", "--out", tmp_path / "q.csv")
        assert done.exit_code == 0, done.output
        assert (tmp_path / "q.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()
