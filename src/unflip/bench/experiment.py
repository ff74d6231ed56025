"""An experiment: a grid of data sets, noises, methods and seeds under named protocols, and the cells it consists of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from unflip import registry
from unflip.bench.cells import Cell, noise_of

CHOICES = ("dataset", "noise", "method", "seed")  # what --where can choose
CONDITIONS = ("dataset", "noise", "protocol")  # what [[methods.NAME.when]] can name

Table = dict[str, Any]


@dataclass(frozen=True)
class DatasetEntry:
    title: str
    network: Table | None = None
    transition: str | None = None
    subset: int | None = None
    noise_rate: float | None = None
    noises: tuple[str, ...] | None = None  # only these of the experiment's


@dataclass(frozen=True)
class MethodEntry:
    """A method: its title in tables, its ``settings`` including its kind, and the settings for special cases."""

    title: str
    settings: Table
    note: str = ""
    transition: str | None = None
    when: tuple[Table, ...] = ()
    untuned: str = ""  # about its own dropout, weight decay and averaged weights, which a protocol with tuning replaces

    @property
    def deep(self) -> bool:
        return self.settings["kind"] in registry.names("deep")


@dataclass(frozen=True)
class Protocol:
    seeds: tuple[int, ...]
    training: Table
    datasets: tuple[str, ...]
    network: Table = field(default_factory=dict)
    subset: int | dict[str, int] | None = None  # of all data sets, or of each
    note: str = ""
    transition: str | None = None  # replaces the estimator of T of each data set
    tuning: Table | None = None  # the grid of unflip.bench.tuning: held_out, ema and settings


@dataclass(frozen=True)
class Figure:
    """Curves of accuracy by epoch on one data set, with one panel per noise and one curve per method."""

    name: str
    title: str
    dataset: str
    noises: tuple[str, ...]


@dataclass(frozen=True)
class Experiment:
    """An experiment file, read and checked. Its tables keep the order of the file."""

    name: str
    title: str
    note: str
    datasets: dict[str, DatasetEntry]
    noises: tuple[str, ...]  # labels: "sym 20", "pair 40", "human"
    methods: dict[str, MethodEntry]
    protocols: dict[str, Protocol]  # the first is the default
    transitions: dict[str, Table]
    # Mean and standard deviation in percent, as printed, by data set, noise and method.
    paper: dict[tuple[str, str, str], tuple[float, float | None]] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Data set and noise of each row of the table."""
        return [(dataset, noise) for dataset in self.datasets for noise in self.noises_of(dataset)]

    def noises_of(self, dataset: str) -> tuple[str, ...]:
        """Return the noises of a data set: its own choice, or all of the experiment."""
        own = self.datasets[dataset].noises
        return self.noises if own is None else own

    def protocol(self, name: str | None = None) -> str:
        """Return the name of a protocol after checking it. If None, the first one in the file is used."""
        return next(iter(self.protocols)) if name is None else one_of(name, self.protocols, "protocol")

    def cells(self, where: Mapping[str, Sequence[str]] | None = None, protocol: str | None = None) -> list[Cell]:
        """Return the cells of a protocol, seed by seed, so that an interrupted run leaves whole trials.

        ``where`` chooses data sets, noises, methods or seeds, as in ``{"dataset": ["mnist"], "seed": ["0", "1"]}``.
        """
        name = self.protocol(protocol)
        plan = self.protocols[name]
        seeds = [str(seed) for seed in plan.seeds]
        known = dict(zip(CHOICES, map(list, (plan.datasets, self.noises, self.methods, seeds)), strict=True))
        kept = dict(known)
        for key, values in (where or {}).items():
            for value in values:
                one_of(value, known[one_of(key, CHOICES, "key", "--where: ")], key, f"protocol {name}: ")
            kept[key] = [value for value in known[key] if value in values]
        return [
            self._cell(dataset, noise, method, name, int(seed))
            for seed, dataset, noise, method in product(*(kept[key] for key in ("seed", "dataset", "noise", "method")))
            if noise in self.noises_of(dataset)
        ]

    def subset_rows(self, dataset: str, protocol: str) -> int | None:
        """Return how many training rows of a data set are drawn; None stands for all of them."""
        own, plan = self.datasets[dataset].subset, self.protocols[protocol].subset
        if own is not None:
            return own
        return plan.get(dataset) if isinstance(plan, dict) else plan

    def _cell(self, dataset: str, noise: str, method: str, protocol: str, seed: int) -> Cell:
        data, entry, plan = self.datasets[dataset], self.methods[method], self.protocols[protocol]
        settings = dict(entry.settings)
        for case in entry.when:
            here = {"dataset": dataset, "noise": noise, "protocol": protocol}
            if all(value in case.get(key, [value]) for key, value in here.items()):
                settings |= {key: value for key, value in case.items() if key not in CONDITIONS}
        if settings.get("forget_rate") == "noise rate":
            settings["forget_rate"] = noise_of(noise).get("rate", data.noise_rate)
        network = None if data.network is None else data.network | plan.network
        rows = self.subset_rows(dataset, protocol)
        return Cell(
            experiment=self.name,
            dataset=dataset,
            noise=noise_of(noise),
            method=method,
            settings=settings,
            transition=self._transition(entry.transition, plan.transition or data.transition, network),
            network=network if entry.deep else None,
            subset=None if rows is None else {"rows": rows},
            protocol={"name": protocol} | (plan.training if entry.deep else {}),
            seed=seed,
            tuning={**plan.tuning, "seed": plan.seeds[0]} if plan.tuning and entry.deep else None,
        )

    def _transition(self, name: str | None, estimator: str | None, network: Table | None) -> Table | None:
        if name is None:
            return None
        chosen = self.transitions[str(estimator) if name == "estimated" else name]
        trains = chosen["kind"] != "true" and registry.find(chosen["kind"], "transition").networks
        return {"network": network, **chosen} if trains else dict(chosen)


def parse_where(words: Iterable[str]) -> dict[str, list[str]]:
    """Return the choices that ``--where`` makes: KEY=VALUE, with commas between several values.

    Examples
    --------
    >>> parse_where(["dataset=mnist,svhn", "noise=sym 20"])
    {'dataset': ['mnist', 'svhn'], 'noise': ['sym 20']}
    """
    where: dict[str, list[str]] = {}
    for word in words:
        key, sign, values = word.partition("=")
        if not sign or not values:
            raise ValueError(f"--where takes KEY=VALUE, such as dataset=mnist or seed=0,1; got {word!r}")
        key = one_of(key.strip(), CHOICES, "key", "--where: ")
        where.setdefault(key, []).extend(value.strip() for value in values.split(","))
    return where


def one_of(value: Any, known: Iterable[Any], what: str, place: str = "") -> Any:
    """Return a value that is known, or say which values of its kind can be chosen."""
    names = list(dict.fromkeys(known))
    if value not in names:
        raise ValueError(f"{place}unknown {what} {value!r}; choose one of {', '.join(map(str, names))}")
    return value
