"""The CIFAR-10 binary version, and the python version that is never loaded."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.datasets.layouts import write_cifar10
from unflip.datasets import images, load_dataset
from unflip.datasets.catalogue import CATALOGUE

RECORDS = 7


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(images, "RECORDS", RECORDS)


@pytest.mark.parametrize("folder", ["cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin"])
def test_images_and_labels_come_back(tmp_path, folder):
    batches = write_cifar10(tmp_path / folder, RECORDS)
    data = load_dataset("cifar10", tmp_path)
    assert data.x_train.shape == (5 * RECORDS, 3, 32, 32)
    assert data.x_test.shape == (RECORDS, 3, 32, 32)
    assert data.class_names[6] == "frog"
    for k in range(5):
        for i in range(RECORDS):
            record = batches[f"data_batch_{k + 1}.bin"][i]
            row = k * RECORDS + i
            assert data.y_train[row] == record[0]
            for channel, y, x in ((0, 0, 0), (1, 3, 30), (2, 31, 31)):
                byte = record[1 + 1024 * channel + 32 * y + x]
                assert data.x_train[row, channel, y, x] == np.float32(byte) / np.float32(255)
    np.testing.assert_array_equal(data.y_test, batches["test_batch.bin"][:, 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (-1, f"ends at offset {RECORDS * 3073 - 1}, within record {RECORDS - 1}"),
        (-3073, f"ends at offset {(RECORDS - 1) * 3073}, within record {RECORDS - 1}"),  # at a record's end
        (5, f"continues after offset {RECORDS * 3073}, to {RECORDS * 3073 + 5}"),
    ],
)
def test_a_file_of_another_length_is_refused(tmp_path, change, message):
    write_cifar10(tmp_path / "cifar10", RECORDS)
    path = tmp_path / "cifar10" / "data_batch_3.bin"
    path.write_bytes((path.read_bytes() + b"12345")[: RECORDS * 3073 + change])
    with pytest.raises(ValueError, match=f"data_batch_3.bin .*{message}"):
        load_dataset("cifar10", tmp_path)


def test_a_label_beyond_nine_is_refused(tmp_path):
    batches = write_cifar10(tmp_path / "cifar10", RECORDS)
    batches["test_batch.bin"][4, 0] = 10
    batches["test_batch.bin"].tofile(tmp_path / "cifar10" / "test_batch.bin")
    with pytest.raises(ValueError, match=f"test_batch.bin has the label 10 at offset {4 * 3073}"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.parametrize("copy", ["data_batch_4.bin", "test_batch.bin"])
def test_a_batch_that_is_a_copy_of_another_is_refused(tmp_path, copy):
    write_cifar10(tmp_path / "cifar10", RECORDS)
    shutil.copy(tmp_path / "cifar10" / "data_batch_2.bin", tmp_path / "cifar10" / copy)
    with pytest.raises(ValueError, match=f"{copy} is a copy of .*data_batch_2.bin; CIFAR-10's batches all differ"):
        load_dataset("cifar10", tmp_path)


def test_another_number_of_a_class_is_refused_at_the_official_size(tmp_path, monkeypatch):
    batches = write_cifar10(tmp_path / "cifar10", RECORDS)
    labels = np.concatenate([batches[f"data_batch_{k}.bin"][:, 0] for k in range(1, 6)])
    official = np.bincount(labels, minlength=10)
    monkeypatch.setitem(CATALOGUE, "cifar10", replace(CATALOGUE["cifar10"], class_counts=(tuple(official),)))
    assert len(load_dataset("cifar10", tmp_path).y_train) == 5 * RECORDS
    batch = batches["data_batch_1.bin"]
    batch[batch[:, 0] == batch[0, 0], 0] = 9 if batch[0, 0] < 9 else 0
    batch.tofile(tmp_path / "cifar10" / "data_batch_1.bin")
    with pytest.raises(
        ValueError, match=f"data_batch_1.bin, .*test_batch.bin: .* of {5 * RECORDS} labels are .*changed"
    ):
        load_dataset("cifar10", tmp_path)


def test_a_missing_batch_is_named(tmp_path):
    write_cifar10(tmp_path / "cifar10", RECORDS)
    (tmp_path / "cifar10" / "data_batch_4.bin").unlink()
    with pytest.raises(FileNotFoundError, match="looked in .* for cifar10/data_batch_4.bin or .*data fetch cifar10"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "cifar-10-python.tar.gz",
        "cifar10/cifar-10-python.tar.gz",
        "cifar-10-batches-py/data_batch_1",
        "cifar10/cifar-10-batches-py/data_batch_1",
        "cifar10/data_batch_1",
        "data_batch_1",  # the data directory is the folder of the python version
    ],
)
def test_the_python_version_is_refused_and_the_binary_one_named(tmp_path, name):
    path = tmp_path / name
    found = path.parent if path.parent.name == "cifar-10-batches-py" else path
    kind = "is a pickle" if name.startswith(("cifar10/data", "data")) else "contains pickles"
    path.parent.mkdir(parents=True, exist_ok=True)
    # a pickle that calls exit('loaded'): whoever loads it ends the test otherwise than with a ValueError
    path.write_bytes(b"cbuiltins\nexit\n(S'loaded'\ntR.")
    message = f"{re.escape(str(found))} {kind}.* never loaded. .*cifar-10-binary.tar.gz"
    with pytest.raises(ValueError, match=message):
        load_dataset("cifar10", tmp_path)
    if kind == "contains pickles":  # given by its path, as an .npz file may be
        with pytest.raises(ValueError, match=message):
            load_dataset(found)


def test_the_python_version_next_to_the_binary_one_does_no_harm(tmp_path):
    write_cifar10(tmp_path / "cifar10", RECORDS)
    (tmp_path / "cifar-10-batches-py").mkdir()
    assert len(load_dataset("cifar10", tmp_path).y_test) == RECORDS
