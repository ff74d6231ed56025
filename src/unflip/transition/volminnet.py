"""VolMinNet: T of minimum volume, learned together with a network (Li et al. 2021)."""

import math
from copy import deepcopy
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from unflip._validation import FloatArray, check_transition
from unflip.core.ldce import well_conditioned
from unflip.deep.estimator import LARGEST_SEED, NetworkEstimator, seeded, shared_random_state
from unflip.deep.losses import forward_losses
from unflip.deep.methods import Method
from unflip.deep.methods._base import weighted_mean
from unflip.deep.trainer import Trainer
from unflip.transition._cross_fit import mean_log_likelihood, posterior_std

LEAST_STEPS = 1000  # small data are passed over more often than ``epochs`` says


class VolMinNet(NetworkEstimator):
    """Estimate T by learning it together with a network, with the smallest volume that explains the noisy labels.

    The network's clean probabilities, moved by T, must explain the noisy labels; among the matrices that do so, the one
    with the least volume is wanted (Li et al. 2021, Eq. 4)::

        min over network, T    mean of -log (softmax(network(x)) T)[y]  +  volume log|det T|

        A = I + sigmoid(w) * (1 - I),    T = A / row sums,    w = -2 at the start

    A part of the noisy data is held out, and the T of the epoch with the least noisy loss on it is used.

    Parameters
    ----------
    network : {"mlp", "cnn6", "lenet"}, nn.Module or callable, default="mlp"
        As in :func:`unflip.deep.make_network`.
    epochs : int, default=24
        The least number of epochs; on small data there are more, until 1,000 steps are done.
    batch_size : int, default=128
    lr, momentum, weight_decay : float, default=0.01, 0.9, 1e-4
        Settings of SGD, which trains the network.
    volume : float, default=1e-4
        Weight of log|det T|.
    validation_fraction : float, default=0.1
        Part of the noisy data that is held out to choose the epoch. With 0, the last epoch is used.
    transition_lr : float, default=0.01
        Learning rate of w, which Adam trains without weight decay.
    init : float or "paper", default=-2.0
        Every w at the start, the logit of off-diagonal / diagonal. -2 is the published code's; "paper" is
        log(1 / (n_classes - 2)).
    network_options, device, progress, classes, random_state
        As in :class:`unflip.deep.NoisyLabelClassifier`.

    Attributes
    ----------
    transition_, transition_std_ : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i), and the standard error of each entry, as in :class:`VolMin`. The
        probabilities of the held-out samples stand for those of all; without held-out samples, all are used.
    history_ : list of dict
        One per epoch: epoch, loss, validation_loss, transition, seconds.
    best_epoch_ : int
        The epoch whose T is used; ``methods_`` has the method of that epoch.
    classes_, input_shape_, methods_
        As in :class:`unflip.deep.NoisyLabelClassifier`.

    See Also
    --------
    CrossFitEM : refines this T; far better on heavy symmetric noise.
    unflip.transition.VolMin : the linear case, without torch.

    Notes
    -----
    The published code has these learning rates, runs 60 epochs on MNIST, and 80 on CIFAR-10, where it divides the rate
    by ten at epochs 30 and 60 and trains w with SGD (0.01); it starts at -4.5 for 100 classes. A volume of 1e-2 and
    more made T worse with the MLP on Fashion-MNIST with symmetric noise 0.6.

    Inputs are used as they are, only uint8 is scaled to [0, 1]: bring features to about unit scale first.

    References
    ----------
    Li, Liu, Han, Niu and Sugiyama, Provably End-to-end Label-Noise Learning without Anchor Points, ICML 2021.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = make_blobs(3000, centers=3, random_state=0)
    >>> VolMinNet(random_state=0).fit(X / 5, corrupt(y, pairflip(3, 0.3), random_state=0)).transition_.shape
    (3, 3)
    """

    def __init__(
        self,
        network: Any = "mlp",
        *,
        epochs: int = 24,
        batch_size: int = 128,
        lr: float = 0.01,
        volume: float = 1e-4,
        validation_fraction: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        transition_lr: float = 0.01,
        init: Any = -2.0,
        network_options: dict[str, Any] | None = None,
        device: str = "auto",
        progress: bool | str = "auto",
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.volume = volume
        self.validation_fraction = validation_fraction
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.transition_lr = transition_lr
        self.init = init
        self.network_options = network_options
        self.device = device
        self.progress = progress
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels y of any kind, shape (n_samples,), of a table or of images X."""
        self._check_parameters()
        X, codes, weights = self._check_training_data(X, y, sample_weight)
        rng = shared_random_state(self.random_state)
        seed = int(rng.randint(LARGEST_SEED))
        counted = np.flatnonzero(weights > 0)  # a sample without weight could not choose an epoch
        held_out, train = np.split(rng.permutation(counted), [int(self.validation_fraction * len(counted))])
        settings = {"volume": self.volume, "init": self.init, "transition_lr": self.transition_lr}
        with seeded(seed):
            method = VolMinNetMethod(self._network_factory(), len(self.classes_), **settings)
        epochs = max(self.epochs, self._epochs_of(LEAST_STEPS, len(train)))
        options: dict[str, Any] = {"batch_size": self.batch_size, "lr": self.lr, "progress": self.progress}
        trainer = Trainer(method, epochs=epochs, seed=seed, device=self._device(), optimizer=self._optimizer, **options)
        best = np.inf

        def look(trainer: Trainer, record: dict[str, Any]) -> None:
            """Keep the epoch with the least noisy loss on the held-out data; without such data, the last one."""
            nonlocal best
            T = record["transition"] = method.transition
            loss = -np.inf
            if len(held_out):
                proba = trainer.predict_logits(X[held_out]).double().softmax(1).numpy()
                loss = record["validation_loss"] = -mean_log_likelihood(proba, codes[held_out], T, weights[held_out])
            if loss < best or not len(held_out):
                best = loss
                self.best_epoch_ = record["epoch"]
                self.transition_ = well_conditioned(T)
                self.methods_ = [deepcopy(method).cpu()]

        weighted = weights[train] if sample_weight is not None else None
        self.history_ = trainer.fit(X[train], codes[train], sample_weight=weighted, callback=look)
        shown = held_out if len(held_out) else train
        w = weights[shown] * (weights.sum() / weights[shown].sum())
        self.transition_std_ = posterior_std(self.predict_proba(X[shown]).astype(np.float64), self.transition_, w)
        return self

    def _optimizer(self, groups: list[dict[str, Any]]) -> Any:
        """Return SGD for the network and Adam for T, in the order of ``VolMinNetMethod.parameter_groups``."""
        network, transition = groups
        return _Together(
            torch.optim.SGD([network], momentum=self.momentum, weight_decay=self.weight_decay, fused=True),
            torch.optim.Adam([transition], fused=True),
        )


class _Together:
    """Two optimizers that step as one; a schedule reaches the groups of both."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts
        self.param_groups = [group for part in parts for group in part.param_groups]

    def step(self) -> None:
        for part in self.parts:
            part.step()


class VolMinNetMethod(Method):
    """The loss of :class:`unflip.transition.VolMinNet`: forward correction with a T that is learned too.

    The diagonal of T is the largest entry of each row.

    Parameters
    ----------
    network_factory, n_classes, prior
        As in :class:`unflip.deep.methods.Method`; the prior is not used.
    transition : array-like of shape (n_classes, n_classes), default=None
        Where T starts. If None, it starts as ``init`` says.
    volume, init, transition_lr
        As in :class:`unflip.transition.VolMinNet`. T has its own parameter group without weight decay.
    """

    name = "volminnet"

    def __init__(
        self,
        *arguments: Any,
        volume: float = 1e-4,
        init: float | Literal["paper"] = -2.0,
        transition_lr: float = 0.01,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        if volume < 0 or transition_lr < 0:
            raise ValueError(f"volume and transition_lr must not be negative; got {volume!r} and {transition_lr!r}")
        self.volume = volume
        self.transition_lr = transition_lr
        self.transition_matrix = TransitionMatrix(self.n_classes, init)
        if self.given_transition is not None:
            self.transition_matrix.start_at(check_transition(self.given_transition))

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
        """The T learned so far, shape (n_classes, n_classes), rows summing to one in float64."""
        T: FloatArray = self.transition_matrix().detach().double().exp().cpu().numpy()
        return T / T.sum(axis=1, keepdims=True)


class TransitionMatrix(nn.Module):
    """A trainable T; ``forward()`` returns log T, shape (c, c). The formula and ``init`` are those of ``VolMinNet``."""

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
        return (F.logsigmoid(self.weight) * self.off_diagonal).log_softmax(1)  # log A, then its rows normalized
