"""A saved model as a file for other programs."""

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="unflip[onnx] is not installed")

from unflip.commands import export_model  # noqa: E402


def test_the_file_predicts_what_the_model_predicts(fitted, table, tmp_path):
    found = export_model(fitted.model.save(tmp_path / "model"), tmp_path / "new" / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "new" / "model.onnx", providers=["CPUExecutionProvider"])
    assert found["inputs"].keys() == {value.name for value in session.get_inputs()} == set(fitted.model.kinds)
    assert found["outputs"] == {"label": "string, n", "probabilities": f"float64, n x {len(fitted.model.classes_)}"}
    kinds = {"number": np.float64, "category": object}
    feeds = {name: table.X[[name]].to_numpy(kinds[kind]) for name, kind in fitted.model.kinds.items()}
    labels, proba = session.run(["label", "probabilities"], feeds)
    np.testing.assert_allclose(proba, fitted.model.predict_proba(table.X), atol=1e-5)
    assert np.array_equal(labels, fitted.model.predict(table.X))


def test_the_name_says_what_it_is(fitted, tmp_path):
    with pytest.raises(ValueError, match="must end in .onnx"):
        export_model(fitted.model.save(tmp_path / "model"), tmp_path / "model.pb")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
