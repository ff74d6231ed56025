"""Joint optimization of network and labels (Tanaka et al. 2018)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unflip.deep.methods._base import Method, weighted_mean


class JointOptimization(Method):
    """Replace the labels by what the network predicted for them, and go on.

    ::

        loss = CE(s_i, p_i)  +  alpha KL(prior || mean of p over the batch)  +  beta H(p_i)
        s_i = the noisy label; before each epoch from relabel_from on: the mean of p_i over the last 10 epochs

    The second term keeps all labels from becoming one class, the third one makes predictions, and so the new labels,
    decided. From ``retrain_from`` on, the network starts again and learns the last labels by CE(s_i, p_i) alone.

    Parameters
    ----------
    network_factory, n_classes, transition, prior
        As in :class:`unflip.deep.methods.Method`; T is not used.
    alpha, beta : float, default=1.2, 0.8
        Weights of the second and third term.
    relabel_from : int, default=9
        First epoch with new labels.
    retrain_from : int or None, default=None
        The epoch in which the network starts again. If None, the network that made the labels is the result.

    Notes
    -----
    Published for CIFAR-10 (PreAct ResNet-32, SGD, 200 epochs and then 120 to retrain, new labels from epoch 70 on):
    symmetric noise alpha 1.2, beta 0.8; asymmetric 0.8, 0.4. ``relabel_from=9, retrain_from=25`` are the same shares
    of 40 epochs. The learning rate must be high while labels change (0.03 to 0.1 there), so that the network does not
    learn the wrong labels first: let it decay after that.

    As published, p are the probabilities of the training steps themselves. If labels change before ten epochs are
    over, the mean is over those there were; the published code then counts missing ones as zeros. The same holds
    for samples that were not drawn in some epochs (``steps_per_epoch``); one that was drawn in none of them keeps its
    label. The network starts again from the weights it began with, and the optimizer keeps its state. The published
    code leaves out the constant entropy of the prior.

    References
    ----------
    Tanaka, Ikami, Yamasaki and Aizawa, Joint Optimization Framework for Learning with Noisy Labels, CVPR 2018.
    """

    name = "joint-optimization"
    per_sample = True
    n_recent = 10  # epochs whose predictions are averaged
    prior: Tensor
    recent: Tensor  # (n_samples, n_recent, n_classes)
    targets: Tensor  # (n_samples, n_classes)

    def __init__(
        self,
        *arguments: Any,
        alpha: float = 1.2,
        beta: float = 0.8,
        relabel_from: int = 9,
        retrain_from: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        if alpha < 0 or beta < 0:
            raise ValueError(f"alpha and beta must not be negative; got {alpha!r} and {beta!r}")
        if relabel_from < 1 or (retrain_from is not None and retrain_from < relabel_from):
            got = f"{relabel_from!r} and {retrain_from!r}"
            raise ValueError(f"relabel_from must be at least 1, and retrain_from not before it; got {got}")
        self.alpha = alpha
        self.beta = beta
        self.relabel_from = relabel_from
        self.retrain_from = retrain_from
        self.register_buffer("prior", torch.tensor(self.given_prior, dtype=torch.get_default_dtype()))

    def begin(self, n_samples: int, y: Tensor) -> None:
        self.keep("recent", torch.zeros(n_samples, self.n_recent, self.n_classes, device=y.device))
        self.keep("targets", torch.nn.functional.one_hot(y, self.n_classes).to(self.recent.dtype))

        if self.retrain_from is not None:
            self.keep_networks()

    def between_epochs(self, epoch: int, predict: Callable[..., Tensor]) -> None:
        if epoch >= self.relabel_from and not self.retrains(epoch - 1):
            times = (self.recent.sum(2) > 0).sum(1, keepdim=True)
            mean = self.recent.sum(1) / times.clamp(min=1)
            self.targets.copy_(torch.where(times > 0, mean, self.targets))
        self.recent[:, epoch % self.n_recent] = 0  # the epoch that is now too long ago
        if epoch == self.retrain_from:
            self.restart_networks()

    def forward(  # type: ignore[override]
        self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None, *, index: Tensor
    ) -> Tensor:
        log_p = self.logits(x).log_softmax(1)
        p = log_p.exp()
        losses = -(self.targets.index_select(0, index) * log_p).sum(1)
        if self.retrains(epoch):
            return weighted_mean(losses, weight)
        self.recent[index, epoch % self.n_recent] = p.detach().to(self.recent.dtype)
        losses = losses - self.beta * (p * log_p).sum(1)
        tiny = torch.finfo(p.dtype).tiny
        mean = p.mean(0) if weight is None else weight @ p / weight.sum().clamp(min=tiny)
        # The logarithm of the mean, not of prior / mean, whose gradient is NaN for a class without prior.
        divergence = (torch.xlogy(self.prior, self.prior) - self.prior * mean.clamp(min=tiny).log()).sum()
        return weighted_mean(losses, weight) + self.alpha * divergence

    def retrains(self, epoch: int) -> bool:
        return self.retrain_from is not None and epoch >= self.retrain_from
