"""Thumbnails are the images that they show."""

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_thumbnail_is_the_image(channels):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("jinja2")
    from io import BytesIO

    from unflip.page.thumbnails import thumbnail

    pixels = np.random.default_rng(0).integers(256, size=(channels, 5, 7))
    with image.open(BytesIO(thumbnail(pixels, 0, 255))) as read:
        assert np.array_equal(np.asarray(read).reshape(5, 7, channels), pixels.transpose(1, 2, 0))
    with image.open(BytesIO(thumbnail(pixels, 0, 255, largest=3))) as read:  # squares of 3 x 3
        small = np.asarray(read).reshape(2, 3, channels)
    assert np.abs(small[0, 1] - pixels[:, :3, 3:6].mean(axis=(1, 2))).max() <= 0.5
    assert np.abs(small[0, 2] - pixels[:, :3, 6].mean(axis=1)).max() <= 0.5  # the last column repeated


def test_thumbnail_of_odd_channels_and_shapes():
    pytest.importorskip("jinja2")
    from unflip.page.thumbnails import thumbnail

    two = np.stack([np.zeros((2, 2)), np.ones((2, 2))])
    assert thumbnail(two) == thumbnail(np.full((1, 2, 2), 0.5))
    with pytest.raises(ValueError, match="got \\(2, 2\\)"):
        thumbnail(np.zeros((2, 2)))
