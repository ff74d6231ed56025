import numpy as np
import pytest
from scipy import sparse

from unflip.core import ClassSums
from unflip.linear import MCLDCEClassifier, class_sums
from unflip.noise import corrupt, pairflip
from unflip.tables import BlockError, open_source

N, D = 1000, 5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=N)
    X = rng.normal(size=(N, D)) + 3 * np.eye(3, D)[clean]
    noisy = np.array(["cat", "dog", "owl"])[corrupt(clean, pairflip(3, 0.3), random_state=0)]
    return X, noisy, rng.uniform(size=N)


def naive(X, y, weights=None):
    """The sums as loops over the rows."""
    classes = sorted(set(y))
    w = np.ones(len(y)) if weights is None else weights
    mean = sum(w[i] * X[i] for i in range(len(y))) / w.sum()
    counts, sums = np.zeros(len(classes)), np.zeros((len(classes), X.shape[1]))
    scatter = np.zeros((X.shape[1], X.shape[1]))
    for i in range(len(y)):
        j = classes.index(y[i])
        counts[j] += w[i]
        sums[j] += w[i] * (X[i] - mean)
        scatter += w[i] * np.outer(X[i] - mean, X[i] - mean)
    return {"counts": counts, "mean": mean, "centred_sums": sums, "scatter": scatter}


def assert_naive(sums, X, y, weights=None, rtol=1e-10):
    for name, value in naive(X, y, weights).items():
        np.testing.assert_allclose(getattr(sums, name), value, rtol=rtol, atol=rtol * np.abs(value).max())


def assert_equal(sums, other):
    for name in ("counts", "mean", "centred_sums", "scatter"):
        np.testing.assert_array_equal(getattr(sums, name), getattr(other, name))


def in_blocks(*arrays, rows=130):
    return [tuple(array[i : i + rows] for array in arrays) for i in range(0, N, rows)]


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_sums_are_those_of_the_rows(data, threads, form):
    X, y, w = data
    assert_naive(class_sums(form(X), y, rows=70, threads=threads), X, y)
    assert_naive(class_sums(form(X), y, weights=w, rows=70, threads=threads), X, y, w)
    sparse_or_not = [(form(a), b, c) for a, b, c in in_blocks(X, y, w)]
    assert_naive(class_sums(sparse_or_not, threads=threads), X, y, w)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["arrays", "blocks", "memmap", "parquet", "csv"])
def test_any_number_of_threads_gives_the_same_bits(data, kind, dtype, tmp_path):
    X, y = data[0].astype(dtype), data[1]
    options = {"rows": 90}
    if kind == "arrays":
        source = (X, y)
    elif kind == "blocks":
        source, options = in_blocks(X, y), {}
    elif kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        source, options = tmp_path / "X.npy", {"rows": 90, "y": y}
    else:
        pd = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        frame, source = pd.DataFrame(X).rename(columns=str).assign(label=y), tmp_path / f"t.{kind}"
        if kind == "csv":
            frame.to_csv(source, index=False)
        else:
            frame.to_parquet(source, row_group_size=110)
        options["label"] = "label"
    one, two, five = (class_sums(source, **options, threads=threads) for threads in (1, 2, 5))
    assert_equal(one, two)
    assert_equal(one, five)
    assert_naive(one, X.astype(float), y, rtol=1e-10 if dtype == np.float64 else 1e-5)


def test_a_fit_from_blocks_is_the_fit_of_all_rows(data):
    X, y, w = data
    T = pairflip(3, 0.3)
    whole = MCLDCEClassifier(T, alpha=1.0).fit(X, y, sample_weight=w)
    blocks = MCLDCEClassifier(T, alpha=1.0).fit_sums(class_sums(in_blocks(X, y, w)))
    np.testing.assert_allclose(blocks.coef_, whole.coef_, rtol=1e-9)
    np.testing.assert_allclose(blocks.intercept_, whole.intercept_, rtol=1e-9)


def test_the_sums_know_their_names(data):
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcde")).assign(label=y)
    sums = class_sums(frame, label="label", columns=["c", "a"], rows=300)
    assert sums.classes.tolist() == ["cat", "dog", "owl"]
    assert sums.feature_names.tolist() == ["c", "a"]
    assert class_sums(X, y).feature_names is None
    blocks = [(frame[["a", "b"]][i : i + 500], y[i : i + 500]) for i in (0, 500)]
    assert class_sums(blocks).feature_names.tolist() == ["a", "b"]


def test_classes_that_no_row_has(data):
    X, y, _ = data
    sums = class_sums(X, y, classes=["ant", "cat", "dog", "owl"], rows=100)
    assert sums.counts[0] == 0
    np.testing.assert_array_equal(sums.centred_sums[0], 0)
    np.testing.assert_allclose(sums.scatter, ClassSums.of(X, np.zeros(N, int), 1).scatter)


class TestPasses:
    def read(self, data, passes):
        def blocks():
            passes.append(0)
            for block in in_blocks(*data[:2]):
                passes[-1] += len(block[0])
                yield block

        return blocks

    @pytest.mark.parametrize("threads", [1, 3])
    def test_one_pass_if_the_classes_are_given(self, data, threads):
        passes = []
        sums = class_sums(self.read(data, passes), classes=["cat", "dog", "owl"], threads=threads)
        assert passes == [N]
        assert_naive(sums, *data[:2])

    def test_a_first_pass_finds_them(self, data):
        passes = []
        assert class_sums(self.read(data, passes)).weight == N
        assert passes == [N, N]

    def test_a_generator_has_one_pass(self, data):
        X, y, _ = data
        assert_naive(class_sums(iter(in_blocks(X, y)), classes=["cat", "dog", "owl"]), X, y)
        with pytest.raises(ValueError, match="name all classes with classes="):
            class_sums(iter(in_blocks(X, y)))


@pytest.mark.parametrize("threads", [1, 3])
class TestErrors:
    def test_nan(self, data, threads):
        X = data[0].copy()
        X[777, 3] = np.nan
        with pytest.raises(BlockError, match="^block 7, rows 700 to 799: row 777 has nan in column 3 .1 such entr"):
            class_sums(X, data[1], rows=100, threads=threads)
        with pytest.raises(BlockError, match="^block 5, rows 650 to 779: row 777 has nan in column 3"):
            class_sums(in_blocks(X, data[1]), threads=threads)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_infinity(self, data, threads, dtype):
        X = data[0].astype(dtype)
        X[[5, 400], 0] = -np.inf
        with pytest.raises(BlockError, match="block 0, rows 0 to 99: row 5 has -inf in column 0"):
            class_sums(X, data[1], rows=100, threads=threads)

    def test_an_unknown_label(self, data, threads):
        with pytest.raises(BlockError, match="^block 0, rows 0 to 99: row .*the label 'owl', which is not one of"):
            class_sums(data[0], data[1], classes=["cat", "dog"], rows=100, threads=threads)

    def test_numbers_too_large_to_be_squared(self, data, threads):
        X = data[0].copy()
        X[:, 2] *= 1e160
        with pytest.raises(BlockError, match="block 0, rows 0 to 99: the numbers in column 2 are too large"):
            class_sums(X, data[1], rows=100, threads=threads)

    def test_labels_of_another_kind(self, data, threads):
        with pytest.raises(BlockError, match="block 0.*the labels are <U3.*but the classes are int64"):
            class_sums(data[0], data[1], classes=[0, 1, 2], threads=threads)

    def test_the_first_bad_block_is_named(self, data, threads):
        X = data[0].copy()
        X[200:] = np.nan
        with pytest.raises(BlockError, match="block 2, rows 200 to 299"):
            class_sums(X, data[1], rows=100, threads=threads)

    def test_no_labels(self, data, threads):
        with pytest.raises(ValueError, match="there are no labels; give y"):
            class_sums(data[0], threads=threads)


def test_float32_whose_squares_overflow():
    X = np.float32([[1e25, 1], [-1e25, 2], [0, 3]])
    sums = class_sums(X, [0, 1, 1])
    np.testing.assert_allclose(sums.scatter[0, 0], 2 * np.float64(X[0, 0]) ** 2, rtol=1e-6)


def test_an_open_source_is_taken(data):
    X, y, _ = data
    assert_equal(class_sums(open_source(X, y, rows=100)), class_sums(X, y, rows=100))


def test_thousands_of_classes():
    """Nothing of n_classes^2 is made: 20,000 classes would need 3.2 GB of it."""
    rng = np.random.default_rng(0)
    y = rng.integers(20_000, size=3000)
    X = rng.normal(size=(3000, 3))
    sums = class_sums(X, y, classes=np.arange(20_000), rows=1000)
    np.testing.assert_array_equal(sums.counts, np.bincount(y, minlength=20_000))
    k = int(y[0])
    np.testing.assert_allclose(sums.centred_sums[k], (X[y == k] - X.mean(axis=0)).sum(axis=0), atol=1e-10)


def test_the_order_of_files_does_not_change_the_precision(tmp_path):
    """A first file of float32 had the others rounded: to 64 near 10^9, so that nothing was left to learn from."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    x = 1e9 + 3.0 * y + rng.normal(size=200)
    pq.write_table(pa.table({"x": np.full(2, 1e9, np.float32), "y": [0, 1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": x, "y": y}), tmp_path / "b.parquet")
    together = np.concatenate([[1e9, 1e9], x])[:, np.newaxis]
    for order in ("ab", "ba"):
        sums = class_sums([tmp_path / f"{name}.parquet" for name in order], label="y")
        np.testing.assert_allclose(sums.scatter[0, 0], ((together - together.mean()) ** 2).sum(), rtol=1e-6)


def test_numbered_columns_of_a_data_frame_have_no_names(data):
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    sums = class_sums(pd.DataFrame(X), y)
    assert sums.feature_names is None
    model = MCLDCEClassifier(pairflip(3, 0.3)).fit_sums(sums)
    np.testing.assert_array_equal(model.predict(pd.DataFrame(X)), model.predict(X))


def test_a_copy_on_write_map_is_summed_as_it_was_changed(data, tmp_path):
    X, y, _ = data
    np.save(tmp_path / "X.npy", X)
    changed = np.load(tmp_path / "X.npy", mmap_mode="c")
    changed *= 2
    assert_naive(class_sums(changed, y, rows=300), 2 * X, y)
