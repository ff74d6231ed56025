"""A cell of an experiment, and the task that estimates its T: frozen values with a hash of what changes the number."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

HASH_LENGTH = 16
# The word in the label of a noise, and its kind: a function of unflip.noise that returns T for (n_classes, rate).
NOISES = {"sym": "symmetric", "pair": "pairflip"}


@dataclass(frozen=True)
class Estimate:
    """The task of estimating T, shared by all methods that are given this T."""

    dataset: str
    subset: dict[str, Any] | None
    noise: dict[str, Any]
    transition: dict[str, Any]
    seed: int

    @property
    def hash(self) -> str:
        return short_hash(asdict(self))

    @property
    def title(self) -> str:
        return f"{self.dataset}, {noise_label(self.noise)}, T by {self.transition['kind']}, seed {self.seed}"


@dataclass(frozen=True)
class Cell:
    """One number of a table: a method on a data set with noise, under a protocol, with a seed."""

    experiment: str
    dataset: str
    noise: dict[str, Any]  # {"kind": "symmetric", "rate": 0.2}, or {"kind": "given"}: labels by people
    method: str  # its name in the experiment
    settings: dict[str, Any]  # the kind and all settings of the method
    transition: dict[str, Any] | None  # kind, settings and network of the estimator of T; None: the method gets no T
    network: dict[str, Any] | None  # kind and options; None for a linear method
    subset: dict[str, Any] | None  # {"rows": n}: train on n rows, drawn with the seed
    protocol: dict[str, Any]  # its name, and for a deep method epochs, decay_from, batch_size and lr
    seed: int  # of the noise, the subset, the estimate of T and the initial weights
    tuning: dict[str, Any] | None = None  # the grid from which some settings are yet to be chosen; see bench.tuning
    held_out: float | None = None  # share of the noisy labels that is kept from training, to score a choice of settings

    @property
    def hash(self) -> str:
        """The hash leaves out the names of experiment, method and protocol, which do not change the number."""
        values = asdict(self)
        del values["experiment"], values["method"]
        for name in ("tuning", "held_out"):  # a cell without them keeps the hash that it always had
            if values[name] is None:
                del values[name]
        values["protocol"].pop("name", None)
        return short_hash(values)

    @property
    def noise_label(self) -> str:
        return noise_label(self.noise)

    @property
    def title(self) -> str:
        tried = "" if self.held_out is None else f" ({', '.join(f'{k} {v}' for k, v in tuned(self.settings).items())})"
        return f"{self.dataset}, {self.noise_label}, {self.method}{tried}, seed {self.seed}"

    @property
    def estimate(self) -> Estimate | None:
        """The task that gives this cell its T."""
        T = self.transition
        return None if T is None else Estimate(self.dataset, self.subset, self.noise, T, self.seed)


Task = Cell | Estimate
LAST = 10
TUNED = ("dropout", "weight_decay", "ema")  # settings that every deep method has, and that tuning chooses


def n_last(epochs: int) -> int:
    """Return how many of the last epochs make the number of a run: ten, or the second half of a short one."""
    return max(1, min(LAST, epochs // 2))


def tuned(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the settings that tuning chooses."""
    return {key: settings[key] for key in TUNED if key in settings}


def noise_label(noise: Mapping[str, Any]) -> str:
    """Return how tables name a noise.

    Examples
    --------
    >>> noise_label({"kind": "pairflip", "rate": 0.4}), noise_label({"kind": "given"})
    ('pair 40', 'human')
    """
    if noise["kind"] == "given":
        return "human"
    word = next(word for word, kind in NOISES.items() if kind == noise["kind"])
    return f"{word} {100 * noise['rate']:g}"


def noise_of(label: str) -> dict[str, Any]:
    """Return the noise that a label names; the inverse of :func:`noise_label`."""
    if label == "human":
        return {"kind": "given"}
    match = re.fullmatch(rf"({'|'.join(NOISES)}) (\d+(?:\.\d+)?)", label)
    if match is None or float(match[2]) >= 100:
        written = ", ".join(f"'{word} 20'" for word in NOISES)
        raise ValueError(f"a noise is written {written} (percent) or 'human'; got {label!r}")
    return {"kind": NOISES[match[1]], "rate": round(float(match[2]) / 100, 10)}


def short_hash(values: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of the values' canonical JSON, where 1.0 is 1."""
    text = json.dumps(_canonical(values), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]


def _canonical(values: Any) -> Any:
    """Write equal numbers the same way."""
    if isinstance(values, dict):
        return {key: _canonical(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_canonical(value) for value in values]
    return int(values) if isinstance(values, float) and values.is_integer() else values
