"""Animal-10N's folders."""

import shutil
import sys

import numpy as np
import pytest

from unflip.datasets import load_dataset


@pytest.fixture
def image():
    return pytest.importorskip("PIL.Image", reason="unflip[data] is not installed")


@pytest.fixture
def folder(tmp_path, image):
    for part, names in (("training", ["0_a.jpg", "9_b.jpg", "3_c_d.JPG"]), ("testing", ["5_x.jpeg", "1_y.jpg"])):
        (tmp_path / "animal10n" / part).mkdir(parents=True)
        for name in names:
            save(image, tmp_path / "animal10n" / part / name, (250, 10 * int(name[0]), 0))
    return tmp_path / "animal10n"


def save(image, path, colour, size=(64, 64), mode="RGB", form="JPEG"):
    image.new(mode, size, colour).save(path, form, **({"quality": 100} if form == "JPEG" else {}))


def test_images_and_labels_come_back(folder):
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


def test_rows_are_height_and_columns_are_width(folder, image):
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[:8, 32:] = 255  # a white block at the top right
    image.fromarray(pixels).save(folder / "testing" / "0_0.jpg", quality=100)
    x = load_dataset("animal10n", folder.parent).x_test[0]
    assert x[:, :8, 32:].min() > 0.9
    assert x[:, 16:].max() < 0.1


def test_grey_images_have_three_equal_channels(folder, image):
    save(image, folder / "testing" / "0_0.jpg", 100, mode="L")
    x = load_dataset("animal10n", folder.parent).x_test[0]
    np.testing.assert_array_equal(x[0], x[1])
    np.testing.assert_array_equal(x[0], x[2])


@pytest.mark.parametrize("size", [(64, 63), (32, 64), (128, 128)])
def test_another_size_is_refused_by_name(folder, image, size):
    save(image, folder / "training" / "2_odd.jpg", (0, 0, 0), size)
    with pytest.raises(ValueError, match=f"2_odd.jpg is {size[0]}x{size[1]} pixels; expected 64x64"):
        load_dataset("animal10n", folder.parent)


def test_what_cannot_be_decoded_is_refused_by_name(folder, image):
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
def test_another_name_is_refused(folder, name):
    (folder / "training" / name).write_bytes(b"")
    with pytest.raises(ValueError, match=f"{name} is not named <label>_<name>.jpg"):
        load_dataset("animal10n", folder.parent)


def test_an_empty_folder_and_a_missing_one_are_refused(folder):
    for path in (folder / "testing").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="testing is empty"):
        load_dataset("animal10n", folder.parent)
    (folder / "testing").rmdir()
    with pytest.raises(FileNotFoundError, match="for animal10n/testing. Animal-10N is available on request"):
        load_dataset("animal10n", folder.parent)


def test_the_same_images_for_training_and_testing_are_refused(folder):
    shutil.rmtree(folder / "testing")
    shutil.copytree(folder / "training", folder / "testing")
    with pytest.raises(ValueError, match="training and .*testing hold the same samples"):
        load_dataset("animal10n", folder.parent)


def test_without_pillow_the_error_says_what_to_install(tmp_path, monkeypatch):
    for part in ("training", "testing"):
        (tmp_path / "animal10n" / part).mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install unflip\[data\]"):
        load_dataset("animal10n", tmp_path)
