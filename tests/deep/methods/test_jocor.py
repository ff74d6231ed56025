"""JoCoR against a loop from its rule."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.deep.methods.conftest import B, C, build, mean, naive_forget, ranked
from unflip.deep.methods.jocor import joint_losses


@pytest.mark.parametrize("epoch", [0, 4, 20])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("co_lambda", [0.0, 0.65, 0.9])
def test_jocor(batch, epoch, weighted, co_lambda):
    x, y, w = batch
    method = build("jocor", co_lambda=co_lambda)
    z1, z2 = (network(x) for network in method.networks)
    joint = []
    for i in range(B):
        p, q = z1[i].softmax(0).tolist(), z2[i].softmax(0).tolist()
        kl_pq = sum(p[j] * math.log(p[j] / q[j]) for j in range(C))
        kl_qp = sum(q[j] * math.log(q[j] / p[j]) for j in range(C))
        ce = -math.log(p[y[i]]) - math.log(q[y[i]])
        joint.append((1 - co_lambda) * ce + co_lambda * (kl_pq + kl_qp))
    k = int((1 - naive_forget(epoch, 0.3)) * B)
    v = w.tolist() if weighted else [1] * B
    expected = mean([v[i] * joint[i] for i in ranked(joint)[:k]])
    assert method(x, y, epoch, w if weighted else None).item() == pytest.approx(expected)


def test_jocor_gradient_goes_through_both_networks():
    torch.manual_seed(0)
    z = torch.randn(2, 5, C, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 2, 3, 0])
    assert torch.autograd.gradcheck(lambda v: joint_losses(v[0], v[1], y, 1.0), z)
    p, q = z.detach().softmax(2)
    kl = F.kl_div(p.log(), q.log(), log_target=True, reduction="none").sum(1)
    kl += F.kl_div(q.log(), p.log(), log_target=True, reduction="none").sum(1)
    torch.testing.assert_close(joint_losses(z[0], z[1], y, 1.0).detach(), kl)


def test_jocor_survives_probabilities_that_underflow():
    z1 = torch.tensor([[300.0, 0.0]], requires_grad=True)
    z2 = torch.tensor([[0.0, 300.0]], requires_grad=True)
    loss = joint_losses(z1, z2, torch.tensor([0]), 0.9).sum()
    loss.backward()
    assert loss.item() == pytest.approx(0.1 * 300 + 0.9 * 600)
    assert torch.isfinite(z1.grad).all()
    assert torch.isfinite(z2.grad).all()
