"""VolMinNet: the network and T learnt together (Li et al. 2021)."""

import math
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from unflip._validation import FloatArray, check_transition
from unflip.deep.losses import forward_losses
from unflip.deep.methods._base import Method, weighted_mean
from unflip.deep.networks import NetworkFactory


class VolMinNetMethod(Method):
    """Forward correction with a T that is learnt too, drawn to the smallest volume that explains the noisy labels.

    ::

        loss = mean of -log (softmax(logits) T)[y]  +  volume x log |det T|

    T is the row-normalised :class:`TransitionMatrix`, whose diagonal is the largest entry of each row.

    Parameters
    ----------
    network_factory, n_classes
        As in :class:`unflip.deep.methods.Method`.
    transition : array-like of shape (n_classes, n_classes), default=None
        Where T starts; None starts it as ``init`` says.
    prior : array-like of shape (n_classes,), default=None
        Not used.
    volume : float, default=1e-4
        Weight of the volume term.
    init : float or "paper", default=-2.0
        Every weight of T at the start, the logit of off-diagonal / diagonal. -2 is the published code's; "paper" is
        log(1 / (n_classes - 2)).
    transition_lr : float, default=0.01
        Learning rate of T, which has its own parameter group without weight decay.

    Attributes
    ----------
    transition : ndarray of shape (n_classes, n_classes)
        The T learnt so far.

    Notes
    -----
    The published code trains the network with SGD (0.01, momentum 0.9, weight decay 1e-4) and T with Adam (0.01) on
    MNIST, T with SGD (0.01) on CIFAR-10, and starts at -4.5 for 100 classes. It takes the T of the epoch with the
    smallest loss on a noisy validation part.

    References
    ----------
    Li, Liu, Han, Niu and Sugiyama, Provably End-to-end Label-Noise Learning without Anchor Points, ICML 2021.
    """

    name = "volminnet"

    def __init__(
        self,
        network_factory: NetworkFactory,
        n_classes: int,
        transition: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        *,
        volume: float = 1e-4,
        init: float | Literal["paper"] = -2.0,
        transition_lr: float = 0.01,
    ) -> None:
        super().__init__(network_factory, n_classes, transition, prior)
        if volume < 0 or transition_lr < 0:
            raise ValueError(f"volume and transition_lr must not be negative; got {volume!r} and {transition_lr!r}")
        self.volume = volume
        self.transition_lr = transition_lr
        self.transition_matrix = TransitionMatrix(n_classes, init)
        if transition is not None:
            self.transition_matrix.start_at(check_transition(transition, n_classes))

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        log_T = self.transition_matrix()
        fit = weighted_mean(forward_losses(self.logits(x), y, log_T.T), weight)
        return fit + self.volume * torch.linalg.slogdet(log_T.exp()).logabsdet

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Return the networks' group, and T's with its own learning rate and no weight decay."""
        return [
            {"params": list(self.networks.parameters()), "lr": lr},
            {"params": list(self.transition_matrix.parameters()), "lr": self.transition_lr, "weight_decay": 0.0},
        ]

    @property
    def transition(self) -> FloatArray:
        """The T learnt so far, shape (n_classes, n_classes), rows summing to one in float64."""
        T = self.transition_matrix().detach().double().exp().cpu().numpy()
        normalised: FloatArray = T / T.sum(axis=1, keepdims=True)
        return normalised


class TransitionMatrix(nn.Module):
    """A trainable T; ``forward()`` returns log T, shape (c, c).

    ::

        A = 1 on the diagonal, sigmoid(w[i, j]) off it;    T[i, j] = A[i, j] / sum_k A[i, k]

    Parameters
    ----------
    n_classes : int
    init : float or "paper", default=-2.0
        Every weight at the start; "paper" is log(1 / (n_classes - 2)).
    """

    off_diagonal: Tensor  # bool, (c, c)

    def __init__(self, n_classes: int, init: float | Literal["paper"] = -2.0) -> None:
        super().__init__()
        if isinstance(init, str):
            if init != "paper":
                raise ValueError(f"init must be a number or 'paper'; got {init!r}")
            if n_classes < 3:
                raise ValueError("init='paper' is log(1 / (n_classes - 2)) and needs at least three classes")
            init = -math.log(n_classes - 2)
        self.weight = nn.Parameter(torch.full((n_classes, n_classes), float(init)))
        self.register_buffer("off_diagonal", ~torch.eye(n_classes, dtype=torch.bool), persistent=False)

    def start_at(self, transition: FloatArray) -> None:
        """Set the weights so that T is near a given one; entries are kept inside what the sigmoid can give."""
        ratio = np.clip(transition / np.maximum(transition.diagonal()[:, np.newaxis], 1e-12), 1e-3, 1 - 1e-3)
        with torch.no_grad():
            self.weight.copy_(torch.as_tensor(np.log(ratio / (1 - ratio))))

    def forward(self) -> Tensor:
        return (F.logsigmoid(self.weight) * self.off_diagonal).log_softmax(1)  # log A, then its rows normalised
