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


def test_a_card_does_not_damage_the_model(folder):
    before = (folder / "model" / "model.json").read_bytes()
    for name in ("model.json", "README.md"):
        done = invoke("card", folder / "model", "--out", folder / "model" / name)
        assert (done.exit_code, "inside the saved model" in done.stderr) == (1, True)
    assert (folder / "model" / "model.json").read_bytes() == before
    assert sorted(path.name for path in (folder / "model").iterdir()) == ["model.json", "weights.safetensors"]
