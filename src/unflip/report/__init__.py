"""Tables and figures of an experiment, from the records of its cells alone."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unflip._output import write_whole
from unflip.bench.experiment import Experiment
from unflip.report.grid import accuracy_grid, transition_grid
from unflip.report.results import Results, gather
from unflip.report.tables import csv_table, latex_table, markdown_table

__all__ = ["write_report"]


def write_report(
    experiment: Experiment,
    records: Iterable[dict[str, Any]],
    folder: str | Path,
    commit: str | None = None,
    protocol: str | None = None,
    *,
    figures: bool = True,
) -> list[Path]:
    """Write the tables and figures of each protocol that has records, and return the paths.

    ::

        table-<protocol>.md, .csv, .tex            the accuracies, and the errors of the estimated T
        curves-<protocol>-<figure>.svg, .png       accuracy by epoch, one file per figure of the experiment

    The same records give the same bytes, in any order.

    Parameters
    ----------
    experiment : Experiment
        As :func:`unflip.bench.spec.read_experiment` returns it.
    records : iterable of dict
        Only records that are done are used.
    folder : path
        Created if it does not exist; files of an older report are replaced.
    commit : str, default=None
        Numbers that were made by another commit, or with a T made by another one, are marked. If None, the commit that
        made most records of a table is used.
    protocol : str, default=None
        Report this protocol only.
    figures : bool, default=True
        If False, only the tables are written.

    Raises
    ------
    ValueError
        If no record is done, one does not belong to the experiment, or two of a table contradict each other.
    ModuleNotFoundError
        If there are curves to draw, but matplotlib is not installed. The tables are written before.
    """
    reports = _gather(experiment, records, commit, protocol)
    written = [path for results in reports for path in _write_tables(results, Path(folder))]
    if figures:
        written += [path for results in reports for path in _write_figures(results, Path(folder))]
    return written


def _gather(
    experiment: Experiment, records: Iterable[dict[str, Any]], commit: str | None, protocol: str | None
) -> list[Results]:
    """Return the results of each protocol that has records."""
    done = [record for record in records if record["status"] == "done"]
    names = list(experiment.protocols) if protocol is None else [experiment.protocol(protocol)]
    made = {record["cell"]["protocol"]["name"] for record in done}
    if protocol is None and not made <= set(names):
        raise ValueError(
            f"the records have the protocols {', '.join(sorted(made - set(names)))}, which are not in the experiment "
            f"{experiment.name} ({', '.join(names)}); pass its own records"
        )
    names = [name for name in names if name in made]
    if not names:
        under = "" if protocol is None else f" under the protocol {protocol}"
        raise ValueError(f"none of the records of {experiment.name} is done{under}; run it first")
    return [gather(experiment, done, name, commit) for name in names]


def _write_tables(results: Results, folder: Path) -> list[Path]:
    grids = [grid for grid in (accuracy_grid(results), transition_grid(results)) if grid is not None]
    texts = {
        "md": "\n".join(map(markdown_table, grids)),
        "csv": csv_table(results),
        "tex": "\n".join(map(latex_table, grids)),
    }
    stem = f"table-{_file_name(results.protocol)}"
    return [write_whole(folder / f"{stem}.{kind}", text.encode()) for kind, text in texts.items()]


def _write_figures(results: Results, folder: Path) -> list[Path]:
    written = []
    for figure in results.experiment.figures:
        if not results.panels(figure):
            continue  # before the import: without curves, as for linear methods, no matplotlib is needed
        from unflip.report.figures import draw_curves, picture

        drawn = draw_curves(results, figure)
        stem = f"curves-{_file_name(results.protocol)}-{_file_name(figure.name)}"
        written += [write_whole(folder / f"{stem}.{kind}", picture(drawn, kind)) for kind in ("svg", "png")]
    return written


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", name)
