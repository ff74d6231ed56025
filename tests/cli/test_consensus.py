"""What several annotators say together."""

import json

import pytest
from sklearn.linear_model import LogisticRegression

from tests.cli.conftest import invoke
from tests.commands.test_consensus import files  # noqa: F401 - a fixture

pytest.importorskip("jinja2")
WIDE = ("--label-columns", "ann0,ann1,ann2,ann3")
LONG = ("--item", "photo", "--annotator", "who", "--label", "label")


def test_consensus_of_both_forms(files, tmp_path):  # noqa: F811
    done = invoke("consensus", files[0] / "wide.csv", *WIDE, "--out", tmp_path / "wide")
    assert done.exit_code == 0, done.output
    assert "agreement" in done.stdout
    assert "Label these rows next" in done.stdout
    assert "1 of 160 rows has no label of any annotator and is left out" in done.stderr
    told = invoke("consensus", files[0] / "long.csv", *LONG, "--out", tmp_path / "long", "--json")
    summary = json.loads(told.stdout)
    assert summary["rows"] == 159
    assert summary["annotators"] == 4
    assert (tmp_path / "long" / "index.html").exists()


def test_raw_writes_text_as_it_is(tmp_path):
    (tmp_path / "data.csv").write_text("photo,who,what\n" + "=p,-ann,yes\n=p,bob,no\nq,-ann,yes\nq,bob,yes\n")
    how = ("--item", "photo", "--annotator", "who", "--label", "what", "--out", tmp_path / "out")
    for more, name, who in (((), "'=p", "'-ann"), (("--raw",), "=p", "-ann")):
        assert invoke("consensus", tmp_path / "data.csv", *how, *more).exit_code == 0
        assert (tmp_path / "out" / "consensus.csv").read_text().splitlines()[1].startswith(f"{name},")
        assert (tmp_path / "out" / "annotators.csv").read_text().splitlines()[1].startswith(f"{who},")


def test_other_commands_take_several_annotators(files, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("unflip.commands.fit._make_trees", lambda name, seed: LogisticRegression())  # fast
    options = ("--model", "forest", "--json")
    done = invoke("fit", files[0] / "wide.csv", *WIDE, "--out", tmp_path / "model", *options)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n_train"] + json.loads(done.stdout)["n_test"] == 159
    done = invoke("audit", files[0] / "long.csv", *LONG, "--out", tmp_path / "audit", "--folds", 3, *options)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give --label-columns, or --item"),
        (("--label-columns", "ann0"), "at least two different columns"),
        (("--label-columns", "ann0,ann9"), "no column 'ann9'"),
        (("--label-columns", "ann0,ann1", "--label", "ann2"), "give either form"),
        (("--item", "u", "--label", "ann0"), "--item, --annotator and --label"),
    ],
)
def test_wrong_options_are_explained(files, tmp_path, options, message):  # noqa: F811
    done = invoke("consensus", files[0] / "wide.csv", *options, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_rows_without_any_label_are_not_predicted_by_fit(files, tmp_path):  # noqa: F811
    rest = ("--predict-missing", tmp_path / "rest.csv")
    done = invoke("fit", files[0] / "wide.csv", *WIDE, "--out", tmp_path / "model", *rest)
    assert done.exit_code == 2
    assert "are left out" in done.stderr
