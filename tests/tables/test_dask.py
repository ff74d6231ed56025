"""Sums on Dask: its schedulers in this process, a cluster by TCP, and a worker process that is killed."""

import os
import signal
import threading
import weakref
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'unflip[scale]'")
pytest.importorskip("pandas", reason="pandas is not installed: pip install 'unflip[data]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'unflip[data]'")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from distributed import Client, LocalCluster

from unflip.core import ClassSums
from unflip.linear import class_sums
from unflip.tables import BlockError, find_classes, open_source, reduce_blocks
from unflip.transition import sample_rows

# Of Dask's own processes and sockets, at their end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

N, CHUNK = 900, 100
CLASSES = ["cat", "dog", "owl"]


@contextmanager
def connected(**options):
    with (
        LocalCluster(threads_per_worker=1, dashboard_address=":0", **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster():
    """Two workers in this process, because those of their own take seconds to start; what they get comes by TCP."""
    with connected(n_workers=2, processes=False, protocol="tcp") as client:
        yield client


@pytest.fixture(scope="module")
def mortal():
    """One worker in a process of its own, which Dask starts again."""
    with connected(n_workers=1, processes=True) as client:
        yield client


@pytest.fixture(params=["synchronous", "threads", "cluster"])
def scheduler(request):
    """Each test runs on each of them."""
    if request.param != "cluster":
        with dask.config.set(scheduler=request.param, num_workers=2):
            yield request.param
        return
    with request.getfixturevalue("cluster").as_current():
        yield request.param


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)) + 1e3 * rng.normal(size=4)
    return pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(
        label=np.array(CLASSES)[rng.integers(3, size=N)], weight=rng.uniform(size=N)
    )


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet")
    for number in range(3):
        part = table[300 * number : 300 * (number + 1)]
        part.to_parquet(path / f"part-{number}.parquet", row_group_size=CHUNK, index=False)
    return path


def arrays(table):
    return table[["a", "b", "c", "d"]].to_numpy(copy=True), table["label"].to_numpy().astype(str)


def expected(table, weights=False):
    X, y = arrays(table)
    return ClassSums.of(X, np.searchsorted(CLASSES, y), 3, table["weight"] if weights else None)


def assert_same(sums, other):
    for name in ("counts", "mean", "scatter", "centred_sums"):
        scale = np.abs(getattr(other, name)).max()
        np.testing.assert_allclose(getattr(sums, name), getattr(other, name), rtol=1e-11, atol=1e-11 * scale)


def assert_equal(sums, other):
    for name in ("counts", "mean", "scatter", "centred_sums"):
        np.testing.assert_array_equal(getattr(sums, name), getattr(other, name))


@pytest.mark.parametrize("labels", ["dask", "numpy"])
@pytest.mark.parametrize("chunks", [(CHUNK, 4), (CHUNK, 3), (1000, 2)])
def test_an_array(scheduler, table, labels, chunks):
    X, y = arrays(table)
    y = da.from_array(y, chunks=70) if labels == "dask" else y
    assert_same(class_sums(da.from_array(X, chunks=chunks), y), expected(table))


def test_an_array_whose_chunks_have_unknown_lengths(scheduler, table):
    X, y = (da.from_array(array, chunks=CHUNK) for array in arrays(table))
    kept = (X[:, 0] > X[:, 0].mean()).compute()
    unknown = da.from_array(kept, chunks=CHUNK)
    assert_same(class_sums(X[unknown].rechunk({1: -1}), y[unknown]), expected(table[kept]))


def test_columns_and_weights_of_an_array(table):
    X, y = arrays(table)
    sums = class_sums(da.from_array(X, chunks=CHUNK), y, weights=table["weight"].to_numpy(), columns=[2, 0])
    both = expected(table, weights=True)
    np.testing.assert_allclose(sums.scatter, both.scatter[np.ix_([2, 0], [2, 0])], rtol=1e-10)


def test_a_dataframe(scheduler, table):
    frame = dd.from_pandas(table, npartitions=7)
    assert_same(class_sums(frame, label="label", weights="weight"), expected(table, weights=True))
    assert find_classes(open_source(frame, label="label")).tolist() == CLASSES


def test_a_dataframe_and_its_labels(table):
    frame = dd.from_pandas(table, npartitions=7)
    assert_same(class_sums(frame[["a", "b", "c", "d"]], frame["label"]), expected(table))


def test_columns_without_names(table):
    X, y = arrays(table)
    frame = dd.from_pandas(pd.DataFrame(X).assign(label=y), npartitions=3)
    sums = class_sums(frame, label="label")
    assert sums.feature_names is None
    assert_same(sums, expected(table))


def test_labels_as_a_column(table):
    X, y = arrays(table)
    X = da.from_array(X, chunks=CHUNK)
    for column in (y[:, np.newaxis], da.from_array(y[:, np.newaxis], chunks=(70, 1))):
        assert_same(class_sums(X, column), expected(table))


def test_a_partition_may_be_empty(table):
    frame = dd.from_pandas(table.assign(row=range(N)), npartitions=7)
    few = frame[frame["row"] < 300]
    assert_same(class_sums(few, label="label", columns=["a", "b", "c", "d"]), expected(table[:300]))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # in Dask's reader
def test_only_the_wanted_columns_of_its_files_are_read(folder):
    frame = dd.read_parquet(folder).assign(unused=1)
    source = open_source(frame, label="label", columns=["b", "a"])
    assert list(source.X.columns) == ["b", "a", "label"]
    assert list(source.only_labels().X.columns) == ["label"]
    assert source.only_labels().parts()[0].X.compute().columns.tolist() == ["label"]


def test_files_give_the_same_bits_as_threads(scheduler, folder):
    here = class_sums(folder, label="label", rows=CHUNK, engine="threads", threads=1)
    there = class_sums(folder, label="label", rows=CHUNK, engine="dask")
    if scheduler == "threads":  # BLAS may have more threads there
        assert_same(there, here)
    else:
        assert_equal(there, here)


def test_a_memory_map_goes_by_name(cluster, table, tmp_path):
    X, y = arrays(table)
    np.save(tmp_path / "X.npy", X)
    with cluster.as_current():
        assert_same(class_sums(tmp_path / "X.npy", y, rows=CHUNK, engine="dask"), expected(table))


def test_the_sample_is_that_of_one_thread(scheduler, folder):
    options = {"label": "label", "weights": "weight", "rows": 60, "random_state": 3}
    here = sample_rows(folder, 50, **options, threads=1)
    there = sample_rows(folder, 50, **options, engine="dask")
    np.testing.assert_array_equal(here.X, there.X)
    np.testing.assert_array_equal(here.y, there.y)
    np.testing.assert_array_equal(here.weights, there.weights)


class TestErrors:
    def test_nan_in_an_array(self, scheduler, table):
        X, y = arrays(table)
        X[333, 2] = np.nan
        with pytest.raises(BlockError, match="^partition 3, rows 300 to 399: row 333 has nan in column 2 "):
            class_sums(da.from_array(X, chunks=CHUNK), y)

    def test_nan_in_a_dataframe(self, scheduler, table):
        bad = table.copy()
        bad.loc[333, "c"] = np.nan
        with pytest.raises(BlockError, match="^partition 3, rows 0 to 99: row 33 has nan in column 'c' "):
            class_sums(dd.from_pandas(bad, chunksize=CHUNK), label="label", weights="weight")

    def test_nan_in_a_file(self, scheduler, table, tmp_path):
        bad = table.copy()
        bad.loc[333, "c"] = np.nan
        bad.to_parquet(tmp_path / "t.parquet", row_group_size=CHUNK)
        with pytest.raises(BlockError, match="t.parquet, row group 3, rows 300 to 399: row 333 has nan in column 'c' "):
            class_sums(tmp_path / "t.parquet", label="label", rows=CHUNK, engine="dask")

    def test_an_unknown_label(self, scheduler, table):
        X, y = arrays(table)
        y[444] = "cow"
        with pytest.raises(BlockError, match="^partition 4, rows 400 to 499: row 444 has the label 'cow', which is no"):
            class_sums(da.from_array(X, chunks=CHUNK), y, classes=CLASSES)

    def test_partitions_that_do_not_agree(self, table):
        frame = dd.from_pandas(table, npartitions=7)
        labels = dd.from_pandas(table["label"], npartitions=5)
        with pytest.raises(ValueError, match="X has 7 partitions but y has 5: they must be cut the same way"):
            class_sums(frame[["a", "b"]], labels)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"label": "lable"}, "no column 'lable'; did you mean 'label'"),
            ({}, "1 columns that are not numbers: 'label'"),
            ({"label": "label", "y": [1]}, "give y or label, not both"),
            ({"label": "label", "columns": ["a", "label"]}, "columns must not contain the label or the weights"),
            ({"label": "label", "weights": "weight", "columns": ["a", "weight"]}, "columns must not contain the label"),
            ({"label": "weight", "weights": "weight", "columns": ["a"]}, "label and weights are both 'weight'"),
            ({"label": "label", "columns": ["z"]}, "the dataframe has no column 'z'"),
            ({"y": np.zeros(N), "columns": ["a"]}, "y of a Dask dataframe must be a Dask series.*got ndarray.*label="),
            ({"label": "label", "weights": [1.0], "columns": ["a"]}, "weights of a Dask dataframe.*got list.*weights="),
        ],
    )
    def test_bad_arguments(self, table, arguments, message):
        with pytest.raises(ValueError, match=message):
            open_source(dd.from_pandas(table, npartitions=2), **arguments)

    @pytest.mark.parametrize("columns", [[9], ["a"], [-5], []])
    def test_columns_of_an_array(self, table, columns):
        X, y = arrays(table)
        with pytest.raises(ValueError, match="columns of an array are numbers from 0 to 3; got"):
            open_source(da.from_array(X, chunks=CHUNK), y, columns=columns)

    def test_labels_whose_chunks_have_unknown_lengths(self, table):
        X, y = (da.from_array(array, chunks=(CHUNK, *array.shape[1:])) for array in arrays(table))
        everything = da.ones(N, chunks=CHUNK, dtype=bool)
        assert_same(class_sums(X, y[everything]), expected(table))
        with pytest.raises(BlockError, match="^partition [0-9], rows .*: X has 100 rows but there are .* labels"):
            class_sums(X, y[y == "cat"], classes=CLASSES)
        with pytest.raises(ValueError, match="X has 9 partitions but y has 5: they must be cut the same way"):
            class_sums(X, y.rechunk(200)[da.ones(N, chunks=200, dtype=bool)])

    def test_lengths(self, table):
        X, y = arrays(table)
        with pytest.raises(ValueError, match="X has 900 rows but y has 899"):
            open_source(da.from_array(X, chunks=CHUNK), y[:-1])
        with pytest.raises(ValueError, match="X must be a Dask collection if y or weights are"):
            open_source(X, da.from_array(y, chunks=CHUNK))


def die_once(marker, number):
    """Kill this process the first time that the given block comes by."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def dangerous_chunk(marker, chunk, block_id=None):
    if block_id[0] == 5:
        die_once(marker, 5)
    return chunk


class DangerousSums:
    """As the function of ``class_sums``, but one block kills its worker, once."""

    def __init__(self, marker):
        self.marker = marker

    def __call__(self, block):
        if block.index[0] == 5:
            die_once(self.marker, 5)
        return ClassSums.of(block.X, block.codes(np.array(CLASSES)), 3)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
class TestKilledWorker:
    def test_while_a_partition_is_made(self, mortal, table, tmp_path):
        X, y = arrays(table)
        marker = tmp_path / "killed"
        X = da.from_array(X, chunks=(CHUNK, 4))
        fatal = X.map_blocks(partial(dangerous_chunk, str(marker)), dtype=float, meta=np.empty((0, 4)))
        with mortal.as_current():
            whole = class_sums(X, y, classes=CLASSES)
            assert not marker.exists()
            assert_equal(class_sums(fatal, y, classes=CLASSES), whole)
        assert marker.exists()

    def test_while_a_file_is_summed(self, mortal, folder, tmp_path):
        marker = tmp_path / "killed"
        source = open_source(folder, label="label", columns=["a", "b", "c", "d"], rows=CHUNK)
        with mortal.as_current():
            sums = reduce_blocks(source, DangerousSums(str(marker)), engine="dask")
        assert marker.exists()
        assert_equal(sums, reduce_blocks(source, DangerousSums(str(marker)), threads=1))


ALIVE, PEAK, LOCK = 0, 0, threading.Lock()


def counted_chunk(block_id=None):
    """A chunk that is counted as long as it lives, in the process that made it."""
    global ALIVE, PEAK
    X = np.full((CHUNK, 2), float(block_id[0]))
    with LOCK:
        ALIVE += 1
        PEAK = max(PEAK, ALIVE)
    weakref.finalize(X, uncount)
    return X


def uncount():
    global ALIVE
    with LOCK:
        ALIVE -= 1


def peak():
    return PEAK


def test_no_worker_holds_more_than_a_few_blocks(cluster):
    chunks = 60
    X = da.map_blocks(counted_chunk, chunks=((CHUNK,) * chunks, (2,)), dtype=float, meta=np.empty((0, 2)))
    y = da.from_array(np.arange(CHUNK * chunks) % 2, chunks=CHUNK)
    with cluster.as_current():
        sums = class_sums(X, y, classes=[0, 1])
    np.testing.assert_allclose(sums.mean, [(chunks - 1) / 2] * 2)
    peaks = cluster.run(peak)
    assert 1 <= max(peaks.values()) <= 8
