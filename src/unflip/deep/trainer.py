"""The one training loop of all deep methods, and prediction."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from unflip.deep.adam import Adam
from unflip.deep.augment import make_augment, name_of
from unflip.deep.batches import Batch, MemoryBatches, as_inputs, batches_of, evaluation_batches, scaled
from unflip.deep.checkpoint import Record, method_settings, plain, read_checkpoint, write_checkpoint
from unflip.deep.distributed import World, first_rank, join, local_device, parallel
from unflip.deep.progress import TrainingBar, is_shown

if TYPE_CHECKING:
    from unflip.deep.methods import Method


PARALLEL = 2**20  # numbers that torch adds in several threads


@dataclass(eq=False, repr=False)
class Trainer:
    """Train a method with Adam, and keep what is needed to continue: weights, moments, average and history.

    Parameters
    ----------
    method : Method
        Its ``forward(x, y, epoch, weight)`` is the loss of a batch. It is trained in place and moved to ``device``. One
        that keeps something for each sample (``per_sample``) needs arrays and a single process.
    epochs : int, default=40
    batch_size : int, default=128
        Samples per step, over all processes. The last batch of an epoch may be smaller.
    lr : float, default=1e-3
        Learning rate, passed to ``method.parameter_groups(lr)``; a group may set its own.
    decay_from : int, default=None
        From this epoch on, every learning rate is multiplied by ``(epochs - epoch) / (epochs - decay_from)``.
    betas, weight_decay : tuple of float, default=(0.9, 0.999); float, default=0.0
        Betas and L2 penalty of the Adam optimizer.
    beta1_after_decay : float, default=None
        Replaces the first beta from ``decay_from`` on. The Co-teaching family used 0.1.
    ema : float, default=None
        Predict with an exponential moving average of the weights, ``average += (1 - d) (weights - average)`` after each
        step. d grows as ``(1 + step) / (10 + step)`` up to ``ema``, so that the first weights are soon forgotten, and
        starts again if a method restarts its networks. The trained parameters and the running statistics of batch norm
        are averaged; everything else, such as the T of a loss, is copied from the method.
    augment : {"shift", "crop", "flip"}, some of them joined by "+", callable or None, default=None
        Changes the images of each batch at random in training, as in :func:`unflip.deep.make_augment`.
    precision : {"float32", "bfloat16"}, default="float32"
        With "bfloat16", networks compute in 16 bits in training, by torch's autocast, up to their logits. Weights,
        losses and predictions stay in 32 bits. Convolutions are faster with it on most GPUs and on processors with
        matrix units (``benchmarks/deep_step.py``), and slower on other processors.
    seed : int, default=0
        Seeds the order of the samples, dropout and augmentation, separately for each epoch. The caller's random state
        is left as it was. Under ``torchrun`` all processes use the seed of process 0.
    device : str or torch.device, default="cpu"
    progress : bool or "auto", default="auto"
        Whether to show a progress bar; "auto" shows it on a terminal only.
    checkpoint : path, default=None
        File that is replaced after each epoch. If it exists, ``fit`` continues after its last epoch, with the same
        result (to the bit on one CPU) as if training had not stopped. A checkpoint with other settings of the trainer
        or the method, including T, with other data, or with more than ``epochs`` epochs is refused.
    steps_per_epoch : int, default=None
        End each epoch after this many batches.
    optimizer : callable, default=None
        Makes the optimizer from the parameter groups. If None, Adam is used, with ``betas`` and
        ``weight_decay``.

    Attributes
    ----------
    history : list of dict
        One per epoch: epoch, loss, lr, seconds, and accuracy or whatever ``evaluate`` returned; arrays as lists.
    model : Method
        The method that predicts: with ``ema`` the one with averaged weights, otherwise the trained one.
    title : str
        What the progress bar calls the run: the name of the method, until it is set to something else.

    Notes
    -----
    Under ``torchrun`` each process takes its share of every batch (see ``unflip.deep.distributed``). For every loss
    that is a mean over samples, the gradient is the same as in one process. Methods that select samples select within
    each share, and batch norm uses the statistics of the share; after each epoch all processes take the running
    statistics of process 0.
    """

    method: "Method"
    _: KW_ONLY
    epochs: int = 40
    batch_size: int = 128
    lr: float = 1e-3
    decay_from: int | None = None
    betas: tuple[float, float] = (0.9, 0.999)
    beta1_after_decay: float | None = None
    weight_decay: float = 0.0
    ema: float | None = None
    augment: Any = None
    precision: str = "float32"
    seed: int = 0
    device: Any = "cpu"
    progress: bool | str = "auto"
    checkpoint: Any = None
    steps_per_epoch: int | None = None
    optimizer: Any = None

    def __post_init__(self) -> None:
        least = {"epochs": 1, "batch_size": 1, "steps_per_epoch": 1, "decay_from": 0, "seed": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise ValueError(f"{name} must be at least {smallest}; got {value}")
        if self.ema is not None and not 0 <= self.ema < 1:
            raise ValueError(f"ema, the share of the average that a step keeps, must be in [0, 1); got {self.ema}")
        check_precision(self.precision)
        self._augment = make_augment(self.augment)
        self.device = local_device(torch.device(self.device))
        self.method.to(self.device)
        self.method.forget_samples()  # those of an earlier trainer
        self.title = self.method.name
        self.checkpoint = None if self.checkpoint is None else Path(self.checkpoint)
        make = self.optimizer or partial(Adam, lr=self.lr, betas=self.betas, weight_decay=self.weight_decay)
        self.optimizer = make(self.method.parameter_groups(self.lr))
        for group in self.optimizer.param_groups:  # a checkpoint cannot hold NumPy's numbers
            group.update({name: value.item() for name, value in group.items() if isinstance(value, np.generic)})
        self.average = None if self.ema is None else deepcopy(self.method).requires_grad_(False)
        self.steps = 0  # that the average has seen
        self.history: list[Record] = []
        self._begun: int | None = None  # samples of a method that keeps something for each
        self._rates = [(group["lr"], group.get("betas")) for group in self.optimizer.param_groups]
        self._method_settings = method_settings(self.method)  # now, because training may change what a method keeps

    @property
    def model(self) -> "Method":
        return self.method if self.average is None else self.average

    def fit(
        self,
        x: ArrayLike | Tensor | Iterable[Any],
        y: ArrayLike | Tensor | None = None,
        sample_weight: ArrayLike | Tensor | None = None,
        evaluate: Any = None,
        callback: "Callable[[Trainer, Record], object] | None" = None,
    ) -> list[Record]:
        """Train until ``epochs`` epochs are done, including those of the checkpoint and earlier calls; return history.

        If the checkpoint is that of a finished run, nothing is trained: its weights and history are read.

        Parameters
        ----------
        x : array or tensor of shape (n, ...), or iterable
            uint8 is kept as it is and scaled to [0, 1] one batch at a time; anything else becomes float32. Without y,
            an object that yields (x, y) or (x, y, weight) batches and can be iterated more than once, such as a
            DataLoader; its ``set_epoch``, if it has one, is called before each epoch.
        y, sample_weight : array or tensor of shape (n,), default=None
            Labels 0, ..., n_classes - 1, and weights.
        evaluate : (x, y), iterable of (x, y) batches, or callable, default=None
            What to record after each epoch: the accuracy over all of these samples, or what the callable returns for
            the trainer, a number (recorded as accuracy) or a dict of numbers, strings, arrays, lists and dicts.
        callback : callable, default=None
            Called with the trainer and the record of each epoch, which it may add to, before the checkpoint is written.
        """
        self.method.compute_in(self.precision)
        world = join(self.device)
        data = batches_of(x, y, sample_weight, self.device)
        self.seed = first_rank(self.seed)
        settings = self._settings(data.mark() if self.checkpoint is not None or world.size > 1 else {})
        world.check_equal(settings | {"epochs": self.epochs}, "give every process the same settings and data")
        settings |= self._method_settings
        if self.method.per_sample:
            self._begin(data, world)
        if self.checkpoint is not None and self.checkpoint.exists():
            self._resume(self.checkpoint, settings)
        advice = f"make sure that every process can read the checkpoint {self.checkpoint}"
        world.check_equal({"finished epochs": len(self.history)}, advice)
        modules = [self.method] if self.average is None else [self.method, self.average]
        world.copy_first(tensor for module in modules for _, tensor in _tensors(module))
        model = parallel(self.method, self.device, world)
        steps = self.steps_per_epoch or data.steps(self.batch_size)
        with (
            _flushed_denormals(),
            torch.random.fork_rng([self.device] if self.device.type == "cuda" else []),  # dropout draws from these
            TrainingBar(world.rank == 0 and is_shown(self.progress), self.title, self.epochs, steps) as bar,
        ):
            for epoch in range(len(self.history), self.epochs):
                start = time.perf_counter()
                # Seeds that depend on the epoch, not on what was drawn before it, let a checkpoint resume exactly.
                _set_random_state(_seed(self.seed, epoch, 1 + world.rank), self.device)
                self._set_rates(epoch)
                if self.method.per_sample:
                    self._between_epochs(epoch, data)
                batches = data.epoch(epoch, _seed(self.seed, epoch), self.batch_size, world)
                loss = self._train(model, islice(batches, self.steps_per_epoch), epoch, world, bar)
                if not isfinite(loss):
                    fault = f"{self.method.name} diverged: its loss is {loss} in epoch {epoch}"
                    raise FloatingPointError(f"{fault}; try a smaller learning rate")
                world.copy_first(buffer for module in modules for buffer in module.buffers())
                record: Record = {"epoch": epoch, "loss": loss, "lr": self.optimizer.param_groups[0]["lr"]}
                record |= self._evaluate(evaluate, world)
                record["seconds"] = time.perf_counter() - start
                if callback is not None:
                    callback(self, record)
                self.history.append({key: plain(value, key) for key, value in record.items()})
                if self.checkpoint is not None and world.rank == 0:
                    write_checkpoint(self.checkpoint, {"settings": settings, **self._state()})
                bar.epoch(self.history[-1])
        self.method.eval()
        return self.history

    def predict_logits(self, x: ArrayLike | Tensor) -> Tensor:
        """Return the clean logits of all samples, shape (n, n_classes), on the CPU; with ``ema`` from the average."""
        return predict_logits(self.model, x, 2 * self.batch_size, self.device)

    def _train(
        self, model: Callable[..., Tensor], batches: Iterator[Batch], epoch: int, world: World, bar: TrainingBar
    ) -> float:
        """Train for one epoch and return the mean loss over its samples."""
        self.method.train()
        per_sample = self.method.per_sample
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        averaged, copied = self._averaged()
        weights, averages = [tensor for tensor, _ in averaged], [average for _, average in averaged]
        total, samples = torch.zeros((), dtype=torch.float64, device=self.device), 0
        for x, y, weight, n, rows in batches:
            x = x if self._augment is None else self._augment(x)
            loss = model(x, y, epoch, weight, index=rows) if per_sample else model(x, y, epoch, weight)
            if world.size > 1:
                loss = loss * world.weight(n)
            loss.backward()
            self.optimizer.step()
            for p in parameters:  # what zero_grad does, in a fraction of its time
                p.grad = None
            self.steps += 1
            if self.ema is not None:
                decay = min(self.ema, (1 + self.steps) / (10 + self.steps))
                torch._foreach_lerp_(averages, weights, 1 - decay)
            total.add_(loss.detach(), alpha=n / world.size)  # on the device: reading it here would wait for the device
            samples += n
            bar.step()
        if not samples:
            raise ValueError(f"epoch {epoch} had no batches; give data with at least one sample")
        for tensor, average in copied:
            average.copy_(tensor)
        return world.sum(total).item() / samples

    def _begin(self, data: Any, world: World) -> None:
        """Let a method that keeps something for each sample make it, once: later calls of ``fit`` continue with it."""
        name = self.method.name
        if world.size > 1:
            fault = f"method {name!r} keeps something for each sample, which several processes do not share"
            raise ValueError(f"{fault}; train it in one process, without torchrun")
        if not isinstance(data, MemoryBatches):
            raise ValueError(f"{no_indices(name)}; give arrays x and y")
        if self._begun is None:
            for module in (self.method, self.average):
                if module is not None:
                    module.begin(len(data.y), data.y)
            self._begun = len(data.y)
        if self._begun != len(data.y):
            fault = f"method {name!r} began with {self._begun} samples, but now there are {len(data.y)}"
            raise ValueError(f"{fault}; continue with the same samples, or make a new method and trainer")

    def _between_epochs(self, epoch: int, data: Any) -> None:
        def predict(function: Callable[[Tensor], Tensor] = self.method.predict) -> Tensor:
            return torch.cat([function(scaled(x)) for x in data.x.split(2 * self.batch_size)])

        self.method.eval()
        with torch.no_grad():
            self.method.between_epochs(epoch, predict)
        if self.method.has_restarted() and self.average is not None:  # from here on, an average of the new networks
            self.average.networks.load_state_dict(self.method.networks.state_dict())
            self.steps = 0

    def _averaged(self) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
        """Pair tensors of the method with those of the average: the ones to average, and the ones to copy.

        Constants are copied, because averaging would only add rounding errors.
        """
        pairs: tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]] = [], []
        if self.average is not None:
            trained = {name for name, p in self.method.named_parameters() if p.requires_grad}
            for (name, tensor), (_, average) in zip(_tensors(self.method), _tensors(self.average), strict=True):
                constant = name not in trained and not name.endswith(("running_mean", "running_var"))
                pairs[constant].append((tensor, average))
        return pairs

    def _set_rates(self, epoch: int) -> None:
        decays = self.decay_from is not None and epoch >= self.decay_from
        factor = (self.epochs - epoch) / (self.epochs - (self.decay_from or 0)) if decays else 1.0
        for group, (lr, betas) in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = lr * factor
            if betas is not None:
                replaced = decays and self.beta1_after_decay is not None
                group["betas"] = (self.beta1_after_decay, betas[1]) if replaced else betas

    def _evaluate(self, evaluate: Any, world: World) -> Record:
        if evaluate is None:
            return {}
        if callable(evaluate):
            result = evaluate(self)
            return dict(result) if isinstance(result, Mapping) else {"accuracy": result}
        counts = torch.zeros(2, dtype=torch.int64, device=self.device)  # correct, all
        model = self.model.eval()
        with torch.inference_mode():
            for x, y in evaluation_batches(evaluate, 2 * self.batch_size, self.device, world):
                counts[0] += (model.predict(x).argmax(1) == y).sum()
                counts[1] += len(y)
        correct, n = world.sum(counts).tolist()
        if not n:
            raise ValueError("evaluate has no samples; give at least one, or None")
        return {"accuracy": correct / n}

    def _settings(self, mark: Record) -> Record:
        """Return what a checkpoint must agree with to continue exactly, apart from the settings of the method."""
        names = "batch_size lr decay_from betas weight_decay beta1_after_decay ema seed steps_per_epoch"
        settings = {name: getattr(self, name) for name in names.split()}
        settings |= {"method": self.method.name, "optimizer": type(self.optimizer).__name__, **mark}
        if self.augment is not None:  # absent otherwise, so that older checkpoints continue
            settings["augment"] = name_of(self.augment)
        if self.precision != "float32":
            settings["precision"] = self.precision
        settings["epochs"] = None if self.decay_from is None else self.epochs  # without decay, epochs may be added
        return {name: plain(value, name) for name, value in settings.items()}

    def _state(self) -> Record:
        return {
            "method": self.method.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
            "history": self.history,
        }

    def _resume(self, path: Path, settings: Record) -> None:
        state = read_checkpoint(path, settings, self.epochs, self.device)
        if len(state["history"]) < len(self.history):
            return  # this trainer is already ahead
        try:
            self.method.load_state_dict(state["method"])
            if self.average is not None:
                self.average.load_state_dict(state["average"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.steps, self.history = state["steps"], list(state["history"])
        except Exception as error:
            fault = f"{path} does not fit this method or optimizer"
            raise ValueError(f"{fault}; remove it to start again: {error}") from error


def predict_logits(
    method: "Method", x: ArrayLike | Tensor, batch_size: int = 256, device: str | torch.device = "cpu"
) -> Tensor:
    """Return the clean logits of all samples, shape (n, n_classes), on the CPU.

    The method is moved to ``device`` and put into evaluation mode; x of uint8 is scaled to [0, 1].
    """
    device = local_device(torch.device(device))
    model = method.to(device).eval()
    with torch.inference_mode():
        return torch.cat([model.predict(scaled(batch)).cpu() for batch in as_inputs(x, device).split(batch_size)])


def check_precision(precision: str) -> None:
    """Refuse a precision that training does not have."""
    if precision not in ("float32", "bfloat16"):
        raise ValueError(f"precision must be 'float32' or 'bfloat16'; got {precision!r}")


def no_indices(name: str) -> str:
    """Return what is wrong with batches of an iterable for a method that keeps something for each sample."""
    return f"method {name!r} keeps something for each sample, but batches do not say which samples they hold"


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [(name, tensor.detach()) for name, tensor in (*module.named_parameters(), *module.named_buffers())]


@contextmanager
def _flushed_denormals() -> Iterator[None]:
    """Treat float32 numbers below 1.2e-38 as zero on the processor, for as long as the context lasts.

    Weight decay makes many of them: the weight of a pixel that is always black halves again and again, and so do its
    moments. Some processors take a hundred times as long for them, so that a step takes up to twice as long.
    """
    was_on = bool(torch.full((1,), 1e-39, dtype=torch.float32, device="cpu") == 0)
    if torch.get_num_threads() > 1:  # threads that started in the context would keep its setting for good
        torch.zeros(PARALLEL, device="cpu").add_(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_on)


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _set_random_state(seed: int, device: torch.device) -> None:
    """Seed the generators that ``fork_rng`` restores after training, and no others."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
