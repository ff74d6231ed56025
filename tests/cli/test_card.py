"""What a saved model is."""

import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")

import json

from tests.cli.conftest import invoke


def test_card(folder, tmp_path):
    printed = invoke("card", folder / "model")
    assert "# model" in printed.stdout
    assert r"\<script\>" in printed.stdout
    assert invoke("card", folder / "model", "--out", tmp_path / "card.md").exit_code == 0
    assert (tmp_path / "card.md").read_text(encoding="utf-8") == printed.stdout
    told = json.loads(invoke("card", folder / "model", "--json").stdout)
    assert told["markdown"] == printed.stdout
