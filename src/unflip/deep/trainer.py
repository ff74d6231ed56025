"""The one training loop of all deep methods."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor, nn

from unflip.deep.adam import Adam
from unflip.deep.batches import Batch, batches_of, checksum, evaluation_batches, input_batches
from unflip.deep.distributed import World, first_rank, join, local_device, parallel

if TYPE_CHECKING:
    from unflip.deep.methods import Method

Record = dict[str, Any]


class Trainer:
    """Train a method with Adam, and keep what is needed to go on: weights, moments, average and history.

    Parameters
    ----------
    method : Method
        Its ``forward(x, y, epoch, weight)`` is the loss of a batch. It is trained in place and moved to ``device``.
    epochs : int, default=40
    batch_size : int, default=128
        Of one step over all processes. The last batch of an epoch may be smaller.
    lr : float, default=1e-3
        Handed to ``method.parameter_groups(lr)``; a group may set its own.
    decay_from : int, default=None
        From this epoch e on every learning rate is multiplied by ``(epochs - e) / (epochs - decay_from)``.
    betas : tuple of float, default=(0.9, 0.999)
    beta1_after_decay : float, default=None
        Replaces the first beta from ``decay_from`` on. The Co-teaching family used 0.1.
    weight_decay : float, default=0.0
        The L2 penalty of Adam.
    ema : float, default=None
        Predict with an exponential moving average of the weights, ``average += (1 - d) (weights - average)`` after each
        step. d grows as ``(1 + step) / (10 + step)`` up to ``ema``, so that the first weights are soon forgotten. The
        trained parameters and the running statistics of batch norm are averaged; the rest, such as the T of a loss, is
        the method's own.
    seed : int, default=0
        Of the order of the samples and of dropout, anew for each epoch. The caller's random state is left as it was.
        Under ``torchrun`` all processes take the seed of process 0.
    device : str or torch.device, default="cpu"
    progress : bool or "auto", default="auto"
        Show a bar; "auto" only on a terminal.
    checkpoint : path, default=None
        Written after each epoch, replaced as a whole, and read by ``fit`` where it exists: training goes on after its
        last epoch with the same result, to the bit on one CPU, as if it had not stopped. A checkpoint of other
        settings of the trainer or of the method, T among them, or of other data is refused.
    steps_per_epoch : int, default=None
        End each epoch after so many batches.
    optimizer : callable, default=None
        Makes another optimiser than Adam from the parameter groups; ``betas`` and ``weight_decay`` are Adam's.

    Attributes
    ----------
    history : list of dict
        One an epoch: epoch, loss, lr, seconds, and accuracy or what ``evaluate`` returned; arrays as lists.
    model : Method
        What predicts: the average of the weights with ``ema``, otherwise the method.

    Notes
    -----
    Under ``torchrun`` each process takes its share of every batch (see ``unflip.deep.distributed``). The gradient is
    that of one process for every loss that is a mean over samples; methods that select samples select within each
    share, and batch norm uses the statistics of the share; after each epoch all processes take the running statistics
    of process 0.
    """

    def __init__(
        self,
        method: "Method",
        *,
        epochs: int = 40,
        batch_size: int = 128,
        lr: float = 1e-3,
        decay_from: int | None = None,
        betas: tuple[float, float] = (0.9, 0.999),
        beta1_after_decay: float | None = None,
        weight_decay: float = 0.0,
        ema: float | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        progress: bool | str = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        steps_per_epoch: int | None = None,
        optimizer: Callable[[list[dict[str, Any]]], torch.optim.Optimizer] | None = None,
    ) -> None:
        for name, value, least in (
            ("epochs", epochs, 1),
            ("batch_size", batch_size, 1),
            ("steps_per_epoch", steps_per_epoch, 1),
            ("decay_from", decay_from, 0),
            ("seed", seed, 0),
        ):
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}; got {value}")
        if ema is not None and not 0 <= ema < 1:
            raise ValueError(f"ema is the share of the average that a step keeps, in [0, 1); got {ema}")
        self.device = local_device(torch.device(device))
        self.method = method.to(self.device)
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.decay_from = decay_from
        self.betas = betas
        self.beta1_after_decay = beta1_after_decay
        self.weight_decay = weight_decay
        self.ema = ema
        self.seed = seed
        self.progress = progress
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.steps_per_epoch = steps_per_epoch

        groups = method.parameter_groups(lr)
        if optimizer is None:
            self.optimizer: torch.optim.Optimizer = Adam(groups, lr=lr, betas=betas, weight_decay=weight_decay)
        else:
            self.optimizer = optimizer(groups)
        for group in self.optimizer.param_groups:  # a checkpoint cannot hold NumPy's numbers
            group.update({name: value.item() for name, value in group.items() if isinstance(value, np.generic)})
        self.average = None if ema is None else deepcopy(method).requires_grad_(False)
        self.steps = 0
        self.history: list[Record] = []
        self._rates = [(group["lr"], group.get("betas")) for group in self.optimizer.param_groups]
        self._method_settings = _settings_of(method)  # now, because training may change what a method keeps

    @property
    def model(self) -> "Method":
        return self.method if self.average is None else self.average

    def fit(
        self,
        x: ArrayLike | Tensor | Iterable[Any],
        y: ArrayLike | Tensor | None = None,
        *,
        sample_weight: ArrayLike | Tensor | None = None,
        evaluate: Any = None,
        callback: "Callable[[Trainer, Record], object] | None" = None,
    ) -> list[Record]:
        """Train until ``epochs`` epochs are done, those of the checkpoint and of earlier calls included.

        Where the checkpoint is that of a finished run nothing is trained: the weights and the history are read from it.

        Parameters
        ----------
        x : array or tensor of shape (n, ...), or iterable
            uint8 is kept as it is and scaled to [0, 1] a batch at a time; anything else becomes float32. Without y, any
            object that gives (x, y) or (x, y, weight) batches anew each time it is iterated, such as a DataLoader; its
            ``set_epoch`` is called before each epoch if it has one.
        y : array or tensor of shape (n,)
            Labels 0, ..., n_classes - 1.
        sample_weight : array or tensor of shape (n,), default=None
        evaluate : (x, y), iterable of (x, y) batches, or callable, default=None
            After each epoch: the accuracy over all of these samples, or what the callable returns when it is given the
            trainer, a number (stored as accuracy) or a dict of numbers, strings, arrays, lists and dicts.
        callback : callable, default=None
            Called with the trainer and the record of each epoch, which it may add to, before the checkpoint is written.

        Returns
        -------
        list of dict
            The history.
        """
        world = join(self.device)
        data = batches_of(x, y, sample_weight, self.device)
        self.seed = first_rank(self.seed)
        settings = self._settings(data.mark() if self.checkpoint is not None or world.size > 1 else {})
        world.check_equal(settings | {"epochs": self.epochs}, "give every process the same settings and data")
        settings |= self._method_settings
        if self.checkpoint is not None and self.checkpoint.exists():
            self._load(settings)
        advice = f"do all of them see the checkpoint {self.checkpoint}?"
        world.check_equal({"finished epochs": len(self.history)}, advice)
        modules = [self.method] if self.average is None else [self.method, self.average]
        world.copy_first(tensor for module in modules for _, tensor in _tensors(module))
        steps = self.steps_per_epoch or data.steps(self.batch_size)
        with (
            _own_random_state(self.device),
            parallel(self.method, self.device, world) as model,
            _Bar(self.progress if world.rank == 0 else False, self.method.name, self.epochs, steps) as bar,
        ):
            for epoch in range(len(self.history), self.epochs):
                start = time.perf_counter()
                # Seeds that follow from the epoch, not from what was drawn before it, make a checkpoint resume exactly.
                order_seed, noise_seed = _seed(self.seed, epoch), _seed(self.seed, epoch, 1 + world.rank)
                _set_random_state(noise_seed, self.device)
                self._set_rates(epoch)
                batches = data.epoch(epoch, order_seed, self.batch_size, world)
                loss = self._train(model, islice(batches, self.steps_per_epoch), epoch, world, bar)
                if not isfinite(loss):
                    raise FloatingPointError(
                        f"{self.method.name} diverged: its loss is {loss} in epoch {epoch}; try a smaller learning rate"
                    )
                world.copy_first(buffer for module in modules for buffer in module.buffers())
                record: Record = {"epoch": epoch, "loss": loss, "lr": self.optimizer.param_groups[0]["lr"]}
                record |= self._evaluate(evaluate, world)
                record["seconds"] = time.perf_counter() - start
                if callback is not None:
                    callback(self, record)
                self.history.append({key: _plain(value, key) for key, value in record.items()})
                if self.checkpoint is not None and world.rank == 0:
                    self._save(settings)
                bar.epoch(self.history[-1])
        self.method.eval()
        return self.history

    def predict_logits(self, x: ArrayLike | Tensor) -> Tensor:
        """The clean logits of all samples, shape (n, n_classes), on the CPU; with the averaged weights if ``ema``."""
        return torch.cat([self._predict(batch).cpu() for batch in input_batches(x, 2 * self.batch_size, self.device)])

    def _train(
        self, model: Callable[..., Tensor], batches: Iterator[Batch], epoch: int, world: World, bar: "_Bar"
    ) -> float:
        """One epoch; the mean loss over its samples."""
        self.method.train()
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        averaged, copied = self._averaged()
        weights, averages = [tensor for tensor, _ in averaged], [average for _, average in averaged]
        total, samples = torch.zeros((), dtype=torch.float64, device=self.device), 0
        for x, y, weight, n in batches:
            loss = model(x, y, epoch, weight)
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
            raise ValueError(f"epoch {epoch} had no batches")
        for tensor, average in copied:
            average.copy_(tensor)
        return world.sum(total).item() / samples

    def _averaged(self) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
        """The tensors of the method with their averages, and the rest with its copies in the averaged model.

        Constants are among the rest: the average of -inf, as in the logarithm of a T with zeros, would be NaN.
        """
        averaged: list[tuple[Tensor, Tensor]] = []
        copied: list[tuple[Tensor, Tensor]] = []
        if self.average is not None:
            trained = {name for name, p in self.method.named_parameters() if p.requires_grad}
            for (name, tensor), (_, average) in zip(_tensors(self.method), _tensors(self.average), strict=True):
                statistic = name.endswith(("running_mean", "running_var"))
                (averaged if name in trained or statistic else copied).append((tensor, average))
        return averaged, copied

    def _set_rates(self, epoch: int) -> None:
        decays = self.decay_from is not None and epoch >= self.decay_from
        factor = (self.epochs - epoch) / (self.epochs - (self.decay_from or 0)) if decays else 1.0
        for group, (lr, betas) in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = lr * factor
            if betas is not None:
                replaced = decays and self.beta1_after_decay is not None
                group["betas"] = (self.beta1_after_decay, betas[1]) if replaced else betas

    def _predict(self, x: Tensor) -> Tensor:
        model = self.model.eval()
        with torch.inference_mode():
            return model.predict(x)

    def _evaluate(self, evaluate: Any, world: World) -> Record:
        if evaluate is None:
            return {}
        if callable(evaluate):
            result = evaluate(self)
            return dict(result) if isinstance(result, Mapping) else {"accuracy": result}
        counts = torch.zeros(2, dtype=torch.int64, device=self.device)  # right, all
        for x, y in evaluation_batches(evaluate, 2 * self.batch_size, self.device, world):
            counts[0] += (self._predict(x).argmax(1) == y).sum()
            counts[1] += len(y)
        right, n = world.sum(counts).tolist()
        if not n:
            raise ValueError("evaluate has no samples")
        return {"accuracy": right / n}

    def _settings(self, mark: Record) -> Record:
        """What a checkpoint must agree with for training to go on as if it had not stopped, but for the method's."""
        settings = {
            "method": self.method.name,
            "batch_size": self.batch_size,
            "lr": self.lr,
            "decay_from": self.decay_from,
            "epochs": None if self.decay_from is None else self.epochs,  # without decay more epochs may be added
            "betas": self.betas,
            "beta1_after_decay": self.beta1_after_decay,
            "weight_decay": self.weight_decay,
            "ema": self.ema,
            "seed": self.seed,
            "steps_per_epoch": self.steps_per_epoch,
            "optimizer": type(self.optimizer).__name__,
            **mark,
        }
        return {name: _plain(value, name) for name, value in settings.items()}

    def _save(self, settings: Record) -> None:
        assert self.checkpoint is not None
        state = {
            "settings": settings,
            "method": self.method.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
            "history": self.history,
        }
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        partial = self.checkpoint.with_name(f".{self.checkpoint.name}.{os.getpid()}")
        try:
            with partial.open("wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.checkpoint)
        finally:
            partial.unlink(missing_ok=True)

    def _load(self, settings: Record) -> None:
        assert self.checkpoint is not None
        try:
            state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
            saved, history = dict(state["settings"]), list(state["history"])
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"{self.checkpoint} is not a trainer's checkpoint; remove it to start anew") from error
        if len(history) < len(self.history):
            return  # this trainer is already further
        for name in settings | saved:
            if saved.get(name) != settings.get(name):
                raise ValueError(
                    f"{self.checkpoint} was made with {name}={saved.get(name)!r}, now it is {settings.get(name)!r}; "
                    "use the same settings and data to go on, or remove the file to start anew"
                )
        try:
            self.method.load_state_dict(state["method"])
            if self.average is not None:
                self.average.load_state_dict(state["average"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.steps, self.history = state["steps"], history
        except Exception as error:
            raise ValueError(
                f"{self.checkpoint} does not fit this method or optimizer; remove it to start anew: {error}"
            ) from error


class _Bar:
    """A progress bar, or nothing where it is not shown. It is drawn at most five times a second."""

    def __init__(self, show: bool | str, name: str, epochs: int, steps: int | None) -> None:
        self.shown = sys.stderr.isatty() if show == "auto" else bool(show)
        self.name, self.epochs, self.steps = name, epochs, steps
        self.done, self.next_draw = 0, 0.0

    def __enter__(self) -> "_Bar":
        if self.shown:
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self.progress = Progress(*columns, console=Console(stderr=True), auto_refresh=False)
            self.task = self.progress.add_task(
                self.name, total=None if self.steps is None else self.epochs * self.steps
            )
            self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self.progress.stop()

    def step(self) -> None:
        self.done += 1
        if self.shown and time.perf_counter() > self.next_draw:
            self.next_draw = time.perf_counter() + 0.2
            self.progress.update(self.task, completed=self.done, refresh=True)

    def epoch(self, record: Record) -> None:
        if self.shown:
            self.done = self.done if self.steps is None else (record["epoch"] + 1) * self.steps
            number = isinstance(record.get("accuracy"), (int, float))
            accuracy = f", accuracy {record['accuracy']:.4f}" if number else ""
            text = f"{self.name} epoch {record['epoch'] + 1}/{self.epochs}: loss {record['loss']:.4f}{accuracy}"
            self.progress.update(self.task, completed=self.done, description=text, refresh=True)


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [(name, tensor.detach()) for name, tensor in (*module.named_parameters(), *module.named_buffers())]


def _settings_of(method: nn.Module) -> Record:
    """What tells a method from one of other settings or another T, whatever its weights.

    The public attributes of all modules that are numbers, strings or None, the shapes of all tensors, and checksums of
    the buffers outside the networks: the constants of losses. The buffers of a network are part of what it learnt.
    """
    settings: Record = {}
    for path, module in method.named_modules(prefix="method"):
        for name, value in vars(module).items():
            if not name.startswith("_") and name != "training" and _is_plain(value):
                settings[f"{path}.{name}"] = _plain(value, name)
    for name, tensor in _tensors(method):
        settings[f"shape of method.{name}"] = list(tensor.shape)
    for name, buffer in method.named_buffers():
        if not name.startswith("networks."):
            settings[f"checksum of method.{name}"] = checksum(buffer)
    return settings


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str, np.number, np.bool_))


def _plain(value: Any, name: str) -> Any:
    """The value with Python's own numbers and lists in place of those of NumPy and torch: a checkpoint holds no others.

    A checkpoint is read without executing anything, and therefore knows no other types.
    """
    if isinstance(value, (np.generic, np.ndarray, Tensor)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {_plain(key, name): _plain(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, name) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if value is None:
        return None
    raise ValueError(
        f"{name} is or holds a {type(value).__name__}; the history and checkpoints hold numbers, strings, None, and "
        "arrays, lists and dicts of them"
    )


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def _set_random_state(seed: int, device: torch.device) -> None:
    """Of the generators that ``_own_random_state`` restores, and of no others."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


@contextmanager
def _own_random_state(device: torch.device) -> Iterator[None]:
    """Dropout draws from torch's global generators: leave them as they were found."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
