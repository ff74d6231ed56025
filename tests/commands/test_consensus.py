"""The labels of several annotators, from a file to lists and a page."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tests.test_crowd import drawn, features
from unflip.audit import find_label_errors
from unflip.commands import annotated_table, apply_corrections, audit_table, find_noise, fit_table, write_consensus
from unflip.commands.audit import Totals, explain_interval, judge_table, write_audit
from unflip.commands.consensus import as_said
from unflip.crowd import AnnotatorModel
from unflip.tables import read_table

pd = pytest.importorskip("pandas")
NAMES = np.array(["<b>ant</b>", "bee", "cat"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write the same labels in both forms, with features that know the class."""
    folder = tmp_path_factory.mktemp("crowd")
    Y, y, _ = drawn(n=160, m=4)
    Y[3] = -1
    frame = pd.DataFrame(features(y), columns=["u", "v", "w"]).round(3)
    wide = frame.assign(**{f"ann{k}": np.where(Y[:, k] >= 0, NAMES[Y[:, k]], "") for k in range(4)})
    wide.to_csv(folder / "wide.csv", index=False)
    rows, who = np.nonzero(Y >= 0)
    long = frame.iloc[rows].assign(photo=rows, who=[f"ann{k}" for k in who], label=NAMES[Y[rows, who]])
    long.to_csv(folder / "long.csv", index=False)
    return folder, Y, y


def read(files, form):
    names = (
        {"columns": "ann0,ann1,ann2,ann3"}
        if form == "wide"
        else {"item": "photo", "annotator": "who", "label": "label"}
    )
    columns = ["ann0", "ann1", "ann2", "ann3"] if form == "wide" else ["photo", "who", "label"]
    table = read_table(files[0] / f"{form}.csv", False, kinds=dict.fromkeys(columns, "category"))
    return annotated_table(table, **names)


def test_both_forms_say_the_same(files):
    (wide, lost), (long, none) = read(files, "wide"), read(files, "long")
    assert (lost, none) == (1, 0)
    assert wide.X.columns.tolist() == long.X.columns.tolist() == ["u", "v", "w"]
    np.testing.assert_allclose(wide.X.to_numpy(), long.X.to_numpy())
    assert wide.y.tolist() == long.y.tolist()
    q = [AnnotatorModel().fit(table.annotations).posterior_ for table in (wide, long)]
    np.testing.assert_allclose(*q, atol=1e-8)
    assert long.names.tolist() == [str(k) for k in range(160) if k != 3]


def test_the_folder_of_the_consensus(files, tmp_path):
    table, _ = read(files, "wide")
    crowd = AnnotatorModel().fit(table.annotations)
    summary = write_consensus(crowd, table.names, tmp_path / "out", title="<i>ants</i>")
    consensus = pd.read_csv(tmp_path / "out" / "consensus.csv")
    assert consensus["label"].tolist() == crowd.consensus_.tolist()
    assert len(pd.read_csv(tmp_path / "out" / "annotators.csv")) == 4
    assert len(pd.read_csv(tmp_path / "out" / "confusions.csv")) == 12
    following = pd.read_csv(tmp_path / "out" / "next.csv")["information"]
    assert following.is_monotonic_decreasing
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["labels"] == summary["labels"]
    write_consensus(crowd, table.names, tmp_path / "out", title="again")  # an earlier result is replaced


def test_fit_audit_and_transition_take_several_annotators(files, monkeypatch):
    monkeypatch.setattr("unflip.commands.fit._make_trees", lambda name, seed: LogisticRegression())  # fast
    table, _ = read(files, "wide")
    y = np.delete(files[2], 3)
    fitted = fit_table(table, model="forest", random_state=0)
    assert fitted.accuracy.low < fitted.accuracy.estimate < fitted.accuracy.high
    assert np.mean(fitted.model.predict(table.X) == NAMES[y]) > 0.8
    errors = audit_table(table, model="forest", folds=3, random_state=0)
    assert np.mean(NAMES[y][errors.suspects] != errors.given[errors.suspects]) > 0.5
    with pytest.raises(ValueError, match="takes one label per row"):
        fit_table(table, model="logistic")
    with pytest.raises(ValueError, match="leave transition out"):
        fit_table(table, transition=np.eye(3))
    with pytest.raises(ValueError, match="takes one label per row"):
        find_noise(table, method="hoc")


def test_a_saved_model_judges_one_label_per_row(files):
    with pytest.raises(ValueError, match="judges one label per row"):
        judge_table(None, read(files, "wide")[0])


def test_the_count_of_wrong_labels_names_its_assumption(files):
    table, _ = read(files, "wide")
    errors = find_label_errors(None, table.annotations)
    said = explain_interval(Totals.of(errors))
    assert "even if the annotators err independently" in said
    assert "if they share their errors, which labels alone cannot tell" in said


def test_labels_are_the_same_whoever_wrote_them(tmp_path):
    """A column of whole numbers with gaps is often saved as 1.0, 2.0."""
    rows = ["p,ann,1", "p,bob,1.0", "p,eve, 1 ", "q,ann,2", "q,bob,2.0", "q,eve,1.0"]
    (tmp_path / "long.csv").write_text("\n".join(["photo,who,stars", *rows]) + "\n")
    (tmp_path / "wide.csv").write_text("ann,bob,eve\n1,1.0,1\n2,2.0,1.0\n2,,1\n")
    kinds = dict.fromkeys(["photo", "who", "stars", "ann", "bob", "eve"], "category")
    long, _ = annotated_table(read_table(tmp_path / "long.csv", False, kinds=kinds), None, "photo", "who", "stars")
    wide, _ = annotated_table(read_table(tmp_path / "wide.csv", False, kinds=kinds), "ann,bob,eve")
    for table in (long, wide):
        assert table.annotations.classes.tolist() == [1, 2]
        assert table.annotations.counts[:2].tolist() == [[3, 0], [1, 2]]


def test_scores_are_no_classes_and_whole_ones_sort_as_numbers(tmp_path):
    kinds = dict.fromkeys(["photo", "who", "stars", "ann", "bob"], "category")

    def read_both(scores):
        long = [f"{k // 2},{'ab'[k % 2]},{score}" for k, score in enumerate(scores)]
        wide = [f"{a},{b}" for a, b in zip(scores[::2], scores[1::2], strict=True)]
        (tmp_path / "long.csv").write_text("\n".join(["photo,who,stars", *long]) + "\n")
        (tmp_path / "wide.csv").write_text("\n".join(["ann,bob", *wide]) + "\n")
        for name, how in (("long", (None, "photo", "who", "stars")), ("wide", ("ann,bob",))):
            table = read_table(tmp_path / f"{name}.csv", False, kinds=kinds)
            yield lambda table=table, how=how: annotated_table(table, *how)[0].annotations.classes.tolist()

    for classes in read_both(["1", "10", "2", "2.0", "10", "1"]):
        assert classes() == [1, 2, 10]
    for classes in read_both(["1", "10", "2.5", "", "10", "1.25"]):
        with pytest.raises(ValueError, match=r"is 2.5 in row \d: it looks like a number to predict, not a class"):
            classes()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["1.0", 1, " 1", 2.0, ""], [1, 1, 1, 2, None]),
        (["1.0", "other", "1.50"], ["1", "other", "1.50"]),
        (["01", "1.0"], ["01", "1"]),  # zeros in front belong to a code
        (["1", "2.5", "10.0", ""], [1.0, 2.5, 10.0, None]),  # scores, not classes
        ([True, "False"], [True, False]),
    ],
)
def test_how_labels_are_written(given, meant):
    assert as_said(np.array(given, dtype=object)).tolist() == meant


def test_the_labels_of_several_annotators_are_not_corrected_in_one_column(files, tmp_path):
    table, _ = read(files, "wide")
    write_audit(find_label_errors(None, table.annotations), table, tmp_path / "audit", title="ants")
    suspects = tmp_path / "audit" / "suspects.csv"
    with pytest.raises(ValueError, match=r"several annotators together.*labels.csv next to it"):
        apply_corrections(suspects, files[0] / "wide.csv", tmp_path / "clean.csv")
    # A column of the majority can be corrected.
    frame = pd.read_csv(files[0] / "wide.csv").assign(most=np.insert(table.y.astype(object), 3, ""))
    frame.to_csv(tmp_path / "most.csv", index=False)
    done = apply_corrections(suspects, tmp_path / "most.csv", tmp_path / "clean.csv", label="most")
    assert len(done.changes) == len(pd.read_csv(suspects))
