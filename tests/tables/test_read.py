"""Reading tables: each format gives the same samples, and each mistake in a file is named."""

import codecs
import gzip
import io
import json
import os
import sys

import numpy as np
import pytest

from tests.tables.conftest import CSV, image, written
from unflip.tables import read_table
from unflip.tables.read import labeled_rows, spooled

pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")
Image = pytest.importorskip("PIL.Image", reason="unflip[data] is not installed")


def check_pets(table):
    assert list(table.X.columns) == ["age", "town"]
    np.testing.assert_array_equal(table.X["age"], [20, np.nan, 40, 50])
    assert table.X["town"].isna().tolist() == [False, False, True, False]
    assert table.y.tolist() == ["cat", "dog", "cat", "dog"]
    assert table.sample_weight.tolist() == [1, 2, 0.5, 1]
    assert table.names.tolist() == [0, 1, 2, 3]
    assert (table.label, table.class_names) == ("kind", ("cat", "dog"))


class TestText:
    def test_columns_labels_and_weights(self, tmp_path):
        check_pets(read_table(written(tmp_path, CSV), "kind", "w"))

    @pytest.mark.parametrize("separator", [";", "\t", "|"])
    def test_other_separators(self, tmp_path, separator):
        check_pets(read_table(written(tmp_path, CSV.replace(",", separator)), "kind", "w"))
        check_pets(read_table(written(tmp_path, CSV.replace(",", "\t"), "t.TSV"), "kind", "w"))

    def test_compressed_and_with_byte_order_mark(self, tmp_path):
        (tmp_path / "t.csv.gz").write_bytes(gzip.compress(("\ufeff" + CSV).encode()))
        check_pets(read_table(tmp_path / "t.csv.gz", "kind", "w"))

    def test_an_unnamed_first_column_names_the_rows(self, tmp_path):
        frame = pd.read_csv(io.StringIO(CSV)).sample(4, random_state=1)
        frame.to_csv(tmp_path / "t.csv")
        table = read_table(tmp_path / "t.csv", "kind")
        assert table.names.tolist() == frame.index.tolist() != [0, 1, 2, 3]
        assert list(table.X.columns) == ["age", "town", "w"]
        assert table.X.index.tolist() == [0, 1, 2, 3]

    def test_without_label(self, tmp_path):
        for none in (None, False):
            table = read_table(written(tmp_path, CSV), none, drop=["w"])
            assert table.y is None
            assert table.label is None
            assert table.class_names == ()
            assert list(table.X.columns) == ["age", "town", "kind"]

    def test_a_class_may_be_called_none(self, tmp_path):
        table = read_table(written(tmp_path, "a,y\n1,None\n2,some\nNone,None\n"), "y")
        assert table.class_names == ("None", "some")
        assert table.X["a"].isna().tolist() == [False, False, True]

    @pytest.mark.parametrize(
        ("labels", "expected", "kind"),
        [
            (["1", "2", "1"], [1, 2, 1], "i"),
            (["1.0", "2.0", "1.0"], [1, 2, 1], "i"),
            (["True", "False", "True"], [True, False, True], "b"),
            (["1", "b", "1"], ["1", "b", "1"], "U"),
            (["ä|<b>", "x", "x"], ["ä|<b>", "x", "x"], "U"),
        ],
    )
    def test_kinds_of_labels(self, tmp_path, labels, expected, kind):
        lines = "\n".join(f"{i},{label}" for i, label in enumerate(labels))
        y = read_table(written(tmp_path, f"a,y\n{lines}\n"), "y").y
        assert y.tolist() == expected
        assert y.dtype.kind == kind

    def test_a_class_of_one_sample_is_allowed(self, tmp_path):
        assert read_table(written(tmp_path, "a,y\n1,p\n2,p\n3,q\n"), "y").class_names == ("p", "q")

    @pytest.mark.parametrize(
        ("text", "options", "match"),
        [
            (CSV, {"label": "kimd"}, "no column 'kimd'; did you mean 'kind'.*'age', 'town', 'kind', 'w'"),
            (CSV, {"label": "KIND"}, "did you mean 'kind'"),
            (CSV, {"weights": "weight"}, "no column 'weight'"),
            (CSV, {"drop": ["twon"]}, "no column 'twon'; did you mean 'town'"),
            (CSV, {"label": "kind", "weights": "kind"}, "both 'kind'"),
            (CSV, {"label": "kind", "drop": ["age", "town", "w"]}, "nothing is left to learn from"),
            (CSV, {"image_size": (2, 2)}, "an image size is for folders"),
            ("0.5,Ulm,cat\n1,Bonn,dog\n", {"label": "kind"}, "no column 'kind'; does the first line name the columns"),
            ("2020,kind\n1,dog\n", {"label": "kimd"}, "no column 'kimd'; did you mean 'kind'"),
            ("", {}, "is empty"),
            ("a,y\n", {"label": "y"}, "is empty: it has 2 columns and no rows"),
            ("a,b,a\n1,2,3\n", {}, "there is more than one column 'a'"),
            ("1.5,2\n1,2\n", {}, "first line must name the columns.*1.5"),
            ("a,y\n1,2\n3,4,5\n", {}, "cannot be read as a table.*line 3"),
            ("a,y\n1,2,3\n4,5,6\n", {}, "cannot be read as a table"),
            ("a,y\n1,\n2,NaN\n", {"label": "y"}, "the label 'y' is missing in row 0 .2 missing"),
            (
                "a,y\n1,0.5\n2,1\n3,1\n",
                {"label": "y"},
                "the label 'y' is 0.5 in row 0: it looks like a number to predict",
            ),
            ("a,y\n1,10\n2,11\n3,12\n", {"label": "y"}, "3 different values in 3 rows: it looks like a number"),
            ("a,y\n1,p\n2,q\n3,r\n", {"label": "y"}, "names or free text, not classes"),
            (
                "a,y\n" + "".join(f"1,{i}\n1,{i}\n" for i in range(1001)),
                {"label": "y"},
                "looks like a number to predict",
            ),
            ("a,y\n1,p\n2,p\n", {"label": "y"}, "only one class, .*'p'"),
            (
                "a,w\n1,p\n2,3\n",
                {"weights": "w"},
                "the weight 'w' is 'p' in row 0 .1 such rows.; a weight must be a number",
            ),
            ("a,w\n1,-1\n2,3\n", {"weights": "w"}, "the weight 'w' is -1 in row 0 .1 such"),
            ("a,w\n1,\n2,3\n", {"weights": "w"}, "the weight 'w' is nan in row 0"),
            ("a,w\n1,0\n2,0\n", {"weights": "w"}, "zero in every row"),
        ],
    )
    def test_mistakes(self, tmp_path, text, options, match):
        with pytest.raises(ValueError, match=match):
            read_table(written(tmp_path, text), **options)

    def test_files_that_are_not_what_they_say(self, tmp_path):
        whole = gzip.compress(CSV.encode() * 50)
        for name, content in [("cut", whole[:-20]), ("other", CSV.encode()), ("bits", whole[:12] + bytes(20))]:
            (tmp_path / f"{name}.csv.gz").write_bytes(content)
            with pytest.raises(ValueError, match="cannot be read as a table"):
                read_table(tmp_path / f"{name}.csv.gz")
        with pytest.raises(ValueError, match="must end in .csv, .tsv"):
            read_table(written(tmp_path, CSV, "t.xlsx"))
        with pytest.raises(FileNotFoundError, match="does not exist"):
            read_table(tmp_path / "nowhere.csv")


class TestParquet:
    def test_as_from_csv(self, tmp_path):
        frame = pd.read_csv(io.StringIO(CSV)).astype({"kind": "category", "w": "Float64"})
        frame.to_parquet(tmp_path / "t.parquet")
        check_pets(read_table(tmp_path / "t.parquet", "kind", "w"))

    def test_mistakes(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "t.parquet")
        with pytest.raises(ValueError, match="there is more than one column 'a'"):
            read_table(tmp_path / "t.parquet")
        with pytest.raises(ValueError, match="cannot be read as Parquet"):
            read_table(written(tmp_path, CSV, "u.parquet"))
        pd.DataFrame({"a": [1, 2, 3, 4], "y": pd.array([1, None, 2, 2], dtype="Int64")}).to_parquet(
            tmp_path / "v.parquet"
        )
        table = read_table(tmp_path / "v.parquet", "y")
        assert (table.y.tolist(), table.names.tolist(), table.unlabeled.names.tolist()) == ([1, 2, 2], [0, 2, 3], [1])
        pd.DataFrame({"a": [1, 2], "y": pd.to_datetime(["2020-01-01"] * 2)}).to_parquet(tmp_path / "d.parquet")
        with pytest.raises(ValueError, match="'y' holds datetime64.*; labels must be strings"):
            read_table(tmp_path / "d.parquet", "y")


class TestEncodings:
    """The same rows in any encoding that is found or named, on real texts."""

    @pytest.fixture
    def texts(self, suite):
        """Headlines and questions in ASCII, some with letters of Western Europe."""
        frame = pd.read_csv(suite("text/banking77"), usecols=["text", "label"]).iloc[::20]
        frame["text"] = frame["text"].str.replace("'", "’") + " " + frame["label"].map("Größe {}, naïve, £5".format)
        return frame.reset_index(drop=True)

    def read(self, frame, path, encoding, **options):
        frame.to_csv(path, index=False, encoding=encoding)
        return read_table(path, "label", **options)

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    @pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz", "t.txt"])
    def test_byte_order_marks(self, texts, tmp_path, encoding, name):
        separator = "," if "csv" in name else "\t"
        texts.to_csv(tmp_path / name, index=False, encoding=encoding, sep=separator)
        table = read_table(tmp_path / name, "label")
        assert table.X["text"].tolist() == texts["text"].tolist()
        assert table.y.tolist() == texts["label"].tolist()

    @pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
    def test_either_order_of_utf_16(self, tmp_path, mark):
        order = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-16-be"
        (tmp_path / "t.csv").write_bytes(mark + CSV.encode(order))
        check_pets(read_table(tmp_path / "t.csv", "kind", "w"))

    def test_cp1252_is_found_and_told(self, texts, tmp_path):
        with pytest.warns(UserWarning, match="not text in UTF-8; it is read as cp1252"):
            table = self.read(texts, tmp_path / "t.csv", "cp1252")
        assert table.X["text"].tolist() == texts["text"].tolist()

    def test_one_letter_at_the_end(self, tmp_path):
        (tmp_path / "t.csv").write_bytes(("a,y\n" + "1,p\n" * 400_000 + "2,né\n").encode("cp1252"))
        with pytest.warns(UserWarning, match="cp1252"):
            assert read_table(tmp_path / "t.csv", "y").class_names == ("né", "p")

    @pytest.mark.parametrize(
        ("words", "encoding"),
        [
            ("кошка собака хорошая погода", "cp1251"),
            ("кошка собака хорошая погода", "koi8-r"),
            ("猫 狗 天气 很好", "gb18030"),
            ("ねこ いぬ テスト データ", "shift-jis"),
            ("żółw gęś książka łąka ślimak", "cp1250"),
            ("schön größer müde Äpfel über", "cp437"),
        ],
    )
    def test_other_encodings_are_refused_until_they_are_named(self, tmp_path, words, encoding):
        lines = [f"{k},{word} x{k % 7}" for k, word in enumerate(words.split() * 25)]
        (tmp_path / "t.csv").write_bytes("\n".join(["a,y", *lines]).encode(encoding))
        with pytest.raises(ValueError, match="not text in UTF-8 .*ame the encoding, encoding=.* --encoding"):
            read_table(tmp_path / "t.csv", "y")
        table = read_table(tmp_path / "t.csv", "y", encoding=encoding)
        assert {name.split()[0] for name in table.class_names} == set(words.split())

    def test_utf_16_without_a_mark_is_named(self, tmp_path):
        (tmp_path / "t.csv").write_bytes(CSV.encode("utf-16-le"))
        with pytest.raises(ValueError, match="zero bytes.* It may be in utf-16-le.*--encoding utf-16-le"):
            read_table(tmp_path / "t.csv", "kind")
        check_pets(read_table(tmp_path / "t.csv", "kind", "w", encoding="UTF-16LE"))

    def test_mistakes(self, tmp_path):
        path = written(tmp_path, CSV)
        with pytest.raises(ValueError, match="unknown encoding 'utf-99'; for example utf-8"):
            read_table(path, encoding="utf-99")
        with pytest.raises(ValueError, match="not text in the encoding that was named"):
            read_table(written(tmp_path, "a,y\nü,1\nb,2\n"), encoding="ascii")
        pd.DataFrame({"a": [1, 2]}).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(ValueError, match="has no encoding, which only text has; leave out 'cp1252'"):
            read_table(tmp_path / "t.parquet", encoding="cp1252")


class TestJsonLines:
    def test_as_from_csv(self, suite, tmp_path):
        frame = pd.read_csv(suite("tables/primary_tumor"))
        lines = [row.dropna().to_dict() for _, row in frame.iterrows()]  # a key that is absent is missing
        (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
        with gzip.open(tmp_path / "t.ndjson.gz", "wt", encoding="utf-8") as file:
            file.write("\n\n".join(map(json.dumps, lines)) + "\n")
        expected = read_table(suite("tables/primary_tumor"), "target")
        for name in ("t.jsonl", "t.ndjson.gz"):
            table = read_table(tmp_path / name, "target")
            assert table.y.tolist() == expected.y.tolist()
            assert set(table.X.columns) == set(expected.X.columns)
            for column in expected.X.columns:
                found, wanted = (t.X[column].fillna("?").tolist() for t in (table, expected))
                assert found == wanted, column

    def test_types_are_those_of_json(self, tmp_path):
        rows = [
            '{"a": 1, "b": "1", "c": true, "y": "None"}',
            '{"y": "q", "d": [1], "a": 2.5}',
            '{"y": "q", "b": "\u2028"}',
        ]
        table = read_table(written(tmp_path, "\n".join(rows), "t.jsonl"), "y")
        assert list(table.X.columns) == ["a", "b", "c", "d"]
        np.testing.assert_array_equal(table.X["a"], [1, 2.5, np.nan])
        assert table.X["b"].tolist()[::2] == ["1", "\u2028"]
        assert table.class_names == ("None", "q")

    @pytest.mark.parametrize(
        ("text", "match"),
        [
            ('{"a": 1}\n{"a": 2', "line 2 is not JSON.* Each line must be a JSON object"),
            ("[1, 2]\n", "line 1 must be a JSON object such as .* got .1, 2."),
            ("\n\n", "is empty"),
            ('{"a": 1, "y": null}\n{"a": 2}', "the label 'y' is missing in row 0 .2 missing"),
        ],
    )
    def test_mistakes(self, tmp_path, text, match):
        with pytest.raises(ValueError, match=match):
            read_table(written(tmp_path, text, "t.jsonl"), "y")


class TestSeveral:
    """Several files are one table; what a column is depends on all of them."""

    @pytest.fixture
    def parts(self, suite, tmp_path):
        frame = pd.read_csv(suite("tables/vehicle"))
        for number, start in enumerate(range(0, len(frame), 300)):
            frame[start : start + 300].to_csv(tmp_path / f"part-{number}.csv", index=False)
        return tmp_path

    def test_lists_patterns_and_folders(self, parts, suite):
        expected = read_table(suite("tables/vehicle"), "target")
        files = [parts / f"part-{number}.csv" for number in range(3)]
        for path in (files, parts / "*.csv", str(parts / "part-[0-2].csv"), parts, [parts / "part-*.csv"]):
            table = read_table(path, "target")
            pd.testing.assert_frame_equal(table.X, expected.X)
            assert table.y.tolist() == expected.y.tolist()
            assert table.names.tolist() == expected.names.tolist()

    def test_a_column_is_what_all_files_say(self, tmp_path):
        written(tmp_path, "a,y,w\n01,1,2\n2,2,1\n", "a.csv")
        written(tmp_path, "y,a,w,other\nx,b,1,0\n2,,1,0\n", "b.csv")
        table = read_table(tmp_path / "*.csv", "y", "w")
        assert table.X["a"].fillna("").tolist() == ["01", "2", "b", ""]
        assert table.y.tolist() == ["1", "2", "x", "2"]
        assert table.sample_weight.tolist() == [2, 1, 1, 1]

    def test_one_file_of_a_pattern(self, tmp_path):
        written(tmp_path, CSV)
        for path in (tmp_path / "t*.csv", [tmp_path / "t.csv"]):
            check_pets(read_table(path, "kind", "w"))

    def test_other_formats(self, parts, suite):
        expected = read_table(suite("tables/vehicle"), "target")
        for number in range(3):
            part = pd.read_csv(parts / f"part-{number}.csv")
            part.to_json(parts / f"part-{number}.jsonl", orient="records", lines=True)
            part.to_feather(parts / f"part-{number}.feather")
        for kind in ("jsonl", "feather"):
            pd.testing.assert_frame_equal(read_table(parts / f"*.{kind}", "target").X, expected.X)

    def test_mistakes(self, parts):
        with pytest.raises(FileNotFoundError, match=r"nothing-\*.csv does not exist"):
            read_table(parts / "nothing-*.csv")
        written(parts, CSV, "part-3.csv")
        with pytest.raises(ValueError, match="part-3.csv, unlike .*part-0.csv, has no column 'COMPACTNESS'"):
            read_table(parts / "*.csv", "target")
        written(parts, '{"a": 1}', "part-3.jsonl")
        with pytest.raises(ValueError, match="of different kinds, .csv, .jsonl; give one kind"):
            read_table(parts)


class TestStreams:
    @pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "jsonl", "parquet", "feather", "npz"])
    def test_the_first_bytes_tell_the_format(self, tmp_path, kind, monkeypatch):
        frame = pd.read_csv(io.StringIO(CSV))
        path = tmp_path / f"t.{kind}"
        if "csv" in kind or kind == "tsv":
            frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
        elif kind == "jsonl":
            frame.to_json(path, orient="records", lines=True)
        elif kind == "npz":
            np.savez(path, X=frame[["w"]], y=frame["kind"].to_numpy(str))
        else:
            (frame.to_parquet if kind == "parquet" else frame.to_feather)(path)
        expected = read_table(path, "y" if kind == "npz" else "kind")
        for given in (io.BytesIO(path.read_bytes()), "-"):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
            table = read_table(given, "y" if kind == "npz" else "kind")
            assert table.y.tolist() == expected.y.tolist()
            pd.testing.assert_frame_equal(pd.DataFrame(table.X), pd.DataFrame(expected.X))

    def test_text_and_a_file_that_is_removed(self):
        stream = io.StringIO(CSV)
        check_pets(read_table(stream, "kind", "w"))
        path = spooled(stream)
        assert os.path.exists(path)
        del stream
        assert not os.path.exists(path)


@pytest.mark.parametrize("name", ["0.parquet", "0.csv", "year=2020/0.tsv.gz"])
def test_a_folder_of_tables(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    frame = pd.read_csv(io.StringIO(CSV))
    frame.to_parquet(tmp_path / name) if "parquet" in name else frame.to_csv(
        tmp_path / name, index=False, sep="\t" if "tsv" in name else ","
    )
    check_pets(read_table(tmp_path, "kind", "w"))
    image(tmp_path, "cat/1.png")
    with pytest.raises(ValueError, match="lies next to the class folders|does not end in .png"):
        read_table(tmp_path)


@pytest.mark.parametrize(("module", "name"), [("pandas", "t.csv"), ("pandas", "t.parquet"), ("PIL", "pets")])
def test_what_is_not_installed_is_named(tmp_path, pets, monkeypatch, module, name):
    if name != "pets":
        written(tmp_path, CSV, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'unflip\[data\]'"):
        read_table(tmp_path / name)


class TestMissingLabels:
    CSV = 'a,w,y\n1,1,p\n2,2,\n3,3,q\n4,4,NaN\n5,5,p\n6,6," "\n'

    def test_are_set_aside(self, tmp_path):
        table = read_table(written(tmp_path, self.CSV), "y", "w")
        assert table.y.tolist() == ["p", "q", "p"]
        assert table.sample_weight.tolist() == [1, 3, 5]
        assert table.names.tolist() == [0, 2, 4]
        assert table.unlabeled.y is None
        assert table.unlabeled.names.tolist() == [1, 3, 5]
        assert table.unlabeled.X["a"].tolist() == [2, 4, 6]
        assert table.unlabeled.X.index.tolist() == [1, 3, 5]  # the rows of the file, which errors name
        assert read_table(written(tmp_path, self.CSV)).unlabeled is None

    def test_of_an_array(self, tmp_path):
        np.savez(tmp_path / "t.npz", X=np.eye(4), y=[0, np.nan, 1, 1])
        table = read_table(tmp_path / "t.npz")
        assert table.y.tolist() == [0, 1, 1]
        np.testing.assert_array_equal(table.unlabeled.X, np.eye(4)[[1]])

    @pytest.mark.parametrize(
        "y", [["a", None, "b", float("nan")], np.array([1, np.nan, 0, np.nan]), ["x", "", "y", " "]]
    )
    def test_count_in_python(self, y):
        with pytest.warns(UserWarning, match="2 of 4 rows have no label and are left out"):
            X, labels, weights = labeled_rows(np.arange(8).reshape(4, 2), y, [1, 2, 3, 4])
        assert X.tolist() == [[0, 1], [4, 5]]
        assert len(labels) == 2
        assert weights == [1, 3]
        assert labeled_rows(X, labels) == (X, labels, None)
