"""A network trained from noisy labels, with scikit-learn's interface."""

import math
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.utils.multiclass import check_classification_targets

from unflip import registry
from unflip._base import resolve_transition
from unflip._input import check_limit
from unflip._validation import FloatArray, IntArray, check_labels
from unflip.core import clean_prior
from unflip.deep.augment import make_augment, name_of
from unflip.deep.batches import CheckedBatches, sample_batches
from unflip.deep.checkpoint import saved_setting
from unflip.deep.distributed import first_rank, join
from unflip.deep.estimator import LARGEST_SEED, NetworkEstimator, seeded, shared_random_state
from unflip.deep.methods import find_method, make_method
from unflip.deep.trainer import Trainer, check_precision, no_indices
from unflip.models import Savable
from unflip.models.folder import class_name

LEAST_STEPS = 2000  # with epochs=None, small data are passed over until this many steps are done
SAMPLE = 50_000  # rows from which T is estimated if the data come in batches
DECAYS = (0.0, 1e-3, 1e-2)  # the weight decays to choose from
MOST_ROWS = 100_000  # of a table for which it is chosen: training four networks on more would take too long
ENOUGH = 1000  # labels that decide, unless these are more than a third of all, or less than a tenth
SURE = 1.5  # standard errors by which a choice must be better than none
FEWEST = 10  # labels needed to decide; with fewer, nothing is chosen
# Tables of at most so many rows leave T to linear models, and with few features to trees as well.
FEW_ROWS, FEW_FEATURES, MOST_FEATURES = 50_000, 100, 1024


def default_estimator(
    X: NDArray[Any], n_samples: int | None = None, *, random_state: Any = None, **settings: Any
) -> Any:
    """Return the estimator of T for the samples of a network, or for ``n_samples`` of which X is a part.

    It is StackedEM for a table of few rows and features. With more features, such as those of a large network, a linear
    model suffices, and VolMin's T has the smaller error, above all under symmetric noise, which trees take for overlap.
    For more rows and for images it is CrossFitEM, with the settings given. Several processes always use that: they
    would finish the others at different times, and none waits long for another.
    """
    n = len(X) if n_samples is None else n_samples
    if X.ndim == 2 and n <= FEW_ROWS and X.shape[1] <= MOST_FEATURES and join(torch.device("cpu")).size == 1:
        if X.shape[1] > FEW_FEATURES:
            return registry.make("VolMin", random_state=random_state)
        return registry.make("StackedEM", random_state=random_state)
    return registry.make("CrossFitEM", random_state=random_state, **settings)


def held_out_errors(z: FloatArray, y: IntArray, T: FloatArray | None, sample_weight: Any = None) -> FloatArray:
    """Return how badly clean logits z, shape (n, n_classes), predict each of n noisy labels that were not trained on.

    With T, it is ``|T'h - e_y|^2`` with ``h = softmax(z / t)``, at the temperature t from 0.1 to 10 that makes the mean
    smallest: a loss may make h too sharp, which says nothing about the classes that it ranks first. Without T, it is 1
    for labels that are not the most likely class, and 0 for the others.
    """
    if T is None:
        return (z.argmax(axis=1) != y).astype(np.float64)
    targets = np.eye(len(T))[y]

    def squares(log_t: float) -> FloatArray:
        errors: FloatArray = ((softmax(z / np.exp(log_t), axis=1) @ T - targets) ** 2).sum(axis=1)
        return errors

    def mean(log_t: float) -> float:
        return float(np.average(squares(log_t), weights=sample_weight))

    bounds = (-math.log(10), math.log(10))
    return squares(minimize_scalar(mean, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x)


def clear_gain(errors: FloatArray, fewer: FloatArray, sample_weight: Any = None) -> float:
    """Return the mean of ``errors - fewer``, shape (n,), or 0 if it is not 1.5 standard errors above 0."""
    gain = errors - fewer
    w = np.full(len(gain), 1 / len(gain)) if sample_weight is None else sample_weight / np.sum(sample_weight)
    mean = w @ gain
    return float(mean) if mean > SURE * np.sqrt(w**2 @ (gain - mean) ** 2) else 0.0


class NoisyLabelClassifier(Savable, NetworkEstimator):
    """Train a network from noisy labels by any method of the package; by default discounted forward correction.

    As in the paper, T is estimated from the noisy labels, and the clean class prior from T. The network then minimizes
    the loss of the method. With h the softmax of its outputs, that of a batch is::

        method="discounted-forward"    mean of -log (h S)[y],    S[i, j] ~ T[i, j]^0.7, rows sum to one
        method="mcldce"                mean of 1 + |T'h|^2 - 2 <e_y, T'h> = mean of |T'h - e_y|^2

    Parameters
    ----------
    method : {"discounted-forward", "mcldce", "ce", "gce", "coteaching", "coteaching+", "jocor", "sigua", "forward", \
"proper", "volminnet", "t-revision", "noise-adaptation", "bootstrapping", "label-smoothing", "cores", "elr", \
"mixup", "decoupling", "mentornet", "joint-optimization", "selfie", "dividemix"}, default="discounted-forward"
    network : {"mlp", "cnn6", "lenet"}, nn.Module or callable, default="mlp"
        As in :func:`unflip.deep.make_network`.
    transition : array-like of shape (n_classes, n_classes), estimator or None, default=None
        T[i, j] = P(noisy = j | clean = i), or an estimator with ``fit(X, y)`` and ``transition_``. If None, T is
        estimated, unless the method does not need it. For a table of up to 50,000 rows, that is done by
        :class:`unflip.transition.StackedEM` if it has up to 100 features, and by :class:`unflip.transition.VolMin` if
        it has up to 1,024; otherwise (also under ``torchrun``) by :class:`unflip.transition.CrossFitEM` with the same
        network.
    epochs : int or None, default=None
        If None, 40 epochs are run, and more on small data, until 2,000 steps are done.
    batch_size, lr, ema, progress
        As in :class:`unflip.deep.Trainer`.
    weight_decay : float or None, default=None
        As in :class:`unflip.deep.Trainer`. If None, held-out noisy labels decide between 0, 0.001 and 0.01 (see Notes)
        for a table that is standardized, in memory and of at most 100,000 rows, and the network takes about four times
        as long to train. For everything else it is 0. ``warm_start`` and a checkpoint keep what was chosen.
    decay_from : float or None, default=0.4
        Fraction of the epochs after which the learning rate falls linearly to zero. If None, it stays constant.
    dropout : float, default=0.5
        Dropout of the networks "mlp" and "cnn6".
    augment : {"shift", "crop", "flip", "auto"}, some of the first three joined by "+", callable or None, default=None
        Random changes of the images in training, as in :func:`unflip.deep.make_augment`. With "auto", held-out noisy
        labels decide between none and "shift" (see Notes), which triples the time. Continuing from a checkpoint decides
        again, and ``warm_start`` does not spare it.
    precision : {"float32", "bfloat16"}, default="float32"
        As in :class:`unflip.deep.Trainer`. T is estimated in 32 bits.
    standardize : bool, default=True
        Bring the features of a table, X of shape (n_samples, n_features), to mean 0 and deviation 1. Images are left as
        they are; uint8 images are scaled to [0, 1].
    method_options : dict, default=None
        Settings of the method, such as ``{"trust": 0.5}``, or ``{"operator": "published"}`` for "mcldce".
    network_options : dict, default=None
        Further options of a network given by name, such as ``{"hidden": 512}``.
    warm_start : bool, default=False
        Continue with the weights of the previous ``fit``, and with its T unless ``transition`` is a matrix.
    checkpoint : path, default=None
        File written after each epoch. After an interruption, a ``fit`` with the same settings, data and
        ``random_state``, which must be given, continues from it. T is estimated again: give it as a matrix to save
        that time.
    device : str, default="auto"
        With "auto", a GPU is used if there is one.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, if the noisy labels lack some; the rows of T follow their order.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transition_ : ndarray of shape (n_classes, n_classes) or None
        None if the method needs no T and none was given. After "volminnet", "t-revision" and "noise-adaptation", the T
        that it learned.
    transition_estimator_ : estimator or None
        The fitted estimator that gave ``transition_``.
    class_prior_ : ndarray of shape (n_classes,)
        The estimated clean class prior; without T, the noisy one.
    history_ : list of dict
        One per epoch: epoch, loss, lr, seconds, and accuracy if ``fit`` was given data to evaluate on.
    augment_ : str, callable or None
        What changed the images in training; of a loaded model, its name.
    weight_decay_ : float
        The weight decay of training.
    methods_ : list of Method
        A list with one element, the trained method.
    input_shape_ : tuple of int
        The shape of one sample; ``n_features_in_`` is its first number.

    Notes
    -----
    *Defaults.* The method was chosen by its accuracy on MNIST and Fashion-MNIST, where all methods are regularized in
    the same way (``results/deep/report/table-tuned.md``), and on tables (``benchmarks/deep_tables.py``). Dropout and
    ``ema`` were chosen with ``method="mcldce"`` and the paper's metric (``benchmarks/deep_accuracy.py``): mean test
    accuracy 92.6 percent, 92.4 without ``ema``, and 89.5 without dropout, which the paper names as its guard against
    overfitting. Choosing the epoch by :func:`unflip.metrics.clean_accuracy` on a held-out tenth gave 92.6 as well.
    On a small table, networks memorize the labels, and CrossFitEM mistakes the result for noise or misses the noise.
    StackedEM, which combines trees and linear models, gives a better T there, and VolMin, a linear model, where there
    are many features (``benchmarks/deep_tables.py``).

    *Choices on held-out labels.* A network is trained with each choice on all noisy labels but a tenth (of fewer than
    10,000 labels up to a third, and at least ten), which decide by the squared error |T'h - e_y|^2, each h with the
    temperature that suits it best. Among the choices whose error is more than 1.5 standard errors below that of the
    plain one, the one with the smallest error wins; if there is none, or there are fewer than 30 labels, the plain
    one is kept. T = I for methods that take the labels as they are; for those that withstand noise and have no T,
    the error is the share of labels that are not predicted. Without a weight decay, noisy labels of many features
    are memorized, and with it, classes with bent boundaries in few features are not learned: so no value suits all
    tables (``benchmarks/deep_tables.py``).

    *Probabilities.* Those of the default method serve to choose a class. Where classes overlap they are biased: too
    sharp under symmetric noise, and under one-sided noise in favor of the classes whose labels are flipped. If you need
    probabilities rather than labels, use ``method="forward"``, whose loss is a proper score.

    A sample with weight two is not the same as two samples, because batches are drawn from the samples.

    *Batches.* ``fit`` and ``predict`` also take a DataLoader, or any object that yields batches each time it is
    iterated. It is read once before training: the classes and their frequencies come from all labels, and the scale of
    the features and T from a uniform sample of 50,000 rows (fewer if they would take more than 512 MiB). Their size is
    that of the batches; ``batch_size`` only serves the number of epochs if that is None.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = make_blobs(1000, centers=3, random_state=0)
    >>> T = pairflip(3, 0.3)
    >>> model = NoisyLabelClassifier(transition=T, epochs=20, random_state=0).fit(X, corrupt(y, T, random_state=0))
    >>> model.score(X, y) > 0.9
    True
    """

    _may_be_none = ("epochs", "ema", "decay_from", "weight_decay")
    transition_: FloatArray | None
    class_prior_: FloatArray
    network_class_: str
    weight_decay_: float
    augment_: Any = None  # of models saved before there was any

    def __init__(
        self,
        method: str = "discounted-forward",
        network: Any = "mlp",
        transition: Any = None,
        *,
        epochs: int | None = None,
        batch_size: int = 128,
        lr: float = 1e-3,
        decay_from: float | None = 0.4,
        dropout: float = 0.5,
        ema: float | None = 0.999,
        weight_decay: float | None = None,
        augment: Any = None,
        precision: str = "float32",
        standardize: bool = True,
        method_options: dict[str, Any] | None = None,
        network_options: dict[str, Any] | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        device: str = "auto",
        progress: bool | str = "auto",
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.network = network
        self.transition = transition
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.decay_from = decay_from
        self.dropout = dropout
        self.ema = ema
        self.weight_decay = weight_decay
        self.augment = augment
        self.precision = precision
        self.standardize = standardize
        self.method_options = method_options
        self.network_options = network_options
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.device = device
        self.progress = progress
        self.classes = classes
        self.random_state = random_state

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, *, evaluate: Any = None
    ) -> Self:
        """Fit to noisy labels y of any type, shape (n_samples,).

        X has shape (n_samples, n_features) or (n_samples, channels, height, width). Without y, it is a DataLoader or
        another iterable of batches (x, y) or (x, y, weight). ``evaluate`` is a pair (X, y), or an iterable of batches;
        the accuracy on it is kept in ``history_`` after each epoch, and training never sees it.
        """
        method = find_method(self.method, **(self.method_options or {}))
        self._check_parameters()
        earlier = dict(vars(self)) if self.warm_start and hasattr(self, "methods_") else None
        if earlier and self.checkpoint is not None:
            raise ValueError("warm_start continues from memory, checkpoint from a file: set only one of them")
        if self.checkpoint is not None and self.random_state is None:  # a loaded model may have lost it
            raise ValueError("checkpoint needs a random_state; without one, a second fit cannot continue the first")
        make_augment(None if self.augment == "auto" else self.augment)
        check_precision(self.precision)
        rows: Any = slice(None)
        batches = X if y is None and not hasattr(X, "__array__") and not hasattr(X, "shape") else None
        if batches is None:
            X, codes, weights = self._check_training_data(X, y, sample_weight)  # type: ignore[arg-type]
        elif method.per_sample:
            raise ValueError(f"{no_indices(self.method)}; give arrays X and y")
        else:  # T and the scale come from a sample of the rows, the classes and their frequencies from all
            if sample_weight is not None:
                raise ValueError("sample_weight can only be given with arrays; let the batches be (x, y, weight)")
            X, rows, y, sample_weight = sample_batches(batches, SAMPLE)
            X = self._check_inputs(X, reset=True)
            check_classification_targets(y)
            self.classes_, codes = check_labels(y, self.classes)
            weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if self.augment is not None and not callable(self.augment) and X.ndim != 4:
            raise ValueError(f"augment needs images, X of shape (n, channels, height, width); got {X.shape}")
        if self.augment == "auto" and batches is not None:
            raise ValueError("augment='auto' needs all images in memory; choose 'shift' or None for batches")
        for name in ("classes_", "input_shape_"):
            if earlier and not np.array_equal(earlier[name], getattr(self, name)):
                raise ValueError(f"{name} differs from that of the previous fit; keep it, or set warm_start=False")
        # One seed, and below one T, for all processes of torchrun.
        seed = int(shared_random_state(self.random_state).randint(LARGEST_SEED))
        if earlier is None:
            self._set_scale(X)
        X, evaluate = self._scaled(X), self._evaluation(evaluate)
        weighted = weights if sample_weight is not None else None
        frequencies = np.bincount(codes, weights, minlength=len(self.classes_)) / weights.sum()
        if earlier is None or (self.transition is not None and not hasattr(self.transition, "fit")):
            of_rows = codes[rows], None if weighted is None else weighted[rows]
            self._set_transition(X, *of_rows, frequencies, len(codes), seed)
        T = self.transition_
        prior = frequencies if T is None else clean_prior(frequencies, T)
        augment, weight_decay = self.augment, self.weight_decay
        if augment == "auto":
            augment = self._best("augment", (None, "shift"), X, codes, weighted, T, prior, seed)
        if weight_decay is None:
            weight_decay, path = 0.0, None if self.checkpoint is None else Path(self.checkpoint)
            saved = first_rank(saved_setting(path, "weight_decay") if path is not None and path.exists() else None)
            if earlier:
                weight_decay = earlier["weight_decay_"]
            elif saved is not None:  # more epochs might decide otherwise
                weight_decay = saved
            elif batches is None and self.standardize and X.ndim == 2 and len(codes) <= MOST_ROWS:
                weight_decay = self._best("weight_decay", DECAYS, X, codes, weighted, T, prior, seed)
        trainer = self._trainer(T, prior, len(codes), seed, earlier, augment=augment, weight_decay=weight_decay)
        x, labels, w = (X, codes, weighted) if batches is None else (self._checked(batches), None, None)
        self.history_ = trainer.fit(x, labels, sample_weight=w, evaluate=evaluate)
        trainer.model.forget_samples()
        self.augment_, self.weight_decay_ = augment, weight_decay
        self.methods_ = [trainer.model.cpu()]
        self.transition_ = T = getattr(self.methods_[0], "transition", T)  # a method may have learned it
        self.class_prior_ = frequencies if T is None else clean_prior(frequencies, T)
        return self

    def _best(
        self,
        name: str,
        choices: tuple[Any, ...],
        X: NDArray[Any],
        codes: IntArray,
        weights: Any,
        T: FloatArray | None,
        prior: FloatArray,
        seed: int,
    ) -> Any:
        """Return the value of a setting with which noisy labels are predicted best that were not trained on.

        It is the first of the choices unless another one is clearly better.
        """
        counted = np.arange(len(codes)) if weights is None else np.flatnonzero(weights)
        order = np.random.default_rng(seed).permutation(counted)
        n = len(order)
        if n < 3 * FEWEST:
            return choices[0]
        n_held = max(n // 10, min(n // 3, ENOUGH))
        n_held += (n - n_held) % self.batch_size == 1  # batch norm cannot learn from a batch of one row
        held, kept = np.split(order, [n_held])
        w = None if weights is None else weights[held]
        if w is not None and round(w.sum() ** 2 / (w @ w), 6) < FEWEST:  # a few large weights decide alone
            return choices[0]
        entry = registry.find(self.method, "deep")
        corrects = entry.takes_transition or entry.learns_transition or entry.robust
        through = T if corrects else np.eye(len(self.classes_))  # its probabilities are those of the noisy labels
        weights = None if weights is None else weights[kept] / weights[kept].mean()  # as the fit itself has them
        errors: list[FloatArray] = []
        for choice in choices:
            trainer = self._trainer(T, prior, len(kept), seed, **{name: choice})
            trainer.checkpoint, trainer.title = None, f"trying {name}={choice}:"
            try:
                trainer.fit(X[kept], codes[kept], sample_weight=weights)
            except FloatingPointError:
                if not errors:
                    raise
                errors.append(errors[0])  # what diverges is not chosen
                continue
            z = trainer.predict_logits(X[held]).double().numpy()
            errors.append(held_out_errors(z, codes[held], getattr(trainer.model, "transition", through), w))
        gains = [clear_gain(errors[0], fewer, w) for fewer in errors]
        return first_rank(choices[int(np.argmax(gains))])  # of equal ones the first

    def _set_scale(self, X: NDArray[Any]) -> None:
        self.mean_, self.scale_ = np.zeros(1, np.float32), np.ones(1, np.float32)
        if self.standardize and X.ndim == 2:
            deviation = X.std(axis=0, dtype=np.float64)
            self.mean_ = X.mean(axis=0, dtype=np.float64).astype(np.float32)
            self.scale_ = np.where(deviation > 0, deviation, 1).astype(np.float32)

    def _scaled(self, X: NDArray[Any]) -> NDArray[Any]:
        if X.ndim > 2 or not self.standardize:
            return X
        scaled: NDArray[Any] = (X.astype(np.float32) - self.mean_) / self.scale_
        return scaled

    def _set_transition(
        self,
        X: NDArray[Any],
        codes: IntArray,
        weights: FloatArray | None,
        frequencies: FloatArray,
        n_samples: int,
        seed: int,
    ) -> None:
        self.transition_, self.transition_estimator_ = None, None
        options = self.method_options or {}
        if self.transition is None and not find_method(self.method, **options).wants_transition(**options):
            return
        if self.transition is None or hasattr(self.transition, "fit"):
            # Refuse now what the method, its networks and the trainer refuse: estimating T may take hours.
            self._trainer(np.eye(len(self.classes_)), frequencies, len(codes), seed)
        settings = {"network": self.network, "network_options": self.network_options, "progress": self.progress}
        default = default_estimator(X, n_samples, **settings, device=self._device(), random_state=seed)
        T, self.transition_estimator_ = resolve_transition(self.transition, default, X, codes, self.classes_, weights)
        self.transition_ = first_rank(T)

    def _make_method(self, T: FloatArray | None, prior: FloatArray) -> Any:
        options = self.method_options or {}
        return make_method(self.method, self._network_factory(), len(self.classes_), T, prior, **options)

    def _trainer(
        self,
        T: FloatArray | None,
        prior: FloatArray,
        n_samples: int,
        seed: int,
        earlier: dict[str, Any] | None = None,
        augment: Any = None,
        weight_decay: float = 0.0,
    ) -> Trainer:
        epochs = self.epochs or max(40, self._epochs_of(LEAST_STEPS, n_samples))
        decay_from = None if self.decay_from is None else round(self.decay_from * epochs)
        with seeded(seed):
            method = self._make_method(T, prior)
        if earlier:
            method.networks.load_state_dict(earlier["methods_"][0].networks.state_dict())
        same = ("batch_size", "lr", "ema", "precision", "progress", "checkpoint")
        settings: dict[str, Any] = {name: getattr(self, name) for name in same}
        settings |= {"augment": augment, "weight_decay": weight_decay}
        return Trainer(method, epochs=epochs, decay_from=decay_from, seed=seed, device=self._device(), **settings)

    def _evaluation(self, data: Any) -> Any:
        """Return data to evaluate on, (X, y) or batches of them, as the trainer takes them."""
        if data is None:
            return None
        if not (isinstance(data, tuple | list) and len(data) == 2):
            return self._checked(data)
        X, y = data
        return self._scaled(self._check_inputs(X, reset=False)), self._codes(y)

    def _checked(self, batches: Any) -> CheckedBatches:
        return CheckedBatches(batches, lambda x: self._scaled(self._check_inputs(x, reset=False)), self._codes)

    def _codes(self, y: Any) -> IntArray:
        known = {label: code for code, label in enumerate(self.classes_.tolist())}
        return np.array([known.get(label, -1) for label in np.asarray(y).tolist()])  # -1 is never correct

    def _fitted_state(self) -> dict[str, Any]:
        state = super()._fitted_state()
        if not state:
            return state
        method = state.pop("methods_")[0]
        if not isinstance(self.network, str):  # its code is not saved: load takes it from the caller
            state["network_class_"] = class_name(method.networks[0])
        state["transition_estimator_"] = None
        state["augment_"] = name_of(self.augment_)  # of no use for predictions
        state["weights"] = {name: tensor.cpu().numpy() for name, tensor in method.state_dict().items()}
        return state

    def _set_fitted_state(self, state: dict[str, Any]) -> None:
        weights = {name: torch.from_numpy(np.array(value)) for name, value in state.pop("weights").items()}
        state.setdefault("weight_decay_", self.weight_decay or 0.0)  # of models saved before it was chosen
        super()._set_fitted_state(state)
        self.input_shape_ = tuple(self.input_shape_)
        self._check_announced(weights)
        method = self._make_method(self.transition_, self.class_prior_)
        method.load_state_dict(weights)
        self.methods_ = [method.requires_grad_(False).eval()]

    def _check_announced(self, weights: dict[str, torch.Tensor]) -> None:
        """Refuse a file whose weights are not those of the network that it announces, before that takes any memory."""
        size = math.prod(self.input_shape_)
        check_limit("UNFLIP_MAX_INPUT", size, f"input_shape_ announces samples of {size:,} numbers")
        if not isinstance(self.network, str):
            return
        with torch.device("meta"):
            announced = self._network_factory()().state_dict()
        for name, value in announced.items():
            found = weights.get(f"networks.0.{name}")
            if found is None or found.shape != value.shape:
                shape = "missing" if found is None else f"of shape {tuple(found.shape)}"
                raise ValueError(f"the weights {name!r} are {shape}, but the network needs {tuple(value.shape)}")
