"""One trial, from data to result: the path of the whole library in one function.

Only ``noisy_data`` sees the clean training labels: it draws the noise from them and knows the true T. No learner sees
them. The test labels are used for scoring predictions and nothing else.
"""

import time
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unflip import noise as noise_models
from unflip import registry
from unflip._validation import FloatArray, IntArray
from unflip.bench import tuning
from unflip.bench.cells import HASH_LENGTH, Cell, Estimate
from unflip.bench.settings import estimator_class, linear_class, own_settings, parts, taken_by
from unflip.core import clean_prior
from unflip.datasets import catalogue, load_dataset
from unflip.metrics import transition_error

Result = dict[str, Any]
_load = lru_cache(maxsize=1)(load_dataset)  # most cells of a worker share their data


def run_cell(
    cell: Cell, T: FloatArray | None = None, *, data_dir: str | None = None, checkpoint: Path | None = None
) -> Result:
    """Return the result of a cell, given the T that :func:`run_estimate` returned for ``cell.estimate``.

    It has ``accuracy`` (a list: one per epoch, or a single number for a linear method), ``held_out`` if the cell keeps
    labels from training (see :mod:`unflip.bench.tuning`; ``accuracy`` is then that of the last epochs), ``transition``,
    ``transition_error``, ``noise_rate`` (the share of wrong labels that was drawn), ``seconds``, ``data`` (what
    :meth:`NoisyData.fingerprint` returns) and ``device`` (networks train on a GPU if there is one). A deep method keeps
    its state in ``checkpoint`` after each epoch, so that an interrupted run can continue.
    """
    data = noisy_data(cell.dataset, cell.subset, cell.noise, cell.seed, data_dir)
    if cell.transition is not None and T is None:
        raise ValueError(f"{cell.title} needs T; run its estimate first")
    prior = None if T is None else clean_prior(np.bincount(data.y, minlength=data.n_classes) / len(data.y), T)
    deep = cell.settings["kind"] in registry.names("deep")
    scores, seconds, learned = _train(cell, data, T, prior, checkpoint) if deep else _fit(cell, data, T)
    T = learned if T is None else T
    return {
        **scores,
        "transition": None if T is None else np.asarray(T).tolist(),
        "transition_error": _error(T, data.T),
        "noise_rate": data.noise_rate,
        "seconds": seconds,
        "data": data.fingerprint(),
        "device": _device(deep),
    }


def run_estimate(task: Estimate, *, data_dir: str | None = None) -> Result:
    """Return the T that a task asks for, its error where the truth is known, and the seconds that it took."""
    data = noisy_data(task.dataset, task.subset, task.noise, task.seed, data_dir)
    start = time.perf_counter()
    kind = task.transition["kind"]
    networks = kind != "true" and bool(registry.find(kind, "transition").networks)
    device = _device(networks)
    if kind == "true":
        if data.T is None:
            raise ValueError(f"the true T of {task.dataset} is unknown; choose an estimator")
        T = data.T
    else:
        make, x = estimator_class(kind), flat(data.x)
        offered: dict[str, Any] = {"classes": np.arange(data.n_classes), "random_state": task.seed}
        if networks:
            network = dict(task.transition["network"])
            offered |= {"network": network.pop("kind"), "network_options": network, "device": device, "progress": False}
            x = unit_scale(data.x)[0]
        T = make(**taken_by(make, **offered) | own_settings(task.transition)).fit(x, data.y).transition_
    found = {"transition": T.tolist(), "transition_error": _error(T, data.T), "seconds": time.perf_counter() - start}
    return found | {"data": data.fingerprint(), "device": device}


class NoisyData(NamedTuple):
    x: np.ndarray
    y: IntArray  # noisy
    x_test: np.ndarray
    y_test: IntArray
    n_classes: int
    T: FloatArray | None  # the true one, used for errors only
    noise_rate: float | None

    def fingerprint(self) -> str:
        """Return the first 16 hexadecimal digits of the SHA-256 of the training and test data."""
        digest = sha256()
        for values in (self.x, self.y, self.x_test, self.y_test):
            digest.update(f"{values.dtype.str} {values.shape}".encode())
            digest.update(np.ascontiguousarray(values).data.cast("B"))  # the bytes themselves, without a copy
        return digest.hexdigest()[:HASH_LENGTH]


def noisy_data(
    dataset: str, subset: dict[str, Any] | None, noise: dict[str, Any], seed: int, data_dir: str | None
) -> NoisyData:
    """Return the training data of a trial with noisy labels, and the clean test data."""
    data = _load(dataset, data_dir)
    c = len(data.class_names)
    rows = np.arange(len(data.x_train))
    if subset is not None:
        if subset["rows"] > len(rows):
            raise ValueError(f"a subset of {subset['rows']} cannot be drawn; {dataset} has {len(rows)} training rows")
        # A random stream of its own; the noise uses the seed as it is.
        rows = np.sort(np.random.default_rng([seed, 1]).permutation(rows)[: subset["rows"]])
    clean = None if data.y_train is None else data.y_train[rows]
    if noise["kind"] == "given":
        if data.y_noisy is None:
            raise ValueError(f"{dataset} has no noisy labels of its own; add noise to it, such as 'sym 20'")
        y = data.y_noisy[rows]
        T = None if clean is None else _counted(clean, y, c)
    else:
        if clean is None:
            raise ValueError(f"the clean labels of {dataset} are unknown, so no noise can be added; use 'human'")
        T = getattr(noise_models, noise["kind"])(c, noise["rate"])
        y = noise_models.corrupt(clean, T, random_state=seed, classes=np.arange(c))
    rate = None if clean is None else float(np.mean(y != clean))
    x = data.x_train if subset is None else data.x_train[rows]
    return NoisyData(x, y.astype(np.int64), data.x_test, data.y_test, c, T, rate)


def _train(
    cell: Cell, data: NoisyData, T: FloatArray | None, prior: FloatArray | None, checkpoint: Path | None
) -> tuple[Result, float, FloatArray | None]:
    """Train a deep method; return its scores, the seconds, and the T that it learned."""
    from unflip.deep import Trainer, make_method, make_network
    from unflip.deep.estimator import seeded

    settings, network, training = parts(cell)
    x, x_test = unit_scale(data.x, data.x_test)
    factory = make_network(network.pop("kind"), x.shape[1:], data.n_classes, **network)
    with seeded(cell.seed):
        method = make_method(cell.settings["kind"], factory, data.n_classes, T, prior, **settings)
    options: dict[str, Any] = {"seed": cell.seed, "device": _device(True), "progress": False, "checkpoint": checkpoint}
    trainer = Trainer(method, **training, **options)
    test = (x_test, data.y_test)
    if cell.held_out is None:
        history = trainer.fit(x, data.y, evaluate=test)
        scores: Result = {"accuracy": [epoch["accuracy"] for epoch in history]}
    else:
        held, kept = held_out_rows(len(x), cell.held_out, cell.seed)
        history = trainer.fit(x[kept], data.y[kept], evaluate=tuning.Scores((x[held], data.y[held]), test))
        scores = tuning.summary(history)
    return scores, sum(epoch["seconds"] for epoch in history), getattr(trainer.model, "transition", None)


def _fit(cell: Cell, data: NoisyData, T: FloatArray | None) -> tuple[Result, float, FloatArray | None]:
    """Fit a linear method once; return its test accuracy, the seconds, and the T that it estimated."""
    make = linear_class(cell.settings["kind"])
    offered = taken_by(make, transition=T, classes=np.arange(data.n_classes), random_state=cell.seed)
    settings = own_settings(cell.settings) | offered
    x, x_test = flat(data.x), flat(data.x_test)
    start = time.perf_counter()
    model = make(**settings).fit(x, data.y)
    seconds = time.perf_counter() - start
    accuracy = float(np.mean(model.predict(x_test) == data.y_test))
    return {"accuracy": [accuracy]}, seconds, getattr(model, "transition_", None)


def _device(networks: bool) -> str:
    """Return where a task runs: networks on the GPU, if there is one."""
    if not networks:
        return "cpu"
    from unflip.deep.estimator import best_device

    return best_device()


def held_out_rows(n: int, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return the rows that are kept from training, a random ``share`` of them, and the others."""
    order = np.random.default_rng([seed, 2]).permutation(n)  # a random stream of its own
    held, kept = np.split(order, [max(1, int(share * n))])
    return np.sort(held), np.sort(kept)


def check_data(names: Iterable[str], data_dir: str | None) -> None:
    """Refuse data sets that are not on disk and say where each was looked for. Their files are not read."""
    entries = {entry.name: entry for entry in catalogue()}
    missing = []
    for name in names:
        if not (entries[name].on_disk(data_dir) if name in entries else Path(name).expanduser().is_file()):
            try:
                load_dataset(name, data_dir)
            except (ValueError, OSError) as error:
                missing.append(f"[datasets.{name}]: {error}")
    if missing:
        raise ValueError("\n".join(missing))


def flat(x: np.ndarray) -> np.ndarray:
    """Return the samples as rows."""
    return x.reshape(len(x), -1)


def unit_scale(x: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return tables scaled to mean 0 and deviation 1 over the first of them; images, in [0, 1], stay as they are."""
    if x.ndim > 2:
        return (x, *others)
    mean, deviation = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1
    return tuple(((part - mean) / deviation).astype(np.float32) for part in (x, *others))


def _counted(clean: IntArray, noisy: IntArray, n_classes: int) -> FloatArray:
    counts = np.bincount(clean * n_classes + noisy, minlength=n_classes**2).reshape(n_classes, n_classes)
    # No sample of the class is in the subset, so none of its labels was flipped. 0 / 0 would make T unusable.
    absent = np.flatnonzero(counts.sum(axis=1) == 0)
    counts[absent, absent] = 1
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _error(T: Any, truth: FloatArray | None) -> float | None:
    return None if T is None or truth is None else float(transition_error(T, truth))
