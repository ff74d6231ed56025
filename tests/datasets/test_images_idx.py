"""IDX files: read to the byte, and refused by name and offset."""

import gzip
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from tests.datasets.layouts import write_idx, write_mnist
from unflip.datasets import images, load_dataset
from unflip.datasets.catalogue import CATALOGUE
from unflip.datasets.images import read_idx


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("ending", [".gz", ""])
def test_images_and_labels_come_back(tmp_path, name, ending):
    written = write_mnist(tmp_path / name, ending)
    data = load_dataset(name, tmp_path)
    assert data.x_train.shape == (12, 1, 28, 28)
    assert data.x_train.dtype == np.float32
    assert data.y_train.dtype == np.int64
    np.testing.assert_array_equal(np.rint(data.x_train[:, 0] * 255), written["train-images-idx3-ubyte"])
    np.testing.assert_array_equal(np.rint(data.x_test[:, 0] * 255), written["t10k-images-idx3-ubyte"])
    np.testing.assert_array_equal(data.y_train, written["train-labels-idx1-ubyte"])
    np.testing.assert_array_equal(data.y_test, written["t10k-labels-idx1-ubyte"])
    assert data.y_noisy is None
    assert len(data.class_names) == 10


def test_black_is_zero_and_white_is_one(tmp_path):
    write_mnist(tmp_path / "mnist")
    images = np.zeros((12, 28, 28), np.uint8)
    images[0, 3, 7] = 255
    images[1, 0, 0] = 51
    write_idx(tmp_path / "mnist" / "train-images-idx3-ubyte.gz", images)
    x = load_dataset("mnist", tmp_path).x_train
    assert x[0, 0, 3, 7] == 1
    assert x[1, 0, 0, 0] == np.float32(0.2)
    assert x.sum() == np.float32(1.2)


def test_a_gzip_file_of_several_streams_is_one_content(tmp_path):
    content = write_idx(tmp_path / "plain", np.arange(100, dtype=np.uint8))
    (tmp_path / "a.gz").write_bytes(gzip.compress(content[:50]) + gzip.compress(content[50:]))
    np.testing.assert_array_equal(read_idx(tmp_path / "a.gz"), np.arange(100))


@pytest.mark.parametrize("length", [0, 3, 8, 15, 16, 17, 799])
def test_a_truncated_file_is_refused_by_name_and_offset(tmp_path, length):
    path = tmp_path / "images"
    content = write_idx(path, np.zeros((1, 28, 28), np.uint8))
    path.write_bytes(content[:length])
    expected = 800 if length >= 16 else 16
    with pytest.raises(ValueError, match=rf"images is truncated: .*end at offset {length}, but {expected} bytes"):
        read_idx(path, (28, 28))


def test_a_cut_gzip_stream_says_where_its_data_end(tmp_path):
    path = tmp_path / "images.gz"
    rng = np.random.default_rng(0)
    write_idx(path, rng.integers(0, 256, (3, 28, 28), dtype=np.uint8))
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    with pytest.raises(ValueError, match="2368 bytes were expected .*cut off at byte 1000") as caught:
        read_idx(path, (28, 28))
    offset = int(str(caught.value).split("offset ")[1].split(",")[0])
    assert 500 < offset < 1100  # random bytes do not compress: about what is left of the file

    path.write_bytes(whole[:-4])  # all data are there; the checksum of them is not
    with pytest.raises(
        ValueError, match=f"end at offset 2368, but 2368 bytes were expected .*at byte {len(whole) - 4}"
    ):
        read_idx(path, (28, 28))


def test_a_damaged_gzip_stream_is_refused(tmp_path):
    path = tmp_path / "labels.gz"
    write_idx(path, np.arange(200, dtype=np.uint8))
    content = bytearray(path.read_bytes())
    content[-5] ^= 1  # in the checksum
    path.write_bytes(content)
    with pytest.raises(ValueError, match="labels.gz is damaged or not a gzip file: CRC check failed"):
        read_idx(path)


def test_more_data_than_announced_are_refused(tmp_path):
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(write_idx(path, np.zeros(5, np.uint8)) + b"\0"))
    with pytest.raises(ValueError, match="labels.gz continues after offset 13"):
        read_idx(path)


@pytest.mark.parametrize("streams", [1, 2])
def test_nothing_is_decompressed_beyond_what_the_header_announces(tmp_path, streams):
    path = tmp_path / "labels.gz"
    bomb = bytes(1 << 25)
    content = write_idx(path, np.zeros(5, np.uint8))
    path.write_bytes(gzip.compress(content + bomb) if streams == 1 else gzip.compress(content) + gzip.compress(bomb))
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="labels.gz continues after offset 13"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20  # the bytes of the file, not the 32 MB in it
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("chunk", [1, 7, 100, 5000])
def test_pieces_of_any_size_make_the_same_content(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(images, "CHUNK", chunk)
    values = np.concatenate([np.zeros(1500, np.uint8), np.arange(1500, dtype=np.uint32).astype(np.uint8)])
    content = write_idx(tmp_path / "a", values)
    (tmp_path / "a.gz").write_bytes(gzip.compress(content[:1000]) + gzip.compress(b"") + gzip.compress(content[1000:]))
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), values)
    np.testing.assert_array_equal(read_idx(tmp_path / "a.gz"), values)


@pytest.mark.parametrize("level", [0, 9])  # other bytes, the same content
def test_the_training_images_under_the_name_of_the_test_images_are_refused(tmp_path, level):
    arrays = write_mnist(tmp_path / "mnist", n_test=12)
    content = write_idx(tmp_path / "plain", arrays["train-images-idx3-ubyte"])
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(content, level))
    with pytest.raises(ValueError, match="train-images-idx3-ubyte.gz and .*t10k-images-idx3-ubyte.gz hold the same"):
        load_dataset("mnist", tmp_path)


def test_a_subset_says_so_and_the_official_size_has_the_official_classes(tmp_path, monkeypatch):
    labels = write_mnist(tmp_path / "mnist")["train-labels-idx1-ubyte"]
    assert load_dataset("mnist", tmp_path).note == "subset: 12 of 60,000 training rows, 5 of 10,000 test rows"
    entry = CATALOGUE["mnist"]
    assert [sum(counts) for counts in entry.class_counts] == [entry.n_train, entry.n_test]
    assert entry.rows(tmp_path) == (12, 5)
    monkeypatch.setitem(CATALOGUE, "mnist", replace(entry, n_train=12, n_test=4))
    assert load_dataset("mnist", tmp_path).note == "not the official size: 5 test rows, not 4"
    counts = np.bincount(labels, minlength=10)
    counts[labels[0]] -= 1
    counts[(labels[0] + 1) % 10] += 1
    monkeypatch.setitem(CATALOGUE, "mnist", replace(entry, class_counts=(tuple(counts), (1,))))
    with pytest.raises(ValueError, match="train-labels-idx1-ubyte.gz.* of 12 labels are .*files of another data set"):
        load_dataset("mnist", tmp_path)


def test_names_that_lie_are_refused(tmp_path):
    plain = write_idx(tmp_path / "labels", np.zeros(5, np.uint8))
    (tmp_path / "labels.gz").write_bytes(plain)
    with pytest.raises(ValueError, match="labels.gz is damaged or not a gzip file: .*remove .gz from its name"):
        read_idx(tmp_path / "labels.gz")
    (tmp_path / "labels").write_bytes(gzip.compress(plain))
    with pytest.raises(ValueError, match="labels is not an IDX file of labels: .*1f 8b.* must end in .gz"):
        read_idx(tmp_path / "labels")
    (tmp_path / "labels.gz").write_bytes(b"")
    with pytest.raises(ValueError, match="labels.gz is truncated: its data end at offset 0"):
        read_idx(tmp_path / "labels.gz")


@pytest.mark.parametrize(
    ("values", "item_shape", "message"),
    [
        (np.zeros(30, np.uint8), (28, 28), "not an IDX file of images: it begins with 00 00 08 01 .* 00 00 08 03"),
        (np.zeros((1, 28, 28), np.uint8), (), "not an IDX file of labels: it begins with 00 00 08 03"),
        (np.zeros((1, 32, 32), np.uint8), (28, 28), r"items of shape \(32, 32\) at offset 8, expected \(28, 28\)"),
        (np.zeros((0, 28, 28), np.uint8), (28, 28), "0 items at offset 4"),
    ],
)
def test_another_kind_of_idx_is_refused(tmp_path, values, item_shape, message):
    write_idx(tmp_path / "file.gz", values)
    with pytest.raises(ValueError, match=f"file.gz .*{message}"):
        read_idx(tmp_path / "file.gz", item_shape)


def test_labels_beyond_nine_and_counts_that_differ_are_refused(tmp_path):
    write_mnist(tmp_path / "mnist")
    labels = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    write_idx(labels, np.array([1, 2, 3, 77, 9], np.uint8))
    with pytest.raises(ValueError, match="t10k-labels-idx1-ubyte.gz has the label 77 at offset 11"):
        load_dataset("mnist", tmp_path)
    write_idx(labels, np.array([1, 2, 3, 4], np.uint8))
    with pytest.raises(ValueError, match="t10k-images-idx3-ubyte.gz holds 5 images but .*t10k-labels.* holds 4 labels"):
        load_dataset("mnist", tmp_path)
