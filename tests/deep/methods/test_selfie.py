"""SELFIE against a loop from its rule, over several epochs."""

import math
from collections import Counter

import pytest
import torch

from tests.deep.methods.conftest import B, C, build, ce_of, linear, loss_of, mean, ranked
from tests.deep.recorder import small_data, tensors
from unflip.deep import Trainer, make_method, make_network


def entropy(shares):
    return -sum(s * math.log(s) for s in shares) / math.log(C)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("uncertainty", [0.05, 0.6])
def test_selfie(batch, weighted, uncertainty):
    x, y, w = batch
    method = build("selfie", forget_rate=0.4, warm_up=2, history=3, uncertainty=uncertainty)
    v = w.tolist() if weighted else [1] * B
    predictions, label, refurbished = [[] for _ in range(B)], {}, []
    random = torch.Generator().manual_seed(0)
    for epoch in range(7):
        with torch.no_grad():  # another network in each epoch
            method.networks[0].weight += 0.6 * torch.randn(C, x.shape[1], generator=random, dtype=x.dtype)
        z = method.networks[0](x)
        losses = ce_of(z, y)
        members, labels = list(range(B)), y.tolist()
        if epoch >= 2:
            for i in range(B):
                last = Counter(predictions[i][-3:])
                if sum(last.values()) == 3 and entropy([n / 3 for n in last.values()]) <= uncertainty:
                    label[i] = max(sorted(last), key=last.__getitem__)
            clean = ranked(losses)[: math.ceil(0.6 * B)]
            members = sorted({*clean, *label})
            labels = [label.get(i, k) for i, k in enumerate(labels)]
        refurbished.append(len(label))
        final = ce_of(z, torch.tensor(labels))
        expected = mean([v[i] * final[i] for i in members])
        order = torch.randperm(B, generator=torch.Generator().manual_seed(epoch))
        found = loss_of(method, x[order], y[order], epoch, w[order] if weighted else None, order)
        assert found.item() == pytest.approx(expected)
        for i, k in enumerate(z.argmax(1).tolist()):
            predictions[i].append(k)
    assert refurbished[2] == 0 < refurbished[3] < B
    assert method.refurbished.tolist() == [label.get(i, -1) for i in range(B)]


def test_without_noise_and_history_it_is_cross_entropy(batch):
    x, y, w = batch
    method = build("selfie", forget_rate=0.0, warm_up=0)
    assert not method.needs_transition
    assert loss_of(method, x, y, 0, w).item() == pytest.approx(build("ce")(x, y, 0, w).item())


def test_a_restart_keeps_the_new_labels_only(batch):
    x, y, _ = batch
    method = build("selfie", forget_rate=0.4, warm_up=2, history=2, restart_every=4)
    for epoch in range(4):
        method.between_epochs(epoch, None)
        loss_of(method, x, y, epoch)
    assert (method.refurbished >= 0).all()  # the network never changed
    labels, first = method.refurbished.clone(), method.networks[0].weight.clone()
    with torch.no_grad():
        method.networks[0].weight.add_(1)
        method.between_epochs(4, None)
    assert torch.equal(method.networks[0].weight, first)
    assert (method.predicted == -1).all()
    with torch.no_grad():
        method.networks[0].weight.neg_()
    assert loss_of(method, x, y, 4).item() == pytest.approx(mean(ce_of(method.networks[0](x), y)))  # warms up again
    assert torch.equal(method.refurbished, labels)
    assert loss_of(method, x, y, 6).item() == pytest.approx(mean(ce_of(method.networks[0](x), labels)))


def test_a_run_resumes_exactly(tmp_path):
    data = small_data()

    def trainer(epochs, checkpoint=None):
        torch.manual_seed(0)
        settings = {"forget_rate": 0.2, "warm_up": 1, "history": 2, "restart_every": 4}
        method = make_method("selfie", make_network("mlp", 6, 3, hidden=8), 3, **settings)
        return Trainer(method, epochs=epochs, batch_size=32, checkpoint=checkpoint)

    straight = trainer(6)
    straight.fit(*data)
    assert (straight.method.refurbished >= 0).any()
    for epochs in (3, 4, 6):
        resumed = trainer(epochs, tmp_path / "c.pt")
        resumed.fit(*data)
    ours, theirs = tensors(resumed), tensors(straight)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("settings", [{"warm_up": -1}, {"history": 0}, {"restart_every": 0}])
def test_bad_settings(settings):
    with pytest.raises(ValueError, match="warm_up must be at least 0, history and restart_every at least 1"):
        make_method("selfie", linear, C, forget_rate=0.2, **settings)
