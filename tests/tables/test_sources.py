import pickle

import numpy as np
import pytest
from scipy import sparse

from unflip.tables import Block, BlockError, find_classes, open_source

X = np.arange(24.0).reshape(12, 2)
Y = np.array(list("abcabcabcabc"))
W = np.arange(12.0)


def whole(source):
    blocks = list(source.blocks())
    matrices = [block.X.toarray() if sparse.issparse(block.X) else block.X for block in blocks]
    return np.concatenate(matrices), np.concatenate([block.y for block in blocks]), blocks


def frame():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"p": X[:, 0], "q": X[:, 1], "label": Y, "w": W})


@pytest.mark.parametrize(
    "make",
    [
        lambda: open_source(X, Y, rows=5),
        lambda: open_source((X, Y), rows=5),
        lambda: open_source((X, Y, W), rows=5),
        lambda: open_source(X.tolist(), Y.tolist(), rows=5),
        lambda: open_source(sparse.csr_array(X), Y, rows=5),
        lambda: open_source(frame()[["p", "q"]], frame()["label"], rows=5),
        lambda: open_source(frame(), label="label", weights="w", rows=5),
        lambda: open_source(frame(), label="label", columns=["p", "q"], rows=5),
        lambda: open_source(np.hstack([W[:, None], X]), Y, columns=[1, 2], rows=5),
        lambda: open_source([(X[:5], Y[:5]), (X[5:10], Y[5:10]), (X[10:], Y[10:])]),
        lambda: open_source((X[i : i + 5], Y[i : i + 5], W[i : i + 5]) for i in (0, 5, 10)),
        lambda: open_source(lambda: ([X[i : i + 5], Y[i : i + 5]] for i in (0, 5, 10))),
        lambda: open_source([(frame()[["p", "q"]][i : i + 5], Y[i : i + 5]) for i in (0, 5, 10)]),
        lambda: open_source([Block(X[i : i + 5], Y[i : i + 5], None, "block x", i) for i in (0, 5, 10)]),
    ],
)
def test_all_rows_in_their_order(make):
    found, labels, blocks = whole(make())
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(labels, Y)
    assert [block.start for block in blocks] == [0, 5, 10]
    assert [len(block) for block in blocks] == [5, 5, 2]


def test_weights_and_names_come_along():
    blocks = list(open_source(frame(), label="label", weights="w", rows=5).blocks())
    assert np.concatenate([block.weights for block in blocks]).tolist() == W.tolist()
    assert blocks[0].feature_names == ("p", "q")


def test_rows_without_labels_can_be_read():
    assert [block.y for block in open_source(X, rows=8).blocks()] == [None, None]


@pytest.mark.parametrize("dtype", ["float32", "float64", ">f4", "uint8", "float16", "bool"])
def test_precision(dtype):
    (block,) = open_source(X.astype(dtype), Y).blocks()
    assert block.X.dtype == (np.float32 if np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize <= 4 else float)
    np.testing.assert_array_equal(block.X, X.astype(dtype))


def test_data_frames_keep_float32():
    pd = pytest.importorskip("pandas")
    single = pd.DataFrame({"p": np.float32([1, 2]), "q": np.float32([3, 4])})
    mixed = single.assign(q=pd.array([1, None], dtype="Int64"))
    assert [block.X.dtype for block in open_source([(single, [0, 1])]).blocks()] == [np.float32]
    (block,) = open_source(mixed, [0, 1]).blocks()
    assert block.X.dtype == np.float64
    assert np.isnan(block.X[1, 1])


class TestMemoryMaps:
    def test_a_part_is_the_name_of_the_file(self, tmp_path):
        np.save(tmp_path / "X.npy", np.arange(200_000.0).reshape(-1, 4))
        np.save(tmp_path / "y.npy", np.arange(50_000) % 3)
        source = open_source(tmp_path / "X.npy", tmp_path / "y.npy", rows=20_000)
        parts = source.parts()
        assert len(pickle.dumps(parts)) < 5_000
        again = [block for part in pickle.loads(pickle.dumps(parts)) for block in part.blocks()]
        np.testing.assert_array_equal(np.concatenate([b.X for b in again]), np.load(tmp_path / "X.npy"))
        np.testing.assert_array_equal(np.concatenate([b.y for b in again]), np.load(tmp_path / "y.npy"))
        assert find_classes(source).tolist() == [0, 1, 2]

    @pytest.mark.parametrize("cut", [np.s_[3:], np.s_[::2], np.s_[:, 1:], np.s_[::-1]])
    def test_a_view_is_the_view(self, tmp_path, cut):
        np.save(tmp_path / "X.npy", X)
        view = np.load(tmp_path / "X.npy", mmap_mode="r")[cut]
        found, _, _ = whole(open_source(view, np.zeros(len(view), int), rows=4))
        np.testing.assert_array_equal(found, X[cut])

    def test_fortran_order_and_raw_files(self, tmp_path):
        np.save(tmp_path / "X.npy", np.asfortranarray(X))
        np.testing.assert_array_equal(whole(open_source(tmp_path / "X.npy", Y, rows=5))[0], X)
        X.astype(np.float32).tofile(tmp_path / "X.bin")
        raw = np.memmap(tmp_path / "X.bin", np.float32, mode="r", shape=(10, 2), offset=16)
        np.testing.assert_array_equal(whole(open_source(raw, Y[2:], rows=3))[0], X[2:])

    def test_a_copy_on_write_map_is_what_the_user_sees(self, tmp_path):
        np.save(tmp_path / "X.npy", X)
        changed = np.load(tmp_path / "X.npy", mmap_mode="c")
        changed[:] = -X
        np.testing.assert_array_equal(whole(open_source(changed, Y, rows=5))[0], -X)
        np.testing.assert_array_equal(np.load(tmp_path / "X.npy"), X)

    def test_pickled_arrays_are_refused(self, tmp_path):
        np.save(tmp_path / "X.npy", np.array([object()]), allow_pickle=True)
        with pytest.raises(ValueError, match="X.npy cannot be read as an array"):
            open_source(tmp_path / "X.npy", [1])


def test_an_iterator_is_read_once():
    source = open_source(iter([(X, Y)]))
    assert not source.rereadable
    assert len(list(source.blocks())) == 1
    with pytest.raises(ValueError, match="cannot be read again; give a function"):
        list(source.blocks())
    again = open_source(lambda: iter([(X, Y)]))
    assert again.rereadable
    assert len(list(again.blocks())) == len(list(again.blocks())) == 1


def test_an_open_source_is_itself():
    source = open_source(X, Y)
    assert open_source(source) is source
    with pytest.raises(ValueError, match="label cannot be given with an open source"):
        open_source(source, label="y")


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([(X, Y[:5])], "block 0, rows 0 to 11: X has 12 rows but there are 5 labels"),
        ([(X, Y), (X, Y, W[:3])], "block 1, rows 12 to 23: X has 12 rows but there are 3 weights"),
        ([(X, Y), (X[:, :1], Y)], "block 1, rows 12 to 23: X has 1 columns, but X has 2 columns in the first"),
        (
            [(X, Y, -W)],
            "block 0, rows 0 to 11: the weight is -1.0 in row 1 .11 such rows.; a weight must be a number >= 0",
        ),
        ([(X, Y, W + np.nan)], "the weight is nan in row 0"),
        ([(X, Y), (X, ["a"] * 11 + [None])], "block 1, rows 12 to 23: the label is missing in row 23"),
        ([(X, Y), (X, [0.0] * 11 + [np.nan])], "block 1, rows 12 to 23: the label is missing in row 23"),
        ([(X, [""] + ["a"] * 11)], "the label is missing in row 0"),
        ([(X, [0.5] * 12)], "the label is 0.5 in row 0: it looks like a number to predict"),
        ([(X, [1, "a"] * 6, None)], None),  # NumPy makes strings of a list of both
        (
            [(X, np.array([1, "a"] * 6, dtype=object))],
            "the label must be of one kind, all numbers or all strings; it holds int, str",
        ),
        ([(X, Y.reshape(6, 2))], "the label has shape .6, 2.; one label per row is needed"),
        ([(X.ravel(), Y)], "X must be a matrix of shape"),
        ([(X + 1j, Y)], "X must hold real numbers"),
        ([(X.astype(str).astype(object) + "x", Y)], "X must hold numbers"),
        ([(3, Y)], "block 0: X must be a matrix"),
        ([(X, Y, W, W)], "block 0: a block is"),
    ],
)
def test_a_bad_block_is_named(blocks, message):
    source = open_source(blocks)
    if message is None:
        assert len(list(source.blocks())) == 1
        return
    with pytest.raises(BlockError, match=message):
        list(source.blocks())


def test_columns_of_data_frames_must_agree():
    pd = pytest.importorskip("pandas")
    first, second = pd.DataFrame(X, columns=["p", "q"]), pd.DataFrame(X, columns=["q", "p"])
    with pytest.raises(BlockError, match="block 1, rows 12 to 23: the columns are .'q', 'p'."):
        list(open_source([(first, Y), (second, Y)]).blocks())


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((X, Y), (X, None), "there are no labels, but there are labels in the first block; make all blocks the same"),
        ((X, None), (X, Y), "there are labels, but there are no labels in the first block"),
        ((X, Y, W), (X, Y), "there are no weights, but there are weights in the first"),
        ((X, Y), (X, Y, W), "there are weights, but there are no weights in the first"),
        ((X, Y), (sparse.csr_array(X), Y), "X is sparse, but X is dense in the first block"),
        ((sparse.csr_array(X), Y), (X, Y), "X is dense, but X is sparse in the first block"),
    ],
)
def test_blocks_must_be_like_the_first(first, second, message):
    with pytest.raises(BlockError, match=f"^block 1, rows 12 to 23: {message}"):
        list(open_source([first, second]).blocks())


def test_labels_that_end_are_seen_where_only_labels_are_read():
    with pytest.raises(
        BlockError, match="^block 1, rows 12 to 23: there are no labels, but there are labels in the first"
    ):
        find_classes(open_source([(X, Y), (X, None)]))


def test_a_block_of_the_users_own_is_checked():
    (block,) = open_source([Block([[1, 2], [3, 4]], ["a", "b"], [1, 2], "mine", 7)]).blocks()
    assert (block.X.dtype, block.y.dtype.kind, block.weights.dtype) == (np.float64, "U", np.float64)
    assert block.where == "mine, rows 7 to 8"
    with pytest.raises(BlockError, match="^mine, rows 7 to 8: X has 2 rows but there are 1 labels"):
        list(open_source([Block(X[:2], np.array(["a"]), None, "mine", 7)]).blocks())
    with pytest.raises(BlockError, match="^mine, rows 7 to 18: there are no labels"):
        find_classes(open_source([Block(X, None, None, "mine", 7)]))


@pytest.mark.parametrize("columns", [[0, 1], [0, "q"]])
def test_names_that_are_not_strings_are_no_names(columns):
    pd = pytest.importorskip("pandas")
    numbered = pd.DataFrame(X, columns=columns)
    for source in (open_source(numbered, Y), open_source([(numbered, Y)]), open_source(numbered, Y, columns=columns)):
        found, _, blocks = whole(source)
        np.testing.assert_array_equal(found, X)
        assert source.feature_names is None
        assert blocks[0].feature_names is None


def test_blank_labels_are_missing():
    for kind in (str, object):
        with pytest.raises(BlockError, match="block 0, rows 0 to 11: the label is missing in row 4"):
            list(open_source(X, np.array(["a"] * 4 + ["  "] + ["b"] * 7, dtype=kind)).blocks())


def test_labels_of_a_strange_kind_are_named():
    for label, said in ((b"a", "bytes"), (frozenset(), "frozenset")):
        with pytest.raises(
            BlockError, match=f"the label holds {said}; labels must be strings, whole numbers or booleans"
        ):
            list(open_source(X, np.array([label] * 12, dtype=object)).blocks())


class TestChecks:
    def block(self, X, y=None, names=None):
        return Block(X, y, None, "block 4", 100, names)

    def test_codes(self):
        block = self.block(X, Y)
        assert block.codes(np.array(["a", "b", "c"])).tolist() == [0, 1, 2] * 4
        with pytest.raises(
            BlockError, match="block 4, rows 100 to 111: row 102 has the label 'c', which is not one of"
        ):
            block.codes(np.array(["a", "b", "d"]))
        with pytest.raises(BlockError, match="the labels are <U1.*but the classes are int64"):
            block.codes(np.arange(3))

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_finite(self, form, value):
        bad = X.copy()
        bad[7, 1] = value
        self.block(form(X)).check_finite()
        with pytest.raises(BlockError, match=f"block 4, rows 100 to 111: row 107 has {value} in column 1"):
            self.block(form(bad)).check_finite()
        with pytest.raises(BlockError, match="in column 'q' "):
            self.block(form(bad), names=["p", "q"]).check_finite()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: open_source(X, Y, rows=0), "rows must be a whole number"),
        (lambda: open_source(X, Y[:3]), "X has 12 rows but there are 3 labels"),
        (lambda: open_source(X, Y, columns=[2]), "columns of an array are numbers from 0 to 1"),
        (lambda: open_source(X, Y, columns=["p"]), "columns of an array are numbers from 0 to 1"),
        (lambda: open_source(X, label="y"), "label cannot be given with an array"),
        (lambda: open_source([(X, Y)], columns=[0]), "columns cannot be given with an iterable"),
        (lambda: open_source(3), "a source is X with y, a path"),
        (lambda: open_source(X, "y.csv"), "y must be labels or an .npy file"),
        (lambda: open_source(frame(), label="lable"), "no column 'lable'; did you mean 'label'"),
        (lambda: open_source(frame(), Y, columns=["z"]), "no column 'z'"),
        (lambda: open_source(frame(), Y, label="label"), "give y or label, not both"),
        (lambda: open_source(frame(), label="label", columns=["p", "label"]), "columns must not contain the label"),
        (lambda: open_source(frame(), label="label", weights="label"), "label and weights are both 'label'"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
