"""What the settings of a task mean: which class a kind names, whether it has these settings, and its defaults."""

import inspect
import json
from typing import Any

from unflip import registry
from unflip.bench.cells import Cell, Estimate, Task

Settings = dict[str, Any]
SCIKIT_LEARN = {"ridge": "RidgeClassifier", "logistic": "LogisticRegression"}  # linear methods besides those of unflip
# Class in unflip.deep and options; a list of our own, so that an experiment can be read without importing torch.
NETWORKS = {
    "mlp": ("MLP", "hidden", "dropout", "slope"),
    "cnn6": ("CNN6", "width", "dropout", "batch_norm"),
    "lenet": ("LeNet",),
}
NETWORK_SETTINGS = ("dropout",)  # settings of a deep method that go to its networks
TRAINER_SETTINGS = ("ema", "beta1_after_decay", "weight_decay")  # and those that go to the trainer
# Parameters that a task passes to every class itself, or that change no number.
GIVEN = (
    *("transition", "prior", "classes", "random_state", "seed", "network", "network_options"),
    *("device", "progress", "checkpoint"),
)


def method_kinds() -> list[str]:
    """Return every ``kind`` of a method: deep ones by name, linear ones by class or name.

    If a deep and a linear method share a name, as "mcldce" does, the name stands for the deep one.
    """
    classes = [entry.cls for entry in registry.ENTRIES if entry.family == "linear"]
    return [*registry.names("deep"), *SCIKIT_LEARN, *classes, *registry.names("linear")]


def linear_class(kind: str) -> Any:
    """Return the class of a linear method by its kind."""
    if kind in SCIKIT_LEARN:
        from sklearn import linear_model

        return getattr(linear_model, SCIKIT_LEARN[kind])
    return (registry.find_class(kind) or registry.find(kind, "linear")).load()


def estimator_class(kind: str) -> Any:
    """Return the class of an estimator of T by its kind."""
    return registry.find(kind, "transition").load()


def network_class(kind: str) -> Any:
    """Return the class of a network by its kind."""
    from unflip import deep

    return getattr(deep, NETWORKS[kind][0])


def own_settings(table: Settings) -> Settings:
    """Return what a table sets besides its kind and network."""
    return {key: value for key, value in table.items() if key not in ("kind", "network")}


def taken_by(make: Any, **offered: Any) -> Settings:
    """Return those of the offered arguments that a class takes and that are not None."""
    known = inspect.signature(make).parameters
    return {name: value for name, value in offered.items() if name in known and value is not None}


def parts(cell: Cell) -> tuple[Settings, Settings, Settings]:
    """Return the settings of a deep method, of its network (including the kind) and of its training."""
    assert cell.network is not None
    method = own_settings(cell.settings)
    training = {key: method.pop(key) for key in TRAINER_SETTINGS if key in method}
    network = cell.network | {key: method.pop(key) for key in NETWORK_SETTINGS if key in method}
    return method, network, training | {key: value for key, value in cell.protocol.items() if key != "name"}


def resolved(task: Task) -> Settings:
    """Return all settings of a task's method, or of its estimator of T, with the code's defaults filled in.

    The hash of a task contains only what the experiment file says. A record also keeps these settings, which tell
    whether the code's defaults have changed since.
    """
    if isinstance(task, Estimate):
        found = _of_estimator(task.transition)
    elif task.settings["kind"] in registry.names("deep"):
        from unflip.deep import Trainer, find_method

        method, network, training = parts(task)
        found = {
            "method": _defaults(find_method(task.settings["kind"])) | method,
            "network": _of_network(network),
            "training": _defaults(Trainer) | training,
        }
    else:
        found = {"method": _defaults(linear_class(task.settings["kind"])) | own_settings(task.settings)}
    plain: Settings = json.loads(json.dumps(found, default=lambda value: type(value).__qualname__))  # as it is stored
    return plain


def check_settings(cell: Cell) -> None:
    """Refuse settings that a method does not have, or a missing T, before hours are spent on other cells."""
    if cell.transition is not None and cell.transition["kind"] != "true":
        kind = cell.transition["kind"]
        _check_names(own_settings(cell.transition), estimator_class(kind), f"[transitions] {kind}")
    place = f"[methods.{cell.method}]"
    kind = cell.settings["kind"]
    if kind not in registry.names("deep"):
        _check_names(own_settings(cell.settings), linear_class(kind), f"{place}: {kind}")
        if cell.transition is not None and not taken_by(linear_class(kind), transition=True):
            raise ValueError(f"{place}: {kind} does not take T; remove the key transition")
        return
    from unflip.deep import find_method

    settings, network, _ = parts(cell)
    _check_names(own_settings(network), network_class(network["kind"]), f"{place}: the network {network['kind']!r}")
    try:
        wants = find_method(kind, **settings).wants_transition(**settings)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    if wants and cell.transition is None:
        raise ValueError(f"{place} needs T; set transition to 'estimated' or to the name of an estimator")


def _of_estimator(transition: Settings) -> Settings:
    kind = transition["kind"]
    if kind == "true":
        return {"estimator": {}}
    found = {"estimator": _defaults(estimator_class(kind)) | own_settings(transition)}
    if "network" in transition:
        found["network"] = _of_network(transition["network"])
    if kind == "crossfit-em" and found["estimator"]["start"] is None:
        found["start"] = _defaults(estimator_class("volminnet"))
    return found


def _of_network(network: Settings) -> Settings:
    return _defaults(network_class(network["kind"])) | network


def _defaults(make: Any) -> Settings:
    parameters = inspect.signature(make).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty and p.name not in GIVEN}


def _check_names(settings: Settings, make: Any, place: str) -> None:
    known = [name for name in inspect.signature(make).parameters if name not in GIVEN]
    if unknown := sorted(set(settings) - set(known)):
        raise ValueError(f"{place} has no setting {', '.join(unknown)}; its settings are {', '.join(known)}")
