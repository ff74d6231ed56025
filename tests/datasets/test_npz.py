"""Features from any .npz file, and the human labels of CIFAR-10N."""

import io
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.datasets.layouts import write_cifar10
from unflip.datasets import catalogue, images, load_dataset
from unflip.datasets.catalogue import CONVERT_HUMAN_LABELS

RNG = np.random.default_rng(0)
ARRAYS = {
    "x_train": RNG.normal(size=(6, 4)).astype(np.float16),
    "y_train": np.array([0, 2, 1, 1, 0, 2]),
    "x_test": RNG.normal(size=(3, 4)),
    "y_test": np.array([2, 0, 1], np.uint8),
}


def saved(path, **replace):
    """ARRAYS with some replaced, or left out where None."""
    np.savez(path, **{key: value for key, value in (ARRAYS | replace).items() if value is not None})
    return path


def test_features_and_labels_come_back(tmp_path):
    data = load_dataset(saved(tmp_path / "mine.npz"))
    assert data.name == "mine"
    assert data.x_train.dtype == data.x_test.dtype == np.float32
    np.testing.assert_array_equal(data.x_train, ARRAYS["x_train"])
    np.testing.assert_array_equal(data.x_test, ARRAYS["x_test"].astype(np.float32))
    assert data.y_train.tolist() == [0, 2, 1, 1, 0, 2]
    assert data.y_test.tolist() == [2, 0, 1]
    assert data.y_test.dtype == np.int64
    assert data.y_noisy is None
    assert data.class_names == ("0", "1", "2")


def test_labels_become_codes_of_all_labels_there_are(tmp_path):
    strings = {
        "y_train": np.array(["cow", "ant", "cow", "ant", "cow", "cow"]),
        "y_noisy": np.array(["cow", "ant", "bee", "ant", "cow", "cow"]),
        "y_test": np.array(["dog", "ant", "cow"]),
    }
    data = load_dataset(str(saved(tmp_path / "a.npz", **strings)))
    assert data.class_names == ("ant", "bee", "cow", "dog")
    for codes, key in ((data.y_train, "y_train"), (data.y_noisy, "y_noisy"), (data.y_test, "y_test")):
        assert [data.class_names[code] for code in codes] == strings[key].tolist()
    numbers = {"y_train": np.array([10, 9, 10, 9, 10, 9], np.uint64), "y_test": np.array([-1, 10, 9])}
    data = load_dataset(saved(tmp_path / "b.npz", **numbers))
    assert data.class_names == ("-1", "9", "10")
    assert data.y_train.tolist() == [2, 1, 2, 1, 2, 1]


def test_named_classes_keep_their_codes(tmp_path):
    data = load_dataset(saved(tmp_path / "a.npz", class_names=np.array(["x", "y", "z", "never seen"])))
    assert data.class_names == ("x", "y", "z", "never seen")
    assert data.y_train.tolist() == [0, 2, 1, 1, 0, 2]
    with pytest.raises(ValueError, match="a.npz: class codes must lie in 0 .. 1; got 0 .. 2"):
        load_dataset(saved(tmp_path / "a.npz", class_names=np.array(["x", "y"])))


def test_noisy_labels_alone_will_do(tmp_path):
    data = load_dataset(saved(tmp_path / "a.npz", y_train=None, y_noisy=ARRAYS["y_train"]))
    assert data.y_train is None
    assert data.y_noisy.tolist() == [0, 2, 1, 1, 0, 2]
    with pytest.raises(ValueError, match="a.npz has neither y_train .clean labels. nor y_noisy"):
        load_dataset(saved(tmp_path / "a.npz", y_train=None))


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        ({"x_test": None, "y_test": None}, "no array x_test, y_test, only x_train, y_train"),
        ({"x_train": np.array([object()] * 6)}, "object arrays cannot be loaded"),
        ({"y_train": np.array(["a", 1, None, 2, 3, 4], object)}, "object arrays cannot be loaded"),
        ({"x_train": np.zeros(6)}, r"x_train is float64 of shape \(6,\), expected numbers of shape \(n, d\)"),
        ({"x_train": np.zeros((6, 4), complex)}, "x_train is complex128"),
        ({"x_test": np.zeros((3, 5))}, r"x_train has shape \(6, 4\) and x_test \(3, 5\)"),
        ({"x_test": np.array([[0, 0, 0, 0], [0, 0, np.nan, 0], [0, 0, 0, 0]])}, r"x_test\[1\] has NaN"),
        ({"x_test": np.full((3, 4), 1e300)}, r"x_test\[0\] has .*too large"),
        ({"y_train": np.zeros(5, int)}, "lengths differ: x_train has 6, y_train has 5"),
        ({"y_noisy": np.zeros(7, int)}, "x_train has 6, y_train has 6, y_noisy has 7"),
        ({"y_test": np.zeros(4, int)}, "x_test has 3, y_test has 4"),
        ({"y_test": np.zeros((3, 1), int)}, r"y_test is int64 of shape \(3, 1\)"),
        ({"y_test": np.zeros(3)}, "y_test is float64"),
        ({"y_test": np.array(["a", "b", "c"])}, "some labels are strings and some are numbers"),
    ],
)
def test_bad_arrays_are_refused_by_file_and_name(tmp_path, replace, message):
    with pytest.raises(ValueError, match=f"a.npz.*{message}"):
        load_dataset(saved(tmp_path / "a.npz", **replace))


def test_files_that_are_no_npz_are_refused(tmp_path):
    whole = saved(tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[:500])
    with pytest.raises(ValueError, match="a.npz is truncated: it ends at offset 500"):
        load_dataset(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_bytes(b"\x80\x04a pickle")
    with pytest.raises(ValueError, match=r"a.npz is not an .npz file: it begins with b'\\x80\\x04a ' at offset 0"):
        load_dataset(tmp_path / "a.npz")
    at = whole.index(ARRAYS["x_test"].tobytes())
    (tmp_path / "a.npz").write_bytes(whole[:at] + bytes(8) + whole[at + 8 :])
    with pytest.raises(ValueError, match="a.npz cannot be read: Bad CRC-32 for file 'x_test.npy'"):
        load_dataset(tmp_path / "a.npz")
    with pytest.raises(FileNotFoundError, match="missing.npz does not exist"):
        load_dataset(tmp_path / "missing.npz")


def member(values, more=b""):
    """The bytes of an .npy file, and then some."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue() + more


BOMB = bytes(1 << 25)
LONG_HEADER = b"\x93NUMPY\x02\x00" + (1 << 25).to_bytes(4, "little") + b" " * (1 << 25)


@pytest.mark.parametrize(
    ("content", "method", "message"),
    [
        (BOMB, zipfile.ZIP_DEFLATED, "x_train is not an array"),
        (
            member(ARRAYS["x_train"], BOMB),
            zipfile.ZIP_DEFLATED,
            "x_train has 33554608 bytes, but its header announces 176",
        ),
        (LONG_HEADER, zipfile.ZIP_DEFLATED, "x_train has a header of 33554444 bytes"),
        (member(ARRAYS["x_train"], BOMB), zipfile.ZIP_BZIP2, "x_train has an unsupported compression"),
        (member(ARRAYS["x_train"])[:-1], zipfile.ZIP_STORED, "x_train has 175 bytes, but its header announces 176"),
    ],
    ids=["no array", "after the array", "header", "bzip2", "cut"],
)
def test_a_member_is_not_decompressed_beyond_what_its_header_announces(tmp_path, content, method, message):
    path = saved(tmp_path / "a.npz", x_train=None)
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr("x_train.npy", content)
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"a.npz cannot be read: {message}"):
            load_dataset(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_directory_that_understates_a_member_does_not_help_it(tmp_path):
    path = saved(tmp_path / "a.npz", x_train=None)
    whole = member(ARRAYS["x_train"], bytes(1000))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x_train.npy", whole)
    lie = path.read_bytes().replace(len(whole).to_bytes(4, "little"), (len(whole) - 1000).to_bytes(4, "little"))
    path.write_bytes(lie)
    with pytest.raises(ValueError, match="a.npz cannot be read: Bad CRC-32 for file 'x_train.npy'"):
        load_dataset(path)


@pytest.mark.parametrize("order", ["C", "F"])
def test_every_layout_that_numpy_writes_comes_back(tmp_path, order):
    x = np.asarray(np.arange(24.0).reshape(6, 4), order=order)
    np.savez_compressed(tmp_path / "a.npz", **(ARRAYS | {"x_train": x}))
    np.testing.assert_array_equal(load_dataset(tmp_path / "a.npz").x_train, x)


HUMAN = {
    "clean_label": np.arange(20, dtype=np.uint8) % 10,
    "aggre_label": (np.arange(20, dtype=np.uint8) + (np.arange(20) == 3)).astype(np.uint8) % 10,
    "random_label1": np.arange(20, dtype=np.uint8)[::-1] % 10,
    "random_label2": np.full(20, 2, np.uint8),
    "random_label3": np.full(20, 3, np.uint8),
    "worse_label": np.full(20, 4, np.uint8),
}


@pytest.fixture
def human(tmp_path):
    saved(
        tmp_path / "cifar10_features.npz",
        x_train=RNG.normal(size=(20, 4)),
        y_train=HUMAN["clean_label"],
        x_test=RNG.normal(size=(10, 4)),
        y_test=np.arange(10),
    )
    np.savez(tmp_path / "cifar10n_labels.npz", **HUMAN)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("cifar10n-aggregate", "aggre_label"),
        ("cifar10n-random1", "random_label1"),
        ("cifar10n-random2", "random_label2"),
        ("cifar10n-random3", "random_label3"),
        ("cifar10n-worse", "worse_label"),
    ],
)
def test_human_labels_stand_next_to_the_clean_ones(human, name, key):
    data = load_dataset(name, human)
    features = load_dataset("cifar10-features", human)
    np.testing.assert_array_equal(data.x_train, features.x_train)
    np.testing.assert_array_equal(data.y_train, HUMAN["clean_label"])
    np.testing.assert_array_equal(data.y_noisy, HUMAN[key])
    assert features.y_noisy is None
    assert data.name == name
    assert data.class_names[0] == "airplane"


@pytest.mark.parametrize("name", ["cifar10n-worse", "cifar10n-worse-images"])
def test_a_label_set_that_the_file_has_not_is_named_with_those_it_has(human, name):
    write_cifar10(human / "cifar10", 1)  # of another size: the label file is looked at first
    np.savez(human / "cifar10n_labels.npz", **{key: HUMAN[key] for key in list(HUMAN)[:3]})
    message = "cifar10n_labels.npz has no label set worse_label, only aggre_label, random_label1; make"
    (entry,) = (entry for entry in catalogue() if entry.name == name)
    for look in (entry.load, entry.rows):
        with pytest.raises(ValueError, match=message):
            look(human)


def test_human_labels_of_the_images(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "RECORDS", 4)
    batches = write_cifar10(tmp_path / "cifar10", 4)
    clean = np.concatenate([batches[f"data_batch_{k}.bin"][:, 0] for k in range(1, 6)])
    np.savez(tmp_path / "cifar10n_labels.npz", **(HUMAN | {"clean_label": clean}))
    data = load_dataset("cifar10n-random1-images", tmp_path)
    np.testing.assert_array_equal(data.x_train, load_dataset("cifar10", tmp_path).x_train)
    np.testing.assert_array_equal(data.y_noisy, HUMAN["random_label1"])
    np.testing.assert_array_equal(data.y_train, clean)


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        ({"clean_label": np.roll(HUMAN["clean_label"], 1)}, r"clean_label\[0\] is 9, but sample 0 .* has the label 0"),
        ({"aggre_label": HUMAN["aggre_label"][:19]}, "x_train has 20, clean_label has 20, aggre_label has 19"),
        ({"aggre_label": HUMAN["aggre_label"] + np.uint8(1)}, "class codes must lie in 0 .. 9; got 1 .. 10"),
        ({"aggre_label": HUMAN["aggre_label"] / 1}, "must be class codes, integers"),
        (
            {"aggre_label": None},
            "no label set aggre_label, only random_label1, random_label2, random_label3, worse_label",
        ),
    ],
)
def test_a_label_file_that_does_not_fit_is_refused(human, replace, message):
    np.savez(
        human / "cifar10n_labels.npz", **{key: value for key, value in (HUMAN | replace).items() if value is not None}
    )
    with pytest.raises(ValueError, match=f"cifar10n_labels.npz.*{message}"):
        load_dataset("cifar10n-aggregate", human)


@pytest.mark.parametrize("name", ["CIFAR-10_human.pt", "cifar10n/CIFAR-10_human.pt", "CIFAR-10_human.npy"])
def test_the_official_pickle_is_refused_with_the_way_out(human, name):
    (human / "cifar10n_labels.npz").unlink()
    (human / name).parent.mkdir(exist_ok=True)
    (human / name).write_bytes(b"cbuiltins\nexit\n(S'loaded'\ntR.")
    with pytest.raises(ValueError, match="CIFAR-10_human.* is a pickle.* never loaded.*cifar10n_labels.npz"):
        load_dataset("cifar10n-aggregate", human)
    with pytest.raises(ValueError, match="is a pickle"):
        load_dataset(human / "CIFAR-10_human.pt")


def test_the_way_out_runs_no_code_of_the_file(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="unflip[deep] is not installed")
    monkeypatch.chdir(tmp_path)
    torch.save({"clean_label": np.arange(5), "aggre_label": np.arange(5)[::-1].copy()}, "CIFAR-10_human.pt")
    exec(CONVERT_HUMAN_LABELS, {"numpy": np, "torch": torch})
    with np.load("cifar10n_labels.npz") as arrays:
        np.testing.assert_array_equal(arrays["aggre_label"], [4, 3, 2, 1, 0])

    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    torch.save({"clean_label": Trap()}, "CIFAR-10_human.pt")
    with pytest.raises(pickle.UnpicklingError):
        exec(CONVERT_HUMAN_LABELS, {"numpy": np, "torch": torch})
    assert not (tmp_path / "ran").exists()


def test_the_pickle_is_not_blamed_for_something_else(human):
    (human / "CIFAR-10_human.pt").write_bytes(b"left there after it was converted")
    (human / "cifar10_features.npz").unlink()
    with pytest.raises(FileNotFoundError, match="cifar10_features.npz"):
        load_dataset("cifar10n-aggregate", human)


def test_rows_are_counted_from_the_headers(human):
    (entry,) = (entry for entry in catalogue() if entry.name == "cifar10n-aggregate")
    assert entry.rows(human) == (20, 10)
    assert load_dataset("cifar10n-aggregate", human).note == (
        "subset: 20 of 50,000 training rows, 10 of 10,000 test rows"
    )


def test_training_features_as_test_features_are_refused(human):
    with np.load(human / "cifar10_features.npz") as found:
        arrays = dict(found)
    np.savez(human / "cifar10_features.npz", **(arrays | {"x_test": arrays["x_train"], "y_test": arrays["y_train"]}))
    with pytest.raises(ValueError, match="x_train and x_test of .*cifar10_features.npz are the same samples"):
        load_dataset("cifar10-features", human)


def test_features_of_other_classes_are_not_those_of_cifar10(tmp_path):
    saved(tmp_path / "cifar10_features.npz")
    with pytest.raises(
        ValueError, match="cifar10_features.npz: CIFAR-10's y_train and y_test must be 0 .. 9; got 0, 1, 2"
    ):
        load_dataset("cifar10-features", tmp_path)
