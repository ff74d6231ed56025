"""From records to the results of cells: their trials gathered, and what must be said of them marked."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unflip._validation import FloatArray
from unflip.bench.cells import noise_label, noise_of
from unflip.bench.experiment import Experiment, Figure
from unflip.report.commits import UNKNOWN, made_by, reference_of

LAST = 10  # epochs that make the number of a run; of a run shorter than twice that, its second half
PAPER = "paper"  # the name of the protocol that is the paper's

Record = Mapping[str, Any]
Row = tuple[str, str]
Key = tuple[str, str, str]  # data set, noise, method


@dataclass(frozen=True)
class Result:
    """The trials of one cell of a table.

    Attributes
    ----------
    curves : array of shape (trials, epochs)
        Test accuracy, per cent; one epoch for a method that is fitted at once.
    transition_kind : str or None
        The estimator of the T that the method was given.
    transition_errors : dict of int to float
        By seed, where the error of T is known.
    seconds : float
        Mean over trials.
    commits : tuple of str
        One a trial; "unknown" where the record names none.
    transition_commits : tuple of str
        Of the T that trials were given, where the record tells: one a trial.
    marks : tuple of str
        "protocol": not the paper's; "commit": a trial, or its T, was made by another commit, or by changed sources.
    """

    curves: FloatArray
    transition_kind: str | None
    transition_errors: dict[int, float]
    seconds: float
    commits: tuple[str, ...]
    transition_commits: tuple[str, ...]
    marks: tuple[str, ...]

    @property
    def trials(self) -> int:
        return len(self.curves)

    @property
    def epochs(self) -> int:
        return self.curves.shape[1]

    @property
    def last(self) -> FloatArray:
        """The curves' last ten epochs, or second half where that is shorter; shape (trials, at most 10)."""
        return self.curves[:, -max(1, min(LAST, self.epochs // 2)) :]

    @cached_property
    def mean(self) -> float:
        """Mean over trials of the mean of the last epochs."""
        return float(self.last.mean(axis=1).mean())

    @property
    def deviation_over(self) -> str | None:
        """What ``deviation`` is over: "trials", "epochs" where there is one trial, None where there is one number."""
        return "trials" if self.trials > 1 else "epochs" if self.epochs > 1 else None

    @cached_property
    def deviation(self) -> float | None:
        """Standard deviation over trials of the mean of the last epochs; of one trial, that of its epochs."""
        if self.deviation_over == "trials":
            return float(self.last.mean(axis=1).std())
        return self.epoch_deviation

    @cached_property
    def epoch_deviation(self) -> float | None:
        """Standard deviation over the last epochs, its mean over trials."""
        return float(self.last.std(axis=1).mean()) if self.epochs > 1 else None

    @property
    def deviations(self) -> list[float]:
        """Those that there are: over trials, then over the last epochs."""
        found = (self.deviation if self.trials > 1 else None, self.epoch_deviation)
        return [deviation for deviation in found if deviation is not None]


@dataclass(frozen=True)
class Results:
    """The results of an experiment under one protocol.

    Attributes
    ----------
    experiment : Experiment
    protocol : str
    commit : str or None
        The numbers of other commits are marked. None: no record names one.
    cells : dict of (dataset, noise, method) to Result
    """

    experiment: Experiment
    protocol: str
    commit: str | None
    cells: dict[Key, Result]

    @cached_property
    def rows(self) -> list[Row]:
        """Data set and noise of which there is a result, in the experiment's order."""
        found = {(dataset, noise) for dataset, noise, _ in self.cells}
        return [row for row in self.experiment.rows if row in found]

    @cached_property
    def methods(self) -> list[str]:
        """Methods of which there is a result, in the experiment's order."""
        found = {method for _, _, method in self.cells}
        return [method for method in self.experiment.methods if method in found]

    @property
    def planned(self) -> int:
        """Trials of a cell once the protocol is done."""
        return len(self.experiment.protocols[self.protocol].seeds)

    def paper_best(self, row: Row) -> tuple[float, list[str]] | None:
        """Return the best of all the paper's numbers of a row and the methods that reach it; None if it has none."""
        paper = self.experiment.paper
        printed = {m: mean for (dataset, noise, m), (mean, _) in paper.items() if (dataset, noise) == row}
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
                    f"two records of {', '.join(map(str, key))}, protocol {protocol}, differ in their settings: "
                    f"{chosen[key]['hash']} and {record['hash']}; pass the records of one experiment only"
                )
            chosen[key] = record
            if record.get("data") is not None:
                dataset, noise, _, seed = key
                _check_same_data(trained_on.setdefault((dataset, noise, seed), record), record)
    reference = reference_of(chosen.values(), commit)
    as_paper = _cells_of_paper(experiment)
    trials: dict[Key, list[Record]] = {}
    for dataset, noise, method, seed in sorted(chosen):
        trials.setdefault((dataset, noise, method), []).append(chosen[dataset, noise, method, seed])
    cells = {key: _result(key, found, reference, as_paper) for key, found in trials.items()}
    return Results(experiment, protocol, reference, cells)


def noise_title(label: str) -> str:
    """Return how tables and figures print a noise.

    Examples
    --------
    >>> noise_title("sym 20"), noise_title("pair 40"), noise_title("human")
    ('Symmetric 20%', 'Pairflip 40%', 'Human')
    """
    noise = noise_of(label)
    return "Human" if noise["kind"] == "given" else f"{noise['kind'].capitalize()} {100 * noise['rate']:g}%"


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
                f"the record {record['hash']} is of the {what} {value!r}, which the experiment {experiment.name} does "
                f"not have; it has {', '.join(known)}. Leave the record out, or pass the experiment that it is of"
            )
    return cell["dataset"], noise, cell["method"], cell["seed"]


def _check_same_data(first: Record, second: Record) -> None:
    if first["data"] != second["data"]:
        cell = first["cell"]
        raise ValueError(
            f"the records {first['hash']} and {second['hash']} are both of {cell['dataset']}, "
            f"{noise_label(cell['noise'])}, seed {cell['seed']}, but the data were not the same: {first['data']} and "
            f"{second['data']}. Their numbers cannot stand side by side: remove the records of the data that you do "
            "not mean, and run their cells again"
        )


def _result(
    key: Key, records: list[Record], reference: str | None, as_paper: Mapping[Key, dict[str, Any]] | None
) -> Result:
    curves = [np.atleast_1d(np.asarray(record["result"]["accuracy"], dtype=np.float64)) for record in records]
    lengths = sorted({len(curve) for curve in curves})
    if len(lengths) > 1:
        raise ValueError(
            f"the trials of {', '.join(key)} have different numbers of epochs: {lengths}; pass records of one protocol"
        )
    cell = records[0]["cell"]
    marks = []
    if as_paper is not None and any(as_paper.get(key) != _without_names(record["cell"]) for record in records):
        marks.append("protocol")
    commits = tuple(record["commit"] or UNKNOWN for record in records)
    sources = [source for record in records if (source := record.get("transition_from")) is not None]
    transition_commits = tuple(source["commit"] or UNKNOWN for source in sources)
    if not all(made_by(commit, reference) for commit in commits + transition_commits):
        marks.append("commit")
    return Result(
        curves=100 * np.array(curves),
        transition_kind=None if cell["transition"] is None else cell["transition"]["kind"],
        transition_errors={
            record["cell"]["seed"]: record["result"]["transition_error"]
            for record in records
            if record["result"]["transition_error"] is not None
        },
        seconds=float(np.mean([record["result"]["seconds"] for record in records])),
        commits=commits,
        transition_commits=transition_commits,
        marks=tuple(marks),
    )


def _cells_of_paper(experiment: Experiment) -> dict[Key, dict[str, Any]] | None:
    """What the paper's protocol makes of each cell; None for an experiment that has nothing to do with the paper.

    Cells are compared, not names: a linear method is the same under a protocol that only changes epochs.
    """
    if PAPER not in experiment.protocols:
        return {} if experiment.paper else None
    cells = experiment.cells(protocol=PAPER)
    return {(cell.dataset, cell.noise_label, cell.method): _without_names(asdict(cell)) for cell in cells}


def _without_names(cell: Mapping[str, Any]) -> dict[str, Any]:
    values = {key: value for key, value in cell.items() if key not in ("experiment", "method", "seed")}
    return values | {"protocol": {key: value for key, value in cell["protocol"].items() if key != "name"}}
