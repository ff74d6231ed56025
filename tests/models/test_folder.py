"""Model files: every classifier comes back to the bit, and a bad file is refused."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import unflip
from tests.models.conftest import T, deep, edit
from unflip.linear import (
    CEGEClassifier,
    LICSClassifier,
    LNSIClassifier,
    MCLDCEClassifier,
    MCLDCEClassifierCV,
    MuSGDClassifier,
    RankPruningClassifier,
    SCDClassifier,
    ULEClassifier,
)
from unflip.models import load
from unflip.transition import AnchorPoints, VolMin

MODELS = {
    "MCLDCEClassifier": lambda: MCLDCEClassifier(T),
    "published, estimated T": lambda: MCLDCEClassifier(operator="published", alpha=3.0),
    "T from an estimator": lambda: MCLDCEClassifier(AnchorPoints()),
    "MCLDCEClassifierCV": lambda: MCLDCEClassifierCV(T, alphas=[1.0, 10.0], random_state=0),
    "ULEClassifier": lambda: ULEClassifier(T),
    "MuSGDClassifier": lambda: MuSGDClassifier(T, random_state=0),
    "RankPruningClassifier": lambda: RankPruningClassifier(random_state=0),
    "LNSIClassifier": LNSIClassifier,
    "SCDClassifier": lambda: SCDClassifier(random_state=0),
    "LICSClassifier": lambda: LICSClassifier(T),
    "CEGEClassifier": lambda: CEGEClassifier(T, class_prior=[0.3, 0.3, 0.4]),
    "VolMin": VolMin,
    "NoisyLabelClassifier": deep,
    "two networks": lambda: deep(method="jocor"),
    "VolMinNet": lambda: deep(method="volminnet"),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("names", [None, ["ash", "beech", "cedar"]], ids=["numbers", "strings"])
def test_round_trip_is_exact(make, names, iris, tmp_path):
    X, y = iris
    model = make().fit(X, y if names is None else np.array(names)[y])
    model.save(tmp_path / "model")
    back = unflip.load(tmp_path / "model")
    assert type(back) is type(model)
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    if hasattr(model, "transition_"):
        np.testing.assert_array_equal(back.transition_, model.transition_)
    assert back.classes_.dtype == model.classes_.dtype
    assert {p.name for p in (tmp_path / "model").iterdir()} == {"model.json", "weights.safetensors"}


def test_a_loaded_model_goes_on(iris, tmp_path):
    X, y = iris
    MCLDCEClassifier(T).fit(X[:100], y[:100]).save(tmp_path / "m")
    on = load(tmp_path / "m").partial_fit(X[100:], y[100:])
    np.testing.assert_allclose(on.coef_, MCLDCEClassifier(T).fit(X, y).coef_, atol=1e-10)


def test_saving_again_replaces_a_model_but_nothing_else(iris, tmp_path):
    X, y = iris
    model = MCLDCEClassifier(T).fit(X, y)
    model.save(tmp_path / "m")
    model.set_params(alpha=9.0).fit(X, y).save(tmp_path / "m")
    assert load(tmp_path / "m").alpha == 9.0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for extra in ("thesis.txt", "model.json"):  # others, too, call a file model.json
        (tmp_path / "mine" / extra).write_text('{"years": "of work"}')
        with pytest.raises(FileExistsError, match="nothing else"):
            model.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()
    (tmp_path / "m" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="nothing else"):
        model.save(tmp_path / "m")
    assert (tmp_path / "m" / "notes.txt").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "mine"]  # nothing half-written is left


def test_a_failure_keeps_the_old_model(iris, tmp_path, monkeypatch):
    X, y = iris
    model = MCLDCEClassifier(T, alpha=1.0).fit(X, y)
    model.save(tmp_path / "m")
    rename = Path.rename

    def failing(self, target):
        if ".old" not in str(target) and ".old" not in str(self):
            raise OSError("no space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="no space"):
        model.set_params(alpha=9.0).fit(X, y).save(tmp_path / "m")
    monkeypatch.undo()
    assert load(tmp_path / "m").alpha == 1.0
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("number", [99, True, 1.0, "1", None])
def test_another_format_is_named(saved, number):
    edit(saved, format=number)
    with pytest.raises(ValueError, match=f"format {number!r}.*Upgrade"):
        load(saved)


@pytest.mark.parametrize("name", ["os.system", "Ridge", "ClassSums", "__import__"])
def test_no_class_but_ours_is_built(saved, name):
    edit(saved, **{"class": name})
    with pytest.raises(ValueError, match="not one of MCLDCEClassifier"):
        load(saved)


@pytest.mark.parametrize("part", ["model.json", "weights.safetensors"])
@pytest.mark.parametrize("keep", [0, 0.5, 0.99])
def test_truncated_files_are_refused(saved, part, keep):
    content = (saved / part).read_bytes()
    (saved / part).write_bytes(content[: int(keep * len(content))])
    with pytest.raises(ValueError, match="damaged"):
        load(saved)


def test_arrays_that_nobody_reads_are_refused(saved):
    from safetensors.numpy import load_file, save_file

    path = saved / "weights.safetensors"
    save_file({**load_file(path), "attributes.extra": np.zeros(3)}, path)
    edit(saved, weights_sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match=r"damaged or was edited: the weights hold 'attributes\.extra'"):
        load(saved)


def test_weights_of_another_model_are_refused(iris, saved, tmp_path):
    X, y = iris
    MCLDCEClassifier(T, alpha=5.0).fit(X, y).save(tmp_path / "other")
    (tmp_path / "other" / "weights.safetensors").replace(saved / "weights.safetensors")
    with pytest.raises(ValueError, match="damaged.*its checksum is not the one"):
        load(saved)


def test_any_edit_is_refused(saved):
    content = (saved / "model.json").read_text()
    for was, becomes in [('"alpha": 1.0', '"alpha": 2.0'), ("0.8", "0.9"), ('"numpy"', '"NumPy"')]:
        assert was in content
        (saved / "model.json").write_text(content.replace(was, becomes))
        with pytest.raises(ValueError, match="damaged or was edited: its checksum differs"):
            load(saved)
    (saved / "model.json").write_text(json.dumps(json.loads(content)))  # another layout is the same document
    assert load(saved).alpha == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "5",
        "null",
        '{"format": 1}',
        '{"format": 1, "class": ["x"]}',
        '{"format": 1, "class": "x", "versions": 5}',
        "[" * 100_000,
    ],
)
def test_other_json_is_refused(saved, text):
    (saved / "model.json").write_text(text)
    with pytest.raises(ValueError, match="damaged"):
        load(saved)
