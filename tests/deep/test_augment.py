"""Augmentation: every image moves on its own, by no more than it may, and nothing else changes."""

import numpy as np
import pytest
import torch

from unflip.deep import Trainer, make_augment, make_method, make_network
from unflip.deep.augment import flip, shift
from unflip.noise import symmetric


@pytest.fixture
def images():
    return torch.rand(200, 2, 6, 5, generator=torch.Generator().manual_seed(0)) + 0.1


def moved(image, dy, dx):
    """A loop: the pixel at (i, j) comes from (i + dy, j + dx), zeros from outside."""
    _, height, width = image.shape
    out = torch.zeros_like(image)
    for i in range(height):
        for j in range(width):
            if 0 <= i + dy < height and 0 <= j + dx < width:
                out[:, i, j] = image[:, i + dy, j + dx]
    return out


@pytest.mark.parametrize("pixels", [1, 2])
def test_each_image_is_one_of_its_moves_and_all_moves_occur(images, pixels):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        result = shift(images, pixels)
    steps = range(-pixels, pixels + 1)
    found = set()
    for before, after in zip(images, result, strict=True):
        same = [(dy, dx) for dy in steps for dx in steps if torch.equal(after, moved(before, dy, dx))]
        assert len(same) == 1
        found.add(same[0])
    assert len(found) == (2 * pixels + 1) ** 2


def test_half_of_the_images_are_mirrored(images):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        result = flip(images)
    mirrored = [torch.equal(after, before.flip(2)) for before, after in zip(images, result, strict=True)]
    same = [torch.equal(after, before) for before, after in zip(images, result, strict=True)]
    assert all(a != b for a, b in zip(mirrored, same, strict=True))
    assert 70 < sum(mirrored) < 130


def test_what_can_be_given():
    def own(x):
        return x + 1

    assert make_augment(None) is None
    assert make_augment(own) is own
    x = torch.zeros(2, 1, 8, 8)
    assert make_augment("crop+flip")(x).shape == x.shape
    with pytest.raises(ValueError, match=r"unknown augmentation 'rotate'; give 'shift', 'crop' or 'flip'"):
        make_augment("shift+rotate")
    with pytest.raises(ValueError, match=r"augment needs images, .* got \(5,\)"):
        make_augment("shift")(torch.zeros(3, 5))


def test_the_trainer_augments_in_training_only_and_a_checkpoint_continues(tmp_path):
    x = (np.random.default_rng(0).random((60, 1, 6, 6)) * 255).astype(np.uint8)
    y = np.arange(60) % 3
    evaluated = []

    def run(epochs, path, augment="shift"):
        model = make_method("mcldce", make_network("mlp", (1, 6, 6), 3, hidden=8), 3, symmetric(3, 0.2))
        trainer = Trainer(model, epochs=epochs, batch_size=16, augment=augment, checkpoint=path, progress=False)
        trainer.fit(x, y, evaluate=lambda t: evaluated.append(t.predict_logits(x)) or 0.0)
        return trainer

    with torch.random.fork_rng():
        torch.manual_seed(0)
        whole = run(3, None).predict_logits(x)
        torch.manual_seed(0)
        plain = run(3, None, None).predict_logits(x)
        torch.manual_seed(0)
        run(2, tmp_path / "c")
        torch.manual_seed(0)
        resumed = run(3, tmp_path / "c")
    assert torch.equal(whole, resumed.predict_logits(x))
    assert torch.equal(evaluated[-1], resumed.predict_logits(x)), "predictions are of the images as they are"
    assert not torch.equal(whole, plain)
    with pytest.raises(ValueError, match="augment"):
        run(4, tmp_path / "c", "flip")
