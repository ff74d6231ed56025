"""ELR against a loop from its rule, and what it keeps."""

import math

import numpy as np
import pytest
import torch

import unflip
from tests.deep.methods.conftest import B, C, build, ce_of, mean
from unflip.deep import NoisyLabelClassifier


@pytest.mark.parametrize("weighted", [False, True])
def test_elr(batch, weighted):
    x, y, w = batch
    method = build("elr", strength=2.0, beta=0.6)
    targets = [[0.0] * C for _ in range(B)]
    generator = torch.Generator().manual_seed(0)
    for step in range(3):
        index = torch.randperm(B, generator=generator)[:20]
        p = method.logits(x[index]).softmax(1).clamp(1e-4, 1 - 1e-4).tolist()
        losses = []
        for i, row, ce in zip(index.tolist(), p, ce_of(method.logits(x[index]), y[index]), strict=True):
            targets[i] = [0.6 * t + 0.4 * v / sum(row) for t, v in zip(targets[i], row, strict=True)]
            agreement = sum(t * v for t, v in zip(targets[i], row, strict=True))
            losses.append((w[i].item() if weighted else 1) * (ce + 2 * math.log(1 - agreement)))
        loss = method(x[index], y[index], step, w[index] if weighted else None, index=index)
        assert loss.item() == pytest.approx(mean(losses))
        loss.backward()
        with torch.no_grad():
            for parameter in method.parameters():
                parameter -= parameter.grad
                parameter.grad = None
    np.testing.assert_allclose(method.targets.numpy(), targets)


def test_gradient(batch):
    # For p of a sample, the gradient of log(1 - <t, p>) by the logits is p_k (<t, p> - t_k) / (1 - <t, p>).
    x, y, _ = batch
    method, plain = build("elr", beta=0.0), build("ce")
    method(x[:1], y[:1], 0, index=torch.tensor([0])).backward()
    plain(x[:1], y[:1], 0).backward()
    p = method.logits(x[:1])[0].softmax(0).detach()
    pull = p * (p @ p - p) / (1 - p @ p)  # t = p for beta = 0
    torch.testing.assert_close(method.networks[0].bias.grad, plain.networks[0].bias.grad + 3 * pull)


def test_without_strength_it_is_cross_entropy(batch):
    x, y, w = batch
    torch.testing.assert_close(build("elr", strength=0.0)(x, y, 0, w, index=torch.arange(B)), build("ce")(x, y, 0, w))


def test_a_sure_network_has_a_finite_loss(batch):
    x, y, _ = batch
    method = build("elr", beta=0.0)
    with torch.no_grad():
        method.networks[0].weight.mul_(1e6)
    loss = method(x, y, 0, index=torch.arange(B))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(method.networks[0].weight.grad).all()


def test_a_saved_model_has_no_targets(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    model = NoisyLabelClassifier("elr", epochs=2, random_state=0).fit(X, y)
    assert not any("targets" in name for name in model.methods_[0].state_dict())
    back = unflip.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="'elr' keeps something for each sample, but batches .*; give arrays X and y"):
        NoisyLabelClassifier("elr").fit([(X, y)])
