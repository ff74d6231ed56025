"""MentorNet's curricula against loops from their rules."""

import math

import numpy as np
import pytest
import torch

from tests.deep.methods.conftest import B, build, ce_of, linear, mean
from tests.deep.recorder import small_data, tensors
from unflip.deep import Trainer, make_method, make_network


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("threshold", [0.9, 1.5])
def test_self_paced(batch, weighted, threshold):
    x, y, w = batch
    method = build("mentornet", threshold=threshold, burn_in=0)
    losses = ce_of(method.networks[0](x), y)
    v = w.tolist() if weighted else [1] * B
    assert 0 < sum(l < threshold for l in losses) < B
    expected = mean([a * l if l < threshold else 0 for a, l in zip(v, losses, strict=True)])
    assert method(x, y, 0, w if weighted else None).item() == pytest.approx(expected)


def test_without_a_limit_it_is_cross_entropy(batch):
    x, y, w = batch
    expected = build("ce")(x, y, 0, w).item()
    assert build("mentornet", threshold=math.inf, burn_in=0)(x, y, 0, w).item() == pytest.approx(expected)
    assert build("mentornet", percentile=1.0, burn_in=0)(x, y, 0, w).item() == pytest.approx(expected)
    burning = build("mentornet", threshold=1e-9, burn_in=3)
    assert burning(x, y, 2, w).item() == pytest.approx(expected)
    assert burning(x, y, 3, w).item() == 0


def test_the_threshold_moves_with_the_losses():
    method = make_method("mentornet", linear, 4, percentile=0.6, decay=0.8).double()
    rng, a = np.random.default_rng(0), None
    for _ in range(6):
        losses = rng.exponential(size=11)
        q = sorted(losses)[6]  # 0.6 x 10
        a = q if a is None else 0.8 * a + 0.2 * q
        assert method.chosen(torch.tensor(losses)).tolist() == [l <= a for l in losses]
        assert method.moving_threshold.item() == pytest.approx(a)


def test_example_dropout_leaves_out_its_share(batch):
    x, y, _ = batch
    losses = ce_of(build("ce").networks[0](x), y)
    method = build("mentornet", threshold=math.inf, burn_in=5, example_dropout=(0.5, 0.1))
    for epoch, kept in ((4, 15), (5, 27)):  # int of half, and of nine tenths, of 31
        gradient = torch.autograd.grad(method(x, y, epoch), method.networks[0].bias)[0]
        assert torch.isfinite(gradient).all()
        drawn = {round(method(x, y, epoch).item(), 12) for _ in range(8)}
        assert len(drawn) > 1
        low, high = (mean(sorted(losses, reverse=r)[:kept]) * kept / B for r in (False, True))
        assert all(low <= loss <= high for loss in drawn)


def test_a_checkpoint_has_the_threshold(tmp_path):
    data = small_data()

    def trainer(epochs, checkpoint=None):
        torch.manual_seed(0)
        method = make_method("mentornet", make_network("mlp", 6, 3, hidden=8), 3, burn_in=1, example_dropout=(0.5, 0.1))
        return Trainer(method, epochs=epochs, batch_size=16, ema=0.9, checkpoint=checkpoint)

    straight = trainer(3)
    straight.fit(*data)
    assert straight.method.moving_threshold > 0
    trainer(2, tmp_path / "c.pt").fit(*data)
    resumed = trainer(3, tmp_path / "c.pt")
    resumed.fit(*data)
    ours, theirs = tensors(resumed), tensors(straight)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 0.0}, "threshold must be a positive number, or None"),
        ({"percentile": 0.0}, r"percentile must lie in \(0, 1\] and decay in \[0, 1\); got 0.0 and 0.5"),
        ({"decay": 1.0}, "decay in"),
        ({"example_dropout": (0.5, 1.0)}, "example_dropout must be two numbers in"),
        ({"example_dropout": [0.5]}, "example_dropout must be two numbers in"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        make_method("mentornet", linear, 4, **settings)
