"""An experiment as data: a TOML file of the grid, the protocols, the methods' settings and the paper's printed numbers.

Each setting has one owner. The protocol says how long and how fast is trained (epochs, decay_from, batch_size, lr), on
which seeds, and perhaps on which part of the data; the data set says which network learns it and how its T is
estimated; the method owns the rest. ``[[methods.NAME.when]]`` gives it other settings for some data sets, noises or
protocols.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unflip.bench.cells import noise_of
from unflip.bench.experiment import (
    CONDITIONS,
    DEEP,
    WITH_NETWORKS,
    DatasetEntry,
    Experiment,
    Figure,
    MethodEntry,
    Protocol,
    Table,
    one_of,
    parse_where,
)

__all__ = ["Experiment", "parse_where", "read_experiment"]

LINEAR = ("ridge", "logistic")  # scikit-learn's; besides them every class of unflip.linear by its name
TRANSITIONS = (*WITH_NETWORKS, "volmin", "true")
NETWORKS = ("mlp", "cnn6", "lenet")
TRAINING = ("epochs", "decay_from", "batch_size", "lr")


def read_experiment(path: str | Path) -> Experiment:
    """Read and check an experiment file; an error names the place in it."""
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"there is no experiment file {path}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from error
    try:
        return _experiment(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _experiment(table: Table) -> Experiment:
    needed = ("name", "title", "noises", "datasets", "methods", "protocols")
    _check_keys(table, "the file", needed, ("note", "transitions", "paper", "figures"))
    noises = tuple(table["noises"])
    for label in noises:
        noise_of(label)
    transitions = {"true": {"kind": "true"}, **table.get("transitions", {})}
    for name, chosen in transitions.items():
        _check_keys(chosen, f"[transitions.{name}]", ("kind",), chosen)
        one_of(chosen["kind"], TRANSITIONS, f"[transitions.{name}] kind")
        _check_network(chosen.get("network"), f"[transitions.{name}] network")
    datasets = {name: _dataset(name, entry, transitions) for name, entry in table["datasets"].items()}
    protocols = {name: _protocol(name, entry, datasets) for name, entry in table["protocols"].items()}
    names = {"dataset": list(datasets), "noise": list(noises), "protocol": list(protocols)}
    methods = {name: _method(name, entry, names, transitions) for name, entry in table["methods"].items()}
    experiment = Experiment(
        name=table["name"],
        title=table["title"],
        note=table.get("note", ""),
        datasets=datasets,
        noises=noises,
        methods=methods,
        protocols=protocols,
        transitions=transitions,
        paper=dict(_printed(table.get("paper", {}), names | {"method": list(methods)})),
        figures=tuple(_figure(entry, names) for entry in table.get("figures", [])),
    )
    _check_whole(experiment)
    return experiment


def _dataset(name: str, entry: Table, transitions: Table) -> DatasetEntry:
    from unflip.datasets import catalogue

    place = f"[datasets.{name}]"
    if not name.endswith(".npz"):
        one_of(name, [known.name for known in catalogue()] + ["or the path of any .npz file"], place)
    _check_keys(entry, place, ("title",), ("network", "transition", "subset", "noise_rate"))
    _check_network(entry.get("network"), f"{place} network")
    if "transition" in entry:
        one_of(entry["transition"], transitions, f"{place} transition")
    return DatasetEntry(**entry)


def _protocol(name: str, entry: Table, datasets: Mapping[str, DatasetEntry]) -> Protocol:
    place = f"[protocols.{name}]"
    _check_keys(entry, place, ("seeds",), (*TRAINING, "datasets", "network", "subset", "note"))
    chosen = tuple(one_of(dataset, datasets, f"{place} datasets") for dataset in entry.get("datasets", datasets))
    for dataset in chosen:
        if "subset" in entry and datasets[dataset].subset is not None:
            raise ValueError(f"{place} and [datasets.{dataset}] both set subset; leave it to one of them")
    return Protocol(
        seeds=tuple(entry["seeds"]),
        training={key: entry[key] for key in TRAINING if key in entry},
        datasets=chosen,
        network=entry.get("network", {}),
        subset=entry.get("subset"),
        note=entry.get("note", ""),
    )


def _method(name: str, entry: Table, names: Mapping[str, Sequence[str]], transitions: Table) -> MethodEntry:
    place = f"[methods.{name}]"
    _check_keys(entry, place, ("title", "kind"), entry)
    kinds = [*DEEP, *LINEAR]
    if entry["kind"] not in kinds:
        from unflip import linear  # only here: scikit-learn takes a second to import

        kinds += linear.__all__
    one_of(entry["kind"], kinds, f"{place} kind")
    transition = entry.get("transition")
    if transition is not None:
        one_of(transition, ["estimated", *transitions], f"{place} transition")
    for case in entry.get("when", []):
        for key in CONDITIONS:
            for value in case.get(key, []):
                one_of(value, names[key], f"[[methods.{name}.when]] {key}")
    settings = {key: entry[key] for key in entry if key not in ("title", "note", "transition", "when")}
    return MethodEntry(entry["title"], settings, entry.get("note", ""), transition, tuple(entry.get("when", [])))


def _printed(
    table: Table, names: Mapping[str, Sequence[str]]
) -> Iterator[tuple[tuple[str, str, str], tuple[float, float | None]]]:
    for dataset, by_noise in table.items():
        one_of(dataset, names["dataset"], "[paper]")
        for noise, numbers in by_noise.items():
            one_of(noise, names["noise"], f"[paper.{dataset}]")
            for method, number in numbers.items():
                one_of(method, names["method"], f"[paper.{dataset}] {noise!r}")
                mean, deviation = number if isinstance(number, list) else (number, None)
                yield (dataset, noise, method), (mean, deviation)


def _figure(entry: Table, names: Mapping[str, Sequence[str]]) -> Figure:
    _check_keys(entry, "[[figures]]", ("name", "title", "dataset"), ("noises",))
    one_of(entry["dataset"], names["dataset"], "[[figures]] dataset")
    noises = tuple(one_of(n, names["noise"], "[[figures]] noises") for n in entry.get("noises", names["noise"]))
    return Figure(entry["name"], entry["title"], entry["dataset"], noises)


def _check_whole(experiment: Experiment) -> None:
    """What one table of the file needs of another."""
    for name, method in experiment.methods.items():
        for plan_name, plan in experiment.protocols.items():
            missing = [key for key in TRAINING if key not in plan.training]
            if method.deep and missing:
                raise ValueError(f"[protocols.{plan_name}] needs {', '.join(missing)} for the deep method {name}")
        for dataset, data in experiment.datasets.items():
            if method.deep and data.network is None:
                raise ValueError(f"[datasets.{dataset}] needs a network for the deep method {name}")
            if method.transition == "estimated" and data.transition is None:
                raise ValueError(f"[datasets.{dataset}] needs a transition, an estimator of T, for the method {name}")
            told = method.settings.get("forget_rate") == "noise rate" and "human" in experiment.noises
            if told and data.noise_rate is None:
                raise ValueError(f"[datasets.{dataset}] needs noise_rate for the forget_rate of the method {name}")


def _check_network(network: Any, place: str) -> None:
    if network is not None:
        _check_keys(network, place, ("kind",), network)
        one_of(network["kind"], NETWORKS, f"{place} kind")


def _check_keys(table: Any, place: str, needed: Sequence[str], others: Any) -> None:
    if not isinstance(table, dict):
        raise ValueError(f"{place} must be a table; got {table!r}")
    for key in needed:
        if key not in table:
            raise ValueError(f"{place} lacks {key}")
    for key in table:
        one_of(key, [*needed, *others], place)
