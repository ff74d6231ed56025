"""What the settings of a task mean: the classes that they name, whether these have them, and the defaults filled in."""

import inspect
import json
from typing import Any, NamedTuple

from unflip import registry
from unflip.bench.cells import Cell, Estimate

Settings = dict[str, Any]
NETWORK_SETTINGS = ("dropout",)  # of a deep method's settings these go to its networks
TRAINER_SETTINGS = ("ema", "beta1_after_decay", "weight_decay")  # and these to the trainer
# What a task gives to every class itself, or what changes no number: no settings.
GIVEN = (
    *("transition", "prior", "classes", "random_state", "seed", "network", "network_options"),
    *("device", "progress", "checkpoint"),
)


class Parts(NamedTuple):
    """The settings of a deep method by who takes them."""

    method: Settings
    network: Settings  # with its kind
    training: Settings


def parts(cell: Cell) -> Parts:
    """Return the settings of a cell with a deep method, each where it belongs."""
    assert cell.network is not None
    method = {key: value for key, value in cell.settings.items() if key != "kind"}
    training = {key: method.pop(key) for key in TRAINER_SETTINGS if key in method}
    network = cell.network | {key: method.pop(key) for key in NETWORK_SETTINGS if key in method}
    return Parts(method, network, training | {key: value for key, value in cell.protocol.items() if key != "name"})


def resolved(task: Cell | Estimate) -> Settings:
    """Return all settings of a task's method, or of its estimator of T, with the code's defaults filled in.

    The hash of a task has only what the experiment file says. A record keeps this besides, which tells whether the
    code has other defaults since.
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
        own = {key: value for key, value in task.settings.items() if key != "kind"}
        found = {"method": _defaults(linear_class(task.settings["kind"])) | own}
    plain: Settings = json.loads(json.dumps(found, default=lambda value: type(value).__qualname__))  # as it is stored
    return plain


def is_stale(task: Cell | Estimate, record: dict[str, Any]) -> bool:
    """Say whether the code would now use other settings than those that made a record, or the T that it was given.

    Records of older versions do not tell, and then the answer is no.
    """
    made_with = [(task, record.get("resolved"))]
    if isinstance(task, Cell) and task.estimate is not None:
        made_with.append((task.estimate, (record.get("transition_from") or {}).get("resolved")))
    try:
        return any(settings is not None and settings != resolved(made) for made, settings in made_with)
    except ModuleNotFoundError:  # a table can be made without torch, which would tell
        return False


def linear_class(kind: str) -> Any:
    """Return the class of a linear method by its kind."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier

    if kind in ("ridge", "logistic"):
        return {"ridge": RidgeClassifier, "logistic": LogisticRegression}[kind]
    entry = registry.find_class(kind)
    assert entry is not None  # the experiment file was checked
    return entry.load()


def estimator_class(kind: str) -> Any:
    """Return the class of an estimator of T by its kind."""
    return registry.find(kind, "transition").load()


def network_class(kind: str) -> Any:
    """Return the class of a network by its kind."""
    from unflip import deep

    return {"mlp": deep.MLP, "cnn6": deep.CNN6, "lenet": deep.LeNet}[kind]


def check_settings(cell: Cell) -> None:
    """Refuse a method that has no such settings, or lacks the T that it needs, before hours are spent on others."""
    if cell.transition is not None and cell.transition["kind"] != "true":
        chosen = {key: value for key, value in cell.transition.items() if key not in ("kind", "network")}
        _check_names(chosen, estimator_class(cell.transition["kind"]), f"[transitions] {cell.transition['kind']}")
    place = f"[methods.{cell.method}]"
    kind = cell.settings["kind"]
    if kind in registry.names("deep"):
        from unflip.deep import find_method

        settings, network, _ = parts(cell)
        options = {key: value for key, value in network.items() if key != "kind"}
        _check_names(options, network_class(network["kind"]), f"{place}: the network {network['kind']!r}")
        try:
            wants = find_method(kind, **settings).wants_transition(**settings)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        if wants and cell.transition is None:
            raise ValueError(f"{place} needs a T: say transition = 'estimated', or the name of an estimator")
        return
    settings = {key: value for key, value in cell.settings.items() if key != "kind"}
    known = _check_names(settings, linear_class(kind), f"{place}: {kind}")
    if cell.transition is not None and "transition" not in known:
        raise ValueError(f"{place}: {kind} takes no T; leave out transition")


def _of_estimator(transition: Settings) -> Settings:
    kind = transition["kind"]
    if kind == "true":
        return {"estimator": {}}
    own = {key: value for key, value in transition.items() if key not in ("kind", "network")}
    found = {"estimator": _defaults(estimator_class(kind)) | own}
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


def _check_names(settings: Settings, make: Any, place: str) -> list[str]:
    known = list(inspect.signature(make).parameters)
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ValueError(f"{place} has no setting {', '.join(unknown)}; it has {', '.join(known)}")
    return known
