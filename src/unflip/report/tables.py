"""A grid as Markdown or LaTeX, and results as CSV."""

import csv
import io
import re
from itertools import groupby

from unflip._output import guarded
from unflip.report.grid import Entry, Grid
from unflip.report.results import Results

COMMANDS = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "|": "bar", "<": "less", ">": "greater"}
LATEX = (
    {sign: rf"\{sign}" for sign in "{}&%$#_"}
    | {sign: rf"\text{name}{{}}" for sign, name in COMMANDS.items()}
    | {"[": "{[}", "*": "{*}"}  # at the start of a row, they would be arguments of the line break before them
    | {"±": r"$\pm$", "−": "$-$", "–": "--", "†": r"\dag{}", "‡": r"\ddag{}", "§": r"\S{}"}
    | {"μ": r"$\mu$", "µ": r"$\mu$"}  # the Greek letter, and the micro sign, which looks the same
)
COLUMNS = (
    *("dataset", "noise", "method", "protocol", "trials", "planned_trials", "epochs"),
    *("mean", "deviation", "deviation_over", "epoch_deviation", "best"),
    *("paper_mean", "paper_deviation", "paper_best", "paper_best_method", "above_paper_best"),
    *("transition_error", "seconds", "commit", "transition_commit", "marks"),
)


def markdown_table(grid: Grid) -> str:
    """Return a grid as Markdown: title, table, notes.

    Examples
    --------
    >>> grid = Grid("a", "Accuracy", ("Method",), [("MNIST", "Human")], [(("GCE",), [Entry("97.89", "(97.40)")])], [])
    >>> print(markdown_table(grid))
    ## Accuracy
    <BLANKLINE>
    | Method | MNIST, Human  |
    |:-------|:-------------:|
    | GCE    | 97.89 (97.40) |
    <BLANKLINE>
    """
    head = [*map(_markdown, grid.corner), *(_markdown(", ".join(lines)) for lines in grid.heads)]
    body = [[*map(_markdown, labels), *map(_markdown_entry, entries)] for labels, entries in grid.rows + grid.foot]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    left = len(grid.corner)
    rule = [":" + "-" * (w + 1) if i < left else ":" + "-" * w + ":" for i, w in enumerate(widths)]
    lines = [
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in (head, *body)
    ]
    lines.insert(1, f"|{'|'.join(rule)}|")
    notes = [f"- {_markdown(note)}" for note in grid.notes]
    return "\n".join([f"## {_markdown(grid.title)}", "", *lines, *[""] * bool(notes), *notes]) + "\n"


def latex_table(grid: Grid) -> str:
    """Return a grid as a LaTeX float with booktabs' rules, shrunk to the page if it is too wide."""
    environment = "table*" if len(grid.heads) > 4 else "table"
    body: list[str] = []
    above = None
    for labels, entries in grid.rows:
        cells = list(map(_latex, labels))
        if len(labels) > 1 and labels[0] == above:
            cells[0] = ""  # name a data set once
        elif len(labels) > 1 and above is not None:
            body.append(r"\midrule")
        above = labels[0]
        body.append(_latex_row([*cells, *map(_latex_entry, entries)]))
    body += [r"\midrule"] * bool(grid.foot)
    body += [_latex_row([*map(_latex, labels), *map(_latex_entry, entries)]) for labels, entries in grid.foot]
    lines = [
        r"% \usepackage{booktabs, adjustbox}",
        rf"\begin{{{environment}}}",
        r"\centering",
        rf"\caption{{{_latex(grid.title)}.}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9-]+', '-', grid.name)}}}",
        r"\begin{adjustbox}{max width=\linewidth}",
        rf"\begin{{tabular}}{{{'l' * len(grid.corner)}{'c' * len(grid.heads)}}}",
        r"\toprule",
        *_latex_head(grid),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{adjustbox}",
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\footnotesize",
        *(rf"{_latex(note)}\par" for note in grid.notes),
        r"\end{minipage}",
        rf"\end{{{environment}}}",
    ]
    return "\n".join(lines) + "\n"


def csv_table(results: Results) -> str:
    """Return one line per cell of the table, with numbers in full precision and empty fields where there is none.

    Accuracies, their deviations and differences are in percent, seconds are the mean over trials. ``marks`` has the
    words "protocol" and "commit", ``commit`` all commits that made the trials, ``transition_commit`` all that made
    their T. ``deviation`` is over ``deviation_over``, ``epoch_deviation`` over the last epochs. ``best`` is "yes" for
    what is bold in the table: the highest mean of a row and what a paired test cannot tell from it. ``paper_best`` is
    the paper's best number for the same data and noise, ``above_paper_best`` the mean minus that.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for dataset, noise in results.rows:
        paper_best, best_methods = results.paper_best((dataset, noise)) or (None, [])
        for method in results.methods:
            key = (dataset, noise, method)
            paper_mean, paper_deviation = results.experiment.paper.get(key, (None, None))
            line = {"dataset": dataset, "noise": noise, "method": method, "protocol": results.protocol, "trials": 0}
            line |= {"planned_trials": results.planned, "paper_mean": paper_mean, "paper_deviation": paper_deviation}
            line |= {"paper_best": paper_best, "paper_best_method": "; ".join(best_methods)}
            result = results.cells.get(key)
            if result is not None:
                errors = list(result.transition_errors.values())
                over, deviation = next(iter(result.deviations.items()), (None, None))
                line |= {"trials": result.trials, "epochs": result.epochs, "mean": result.mean}
                line |= {
                    "deviation": deviation,
                    "deviation_over": over,
                    "epoch_deviation": result.deviations.get("epochs"),
                    "best": "yes" if results.is_best(key) else "no",
                }
                line |= {
                    "above_paper_best": None if paper_best is None else result.mean - paper_best,
                    "transition_error": sum(errors) / len(errors) if errors else None,
                    "seconds": result.seconds,
                    "commit": "; ".join(sorted(set(result.commits))),
                    "transition_commit": "; ".join(sorted(set(result.transition_commits))),
                    "marks": " ".join(result.marks),
                }
            writer.writerow({name: guarded(cell) for name, cell in line.items()})
    return text.getvalue()


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~$&])", r"\\\1", " ".join(text.split()))


def _markdown_entry(entry: Entry) -> str:
    ours, paper, symbols = map(_markdown, (entry.ours, entry.paper, entry.symbols))
    return " ".join(part for part in (f"**{ours}**" if entry.best else ours, paper, symbols) if part)


def _latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in " ".join(text.split()))


def _latex_entry(entry: Entry) -> str:
    ours = rf"\textbf{{{_latex(entry.ours)}}}" if entry.best else _latex(entry.ours)
    symbols = rf"\textsuperscript{{{_latex(entry.symbols)}}}" if entry.symbols else ""
    return f"{ours} {_latex(entry.paper)}".rstrip() + symbols


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_head(grid: Grid) -> list[str]:
    corner = list(map(_latex, grid.corner))
    if len(grid.heads[0]) == 1:
        return [_latex_row([*corner, *(_latex(title) for (title,) in grid.heads)])]
    spans, rules, column = [], "", len(corner) + 1
    for dataset, heads in groupby(head[0] for head in grid.heads):
        width = len(list(heads))
        spans.append(rf"\multicolumn{{{width}}}{{c}}{{{_latex(dataset)}}}")
        rules += rf"\cmidrule(lr){{{column}-{column + width - 1}}}"
        column += width
    noises = [_latex(head[1]) for head in grid.heads]
    return [_latex_row([*[""] * len(corner), *spans]), rules, _latex_row([*corner, *noises])]
