"""Each loss against a loop from its formula, in its limits, and on average over the noise."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from unflip.core import corrected_labels, mixing_matrix
from unflip.deep import (
    BackwardLoss,
    ForwardLoss,
    GCELoss,
    MAELoss,
    MCLDCELoss,
    ProperLoss,
    TruncatedGCELoss,
    UnhingedLoss,
)
from unflip.noise import pairflip, symmetric

C = 4
PRIOR = np.array([0.4, 0.3, 0.2, 0.1])
TRANSITIONS = {"pair": pairflip(C, 0.4), "symmetric": symmetric(C, 0.5), "identity": np.eye(C)}
PAIR = TRANSITIONS["pair"]  # has zeros


@pytest.fixture(autouse=True)
def double_precision():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return torch.tensor(3 * rng.standard_normal((12, C))), torch.tensor(rng.integers(C, size=12))


def softmax(z):
    e = [math.exp(v) for v in z]
    return [v / sum(e) for v in e]


def naive_mcldce(z, y, T, operator="exact", output="softmax"):
    h = softmax(z) if output == "softmax" else z
    t = corrected_labels(T, PRIOR, operator)[y]
    return 1 + sum(v * v for v in h) - 2 * sum(a * b for a, b in zip(t, h, strict=True))


def naive_metric(z, y, T, operator="exact"):
    """The squared error in the metric W = M M', h'W h - 2 <W t, h> + 1, entry by entry."""
    h, t, M = softmax(z), corrected_labels(T, PRIOR, operator)[y], mixing_matrix(T, PRIOR, operator)
    W = [[sum(M[i, k] * M[j, k] for k in range(C)) for j in range(C)] for i in range(C)]
    return 1 + sum(W[i][j] * (h[i] * h[j] - 2 * t[i] * h[j]) for i in range(C) for j in range(C))


def naive_gce(z, y, q=0.7):
    return (1 - softmax(z)[y] ** q) / q


def naive_truncated(z, y, q=0.7, k=0.5):
    return (1 - k**q) / q if softmax(z)[y] <= k else naive_gce(z, y, q)


def naive_forward(z, y, T):
    p = softmax(z)
    return -math.log(sum(p[i] * T[i, y] for i in range(C)))


def naive_proper(z, y, T, b):
    p = softmax(z)
    u = [sum(p[i] * T[i, j] for i in range(C)) for j in range(C)]
    return sum(v ** (1 + b) for v in u) - (1 + 1 / b) * u[y] ** b + 1 / b


def naive_backward(z, y, T):
    p, inverse = softmax(z), np.linalg.inv(T)
    return sum(inverse[y, j] * -math.log(p[j]) for j in range(C))


def naive_unhinged(z, y):
    return 1 - (z[y] - sum(z[j] for j in range(C) if j != y) / (C - 1))


def naive_mae(z, y):
    return sum(abs(p - (j == y)) for j, p in enumerate(softmax(z)))


LOSSES = {
    "mcldce": (MCLDCELoss(PAIR, metric="clean", prior=PRIOR), lambda z, y: naive_mcldce(z, y, PAIR)),
    "mcldce raw": (
        MCLDCELoss(PAIR, output="raw", metric="clean", prior=PRIOR),
        lambda z, y: naive_mcldce(z, y, PAIR, output="raw"),
    ),
    "mcldce noisy metric": (MCLDCELoss(PAIR, metric="noisy"), lambda z, y: naive_metric(z, y, PAIR)),
    "mcldce published noisy metric": (
        MCLDCELoss(PAIR, "published", metric="noisy", prior=PRIOR),
        lambda z, y: naive_metric(z, y, PAIR, "published"),
    ),
    "mcldce published": (
        MCLDCELoss(PAIR, "published", prior=PRIOR),
        lambda z, y: naive_mcldce(z, y, PAIR, "published"),
    ),
    "gce": (GCELoss(), naive_gce),
    "gce 0.3": (GCELoss(q=0.3), lambda z, y: naive_gce(z, y, 0.3)),
    "gce 1": (GCELoss(q=1), lambda z, y: naive_gce(z, y, 1)),
    "truncated": (TruncatedGCELoss(), naive_truncated),
    "truncated 0.2": (TruncatedGCELoss(q=0.4, k=0.2), lambda z, y: naive_truncated(z, y, 0.4, 0.2)),
    "truncated ce": (TruncatedGCELoss(q=0, k=0.2), lambda z, y: min(-math.log(softmax(z)[y]), -math.log(0.2))),
    "proper": (ProperLoss(PAIR, 0.4), lambda z, y: naive_proper(z, y, PAIR, 0.4)),
    "forward": (ForwardLoss(PAIR), lambda z, y: naive_forward(z, y, PAIR)),
    "backward": (BackwardLoss(PAIR), lambda z, y: naive_backward(z, y, PAIR)),
    "unhinged": (UnhingedLoss(), naive_unhinged),
    "mae": (MAELoss(), naive_mae),
}
each_loss = pytest.mark.parametrize("name", LOSSES)


@each_loss
def test_loss_equals_its_formula_in_a_loop(name, batch):
    loss, naive = LOSSES[name]
    loss = loss.double()
    logits, y = batch
    expected = [naive(z, k) for z, k in zip(logits.tolist(), y.tolist(), strict=True)]
    for reduction, value in [("none", expected), ("sum", sum(expected)), ("mean", sum(expected) / len(expected))]:
        loss.reduction = reduction
        # Those with T were built in single precision, as a user's are.
        torch.testing.assert_close(loss(logits, y), torch.tensor(value), rtol=1e-6, atol=1e-6)
    loss.reduction = "mean"


@each_loss
def test_gradient(name, batch):
    logits, y = batch
    loss = LOSSES[name][0].double()
    assert torch.autograd.gradcheck(lambda z: loss(z, y), logits.requires_grad_())


@each_loss
def test_extreme_logits_give_finite_losses_and_gradients(name):
    loss = LOSSES[name][0].float()
    logits = torch.tensor([[200.0, 0, 0, -200], [-200, 200, 0, 0]], dtype=torch.float32, requires_grad=True)
    value = loss(logits, torch.tensor([3, 0]))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("T", TRANSITIONS.values(), ids=TRANSITIONS)
def test_mcldce_exact_is_the_backward_corrected_squared_loss(T, batch):
    logits, y = batch
    h, inverse = logits.softmax(1), np.linalg.inv(T)
    expected = [sum(inverse[k, j] * (h[i] - torch.eye(C)[j]).square().sum() for j in range(C)) for i, k in enumerate(y)]
    torch.testing.assert_close(MCLDCELoss(T, metric="clean", reduction="none")(logits, y), torch.stack(expected))


@pytest.mark.parametrize(("operator", "metric"), [("exact", "noisy"), ("published", "clean")])
def test_each_operator_has_its_own_metric(operator, metric, batch):
    default = MCLDCELoss(PAIR, operator)
    assert default.metric == metric
    torch.testing.assert_close(default(*batch), MCLDCELoss(PAIR, operator, metric=metric)(*batch))


def test_for_symmetric_noise_both_metrics_are_one_loss(batch):
    logits, y = batch
    T = symmetric(C, 0.5)
    clean, noisy = (MCLDCELoss(T, metric=metric, reduction="none")(logits, y) for metric in ("clean", "noisy"))
    scale = (T[0, 0] - T[0, 1]) ** 2  # M M' = scale I + b J, and J is constant on probabilities
    torch.testing.assert_close(noisy - scale * clean, (noisy - scale * clean)[0].expand(12))


@pytest.mark.parametrize("metric", ["clean", "noisy"])
@pytest.mark.parametrize("T", TRANSITIONS.values(), ids=TRANSITIONS)
def test_the_clean_posterior_is_the_minimum_in_both_metrics(T, metric, batch):
    posterior = torch.tensor([[0.6, 0.25, 0.1, 0.05]])
    noisy_posterior = (posterior @ torch.tensor(T))[0]
    loss = MCLDCELoss(T, metric=metric)

    def risk(logits):
        return sum(p * loss(logits, torch.tensor([k])) for k, p in enumerate(noisy_posterior))

    at = posterior.log().requires_grad_()
    (gradient,) = torch.autograd.grad(risk(at), at)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient))
    assert all(risk(row[None]) > risk(at) for row in batch[0])


def test_the_noisy_metric_does_not_amplify_the_labels(batch):
    """What the choice of the label moves, per unit of what the outputs move: T^-1 against nothing."""
    logits = batch[0][:1]
    h = logits.softmax(1)
    spread = {}
    for metric in ("clean", "noisy"):
        losses = [MCLDCELoss(PAIR, metric=metric)(logits, torch.tensor([k])) for k in range(C)]
        spread[metric] = torch.stack(losses).var().item()
    labels = {"clean": h @ torch.tensor(np.linalg.inv(PAIR).T), "noisy": h @ torch.tensor(PAIR)}
    for metric, values in labels.items():
        assert spread[metric] == pytest.approx(4 * values.var().item())
    assert spread["noisy"] < spread["clean"]


def test_T_identity_gives_the_uncorrected_losses(batch):
    logits, y = batch
    I = np.eye(C)
    torch.testing.assert_close(ForwardLoss(I)(logits, y), F.cross_entropy(logits, y))
    torch.testing.assert_close(BackwardLoss(I)(logits, y), F.cross_entropy(logits, y))
    one_hot = F.one_hot(y, C)
    for operator in ("exact", "published"):
        squared = (logits.softmax(1) - one_hot).square().sum(1).mean()
        torch.testing.assert_close(MCLDCELoss(I, operator=operator)(logits, y), squared)
        torch.testing.assert_close(MCLDCELoss(I, operator=operator, metric="noisy")(logits, y), squared)
        squared = (logits - one_hot).square().sum(1).mean()
        torch.testing.assert_close(MCLDCELoss(I, operator=operator, output="raw")(logits, y), squared)


def test_gce_between_cross_entropy_and_mae(batch):
    logits, y = batch
    torch.testing.assert_close(GCELoss(q=0)(logits, y), F.cross_entropy(logits, y))
    torch.testing.assert_close(GCELoss(q=1e-9)(logits, y), F.cross_entropy(logits, y))
    torch.testing.assert_close(2 * GCELoss(q=1)(logits, y), MAELoss()(logits, y))


@pytest.mark.parametrize("T", TRANSITIONS.values(), ids=TRANSITIONS)
def test_proper_scores_lie_between_forward_and_mcldce(T, batch):
    logits, y = batch
    torch.testing.assert_close(ProperLoss(T, 1.0)(logits, y), MCLDCELoss(T, metric="noisy")(logits, y))
    torch.testing.assert_close(ProperLoss(T, 0)(logits, y), ForwardLoss(T)(logits, y))
    torch.testing.assert_close(ProperLoss(T, 1e-7)(logits, y), ForwardLoss(T)(logits, y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("power", [0, 0.2, 0.5, 1.0])
def test_a_proper_score_is_smallest_at_the_clean_posterior(power):
    posterior = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    noisy = posterior @ torch.from_numpy(PAIR)

    def risk(logits):
        losses = ProperLoss(PAIR, power, reduction="none").double()(logits.expand(4, 4), torch.arange(4))
        return (noisy * losses).sum()

    best = posterior.log().requires_grad_()
    value = risk(best)
    (gradient,) = torch.autograd.grad(value, best)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-6, rtol=0)
    for step in torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)):
        assert risk(best.detach() + 0.3 * step) > value


def test_truncated_gce_has_no_gradient_below_k():
    logits = torch.tensor([[0.0, 0, 0, 0], [3, 0, 0, 0]], requires_grad=True)
    TruncatedGCELoss(reduction="sum")(logits, torch.tensor([0, 0])).backward()
    assert (logits.grad[0] == 0).all()
    assert (logits.grad[1] != 0).all()


@pytest.mark.parametrize("loss_of", [MAELoss, UnhingedLoss, lambda reduction: GCELoss(1, reduction)])
def test_symmetric_losses_sum_to_a_constant_over_the_labels(loss_of, batch):
    logits, _ = batch
    loss = loss_of(reduction="none")
    total = sum(loss(logits, torch.full((12,), k)) for k in range(C))
    torch.testing.assert_close(total, total[0].expand(12))


def test_unhinged_is_linear_in_the_margin():
    loss = UnhingedLoss()(torch.tensor([[2.0, -1.0]]), torch.tensor([0]))
    assert loss.item() == 1 - 3


@pytest.mark.parametrize("clean", range(C))
@pytest.mark.parametrize("T", [PAIR, symmetric(C, 0.5)], ids=["pair", "symmetric"])
def test_mcldce_and_backward_are_unbiased_over_the_noise(T, clean, batch):
    logits = batch[0][:1]
    drawn = torch.tensor(np.random.default_rng(clean).choice(C, size=40_000, p=T[clean]))
    h, e = logits.softmax(1)[0], torch.eye(C)[clean]
    clean_losses = {MCLDCELoss: (h - e).square().sum(), BackwardLoss: -h[clean].log()}
    for kind, expected in clean_losses.items():
        options = {"metric": "clean"} if kind is MCLDCELoss else {}
        losses = kind(T, reduction="none", **options)(logits.expand(len(drawn), C), drawn)
        error = losses.std() / math.sqrt(len(drawn))
        assert abs(losses.mean() - expected) < 4 * error
        exact = sum(T[clean, k] * kind(T, **options)(logits, torch.tensor([k])) for k in range(C))
        torch.testing.assert_close(exact, expected)


def test_the_published_operator_is_biased(batch):
    logits = batch[0][:1]
    loss = MCLDCELoss(PAIR, operator="published")
    mean = sum(PAIR[0, k] * loss(logits, torch.tensor([k])) for k in range(C))
    clean = (logits.softmax(1)[0] - torch.eye(C)[0]).square().sum()
    assert abs(mean - clean) > 0.1


def test_mcldce_is_bounded_below():
    t = torch.tensor(corrected_labels(PAIR))
    bound = 1 - t.square().sum(1).max()
    loss = MCLDCELoss(PAIR, output="raw", metric="clean", reduction="none")(t, torch.arange(C))
    torch.testing.assert_close(loss.min(), bound)


def test_a_label_that_T_never_gives_has_no_gradient():
    T = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.4, 0.6, 0.0]]
    logits = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    loss = ForwardLoss(T)(logits, torch.tensor([2]))
    loss.backward()
    assert torch.isfinite(loss)
    torch.testing.assert_close(logits.grad, torch.zeros_like(logits), atol=1e-12, rtol=0)


def test_forward_does_not_underflow():
    T = [[1.0, 0.0], [0.0, 1.0]]
    logits = torch.tensor([[500.0, 0.0]], requires_grad=True)
    loss = ForwardLoss(T)(logits, torch.tensor([1]))
    loss.backward()
    assert loss.item() == 500
    assert logits.grad.tolist() == [[1.0, -1.0]]


def test_the_gradient_of_forward_correction_is_p_minus_the_posterior(batch):
    logits, y = batch
    logits = logits.clone().requires_grad_()
    ForwardLoss(PAIR, "sum")(logits, y).backward()
    p = logits.detach().softmax(1)
    posterior = p * torch.from_numpy(PAIR).to(p.dtype)[:, y].T
    torch.testing.assert_close(logits.grad, p - posterior / posterior.sum(1, keepdim=True))


def test_less_trust_is_a_T_with_more_noise_of_the_same_kind(batch):
    logits, y = batch
    ratio = (0.7 / 0.1) ** 0.6  # of symmetric noise of 30 % for four classes
    noisier = symmetric(C, 1 - ratio / (ratio + C - 1))
    torch.testing.assert_close(ForwardLoss(symmetric(C, 0.3), trust=0.6)(logits, y), ForwardLoss(noisier)(logits, y))
    kept = 0.6**0.6 / (0.6**0.6 + 0.4**0.6)
    torch.testing.assert_close(ForwardLoss(PAIR, trust=0.6)(logits, y), ForwardLoss(pairflip(C, 1 - kept))(logits, y))


def minimizer(clean, T, trust):
    """Return the probabilities with the smallest mean of the discounted loss over the noise, by EM."""
    S = ForwardLoss(T, trust=trust).double().log_columns.exp().T.numpy()
    noisy, h = clean @ T, np.full(len(T), 1 / len(T))
    for _ in range(3000):
        h = h * (S @ (noisy / np.maximum(h @ S, 1e-300)))
    return h


def test_the_minimum_of_a_discounted_loss():
    clean = np.array([0.4, 0.3, 0.2, 0.1])
    T = symmetric(C, 0.4)
    np.testing.assert_allclose(minimizer(clean, T, 1), clean, atol=1e-6)
    h = minimizer(clean, T, 0.7)
    assert list(np.argsort(-h)) == [0, 1, 2, 3]
    assert h[0] > 0.45  # sharper
    for T in (symmetric(C, 0.4), PAIR, np.array([[0.6, 0.4, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0.2, 0, 0, 0.8]])):
        for k in range(C):  # classes that do not overlap are found all the same
            assert minimizer(np.eye(C)[k], T, 0.7)[k] > 0.99


@pytest.mark.parametrize(
    "loss", [MCLDCELoss(PAIR), MCLDCELoss(PAIR, metric="clean"), ForwardLoss(PAIR), BackwardLoss(PAIR)]
)
def test_buffers_follow_the_module(loss):
    assert not list(loss.parameters())
    for dtype in (torch.float64, torch.float32):
        loss.to(dtype)
        assert loss(torch.zeros(2, C, dtype=dtype), torch.tensor([0, 1])).dtype == dtype
        assert all(buffer.dtype == dtype for buffer in loss.buffers())
    assert set(loss.state_dict()) == {name for name, _ in loss.named_buffers()}


def test_repr_names_the_settings():
    assert repr(MCLDCELoss(PAIR, reduction="sum")) == (
        "MCLDCELoss(n_classes=4, operator='exact', output='softmax', metric='noisy', reduction='sum')"
    )
    assert repr(TruncatedGCELoss()) == "TruncatedGCELoss(q=0.7, k=0.5)"
    assert repr(GCELoss()) == "GCELoss(q=0.7)"
    assert repr(ForwardLoss(PAIR, trust=0.5)) == "ForwardLoss(n_classes=4, trust=0.5)"
    assert repr(MAELoss()) == "MAELoss()"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MAELoss(reduction="average"), "reduction must be 'mean', 'sum' or 'none'; got 'average'"),
        (lambda: GCELoss(q=1.5), "q must lie between 0"),
        (lambda: TruncatedGCELoss(k=1), "k must be a probability"),
        (lambda: MCLDCELoss(PAIR, operator="paper"), "operator must be 'exact'"),
        (lambda: MCLDCELoss(PAIR, output="sigmoid"), "output must be 'softmax' or 'raw'"),
        (lambda: MCLDCELoss(PAIR, metric="T"), "metric must be 'noisy'"),
        (lambda: MCLDCELoss([[0.5, 0.5], [0.5, 0.5]]), "transition is singular"),
        (lambda: BackwardLoss([[0.5, 0.5], [0.5, 0.5]]), "transition is singular"),
        (lambda: ForwardLoss([[0.7, 0.2], [0.3, 0.8]]), "column-stochastic"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@each_loss
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.tensor([0, C]), "class codes must lie in 0 .. 3; got 0 .. 4"),
        (torch.tensor([0, -100]), "class codes must lie in 0 .. 3; got -100 .. 0"),
        (torch.tensor([0, -1]), "class codes must lie in 0 .. 3; got -1 .. 0"),
        (torch.tensor([0.0, 1.0]), r"y must be class codes of dtype torch.int64; got torch.float32: use y.long\(\)"),
        (torch.tensor([0]), r"shapes \(b, c\) and \(b,\); got \(2, 4\) and \(1,\)"),
        (torch.tensor([[0], [1]]), r"shapes \(b, c\) and \(b,\); got \(2, 4\) and \(2, 1\)"),
    ],
)
def test_bad_labels(name, y, message):
    with pytest.raises(ValueError, match=message):
        LOSSES[name][0].double()(torch.zeros(2, C), y)


def test_logits_of_another_number_of_classes():
    with pytest.raises(ValueError, match="transition has 4 classes, but logits have 3 columns"):
        MCLDCELoss(PAIR)(torch.zeros(2, 3), torch.tensor([0, 1]))
