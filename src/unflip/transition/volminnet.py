"""T by minimum volume, learnt together with a network (Li et al. 2021)."""

from copy import deepcopy
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from unflip.core.ldce import well_conditioned
from unflip.deep._network_estimator import (
    LARGEST_SEED,
    NetworkEstimator,
    check_numbers,
    seeded,
    shared_random_state,
    steps,
)
from unflip.deep.methods.volminnet import VolMinNetMethod
from unflip.deep.trainer import Trainer
from unflip.transition._cross_fit import mean_log_likelihood

LEAST_STEPS = 1000  # small data are gone through more often than ``epochs`` says


class VolMinNet(NetworkEstimator):
    """Estimate T by learning it together with a network, drawn to the smallest volume that explains the noisy labels.

    The network's clean probabilities, moved by T, must explain the noisy labels; among the matrices that do so the one
    of least volume is wanted (Li et al. 2021, Eq. 4)::

        min over network, T    mean of -log (softmax(network(x)) T)[y]  +  volume log|det T|

        A = I + sigmoid(w) * (1 - I),    T = A / row sums,    w = -2 at the start

    A part of the noisy data is held out, and the T of the epoch with the least noisy loss on it is taken.

    Parameters
    ----------
    network : {"mlp", "cnn6", "lenet"}, nn.Module or callable, default="mlp"
        As in :func:`unflip.deep.make_network`.
    epochs : int, default=24
        At least; small data are gone through more often, until 1,000 steps are done.
    batch_size : int, default=128
    lr : float, default=0.01
        Of the network: SGD with ``momentum`` and ``weight_decay``.
    volume : float, default=1e-4
        Weight of log|det T|.
    validation_fraction : float, default=0.1
        Part of the noisy data that is held out to choose the epoch. 0 takes the last epoch.
    momentum : float, default=0.9
    weight_decay : float, default=1e-4
    transition_lr : float, default=0.01
        Of w: Adam without weight decay.
    init : float or "paper", default=-2.0
        Every w at the start; "paper" is log(1 / (n_classes - 2)).
    network_options : dict, default=None
        Of a network given by name, such as ``{"hidden": 512, "dropout": 0.5}``.
    device : str, default="auto"
        "auto" is a GPU where there is one.
    progress : bool or "auto", default="auto"
        Show a bar; "auto" only on a terminal.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, where the noisy labels lack some; the rows of T follow their order.
    random_state : int, RandomState instance or None, default=None
        Seeds the split, the initial weights and the order of the samples.

    Attributes
    ----------
    transition_ : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    classes_ : ndarray of shape (n_classes,)
    history_ : list of dict
        One an epoch: epoch, loss, validation_loss, transition, seconds.
    best_epoch_ : int
        The epoch that was taken.
    methods_ : list of Method
        The network of that epoch, in a list of one.
    input_shape_ : tuple of int
        The shape of one sample.
    n_features_in_ : int

    See Also
    --------
    CrossFitEM : refines this T; better by far on heavy symmetric noise.
    unflip.transition.VolMin : the linear case, without torch.

    Notes
    -----
    The published code runs 60 epochs on MNIST, and 80 on CIFAR-10, where it divides the learning rate by ten at epochs
    30 and 60 and trains w with SGD; it starts at -4.5 for 100 classes. A volume of 1e-2 and more made T worse with the
    MLP on Fashion-MNIST with symmetric noise 0.6.

    Inputs are taken as they are, only uint8 is scaled to [0, 1]: bring features to about unit scale first.

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
        """Fit to noisy labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
        y : array-like of shape (n_samples,)
            Noisy labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
        """
        check_numbers(self, whole=("epochs", "batch_size"), positive=("lr", "transition_lr"), least_zero=("volume",))
        if not (isinstance(self.validation_fraction, Real) and 0 <= self.validation_fraction < 1):
            raise ValueError(f"validation_fraction must be in [0, 1); got {self.validation_fraction!r}")
        X, codes, weights = self._check_training_data(X, y, sample_weight)
        rng = shared_random_state(self.random_state)
        seed = int(rng.randint(LARGEST_SEED))
        counted = np.flatnonzero(weights > 0)  # a sample without weight could not choose an epoch
        held_out, train = np.split(rng.permutation(counted), [int(self.validation_fraction * len(counted))])
        with seeded(seed):
            method = VolMinNetMethod(
                self._network_factory(),
                len(self.classes_),
                volume=self.volume,
                init=self.init,
                transition_lr=self.transition_lr,
            )
        trainer = Trainer(
            method,
            epochs=max(self.epochs, -(-LEAST_STEPS // steps(len(train), self.batch_size))),
            batch_size=self.batch_size,
            lr=self.lr,
            seed=seed,
            device=self._device(),
            progress=self.progress,
            optimizer=self._optimizer,
        )
        best = np.inf

        def look(trainer: Trainer, record: dict[str, Any]) -> None:
            """Keep the epoch with the least noisy loss on what was held out; without such data, the last one."""
            nonlocal best
            T = method.transition
            loss = -np.inf
            if len(held_out):
                proba = trainer.predict_logits(X[held_out]).double().softmax(1).cpu().numpy()
                loss = -mean_log_likelihood(proba, codes[held_out], T, weights[held_out])
                record["validation_loss"] = loss
            record["transition"] = T
            if loss < best or not len(held_out):
                best = loss
                self.best_epoch_ = record["epoch"]
                self.transition_ = well_conditioned(T)
                self.methods_ = [deepcopy(method).cpu()]

        weighted = weights[train] if sample_weight is not None else None
        self.history_ = trainer.fit(X[train], codes[train], sample_weight=weighted, callback=look)
        return self

    def _optimizer(self, groups: list[dict[str, Any]]) -> Any:
        """SGD for the network, Adam for T: the groups that ``VolMinNetMethod.parameter_groups`` gives."""
        network, transition = groups
        return _Together(
            torch.optim.SGD([network], momentum=self.momentum, weight_decay=self.weight_decay, fused=True),
            torch.optim.Adam([transition], fused=True),
        )


class _Together:
    """Two optimisers that step as one; their groups stay theirs, so that a schedule reaches both."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts
        self.param_groups = [group for part in parts for group in part.param_groups]

    def step(self) -> None:
        for part in self.parts:
            part.step()
