"""Reading tables: each format gives the same samples, and each mistake in a file is named."""

import gzip
import io
import sys

import numpy as np
import pytest

from tests.tables.conftest import CSV, image, written
from unflip.tables import read_table
from unflip.tables.read import labeled_rows

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
        (tmp_path / "latin.csv").write_bytes("a,b\nü,1\n".encode("latin-1"))
        with pytest.raises(ValueError, match="not text in UTF-8"):
            read_table(tmp_path / "latin.csv")
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


class TestArrays:
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 1, 0])

    def saved(self, tmp_path, **arrays):
        np.savez(tmp_path / "t.npz", **arrays)
        return tmp_path / "t.npz"

    @pytest.mark.parametrize(
        ("keys", "label"),
        [
            (("X", "y"), None),
            (("x_train", "y_train"), None),
            (("X", "given"), "given"),
            (("x_test", "y_test"), "y_test"),
        ],
    )
    def test_keys(self, tmp_path, keys, label):
        table = read_table(self.saved(tmp_path, **dict(zip(keys, (self.X, self.y), strict=True))), label)
        np.testing.assert_array_equal(table.X, self.X)
        np.testing.assert_array_equal(table.y, self.y)
        assert table.label == keys[1]
        assert table.names.tolist() == [0, 1, 2, 3]

    def test_the_samples_belong_to_the_label(self, tmp_path):
        path = self.saved(tmp_path, x_train=self.X, y_train=self.y, x_test=-self.X[:3], y_test=self.y[:3])
        np.testing.assert_array_equal(read_table(path, "y_test").X, -self.X[:3])
        np.testing.assert_array_equal(read_table(path).X, self.X)

    def test_no_labels_wanted(self, tmp_path):
        assert read_table(self.saved(tmp_path, X=self.X, y=[1, 1, 1, 1]), False).y is None

    def test_labels_in_a_column_and_as_bytes(self, tmp_path):
        path = self.saved(tmp_path, X=self.X, y=np.array([[b"p"], [b"q"], [b"q"], [b"p"]]), w=[1, 2, 3, 4])
        table = read_table(path, weights="w")
        assert table.y.tolist() == ["p", "q", "q", "p"]
        assert table.sample_weight.tolist() == [1, 2, 3, 4]

    def test_images_become_channels_first_in_unit_range(self, tmp_path):
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
        last = read_table(self.saved(tmp_path, X=pixels, y=self.y)).X
        assert (last.shape, last.dtype) == ((4, 3, 6, 5), np.float32)
        assert last[1, 2, 3, 4] == np.float32(pixels[1, 3, 4, 2]) / np.float32(255)
        grey = read_table(self.saved(tmp_path, X=pixels[..., 0], y=self.y)).X
        np.testing.assert_array_equal(grey[:, 0], last[:, 0])
        first = read_table(self.saved(tmp_path, X=pixels.transpose(0, 3, 1, 2), y=self.y)).X
        np.testing.assert_array_equal(first, last)

    @pytest.mark.parametrize(
        ("arrays", "options", "match"),
        [
            ({"Z": X, "y": y}, {}, "has no array 'X'.* It has 'Z', 'y'"),
            ({"X": X, "y": y}, {"label": "Y"}, "no array 'Y'; did you mean 'y'"),
            ({"X": X, "y": y[:3]}, {}, "lengths differ: X has 4, y has 3"),
            ({"X": X, "y": np.eye(4)}, {}, "one label per row is needed. For one-hot rows, give the place of the 1"),
            ({"X": X, "y": 3}, {}, "one label per row"),
            ({"X": X, "y": [0.5, 1, 2, 2]}, {}, "looks like a number to predict"),
            ({"X": X, "y": [np.nan] * 4}, {}, "the label is missing in row 0 .4 missing"),
            ({"X": X, "y": ["a", "", "b"]}, {}, "the label is missing in row 1"),
            ({"X": X[:, 0], "y": y}, {}, r"shape \(4,\); expected numbers"),
            ({"X": X[:0], "y": y[:0]}, {}, "is empty"),
            ({"X": X * [1, np.inf], "y": y}, {}, "infinite values, the first in row 0"),
            ({"X": X, "y": y}, {"drop": ["a", "b"]}, r"has no columns: leave out drop \('a', 'b'\)$"),
            ({"X": np.array([[{}]]), "y": y}, {}, "only pickle restores them"),
        ],
    )
    def test_mistakes(self, tmp_path, arrays, options, match):
        with pytest.raises(ValueError, match=match):
            read_table(self.saved(tmp_path, **arrays), **options)


@pytest.mark.parametrize("name", ["0.parquet", "0.csv", "year=2020/0.tsv.gz"])
def test_a_folder_of_tables(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    written(tmp_path, CSV, name)
    for options in ({}, {"label": "kind"}, {"label": False}, {"weights": "w"}):
        with pytest.raises(ValueError, match=r"a folder of tables, such as 0\..* use --out-of-core, or fit_"):
            read_table(tmp_path, **options)
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
