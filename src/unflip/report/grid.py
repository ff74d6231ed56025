"""What the tables say, before Markdown or LaTeX: labels, entries, and the notes below a table, as plain text."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from unflip import registry
from unflip.bench.cells import LAST
from unflip.report.results import LEAST_SHARED, PAPER, UNKNOWN, Result, Results, Row, made_by, noise_title

DASH = "–"
PAPER_BEST, ABOVE = "Paper's best", "Ours − paper's best"
SYMBOLS = {"protocol": "†", "commit": "‡"}

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """One of our numbers, the paper's number next to it, and the symbols of the notes that apply to it."""

    ours: str = DASH
    paper: str = ""
    symbols: str = ""
    best: bool = False


Line = tuple[Labels, list[Entry]]


@dataclass(frozen=True)
class Grid:
    """A table."""

    name: str
    title: str
    corner: Labels  # heads of the columns of labels
    heads: list[Labels]  # heads of the other columns: one line, or data set and noise
    rows: list[Line]
    notes: list[str]
    foot: list[Line] = field(default_factory=list)  # rows that sum up those above


def accuracy_grid(results: Results) -> Grid:
    """Return the table of accuracies with the paper's numbers next to ours, and the best of the paper's."""
    experiment, cells = results.experiment, results.cells
    found = list(cells.values())
    counts = [result.trials for result in found]

    def entry(row: Row, method: str) -> Entry:
        printed = experiment.paper.get((*row, method))
        paper = "" if printed is None else f"({_as_printed(*printed)})"
        result = cells.get((*row, method))
        if result is None:
            return Entry(paper=paper)
        return Entry(
            ours=_number(result.mean, result.deviations.values(), 2),
            paper=paper,
            symbols=_symbols(result.marks, found) + _trial_count(result.trials, counts, results.planned),
            best=results.is_best((*row, method)),
        )

    def paper_best(row: Row) -> Entry:
        best = results.paper_best(row)
        if best is None:
            return Entry()
        return Entry(f"{_as_printed(best[0])}, {' / '.join(experiment.methods[m].title for m in best[1])}")

    def above(row: Row) -> Entry:
        best = results.paper_best(row)
        if best is None:
            return Entry()
        difference = f"{round(results.first(row).mean, 2) - round(best[0], 2):+.2f}".replace("-", "−")
        return Entry("0.00" if difference[1:] == "0.00" else difference)

    compared = any(results.paper_best(row) for row in results.rows)
    titles = {method: experiment.methods[method].title for method in results.methods}
    sums = {PAPER_BEST: paper_best, ABOVE: above} if compared else {}
    corner, heads, rows, foot = _lay_out(results, "Method", titles, entry, sums)
    title = f"{experiment.title}; {_protocol_title(results, found)}"
    notes = _accuracy_notes(results, compared)
    return Grid(f"{experiment.name}-{results.protocol}", title, corner, heads, rows, notes, foot)


def transition_grid(results: Results) -> Grid | None:
    """Return the errors of the estimated T, with one column for methods that share a T; None if there are none."""
    experiment, cells = results.experiment, results.cells
    shared: dict[str, list[str]] = {}
    for method in results.methods:
        name = experiment.methods[method].transition
        here = [cells[*row, method] for row in results.rows if (*row, method) in cells]
        if any(result.transition_errors and result.transition_kind != "true" for result in here):
            shared.setdefault(f"own {method}" if name is None else f"given {name}", []).append(method)
    if not shared:
        return None
    found = {
        (row, group): [cells[*row, method] for method in methods if (*row, method) in cells]
        for row in results.rows
        for group, methods in shared.items()
    }
    everything = [result for some in found.values() for result in some]
    # By seed, so that a T which several methods were given counts once.
    errors = {
        key: list({seed: e for result in some for seed, e in result.transition_errors.items()}.values())
        for key, some in found.items()
    }
    counts = [len(values) for values in errors.values() if values]

    def name_of(group: str) -> str:
        if group.startswith("own "):
            return experiment.methods[shared[group][0]].title
        kinds = [result.transition_kind for row in results.rows for result in found[row, group]]
        return " / ".join(dict.fromkeys(map(str, kinds)))

    def entry(row: Row, group: str) -> Entry:
        values = errors[row, group]
        if not values:
            return Entry()
        marks = {mark for result in found[row, group] for mark in result.marks}
        return Entry(
            ours=_number(float(np.mean(values)), [float(np.std(values))] if len(values) > 1 else [], 4),
            symbols=_symbols(marks, everything) + _trial_count(len(values), counts, results.planned),
        )

    titles = {group: name_of(group) for group in shared}
    corner, heads, rows, _ = _lay_out(results, "T of", titles, entry, {})
    notes = [
        "sum |T estimated − T| / number of classes: 0 is exact, 2 is the worst. "
        f"{_how_many(counts, results.planned).capitalize()}"
        f"{'; ± standard deviation over trials' if max(counts) > 1 else ''}."
    ]
    for group, methods in shared.items():
        given = f"the T given to {', '.join(experiment.methods[method].title for method in methods)}."
        notes.append(f"{titles[group]}: " + ("its own T." if group.startswith("own ") else given))
    notes += _mark_notes(results, everything)
    title = f"Error of the estimated transition matrix T; {_protocol_title(results, everything)}"
    return Grid(f"{experiment.name}-{results.protocol}-transition", title, corner, heads, rows, notes)


def tuning_grid(results: Results) -> Grid | None:
    """Return the settings that were chosen on held-out noisy labels; None if the protocol leaves nothing open."""
    grid = results.experiment.protocols[results.protocol].tuning
    if grid is None:
        return None

    def entry(row: Row, method: str) -> Entry:
        result = results.cells.get((*row, method))
        if result is None or not results.experiment.methods[method].deep:
            return Entry()
        words = {"dropout": "dropout {}", "weight_decay": "decay {:g}", "ema": "averaged"}
        return Entry(", ".join(words[key].format(value) for key, value in result.tuned.items()) or "none")

    titles = {method: results.experiment.methods[method].title for method in results.methods}
    corner, heads, rows, _ = _lay_out(results, "Method", titles, entry, {})
    names = [{key.replace("_", " "): value for key, value in setting.items()} for setting in grid["settings"]]
    tried = "; ".join(", ".join(f"{key} {value:g}" for key, value in setting.items()) for setting in names)
    notes = [
        f"Tried for each method, data set and noise: {tried}; each with the weights as they are, and with their moving "
        f"average ({grid['ema']}). The setting that predicts most of the held-out noisy labels, "
        f"{100 * grid['held_out']:g} % of those of the first trial, in the mean of the last epochs, is used in all "
        "trials."
    ]
    return Grid(f"{results.experiment.name}-{results.protocol}-settings", "Settings chosen", corner, heads, rows, notes)


def _lay_out(
    results: Results,
    what: str,
    titles: dict[str, str],
    entry: Callable[[Row, str], Entry],
    sums: Mapping[str, Callable[[Row], Entry]],
) -> tuple[Labels, list[Labels], list[Line], list[Line]]:
    """Return corner, heads, rows and foot. The sums of a data set and noise are a last column, or a last row.

    The longer side goes down, as in the paper: its main table has one row per noise, its small ones one per method.
    """
    sets = {row: (results.experiment.datasets[row[0]].title, noise_title(row[1])) for row in results.rows}
    if len(sets) >= len(titles):
        heads: list[Labels] = [(title,) for title in (*titles.values(), *sums)]
        down: list[Line] = [
            (labels, [*(entry(row, name) for name in titles), *(total(row) for total in sums.values())])
            for row, labels in sets.items()
        ]
        return ("Data set", "Noise"), heads, down, []
    rows: list[Line] = [((title,), [entry(row, name) for row in sets]) for name, title in titles.items()]
    foot: list[Line] = [((title,), [total(row) for row in sets]) for title, total in sums.items()]
    return (what,), list(sets.values()), rows, foot


def _number(mean: float, deviations: Iterable[float], decimals: int) -> str:
    parts = " / ".join(f"{deviation:.{decimals}f}" for deviation in deviations)
    return f"{mean:.{decimals}f}" + (f" ± {parts}" if parts else "")


def _as_printed(mean: float, deviation: float | None = None) -> str:
    """Return a number with the decimals that it has in the experiment file, at least two."""
    values = [value for value in (mean, deviation) if value is not None]
    return " ± ".join(f"{value:.2f}" if round(value, 2) == value else f"{value:g}" for value in values)


def _accuracy_notes(results: Results, compared: bool) -> list[str]:
    experiment, found = results.experiment, list(results.cells.values())
    legend = f"In percent: ours{' ± standard deviation' if any(result.deviations for result in found) else ''}"
    if any((*row, method) in experiment.paper for row in results.rows for method in results.methods):
        legend += " (the paper's number ± its printed deviation)"
    legend += ". Bold: our best for the same data and noise"
    if max((result.trials for result in found), default=0) >= LEAST_SHARED:
        legend += f", and what a paired t-test over at least {LEAST_SHARED} shared trials (5 %) cannot tell from it"
    legend += "."
    if len(found) < len(results.rows) * len(results.methods):
        legend += f" {DASH}: no record."
    lengths = {result.epochs for result in found} - {1}
    number = f"the mean of the {_last(lengths)}" if lengths else "the accuracy"
    notes = [legend, f"Ours: {number}, {_how_many([result.trials for result in found], results.planned)}."]
    notes += _deviation_notes(found)
    if compared:
        known = all(results.paper_best(row) for row in results.rows)
        notes.append(
            f"{PAPER_BEST}: the paper's highest number for the same data and noise, and its method"
            f"{'' if known else f' ({DASH}: it has none)'}. {ABOVE}: our best (bold) minus that."
        )
    notes += _mark_notes(results, found)
    notes += [note for note in (_absent(results), experiment.note) if note]
    notes += _network_notes(results)
    tuned = experiment.protocols[results.protocol].tuning is not None
    for method in (experiment.methods[name] for name in results.methods):
        told = [text for text in (method.note, "" if tuned else method.untuned) if text]
        notes += [f"{method.title}: {'; '.join(told)}."] if told else []
    return notes


def _deviation_notes(found: Collection[Result]) -> list[str]:
    """Say what the standard deviations are over."""
    last = _last({result.epochs for result in found})
    over = {
        (True, True): f"± b / c: b is over trials, c over the {last} (averaged over trials).",
        (False, True): f"± c: over the {last} of one trial.",
        (True, False): "± b: over trials, for a method without epochs.",
    }
    kinds = {(result.trials > 1, result.epochs > 1) for result in found}
    told = [text for kind, text in over.items() if kind in kinds]
    return [" ".join([*told, "All have n in the denominator."])] if told else []


def _last(lengths: Collection[int]) -> str:
    """Name the epochs that make the number of runs of these lengths; one epoch is a method without any."""
    short = sorted(length for length in lengths if 1 < length < 2 * LAST)
    halves = f"last half of runs of {' and '.join(map(str, short))} epochs"
    if not short:
        return "last ten epochs"
    return halves if set(short) == set(lengths) - {1} else f"last ten epochs ({halves})"


def _how_many(counts: Iterable[int], planned: int) -> str:
    """Say over how many trials the numbers of a table are."""
    first, *others = sorted(set(counts))
    if others:
        return f"mean over the protocol's {planned} trials ([n/{planned}]: over n of them)"
    if first < planned:
        return f"{'one' if first == 1 else f'mean over {first}'} of the protocol's {planned} trials"
    return "one trial" if first == 1 else f"mean over {first} trials"


def _trial_count(trials: int, counts: Iterable[int], planned: int) -> str:
    """Return the mark of a number with fewer trials than planned; if all have equally many, a note says so."""
    return f"[{trials}/{planned}]" if trials != planned and len(set(counts)) > 1 else ""


def _holds(found: Collection[Result]) -> str:
    """Say for how many numbers of a table the protocol is not the paper's: "all", "some", "none"."""
    count = sum("protocol" in result.marks for result in found)
    return "all" if count == len(found) else "some" if count else "none"


def _symbols(marks: Collection[str], found: Collection[Result]) -> str:
    """Return the symbols of a number's marks. What holds for the whole table is said by its title and a note."""
    said = {"protocol"} if _holds(found) == "all" else set()
    return "".join(SYMBOLS[mark] for mark in SYMBOLS if mark in set(marks) - said)


def _protocol_title(results: Results, found: Collection[Result]) -> str:
    """Return the end of a title: the protocol, and whether it is the paper's."""
    holds = {"all": ", ", "some": f", in part ({SYMBOLS['protocol']}) ", "none": ""}[_holds(found)]
    other = "other settings than the experiment has now" if results.protocol == PAPER else "not the paper's"
    return f"protocol {results.protocol}{holds}{other if holds else ''}"


def _mark_notes(results: Results, found: Collection[Result]) -> list[str]:
    """Say what the symbols mean, and which commit made the numbers."""
    notes = []
    if (holds := _holds(found)) != "none":
        which = "All numbers" if holds == "all" else f"{SYMBOLS['protocol']} These numbers"
        plan = results.experiment.protocols[results.protocol]
        told = plan.note or ", ".join(f"{key} {value}" for key, value in plan.training.items()) + "." * bool(
            plan.training
        )
        why = f"not the paper's{f': {told}' if told else '.'}"
        if results.protocol == PAPER:
            why = "but the records have other settings than the experiment has now."
        notes.append(f"{which}: protocol {results.protocol}, {why}")
    made = Counter(commit for result in found for commit in result.commits)
    estimated = Counter(commit for result in found for commit in result.transition_commits)
    others = _others(made, results.commit)
    ours = len(others) < len(made)
    others += [f"T by {other}" for other in _others(estimated, results.commit)]
    if others:
        what = "This number, or its T, was made by another commit or by modified sources"
        notes.append(f"{SYMBOLS['commit']} {what}: {', '.join(others)}.")
    if ours:
        notes.append(f"Made by commit {_short_name(results.commit)}{', except for these' if others else ''}.")
    return notes


def _others(made: Mapping[str, int], reference: str | None) -> list[str]:
    others = {commit: count for commit, count in sorted(made.items()) if not made_by(commit, reference)}
    return [f"{_short_name(commit)} ({count} trial{'s' * (count > 1)})" for commit, count in others.items()]


def _short_name(commit: str | None) -> str:
    """Return a commit with its hash shortened; what follows the hash stays."""
    name, *changed = (commit or UNKNOWN).split(" ", 1)
    return " ".join([name[:12], *changed])


def _absent(results: Results) -> str:
    """Name the rows and columns that the table leaves out because they have no record."""
    experiment = results.experiment
    names = []
    for dataset in experiment.protocols[results.protocol].datasets:
        title = experiment.datasets[dataset].title
        planned = experiment.noises_of(dataset)
        missing = [noise for noise in planned if (dataset, noise) not in results.rows]
        whole = len(missing) == len(planned)
        names += [title] if whole else [f"{title} {noise_title(noise)}" for noise in missing]
    names += [entry.title for method, entry in experiment.methods.items() if method not in results.methods]
    return f"Without records: {', '.join(names)}." if names else ""


def _network_notes(results: Results) -> list[str]:
    """Say how methods with two networks are scored, because the paper may score them differently."""
    pairs = {entry.name for entry in registry.ENTRIES if entry.networks == 2}
    experiment = results.experiment
    methods = [method for method in results.methods if experiment.methods[method].settings["kind"] in pairs]
    names = ", ".join(experiment.methods[method].title for method in methods)
    compared = any((*row, method) in experiment.paper for row in results.rows for method in methods)
    note = f"{names}: two networks, scored together here by the mean of their probabilities"
    return [note + ("; the paper may score them differently." if compared else ".")] if methods else []
