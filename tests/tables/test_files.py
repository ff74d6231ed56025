import pickle

import numpy as np
import pytest

from unflip.linear import class_sums
from unflip.tables import BlockError, find_classes, open_source, read_table
from unflip.transition import sample_rows

pd = pytest.importorskip("pandas", reason="pandas is not installed: pip install 'unflip[data]'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'unflip[data]'")
pq = pytest.importorskip("pyarrow.parquet")

N = 1000


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(N, 4)), columns=["a", "b", "c", "d"]).assign(
        label=np.array(["cat", "dog", "owl"])[rng.integers(3, size=N)], weight=rng.uniform(size=N)
    )


@pytest.fixture
def folder(table, tmp_path):
    """Three Parquet files with row groups of 70 rows."""
    path = tmp_path / "data"
    path.mkdir()
    for number, (start, stop) in enumerate([(0, 300), (300, 350), (350, N)]):
        table[start:stop].to_parquet(path / f"part-{number}.parquet", row_group_size=70, index=False)
    return path


def whole(source):
    blocks = list(source.blocks())
    return np.concatenate([b.X for b in blocks]), np.concatenate([b.y for b in blocks]), blocks


class TestParquet:
    @pytest.mark.parametrize("rows", [pytest.param(1, marks=pytest.mark.slow), 9, 70, 100, 10_000])
    def test_all_rows_in_their_order(self, table, folder, rows):
        source = open_source(folder, label="label", weights="weight", rows=rows)
        X, y, blocks = whole(source)
        np.testing.assert_array_equal(X, table[["a", "b", "c", "d"]])
        assert y.tolist() == table["label"].tolist()
        np.testing.assert_array_equal(np.concatenate([b.weights for b in blocks]), table["weight"])
        assert source.feature_names == ("a", "b", "c", "d")
        assert source.n_rows == N
        assert max(map(len, blocks)) <= rows
        # a row's number is that in its file
        last = blocks[-1]
        assert (last.start + len(last), last.name.split(",")[0]) == (650, str(folder / "part-2.parquet"))

    def test_a_part_is_a_row_group_or_several_small_ones(self, folder):
        assert len(open_source(folder, label="label", rows=70).parts()) == 5 + 1 + 10
        parts = open_source(folder, label="label", rows=140).parts()
        assert [part.run for part in parts[:4]] == [(0, 1), (2, 3), (4,), (0,)]
        assert [part.start for part in parts[:4]] == [0, 140, 280, 0]
        assert next(pickle.loads(pickle.dumps(parts[1])).blocks()).where.startswith(
            f"{folder / 'part-0.parquet'}, row groups 2 to 3, rows 140 to"
        )

    @pytest.mark.parametrize("pattern", ["*.parquet", "part-[0-9].parquet"])
    def test_patterns_and_lists(self, folder, pattern):
        names = [str(folder / f"part-{number}.parquet") for number in range(3)]
        found = [whole(open_source(source, label="label", columns=["a"]))[0] for source in (folder / pattern, names)]
        np.testing.assert_array_equal(*found)

    def test_only_the_wanted_columns_are_read(self, folder, monkeypatch):
        read = []
        iter_batches = pq.ParquetFile.iter_batches

        def spy(self, batch_size, row_groups, columns, **rest):
            read.append(tuple(columns))
            return iter_batches(self, batch_size, row_groups, columns, **rest)

        monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
        source = open_source(folder, label="label", columns=["d", "a"], rows=10_000)
        assert find_classes(source, threads=1).tolist() == ["cat", "dog", "owl"]
        assert read == [("label",)] * 3  # of the first pass; each file once
        sums = class_sums(source, classes=["cat", "dog", "owl"], threads=1)
        assert read[3:] == [("d", "a", "label")] * 3  # one pass
        assert sums.n_features == 2

    def test_the_order_of_columns_is_that_asked_for(self, table, folder):
        X = whole(open_source(folder, label="label", columns=["d", "a"]))[0]
        np.testing.assert_array_equal(X, table[["d", "a"]])

    @pytest.mark.parametrize(
        ("labels", "kind"),
        [
            (np.array([3, 1, 2]), "i"),
            (np.array([3.0, 1.0, 2.0]), "i"),
            (np.array([True, False, True]), "b"),
            (pd.Categorical(["x", "y", "x"], ["y", "x", "unused"]), "U"),
            (pd.array([3, 1, 2], dtype="Int64"), "i"),
        ],
    )
    def test_kinds_of_labels(self, tmp_path, labels, kind):
        pd.DataFrame({"x": np.arange(3), "y": labels}).to_parquet(tmp_path / "t.parquet")
        y = whole(open_source(tmp_path / "t.parquet", label="y"))[1]
        assert y.dtype.kind == kind
        assert y.tolist() == list(labels)

    @pytest.mark.parametrize("kind", ["float32", "float16", "int8", "bool"])
    def test_kinds_of_features(self, tmp_path, kind):
        values = np.array([[1, 0], [0, 1], [1, 1]]).astype(kind)
        table = pa.table({"p": values[:, 0], "q": values[:, 1], "y": [0, 1, 0]})
        pq.write_table(table, tmp_path / "t.parquet")
        X, _, _ = whole(open_source(tmp_path / "t.parquet", label="y"))
        assert X.dtype == (np.float32 if kind.startswith("float") else np.float64)
        np.testing.assert_array_equal(X, values)

    def test_missing_values_are_nan_and_missing_labels_are_named(self, tmp_path):
        for name, column in (("x", [1, None, 3]), ("f", [1.0, None, 3.0])):
            pq.write_table(pa.table({name: column, "y": ["a", "b", "b"]}), tmp_path / "t.parquet")
            X = whole(open_source(tmp_path / "t.parquet", label="y"))[0]
            np.testing.assert_array_equal(X, [[1], [np.nan], [3]])
        pq.write_table(pa.table({"x": [1, 2, 3], "y": ["a", None, "b"]}), tmp_path / "t.parquet")
        with pytest.raises(BlockError, match="t.parquet, row group 0, rows 0 to 2: the label 'y' is missing in row 1"):
            whole(open_source(tmp_path / "t.parquet", label="y"))

    @pytest.mark.parametrize("double", [0, 1])
    def test_float32_only_if_it_is_so_in_all_files(self, tmp_path, double):
        values = np.array([1e9 + 1, 1e9 + 2])  # the same in float32
        for number in range(2):
            kind = np.float64 if number == double else np.float32
            pq.write_table(pa.table({"x": values.astype(kind), "y": [0, 1]}), tmp_path / f"{number}.parquet")
        X, _, blocks = whole(open_source(tmp_path, label="y"))
        assert {block.X.dtype for block in blocks} == {np.dtype(np.float64)}
        np.testing.assert_array_equal(X[2 * double :][:2, 0], values)

    @pytest.mark.parametrize(("labels", "kind"), [(([True, False], [0, 2]), "bool"), ((["b", "a"], [0, 2]), "text")])
    def test_files_whose_labels_are_of_different_kinds(self, tmp_path, labels, kind):
        for number, y in enumerate(labels):
            pq.write_table(pa.table({"x": [1.0, 2.0], "y": y}), tmp_path / f"{number}.parquet")
        words = f"the column 'y' holds numbers in .*1.parquet, but {kind} in .*0.parquet; write it as one type"
        with pytest.raises(ValueError, match=words):
            class_sums(tmp_path, label="y")

    def test_binary_labels(self, tmp_path):
        pq.write_table(pa.table({"x": [1.0, 2.0], "y": [b"a", b"b"]}), tmp_path / "t.parquet")
        with pytest.raises(
            BlockError, match="row group 0, rows 0 to 1: the label 'y' holds bytes; labels must be strings"
        ):
            class_sums(tmp_path / "t.parquet", label="y")

    def test_lists_are_no_labels(self, tmp_path):
        pq.write_table(pa.table({"x": [1.0, 2.0], "y": [[1], [2]]}), tmp_path / "t.parquet")
        with pytest.raises(BlockError, match="rows 0 to 1: the label 'y' is a list in row 0, .1.; one label"):
            class_sums(tmp_path / "t.parquet", label="y")

    @pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
    def test_labels_lose_the_spaces_around_them(self, tmp_path, kind):
        y = pa.array([" a", "a ", "a", "b\t"])
        try:
            y = y.dictionary_encode() if kind == "dictionary" else y.cast(getattr(pa, kind)())
        except pa.ArrowNotImplementedError:
            pytest.skip(f"this pyarrow cannot make a {kind}")
        pq.write_table(pa.table({"x": np.arange(4.0), "y": y}), tmp_path / "t.parquet")
        assert whole(open_source(tmp_path / "t.parquet", label="y"))[1].tolist() == ["a", "a", "a", "b"]

    def test_a_file_that_breaks_off(self, folder):
        broken = folder / "part-1.parquet"
        broken.write_bytes(broken.read_bytes()[:-20])
        with pytest.raises(ValueError, match="part-1.parquet cannot be read as Parquet"):
            open_source(folder, label="label")

    def test_a_file_that_breaks_off_later(self, folder):
        source = open_source(folder, label="label", rows=70)
        (folder / "part-1.parquet").unlink()
        with pytest.raises(ValueError, match="part-1.parquet, row group 0 cannot be read"):
            find_classes(source)

    def test_a_file_with_other_columns(self, folder, table):
        table.drop(columns="c").to_parquet(folder / "part-3.parquet")
        with pytest.raises(ValueError, match="part-3.parquet, unlike .*part-0.parquet, has no column 'c'"):
            open_source(folder, label="label")


class TestCSV:
    @pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "semicolon.csv"])
    def test_all_rows_in_their_order(self, table, tmp_path, name):
        path = tmp_path / name
        table.to_csv(path, index=False, sep="\t" if "tsv" in name else ";" if "semi" in name else ",")
        source = open_source(path, label="label", weights="weight", rows=300)
        X, y, blocks = whole(source)
        np.testing.assert_allclose(X, table[["a", "b", "c", "d"]], atol=1e-15)  # pandas 2 rounds the last digit
        assert y.tolist() == table["label"].tolist()
        assert [block.where for block in blocks][-1] == f"{path}, rows 900 to 999"
        assert find_classes(source).tolist() == ["cat", "dog", "owl"]

    def test_several_blocks(self, table, tmp_path):
        table.to_csv(tmp_path / "t.csv")  # with the index as a column without name
        X, _, blocks = whole(open_source(tmp_path / "t.csv", label="label", columns=["b", "a"], rows=100))
        np.testing.assert_allclose(X, table[["b", "a"]], atol=1e-15)
        assert len(blocks) > 5
        assert [b.start for b in blocks[1:]] == np.cumsum([len(b) for b in blocks[:-1]]).tolist()
        assert open_source(tmp_path / "t.csv", label="label").feature_names == ("a", "b", "c", "d", "weight")

    def test_whole_numbers_later_fractions(self, tmp_path):
        lines = [f"{i},{i % 2}" for i in range(100)] + ["0.5,1"]
        (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]))
        X, y, _ = whole(open_source(tmp_path / "t.csv", label="y", rows=30))
        assert X[-1, 0] == 0.5
        assert y.dtype.kind == "i"

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ("word,1", "t.csv, rows 1980 to 2000: column 'x' must hold numbers, but row 2000 has 'word'"),
            ("1", "t.csv, rows 1980 to 2000: the label 'y' is missing in row 2000"),
            ("1,0.5", "t.csv, rows 1980 to 2000: the label 'y' is 0.5 in row 2000: it looks like a number"),
            ("1,0,3", "t.csv cannot be read as a table: .*line 2002, saw 3"),
            ("True,0\nFalse,1", "t.csv cannot be read|column 'x' has booleans, but numbers in the first rows"),
        ],
    )
    def test_a_bad_line_is_named(self, tmp_path, wrong, words):
        lines = [f"{i},{i % 2}" for i in range(2000)] + [wrong]
        (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]))
        with pytest.raises(ValueError, match=words):
            class_sums(tmp_path / "t.csv", label="y", rows=2000 if "True" in wrong else 60)

    def test_one_word_makes_all_labels_text(self, tmp_path):
        lines = [f"{i},{i % 2:02}" for i in range(2000)] + ["1,word"]
        (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]))
        sums = class_sums(tmp_path / "t.csv", label="y", rows=60)
        assert sums.classes.tolist() == ["00", "01", "word"]
        assert sums.counts.tolist() == [1000, 1000, 1]
        assert class_sums(tmp_path / "t.csv", label="y", classes=["00", "01", "word"], rows=60).weight == 2001
        assert sample_rows(tmp_path / "t.csv", 5, label="y", rows=60).y.dtype.kind == "U"
        assert read_table(tmp_path / "t.csv", "y").class_names == ("00", "01", "word")

    def test_missing(self, tmp_path):
        (tmp_path / "t.csv").write_text("x,y\n1,a\n,b\n3,a\n")
        np.testing.assert_array_equal(whole(open_source(tmp_path / "t.csv", label="y"))[0], [[1], [np.nan], [3]])
        (tmp_path / "t.csv").write_text("x,y\n1,a\n2,\n3,a\n")
        with pytest.raises(BlockError, match="t.csv, rows 0 to 2: the label 'y' is missing in row 1"):
            whole(open_source(tmp_path / "t.csv", label="y"))

    def test_booleans_as_features(self, tmp_path):
        """Of each file by itself: 2 would be no boolean."""
        (tmp_path / "a.csv").write_text("x,z,y\nTrue,1,a\nfalse,2,b\n,3,b\n")
        (tmp_path / "b.csv").write_text("x,z,y\n2,1,a\n0,2,b\n")
        X = whole(open_source(tmp_path, label="y"))[0]
        np.testing.assert_array_equal(X, [[1, 1], [0, 2], [np.nan, 3], [2, 1], [0, 2]])

    def test_labels_lose_the_spaces_around_them(self, tmp_path):
        (tmp_path / "t.csv").write_text("x,y\n1, a\n2,a \n3,a\n4,b\n")
        assert class_sums(tmp_path / "t.csv", label="y").classes.tolist() == ["a", "b"]
        (tmp_path / "t.csv").write_text("x,y\n1,a\n2,  \n")
        with pytest.raises(BlockError, match="t.csv, rows 0 to 1: the label 'y' is missing in row 1"):
            class_sums(tmp_path / "t.csv", label="y")

    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            (("01", "ab"), ["0", "1", "a", "b"]),  # text in one file is text in all
            (("ab", "01"), ["0", "1", "a", "b"]),
            (("", "01"), [0, 1]),  # a file without rows
            (("01", ["2.0"]), [0, 1, 2]),
            ((["True", "False"], ["x"]), ["False", "True", "x"]),
            ((["True", "False"], "01"), ["0", "1", "False", "True"]),  # as in a single file
        ],
    )
    def test_kinds_of_labels_of_several_files(self, tmp_path, labels, expected):
        for number, written in enumerate(labels):
            (tmp_path / f"{number}.csv").write_text("x,y\n" + "".join(f"1,{label}\n" for label in written))
        assert find_classes(open_source(tmp_path, label="y")).tolist() == expected

    @pytest.mark.parametrize(
        ("text", "x"),
        [("x,y\n1,a\n?,b\n", [1, np.nan]), ("x;y\n1,5;a\n2;b\n", [1.5, 2]), ("x;y\n1.5;a\n2;b\n", [1.5, 2])],
    )
    def test_question_marks_and_decimal_commas_mean_what_they_do_in_a_table(self, tmp_path, text, x):
        (tmp_path / "t.csv").write_text(text)
        np.testing.assert_array_equal(whole(open_source(tmp_path / "t.csv", label="y"))[0][:, 0], x)
        assert open_source(tmp_path / "t.csv", label="y").feature_names == ("x",)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
class TestErrors:
    @pytest.fixture
    def path(self, table, tmp_path, suffix):
        path = tmp_path / f"t.{suffix}"
        getattr(table, f"to_{suffix}")(path, index=False)
        return path

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"label": "lable"}, "has no column 'lable'; did you mean 'label'"),
            ({"label": "label", "columns": ["z"]}, "has no column 'z'"),
            ({"label": "label", "columns": ["a", "label"]}, "columns must not contain the label"),
            ({"label": "label", "weights": "label"}, "label and weights are both 'label'"),
            ({"label": "a"}, "1 columns that are not numbers: 'label' ..*; name the features with columns="),
            ({"label": "label", "y": [1]}, "name the label's column of a file with label="),
            ({"label": "label", "weights": [1]}, "weights of a file must be the name of a column"),
        ],
    )
    def test_bad_arguments(self, path, arguments, message):
        with pytest.raises(ValueError, match=message):
            open_source(path, **arguments)

    def test_no_label(self, path):
        source = open_source(path, columns=["a"])
        assert [block.y for block in source.blocks()] == [None]
        with pytest.raises(ValueError, match="there are no labels; give y, or name the label's column"):
            class_sums(source)
        with pytest.raises(ValueError, match="there are no labels; give y, or name the label's column"):
            class_sums(source, classes=[0, 1])


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.parquet does not exist"):
        open_source(tmp_path / "nothing.parquet", label="y")
    with pytest.raises(ValueError, match="has no file that ends in"):
        open_source(tmp_path, label="y")
    (tmp_path / "t.xlsx").write_text("")
    with pytest.raises(ValueError, match="must end in .parquet"):
        open_source(tmp_path / "t.xlsx", label="y")


@pytest.mark.parametrize("first", ["1,2", "0,1"])
def test_a_csv_without_header(first, tmp_path):
    (tmp_path / "t.csv").write_text(f"{first}\n3,4\n")
    said = f"the first line must name the columns, but it holds numbers: {first.replace(',', ', ')}"
    with pytest.raises(ValueError, match=said):
        open_source(tmp_path / "t.csv", label="1")


def test_an_empty_csv(tmp_path):
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(ValueError, match="t.csv is empty"):
        open_source(tmp_path / "t.csv", label="y")


def test_different_kinds(tmp_path, folder, table):
    table.to_csv(folder / "more.csv")
    with pytest.raises(ValueError, match="the files are of different kinds, .csv, .parquet"):
        open_source(folder, label="label")
