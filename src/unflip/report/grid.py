"""What the tables say, before Markdown or LaTeX: labels, entries and notes as plain text."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from unflip.bench.experiment import Protocol
from unflip.report.results import LAST, PAPER, UNKNOWN, Result, Results, Row, made_by, noise_title

DASH = "–"
SYMBOLS = {"epochs": "§", "protocol": "†", "commit": "‡"}
PAPERS = " (the paper's number)"

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """A number of ours, the paper's beside it, and the symbols of the notes that hold for it."""

    ours: str = DASH
    paper: str = ""
    symbols: str = ""
    best: bool = False


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes
    ----------
    name, title : str
    corner : tuple of str
        Heads of the columns of labels.
    heads : list of tuple of str
        Heads of the other columns: one line, or data set and noise.
    rows : list of (labels, entries)
    notes : list of str
    """

    name: str
    title: str
    corner: Labels
    heads: list[Labels]
    rows: list[tuple[Labels, list[Entry]]]
    notes: list[str]


def accuracy_grid(results: Results) -> Grid:
    """Return the table of the accuracies, the paper's numbers beside ours."""
    experiment, cells = results.experiment, results.cells
    usual = _usual(result.trials for result in cells.values())

    def entry(row: Row, method: str) -> Entry:
        printed = experiment.paper.get((*row, method))
        paper = "" if printed is None else f"({printed[0]:.2f})"
        result = cells.get((*row, method))
        if result is None:
            return Entry(paper=paper)
        best = max(round(cells[*row, m].mean, 2) for m in results.methods if (*row, m) in cells)
        symbols = ("epochs",) * (result.deviation_over == "epochs") + result.marks
        return Entry(
            ours=_number(result.mean, result.deviation, 2),
            paper=paper,
            symbols=_symbols(symbols, result.trials, usual),
            best=round(result.mean, 2) == best,  # what prints alike is alike
        )

    corner, heads, rows = _lay_out(results, "Method", {m: experiment.methods[m].title for m in results.methods}, entry)
    entries = [entry for _, line in rows for entry in line]
    compared = any(entry.paper for entry in entries)
    notes = [
        f"Per cent: ours ± standard deviation{PAPERS if compared else ''}. Bold: the best of ours with "
        f"the same data and noise.{f' {DASH}: no record.' if any(e.ours == DASH for e in entries) else ''}",
        f"Ours: {_of_epochs(cells.values())}, {_how_many(usual, [result.trials for result in cells.values()])}.",
    ]
    if any(result.deviation_over == "trials" for result in cells.values()):
        notes.append("The deviation is over trials, with n in the denominator.")
    if any(result.deviation_over == "epochs" for result in cells.values()):
        notes.append(
            f"{SYMBOLS['epochs']} One trial: the deviation is over its last epochs, with n in the denominator."
        )
    notes += _mark_notes(results, cells.values())
    notes += [note for note in (_absent(results), experiment.note) if note]
    described = [experiment.methods[method] for method in results.methods]
    notes += [f"{method.title}: {method.note}." for method in described if method.note]
    title = f"{experiment.title}; protocol {results.protocol}"
    return Grid(f"{experiment.name}-{results.protocol}", title, corner, heads, rows, notes)


def transition_grid(results: Results) -> Grid | None:
    """Return the table of the errors of the estimated T; None where there are none.

    Methods that were given the same T share a column.
    """
    experiment, cells = results.experiment, results.cells
    shared: dict[str, list[str]] = {}
    for method in results.methods:
        name = experiment.methods[method].transition
        known = any(cells[*row, method].transition_errors for row in results.rows if (*row, method) in cells)
        if known and (name is None or experiment.transitions.get(name, {}).get("kind") != "true"):
            shared.setdefault(f"own {method}" if name is None else f"given {name}", []).append(method)
    if not shared:
        return None

    def found(row: Row, group: str) -> list[Result]:
        return [cells[*row, method] for method in shared[group] if (*row, method) in cells]

    def errors(row: Row, group: str) -> list[float]:
        by_seed: dict[int, float] = {}
        for result in found(row, group):
            by_seed |= result.transition_errors
        return list(by_seed.values())

    def name_of(group: str) -> str:
        if group.startswith("own "):
            return experiment.methods[shared[group][0]].title
        kinds = [result.transition_kind for row in results.rows for result in found(row, group)]
        return " / ".join(dict.fromkeys(map(str, kinds)))

    def entry(row: Row, group: str) -> Entry:
        values = errors(row, group)
        if not values:
            return Entry()
        marks = {mark for result in found(row, group) for mark in result.marks}
        text = _number(float(np.mean(values)), float(np.std(values)) if len(values) > 1 else None, 4)
        return Entry(ours=text, symbols=_symbols(marks, len(values), usual))

    counts = [len(values) for row in results.rows for group in shared if (values := errors(row, group))]
    usual = _usual(counts)
    titles = {group: name_of(group) for group in shared}
    corner, heads, rows = _lay_out(results, "T of", titles, entry)
    notes = [
        "sum |T estimated − T| / number of classes: 0 is exact, 2 the worst. "
        f"{_how_many(usual, counts).capitalize()}{' ± standard deviation' if max(counts) > 1 else ''}."
    ]
    for group, methods in shared.items():
        names = ", ".join(experiment.methods[method].title for method in methods)
        notes.append(f"{titles[group]}: " + ("its own T." if group.startswith("own ") else f"the T given to {names}."))
    notes += _mark_notes(results, [result for row in results.rows for group in shared for result in found(row, group)])
    name, title = f"{experiment.name}-{results.protocol}-transition", "Error of the estimated transition matrix T"
    return Grid(name, f"{title}; protocol {results.protocol}", corner, heads, rows, notes)


def _lay_out(
    results: Results, what: str, titles: dict[str, str], entry: Callable[[Row, str], Entry]
) -> tuple[Labels, list[Labels], list[tuple[Labels, list[Entry]]]]:
    """The longer side goes down, as in the paper: its main table has a row a noise, its small ones a row a method."""
    sets: dict[Row, Labels] = {
        row: (results.experiment.datasets[row[0]].title, noise_title(row[1])) for row in results.rows
    }
    if len(sets) >= len(titles):
        down = [(labels, [entry(row, name) for name in titles]) for row, labels in sets.items()]
        return ("Data set", "Noise"), [(title,) for title in titles.values()], down
    return (what,), list(sets.values()), [((t,), [entry(row, name) for row in sets]) for name, t in titles.items()]


def _number(mean: float, deviation: float | None, decimals: int) -> str:
    return f"{mean:.{decimals}f}" + ("" if deviation is None else f" ± {deviation:.{decimals}f}")


def _symbols(names: Iterable[str], trials: int, usual: int) -> str:
    return "".join(SYMBOLS[name] for name in SYMBOLS if name in set(names)) + (f"[{trials}]" if trials != usual else "")


def _usual(counts: Iterable[int]) -> int:
    """The most frequent number of trials, of two as frequent the larger."""
    frequent = Counter(counts)
    return max(frequent, key=lambda count: (frequent[count], count))


def _how_many(usual: int, counts: Iterable[int]) -> str:
    return (f"mean over {usual} trials" if usual > 1 else "one trial") + (
        "" if set(counts) == {usual} else " ([n]: over n)"
    )


def _of_epochs(found: Iterable[Result]) -> str:
    lengths = {result.epochs for result in found} - {1}
    if not lengths:
        return "the accuracy"
    return "the mean of the last ten epochs" + (" (of all, where there are fewer)" if min(lengths) < LAST else "")


def _mark_notes(results: Results, found: Iterable[Result]) -> list[str]:
    found = list(found)
    marks = {mark for result in found for mark in result.marks}
    notes = []
    if "protocol" in marks:
        plan = results.experiment.protocols[results.protocol]
        notes.append(f"{SYMBOLS['protocol']} Not the paper's protocol. {_described(results.protocol, plan)}")
    made = Counter(commit for result in found for commit in result.commits)
    others = {commit: count for commit, count in sorted(made.items()) if not made_by(commit, results.commit)}
    if "commit" in marks:
        named = ", ".join(f"{_short(commit)} ({count} trial{'s' * (count > 1)})" for commit, count in others.items())
        notes.append(f"{SYMBOLS['commit']} Trials made by another commit or by changed sources: {named}.")
    if len(others) < len(made):
        notes.append(f"Made by commit {_short(results.commit)}{', but for these' if others else ''}.")
    return notes


def _short(commit: str | None) -> str:
    """The hash is shortened, what follows it stays."""
    name, *changed = (commit or UNKNOWN).split(" ", 1)
    return " ".join([name[:12], *changed])


def _described(name: str, plan: Protocol) -> str:
    if name == PAPER:
        return "The records have other settings than the experiment has now."
    told = plan.note or ", ".join(f"{key} {value}" for key, value in plan.training.items())
    return f"{name}: {told}" if told else f"It is {name}."


def _absent(results: Results) -> str:
    """Rows and columns that the table leaves out, because no record is of them."""
    experiment = results.experiment
    names = []
    for dataset in experiment.protocols[results.protocol].datasets:
        title = experiment.datasets[dataset].title
        missing = [noise for noise in experiment.noises if (dataset, noise) not in results.rows]
        if len(missing) == len(experiment.noises):
            names.append(title)
        else:
            names += [f"{title} {noise_title(noise)}" for noise in missing]
    names += [entry.title for method, entry in experiment.methods.items() if method not in results.methods]
    return f"Not among the records: {', '.join(names)}." if names else ""
