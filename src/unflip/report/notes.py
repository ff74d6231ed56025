"""The sentences below a table, its title's end, and the symbols that refer to them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from unflip import registry
from unflip.bench.experiment import Protocol
from unflip.report.commits import made_by, short_name
from unflip.report.results import LAST, PAPER, Result, Results

SYMBOLS = {"protocol": "†", "commit": "‡"}


def symbols(marks: Collection[str], found: Collection[Result]) -> str:
    """Return the symbols of a number's marks.

    A protocol that is not the paper's, where it holds for the whole table, is in the title and the note instead.
    """
    said = {"protocol"} if _holds(found) == "all" else set()
    return "".join(SYMBOLS[mark] for mark in SYMBOLS if mark in set(marks) - said)


def protocol_title(results: Results, found: Collection[Result]) -> str:
    """Return how the title names the protocol, and whether it is the paper's."""
    holds = {"all": ", ", "some": f", in part ({SYMBOLS['protocol']}) ", "none": ""}[_holds(found)]
    other = "other settings than the experiment has now" if results.protocol == PAPER else "not the paper's"
    return f"protocol {results.protocol}{holds}{other if holds else ''}"


def trial_count(trials: int, counts: Iterable[int], planned: int) -> str:
    """Return the mark of a number that has other trials than planned; where all have as many the note says it."""
    return f"[{trials}/{planned}]" if trials != planned and len(set(counts)) > 1 else ""


def how_many(counts: Iterable[int], planned: int) -> str:
    """Return over how many trials a table's numbers are.

    Examples
    --------
    >>> how_many([5, 5], 5), how_many([1, 1], 5)
    ('mean over 5 trials', "one of the protocol's 5 trials")
    >>> how_many([2, 5], 5)
    "mean over the protocol's 5 trials ([n/5]: over n of them)"
    """
    first, *others = sorted(set(counts))
    if others:
        return f"mean over the protocol's {planned} trials ([n/{planned}]: over n of them)"
    if first < planned:
        return f"{'one' if first == 1 else f'mean over {first}'} of the protocol's {planned} trials"
    return "one trial" if first == 1 else f"mean over {first} trials"


def deviations(found: Collection[Result]) -> list[str]:
    """Return what the standard deviations are over."""
    last = _last({result.epochs for result in found})
    over = {
        (True, True): f"± b / c: b over trials, c over the {last} (its mean over trials).",
        (False, True): f"± c: over the {last}, of one trial.",
        (True, False): "± b: over trials, of a method without epochs.",
    }
    kinds = {(result.trials > 1, result.epochs > 1) for result in found}
    told = [text for kind, text in over.items() if kind in kinds]
    return [" ".join([*told, "All with n in the denominator."])] if told else []


def of_epochs(found: Iterable[Result]) -> str:
    """Return which number of a run is meant."""
    lengths = {result.epochs for result in found} - {1}
    return f"the mean of the {_last(lengths)}" if lengths else "the accuracy"


def mark_notes(results: Results, found: Collection[Result]) -> list[str]:
    """Return what the symbols mean, and which commit made the numbers."""
    notes = []
    if (holds := _holds(found)) != "none":
        which = "All numbers" if holds == "all" else f"{SYMBOLS['protocol']} These numbers"
        notes.append(f"{which}: {_described(results.protocol, results.experiment.protocols[results.protocol])}")
    made = Counter(commit for result in found for commit in result.commits)
    estimated = Counter(commit for result in found for commit in result.transition_commits)
    others = _others(made, results.commit)
    ours = len(others) < len(made)
    others += [f"T by {other}" for other in _others(estimated, results.commit)]
    if others:
        notes.append(
            f"{SYMBOLS['commit']} Made, or its T made, by another commit or by changed sources: {', '.join(others)}."
        )
    if ours:
        notes.append(f"Made by commit {short_name(results.commit)}{', but for these' if others else ''}.")
    return notes


def two_networks(results: Results) -> list[str]:
    """Return a note on how methods of two networks are scored: what a published number scores may be another thing."""
    pairs = {entry.name for entry in registry.ENTRIES if entry.networks == 2}
    methods = [m for m in results.methods if results.experiment.methods[m].settings["kind"] in pairs]
    if not methods:
        return []
    names = ", ".join(results.experiment.methods[method].title for method in methods)
    compared = any((*row, method) in results.experiment.paper for row in results.rows for method in methods)
    note = f"{names}: two networks, scored here together, by the mean of their probabilities"
    return [note + ("; the paper's numbers may be scored otherwise." if compared else ".")]


def _last(lengths: Collection[int]) -> str:
    """The epochs that make the number of runs of these lengths; one epoch is a method without any."""
    short = sorted(length for length in lengths if 1 < length < 2 * LAST)
    halves = f"last half of runs of {' and '.join(map(str, short))} epochs"
    if not short:
        return "last ten epochs"
    return halves if set(short) == set(lengths) - {1} else f"last ten epochs ({halves})"


def _holds(found: Collection[Result]) -> str:
    """For how many numbers of a table the protocol is not the paper's: "all", "some", "none"."""
    count = sum("protocol" in result.marks for result in found)
    return "all" if count == len(found) else "some" if count else "none"


def _others(made: Mapping[str, int], reference: str | None) -> list[str]:
    others = {commit: count for commit, count in sorted(made.items()) if not made_by(commit, reference)}
    return [f"{short_name(commit)} ({count} trial{'s' * (count > 1)})" for commit, count in others.items()]


def _described(name: str, plan: Protocol) -> str:
    if name == PAPER:
        return f"protocol {name}, but the records have other settings than the experiment has now."
    settings = ", ".join(f"{key} {value}" for key, value in plan.training.items())
    told = plan.note or (f"{settings}." if settings else "")
    return f"protocol {name}, not the paper's{f': {told}' if told else '.'}"
