"""The report of the suite: what its records say, and whether they reach what we want."""

import argparse
import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _shared import Report

from unflip._output import write_whole

Cell = tuple[str, str, int]  # set, noise, draw
LARGE = 500  # rows of a set; what we want to reach is for these, and the smaller ones are shown next to them
TIE = 0.5  # points
LEAST_RATE = 0.02  # of noise; less counts as none
UNCORRECTED = ("logistic", "boosted", "extra")  # the best of them, chosen with hindsight, is called "hindsight"
ORACLE = "auto-true-T"  # knows what no other method does, so that it is not among the best
CLEANLAB = ("cleanlab-logistic", "cleanlab-boosted")
KEYS = (
    *("set", "noise", "draw", "method", "rows", "train_rows", "test_rows", "features", "classes", "accuracy"),
    *("seconds", "noise_rate", "noise_rate_estimated", "transition_error", "estimate", "low", "high", "covered"),
    *("overlap", "chosen", "corrected"),
)


class Results:
    """Records by cell and method. Accuracies are in percent."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self.cells: dict[Cell, dict[str, Mapping[str, Any]]] = {}
        for record in records:
            self.cells.setdefault((record["set"], record["noise"], record["draw"]), {})[record["method"]] = record

    def where(self, keep: Callable[[Cell, Mapping[str, Any]], bool]) -> "Results":
        """Return the records that ``keep`` accepts, by cell and record."""
        return Results(r for cell, found in self.cells.items() for r in found.values() if keep(cell, r))

    @property
    def methods(self) -> set[str]:
        return {method for found in self.cells.values() for method in found}

    def accuracy(self, cell: Cell, method: str) -> float | None:
        """Return an accuracy in percent, also of "hindsight" and "best" (of all methods); None where one is missing."""
        found = self.cells.get(cell, {})
        if method == "best":
            return max((100 * r["accuracy"] for name, r in found.items() if name != ORACLE), default=None)
        if method == "hindsight":
            scores = [self.accuracy(cell, name) for name in UNCORRECTED]
            return None if None in scores else max(scores)
        return 100 * found[method]["accuracy"] if method in found else None

    def differences(self, method: str, other: str) -> dict[Cell, float]:
        """Return accuracy minus accuracy, in points, for each cell that has both."""
        pairs = {cell: (self.accuracy(cell, method), self.accuracy(cell, other)) for cell in self.cells}
        return {cell: a - b for cell, (a, b) in pairs.items() if a is not None and b is not None}

    def gaps(self, method: str, twin: str, everything: "Results") -> list[tuple[float, float]]:
        """Return (gained, gap) of each cell, in points: what the method gains on the twin, and clean labels would.

        The twin on clean labels is its record without noise, which is looked up in ``everything``.
        """
        gained = self.differences(method, twin)
        clean = {cell: everything.accuracy((cell[0], "none", cell[2]), twin) for cell in gained}
        noisy = {cell: self.accuracy(cell, twin) for cell in gained}
        return [(gained[cell], clean[cell] - noisy[cell]) for cell in gained if clean[cell] is not None]

    def values(self, method: str, key: str) -> np.ndarray:
        found = (records[method].get(key) for records in self.cells.values() if method in records)
        return np.array([value for value in found if value is not None], dtype=float)

    def rate_errors(self, method: str) -> np.ndarray:
        """Return estimated minus true noise rate of each cell, in points."""
        found = [records[method] for records in self.cells.values() if method in records]
        return 100 * np.array(
            [r["noise_rate_estimated"] - r["noise_rate"] for r in found if r.get("noise_rate_estimated") is not None]
        )

    def coverage(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each interval contains the test accuracy; and the same, allowing for the test's own error.

        The accuracy on n test rows is itself known up to 1.96 sqrt(a (1 - a) / n), which matters where n is small.
        """
        found = [records[method] for records in self.cells.values() if method in records]
        found = [r for r in found if r.get("low") is not None]
        a, n, low, high = (np.array([r[k] for r in found]) for k in ("accuracy", "test_rows", "low", "high"))
        inside = (low <= a) & (a <= high)
        error = 1.96 * np.sqrt(a * (1 - a) / n) if found else a
        return inside, inside | (np.abs(a - low) <= error) | (np.abs(a - high) <= error)


def share_closed(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Return the share of the gap that is closed, a ratio of means; None if there is no gap."""
    gained, gap = np.array([*pairs], dtype=float).reshape(-1, 2).sum(axis=0)
    return float(gained / gap) if gap > 0 else None


def tally(differences: Iterable[float]) -> tuple[int, int, int]:
    """Return how many differences are wins, losses and ties."""
    d = np.array([*differences], dtype=float)
    wins, losses = int((d > TIE).sum()), int((d < -TIE).sum())
    return wins, losses, len(d) - wins - losses


@dataclass(frozen=True)
class Goal:
    """One line of what must be reached: what is measured, on how many cells, and between which bounds it must be."""

    text: str
    measured: float | None
    count: int
    low: float = -np.inf
    high: float = np.inf
    form: str = "{:.2f}"

    @property
    def target(self) -> str:
        if not (np.isfinite(self.low) or np.isfinite(self.high)):
            return "-"
        bound, sign = (self.low, "at least") if np.isfinite(self.low) else (self.high, "at most")
        return f"{sign} {self.form.format(bound)}"

    @property
    def reached(self) -> str:
        if self.measured is None or self.target == "-":
            return "-"
        return "yes" if self.low <= self.measured <= self.high else "**no**"

    @property
    def value(self) -> str:
        return "-" if self.measured is None else self.form.format(self.measured)


def goals(results: Results, everything: Results) -> list[Goal]:
    """Return what must be reached on these results; the uncorrected models on clean labels are in ``everything``."""
    noisy = results.where(lambda cell, _: cell[1] != "none")
    clean = results.where(lambda cell, _: cell[1] == "none")
    lines: list[Goal] = []

    def add(text: str, values: Iterable[float], measure: Callable[[np.ndarray], Any], **bounds: Any) -> None:
        array = np.array([*values], dtype=float)
        measured = measure(array) if len(array) else None
        lines.append(Goal(text, None if measured is None else float(measured), len(array), **bounds))

    percent = {"form": "{:.1f} %"}
    lead = noisy.differences("auto", "hindsight").values()
    text = "auto, points above the best uncorrected model chosen with hindsight"
    add(f"{text}: mean", lead, np.mean, low=6)
    add(f"{text}: cells more than 1 below", lead, lambda d: 100 * np.mean(d < -1), high=3, **percent)
    add(f"{text}: worst", lead, np.min, low=-2.5)
    bound, text = noisy.differences(ORACLE, "hindsight").values(), f"the same with the true T ({ORACLE}), the bound"
    add(f"{text}: mean", bound, np.mean)
    add(f"{text}: cells more than 1 below", bound, lambda d: 100 * np.mean(d < -1), **percent)
    add(f"{text}: worst", bound, np.min)
    behind = noisy.differences("best", "auto").values()
    add("auto, points below the best of all methods in each cell: mean", behind, np.mean, high=1)
    for rival in CLEANLAB:
        lead = noisy.differences("auto", rival).values()
        add(f"auto, points above {rival}: mean", lead, np.mean, low=0)
        add(f"auto, cells ahead of {rival}", lead, lambda d: 100 * np.mean(d > 0), low=80, **percent)
    for name, noises, least in (
        ("pair noise", ("pair35", "pair20"), 75),
        ("one-sided noise", ("two40",), 75),
        ("symmetric noise", ("sym40",), 50),
    ):
        some = noisy.where(lambda cell, _, noises=noises: cell[1] in noises)
        pairs = some.gaps("corrected-boosted", "boosted", everything)
        closed = share_closed(pairs)
        closed = None if closed is None else 100 * closed
        lines.append(Goal(f"corrected-boosted, gap closed, {name}", closed, len(pairs), low=least, **percent))
    lost = [-d for d in clean.differences("auto", "hindsight").values()]
    add("clean labels: auto, points lost to the best uncorrected model: mean", lost, np.mean, high=0.3)
    add("clean labels: auto, points lost to the best uncorrected model: worst", lost, np.max, high=1)
    for method, twin in (("corrected-boosted", "boosted"), ("corrected-logistic", "logistic")):
        lost = [-d for d in clean.differences(method, twin).values()]
        add(f"clean labels: {method}, points lost to {twin}: mean", lost, np.mean, high=0.3)
        add(f"clean labels: {method}, points lost to {twin}: worst", lost, np.max, high=1)
    rates = clean.values("auto", "noise_rate_estimated")
    add(
        "clean labels: auto, sets with at most 2 % noise reported",
        rates,
        lambda r: 100 * np.mean(r <= 0.02),
        low=80,
        **percent,
    )
    told = [
        bool(found["auto"].get("overlap"))
        for found in clean.cells.values()
        if "auto" in found and found["auto"].get("noise_rate_estimated", 0) > 0.02
    ]
    add(
        "clean labels: auto, sets with more noise reported that say that classes overlap",
        told,
        lambda t: 100 * np.mean(t),
        low=100,
        **percent,
    )
    errors = np.abs(noisy.rate_errors("auto"))
    add("auto, error of the noise rate in points: mean", errors, np.mean, high=3)
    for name, some in (("noisy labels", noisy), ("clean labels", clean)):
        add(
            f"auto, intervals that contain the test accuracy, {name}",
            some.coverage("auto")[0],
            lambda c: 100 * np.mean(c),
            low=92,
            **percent,
        )
    costs = [
        found["corrected-boosted"]["seconds"] / found["boosted"]["seconds"]
        for found in results.cells.values()
        if {"corrected-boosted", "boosted"} <= found.keys()
    ]
    # 2 x 5 folds x 3 rounds; the estimate of T may come on top, so that this is stricter than what we want.
    add(
        "corrected-boosted, seconds / seconds of boosted: 95 % of the cells",
        costs,
        lambda c: np.quantile(c, 0.95),
        high=30,
    )
    narrow = results.where(lambda _, r: r["features"] <= 50).values("auto", "seconds")
    add("auto, seconds for up to 1,500 rows of up to 50 features: worst", narrow, np.max, high=30)
    return lines


# ---- writing ----


def read(records: Path, sets: Iterable[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the records and those of runs that failed."""
    found = [json.loads(path.read_text()) for name in sets for path in sorted((records / name).glob("*.json"))]
    return [r for r in found if "error" not in r], [r for r in found if "error" in r]


def write(report: Report, options: argparse.Namespace, sets: list[str], twins: Mapping[str, str]) -> None:
    """Print the report and write it with a CSV of the records; ``twins`` are the methods in order, with their twins."""
    found, failed = read(options.records, sets)
    kept = {*options.noises, "none"}
    everything = Results(r for r in found if r["noise"] in kept and r["draw"] < options.draws)
    groups = {
        f"Sets with at least {LARGE} rows": everything.where(lambda _, r: r["rows"] >= LARGE),
        "Smaller sets": everything.where(lambda _, r: r["rows"] < LARGE),
    }
    total = len(sets) * len(options.noises) * options.draws
    report.say(
        "At most 1,500 training rows per set with noisy labels, up to 5,000 other rows with clean labels to test on; "
        "accuracies and differences in percentage points. *sym40*: 40 % of the labels flip to any other class; "
        "*pair35*, *pair20*: to the next class; *two40*: 40 % of the second and third largest class become the largest "
        "(of two classes: of the smaller one); *idn30*: 30 % flip, depending on the features. ridge, logistic, boosted "
        "(HistGradientBoosting) and extra (extra-trees) are uncorrected; without noise they are what the others are "
        "compared with as *trained on clean labels*. *auto* is `CorrectedClassifier()`, *auto-true-T* the same with "
        "the true T, which bounds what a better estimate could gain, *corrected-...* the same with a classifier "
        "of one's own, *forward* `ForwardLogisticClassifier()`, *mcldce* `MCLDCEClassifier()`, "
        "*forward-volmin* and *mcldce-volmin* the same with T by VolMin without its guard, "
        "*cleanlab-...* CleanLearning. *hindsight*: the best of logistic, boosted and extra in each cell. Seconds are "
        "processor time on one core.\n"
    )
    report.say(f"{len(everything.cells)} of {total} cells (set, noise, draw) have records. By method:\n")
    methods = [name for name in twins if name in everything.methods]
    counts = {name: sum(name in found for found in everything.cells.values()) for name in methods}
    report.say(", ".join(f"{name} {count}" for name, count in counts.items()) + ".\n")
    if failed:
        report.say(f"{len(failed)} runs failed:\n")
        for r in failed[:20]:
            report.say(f"- {r['set']}, {r['noise']}, draw {r['draw']}, {r['method']}: {r['error'][:200]}")
        report.say("")
    large, small = (goals(group, everything) for group in groups.values())
    report.say("## What must be reached\n")
    report.table(
        ["", "target", "measured", "cells", "reached", "smaller sets", "cells"],
        [[a.text, a.target, a.value, a.count, a.reached, b.value, b.count] for a, b in zip(large, small, strict=True)],
    )
    within_reach(report, next(iter(groups.values())), options.noises)
    for title, group in groups.items():
        if group.cells:
            names = {cell[0] for cell in group.cells}
            report.say(f"## {title}: {len(names)} sets, {len(group.cells)} cells\n")
            Section(group, everything, twins, options.noises).write(report)
    report.close()
    write_csv(options.out.with_suffix(".csv"), everything, twins)


def within_reach(report: Report, results: Results, noises: Iterable[str]) -> None:
    """Say what the true T gives, and where the noise is not found."""
    noisy = results.where(lambda cell, _: cell[1] != "none")
    bound, lead = noisy.differences(ORACLE, "hindsight"), noisy.differences("auto", "hindsight")
    both = [cell for cell in lead if cell in bound]
    if not both:
        return
    report.say("## What is within reach\n")
    clean = {cell: results.accuracy((cell[0], "none", cell[2]), "hindsight") for cell in lead}
    lost = [a - noisy.accuracy(cell, "hindsight") for cell, a in clean.items() if a is not None]
    report.say(
        f"The best uncorrected models, chosen with hindsight, lose {np.mean(lost):.1f} points to noise on average: no "
        "correction can gain more than about that. What the same models gain with the true T bounds, on average, what "
        "any estimate of it can gain (in a single cell an estimate may be better by chance); a target beyond it is "
        "out of reach of these models. In the same cells, points above hindsight:\n"
    )
    lines = []
    for name in (*noises, "all noisy"):
        cells = [cell for cell in both if name in (cell[1], "all noisy")]
        if not cells:
            continue
        line = [name, len(cells)]
        for found in (lead, bound):
            d = np.array([found[cell] for cell in cells])
            line += [f"{d.mean():+.2f}", f"{100 * np.mean(d < -1):.0f}", f"{d.min():+.2f}"]
        lines.append(line)
    header = [f"{name}: {what}" for name in ("auto", ORACLE) for what in ("mean", "% more than 1 below", "worst")]
    report.table(["", "cells", *header], lines)
    report.say(
        "Noise that is not found (less than 2 % reported). Single labels of two classes cannot tell symmetric noise "
        "from overlap: flips at a rate r turn a posterior p into r + (1 - 2r) p, which is as well the posterior of "
        "classes that overlap more. Only a region known to hold one class would tell.\n"
    )
    lines = []
    for name, few in (("two classes", True), ("more classes", False)):
        some = noisy.where(lambda _, r, few=few: (r["classes"] == 2) == few)
        rates, d = some.values("auto", "noise_rate_estimated"), [*some.differences("auto", "hindsight").values()]
        if len(rates):
            error = np.abs(some.rate_errors("auto")).mean()
            missed = 100 * np.mean(rates < LEAST_RATE)
            lines.append([name, len(rates), f"{missed:.0f}", f"{error:.1f}", f"{np.mean(d):+.2f}"])
    report.table(["", "cells", "not found, %", "error of the noise rate, points", "points above hindsight"], lines)


class Section:
    """The tables of one group of sets. ``columns`` are its cells by noise, and all that have noise."""

    def __init__(self, group: Results, everything: Results, twins: Mapping[str, str], noises: Iterable[str]) -> None:
        self.group, self.everything, self.twins = group, everything, twins
        self.methods = [name for name in twins if name in group.methods]
        self.columns = {noise: group.where(lambda cell, _, noise=noise: cell[1] == noise) for noise in noises}
        self.noisy = group.where(lambda cell, _: cell[1] != "none")
        self.clean = group.where(lambda cell, _: cell[1] == "none")
        self.columns["all noisy"] = self.noisy

    def write(self, report: Report) -> None:
        self.report = report
        self.accuracies()
        if any(self.twins[name] for name in self.methods):
            self.comparisons()
            self.gaps()
        self.errors()
        self.intervals()
        self.times()
        self.worst()

    def table(self, text: str, methods: Iterable[str], entry: Callable[[str, Results], str]) -> None:
        """Write one line per method and one entry per column."""
        lines = [[name, *(entry(name, some) for some in self.columns.values())] for name in methods]
        if lines:
            self.report.say(text + "\n")
            self.report.table(["", *self.columns], lines)

    def accuracies(self) -> None:
        def entry(name: str, some: Results) -> str:
            scores = [a for cell in some.cells if (a := some.accuracy(cell, name)) is not None]
            fewer = f" ({len(scores)})" if len(scores) < len(some.cells) else ""
            return f"{np.mean(scores):.2f}{fewer}" if scores else "-"

        self.table("Mean accuracy; (n): of n cells only.", [*self.methods, "hindsight", "best"], entry)

    def comparisons(self) -> None:
        def entries(differences: dict[Cell, float]) -> list[str]:
            if not differences:
                return ["-"] * 3
            worst = min(differences, key=differences.__getitem__)
            d = [*differences.values()]
            return [f"{np.mean(d):+.2f}", " / ".join(map(str, tally(d))), f"{min(d):+.2f} ({worst[0]}, {worst[1]})"]

        lines = []
        for name in (name for name in self.methods if self.twins[name]):
            for other in dict.fromkeys([self.twins[name], "hindsight", *([] if name in CLEANLAB else CLEANLAB)]):
                noisy, clean = (entries(some.differences(name, other)) for some in (self.noisy, self.clean))
                lines.append([name, other, *noisy, *clean])
        self.report.say(f"Wins / losses / ties (within {TIE} points), and the worst difference.\n")
        header = ["", "against", "noisy: mean", "W / L / T", "worst", "clean: mean", "W / L / T", "worst"]
        self.report.table(header, lines)

    def gaps(self) -> None:
        def entry(name: str, some: Results) -> str:
            share = share_closed(some.gaps(name, self.twins[name], self.everything))
            return "-" if share is None else f"{100 * share:.0f}"

        text = "Percentage of the gap between the twin on noisy and on clean labels that is closed (ratio of means)."
        self.table(text, [name for name in self.methods if self.twins[name]], entry)

    def errors(self) -> None:
        def entry(name: str, some: Results) -> str:
            T, rate = some.values(name, "transition_error"), some.rate_errors(name)
            return f"{T.mean():.3f}; {np.abs(rate).mean():.1f} ({rate.mean():+.1f})" if len(rate) else "-"

        told = [name for name in self.methods if len(self.group.rate_errors(name))]
        text = "Error of T (sum of absolute errors / classes); error of the noise rate in points, mean absolute (mean)."
        self.table(text, told, entry)

    def intervals(self) -> None:
        def entry(name: str, some: Results) -> str:
            inside, nearly = some.coverage(name)
            width = some.values(name, "high") - some.values(name, "low")
            if not len(inside):
                return "-"
            return f"{100 * np.mean(inside):.0f} ({100 * np.mean(nearly):.0f}), {100 * np.mean(width):.1f}"

        judged = [name for name in self.methods if len(self.group.values(name, "low"))]
        text = (
            "95 % intervals that contain the test accuracy, percent; in parentheses the same, allowing for the "
            "sampling error of the test accuracy itself; mean width in points."
        )
        self.table(text, judged, entry)

    def times(self) -> None:
        self.report.say("Seconds of a fit.\n")
        quantiles = {name: np.quantile(self.group.values(name, "seconds"), [0.5, 0.95, 1]) for name in self.methods}
        lines = [[name, *(f"{value:.3g}" for value in values)] for name, values in quantiles.items()]
        self.report.table(["", "median", "95 %", "largest"], lines)

    def worst(self) -> None:
        d = self.group.differences("auto", "hindsight")
        lines = []
        for cell in [cell for cell in sorted(d, key=d.__getitem__)[:15] if d[cell] < -TIE]:
            r = self.group.cells[cell]["auto"]
            chosen = f"{r.get('chosen', '-')}{', corrected' if r.get('corrected') else ''}"
            rates = f"{100 * r['noise_rate_estimated']:.1f} / {100 * r['noise_rate']:.1f}"
            lines.append([cell[0], cell[1], f"{d[cell]:+.2f}", chosen, rates, r.get("overlap", "-")])
        if lines:
            self.report.say("Where auto loses most against hindsight.\n")
            self.report.table(["set", "noise", "points", "chosen", "noise estimated / true, %", "overlap"], lines)


def write_csv(path: Path, results: Results, order: Iterable[str]) -> None:
    place = {name: i for i, name in enumerate(order)}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(KEYS)
    for cell in sorted(results.cells):
        for _, record in sorted(results.cells[cell].items(), key=lambda item: place[item[0]]):
            values = (record.get(key) for key in KEYS)
            writer.writerow(["" if v is None else f"{v:.5g}" if isinstance(v, float) else v for v in values])
    write_whole(path, text.getvalue())
