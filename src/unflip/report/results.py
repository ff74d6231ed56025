"""From records to results: the trials of each cell, and marks for what a reader must know about them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from unflip._validation import FloatArray
from unflip.bench.cells import n_last, noise_label, noise_of, tuned
from unflip.bench.experiment import Experiment, Figure

PAPER = "paper"  # the name of the paper's protocol
LEAST_SHARED, LEVEL = 3, 0.05  # trials that a paired test needs, and its level
CHANGED = " + changes"
UNKNOWN = "unknown"

Record = Mapping[str, Any]
Row = tuple[str, str]  # data set, noise
Key = tuple[str, str, str]  # data set, noise, method


@dataclass(frozen=True)
class Result:
    """The trials of one cell of a table."""

    seeds: tuple[int, ...]  # one per trial
    curves: FloatArray  # (trials, epochs), test accuracy in percent; one epoch for a method that is fitted at once
    tuned: dict[str, Any]  # dropout, weight decay and average of the weights, as far as they are set
    transition_kind: str | None  # the estimator of the T that the method was given
    transition_errors: dict[int, float]  # by seed, if the error of T is known
    seconds: float  # mean over trials
    commits: tuple[str, ...]  # one per trial; "unknown" if the record does not name one
    transition_commits: tuple[str, ...]  # of the T that trials were given, if the record tells
    marks: tuple[str, ...]  # "protocol": not the paper's; "commit": made, or its T made, by another one or by changes

    @property
    def trials(self) -> int:
        return len(self.curves)

    @property
    def epochs(self) -> int:
        return self.curves.shape[1]

    @property
    def last(self) -> FloatArray:
        """The last ten epochs of the curves, or their second half if that is shorter; shape (trials, at most 10)."""
        return self.curves[:, -n_last(self.epochs) :]

    @cached_property
    def mean(self) -> float:
        """Mean over trials of the mean of the last epochs."""
        return float(self.numbers.mean())

    @property
    def numbers(self) -> FloatArray:
        """The number of each trial, the mean of its last epochs; shape (trials,)."""
        return np.asarray(self.last.mean(axis=1))

    def tied_with(self, other: "Result") -> bool | None:
        """Say whether a paired t-test over the trials that both have cannot tell them apart, at the level of 5 %.

        None if they share fewer than three trials, too few for a test.
        """
        shared = sorted(set(self.seeds) & set(other.seeds))
        if len(shared) < LEAST_SHARED:
            return None
        mine, theirs = (result.numbers[[result.seeds.index(seed) for seed in shared]] for result in (self, other))
        difference = mine - theirs
        if np.ptp(difference) < 1e-9:  # a t-test would divide by zero
            return bool(abs(difference[0]) < 1e-9)
        return bool(ttest_rel(mine, theirs).pvalue >= LEVEL)

    @cached_property
    def deviations(self) -> dict[str, float]:
        """Standard deviations over "trials", of the mean of the last epochs, and over the last "epochs", averaged.

        Each is there only if there are several of them.
        """
        over_trials = {"trials": float(self.numbers.std())} if self.trials > 1 else {}
        return over_trials | ({"epochs": float(self.last.std(axis=1).mean())} if self.epochs > 1 else {})


@dataclass(frozen=True)
class Results:
    """The results of an experiment under one protocol."""

    experiment: Experiment
    protocol: str
    commit: str | None  # numbers of other commits are marked; None if no record names a commit
    cells: dict[Key, Result]

    @cached_property
    def rows(self) -> list[Row]:
        """Data set and noise of each row that has a result, in the experiment's order."""
        found = {(dataset, noise) for dataset, noise, _ in self.cells}
        return [row for row in self.experiment.rows if row in found]

    @cached_property
    def methods(self) -> list[str]:
        """Methods that have a result, in the experiment's order."""
        found = {method for _, _, method in self.cells}
        return [method for method in self.experiment.methods if method in found]

    @property
    def planned(self) -> int:
        """Number of trials of a cell once the protocol is complete."""
        return len(self.experiment.protocols[self.protocol].seeds)

    def first(self, row: Row) -> Result:
        """Return the result with the highest mean of a row."""
        found = (self.cells[*row, method] for method in self.methods if (*row, method) in self.cells)
        return max(found, key=lambda result: result.mean)

    def is_best(self, key: Key) -> bool:
        """Say whether a result is the first of its row, as printed, or a paired test cannot tell it from the first."""
        result, first = self.cells[key], self.first(key[:2])
        return round(result.mean, 2) == round(first.mean, 2) or bool(result.tied_with(first))

    def paper_best(self, row: Row) -> tuple[float, list[str]] | None:
        """Return the paper's best number for a row and the methods that reach it; None if it has none."""
        printed = {m: mean for (*where, m), (mean, _) in self.experiment.paper.items() if tuple(where) == row}
        best = max(printed.values(), default=None)
        return None if best is None else (best, [method for method, mean in printed.items() if mean == best])

    def panels(self, figure: Figure) -> dict[str, list[str]]:
        """Return the methods that have a curve, for each noise of a figure that has any."""
        drawn = {key for key, result in self.cells.items() if result.epochs > 1}
        found = {noise: [m for m in self.methods if (figure.dataset, noise, m) in drawn] for noise in figure.noises}
        return {noise: methods for noise, methods in found.items() if methods}


def gather(experiment: Experiment, records: Iterable[Record], protocol: str, commit: str | None = None) -> Results:
    """Return the results of the records that are done under a protocol."""
    chosen: dict[tuple[str, str, str, int], Record] = {}
    trained_on: dict[tuple[str, str, int], Record] = {}
    for record in records:
        if record["status"] == "done" and record["cell"]["protocol"]["name"] == protocol:
            key = _key(experiment, record)
            if key in chosen and chosen[key]["hash"] != record["hash"]:
                raise ValueError(
                    f"the records {chosen[key]['hash']} and {record['hash']} of {', '.join(map(str, key))}, protocol "
                    f"{protocol}, differ in their settings; pass the records of one experiment only"
                )
            chosen[key] = record
            if record.get("data") is not None:
                dataset, noise, _, seed = key
                first = trained_on.setdefault((dataset, noise, seed), record)
                if first["data"] != record["data"]:
                    raise ValueError(
                        f"the records {first['hash']} and {record['hash']} are both of {dataset}, {noise}, seed "
                        f"{seed}, but of different data: {first['data']} and {record['data']}. Their numbers cannot be "
                        "compared; remove the records of the wrong data, and run their cells again"
                    )
    reference = _reference(chosen.values(), commit)
    as_paper = _cells_of_paper(experiment)
    trials: dict[Key, list[Record]] = {}
    for dataset, noise, method, seed in sorted(chosen):
        trials.setdefault((dataset, noise, method), []).append(chosen[dataset, noise, method, seed])
    cells = {key: _result(key, found, reference, as_paper) for key, found in trials.items()}
    return Results(experiment, protocol, reference, cells)


def noise_title(label: str) -> str:
    """Return how tables and figures print a noise: "sym 20" as "Symmetric 20%", "human" as "Human"."""
    noise = noise_of(label)
    return "Human" if noise["kind"] == "given" else f"{noise['kind'].capitalize()} {100 * noise['rate']:g}%"


def made_by(commit: str, reference: str | None) -> bool:
    """Say whether the reference made a trial, with unchanged sources; None stands for an unknown one."""
    return commit.startswith(reference or UNKNOWN) and not commit.endswith(CHANGED)


def _reference(records: Iterable[Record], commit: str | None) -> str | None:
    """Return the commit whose numbers need no mark: the requested one, or the one that made most records."""
    if commit is not None:
        if not re.fullmatch(rf"[0-9a-f]{{7,40}}({re.escape(CHANGED)})?", commit):
            raise ValueError(f"commit must be 7 to 40 hexadecimal digits; got {commit!r}")
        return commit.removesuffix(CHANGED)
    found = [(record["commit"].removesuffix(CHANGED), record["finished"]) for record in records if record["commit"]]
    counts = Counter(name for name, _ in found)
    # If several made equally many, the one that was last at work, whatever the order of the records.
    return max(counts, key=lambda name: (counts[name], max(f for n, f in found if n == name), name), default=None)


def _key(experiment: Experiment, record: Record) -> tuple[str, str, str, int]:
    cell = record["cell"]
    noise = noise_label(cell["noise"])
    for what, value, known in (
        ("data set", cell["dataset"], experiment.datasets),
        ("noise", noise, experiment.noises),
        ("method", cell["method"], experiment.methods),
    ):
        if value not in known:
            raise ValueError(
                f"the record {record['hash']} has the {what} {value!r}, which is not in the experiment "
                f"{experiment.name} ({', '.join(known)}); leave the record out, or pass its experiment"
            )
    return cell["dataset"], noise, cell["method"], cell["seed"]


def _result(
    key: Key, records: list[Record], reference: str | None, as_paper: Mapping[Key, dict[str, Any]] | None
) -> Result:
    curves = [np.atleast_1d(np.asarray(record["result"]["accuracy"], dtype=np.float64)) for record in records]
    lengths = sorted({len(curve) for curve in curves})
    if len(lengths) > 1:
        cell = ", ".join(key)
        raise ValueError(f"the trials of {cell} have different numbers of epochs: {lengths}; use one protocol for all")
    estimator = records[0]["cell"]["transition"]
    marks = []
    if as_paper is not None and any(as_paper.get(key) != _without_names(record["cell"]) for record in records):
        marks.append("protocol")
    commits = tuple(record["commit"] or UNKNOWN for record in records)
    sources = [source for record in records if (source := record.get("transition_from")) is not None]
    transition_commits = tuple(source["commit"] or UNKNOWN for source in sources)
    if not all(made_by(commit, reference) for commit in commits + transition_commits):
        marks.append("commit")
    errors = {record["cell"]["seed"]: record["result"]["transition_error"] for record in records}
    return Result(
        seeds=tuple(record["cell"]["seed"] for record in records),
        curves=100 * np.array(curves),
        tuned=tuned(records[0]["cell"]["settings"]),
        transition_kind=None if estimator is None else estimator["kind"],
        transition_errors={seed: error for seed, error in errors.items() if error is not None},
        seconds=float(np.mean([record["result"]["seconds"] for record in records])),
        commits=commits,
        transition_commits=transition_commits,
        marks=tuple(marks),
    )


def _cells_of_paper(experiment: Experiment) -> dict[Key, dict[str, Any]] | None:
    """Return what the paper's protocol makes of each cell; None if the experiment is not about the paper.

    Cells are compared, not names: a linear method is the same under a protocol that only changes epochs.
    """
    if PAPER not in experiment.protocols:
        return {} if experiment.paper else None
    cells = experiment.cells(protocol=PAPER)
    return {(cell.dataset, cell.noise_label, cell.method): _without_names(asdict(cell)) for cell in cells}


def _without_names(cell: Mapping[str, Any]) -> dict[str, Any]:
    values = {key: value for key, value in cell.items() if key not in ("experiment", "method", "seed")}
    return values | {"protocol": {key: value for key, value in cell["protocol"].items() if key != "name"}}
