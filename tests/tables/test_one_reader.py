"""One reader: whatever reads an awkward file sees the same columns, values, labels and names, or refuses it.

``fit``, ``audit`` and ``transition`` read a table whole, ``fit --out-of-core`` in blocks, and ``predict`` in blocks
with the kinds of columns that the model knows. What they read is compared here, in blocks of three rows.
"""

import gzip
import json
import re
import warnings

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")
pa = pytest.importorskip("pyarrow", reason="unflip[data] is not installed")
from pyarrow import parquet  # noqa: E402

from unflip.commands.predict import predict_files, predict_table, read_for, write_predictions  # noqa: E402
from unflip.linear import MCLDCEClassifierCV, class_sums  # noqa: E402
from unflip.tables import Preprocessor, TableClassifier, open_source, read_table  # noqa: E402
from unflip.tables.read import join_rows  # noqa: E402
from unflip.tables.sources import open_tables, settled  # noqa: E402
from unflip.transition import sample_rows  # noqa: E402

N = 12
WORDS = ["cat", "dog", "dog"] * 4


def text(*columns, separator=",", end="\n", **named):
    """A file of text: columns of cells under their names."""
    columns = dict(columns) | named
    lines = [columns.keys(), *zip(*columns.values(), strict=True)]
    return end.join(separator.join(map(str, line)) for line in lines) + end


def numbers(form="{}"):
    return [form.format(x) for x in (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8)]


def late(cells, word):
    """The cells with a word in the last block."""
    return [*cells[:-1], word]


TEXTS = {
    "plain": text(a=numbers(), y=WORDS),
    "byte order mark": "\ufeff" + text(a=numbers(), y=WORDS),
    "semicolons and decimal commas": text(a=numbers("{},5"), b=numbers("{}"), y=WORDS, separator=";"),
    "semicolons and decimal points": text(a=numbers("{}.5"), b=numbers("{}"), y=WORDS, separator=";"),
    "decimal commas among words": text(a=late(numbers("{},5"), "many"), b=numbers("{},25"), y=WORDS, separator=";"),
    "tabs": text(a=numbers(), b=WORDS, y=WORDS, separator="\t"),
    "bars": text(a=numbers(), b=WORDS, y=WORDS, separator="|"),
    "question marks": text(a=late(numbers(), "?"), b=late(WORDS, "?"), y=WORDS),
    "other words for nothing": text(
        a=["NA", "N/A", "", "nan", "NULL", *numbers()[5:]], b=["None", "<NA>", "n/a", "", *WORDS[4:]], y=WORDS
    ),
    "quoted commas and lines": text(a=numbers(), b=['"x, y"', '"p\nq"', '"say ""hi"""'] * 4, y=WORDS),
    "spaces around cells": text(a=numbers(" {} "), b=[" u", "v"] * 6, y=[" cat", "dog ", "dog"] * 4),
    "dates": text(a=numbers(), b=[f"2020-01-{k + 1:02}" for k in range(N)], c=["31.12.2020", "1.1.2021"] * 6, y=WORDS),
    "booleans": text(a=["True", "False"] * 6, b=late(["true", "FALSE"] * 6, ""), c=numbers(), y=WORDS),
    "booleans, then a number": text(a=late(["True", "False"] * 6, "2"), c=numbers(), y=WORDS),
    "numbers, then a word": text(a=late(["1", "2"] * 6, "x"), b=late(numbers(), "oops"), c=numbers(), y=WORDS),
    "leading zeros": text(a=late(["01", "002"] * 6, "x"), b=["007", "008"] * 6, y=WORDS),
    "whole numbers with points": text(a=late(["1.0", "2.0"] * 6, "a"), b=numbers("{}.0"), y=WORDS),
    "a class called None": text(a=late(numbers(), "None"), y=["None", "some", "some"] * 4),
    "no label": text(a=numbers(), y=late(WORDS, "")),
    "a blank label": text(a=numbers(), y=late(WORDS, '"  "')),
    "whole numbers as labels, one blank": text(a=numbers(), y=late(["1", "2"] * 6, "")),
    "whole numbers as labels, one of them a word": text(a=numbers(), y=late(["01", "2"] * 6, "x")),
    "labels 1.0": text(a=numbers(), y=["1.0", "2.0"] * 6),
    "booleans as labels": text(a=numbers(), y=["True", "false"] * 6),
    "fractions as labels": text(a=numbers(), y=late(["1", "2"] * 6, "2.5")),
    "fractions and words as labels": text(a=numbers(), y=late(["0.5", "1.5"] * 6, "x")),
    "one class": text(a=numbers(), y=["cat"] * N),
    "a class for each row": text(a=numbers(), y=[f"c{k}" for k in range(N)]),
    "a name twice": text(("a", numbers()), ("b", numbers()), ("y", WORDS)).replace("b", "a", 1),
    "empty lines": text(a=numbers(), y=WORDS, end="\n\n"),
    "carriage returns": text(a=numbers(), b=WORDS, y=WORDS, end="\r\n"),
    "a single column": text(y=WORDS),
    "a first column without a name": text(("", [f"{k}" for k in range(7, 7 + N)]), a=numbers(), y=WORDS),
    "names of rows": text(("", late([f"{k:02}" for k in range(N)], "last")), a=numbers(), y=WORDS),
    "a row without a name": text(("", late([f"{k}" for k in range(N)], "")), a=numbers(), y=WORDS),
    "a last column without a name": text(("a", numbers()), ("y", WORDS), ("", [""] * N)),
    "more cells than names": text(a=numbers(), y=WORDS) + "1,cat,3\n",
    "fewer cells than names": text(a=numbers(), b=numbers(), y=WORDS) + "1\n",
    "unicode": text(("größe", numbers()), ("日本", ["ä", "ß"] * 6), ("y", ["höher", "tiefer", "tiefer"] * 4)),
    "large whole numbers": text(a=late(numbers(), 2**62), b=late(numbers(), 10**25), c=numbers("-{}"), y=WORDS),
    "infinity": text(a=late(numbers(), "inf"), b=numbers(), y=WORDS),
    "percent signs": text(a=numbers("{}%"), b=numbers(), y=WORDS),
    "thousands": text(a=numbers('"1,{}00"'), b=numbers(), y=WORDS),
    "an empty column": text(a=[""] * N, b=numbers(), y=WORDS),
    "no rows": "a,y\n",
    "nothing": "",
    "no names": "1,2\n3,4\n",
    "no label column": text(a=numbers(), kind=WORDS),
    "weights": text(a=numbers(), y=WORDS, w=late(["1", "0.5"] * 6, "blue")),
}

FRAME = pd.DataFrame({"a": [3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], "y": WORDS})
DAYS = pd.date_range("2020-01-01", periods=N)
FRAMES = {
    "parquet": FRAME,
    "missing values": FRAME.assign(
        a=FRAME["a"].where(FRAME["a"] != 9), b=pd.array([1, None, 2, 2, 2, 1] * 2, dtype="Int64"), c=[True, None] * 6
    ),
    "whole numbers, the last missing": FRAME.assign(b=pd.array([*range(N - 1), None], dtype="Int64")),
    "categories": FRAME.assign(b=pd.Categorical(["u", "v", "w"] * 4), c=pd.Categorical([1, 2] * 6), y=FRAME["y"]),
    "dictionary as labels": FRAME.assign(y=pd.Categorical(WORDS, ["owl", "dog", "cat"])),
    "dates": FRAME.assign(b=DAYS, c=DAYS.date, d=DAYS.tz_localize("UTC"), e=DAYS - DAYS[0]),
    "an index": FRAME.set_index(pd.Index([f"row {k}" for k in range(N)], name="who")),
    "an index that counts": FRAME.set_index(pd.RangeIndex(5, 5 + 2 * N, 2)),
    "an index of fractions": FRAME.set_index(np.linspace(0, 1, N)),
    "float32": FRAME.assign(a=FRAME["a"].astype("float32")),
    "a missing label": FRAME.assign(y=[*WORDS[:-1], None]),
    "dates as labels": FRAME.assign(y=[*DAYS[:2], *DAYS[:10]]),
    "lists": FRAME.assign(b=[[1, 2]] * N),
    "lists as labels": FRAME.assign(y=[["a"], ["b"]] * 6),
    "names that are numbers": FRAME.rename(columns={"a": 7}).rename(columns=str),
    "nothing but nulls": FRAME.assign(b=None),
    "no rows": FRAME[:0],
}
LINES = ["parquet", "missing values", "whole numbers, the last missing", "a missing label", "lists", "lists as labels"]
STREAMS = ["missing values", "categories", "an index", "no rows"]  # read as feather is, batch by batch
FILES = [
    *(("t.csv", name) for name in TEXTS),
    *((f"t.{suffix}", name) for name in FRAMES for suffix in ("parquet", "feather")),
    *(("t.arrow", name) for name in STREAMS),
    *(("t.jsonl", name) for name in LINES),
    ("t.csv.gz", "plain"),
    ("t.csv.utf-16.csv", "unicode"),
    ("t.cp1252.tsv.gz", "tabs"),
]


@pytest.fixture(scope="module", params=FILES, ids=lambda file: f"{file[1]} ({file[0]})")
def path(request, tmp_path_factory):
    file, name = request.param
    path = tmp_path_factory.mktemp("one") / file
    if file.endswith(".parquet"):
        FRAMES[name].to_parquet(path, row_group_size=5)
    elif file.endswith(".jsonl"):
        rows = FRAMES[name].to_dict("records")
        kept = (
            {key: value for key, value in row.items() if isinstance(value, list) or not pd.isna(value)} for row in rows
        )
        path.write_text("\n".join(map(json.dumps, kept)))
    elif file.endswith((".feather", ".arrow")):
        table = pa.Table.from_pandas(FRAMES[name])
        opened = pa.ipc.new_file if file.endswith(".feather") else pa.ipc.new_stream
        with opened(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=5)
    else:
        content = TEXTS[name].encode("utf-16" if "utf-16" in file else "cp1252" if "cp1252" in file else "utf-8")
        path.write_bytes(gzip.compress(content) if file.endswith(".gz") else content)
    return path


@pytest.fixture(scope="module")
def seen(path):
    """What is read whole, or its refusal."""
    return tried(whole, path)


def tried(read, path):
    """What a reader saw, or its refusal without the block that it names."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(path)
    except ValueError as error:
        name = re.escape(str(path))
        message = re.sub(rf"^{name}(, (row groups?|batch(es)?) \d+( to \d+)?)?(, rows \d+ to \d+)?: ", "", str(error))
        return re.sub(r"\(\d+ (missing|such \w+)\)", "", message)


def options(path):
    return {"weights": "w"} if ",w\n" in str(path.read_bytes()[:30], "latin-1") else {}


def whole(path):
    table = read_table(path, "y", **options(path))
    if table.unlabeled is not None:  # blocks refuse what is set aside here
        row = table.unlabeled.X.index[0]
        raise ValueError(f"the label 'y' is missing in row {row} ; fill in the labels, or drop those rows")
    return table.X, table.y, table.names


def in_blocks(path):
    source = settled(open_tables(path, "y", **options(path), rows=3))
    blocks = [block for part in source.parts(whole_files=True) for block in part.blocks()]
    if not blocks:
        raise ValueError(source.no_rows)
    y = np.concatenate([block.y for block in blocks])
    if len(set(y.tolist())) in (1, len(y)):
        read_table(path, "y")  # which refuses such labels, as fit_out_of_core does from their counts
    names = [block.X.names for block in blocks]
    rows = np.arange(len(y)) if names[0] is None else np.concatenate(names)
    return join_rows([block.X for block in blocks]).frame, y, rows


def check_same(found, expected):
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
        return
    (X, y, names), (X_expected, y_expected, names_expected) = found, expected
    pd.testing.assert_frame_equal(X, X_expected, check_categorical=False)
    assert y.dtype.kind == y_expected.dtype.kind
    assert y.tolist() == y_expected.tolist()
    assert names.tolist() == names_expected.tolist()


def test_blocks_are_the_whole_table(path, seen):
    """The columns have the same kinds, too."""

    def kinds(X):
        fitted = tried(lambda path: Preprocessor().fit(X), path)
        return fitted if isinstance(fitted, str) else (fitted.numbers_, fitted.categories_, fitted.unused_)

    found = tried(in_blocks, path)
    check_same(found, seen)
    if not isinstance(seen, str):
        assert kinds(found[0]) == kinds(seen[0])


def test_a_model_reads_what_it_was_trained_on(path, seen):
    """With the kinds of columns that it knows, whole and in blocks, and although it does not know the labels."""
    if isinstance(seen, str):
        return
    fitted = tried(lambda path: Preprocessor().fit(seen[0]), path)
    if isinstance(fitted, str):  # nothing to learn from
        return
    expected = fitted.transform(seen[0])
    kinds = dict.fromkeys(fitted.numbers_, "number") | dict.fromkeys(fitted.categories_, "category")
    np.testing.assert_array_equal(fitted.transform(read_table(path, False, kinds=kinds).X), expected)
    source = settled(open_tables(path, rows=3, kinds=kinds), [""])
    blocks = [block for part in source.parts(whole_files=True) for block in part.blocks()]
    np.testing.assert_array_equal(np.concatenate([fitted.transform(block.X.frame) for block in blocks]), expected)


def test_labels_are_the_same_classes(path, seen):
    """For class_sums and sample_rows, which take only numbers as features, as for a table."""
    columns = [] if isinstance(seen, str) else [n for n in seen[0].columns if seen[0][n].dtype.kind in "iuf"]
    if not columns:
        return
    if not np.isfinite(seen[0][columns].to_numpy(float)).all():
        with pytest.raises(ValueError, match="; fill them in, or drop those rows"):
            class_sums(path, label="y", columns=columns, rows=3)
        columns = [name for name in columns if np.isfinite(seen[0][name].to_numpy(float)).all()]
    if not columns:
        return
    source = open_source(path, label="y", columns=columns, rows=3)
    sums = class_sums(source)  # which finds them first
    assert sums.classes.tolist() == np.unique(seen[1]).tolist()
    np.testing.assert_allclose(sums.mean, seen[0][columns].mean())
    sample = sample_rows(source, 100)
    assert sorted(sample.y.tolist()) == sorted(seen[1].tolist())


def test_predictions_are_the_same_whole_and_in_blocks(path, seen, tmp_path):
    if isinstance(seen, str):
        return
    classifier = MCLDCEClassifierCV(np.eye(len(np.unique(seen[1]))))  # to estimate T would take most of the time
    model = tried(lambda path: TableClassifier(classifier).fit(seen[0], seen[1]), path)
    if isinstance(model, str):
        return
    table = read_for(model, path)
    write_predictions(tmp_path / "whole.csv", table, *predict_table(model, table, 3), model.classes_)
    predict_files(model, path, tmp_path / "blocks.csv", 3)
    assert (tmp_path / "blocks.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert table.names.tolist() == seen[2].tolist()


class TestKinds:
    """A model tells what its columns are: a new file is not guessed at."""

    def model(self, **columns):
        frame = pd.DataFrame(columns)
        return TableClassifier(MCLDCEClassifierCV()).fit(frame, np.array(["p", "q"] * (len(frame) // 2)))

    @pytest.mark.parametrize(
        ("known", "cells"),
        [
            (["01", "1", "a", "b"], ["01", "1", "1", "01"]),  # which pandas takes for numbers
            (["1", "2", "a", "b"], ["1.0", "2.0", "", "1"]),  # whole numbers with one missing, as pandas writes them
            (["1.0", "2.0", "a", "b"], ["1.0", "2.0", "1.0", "1.0"]),
            (["True", "False"] * 2, ["true", "FALSE", "True", "False"]),
        ],
    )
    def test_categories_in_the_spelling_of_training(self, tmp_path, known, cells):
        model = self.model(c=known * 4, x=np.arange(16) % 5)
        (tmp_path / "t.csv").write_text(text(c=cells, x=[1, 2, 3, 4]))
        X = model.preprocessor_.transform(read_for(model, tmp_path / "t.csv").X)[:, 1:]
        names = model.preprocessor_.categories_["c"]
        spelled = [names[k] if row[k] else None for row, k in zip(X, X.argmax(axis=1), strict=True)]
        same = {"true": "True", "FALSE": "False"} | ({"1.0": "1", "2.0": "2"} if "1" in known else {})
        assert spelled == [same.get(cell, cell) or None for cell in cells]

    @pytest.mark.parametrize(("word", "said"), [("oops", "'oops'"), ("True", "'True'"), ("1_000", "'1_000'")])
    @pytest.mark.parametrize("row", [0, 7])
    def test_a_bad_cell_is_named(self, tmp_path, word, said, row):
        model = self.model(x=np.arange(16) % 5)
        cells = [str(k) for k in range(9)]
        cells[row] = word
        (tmp_path / "t.csv").write_text(text(x=cells))
        words = rf"column 'x' must hold numbers, but row {row} has {said} \(1 such values\)"
        with pytest.raises(ValueError, match=words):
            predict_table(model, read_for(model, tmp_path / "t.csv"))
        with pytest.raises(ValueError, match=words):
            predict_files(model, tmp_path / "t.csv", tmp_path / "p.csv", 3)
        assert not (tmp_path / "p.csv").exists()

    def test_kinds_of_a_model(self):
        assert self.model(c=["a", "b", "b", "a"] * 3, x=np.arange(12) % 5).kinds == {"x": "number", "c": "category"}


def test_a_schema_decides_for_all_blocks(tmp_path):
    """Whole numbers in one row group and missing ones in another are one column."""
    table = pa.table({"a": pa.array([1, 2, 3, None, 5, 6]), "y": ["p", "q"] * 3})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    check_same(in_blocks(tmp_path / "t.parquet"), whole(tmp_path / "t.parquet"))
