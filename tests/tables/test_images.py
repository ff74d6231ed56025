"""Folders of images: the samples they give, and each mistake in them is named."""

import struct
import zlib

import numpy as np
import pytest

from tests.tables.conftest import image
from unflip.tables import read_table

Image = pytest.importorskip("PIL.Image", reason="unflip[data] is not installed")


class TestImages:
    def test_class_folders(self, pets):
        table = read_table(pets)
        assert (table.X.shape, table.X.dtype) == ((4, 3, 4, 5), np.float32)
        np.testing.assert_array_equal(table.X[0, :, 0, 0], np.float32([200, 100, 50]) / np.float32(255))
        assert table.y.tolist() == ["cat", "cat", "dog", "dog"]
        assert table.names.tolist() == ["cat/1.png", "cat/2.JPG", "dog/1.png", "dog/2.jpeg"]
        assert table.class_names == ("cat", "dog")
        assert read_table(pets, False).y is None

    def test_a_folder_without_classes_has_no_labels(self, pets):
        table = read_table(pets / "cat")
        assert table.y is None
        assert table.names.tolist() == ["1.png", "2.JPG"]

    def test_grey_images_have_one_channel(self, tmp_path):
        for name in ("a/1.png", "b/1.png", "b/2.png"):
            image(tmp_path, name, mode="L")
        table = read_table(tmp_path)
        assert table.X.shape == (3, 1, 4, 5)
        np.testing.assert_array_equal(table.X, np.float32(100) / np.float32(255))
        image(tmp_path, "a/2.png", mode="P")
        assert read_table(tmp_path).X.shape == (4, 3, 4, 5)

    def test_photographs_are_turned_upright(self, tmp_path):
        exif = Image.Exif()
        exif[0x0112] = 6
        (tmp_path / "a").mkdir()
        Image.new("RGB", (4, 5)).save(tmp_path / "a" / "1.jpg", exif=exif)
        image(tmp_path, "a/2.png", size=(5, 4))
        image(tmp_path, "b/1.png", size=(5, 4))
        assert read_table(tmp_path).X.shape == (3, 3, 4, 5)

    def test_sizes(self, pets):
        image(pets, "dog/3.png", size=(7, 9))
        with pytest.raises(
            ValueError, match="1.png is 5x4 pixels.*3.png 7x9; resize them, or choose one size.*--image-size"
        ):
            read_table(pets)
        assert read_table(pets, image_size=(6, 8)).X.shape == (5, 3, 6, 8)

    @pytest.mark.parametrize(
        ("harm", "match"),
        [
            (lambda p: (p / "dog" / "1.png").write_bytes(b"no image"), "dog/1.png cannot be read"),
            (
                lambda p: (p / "dog" / "1.png").write_bytes((p / "dog" / "1.png").read_bytes()[:-30]),
                "1.png cannot be read",
            ),
            (lambda p: Image.new("L", (5, 4)).save(p / "dog" / "1.png", format="GIF"), "1.png cannot be read"),
            (lambda p: Image.new("I;16", (5, 4)).save(p / "dog" / "1.png"), "1.png cannot be read.*8 bits"),
            (lambda p: (p / "eel").mkdir(), "class folder .*eel is empty"),
            (lambda p: (p / "cat" / "small").mkdir(), "small is a folder inside a class folder"),
            (lambda p: image(p, "loose.png"), "loose.png lies next to the class folders"),
            (lambda p: (p / "cat" / "notes.txt").write_text("x"), "notes.txt does not end in .png"),
        ],
    )
    def test_mistakes(self, pets, harm, match):
        harm(pets)
        with pytest.raises(ValueError, match=match):
            read_table(pets)

    def test_a_folder_has_no_columns(self, pets):
        for options in ({"label": "kind"}, {"weights": "w"}, {"drop": ["a"]}):
            with pytest.raises(ValueError, match=f"a folder of images, takes no {next(iter(options))}: leave out"):
                read_table(pets, **options)

    def test_one_class_or_none(self, tmp_path, pets):
        image(tmp_path, "one/cat/1.png")
        with pytest.raises(ValueError, match="only one class"):
            read_table(tmp_path / "one")
        (tmp_path / "empty").mkdir()
        with pytest.raises(ValueError, match="is empty"):
            read_table(tmp_path / "empty")

    @pytest.mark.parametrize("side", [10_000, 60_000])  # Pillow warns of the first and refuses the second
    def test_a_bomb_is_refused_by_its_header(self, pets, side):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
        (pets / "dog" / "1.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))))
        with pytest.raises(ValueError, match="1.png cannot be read.*decompression bomb"):
            read_table(pets, image_size=(4, 4))
