"""Shared base of the estimators that train networks: how they take data, and how their networks predict."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from unflip._base import ZERO_WEIGHTS, check_rows
from unflip._validation import FloatArray, IntArray, bounded_weights, check_labels, check_range
from unflip.deep.batches import is_batches
from unflip.deep.distributed import first_rank, launched
from unflip.deep.methods import Method
from unflip.deep.networks import NetworkFactory, check_options, make_network
from unflip.deep.trainer import predict_logits

LARGEST_SEED = 2**31 - 1
_WHOLE = ("a whole number >= 1", lambda value: isinstance(value, int | np.integer) and value >= 1)
_POSITIVE = ("a number > 0", lambda value: 0 < value < np.inf)
_NOT_NEGATIVE = ("a number >= 0", lambda value: 0 <= value < np.inf)
_FRACTION = ("a number in [0, 1)", lambda value: 0 <= value < 1)
RANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {  # a parameter means the same in every estimator
    **dict.fromkeys(("epochs", "batch_size", "rounds", "folds", "em_steps"), _WHOLE),
    **dict.fromkeys(("lr", "transition_lr"), _POSITIVE),
    **dict.fromkeys(("volume", "momentum", "weight_decay"), _NOT_NEGATIVE),
    **dict.fromkeys(("dropout", "ema", "validation_fraction"), _FRACTION),
    "decay_from": ("a fraction of the epochs in [0, 1)", _FRACTION[1]),
}


class NetworkEstimator(ClassifierMixin, BaseEstimator):
    """Shared base of ``NoisyLabelClassifier`` and of the estimators of T that train networks.

    ``_check_training_data`` sets ``classes_``, ``input_shape_`` and ``bytes_``; the ``fit`` of a subclass sets
    ``methods_``, and the mean of the clean probabilities of these methods is the prediction.
    """

    _may_be_none: tuple[str, ...] = ()  # parameters that have a range
    network: Any
    network_options: dict[str, Any] | None
    batch_size: int
    classes: ArrayLike | None
    device: str
    methods_: list[Method]
    classes_: NDArray[Any]
    input_shape_: tuple[int, ...]
    bytes_: bool

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return P(clean = k | x), shape (n_samples, n_classes), for X of the shape that ``fit`` takes.

        X may be a DataLoader or another iterable of batches: x alone, or (x, ...), of which the rest is ignored.
        """
        check_is_fitted(self)
        if is_batches(X):
            parts = [self.predict_proba(batch[0] if isinstance(batch, tuple | list) else batch) for batch in X]
            return np.concatenate([np.zeros((0, len(self.classes_))), *parts])
        X, device = self._scaled(self._check_inputs(X, reset=False)), self._device_there()
        logits = [predict_logits(method, X, device=device).double() for method in self.methods_]
        proba: NDArray[Any] = np.mean([z.softmax(1).numpy() for z in logits], axis=0)
        return proba

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely clean label of each sample, shape (n_samples,)."""
        best = self.predict_proba(X).argmax(axis=1)  # first, because it refuses a model that is not fitted
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _scaled(self, X: NDArray[Any]) -> NDArray[Any]:
        return X

    def _device(self) -> str:
        return best_device() if self.device == "auto" else self.device

    def _device_there(self) -> str:
        """Return the device to predict on: a model trained on a GPU also predicts on a machine without one."""
        device = torch.device(self._device())  # an unknown kind of device is an error
        try:
            torch.empty(0, device=device)
        except Exception as error:  # each backend has its own
            warnings.warn(
                f"device {self.device!r} is not available, so the CPU is used ({str(error).splitlines()[0]}). "
                "set_params(device='auto') uses whatever is available",
                stacklevel=3,
            )
            return "cpu"
        return str(device)

    def _check_training_data(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[NDArray[Any], IntArray, FloatArray]:
        """Return inputs, label codes and weights with mean one; set the attributes that describe them."""
        check_rows(X, y)
        X, y = self._check_inputs(X, y, reset=True)
        check_classification_targets(y)
        self.classes_, codes = check_labels(y, self.classes)
        if sample_weight is None:
            return X, codes, np.ones(len(codes))
        if not np.any(np.asarray(sample_weight) != 0):
            raise ValueError(ZERO_WEIGHTS)
        weights = bounded_weights(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        return X, codes, weights / weights.mean()

    def _check_inputs(self, X: Any, *y: Any, reset: bool) -> Any:
        """Validate X; samples of more than one dimension are images, everything else is a table."""
        if sparse.issparse(X):
            raise ValueError(
                f"X is a sparse matrix of shape {X.shape}, but networks take dense arrays; give X.toarray(), or use a "
                "linear classifier, which takes it as it is"
            )
        images = (np.ndim(X) if isinstance(X, list | tuple) else getattr(X, "ndim", 2)) > 2
        # Unless it is standardized, uint8 is kept and scaled to [0, 1] one batch at a time.
        bytes_stay = (images or not getattr(self, "standardize", False)) and (reset or self.bytes_)
        dtype = [np.float32, np.uint8] if bytes_stay else np.float32
        if not images and getattr(getattr(X, "dtype", None), "kind", "") == "f" and X.ndim == 2:
            check_range(np.asarray(X), fitting=reset)  # before float32 makes infinity of it
        checked = validate_data(self, X, *y, reset=reset, allow_nd=images, ensure_2d=not images, dtype=dtype)
        X = checked[0] if y else checked
        if reset:
            self.input_shape_ = X.shape[1:]
            self.bytes_ = X.dtype == np.uint8
        elif X.shape[1:] != self.input_shape_:
            raise ValueError(f"samples must have the shape seen in fit, {self.input_shape_}; got {X.shape[1:]}")
        elif self.bytes_ and X.dtype != np.uint8 and X.max(initial=0) > 1:
            fault = f"fit saw bytes (uint8) and scaled them to [0, 1], but these are floats up to {X.max():g}"
            raise ValueError(f"{fault}. Give uint8, or divide by 255")
        return checked

    def _network_factory(self) -> NetworkFactory:
        options = {"dropout": self.dropout} if hasattr(self, "dropout") and self.network in ("mlp", "cnn6") else {}
        options |= self.network_options or {}
        return make_network(self.network, self.input_shape_, len(self.classes_), **options)

    def _epochs_of(self, least_steps: int, n_samples: int) -> int:
        """Return the number of epochs that have at least this many steps."""
        return -(-least_steps // -(-n_samples // self.batch_size))

    def _check_parameters(self) -> None:
        """Refuse unknown network options, and numbers outside their ``RANGES``."""
        check_options(self.network, self.network_options or {})
        for name in sorted(RANGES.keys() & self.get_params(deep=False).keys()):
            value, (description, allowed) = getattr(self, name), RANGES[name]
            optional = name in self._may_be_none
            if not (isinstance(value, Real) and allowed(value)) and not (optional and value is None):
                raise ValueError(f"{name} must be {description}{' or None' if optional else ''}; got {value!r}")


def best_device() -> str:
    """Return what ``device="auto"`` stands for: the GPU, if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def shared_random_state(random_state: Any) -> np.random.RandomState:
    """Return scikit-learn's generator; under torchrun, one that draws the same numbers in every process."""
    rng: np.random.RandomState = check_random_state(random_state)
    return check_random_state(first_rank(int(rng.randint(LARGEST_SEED)))) if launched() else rng


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make networks inside this context depend on the seed alone; the caller's random state is left as it was."""
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(seed)
        yield
