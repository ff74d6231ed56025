"""Image data sets: each official format is read to the byte, and what is wrong with a file is said by name."""

import gzip
import re
import shutil
import struct
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_array

from tests.datasets.layouts import write_cifar10, write_idx, write_mnist, write_svhn
from unflip.datasets import catalogue, images, load_dataset
from unflip.datasets.catalogue import CATALOGUE
from unflip.datasets.images import read_idx

RECORDS = 7
LABELS = np.array([[1], [2], [3], [10]], np.uint8)


def save(image, path, colour, size=(64, 64), mode="RGB", form="JPEG"):
    image.new(mode, size, colour).save(path, form, **({"quality": 100} if form == "JPEG" else {}))


class TestIDX:
    """IDX files: read to the byte, and refused by name and offset."""

    @pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
    @pytest.mark.parametrize("ending", [".gz", ""])
    def test_images_and_labels_come_back(self, tmp_path, name, ending):
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

    def test_black_is_zero_and_white_is_one(self, tmp_path):
        write_mnist(tmp_path / "mnist")
        images = np.zeros((12, 28, 28), np.uint8)
        images[0, 3, 7] = 255
        images[1, 0, 0] = 51
        write_idx(tmp_path / "mnist" / "train-images-idx3-ubyte.gz", images)
        x = load_dataset("mnist", tmp_path).x_train
        assert x[0, 0, 3, 7] == 1
        assert x[1, 0, 0, 0] == np.float32(0.2)
        assert x.sum() == np.float32(1.2)

    def test_a_gzip_file_of_several_streams_is_one_content(self, tmp_path):
        content = write_idx(tmp_path / "plain", np.arange(100, dtype=np.uint8))
        (tmp_path / "a.gz").write_bytes(gzip.compress(content[:50]) + gzip.compress(content[50:]))
        np.testing.assert_array_equal(read_idx(tmp_path / "a.gz"), np.arange(100))

    @pytest.mark.parametrize("length", [0, 3, 8, 15, 16, 17, 799])
    def test_a_truncated_file_is_refused_by_name_and_offset(self, tmp_path, length):
        path = tmp_path / "images"
        content = write_idx(path, np.zeros((1, 28, 28), np.uint8))
        path.write_bytes(content[:length])
        expected = 800 if length >= 16 else 16
        with pytest.raises(ValueError, match=rf"images is truncated: .*end at offset {length}, but {expected} bytes"):
            read_idx(path, (28, 28))

    def test_a_cut_gzip_stream_says_where_its_data_end(self, tmp_path):
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

    def test_a_damaged_gzip_stream_is_refused(self, tmp_path):
        path = tmp_path / "labels.gz"
        write_idx(path, np.arange(200, dtype=np.uint8))
        content = bytearray(path.read_bytes())
        content[-5] ^= 1  # in the checksum
        path.write_bytes(content)
        with pytest.raises(ValueError, match="labels.gz is damaged or not a gzip file: CRC check failed"):
            read_idx(path)

    def test_more_data_than_announced_are_refused(self, tmp_path):
        path = tmp_path / "labels.gz"
        path.write_bytes(gzip.compress(write_idx(path, np.zeros(5, np.uint8)) + b"\0"))
        with pytest.raises(ValueError, match="labels.gz continues after offset 13"):
            read_idx(path)

    @pytest.mark.parametrize("streams", [1, 2])
    def test_nothing_is_decompressed_beyond_what_the_header_announces(self, tmp_path, streams):
        path = tmp_path / "labels.gz"
        bomb = bytes(1 << 25)
        content = write_idx(path, np.zeros(5, np.uint8))
        path.write_bytes(
            gzip.compress(content + bomb) if streams == 1 else gzip.compress(content) + gzip.compress(bomb)
        )
        assert path.stat().st_size < 100_000
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="labels.gz continues after offset 13"):
                read_idx(path)
            assert tracemalloc.get_traced_memory()[1] < 4 << 20  # the bytes of the file, not the 32 MB in it
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("chunk", [1, 7, 100, 5000])
    def test_pieces_of_any_size_make_the_same_content(self, tmp_path, monkeypatch, chunk):
        monkeypatch.setattr(images, "CHUNK", chunk)
        values = np.concatenate([np.zeros(1500, np.uint8), np.arange(1500, dtype=np.uint32).astype(np.uint8)])
        content = write_idx(tmp_path / "a", values)
        (tmp_path / "a.gz").write_bytes(
            gzip.compress(content[:1000]) + gzip.compress(b"") + gzip.compress(content[1000:])
        )
        np.testing.assert_array_equal(read_idx(tmp_path / "a"), values)
        np.testing.assert_array_equal(read_idx(tmp_path / "a.gz"), values)

    @pytest.mark.parametrize("level", [0, 9])  # other bytes, the same content
    def test_the_training_images_under_the_name_of_the_test_images_are_refused(self, tmp_path, level):
        arrays = write_mnist(tmp_path / "mnist", n_test=12)
        content = write_idx(tmp_path / "plain", arrays["train-images-idx3-ubyte"])
        (tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(content, level))
        with pytest.raises(
            ValueError, match="train-images-idx3-ubyte.gz and .*t10k-images-idx3-ubyte.gz hold the same"
        ):
            load_dataset("mnist", tmp_path)

    def test_a_subset_says_so_and_the_official_size_has_the_official_classes(self, tmp_path, monkeypatch):
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
        with pytest.raises(
            ValueError, match="train-labels-idx1-ubyte.gz.* of 12 labels are .*files of another data set"
        ):
            load_dataset("mnist", tmp_path)

    def test_names_that_lie_are_refused(self, tmp_path):
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
    def test_another_kind_of_idx_is_refused(self, tmp_path, values, item_shape, message):
        write_idx(tmp_path / "file.gz", values)
        with pytest.raises(ValueError, match=f"file.gz .*{message}"):
            read_idx(tmp_path / "file.gz", item_shape)

    def test_labels_beyond_nine_and_counts_that_differ_are_refused(self, tmp_path):
        write_mnist(tmp_path / "mnist")
        labels = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
        write_idx(labels, np.array([1, 2, 3, 77, 9], np.uint8))
        with pytest.raises(ValueError, match="t10k-labels-idx1-ubyte.gz has the label 77 at offset 11"):
            load_dataset("mnist", tmp_path)
        write_idx(labels, np.array([1, 2, 3, 4], np.uint8))
        with pytest.raises(
            ValueError, match="t10k-images-idx3-ubyte.gz holds 5 images but .*t10k-labels.* holds 4 labels"
        ):
            load_dataset("mnist", tmp_path)


class TestCIFAR10:
    """The CIFAR-10 binary version, and the python version that is never loaded."""

    @pytest.fixture(autouse=True)
    def _small_batches(self, monkeypatch):
        monkeypatch.setattr(images, "RECORDS", RECORDS)

    @pytest.mark.parametrize("folder", ["cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin"])
    def test_images_and_labels_come_back(self, tmp_path, folder):
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
    def test_a_file_of_another_length_is_refused(self, tmp_path, change, message):
        write_cifar10(tmp_path / "cifar10", RECORDS)
        path = tmp_path / "cifar10" / "data_batch_3.bin"
        path.write_bytes((path.read_bytes() + b"12345")[: RECORDS * 3073 + change])
        with pytest.raises(ValueError, match=f"data_batch_3.bin .*{message}"):
            load_dataset("cifar10", tmp_path)

    def test_a_label_beyond_nine_is_refused(self, tmp_path):
        batches = write_cifar10(tmp_path / "cifar10", RECORDS)
        batches["test_batch.bin"][4, 0] = 10
        batches["test_batch.bin"].tofile(tmp_path / "cifar10" / "test_batch.bin")
        with pytest.raises(ValueError, match=f"test_batch.bin has the label 10 at offset {4 * 3073}"):
            load_dataset("cifar10", tmp_path)

    @pytest.mark.parametrize("copy", ["data_batch_4.bin", "test_batch.bin"])
    def test_a_batch_that_is_a_copy_of_another_is_refused(self, tmp_path, copy):
        write_cifar10(tmp_path / "cifar10", RECORDS)
        shutil.copy(tmp_path / "cifar10" / "data_batch_2.bin", tmp_path / "cifar10" / copy)
        with pytest.raises(ValueError, match=f"{copy} is a copy of .*data_batch_2.bin; CIFAR-10's batches all differ"):
            load_dataset("cifar10", tmp_path)

    def test_another_number_of_a_class_is_refused_at_the_official_size(self, tmp_path, monkeypatch):
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

    def test_a_missing_batch_is_named(self, tmp_path):
        write_cifar10(tmp_path / "cifar10", RECORDS)
        (tmp_path / "cifar10" / "data_batch_4.bin").unlink()
        with pytest.raises(
            FileNotFoundError, match="looked in .* for cifar10/data_batch_4.bin or .*data fetch cifar10"
        ):
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
    def test_the_python_version_is_refused_and_the_binary_one_named(self, tmp_path, name):
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

    def test_the_python_version_next_to_the_binary_one_does_no_harm(self, tmp_path):
        write_cifar10(tmp_path / "cifar10", RECORDS)
        (tmp_path / "cifar-10-batches-py").mkdir()
        assert len(load_dataset("cifar10", tmp_path).y_test) == RECORDS


class TestSVHN:
    """SVHN's MATLAB files: read in MATLAB's order, and refused by name and offset."""

    @pytest.mark.parametrize("compress", [True, False])
    def test_images_and_labels_come_back(self, tmp_path, compress):
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
    def files(self, tmp_path):
        write_svhn(tmp_path / "svhn" / "train_32x32.mat", 6)
        write_svhn(tmp_path / "svhn" / "test_32x32.mat", 4)
        return tmp_path / "svhn"

    @pytest.mark.parametrize("compress", [True, False])
    @pytest.mark.parametrize("keep", [0.3, 0.999])
    def test_a_truncated_file_is_refused_by_name_and_offset(self, files, compress, keep):
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
    def test_a_cut_header_or_tag_is_refused(self, files, length):
        path = files / "train_32x32.mat"
        path.write_bytes(path.read_bytes()[:length])
        with pytest.raises(ValueError, match=f"train_32x32.mat is truncated: it ends at offset {length}"):
            load_dataset("svhn", files.parent)

    def test_damage_within_a_variable_is_refused(self, files):
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
    def test_what_is_no_matlab_file_is_refused(self, files, content, message):
        (files / "test_32x32.mat").write_bytes(content)
        with pytest.raises(ValueError, match=f"test_32x32.mat is {message}"):
            load_dataset("svhn", files.parent)

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
    def test_wrong_variables_are_refused(self, files, replace, message):
        write_svhn(files / "test_32x32.mat", 4, **replace)
        with pytest.raises(ValueError, match=f"test_32x32.mat: {message}"):
            load_dataset("svhn", files.parent)

    def test_the_training_file_under_the_name_of_the_test_file_is_refused(self, files):
        write_svhn(files / "test_32x32.mat", 6, compress=False)  # other bytes, the same content
        with pytest.raises(ValueError, match="train_32x32.mat and .*test_32x32.mat hold the same samples"):
            load_dataset("svhn", files.parent)

    def test_a_subset_says_so(self, files):
        assert load_dataset("svhn", files.parent).note == "subset: 6 of 73,257 training rows, 4 of 26,032 test rows"

    def test_rows_are_counted_without_reading_them(self, files, monkeypatch):
        (svhn,) = (entry for entry in catalogue() if entry.name == "svhn")
        monkeypatch.setattr("scipy.io.loadmat", None)
        assert svhn.rows(files.parent) == (6, 4)
        savemat(files / "test_32x32.mat", {"Z": np.zeros(3)})
        with pytest.raises(ValueError, match="test_32x32.mat has no variable X of shape"):
            svhn.rows(files.parent)

    def test_missing_variables_are_named(self, files):
        savemat(files / "test_32x32.mat", {"X": np.zeros((32, 32, 3, 4), np.uint8)})
        with pytest.raises(ValueError, match="test_32x32.mat has no variable y; SVHN's files have X and y"):
            load_dataset("svhn", files.parent)
        savemat(files / "test_32x32.mat", {"Z": np.zeros(3)})
        with pytest.raises(ValueError, match="no variable X and no y"):
            load_dataset("svhn", files.parent)


class TestAnimal10N:
    """Animal-10N's folders."""

    @pytest.fixture
    def image(self):
        return pytest.importorskip("PIL.Image", reason="unflip[data] is not installed")

    @pytest.fixture
    def folder(self, tmp_path, image):
        for part, names in (("training", ["0_a.jpg", "9_b.jpg", "3_c_d.JPG"]), ("testing", ["5_x.jpeg", "1_y.jpg"])):
            (tmp_path / "animal10n" / part).mkdir(parents=True)
            for name in names:
                save(image, tmp_path / "animal10n" / part / name, (250, 10 * int(name[0]), 0))
        return tmp_path / "animal10n"

    def test_images_and_labels_come_back(self, folder):
        (folder / "training" / ".DS_Store").write_bytes(b"x")
        data = load_dataset("animal10n", folder.parent)
        assert data.y_train is None  # nobody knows the clean labels
        assert data.y_noisy.tolist() == [0, 3, 9]  # in the order of the names
        assert data.y_test.tolist() == [1, 5]
        assert data.x_train.shape == (3, 3, 64, 64)
        assert data.x_train.dtype == np.float32
        for pixels, label in ((data.x_train, data.y_noisy), (data.x_test, data.y_test)):
            np.testing.assert_allclose(pixels[:, 0], 250 / 255, atol=0.02)
            np.testing.assert_allclose(pixels[:, 1].mean(axis=(1, 2)), 10 * label / 255, atol=0.02)
            np.testing.assert_allclose(pixels[:, 2], 0, atol=0.02)
        assert data.class_names[9] == "guinea pig"
        assert data.note == "subset: 3 of 50,000 training rows, 2 of 5,000 test rows"

    def test_rows_are_height_and_columns_are_width(self, folder, image):
        pixels = np.zeros((64, 64, 3), np.uint8)
        pixels[:8, 32:] = 255  # a white block at the top right
        image.fromarray(pixels).save(folder / "testing" / "0_0.jpg", quality=100)
        x = load_dataset("animal10n", folder.parent).x_test[0]
        assert x[:, :8, 32:].min() > 0.9
        assert x[:, 16:].max() < 0.1

    def test_grey_images_have_three_equal_channels(self, folder, image):
        save(image, folder / "testing" / "0_0.jpg", 100, mode="L")
        x = load_dataset("animal10n", folder.parent).x_test[0]
        np.testing.assert_array_equal(x[0], x[1])
        np.testing.assert_array_equal(x[0], x[2])

    @pytest.mark.parametrize("size", [(64, 63), (32, 64), (128, 128)])
    def test_another_size_is_refused_by_name(self, folder, image, size):
        save(image, folder / "training" / "2_odd.jpg", (0, 0, 0), size)
        with pytest.raises(ValueError, match=f"2_odd.jpg is {size[0]}x{size[1]} pixels; expected 64x64"):
            load_dataset("animal10n", folder.parent)

    def test_what_cannot_be_decoded_is_refused_by_name(self, folder, image):
        path = folder / "testing" / "5_x.jpeg"
        whole = path.read_bytes()
        for content in (b"", b"not an image", whole[: len(whole) // 2]):
            path.write_bytes(content)
            with pytest.raises(ValueError, match="5_x.jpeg cannot be decoded as a JPEG image"):
                load_dataset("animal10n", folder.parent)
        save(image, path, (0, 0, 0), form="PNG")
        with pytest.raises(ValueError, match="5_x.jpeg cannot be decoded as a JPEG image"):
            load_dataset("animal10n", folder.parent)

    @pytest.mark.parametrize("name", ["cat_1.jpg", "10_a.jpg", "-1_a.jpg", "3.jpg", "3_a.png", "Thumbs.db"])
    def test_another_name_is_refused(self, folder, name):
        (folder / "training" / name).write_bytes(b"")
        with pytest.raises(ValueError, match=f"{name} is not named <label>_<name>.jpg"):
            load_dataset("animal10n", folder.parent)

    def test_an_empty_folder_and_a_missing_one_are_refused(self, folder):
        for path in (folder / "testing").iterdir():
            path.unlink()
        with pytest.raises(ValueError, match="testing is empty"):
            load_dataset("animal10n", folder.parent)
        (folder / "testing").rmdir()
        with pytest.raises(FileNotFoundError, match="for animal10n/testing. Animal-10N is available on request"):
            load_dataset("animal10n", folder.parent)

    def test_the_same_images_for_training_and_testing_are_refused(self, folder):
        shutil.rmtree(folder / "testing")
        shutil.copytree(folder / "training", folder / "testing")
        with pytest.raises(ValueError, match="training and .*testing hold the same samples"):
            load_dataset("animal10n", folder.parent)

    def test_without_pillow_the_error_says_what_to_install(self, tmp_path, monkeypatch):
        for part in ("training", "testing"):
            (tmp_path / "animal10n" / part).mkdir(parents=True)
        monkeypatch.setitem(sys.modules, "PIL", None)
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'unflip\[data\]'"):
            load_dataset("animal10n", tmp_path)
