"""Reading an experiment file: a TOML file of the grid, the protocols, the methods' settings and the printed numbers.

Each setting has one owner. The protocol says how long and how fast to train (epochs, decay_from, batch_size, lr), with
which seeds, and possibly on which part of the data and with which T; the data set says which network learns it and how
its T is estimated; the method owns the rest. ``[[methods.NAME.when]]`` gives it other settings for some data sets,
noises or protocols. ``docs/experiments.md`` describes every key.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from unflip import registry
from unflip._input import read_bytes
from unflip.bench.cells import noise_label, noise_of
from unflip.bench.experiment import CONDITIONS, DatasetEntry, Experiment, Figure, MethodEntry, Protocol, Table, one_of
from unflip.bench.settings import NETWORKS, method_kinds
from unflip.datasets import catalogue

Names = Mapping[str, Sequence[str]]  # by "dataset", "noise", "protocol" and "method"
Rule = tuple[str, Callable[[Any], bool]]  # what a value must be, in words, and whether it is


def whole(least: int) -> Rule:
    return f"a whole number, at least {least}", lambda value: type(value) is int and value >= least


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)  # a bool is an int, but not a number


def is_plain(value: Any) -> bool:
    """Say whether JSON can hold a value; TOML also has dates and NaN."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def list_of(what: str, fits: Callable[[Any], bool], example: str) -> Rule:
    def check(values: Any) -> bool:
        return isinstance(values, list) and all(map(fits, values)) and len(set(values)) == len(values) > 0

    return f"a list of one or more different {what}, such as {example}", check


TEXT: Rule = ("text", lambda value: isinstance(value, str))
NAME: Rule = (
    "a valid folder name, without / and \\",
    lambda value: isinstance(value, str) and bool(re.fullmatch(r"[^/\\\0]*[^/\\\0. ]", value)),
)
NAMES = list_of("texts", TEXT[1], '["a", "b"]')
SEEDS = list_of("whole numbers, 0 or more", whole(0)[1], "[0, 1, 2]")
TABLE: Rule = ("a table", lambda value: isinstance(value, dict))
FULL_TABLE: Rule = ("a table with at least one entry", lambda value: isinstance(value, dict) and bool(value))
TABLES: Rule = ("a list of tables", lambda value: isinstance(value, list) and all(isinstance(t, dict) for t in value))
POSITIVE: Rule = ("a number above 0", lambda value: is_number(value) and value > 0)
NUMBER: Rule = ("a number", is_number)
NOT_NEGATIVE: Rule = ("a number, at least 0", lambda value: is_number(value) and value >= 0)
SHARE: Rule = ("a number from 0 to less than 1", lambda value: is_number(value) and 0 <= value < 1)
INSIDE: Rule = ("a number between 0 and 1", lambda value: is_number(value) and 0 < value < 1)
SWITCH: Rule = ("true or false", lambda value: isinstance(value, bool))
PRINTED: Rule = (
    "a number, or mean and deviation such as [87.1, 0.36]",
    lambda value: is_number(value) or (isinstance(value, list) and len(value) == 2 and all(map(is_number, value))),
)
ROWS: Rule = (
    f"{whole(1)[0]}, or a table such as {{ mnist = 1000 }}",
    lambda value: isinstance(value, dict) or whole(1)[1](value),
)
SETTING: Rule = ("text, true, false or a finite number, or a list or table of them", is_plain)

# A rule for each key of each table.
FILE: dict[str, Rule] = {
    **{"name": NAME, "title": TEXT, "noises": NAMES},
    **{"datasets": FULL_TABLE, "methods": FULL_TABLE, "protocols": FULL_TABLE},
    **{"note": TEXT, "transitions": TABLE, "paper": TABLE, "figures": TABLES},
}
DATASET = {
    **{"title": TEXT, "network": TABLE, "transition": TEXT},
    **{"subset": whole(1), "noise_rate": SHARE, "noises": NAMES},
}
TRAINING = {"epochs": whole(1), "decay_from": whole(0), "batch_size": whole(1), "lr": POSITIVE}
PRECISION: Rule = ("'float32' or 'bfloat16'", lambda value: value in ("float32", "bfloat16"))
CHANGES = {"augment": TEXT, "precision": PRECISION}  # what a protocol may add to the training
PROTOCOL = {
    **{"seeds": SEEDS, **TRAINING, **CHANGES, "datasets": NAMES},
    **{"network": TABLE, "transition": TEXT, "subset": ROWS, "note": TEXT, "tuning": TABLE},
}
TUNING = {"held_out": INSIDE, "ema": INSIDE, "settings": TABLES}
SETTINGS = {"dropout": SHARE, "weight_decay": NOT_NEGATIVE}
METHOD = {
    **{"title": TEXT, "kind": TEXT, "note": TEXT, "untuned": TEXT, "transition": TEXT, "when": TABLES},
    **{"dropout": SHARE, "ema": SHARE},
}
CASE = {"dataset": NAMES, "noise": NAMES, "protocol": NAMES, "dropout": SHARE, "ema": SHARE}
TRANSITION = {"kind": TEXT, "network": TABLE}
FIGURE = {"name": TEXT, "title": TEXT, "dataset": TEXT, "noises": NAMES}
NETWORK = {
    **{"kind": TEXT, "hidden": whole(0), "dropout": SHARE, "slope": NUMBER},
    **{"width": POSITIVE, "batch_norm": SWITCH},
}


def shipped_experiments() -> dict[str, Path]:
    """Return the experiments of the paper that come with the package, by name."""
    package = Path(__file__).parents[1]
    folders = (package / "experiments", package.parents[1] / "experiments")  # of a wheel, and of the repository
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}


def find_experiment(given: str | Path) -> tuple[Path, Path]:
    """Return the file of an experiment, given by path or, like "deep", by name, and the folder of its results.

    Results are next to the folder of the file; those of an installed package are in the current folder.
    """
    path = Path(given)
    shipped = shipped_experiments()
    if not path.exists() and str(given) in shipped:
        path = shipped[str(given)]
        if path.parent.parent == Path(__file__).parents[1]:
            return path, Path("results")
    elif not path.exists() and path.suffix != ".toml":
        raise ValueError(f"there is no file {path}, and no experiment of this name; those are {', '.join(shipped)}")
    return path, Path(os.path.realpath(path)).parent.parent / "results"


def read_experiment(path: str | Path) -> Experiment:
    """Read and check an experiment file. Errors name the place in the file."""
    path = Path(path)
    try:
        table = tomllib.loads(read_bytes(path).decode("utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"the experiment file {error}") from error
    except OSError as error:
        raise ValueError(f"the experiment file cannot be read: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from error
    try:
        return _experiment(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def check_table(
    table: Any, place: str, rules: Mapping[str, Rule], needed: Sequence[str] = (), *, settings: bool = False
) -> None:
    """Refuse a missing key, a value that breaks its rule and, unless other ``settings`` may follow, an unknown key."""
    if not isinstance(table, dict):
        raise ValueError(f"{place} must be a table; got {table!r}")
    for key in needed:
        if key not in table:
            raise ValueError(f"{place} is missing the key {key!r}")
    for key, value in table.items():
        if not settings:
            one_of(key, rules, "key", f"{place}: ")
        what, fits = rules.get(key, SETTING)
        if not fits(value):
            raise ValueError(f"{place}: {key} must be {what}; got {value!r}")


def check_network(network: Any, place: str) -> None:
    """Refuse an unknown network, or an option that it does not have."""
    check_table(network, place, {"kind": TEXT}, ["kind"], settings=True)
    _, *options = NETWORKS[one_of(network["kind"], NETWORKS, "network", f"{place} kind: ")]
    check_table(network, place, {key: NETWORK[key] for key in ("kind", *options)})


def _experiment(table: Table) -> Experiment:
    check_table(table, "the file", FILE, ("name", "title", "noises", "datasets", "methods", "protocols"))
    noises = tuple(table["noises"])
    for label in noises:
        if label != noise_label(noise_of(label)):  # tables find a noise by its label
            raise ValueError(f"noises: write {noise_label(noise_of(label))!r} instead of {label!r}")
    transitions = {"true": {"kind": "true"}, **table.get("transitions", {})}
    for name, chosen in transitions.items():
        place = f"[transitions.{name}]"
        check_table(chosen, place, TRANSITION, ["kind"], settings=True)
        one_of(chosen["kind"], [*registry.names("transition"), "true"], "estimator of T", f"{place} kind: ")
        if "network" in chosen:
            check_network(chosen["network"], f"{place} network")
    datasets = {name: _dataset(name, entry, noises, transitions) for name, entry in table["datasets"].items()}
    protocols = {name: _protocol(name, entry, datasets, transitions) for name, entry in table["protocols"].items()}
    names = {"dataset": list(datasets), "noise": list(noises), "protocol": list(protocols)}
    methods = {name: _method(name, entry, names, transitions) for name, entry in table["methods"].items()}
    paper = dict(_printed(table.get("paper", {}), names | {"method": list(methods)}))
    figures = tuple(_figure(entry, names) for entry in table.get("figures", []))
    head = (table["name"], table["title"], table.get("note", ""))
    experiment = Experiment(*head, datasets, noises, methods, protocols, transitions, paper, figures)
    _check_whole(experiment)
    return experiment


def _dataset(name: str, entry: Table, noises: Sequence[str], transitions: Table) -> DatasetEntry:
    place = f"[datasets.{name}]"
    if not name.endswith(".npz"):
        one_of(name, [*(known.name for known in catalogue()), "the path of an .npz file"], "data set", f"{place}: ")
    check_table(entry, place, DATASET, ["title"])
    if "network" in entry:
        check_network(entry["network"], f"{place} network")
    if "transition" in entry:
        one_of(entry["transition"], transitions, "estimator of T", f"{place} transition: ")
    own = {"noises": tuple(one_of(n, noises, "noise", f"{place} noises: ") for n in entry.get("noises", noises))}
    return DatasetEntry(**entry | (own if "noises" in entry else {}))


def _protocol(name: str, entry: Table, datasets: Mapping[str, DatasetEntry], transitions: Table) -> Protocol:
    place = f"[protocols.{name}]"
    check_table(entry, place, PROTOCOL, ["seeds"])
    if "transition" in entry:
        one_of(entry["transition"], transitions, "estimator of T", f"{place} transition: ")
    chosen = tuple(one_of(d, datasets, "data set", f"{place} datasets: ") for d in entry.get("datasets", datasets))
    subset = entry.get("subset", {})
    if isinstance(subset, dict):
        check_table(subset, f"{place} subset", dict.fromkeys(chosen, whole(1)))
    for dataset in subset if isinstance(subset, dict) else chosen:
        if datasets[dataset].subset is not None:
            raise ValueError(f"{place} and [datasets.{dataset}] both set subset; remove it from one of them")
    if "tuning" in entry:
        check_table(entry["tuning"], f"{place} tuning", TUNING, list(TUNING))
        for setting in entry["tuning"]["settings"]:
            check_table(setting, f"{place} tuning settings", SETTINGS)
        if not entry["tuning"]["settings"]:
            raise ValueError(f"{place} tuning: settings is empty; give at least one, such as {{ dropout = 0.5 }}")
    training = {key: entry[key] for key in (*TRAINING, *CHANGES) if key in entry}
    if training.get("precision") == "float32":  # the default, which leaves the hash of a cell as it was
        del training["precision"]
    rest = {key: entry[key] for key in ("network", "subset", "note", "transition", "tuning") if key in entry}
    return Protocol(tuple(entry["seeds"]), training, chosen, **rest)


def _method(name: str, entry: Table, names: Names, transitions: Table) -> MethodEntry:
    place = f"[methods.{name}]"
    check_table(entry, place, METHOD, ["title", "kind"], settings=True)
    one_of(entry["kind"], method_kinds(), "method", f"{place} kind: ")
    transition = entry.get("transition")
    if transition is not None:
        one_of(transition, ["estimated", *transitions], "estimator of T", f"{place} transition: ")
    place = f"[[methods.{name}.when]]"
    for case in entry.get("when", []):
        check_table(case, place, CASE, settings=True)
        for key in CONDITIONS:
            for value in case.get(key, []):
                one_of(value, names[key], key, f"{place}: ")
    settings = {key: entry[key] for key in entry if key not in ("title", "note", "untuned", "transition", "when")}
    notes = {key: entry.get(key, "") for key in ("note", "untuned")}
    return MethodEntry(entry["title"], settings, transition=transition, when=tuple(entry.get("when", [])), **notes)


def _printed(table: Table, names: Names) -> Iterator[tuple[tuple[str, str, str], tuple[float, float | None]]]:
    for dataset, by_noise in table.items():
        one_of(dataset, names["dataset"], "data set", "[paper]: ")
        check_table(by_noise, f"[paper.{dataset}]", dict.fromkeys(names["noise"], TABLE))
        for noise, numbers in by_noise.items():
            check_table(numbers, f"[paper.{dataset}] {noise!r}", dict.fromkeys(names["method"], PRINTED))
            for method, number in numbers.items():
                mean, deviation = number if isinstance(number, list) else (number, None)
                yield (dataset, noise, method), (mean, deviation)


def _figure(entry: Table, names: Names) -> Figure:
    check_table(entry, "[[figures]]", FIGURE, ("name", "title", "dataset"))
    one_of(entry["dataset"], names["dataset"], "data set", "[[figures]]: ")
    noises = tuple(one_of(n, names["noise"], "noise", "[[figures]]: ") for n in entry.get("noises", names["noise"]))
    return Figure(entry["name"], entry["title"], entry["dataset"], noises)


def _check_whole(experiment: Experiment) -> None:
    """Check what one table of the file needs from another."""
    sizes = {entry.name: entry.n_train for entry in catalogue()}
    deep = [name for name, method in experiment.methods.items() if method.deep]
    for plan_name, plan in experiment.protocols.items():
        place = f"[protocols.{plan_name}]"
        for dataset in plan.datasets:
            rows, network = experiment.subset_rows(dataset, plan_name), experiment.datasets[dataset].network
            if rows is not None and rows > sizes.get(dataset, rows):
                raise ValueError(f"{place}: a subset of {rows} is too large; {dataset} has {sizes[dataset]} rows")
            if network is not None and plan.network:
                check_network(network | plan.network, f"{place} network of {dataset}")
        missing = [key for key in TRAINING if key not in plan.training]
        if deep and missing:
            raise ValueError(f"{place} needs {', '.join(missing)} for the deep method {deep[0]}")
    for name, method in experiment.methods.items():
        for dataset, data in experiment.datasets.items():
            if method.deep and data.network is None:
                raise ValueError(f"[datasets.{dataset}] needs a network for the deep method {name}")
            if method.transition == "estimated" and data.transition is None:
                raise ValueError(f"[datasets.{dataset}] needs a transition (an estimator of T) for the method {name}")
            told = method.settings.get("forget_rate") == "noise rate" and "human" in experiment.noises_of(dataset)
            if told and data.noise_rate is None:
                raise ValueError(f"[datasets.{dataset}] needs noise_rate for the forget_rate of the method {name}")
