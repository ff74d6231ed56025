"""Corrections that reach the data: only the labels change, in every kind of file."""

import csv
import gzip
import json

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd

from tests.cli.conftest import invoke
from tests.commands.conftest import make_frame
from unflip.audit.exchange import Task, label_studio_tasks
from unflip.commands import apply_corrections
from unflip.tables import read_table

AWKWARD = 'id,note,kind\r\n007,"a, ""quoted""\r\ntext",cat\r\n008, plain , dog \r\n\r\n009,"x",cat\r\n010,ünï,"dog"\r\n'


@pytest.fixture
def suspects(tmp_path):
    def write(rows, header=("name", "given", "suggested", "probability_wrong"), name="suspects.csv"):
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return tmp_path / name

    return write


def test_only_the_cell_changes(suspects, tmp_path):
    """Every other byte of the file stays, whatever its quotes, spaces, empty lines and line ends are."""
    (tmp_path / "data.csv").write_bytes(AWKWARD.encode())
    path = suspects([("1", "dog", "cat", 0.9), ("2", "cat", "dog", 0.8)])
    done = apply_corrections(path, tmp_path / "data.csv", tmp_path / "clean.csv", label="kind")
    before, after = AWKWARD.splitlines(), (tmp_path / "clean.csv").read_bytes().decode().splitlines()
    assert [k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [3, 5]
    assert after[3] == "008,plain ,cat"
    assert (len(done.changes), done.n_rows, done.label) == (2, 4, "kind")
    log = list(csv.DictReader((tmp_path / "clean.changes.csv").read_text(encoding="utf-8").splitlines()))
    assert log[0] == {
        "name": "1",
        "given": "dog",
        "corrected": "cat",
        "probability_wrong": "0.9",
        "source": "suspects.csv",
    }
    assert read_table(tmp_path / "clean.csv", "kind").y.tolist() == ["cat", "cat", "dog", "dog"]


def test_rows_by_id_and_the_label_that_agrees(suspects, tmp_path):
    (tmp_path / "data.csv").write_text(AWKWARD, encoding="utf-8", newline="")
    path = suspects([("008", "dog", "cat", 0.9)])
    done = apply_corrections(path, tmp_path / "data.csv", tmp_path / "clean.csv", id="id")
    assert done.changes == [("008", "dog", "cat", "0.9")]
    (tmp_path / "summary.json").write_text(json.dumps({"columns": {"label": "kind", "id": "id"}}))
    assert apply_corrections(path, tmp_path / "data.csv", tmp_path / "again.csv").changes == done.changes


def test_accepted_corrected_and_least_probability(suspects, tmp_path):
    make_frame(20)[0].to_csv(tmp_path / "data.csv", index=False)
    y = read_table(tmp_path / "data.csv", "kind").y
    answers = ((0.9, "yes", ""), (0.9, "no", ""), (0.6, "Y", ""), (0.9, "x", "cow"), (0.9, "", ""))
    rows = [(k, y[k], "new", *answer) for k, answer in enumerate(answers)]
    path = suspects(rows, ("name", "given", "suggested", "probability_wrong", "accepted", "corrected"))
    done = apply_corrections(path, tmp_path / "data.csv", tmp_path / "clean.csv", label="kind", least=0.7)
    assert [(name, after) for name, _, after, _ in done.changes] == [("0", "new"), ("3", "cow")]
    exported = suspects(
        [(5, y[5], "dog" if y[5] != "dog" else "cat"), (6, y[6], y[6])], ("name", "given", "corrected"), "e.csv"
    )
    done = apply_corrections(exported, tmp_path / "data.csv", tmp_path / "clean2.csv", label="kind")
    assert (len(done.changes), done.kept) == (1, 1)


def test_a_second_time_changes_nothing_more(suspects, tmp_path):
    (tmp_path / "data.csv").write_text("a,kind\n1,cat\n2,dog\n", encoding="utf-8")
    path = suspects([("0", "cat", "dog", 0.9)])
    apply_corrections(path, tmp_path / "data.csv", tmp_path / "clean.csv")
    done = apply_corrections(path, tmp_path / "clean.csv", tmp_path / "again.csv", label="kind")
    assert (done.changes, done.done) == ([], 1)
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "clean.csv").read_text()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet", "npz", "jsonl"])
@pytest.mark.parametrize("kind", ["text", "int", "bool"])
def test_every_kind_of_file_and_label(suspects, tmp_path, suffix, kind):
    frame = pd.DataFrame({"a": np.arange(6.0), "kind": [1, 0, 1, 0, 1, 0]})
    frame["kind"] = {"text": frame["kind"].map({0: "no", 1: "yes"}), "int": frame["kind"], "bool": frame["kind"] == 1}[
        kind
    ]
    data, out = tmp_path / f"data.{suffix}", tmp_path / f"clean.{suffix}"
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        frame.astype({"kind": "category"} if kind == "text" else {}).to_parquet(data)
    elif suffix == "npz":
        np.savez(data, X=frame[["a"]].to_numpy(), y=np.array(frame["kind"].tolist()), other=np.arange(3))
    elif suffix == "jsonl":
        frame.to_json(data, orient="records", lines=True)
    else:
        frame.to_csv(data, index=False, sep="\t" if suffix == "tsv" else ",")
    label = "y" if suffix == "npz" else "kind"
    y = [str(v) for v in (frame["kind"].tolist())]
    path = suspects([(1, y[1], y[0], 0.9), (4, y[4], y[1], 0.8)])
    done = apply_corrections(path, data, out, label=label)
    expected = [y[0], y[0], y[2], y[3], y[1], y[5]]
    assert [str(v) for v in read_table(out, label).y.tolist()] == expected
    assert read_table(out, label).y.dtype.kind == read_table(data, label).y.dtype.kind
    assert len(done.changes) == 2
    if suffix == "csv.gz":
        assert gzip.decompress(out.read_bytes()).count(b"\n") == 7
    if suffix == "npz":
        assert np.load(out)["other"].tolist() == [0, 1, 2]


def test_images_move_to_the_folder_of_their_label(suspects, folder, tmp_path):
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    classes = sorted({name.split("/")[0] for name in names})
    first = next(name for name in names if name.startswith(classes[0]))
    path = suspects([(first, classes[0], classes[1], 0.9)])
    done = apply_corrections(path, folder, tmp_path / "clean")
    assert done.n_rows == len(names)
    after = sorted(path.relative_to(tmp_path / "clean").as_posix() for path in (tmp_path / "clean").rglob("*.png"))
    moved = f"{classes[1]}/{first.split('/')[1]}"
    assert set(names) - set(after) == {first}
    assert set(after) - set(names) == {moved}
    assert (tmp_path / "clean" / moved).read_bytes() == (folder / first).read_bytes()
    assert (tmp_path / "clean.changes.csv").is_file()


def test_an_export_of_label_studio(tmp_path):
    (tmp_path / "data.csv").write_text("a,kind\n1,cat\n2,dog\n3,dog\n", encoding="utf-8")
    tasks = label_studio_tasks([Task("0", "cat", "dog", 0.9, "a: 1"), Task("1", "dog", "cat", 0.8, "a: 2")], "unflip")
    for task, answer in zip(tasks, ("dog", "dog"), strict=True):
        task["annotations"] = [{"result": [{"from_name": "label", "value": {"choices": [answer]}}]}]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    done = apply_corrections(tmp_path / "export.json", tmp_path / "data.csv", tmp_path / "clean.csv")
    assert (done.changes, done.kept) == ([("0", "cat", "dog", "0.900000")], 1)


class TestMistakes:
    @pytest.fixture
    def data(self, tmp_path):
        (tmp_path / "data.csv").write_text("a,kind\n1,cat\n2,dog\n2,dog\n", encoding="utf-8")
        return tmp_path / "data.csv"

    @pytest.mark.parametrize(
        ("row", "options", "match"),
        [
            (("0", "dog", "eel", 1), {"label": "kind"}, "has the label 'cat', but 'dog' was judged"),
            (("9", "dog", "cat", 1), {"label": "kind"}, "no row called '9'"),
            (("2", "dog", "cat", 1), {"label": "kind", "id": "a"}, "more than one row called '2'"),
            (("0", "cat", "dog", 1), {"label": "kinds"}, "did you mean 'kind'"),
            (("0", "eel", "dog", 1), {}, "no column of .* has the labels that were judged; name .* with --id"),
            (("0", "cat", "dog", 0.5), {"least": 0.9}, "no accepted correction"),
        ],
    )
    def test_leave_no_file(self, suspects, data, tmp_path, row, options, match):
        with pytest.raises(ValueError, match=match):
            apply_corrections(suspects([row]), data, tmp_path / "clean.csv", **options)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "suspects.csv"]

    def test_files(self, suspects, data, tmp_path):
        path = suspects([("0", "cat", "dog", 1)])
        with pytest.raises(ValueError, match="is the data itself"):
            apply_corrections(path, data, data)
        with pytest.raises(ValueError, match="must end like"):
            apply_corrections(path, data, tmp_path / "clean.parquet")
        with pytest.raises(FileNotFoundError):
            apply_corrections(tmp_path / "no.csv", data, tmp_path / "clean.csv")
        with pytest.raises(ValueError, match="must have the columns name"):
            apply_corrections(data, data, tmp_path / "clean.csv")
        twice = suspects([("0", "cat", "dog", 1), ("0", "cat", "eel", 1)])
        with pytest.raises(ValueError, match="two labels for '0'"):
            apply_corrections(twice, data, tmp_path / "clean.csv")
        odd = suspects([("0", "cat", "dog", "perhaps")], ("name", "given", "suggested", "accepted"))
        with pytest.raises(ValueError, match="'perhaps' in the column accepted"):
            apply_corrections(odd, data, tmp_path / "clean.csv")

    def test_a_label_of_another_kind(self, suspects, tmp_path):
        np.savez(tmp_path / "data.npz", X=np.eye(4), y=[0, 1, 0, 1])
        with pytest.raises(ValueError, match="which 'cat' is not"):
            apply_corrections(suspects([("0", "0", "cat", 1)]), tmp_path / "data.npz", tmp_path / "clean.npz")


@pytest.mark.parametrize("kind", ["parquet", "npz", "jsonl"])
def test_rows_without_a_label_keep_their_place(tmp_path, kind):
    y, path, out = [None, "a", "b", "a", "b", "a"], tmp_path / f"t.{kind}", tmp_path / f"out.{kind}"
    frame = pd.DataFrame({"x": np.arange(6.0), "y": y})
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        np.savez(path, X=frame[["x"]].to_numpy(), y=np.array([value or "" for value in y]))
    (tmp_path / "corrections.csv").write_text("name,given,suggested\n2,b,a\n")
    apply_corrections(tmp_path / "corrections.csv", path, out, label="y")
    table = read_table(out, "y")
    assert (table.y.tolist(), table.unlabeled.names.tolist()) == (["a", "a", "a", "b", "a"], [0])


@pytest.mark.parametrize(
    ("before", "after", "given", "suggested"),
    [
        ("1.0", "2.0", "1", "2"),
        ("1", "2", "1", "2"),
        ("TRUE", "FALSE", "True", "False"),
        ("true", "false", "True", "False"),
    ],
)
def test_labels_are_the_same_however_they_are_written(suspects, tmp_path, before, after, given, suggested):
    (tmp_path / "data.csv").write_text(f"a,kind\n5,{before}\n6,{after}\n7,{before}\n")
    path = suspects([("0", given, suggested, 0.9), ("1", suggested, suggested, 0.2)])
    done = apply_corrections(path, tmp_path / "data.csv", tmp_path / "clean.csv")
    assert (tmp_path / "clean.csv").read_text() == f"a,kind\n5,{after}\n6,{after}\n7,{before}\n"
    assert (done.changes, done.kept) == ([("0", before, after, "0.9")], 1)


def test_an_encoding_that_cannot_be_found(suspects, tmp_path):
    text = "note,kind\nЖук,кот\nёж,пёс\n"
    (tmp_path / "data.csv").write_bytes(text.encode("cp1251"))
    path = suspects([("0", "кот", "пёс", 0.9)])
    done = invoke(
        "apply",
        path,
        "--to",
        tmp_path / "data.csv",
        "--out",
        tmp_path / "clean.csv",
        "--encoding",
        "cp1251",
        "--label",
        "kind",
    )
    assert done.exit_code == 0, done.output
    assert (tmp_path / "clean.csv").read_bytes() == text.replace("Жук,кот", "Жук,пёс").encode("cp1251")
    np.savez(tmp_path / "data.npz", X=np.eye(2), y=[0, 1])
    with pytest.raises(ValueError, match="an encoding is for text files"):
        apply_corrections(path, tmp_path / "data.npz", tmp_path / "clean.npz", encoding="cp1251")
