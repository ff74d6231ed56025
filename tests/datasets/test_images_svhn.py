"""SVHN's MATLAB files: read in MATLAB's order, and refused by name and offset."""

import struct

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_array

from tests.datasets.layouts import write_svhn
from unflip.datasets import catalogue, load_dataset


@pytest.mark.parametrize("compress", [True, False])
def test_images_and_labels_come_back(tmp_path, compress):
    X, y = write_svhn(tmp_path / "svhn" / "train_32x32.mat", 23, compress)
    write_svhn(tmp_path / "svhn" / "test_32x32.mat", 11, compress)
    data = load_dataset("svhn", tmp_path)
    assert data.x_train.shape == (23, 3, 32, 32)
    assert data.x_test.shape == (11, 3, 32, 32)
    assert data.x_train.flags.c_contiguous
    assert data.x_train.dtype == np.float32
    assert data.y_train.dtype == np.int64
    for i, row, column, channel in ((0, 0, 1, 2), (22, 31, 5, 0), (7, 8, 9, 1)):
        assert data.x_train[i, channel, row, column] == np.float32(X[row, column, channel, i]) / np.float32(255)
    # digit 0 is stored as 10
    assert [int(label) for label in data.y_train] == [0 if label == 10 else int(label) for label in y[:, 0]]
    assert data.y_train[9] == 0
    assert data.class_names[data.y_train[9]] == "0"


@pytest.fixture
def files(tmp_path):
    write_svhn(tmp_path / "svhn" / "train_32x32.mat", 6)
    write_svhn(tmp_path / "svhn" / "test_32x32.mat", 4)
    return tmp_path / "svhn"


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("keep", [0.3, 0.999])
def test_a_truncated_file_is_refused_by_name_and_offset(files, compress, keep):
    path = files / "test_32x32.mat"
    write_svhn(path, 4, compress)
    content = path.read_bytes()
    length = int(len(content) * keep)
    path.write_bytes(content[:length])
    # the tags, by the format: type and size of each element from offset 128 on
    offset = 128
    while (end := offset + 8 + struct.unpack("<II", content[offset : offset + 8])[1]) <= length:
        offset = end
    with pytest.raises(
        ValueError,
        match=f"test_32x32.mat is truncated: it ends at offset {length}.* at offset {offset} continues to {end}",
    ):
        load_dataset("svhn", files.parent)


@pytest.mark.parametrize("length", [130, 100])
def test_a_cut_header_or_tag_is_refused(files, length):
    path = files / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match=f"train_32x32.mat is truncated: it ends at offset {length}"):
        load_dataset("svhn", files.parent)


def test_damage_within_a_variable_is_refused(files):
    path = files / "train_32x32.mat"
    content = bytearray(path.read_bytes())
    content[300:340] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="train_32x32.mat is damaged"):
        load_dataset("svhn", files.parent)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a MATLAB 5 file: it begins with b'' at offset 0"),
        (b"<html>404</html>" * 20, "not a MATLAB 5 file: it begins with b'<html>404<'"),
        (b"MATLAB 7.3 MAT-file" + bytes(500), "not a MATLAB 5 file: .*save it with -v7"),
    ],
)
def test_what_is_no_matlab_file_is_refused(files, content, message):
    (files / "test_32x32.mat").write_bytes(content)
    with pytest.raises(ValueError, match=f"test_32x32.mat is {message}"):
        load_dataset("svhn", files.parent)


LABELS = np.array([[1], [2], [3], [10]], np.uint8)


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        ({"X": np.zeros((4, 32, 32, 3), np.uint8)}, r"X is uint8 of shape \(4, 32, 32, 3\), expected uint8 of"),
        ({"X": np.zeros((32, 32, 3, 4))}, "X is float64"),
        ({"y": LABELS[:3]}, r"X has 4 images but y has shape \(3, 1\)"),
        ({"y": LABELS * 0}, r"y\[0\] is 0; SVHN's labels are 1 .. 10"),
        ({"y": LABELS + np.uint8(1)}, r"y\[3\] is 11"),
        ({"y": LABELS / 2.0}, r"y\[0\] is 0.5"),
        ({"y": csc_array(LABELS.astype(float))}, r"y is sparse, expected 4 plain numbers of shape \(4, 1\)"),
        ({"y": LABELS.reshape(2, 2)}, r"X has 4 images but y has shape \(2, 2\)"),
        ({"y": LABELS.reshape(4, 1, 1, 1).repeat(2, 3)}, r"X has 4 images but y has shape \(4, 1, 1, 2\)"),
        ({"y": LABELS.astype(object)}, "y is of type object"),
        ({"y": {"a": 1.0}}, "y is of type .*'a'"),
        ({"y": "1234"}, "y is of type <U4"),
        ({"y": LABELS * 1j}, "y is of type complex128"),
        ({"X": csc_array(np.eye(4))}, r"X is float64 of shape \(4, 4\)"),
        ({"X": np.zeros((32, 32, 3, 0), np.uint8)}, r"X has shape \(32, 32, 3, 0\) and holds no image"),
    ],
)
def test_wrong_variables_are_refused(files, replace, message):
    write_svhn(files / "test_32x32.mat", 4, **replace)
    with pytest.raises(ValueError, match=f"test_32x32.mat: {message}"):
        load_dataset("svhn", files.parent)


def test_the_training_file_under_the_name_of_the_test_file_is_refused(files):
    write_svhn(files / "test_32x32.mat", 6, compress=False)  # other bytes, the same content
    with pytest.raises(ValueError, match="train_32x32.mat and .*test_32x32.mat hold the same samples"):
        load_dataset("svhn", files.parent)


def test_a_subset_says_so(files):
    assert load_dataset("svhn", files.parent).note == "subset: 6 of 73,257 training rows, 4 of 26,032 test rows"


def test_rows_are_counted_without_reading_them(files, monkeypatch):
    (svhn,) = (entry for entry in catalogue() if entry.name == "svhn")
    monkeypatch.setattr("scipy.io.loadmat", None)
    assert svhn.rows(files.parent) == (6, 4)
    savemat(files / "test_32x32.mat", {"Z": np.zeros(3)})
    with pytest.raises(ValueError, match="test_32x32.mat has no variable X of shape"):
        svhn.rows(files.parent)


def test_missing_variables_are_named(files):
    savemat(files / "test_32x32.mat", {"X": np.zeros((32, 32, 3, 4), np.uint8)})
    with pytest.raises(ValueError, match="test_32x32.mat has no variable y; SVHN's files have X and y"):
        load_dataset("svhn", files.parent)
    savemat(files / "test_32x32.mat", {"Z": np.zeros(3)})
    with pytest.raises(ValueError, match="no variable X and no y"):
        load_dataset("svhn", files.parent)
