"""A saved model for other programs."""

import json

import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("onnx", reason="unflip[onnx] is not installed")

from tests.cli.conftest import invoke


def test_export(folder, tmp_path):
    done = invoke("export", folder / "model", "--onnx", tmp_path / "m.onnx")
    assert done.exit_code == 0, done.output
    assert "input age: float64, n x 1" in done.stdout
    assert "input town: string, n x 1" in done.stdout
    assert "output probabilities: float64, n x 3" in done.stdout
    before = (tmp_path / "m.onnx").read_bytes()
    found = json.loads(invoke("export", folder / "model", "--onnx", tmp_path / "m.onnx", "--json").stdout)
    assert found["outputs"]["label"] == "string, n"
    assert (tmp_path / "m.onnx").read_bytes() == before
    assert b"unflip" in before


def test_what_cannot_be_exported(folder, tmp_path):
    done = invoke("export", folder, "--onnx", tmp_path / "m.onnx")
    assert done.exit_code == 1
    assert "is not a saved model" in done.stderr
    assert not list(tmp_path.iterdir())
