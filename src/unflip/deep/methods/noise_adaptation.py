"""The noise adaptation layer (Goldberger and Ben-Reuven 2017), and its variant with dropout (Jindal et al. 2016)."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unflip._validation import FloatArray
from unflip.core.ldce import well_conditioned
from unflip.deep.losses import cross_entropy, forward_losses
from unflip.deep.methods._base import Method, weighted_mean

Init = Literal["confusion", "transition", "identity"]


class NoiseAdaptation(Method):
    """A layer that leads from the clean to the noisy label, learned with the network and removed for prediction.

    ::

        loss = -log sum_i p_i T[i, y],    T[i] = softmax(log(start[i] + 1e-8) + W[i])
        with layer_dropout: loss = -log softmax(dropout((start + W)'p))[y]

    W = 0 at the start. After a warm-up with cross-entropy, ``start`` is the confusion of the network's predictions and
    the labels in its last epoch, P(label = j | predicted = i).

    Parameters
    ----------
    network_factory, n_classes, prior
        As in :class:`unflip.deep.methods.Method`; the prior is not used.
    transition : array-like of shape (n_classes, n_classes), default=None
        T, only used for ``init="transition"``.
    init : {"confusion", "transition", "identity"}, default="confusion"
        What ``start`` is: the confusion above (the identity if there is no warm-up), T, or the identity.
    warm_up : int, default=5
        Epochs of cross-entropy at the beginning, without the layer.
    layer_lr : float, default=None
        Learning rate of W. If None, that of the network; 0 keeps the layer as it starts.
    layer_dropout : float in [0, 1), default=None
        If given, Jindal's layer is used, with this dropout; the paper's is 0.1, from the identity and without warm-up.

    Notes
    -----
    The paper trains the first network until its loss on held-out labels stops falling for four epochs, and then both
    together; the number of epochs takes the place of that here. A network that is trained longer learns the wrong
    labels, and its confusion looks like the identity. The layer whose T depends on the sample is not implemented.

    With ``init="transition"``, ``layer_lr=0`` and ``warm_up=0``, this is forward correction. The second softmax of
    Jindal's layer bounds the loss: with ``start`` the identity, a network that is sure of the label still has
    log(1 + (c - 1) / e).

    Under ``torchrun``, the confusion is that of the first process's share of the samples.

    References
    ----------
    Goldberger and Ben-Reuven, Training Deep Neural-Networks Using a Noise Adaptation Layer, ICLR 2017 (the simple
    model). Jindal, Nokleby and Chen, Learning Deep Networks from Noisy Labels with Dropout Regularization, ICDM 2016.
    """

    name = "noise-adaptation"
    start: Tensor  # (c, c), rows sum to one
    counts: Tensor  # (c, c), predictions and labels in the last epoch of the warm-up

    def __init__(
        self,
        *arguments: Any,
        init: Init = "confusion",
        warm_up: int = 5,
        layer_lr: float | None = None,
        layer_dropout: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        if init not in ("confusion", "transition", "identity"):
            raise ValueError(f"init must be 'confusion', 'transition' or 'identity'; got {init!r}")
        if warm_up < 0 or (layer_lr is not None and layer_lr < 0):
            raise ValueError(f"warm_up and layer_lr must not be negative; got {warm_up!r} and {layer_lr!r}")
        if layer_dropout is not None and not 0 <= layer_dropout < 1:
            raise ValueError(f"layer_dropout must be None or lie in [0, 1); got {layer_dropout!r}")
        self.init = init
        self.warm_up = warm_up
        self.layer_lr = layer_lr
        self.layer_dropout = layer_dropout
        self.needs_transition = self.wants_transition(init=init)
        start = torch.eye(self.n_classes)
        if init == "transition":
            start = torch.as_tensor(self.required_transition(), dtype=start.dtype)
        self.register_buffer("start", start)
        self.register_buffer("counts", torch.zeros_like(start))
        self.layer = nn.Parameter(torch.zeros_like(start))

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        z = self.logits(x)
        if epoch < self.warm_up:
            if epoch == self.warm_up - 1 and self.init == "confusion" and self.training:
                self._count(z.detach().argmax(1), y)
            losses = cross_entropy(z, y) + 0 * self.layer.sum()  # a gradient of zero, for processes that wait for one
        elif self.layer_dropout is None:
            losses = forward_losses(z, y, self._log_transition().T)
        else:
            losses = cross_entropy(F.dropout(z.softmax(1) @ self._scores(), self.layer_dropout, self.training), y)
        return weighted_mean(losses, weight)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Return the network's group, and the layer's without weight decay."""
        layer_lr = lr if self.layer_lr is None else self.layer_lr
        return [
            {"params": list(self.networks.parameters()), "lr": lr},
            {"params": [self.layer], "lr": layer_lr, "weight_decay": 0.0},
        ]

    @property
    def transition(self) -> FloatArray:
        """The distribution of the noisy label for each class that the layer gives now, shape (n_classes, n_classes)."""
        return well_conditioned(self._log_transition().detach().double().exp().cpu().numpy())

    @classmethod
    def wants_transition(cls, **settings: Any) -> bool:
        return settings.get("init", "confusion") == "transition"

    def _scores(self) -> Tensor:
        return self.layer + (self.start if self.layer_dropout is not None else (self.start + 1e-8).log())

    def _log_transition(self) -> Tensor:
        return self._scores().log_softmax(1)

    def _count(self, predicted: Tensor, y: Tensor) -> None:
        pairs = torch.bincount(self.n_classes * predicted + y, minlength=self.n_classes**2)
        self.counts += pairs.reshape(self.counts.shape)
        # One more on the diagonal, for classes that are never predicted.
        counts = self.counts + torch.eye(self.n_classes, dtype=self.counts.dtype, device=self.counts.device)
        self.start.copy_(counts / counts.sum(1, keepdim=True))
