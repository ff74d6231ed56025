"""IDX files: read to the byte, and refused by name and offset."""

import gzip

import numpy as np
import pytest

from tests.datasets.layouts import write_idx, write_mnist
from unflip.datasets import load_dataset
from unflip.datasets.idx import read_idx


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
    with pytest.raises(ValueError, match=rf"images is truncated: .*end at offset {length}, {expected} bytes"):
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
    with pytest.raises(ValueError, match=f"end at offset 2368, 2368 bytes were expected .*at byte {len(whole) - 4}"):
        read_idx(path, (28, 28))


def test_a_damaged_gzip_stream_is_refused(tmp_path):
    path = tmp_path / "labels.gz"
    write_idx(path, np.arange(200, dtype=np.uint8))
    content = bytearray(path.read_bytes())
    content[-5] ^= 1  # in the checksum
    path.write_bytes(content)
    with pytest.raises(ValueError, match="labels.gz is damaged near byte .*incorrect data check"):
        read_idx(path)


def test_more_data_than_announced_are_refused(tmp_path):
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(write_idx(path, np.zeros(5, np.uint8)) + b"\0"))
    with pytest.raises(ValueError, match="labels.gz goes on after offset 13"):
        read_idx(path)


def test_names_that_lie_are_refused(tmp_path):
    plain = write_idx(tmp_path / "labels", np.zeros(5, np.uint8))
    (tmp_path / "labels.gz").write_bytes(plain)
    with pytest.raises(ValueError, match="labels.gz is not a gzip file: it begins with 00 00 at offset 0"):
        read_idx(tmp_path / "labels.gz")
    (tmp_path / "labels").write_bytes(gzip.compress(plain))
    with pytest.raises(ValueError, match="labels is not an IDX file of labels: .*1f 8b.* must end in .gz"):
        read_idx(tmp_path / "labels")
    (tmp_path / "labels.gz").write_bytes(b"")
    with pytest.raises(ValueError, match="begins with nothing"):
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
