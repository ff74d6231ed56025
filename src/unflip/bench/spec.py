"""An experiment as data: a TOML file of the grid, the protocols, the methods' settings and the paper's printed numbers.

Each setting has one owner. The protocol says how long and how fast is trained (epochs, decay_from, batch_size, lr), on
which seeds, and perhaps on which part of the data and with which T; the data set says which network learns it and how
its T is estimated; the method owns the rest. ``[[methods.NAME.when]]`` gives it other settings for some data sets,
noises or protocols.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from unflip import registry
from unflip.bench import rules
from unflip.bench.cells import noise_label, noise_of
from unflip.bench.experiment import (
    CONDITIONS,
    DatasetEntry,
    Experiment,
    Figure,
    MethodEntry,
    Protocol,
    Table,
    one_of,
    parse_where,
)
from unflip.bench.rules import check_network, check_table

__all__ = ["Experiment", "parse_where", "read_experiment"]

LINEAR = ("ridge", "logistic")  # scikit-learn's; besides them every class of unflip.linear by its name


def read_experiment(path: str | Path) -> Experiment:
    """Read and check an experiment file; an error names the place in it."""
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"there is no experiment file {path}") from error
    except OSError as error:
        raise ValueError(f"the experiment file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from error
    try:
        return _experiment(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _experiment(table: Table) -> Experiment:
    check_table(table, "the file", rules.FILE, ("name", "title", "noises", "datasets", "methods", "protocols"))
    noises = tuple(table["noises"])
    for label in noises:
        if label != noise_label(noise_of(label)):  # tables find a noise by its label
            raise ValueError(f"noises: write {noise_label(noise_of(label))!r} for {label!r}")
    transitions = {"true": {"kind": "true"}, **table.get("transitions", {})}
    for name, chosen in transitions.items():
        place = f"[transitions.{name}]"
        check_table(chosen, place, rules.TRANSITION, ["kind"], settings=True)
        one_of(chosen["kind"], [*registry.names("transition"), "true"], f"{place} kind")
        if "network" in chosen:
            check_network(chosen["network"], f"{place} network")
    datasets = {name: _dataset(name, entry, transitions) for name, entry in table["datasets"].items()}
    protocols = {name: _protocol(name, entry, datasets, transitions) for name, entry in table["protocols"].items()}
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
    check_table(entry, place, rules.DATASET, ["title"])
    if "network" in entry:
        check_network(entry["network"], f"{place} network")
    if "transition" in entry:
        one_of(entry["transition"], transitions, f"{place} transition")
    return DatasetEntry(**entry)


def _protocol(name: str, entry: Table, datasets: Mapping[str, DatasetEntry], transitions: Table) -> Protocol:
    place = f"[protocols.{name}]"
    check_table(entry, place, rules.PROTOCOL, ["seeds"])
    if "transition" in entry:
        one_of(entry["transition"], transitions, f"{place} transition")
    chosen = tuple(one_of(dataset, datasets, f"{place} datasets") for dataset in entry.get("datasets", datasets))
    for dataset in chosen:
        if "subset" in entry and datasets[dataset].subset is not None:
            raise ValueError(f"{place} and [datasets.{dataset}] both set subset; leave it to one of them")
    return Protocol(
        seeds=tuple(entry["seeds"]),
        training={key: entry[key] for key in rules.TRAINING if key in entry},
        datasets=chosen,
        network=entry.get("network", {}),
        subset=entry.get("subset"),
        note=entry.get("note", ""),
        transition=entry.get("transition"),
    )


def _method(name: str, entry: Table, names: Mapping[str, Sequence[str]], transitions: Table) -> MethodEntry:
    place = f"[methods.{name}]"
    check_table(entry, place, rules.METHOD, ["title", "kind"], settings=True)
    classes = [line.cls for line in registry.ENTRIES if line.family == "linear"]
    kinds = [*registry.names("deep"), *LINEAR, *classes]
    one_of(entry["kind"], kinds, f"{place} kind")
    transition = entry.get("transition")
    if transition is not None:
        one_of(transition, ["estimated", *transitions], f"{place} transition")
    for case in entry.get("when", []):
        check_table(case, f"[[methods.{name}.when]]", rules.CASE, settings=True)
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
        check_table(by_noise, f"[paper.{dataset}]", dict.fromkeys(names["noise"], rules.TABLE))
        for noise, numbers in by_noise.items():
            check_table(numbers, f"[paper.{dataset}] {noise!r}", dict.fromkeys(names["method"], rules.PRINTED))
            for method, number in numbers.items():
                mean, deviation = number if isinstance(number, list) else (number, None)
                yield (dataset, noise, method), (mean, deviation)


def _figure(entry: Table, names: Mapping[str, Sequence[str]]) -> Figure:
    check_table(entry, "[[figures]]", rules.FIGURE, ("name", "title", "dataset"))
    one_of(entry["dataset"], names["dataset"], "[[figures]] dataset")
    noises = tuple(one_of(n, names["noise"], "[[figures]] noises") for n in entry.get("noises", names["noise"]))
    return Figure(entry["name"], entry["title"], entry["dataset"], noises)


def _check_whole(experiment: Experiment) -> None:
    """What one table of the file needs of another."""
    from unflip.datasets import catalogue

    sizes = {entry.name: entry.n_train for entry in catalogue()}
    for plan_name, plan in experiment.protocols.items():
        place = f"[protocols.{plan_name}]"
        for dataset in plan.datasets:
            rows, network = experiment.rows_of(dataset, plan_name), experiment.datasets[dataset].network
            if rows is not None and rows > sizes.get(dataset, rows):
                raise ValueError(
                    f"{place}: {dataset} has {sizes[dataset]} training rows; a subset of {rows} is too large"
                )
            if network is not None and plan.network:
                check_network(network | plan.network, f"{place} network of {dataset}")
        for name, method in experiment.methods.items():
            missing = [key for key in rules.TRAINING if key not in plan.training]
            if method.deep and missing:
                raise ValueError(f"{place} needs {', '.join(missing)} for the deep method {name}")
    for name, method in experiment.methods.items():
        for dataset, data in experiment.datasets.items():
            if method.deep and data.network is None:
                raise ValueError(f"[datasets.{dataset}] needs a network for the deep method {name}")
            if method.transition == "estimated" and data.transition is None:
                raise ValueError(f"[datasets.{dataset}] needs a transition, an estimator of T, for the method {name}")
            told = method.settings.get("forget_rate") == "noise rate" and "human" in experiment.noises
            if told and data.noise_rate is None:
                raise ValueError(f"[datasets.{dataset}] needs noise_rate for the forget_rate of the method {name}")
