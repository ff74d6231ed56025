"""How the labels are flipped."""

import json
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.cli.conftest import invoke
from unflip.cli import app
from unflip.noise import corrupt, pairflip

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")
pytest.importorskip("jinja2")


def test_transition_is_taken_back_by_the_others(folder, tmp_path, quick):
    done = invoke("transition", folder / "people.csv", "--label", "kind", "--json")
    (tmp_path / "T.json").write_text(done.stdout)
    options = ("--label", "kind", "--transition", tmp_path / "T.json", "--json")
    fitted = invoke("fit", folder / "people.csv", "--out", tmp_path / "model", *options)
    assert json.loads(fitted.stdout)["transition"] == json.loads(done.stdout)["transition"]


def test_transition_as_a_table_and_a_picture(folder, tmp_path, quick):
    pytest.importorskip("matplotlib")
    done = invoke("transition", folder / "people.csv", "--label", "kind", "--out", tmp_path / "T")
    assert done.exit_code == 0, done.output
    assert "T = P(given label | clean label)" in done.stdout
    assert "Note: The classes overlap" in done.stdout
    names = {item.name for item in (tmp_path / "T").iterdir()}
    assert names == {"transition.json", "transition.csv", "transition.svg", "transition.png"}


def test_transition_of_many_classes_fits_the_terminal(tmp_path):
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(15), 12)
    X = random.normal(size=(180, 15)) + 5 * np.eye(15)[y]
    np.savez(tmp_path / "many.npz", X=X, y=corrupt(y, pairflip(15, 0.2), random_state=0))
    done = invoke("transition", tmp_path / "many.npz", "--network", "linear")
    assert done.exit_code == 0, done.output
    assert "The most frequent flips" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_another_estimator_by_its_name(folder, tmp_path, quick):
    data = (folder / "people.csv", "--label", "kind")
    done = invoke("transition", *data, "--method", "anchor", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["transition"]
    fitted = invoke(
        "fit", *data, "--transition", "anchor", "--test", folder / "people.csv", "--out", tmp_path / "m", "--json"
    )
    assert fitted.exit_code == 0, fitted.output
    np.testing.assert_array_equal(json.loads(fitted.stdout)["transition"], found)
    assert json.loads(invoke("transition", *data, "--json").stdout)["transition"] != found
    assert "unknown method 'dual'; choose one of volmin" in invoke("transition", *data, "--method", "dual").stderr
    refused = invoke("fit", *data, "--transition", "anchor", "--out-of-core", "--out", tmp_path / "blocks")
    assert refused.exit_code == 2
    assert "auto or a file" in refused.stderr


@pytest.mark.parametrize("kind", ["jsonl", "feather", "arrows", "cp1252.csv", "utf-16.tsv", "pattern", "-", "fit"])
def test_every_format_gives_the_same(folder, tmp_path, kind):
    """The same rows in any format, with one estimator that is quick."""
    frame = pd.read_csv(folder / "people.csv").assign(größe=1.5)
    path, more, given = tmp_path / f"people.{kind}", ("--label", "kind", "--method", "anchor", "--json"), None
    frame.to_csv(tmp_path / "people.csv", index=False)
    expected = json.loads(invoke("transition", tmp_path / "people.csv", *more).stdout)
    if kind == "jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    elif kind == "feather":
        frame.to_feather(path)
    elif kind == "arrows":
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    elif "." in kind:
        frame.to_csv(path, index=False, encoding=kind.split(".")[0], sep="\t" if "tsv" in kind else ",")
    elif kind == "pattern":
        path = tmp_path / "part-*.csv"
        for k in range(3):
            frame[100 * k : 100 * (k + 1)].to_csv(tmp_path / f"part-{k}.csv", index=False)
    elif kind == "-":
        path, given = "-", (tmp_path / "people.csv").read_bytes()
    else:  # several files, out of core
        for k in range(3):
            frame[100 * k : 100 * (k + 1)].to_json(tmp_path / f"part-{k}.jsonl", orient="records", lines=True)
        parts = sorted(tmp_path.glob("*.jsonl"))
        options = ("--label", "kind", "--out-of-core", "--json", "--transition", folder / "T.npy")
        done = invoke("fit", *parts, *options, "--out", tmp_path / "m")
        assert done.exit_code == 0, done.output
        whole = invoke("fit", tmp_path / "people.csv", *options, "--out", tmp_path / "n")
        assert json.loads(done.stdout)["n_train"] == json.loads(whole.stdout)["n_train"]
        return
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        done = CliRunner().invoke(app, ["transition", str(path), *more], input=given)
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(json.loads(done.stdout)["transition"], expected["transition"], rtol=1e-6)
    assert ("read as cp1252" in done.stderr) == (kind == "cp1252.csv")
    if kind == "pattern":
        several = invoke("transition", *sorted(tmp_path.glob("part-*.csv")), *more)
        assert json.loads(several.stdout) == expected


def test_checks_of_the_data(folder, tmp_path, quick):
    """fit, audit and transition tell what is wrong with the data, shortly and for a program."""
    frame = pd.read_csv(folder / "people.csv")
    frame = pd.concat([frame, frame[:30].assign(kind="cat")], ignore_index=True)
    frame.loc[0, "kind"] = "Cat"
    frame["kind_code"] = frame["kind"].factorize()[0]
    frame.to_csv(tmp_path / "people.csv", index=False)
    np.save(tmp_path / "T.npy", np.eye(4))  # a column predicts the labels as they are
    data = (tmp_path / "people.csv", "--label", "kind", "--drop", "id")
    given = ("--model", "mcldce", "--transition", tmp_path / "T.npy")
    commands = {
        "transition": ("--method", "anchor"),
        "fit": (*given, "--out", tmp_path / "model", "--page", tmp_path / "page"),
        "audit": (*given, "--folds", 3, "--out", tmp_path / "audit"),
    }
    for command, options in commands.items():
        done = invoke(command, *data, *options)
        assert done.exit_code == 0, done.output
        for words in (
            "did you mean 'cat'",
            "Column 'kind_code' alone predicts",
            " pairs of copies (",
        ):
            assert sum(line.startswith("Check: ") and words in line for line in done.stdout.splitlines()) == 1
        told = json.loads(invoke(command, *data, *options, "--json").stdout)["findings"]
        assert {"rare class", "similar labels", "leakage", "copies"} <= {finding["kind"] for finding in told}
    for page in ("page", "audit"):
        assert "Checks of the data" in (tmp_path / page / "index.html").read_text(encoding="utf-8")
