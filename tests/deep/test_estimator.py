"""What all estimators with networks share: images and bytes, devices, seeds."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from unflip.deep import NoisyLabelClassifier
from unflip.deep.estimator import seeded
from unflip.models import load
from unflip.noise import symmetric


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def digits():
    """Return tables of 0 .. 16, images of bytes, and labels."""
    X, y = load_digits(return_X_y=True)
    return X, (X * 15.9375).astype(np.uint8).reshape(-1, 1, 8, 8), y


def fitted(X, y, epochs=2):
    model = NoisyLabelClassifier(transition=symmetric(10, 0.1), epochs=epochs, lr=0.01, ema=0.9, random_state=0)
    return model.fit(X, y)


def test_images_of_bytes_and_any_labels(digits):
    _, images, y = digits
    names = np.array([f"digit {k}" for k in range(10)])
    model = fitted(images, names[y], epochs=10)
    assert model.score(images, names[y]) > 0.9
    assert model.input_shape_ == (1, 8, 8)
    with pytest.raises(ValueError, match="shape"):
        model.predict(images[:, :, :4])


def test_bytes_and_floats_are_not_confused(digits):
    X, images, y = digits
    model = fitted(images, y)
    with pytest.raises(ValueError, match="uint8"):
        model.predict(images.astype(np.float32))
    np.testing.assert_allclose(model.predict_proba(images), model.predict_proba(images / 255), atol=1e-5)
    table = fitted(X.astype(np.uint8), y)  # standardized: no matter
    np.testing.assert_array_equal(table.predict(X.astype(np.uint8)), table.predict(X))


def test_prediction_builds_no_optimizer(digits, monkeypatch):
    _, images, y = digits
    model = fitted(images, y, epochs=1)
    monkeypatch.setattr(torch.optim.Optimizer, "__init__", lambda *_: pytest.fail("an optimizer was built"))
    assert model.predict(images).shape == y.shape


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_model_of_a_gpu_predicts_without_one(digits, tmp_path):
    _, images, y = digits
    here = fitted(images, y)
    expected = here.predict_proba(images)
    back = load(here.set_params(device="cuda").save(tmp_path / "m"))
    assert back.device == "cuda"
    with pytest.warns(UserWarning, match="device 'cuda' is not available, so the CPU is used"):
        proba = back.predict_proba(images)
    np.testing.assert_array_equal(proba, expected)
    with pytest.raises(RuntimeError, match="abacus"):
        back.set_params(device="abacus").predict(images)


def test_networks_follow_from_the_seed():
    def weights(seed):
        with seeded(seed):
            return torch.nn.Linear(3, 2).weight

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
