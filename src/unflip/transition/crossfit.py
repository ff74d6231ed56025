"""T of another estimator, refined by cross-fitted networks and EM."""

import time
from copy import deepcopy
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console
from rich.progress import track
from scipy.stats import entropy

from unflip._base import resolve_transition
from unflip.deep.estimator import LARGEST_SEED, NetworkEstimator, seeded, shared_random_state
from unflip.deep.losses import ForwardLoss
from unflip.deep.methods.forward import Forward
from unflip.deep.progress import is_shown
from unflip.deep.trainer import Trainer
from unflip.transition._cross_fit import em_transition, mean_log_likelihood, posterior_std
from unflip.transition._evidence import repaired
from unflip.transition.volminnet import VolMinNet

LEAST_STEPS = 50  # of each network per round; on 1,797 digits, 10 left T unfinished and 150 overfitted
RISING = 0.1  # share of all that networks have learned; those that learn more in a round are left alone with T
LIFT = 0.01  # EM cannot leave a zero, so the start is mixed with this much of the uniform matrix


class CrossFitEM(NetworkEstimator):
    """Refine the T of another estimator: networks explain the noisy labels through T, EM on unseen samples corrects T.

    The data are split into folds, and each fold has a network that never sees it. In each round every network trains
    for one more epoch with the forward loss of the current T (on small data for more epochs, until at least 50 steps
    are done), and then EM updates T alone, with the posteriors p of the samples that the networks did not see::

        R[n, i] = p[n, i] T[i, y_n] / sum_k p[n, k] T[k, y_n]      P(clean = i | x_n, y_n)
        N[i, j] = sum of R[n, i] over n with y_n = j
        T[i, j] = N[i, j] / sum_k N[i, k]  -  volume T[i, j] (T^-1)[j, i],     then rows to sum one

    The last term is the gradient of log|det T|. Likelihood alone cannot tell T from a T nearer to the identity with
    posteriors that are less sure. Hence the volume term: it shrinks T, against the pull of the held-out likelihood, and
    its weight decreases to zero.

    Parameters
    ----------
    start : estimator, array-like of shape (n_classes, n_classes) or None, default=None
        Where T starts: an estimator with ``fit`` and ``transition_``, or a matrix. If None, :class:`VolMinNet` with the
        same network is used.
    network : {"mlp", "cnn6", "lenet"}, nn.Module or callable, default="mlp"
        As in :func:`unflip.deep.make_network`.
    rounds : int, default=24
    folds : int, default=3
        Each network trains on all folds but one, so time grows with ``folds - 1``.
    volume : float, default=0.04
        Weight of the volume in the first round, whether T is updated in it or not. It falls linearly to zero at two
        thirds of the rounds.
    em_steps : int, default=20
        EM steps per round.
    warmup : int, default=2
        The least number of rounds before T is updated for the first time. As long as a round still adds a tenth of what
        the networks know about labels of unseen samples, T waits for them, but not beyond half of the rounds.
    batch_size, lr, ema, dropout, network_options, device, progress, classes, random_state
        As in :class:`unflip.deep.NoisyLabelClassifier`.

    Attributes
    ----------
    transition_, transition_std_ : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i), and the standard error of each entry, as in :class:`VolMin`.
    start_, start_estimator_
        T before the refinement, and the fitted estimator that gave it (None for a matrix).
    history_ : list of dict
        One per round: round, loss (of training), log_likelihood (of the noisy labels of unseen samples, before EM),
        volume, transition (after EM), seconds.
    methods_ : list of Method
        One per fold; ``predict_proba`` is the mean of their clean probabilities.
    classes_, input_shape_
        As in :class:`unflip.deep.NoisyLabelClassifier`.

    Notes
    -----
    The diagonal of T stays the largest entry of its row, by a quarter, and T keeps a condition number of at most 10:
    networks that confuse two classes would otherwise exchange their rows. Of the rounds without volume, the one in
    which labels of unseen samples are the most likely gives T and the networks, since networks may learn the labels
    of few samples by heart in the rounds after it. On 10,000 crops of SVHN with pair noise 0.4 and "lenet", the wait
    for the networks and both of these take the error of T from 0.60 to 0.14 (one run, code not kept).

    A network that saw a label is too sure of it, and its posteriors make T too close to the identity: hence the folds.
    What each part contributes, as seen in one run each while it was built (``benchmarks/deep_transition.py`` measures
    the whole), is the error of T on Fashion-MNIST with symmetric noise 0.6, where that of VolMinNet is 0.18:

    - Without volume and without ``ema``, T comes down but keeps jumping, 0.05 to 0.09 over rounds. A temperature for
      the posteriors, fitted to the noisy labels, stays within seven percent of one and changes nothing.
    - With ``ema`` alone, T moves smoothly but slowly, 0.11 after 30 rounds: the likelihood is nearly flat. With ``ema``
      and a constant volume it goes too far, and the likelihood of unseen labels falls again.
    - From close to the true T (pair noise 0.4, 0.018 away), the volume moves T away, 0.034, and lets it come back,
      0.016.
    - Networks that start afresh in each round, two folds, six rounds of twelve epochs, ended at 0.055.

    Inputs are used as they are, only uint8 is scaled to [0, 1]: bring features to about unit scale first.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = make_blobs(2000, centers=3, random_state=1)
    >>> model = CrossFitEM(np.eye(3) / 2 + 1 / 6, rounds=12, lr=0.005, random_state=0)
    >>> model.fit(X / 5, corrupt(y, symmetric(3, 0.4), random_state=0)).transition_.round(1)
    array([[0.6, 0.2, 0.2],
           [0.2, 0.6, 0.2],
           [0.2, 0.2, 0.6]])
    """

    _may_be_none = ("ema",)

    def __init__(
        self,
        start: Any = None,
        *,
        network: Any = "mlp",
        rounds: int = 24,
        folds: int = 3,
        volume: float = 0.04,
        em_steps: int = 20,
        warmup: int = 2,
        batch_size: int = 256,
        lr: float = 1.5e-3,
        ema: float | None = 0.99,
        dropout: float = 0.5,
        network_options: dict[str, Any] | None = None,
        device: str = "auto",
        progress: bool | str = "auto",
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.start = start
        self.network = network
        self.rounds = rounds
        self.folds = folds
        self.volume = volume
        self.em_steps = em_steps
        self.warmup = warmup
        self.batch_size = batch_size
        self.lr = lr
        self.ema = ema
        self.dropout = dropout
        self.network_options = network_options
        self.device = device
        self.progress = progress
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels y of any type, shape (n_samples,), of a table or of images X."""
        self._check_parameters()
        if self.folds < 2:
            raise ValueError(f"folds must be at least 2: each needs a network that did not see it; got {self.folds}")
        if not (isinstance(self.warmup, Integral) and 0 <= self.warmup < self.rounds):
            raise ValueError(f"warmup must be a whole number >= 0 and less than rounds; got {self.warmup!r}")
        X, codes, weights = self._check_training_data(X, y, sample_weight)
        n, c = len(codes), len(self.classes_)
        if n < self.folds:
            raise ValueError(f"{self.folds} folds need at least {self.folds} samples; got {n}")
        weighted = weights if sample_weight is not None else None
        rng = shared_random_state(self.random_state)
        start_seed = int(rng.randint(LARGEST_SEED))
        held_out = np.array_split(rng.permutation(n), self.folds)
        seen = [np.setdiff1d(np.arange(n), rows) for rows in held_out]
        trainers = [self._trainer(int(seed)) for seed in rng.randint(LARGEST_SEED, size=self.folds)]
        settings: dict[str, Any] = {"network_options": self.network_options, "progress": self.progress}
        default = VolMinNet(self.network, **settings, device=self._device(), random_state=start_seed)
        self.start_, self.start_estimator_ = resolve_transition(self.start, default, X, codes, self.classes_, weighted)

        T = repaired((1 - LIFT) * self.start_ + LIFT / c, np.zeros(c))
        shares = [(X[rows], codes[rows], None if weighted is None else weighted[rows]) for rows in seen]
        posteriors = np.empty((n, c))
        self.history_ = []
        likelihood = guess = -float(entropy(np.bincount(codes, weights)))  # of networks that know nothing of x
        has_learned, best = False, -np.inf
        console, hidden = Console(stderr=True), not is_shown(self.progress)
        for turn in track(range(self.rounds), "CrossFitEM", console=console, disable=hidden, transient=True):
            clock = time.perf_counter()
            losses = []
            for trainer, (x, labels, w), rows in zip(trainers, shares, held_out, strict=True):
                trainer.method.loss = ForwardLoss(T, reduction="none").to(trainer.device)
                trainer.epochs += self._epochs_of(LEAST_STEPS, len(labels))
                losses.append(trainer.fit(x, labels, sample_weight=w)[-1]["loss"])
                posteriors[rows] = trainer.predict_logits(X[rows]).double().softmax(1).numpy()
            before, likelihood = likelihood, mean_log_likelihood(posteriors, codes, T, weights)
            volume = self.volume * max(0.0, 1 - 1.5 * turn / self.rounds)
            # EM would bring T to posteriors that know little yet, and the networks would then follow T.
            has_learned |= likelihood > guess and likelihood - before < RISING * (likelihood - guess)
            has_learned |= turn >= self.rounds // 2
            moves = has_learned and turn >= self.warmup
            if moves:
                T = em_transition(posteriors, codes, T, volume=volume, steps=self.em_steps, sample_weight=weights)
                T = repaired(T, np.zeros(c))  # or networks that confuse two classes could exchange their rows
            score = mean_log_likelihood(posteriors, codes, T, weights)
            if (moves and volume == 0 and score > best) or (turn == self.rounds - 1 and best == -np.inf):
                best, found = score, (T, posteriors.copy(), [deepcopy(trainer.model).cpu() for trainer in trainers])
            record = {"round": turn, "loss": float(np.mean(losses)), "log_likelihood": likelihood, "volume": volume}
            self.history_.append(record | {"transition": T, "seconds": time.perf_counter() - clock})
        self.transition_, posteriors, self.methods_ = found
        self.transition_std_ = posterior_std(posteriors, self.transition_, weights)
        return self

    def _trainer(self, seed: int) -> Trainer:
        with seeded(seed):
            method = Forward(self._network_factory(), len(self.classes_), np.eye(len(self.classes_)))
        settings: dict[str, Any] = {"batch_size": self.batch_size, "lr": self.lr, "ema": self.ema}
        trainer = Trainer(method, **settings, seed=seed, device=self._device(), progress=False)
        trainer.epochs = 0  # each round adds its own
        return trainer
