"""Tables and figures of an experiment, from the records of its cells alone."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unflip._output import together, write_whole
from unflip.bench.experiment import Experiment
from unflip.report.grid import accuracy_grid, transition_grid, tuning_grid
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
    """Write the tables and figures of each protocol that has records, or of one ``protocol``; return the paths.

    ::

        table-<protocol>.md, .csv, .tex            the accuracies, chosen settings, and the errors of the estimated T
        curves-<protocol>-<figure>.svg, .png       accuracy by epoch, one file per figure of the experiment

    The same records give the same bytes, in any order; only those that are done are used. The folder is created if it
    does not exist, and files of an older report are replaced. Numbers that were made by another ``commit``, or with a T
    made by another one, are marked. If None, the commit that made most records of a table is used.

    Raises
    ------
    ValueError
        If no record is done, one does not belong to the experiment, or two of a table contradict each other.
    ModuleNotFoundError
        If there are curves to draw, but matplotlib is not installed. The tables are written all the same.
    """
    done = [record for record in records if record["status"] == "done"]
    names = list(experiment.protocols) if protocol is None else [experiment.protocol(protocol)]
    made = {record["cell"]["protocol"]["name"] for record in done}
    if protocol is None and not made <= set(names):
        raise ValueError(
            f"the records have the protocols {', '.join(sorted(made - set(names)))}, which are not in the experiment "
            f"{experiment.name} ({', '.join(names)}); pass its own records"
        )
    reports = [gather(experiment, done, name, commit) for name in names if name in made]
    if not reports:
        under = "" if protocol is None else f" under the protocol {protocol}"
        raise ValueError(f"none of the records of {experiment.name} is done{under}; run it first")
    with together():
        written = [path for results in reports for path in _write_tables(results, Path(folder))]
        missing = None
        try:
            written += [path for results in reports if figures for path in _write_figures(results, Path(folder))]
        except ModuleNotFoundError as error:
            missing = error
    if missing is not None:
        raise missing
    return written


def _write_tables(results: Results, folder: Path) -> list[Path]:
    made = (accuracy_grid(results), tuning_grid(results), transition_grid(results))
    grids = [grid for grid in made if grid is not None]
    markdown, latex = ("\n".join(map(write, grids)) for write in (markdown_table, latex_table))
    texts = {"md": markdown, "csv": csv_table(results), "tex": latex}
    stem = f"table-{_file_name(results.protocol)}"
    return [write_whole(folder / f"{stem}.{kind}", text.encode()) for kind, text in texts.items()]


def _write_figures(results: Results, folder: Path) -> list[Path]:
    written = []
    for figure in filter(results.panels, results.experiment.figures):
        from unflip.report.figures import draw_curves, picture  # here: without curves no matplotlib is needed

        drawn = draw_curves(results, figure)
        stem = f"curves-{_file_name(results.protocol)}-{_file_name(figure.name)}"
        written += [write_whole(folder / f"{stem}.{kind}", picture(drawn, kind)) for kind in ("svg", "png")]
    return written


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", name)
