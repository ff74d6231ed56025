"""DivideMix against loops from its rules, and its mixture against scikit-learn's."""

import math

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from tests.deep.methods.conftest import PAIR, B, C, begun, build, ce_of, linear, loss_of, mean
from tests.deep.recorder import small_data, tensors
from unflip.deep import Trainer, make_method, make_network
from unflip.deep.methods.dividemix import clean_probability, sharpened

PRIOR = [0.4, 0.3, 0.2, 0.1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # ten steps may be too few
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("steps", [{}, {"max_iter": 100, "tol": 1e-9}])
def test_the_mixture_is_that_of_scikit_learn(seed, steps):
    rng = np.random.default_rng(seed)
    losses = np.concatenate([rng.exponential(0.3, 400), rng.normal(4, 0.5 + 0.5 * seed, 300) ** 2 / 4])
    x = ((losses - losses.min()) / (losses.max() - losses.min())).reshape(-1, 1)
    mixture = GaussianMixture(2, reg_covar=5e-4, random_state=0, **{"max_iter": 10, "tol": 1e-2} | steps)
    p = mixture.fit(x).predict_proba(x)[:, mixture.means_.argmin()]
    ours = clean_probability(torch.tensor(losses), **steps).numpy()
    np.testing.assert_allclose(ours, p, atol=1e-6)
    assert 0.2 < ours.mean() < 0.8


def test_equal_losses_are_all_clean():
    assert clean_probability(torch.full((5,), 0.3)).tolist() == [1] * 5


def test_sharpening():
    p = torch.tensor([[0.2, 0.8], [0.5, 0.5]])
    torch.testing.assert_close(sharpened(p, 0.5), torch.tensor([[0.04 / 0.68, 0.64 / 0.68], [0.5, 0.5]]))
    torch.testing.assert_close(sharpened(p, 1.0), p)


@pytest.mark.parametrize("penalty", [False, True])
def test_warm_up_is_cross_entropy(batch, penalty):
    x, y, w = batch
    method = build("dividemix", confidence_penalty=penalty)
    expected = 0
    for network in method.networks:
        z = network(x)
        p = z.softmax(1).tolist()
        terms = ce_of(z, y)
        if penalty:
            terms = [t + sum(q * math.log(q) for q in row) for t, row in zip(terms, p, strict=True)]
        expected += mean([a * t for a, t in zip(w.tolist(), terms, strict=True)])
    assert loss_of(method, x, y, 3, w).item() == pytest.approx(expected)


def divided(epoch=4, **settings):
    """The method after its first division, at an epoch in the ramp."""
    torch.manual_seed(0)
    settings = {"warm_up": 2, "ramp": 4, "temperature": 0.7} | settings
    method = begun(make_method("dividemix", linear, C, PAIR, PRIOR, **settings).double())
    method.between_epochs(epoch, lambda function: torch.zeros(B, C))
    method.clean.copy_(torch.tensor(np.random.default_rng(0).uniform(size=(2, B))))
    return method


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_a_divided_batch(batch, weighted, monkeypatch):
    x, y, w = batch
    method = divided()
    other = torch.randperm(B, generator=torch.Generator().manual_seed(1))
    drawn = iter([(torch.tensor(0.8, dtype=x.dtype), other), (torch.tensor(0.6, dtype=x.dtype), other.flip(0))])
    shares = [(0.8, other.tolist()), (0.6, other.flip(0).tolist())]
    monkeypatch.setattr(method, "draw", lambda x: next(drawn))
    p = [network(x).softmax(1).tolist() for network in method.networks]
    v = w.tolist() if weighted else [1] * B
    expected = 0
    for a in range(2):
        clean = method.clean[1 - a].tolist()
        l, s = shares[a]
        targets = []
        for i in range(B):
            if clean[i] > 0.5:
                t = [clean[i] * (k == y[i]) + (1 - clean[i]) * p[a][i][k] for k in range(C)]
            else:
                t = [(p[0][i][k] + p[1][i][k]) / 2 for k in range(C)]
            t = [float(q) ** (1 / 0.7) for q in t]
            targets.append([q / sum(t) for q in t])
        labeled, unlabeled, predictions = [], [], []
        for i in range(B):
            q = method.networks[a](l * x[i] + (1 - l) * x[s[i]]).softmax(0).tolist()
            t = [l * targets[i][k] + (1 - l) * targets[s[i]][k] for k in range(C)]
            u = l * v[i] + (1 - l) * v[s[i]]
            if clean[i] > 0.5:
                labeled.append(u * -sum(t[k] * math.log(q[k]) for k in range(C)))
            else:
                unlabeled.append(u * mean([(q[k] - t[k]) ** 2 for k in range(C)]))
            predictions.append(q)
        average = [mean([q[k] for q in predictions]) for k in range(C)]
        expected += mean(labeled) + 25 * 2 / 4 * mean(unlabeled)
        expected += sum(PRIOR[k] * math.log(PRIOR[k] / average[k]) for k in range(C))
    assert loss_of(method, x, y, 4, w if weighted else None).item() == pytest.approx(expected, rel=1e-6)


def test_what_is_drawn(batch):
    x, y, _ = batch
    method = divided()
    shares = []
    for _ in range(200):
        share, other = method.draw(x)
        assert sorted(other.tolist()) == list(range(B))
        shares.append(share.item())
    assert min(shares) >= 0.5
    assert np.mean(shares) == pytest.approx(0.637, abs=0.03)  # 1/2 + the mean deviation of Beta(4, 4)
    loss_of(method, x, y, 4).backward()
    assert all(torch.isfinite(p.grad).all() and p.grad.any() for p in method.parameters())


@pytest.mark.parametrize("everything", [0.0, 1.0])
def test_a_batch_of_one_kind(batch, everything):
    x, y, _ = batch
    method = divided()
    method.clean.fill_(everything)
    assert torch.isfinite(loss_of(method, x, y, 4))


def test_each_network_divides_by_its_own_losses(batch):
    x, y, _ = batch
    method = build("dividemix", warm_up=1)
    method.between_epochs(0, None)  # warms up
    assert (method.clean == 1).all()
    method.eval().between_epochs(1, lambda function: function(x))
    for k in range(2):
        losses = torch.tensor(ce_of(method.networks[k](x), y))
        torch.testing.assert_close(method.clean[k], clean_probability(losses).float())


def test_a_run_resumes_exactly(tmp_path):
    data = small_data()

    def trainer(epochs, checkpoint=None):
        torch.manual_seed(0)
        method = make_method("dividemix", make_network("mlp", 6, 3, hidden=8), 3, warm_up=1, ramp=2)
        return Trainer(method, epochs=epochs, batch_size=32, ema=0.9, checkpoint=checkpoint)

    straight = trainer(4)
    straight.fit(*data)
    for epochs in (1, 3, 4):
        resumed = trainer(epochs, tmp_path / "c.pt")
        resumed.fit(*data)
    ours, theirs = tensors(resumed), tensors(straight)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ramp": 0}, "ramp must be at least 1"),
        ({"lambda_u": -1.0}, "warm_up and lambda_u must not be negative"),
        ({"threshold": 2.0}, r"threshold must lie in \[0, 1\]"),
        ({"temperature": 0.0}, "temperature and alpha must be positive"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        make_method("dividemix", linear, C, **settings)
