"""Checkpoints of a training run: written as a whole, read without executing anything, refused for another run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unflip._input import check_file
from unflip._output import replaced
from unflip.deep.batches import checksum

Record = dict[str, Any]


def write_checkpoint(path: Path, state: Record) -> None:
    """Write the state of a run; the previous checkpoint is replaced once the new one is complete."""
    with replaced(path) as partial, partial.open("wb") as file:
        torch.save(state, file)


def read_checkpoint(path: Path, settings: Record, epochs: int, device: torch.device) -> Record:
    """Return the state in a checkpoint, or say why this run, with its settings and epochs, cannot continue from it."""
    state = _load(path, device)
    saved, done = state["settings"], len(state["history"])
    saved, settings = ({"precision": "float32"} | one for one in (saved, settings))  # named only if it is another
    for name in settings | saved:
        if saved.get(name) != settings.get(name):
            fault = f"{path} was made with {name}={saved.get(name)!r}, but now it is {settings.get(name)!r}"
            raise ValueError(f"{fault}; use the same settings and data, or remove the file to start again")
    if done > epochs:
        advice = f"set epochs to {done} or more to use it, or remove the file to start again"
        raise ValueError(f"{path} has {done} epochs, but epochs={epochs}; {advice}")
    return state


def saved_setting(path: Path, name: str) -> Any:
    """Return a setting of the trainer that wrote a checkpoint."""
    return _load(path, torch.device("cpu"))["settings"].get(name)


def _load(path: Path, device: torch.device) -> Record:
    try:
        state: Record = torch.load(check_file(path), map_location=device, weights_only=True)
        return state | {"settings": dict(state["settings"]), "history": list(state["history"])}
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is not a checkpoint of a Trainer; remove it to start again") from error


def method_settings(method: nn.Module) -> Record:
    """Return what distinguishes a method from one with other settings or another T, whatever its weights.

    These are the public attributes of all modules that are numbers, strings or None, the shapes of all tensors, and
    checksums of the buffers outside the networks, the constants of losses. The buffers of a network are learned.
    """
    settings: Record = {}
    for path, module in method.named_modules(prefix="method"):
        for name, value in vars(module).items():
            if not name.startswith("_") and name != "training" and _is_plain(value):
                settings[f"{path}.{name}"] = plain(value, name)
    buffers = dict(method.named_buffers())
    for name, tensor in (dict(method.named_parameters()) | buffers).items():
        settings[f"shape of method.{name}"] = list(tensor.shape)
        if name in buffers and not name.startswith("networks."):
            settings[f"checksum of method.{name}"] = checksum(tensor)
    return settings


def plain(value: Any, name: str) -> Any:
    """Return the value in Python's own types, the only ones that can be read again without executing anything."""
    if isinstance(value, (np.generic, np.ndarray, Tensor)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {plain(key, name): plain(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, name) for item in value]
    if value is None:
        return None
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    allowed = "numbers, strings, None, and arrays, lists and dicts of these"
    raise ValueError(f"{name} is or contains a {type(value).__name__}; the history can only hold {allowed}")


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str, np.number, np.bool_))
