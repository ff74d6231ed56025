"""What the tables say, before Markdown or LaTeX: labels, entries and notes as plain text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from unflip.report import notes as say
from unflip.report.results import Result, Results, Row, noise_title

DASH = "–"
PAPER_BEST, ABOVE = "Paper's best", "Ours − paper's best"

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """A number of ours, the paper's beside it, and the symbols of the notes that hold for it."""

    ours: str = DASH
    paper: str = ""
    symbols: str = ""
    best: bool = False


Line = tuple[Labels, list[Entry]]


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
    foot : list of (labels, entries)
        Rows that sum up those above.
    """

    name: str
    title: str
    corner: Labels
    heads: list[Labels]
    rows: list[Line]
    notes: list[str]
    foot: list[Line] = field(default_factory=list)


def accuracy_grid(results: Results) -> Grid:
    """Return the table of the accuracies, the paper's numbers beside ours, and the best of the paper's."""
    experiment, cells = results.experiment, results.cells
    found = list(cells.values())
    counts = [result.trials for result in found]

    def best_of(row: Row) -> float:
        return max(round(cells[*row, m].mean, 2) for m in results.methods if (*row, m) in cells)

    def entry(row: Row, method: str) -> Entry:
        printed = experiment.paper.get((*row, method))
        paper = "" if printed is None else f"({_as_printed(*printed)})"
        result = cells.get((*row, method))
        if result is None:
            return Entry(paper=paper)
        return Entry(
            ours=_number(result.mean, result.deviations, 2),
            paper=paper,
            symbols=say.symbols(result.marks, found) + say.trial_count(result.trials, counts, results.planned),
            best=round(result.mean, 2) == best_of(row),  # what prints alike is alike
        )

    def paper_best(row: Row) -> Entry:
        best = results.paper_best(row)
        if best is None:
            return Entry()
        return Entry(f"{_as_printed(best[0])}, {' / '.join(experiment.methods[m].title for m in best[1])}")

    def above(row: Row) -> Entry:
        best = results.paper_best(row)
        return Entry() if best is None else Entry(_signed(best_of(row) - round(best[0], 2)))

    compared = any(results.paper_best(row) for row in results.rows)
    titles = {method: experiment.methods[method].title for method in results.methods}
    corner, heads, rows, foot = _lay_out(
        results, "Method", titles, entry, {PAPER_BEST: paper_best, ABOVE: above} if compared else {}
    )
    title = f"{experiment.title}; {say.protocol_title(results, found)}"
    notes = _accuracy_notes(results, compared)
    return Grid(f"{experiment.name}-{results.protocol}", title, corner, heads, rows, notes, foot)


def transition_grid(results: Results) -> Grid | None:
    """Return the table of the errors of the estimated T; None where there are none.

    Methods that were given the same T share a column.
    """
    experiment, cells = results.experiment, results.cells
    shared: dict[str, list[str]] = {}
    for method in results.methods:
        name = experiment.methods[method].transition
        here = [cells[*row, method] for row in results.rows if (*row, method) in cells]
        if any(result.transition_errors and result.transition_kind != "true" for result in here):
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
        return Entry(
            ours=_number(float(np.mean(values)), [float(np.std(values))] if len(values) > 1 else [], 4),
            symbols=say.symbols(marks, everything) + say.trial_count(len(values), counts, results.planned),
        )

    counts = [len(values) for row in results.rows for group in shared if (values := errors(row, group))]
    everything = [result for row in results.rows for group in shared for result in found(row, group)]
    titles = {group: name_of(group) for group in shared}
    corner, heads, rows, _ = _lay_out(results, "T of", titles, entry, {})
    notes = [
        "sum |T estimated − T| / number of classes: 0 is exact, 2 the worst. "
        f"{say.how_many(counts, results.planned).capitalize()}"
        f"{'; ± standard deviation over trials' if max(counts) > 1 else ''}."
    ]
    for group, methods in shared.items():
        names = ", ".join(experiment.methods[method].title for method in methods)
        notes.append(f"{titles[group]}: " + ("its own T." if group.startswith("own ") else f"the T given to {names}."))
    notes += say.mark_notes(results, everything)
    title = f"Error of the estimated transition matrix T; {say.protocol_title(results, everything)}"
    return Grid(f"{experiment.name}-{results.protocol}-transition", title, corner, heads, rows, notes)


def _accuracy_notes(results: Results, compared: bool) -> list[str]:
    experiment, found = results.experiment, list(results.cells.values())
    legend = f"Per cent: ours{' ± standard deviation' if any(result.deviations for result in found) else ''}"
    if any((*row, method) in experiment.paper for row in results.rows for method in results.methods):
        legend += " (the paper's number ± the deviation that it prints)"
    legend += ". Bold: the best of ours with the same data and noise."
    if len(found) < len(results.rows) * len(results.methods):
        legend += f" {DASH}: no record."
    number = f"{say.of_epochs(found)}, {say.how_many([result.trials for result in found], results.planned)}"
    notes = [legend, f"Ours: {number}.", *say.deviations(found)]
    if compared:
        known = all(results.paper_best(row) for row in results.rows)
        notes.append(
            f"{PAPER_BEST}: the highest of all its numbers with the same data and noise, and the method that it is of"
            f"{'' if known else f' ({DASH}: it has none)'}. {ABOVE}: the best of our methods (bold) less that."
        )
    notes += say.mark_notes(results, found)
    notes += [note for note in (_absent(results), experiment.note) if note]
    notes += say.two_networks(results)
    described = [experiment.methods[method] for method in results.methods]
    return notes + [f"{method.title}: {method.note}." for method in described if method.note]


def _lay_out(
    results: Results,
    what: str,
    titles: dict[str, str],
    entry: Callable[[Row, str], Entry],
    sums: Mapping[str, Callable[[Row], Entry]],
) -> tuple[Labels, list[Labels], list[Line], list[Line]]:
    """Corner, heads, rows and foot. What sums up a data set and noise is a last column, or a last row.

    The longer side goes down, as in the paper: its main table has a row a noise, its small ones a row a method.
    """
    sets: dict[Row, Labels] = {
        row: (results.experiment.datasets[row[0]].title, noise_title(row[1])) for row in results.rows
    }
    if len(sets) >= len(titles):
        heads: list[Labels] = [(title,) for title in (*titles.values(), *sums)]
        down = [
            (labels, [*(entry(row, name) for name in titles), *(total(row) for total in sums.values())])
            for row, labels in sets.items()
        ]
        return ("Data set", "Noise"), heads, down, []
    rows: list[Line] = [((title,), [entry(row, name) for row in sets]) for name, title in titles.items()]
    foot: list[Line] = [((title,), [total(row) for row in sets]) for title, total in sums.items()]
    return (what,), list(sets.values()), rows, foot


def _number(mean: float, deviations: Sequence[float], decimals: int) -> str:
    parts = " / ".join(f"{deviation:.{decimals}f}" for deviation in deviations)
    return f"{mean:.{decimals}f}" + (f" ± {parts}" if parts else "")


def _as_printed(mean: float, deviation: float | None = None) -> str:
    """With the decimals that the experiment's file has, two or more."""
    values = [value for value in (mean, deviation) if value is not None]
    return " ± ".join(f"{value:.2f}" if round(value, 2) == value else f"{value:g}" for value in values)


def _signed(difference: float) -> str:
    text = f"{difference:+.2f}".replace("-", "−")
    return "0.00" if text[1:] == "0.00" else text


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
