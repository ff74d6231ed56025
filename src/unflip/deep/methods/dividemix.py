"""DivideMix (Li et al. 2020) for the MLP and for features: without augmentation."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import Method, weighted_mean
from unflip.deep.methods.mixup import symmetric_beta


class DivideMix(Method):
    """Two networks; each learns semi-supervised, with the labels that the other one finds clean.

    Before each epoch, a mixture of two Gaussians is fitted to the losses of each network on all samples; w_i is the
    probability that the loss of sample i, by the other network, belongs to the Gaussian with the smaller mean. In each
    batch, for network a::

        L = samples with w_i > threshold,  U = the others
        t_i = sharpen(w_i e_y + (1 - w_i) p_a)  in L,    sharpen((p_1 + p_2) / 2)  in U
        sharpen(p) = p^(1 / temperature) / sum
        l ~ Beta(alpha, alpha), at least 1/2;  s a permutation of the batch
        x'_i = l x_i + (1 - l) x_s(i),    t'_i = l t_i + (1 - l) t_s(i),    p'_i = prediction of a for x'_i
        loss_a = mean of CE(t'_i, p'_i) over L  +  lambda_u ramp mean of (p'_i - t'_i)^2 over U and classes
                 + KL(prior || mean of p')

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T is not used.
    warm_up : int, default=10
        Epochs of plain cross-entropy at the beginning.
    threshold : float in [0, 1], default=0.5
        The probability above which a label is used.
    temperature : float, default=0.5
    alpha : float, default=4.0
        Of the Beta distribution from which the shares of the mixed samples are drawn.
    lambda_u : float, default=25.0
        Weight of the second term in the end.
    ramp : int, default=16
        Epochs over which this weight grows from 0, after the warm-up.
    confidence_penalty : bool, default=False
        Subtract the entropy of the predictions from the loss of the warm-up. The authors do so for asymmetric noise,
        where a network is soon sure of wrong labels.

    Notes
    -----
    The defaults are published for CIFAR-10 (lambda_u 25 for symmetric noise of 50 %, 0 for 20 % and for asymmetric
    noise). What differs here:

    - A table of features has no augmentation, so the average of each prediction over two augmented copies drops out,
      and each batch has one copy of its samples.
    - One batch is divided, where the authors draw two of equal size, one of L and one of U.
    - Both networks learn in the same step, not one after the other, and the ramp grows in each epoch, not in each step.
    - ``predict`` averages the probabilities of the networks, not their logits.

    References
    ----------
    Li, Socher and Hoi, DivideMix: Learning with Noisy Labels as Semi-supervised Learning, ICLR 2020.
    """

    name = "dividemix"
    n_networks = 2
    per_sample = True
    prior: Tensor
    labels: Tensor  # (n_samples,)
    clean: Tensor  # (2, n_samples): the probability that a label is clean, by each network

    def __init__(
        self,
        *arguments: Any,
        warm_up: int = 10,
        threshold: float = 0.5,
        temperature: float = 0.5,
        alpha: float = 4.0,
        lambda_u: float = 25.0,
        ramp: int = 16,
        confidence_penalty: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        if warm_up < 0 or ramp < 1 or lambda_u < 0:
            got = f"{warm_up!r}, {ramp!r} and {lambda_u!r}"
            raise ValueError(f"warm_up and lambda_u must not be negative, and ramp must be at least 1; got {got}")
        if not 0 <= threshold <= 1 or not temperature > 0 or not alpha > 0:
            got = f"{threshold!r}, {temperature!r} and {alpha!r}"
            raise ValueError(f"threshold must lie in [0, 1], temperature and alpha must be positive; got {got}")
        self.warm_up = warm_up
        self.threshold = threshold
        self.temperature = temperature
        self.alpha = alpha
        self.lambda_u = lambda_u
        self.ramp = ramp
        self.confidence_penalty = confidence_penalty
        self.register_buffer("prior", torch.tensor(self.given_prior, dtype=torch.get_default_dtype()))

    def begin(self, n_samples: int, y: Tensor) -> None:
        self.keep("labels", y)
        self.keep("clean", torch.ones(2, n_samples, device=y.device))
        self._divided = False  # between_epochs divides again before every epoch, also after a checkpoint

    def between_epochs(self, epoch: int, predict: Callable[..., Tensor]) -> None:
        if epoch < self.warm_up:
            return
        for k in range(2):
            z = predict(lambda x, k=k: self.logits(x, k))
            self.clean[k] = clean_probability(cross_entropy(z, self.labels))
        self._divided = True

    def forward(  # type: ignore[override]
        self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None, *, index: Tensor
    ) -> Tensor:
        if not self._divided:
            return self.warm_up_loss(self.logits(x, 0), y, weight) + self.warm_up_loss(self.logits(x, 1), y, weight)
        with torch.no_grad():
            p = [self.logits(x, k).softmax(1) for k in range(2)]
        label = F.one_hot(y, self.n_classes).to(x.dtype)
        strength = self.lambda_u * min((epoch - self.warm_up) / self.ramp, 1.0)
        total = x.new_zeros(())
        for k in range(2):
            w = self.clean[1 - k].index_select(0, index).to(x.dtype).unsqueeze(1)  # (b, 1)
            labeled = w > self.threshold
            guess = torch.where(labeled, w * label + (1 - w) * p[k], (p[0] + p[1]) / 2)
            share, other = self.draw(x)
            targets = sharpened(guess, self.temperature)
            mixed = targets[other].lerp(targets, share)
            counts = None if weight is None else weight[other].lerp(weight, share)
            z = self.logits(x[other].lerp(x, share), k)
            total = total + self.mixed_loss(z, mixed, labeled.squeeze(1), strength, counts)
        return total

    def warm_up_loss(self, z: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        losses = cross_entropy(z, y)
        if self.confidence_penalty:
            log_p = z.log_softmax(1)
            losses = losses + (log_p.exp() * log_p).sum(1)
        return weighted_mean(losses, weight)

    def mixed_loss(self, z: Tensor, targets: Tensor, labeled: Tensor, strength: float, weight: Tensor | None) -> Tensor:
        """Return the loss of one network for logits and targets of mixed samples, each (b, c)."""
        log_p = z.log_softmax(1)
        p = log_p.exp()
        supervised = -(targets * log_p).sum(1)
        unsupervised = strength * (p - targets).square().mean(1)
        n = torch.stack([labeled.sum(), (~labeled).sum()]).clamp(min=1)
        losses = torch.where(labeled, supervised / n[0], unsupervised / n[1])
        mean = p.mean(0).clamp(min=torch.finfo(p.dtype).tiny)
        divergence = (torch.xlogy(self.prior, self.prior) - self.prior * mean.log()).sum()
        return (losses if weight is None else weight * losses).sum() + divergence

    def draw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the share of the first sample of each pair, between 1/2 and 1, and who the second one is, (b,)."""
        drawn = symmetric_beta(self.alpha, x)
        return torch.maximum(drawn, 1 - drawn), torch.randperm(len(x), device=x.device)


def sharpened(p: Tensor, temperature: float) -> Tensor:
    """Return p^(1 / temperature), normalized, for probabilities p (b, c)."""
    powered: Tensor = p ** (1 / temperature)
    return powered / powered.sum(1, keepdim=True)


def clean_probability(losses: Tensor, *, max_iter: int = 10, tol: float = 1e-2, floor: float = 5e-4) -> Tensor:
    """Return the probability that each loss belongs to the smaller of two Gaussians, shape (n,).

    The losses are brought to [0, 1]. The EM algorithm starts from the two clusters of k-means and ends after
    ``max_iter`` steps, or if the mean log-likelihood changes by less than ``tol``; ``floor`` is added to the variances.
    These are the published settings of scikit-learn's GaussianMixture.
    """
    x = losses.double()
    span = x.max() - x.min()
    if not span > 0:
        return torch.ones_like(losses)  # nothing tells them apart
    x = (x - x.min()) / span
    upper = _upper_cluster(x)
    r = torch.stack([~upper, upper]).double()  # (2, n) responsibilities
    before, converged = -math.inf, False
    for _ in range(1 + max_iter):
        n = r.sum(1) + 10 * torch.finfo(x.dtype).eps
        mean = r @ x / n
        variance = r @ x.square() / n - mean.square() + floor
        joint = (n / len(x)).log().unsqueeze(1) - 0.5 * (
            (x - mean.unsqueeze(1)).square() / variance.unsqueeze(1) + (2 * math.pi * variance).log().unsqueeze(1)
        )
        evidence = joint.logsumexp(0)
        r = (joint - evidence).exp()
        if converged:
            break
        now = evidence.mean().item()
        before, converged = now, abs(now - before) < tol
    return r[mean.argmin()].to(losses.dtype)


def _upper_cluster(x: Tensor) -> Tensor:
    """Return which of the numbers in [0, 1] are in the upper one of two clusters, by k-means from both ends."""
    middle = 0.5
    for _ in range(300):
        upper = x > middle  # 1 is always above and 0 below
        moved = ((x[upper].mean() + x[~upper].mean()) / 2).item()
        if moved == middle:
            break
        middle = moved
    return upper
