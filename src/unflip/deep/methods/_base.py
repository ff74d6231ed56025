"""What a deep method is: a module whose forward is the loss of a batch; and the base of those that select samples."""

import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from unflip._validation import FloatArray, check_prior, check_transition
from unflip.deep.networks import NetworkFactory


class Method(nn.Module):
    """One or two networks and the loss that trains them from noisy labels.

    Parameters
    ----------
    network_factory : callable
        Makes a fresh network with ``n_classes`` outputs at each call.
    n_classes : int
    transition : array-like of shape (n_classes, n_classes), default=None
        T[i, j] = P(noisy = j | clean = i). A method that needs T refuses None.
    prior : array-like of shape (n_classes,), default=None
        The clean class prior. If None, it is uniform.
    **settings
        Keyword parameters of the subclass.

    Notes
    -----
    A subclass sets ``name``, ``n_networks``, and either ``loss``, with which the default ``forward`` trains one
    network, or its own ``forward``. Sample weights multiply the losses of the samples that count, and the mean is over
    their number, not over the sum of their weights: weights with mean one over the data keep the scale of the gradient.
    Weights never change which samples are selected.

    A method that keeps something for each sample, such as a running target, sets ``per_sample = True`` and makes it in
    ``begin`` with ``keep``. Its ``forward`` is then called with ``index``, the rows (b,) of the samples in the training
    data, and ``between_epochs`` may look at all of them.
    """

    name: ClassVar[str]
    n_networks: ClassVar[int] = 1
    per_sample: ClassVar[bool] = False
    needs_transition: bool = False
    loss: Any  # logits (b, c) and labels (b,) in, losses (b,) out
    __signature__: ClassVar[inspect.Signature]

    def __init__(
        self,
        network_factory: NetworkFactory,
        n_classes: int,
        transition: ArrayLike | None = None,
        prior: ArrayLike | None = None,
    ) -> None:
        super().__init__()
        self.n_classes = n_classes
        self._precision = "float32"
        self._kept: set[str] = set()
        self._restarted = False
        self.networks = nn.ModuleList(network_factory() for _ in range(self.n_networks))
        T = None if transition is None else check_transition(transition, n_classes, invertible=False)
        self.given_transition = T
        self.given_prior = check_prior(np.full(n_classes, 1 / n_classes) if prior is None else prior, n_classes)

    def __init_subclass__(cls) -> None:
        """Complete the signature of a subclass whose ``__init__`` passes ``**settings`` on to its base class."""
        super().__init_subclass__()
        if "__init__" in vars(cls):
            own = list(inspect.signature(cls.__init__).parameters.values())[1:]
            if own and own[-1].kind is inspect.Parameter.VAR_KEYWORD:
                inherited = inspect.signature(cls.__mro__[1]).parameters.values()
                own = [*inherited, *(parameter for parameter in own if parameter.kind is parameter.KEYWORD_ONLY)]
            cls.__signature__ = inspect.Signature(own)

    def forward(self, x: Tensor, y: Tensor, epoch: int, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch, a scalar: x (b, ...), codes of the noisy labels y (b,), sample weights (b,)."""
        return weighted_mean(self.loss(self.logits(x), y), weight)

    def begin(self, n_samples: int, y: Tensor) -> None:
        """Make with ``keep`` what the method keeps for each sample; called once, before the first epoch.

        y (n_samples,) are the codes of all noisy labels, on the device of the training.
        """

    def between_epochs(self, epoch: int, predict: Callable[..., Tensor]) -> None:
        """Do what a method with ``per_sample`` does before each epoch, in evaluation mode and without gradients.

        ``predict()`` returns the clean logits of all training samples, shape (n_samples, n_classes), in their order;
        ``predict(function)`` returns what a function of x returns, such as the logits of one of two networks.
        """

    def keep(self, name: str, values: Tensor) -> None:
        """Keep values, with one row per sample, as the buffer ``name``: checkpoints have it, saved models do not."""
        self.register_buffer(name, values.clone())
        self._kept.add(name)

    def forget_samples(self) -> None:
        """Remove what ``keep`` keeps, which only training needs."""
        while self._kept:
            delattr(self, self._kept.pop())

    def keep_networks(self) -> None:
        """Keep the networks as they are now, in ``begin``, for ``restart_networks``."""
        for i, tensor in enumerate(self.networks.state_dict().values()):
            self.keep(f"first_{i}", tensor)

    def restart_networks(self) -> None:
        """Give the networks their first weights again.

        The trainer's average of the weights starts again, too; what the optimizer remembers soon fades.
        """
        for i, tensor in enumerate(self.networks.state_dict().values()):
            tensor.copy_(getattr(self, f"first_{i}"))
        self._restarted = True

    def has_restarted(self) -> bool:
        """Say whether the networks got their first weights again since the last call."""
        restarted, self._restarted = self._restarted, False
        return restarted

    def predict(self, x: Tensor) -> Tensor:
        """Return clean logits, shape (b, n_classes): their softmax is P(clean | x).

        With two networks, they are the logarithm of the mean of both networks' probabilities.
        """
        if self.n_networks == 1:
            return self.logits(x)
        log_p = torch.stack([self.logits(x, i).log_softmax(1) for i in range(self.n_networks)])
        return log_p.logsumexp(0) - math.log(self.n_networks)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Return what the optimizer gets, each group with its learning rate."""
        return [{"params": list(self.parameters()), "lr": lr}]

    def logits(self, x: Tensor, network: int = 0) -> Tensor:
        """Return the outputs of one network, shape (b, n_classes).

        After ``compute_in("bfloat16")`` a network computes in 16 bits in training. Its outputs are brought to 32 bits,
        in which the loss is computed, and all predictions are made in 32 bits.
        """
        if self.training and self._precision == "bfloat16":
            with torch.autocast(x.device.type, torch.bfloat16):
                z: Tensor = self.networks[network](x)
            z = z.float() if z.dtype == torch.bfloat16 else z
        else:
            z = self.networks[network](x)
        if z.ndim != 2 or z.shape[1] != self.n_classes:
            fault = f"the network must return one logit per class, shape (b, {self.n_classes})"
            raise ValueError(f"{fault}; got {tuple(z.shape)}")
        return z

    def compute_in(self, precision: str) -> None:
        """Let the networks compute in "float32" or "bfloat16" in training."""
        self._precision = precision

    def required_transition(self) -> FloatArray:
        """Return T for a method that cannot do without it."""
        if self.given_transition is None:
            raise ValueError(f"method {self.name!r} needs transition; give T[i, j] = P(noisy = j | clean = i)")
        return self.given_transition

    @classmethod
    def wants_transition(cls, **settings: Any) -> bool:
        """Return whether the method needs T with these settings; for callers that have yet to estimate it."""
        return cls.needs_transition


class NoiseRateMethod(Method):
    """A method that must know how many labels are wrong; T gives the rate if the user does not."""

    needs_transition = True  # for forget_rate="auto"; with a given rate it is False

    def __init__(self, *arguments: Any, forget_rate: float | Literal["auto"] = "auto", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.needs_transition = self.wants_transition(forget_rate=forget_rate)
        if forget_rate == "auto":
            forget_rate = max(1 - float(self.given_prior @ self.required_transition().diagonal()), 0.0)
        if isinstance(forget_rate, str) or not 0 <= forget_rate < 1:
            raise ValueError(f"forget_rate must be 'auto' or a number in [0, 1); got {forget_rate!r}")
        self.forget_rate = float(forget_rate)

    @classmethod
    def wants_transition(cls, **settings: Any) -> bool:
        return settings.get("forget_rate", "auto") == "auto"


class SmallLossMethod(NoiseRateMethod):
    """A method that trusts small losses; its parameters are those of :class:`unflip.deep.methods.CoTeaching`.

    A network learns labels that are consistent with each other before it learns the wrong ones, so in a batch the
    samples with small losses mostly have correct labels. The share ``forget(epoch)`` with the largest losses is left
    out.
    """

    def __init__(self, *arguments: Any, num_gradual: int = 10, exponent: float = 1.0, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if num_gradual < 0 or exponent <= 0:
            got = f"{num_gradual} and {exponent}"
            raise ValueError(f"num_gradual must not be negative and exponent must be positive; got {got}")
        self.num_gradual, self.exponent = num_gradual, exponent

    def forget(self, epoch: int) -> float:
        """Return the share left out in an epoch: ``linspace(0, forget_rate ** exponent, num_gradual)``, then the rate.

        Epochs count from 0, so nothing is left out in the first one. The published loops train from their epoch 1 on:
        they skip the zero and are one step ahead.
        """
        if epoch >= self.num_gradual:
            return self.forget_rate
        return self.forget_rate**self.exponent * epoch / (self.num_gradual - 1) if self.num_gradual > 1 else 0.0

    def n_kept(self, epoch: int, size: int) -> int:
        """Return how many of ``size`` samples are kept: int((1 - forget) size), but at least one."""
        return max(1, int((1 - self.forget(epoch)) * size))

    def extra_repr(self) -> str:
        return f"forget_rate={self.forget_rate:.4g}, num_gradual={self.num_gradual}, exponent={self.exponent}"


def weighted_mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean of weight x loss, a scalar."""
    return losses.mean() if weight is None else (weight * losses).mean()


def mean_of_smallest(losses: Tensor, ranking: Tensor, k: int, weight: Tensor | None) -> Tensor:
    """Return the mean of weight x loss over the samples with the k smallest entries of ``ranking``, a scalar."""
    chosen = ranking.detach().topk(k, largest=False, sorted=False).indices
    return weighted_mean(losses.index_select(0, chosen), None if weight is None else weight.index_select(0, chosen))
