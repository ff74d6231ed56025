"""``unflip bench``: run an experiment file, see how far it is, and write its tables."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from unflip.cli.options import Json
from unflip.cli.terminal import print_json, quietable

if TYPE_CHECKING:
    from unflip.bench.cells import Cell
    from unflip.bench.experiment import Experiment
    from unflip.bench.store import State, Store
    from unflip.bench.workers import Pool

app = typer.Typer(help="Run the experiments of the paper, or your own.", no_args_is_help=True)

ExperimentPath = Annotated[
    Path,
    typer.Argument(
        metavar="EXPERIMENT",
        help="An experiment file (TOML), or the name of one that comes with the package, such as deep.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Only these cells: KEY=VALUE,... with dataset, noise, method or seed. May be repeated."),
]
ProtocolName = Annotated[str | None, typer.Option(help="A protocol of the file. (default: the first)")]
ProtocolWithRecords = Annotated[
    str | None, typer.Option("--protocol", help="A protocol of the file. (default: all that have records)")
]
StoreFolder = Annotated[
    Path | None, typer.Option(help="Folder of the records. (default: results/NAME, next to the folder of the file)")
]


@app.command()
@quietable
def run(
    experiment: ExperimentPath,
    where: Where = None,
    protocol: ProtocolName = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of cells to run at once; they share the cores.")] = 1,
    store: StoreFolder = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder of the data sets. (default: UNFLIP_DATA)")] = None,
    dask: Annotated[
        str | None, typer.Option(help="Send the cells to the Dask scheduler at this address instead.")
    ] = None,
    refresh_stale: Annotated[
        bool, typer.Option("--refresh-stale", help="Run cells again that were run with different default settings.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the cells of an experiment that are not done. After an interruption, run the same command to continue.

    Example: unflip bench run deep --where dataset=mnist --protocol short --jobs 2

    Example: unflip bench run experiments/mine.toml
    """
    from unflip.bench.progress import Progress
    from unflip.bench.schedule import run_cells
    from unflip.bench.settings import check_settings
    from unflip.bench.tuning import candidates

    plan, chosen, records = _read(experiment, where, protocol, store)
    (cells,) = chosen.values()
    records.refresh_stale = refresh_stale
    with _refused():
        for cell in cells:
            for one in (*candidates(cell), cell):
                check_settings(one)
        pool = _pool(cells, records, jobs, data_dir, dask)
    _report_stale(cells, records)
    try:
        with Progress(Console(stderr=as_json)) as progress:
            failed = run_cells(cells, records, pool, progress)
    except KeyboardInterrupt:
        typer.echo("stopped; run the same command again to continue", err=True)
        raise typer.Exit(130) from None
    except ConnectionError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    _report_damaged(records)
    if as_json:
        errors = [{"cell": record["cell"], "error": record["error"]} for record in failed]
        print_json({"experiment": plan.name, "store": str(records.folder), "cells": len(cells), "failed": errors})
    if failed:
        again = "run the same command to try them again"
        typer.echo(f"{len(failed)} of {len(cells)} cells failed; {again}. The last error:", err=True)
        typer.echo(failed[-1]["error"], err=True)
        raise typer.Exit(1)


@app.command()
@quietable
def status(
    experiment: ExperimentPath,
    where: Where = None,
    protocol: ProtocolWithRecords = None,
    store: StoreFolder = None,
    as_json: Json = False,
) -> None:
    """Show how many cells are done, stale (done with different default settings), failed and missing.

    Example: unflip bench status deep --protocol short
    """
    from unflip.bench.store import STATES, states, states_as_json

    plan, chosen, records = _read(experiment, where, protocol, store, every=True)
    found = {name: states(cells, records) for name, cells in _with(records.get, chosen).items()}
    if as_json:
        head = {"experiment": plan.name, "store": str(records.folder), "damaged": list(map(str, records.damaged))}
        print_json(head | states_as_json(found))
        return
    for name, some in found.items():
        shown = [kind for kind in STATES if kind != "stale" or any(state.name == "stale" for state in some)]
        typer.echo(f"{plan.name}, protocol {name}: {' / '.join(shown)} cells in {records.folder}")
        Console().print(_status_table(some, shown))
    _report_damaged(records)
    for state in (state for some in found.values() for state in some if state.error is not None):
        typer.echo(f"failed: {state.cell.title}: {str(state.error).strip().splitlines()[-1]}")


@app.command()
@quietable
def report(
    experiment: ExperimentPath,
    where: Where = None,
    protocol: ProtocolWithRecords = None,
    store: StoreFolder = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the tables and figures. (default: in the store)")] = None,
    commit: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Mark numbers that were made by another commit. (default: the commit of most records)"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write tables and figures from the records of the cells that are done.

    Example: unflip bench report deep --protocol short --out tables
    """
    plan, chosen, records = _read(experiment, where, protocol, store, every=True)
    cells = [cell for cells in _with(records.done, chosen).values() for cell in cells]
    found = list(records.records(cells))
    _report_damaged(records)
    folder = out or records.folder / "report"
    with _refused():
        if not found:
            raise ValueError(f"none of the {len(cells)} cells is done in {records.folder}; run them first")
        from unflip.report import write_report

        write_report(plan, found, folder, commit=commit)
    if as_json:
        print_json({"experiment": plan.name, "out": str(folder), "done": len(found), "cells": len(cells)})
    else:
        typer.echo(f"{len(found)} of {len(cells)} cells: {folder}")


def _read(
    path: Path, where: list[str] | None, protocol: str | None, folder: Path | None, *, every: bool = False
) -> "tuple[Experiment, dict[str, list[Cell]], Store]":
    """Return the experiment, its cells by protocol, and its store.

    If no protocol is named, it is the first one in the file, or ``every`` one that has cells as chosen by ``where``.
    """
    from unflip.bench.experiment import parse_where
    from unflip.bench.spec import find_experiment, read_experiment
    from unflip.bench.store import Store

    found: dict[str, list[Cell]] = {}
    errors = []
    with _refused():
        path, results = find_experiment(path)
        plan, choice = read_experiment(path), parse_where(where or [])
        for name in plan.protocols if every and protocol is None else [plan.protocol(protocol)]:
            try:
                found[name] = plan.cells(choice, name)
            except ValueError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        records = Store(folder or results / plan.name)
    return plan, found, records


def _pool(cells: "Sequence[Cell]", records: "Store", jobs: int, data_dir: str | None, dask: str | None) -> "Pool":
    from joblib import cpu_count

    from unflip.bench import workers
    from unflip.bench.trial import check_data

    if dask is not None:
        return workers.DaskPool(dask, data_dir)
    check_data(dict.fromkeys(cell.dataset for cell in cells if records.done(cell) is None), data_dir)
    if jobs > cpu_count():
        typer.echo(f"{jobs} jobs share {cpu_count()} cores; more jobs than cores are not faster", err=True)
    return workers.LocalPool(jobs, data_dir)


def _with(record: "Callable[[Cell], Any]", chosen: "dict[str, list[Cell]]") -> "dict[str, list[Cell]]":
    """Return the protocols that have a record, or else the first one."""
    found = {name: cells for name, cells in chosen.items() if any(map(record, cells))}
    return found or dict([next(iter(chosen.items()))])


def _status_table(states: "Sequence[State]", shown: Sequence[str]) -> Table:
    """Return a table of methods by data sets, with the counts of the states that are shown."""
    counts = Counter((state.cell.method, state.cell.dataset, state.name) for state in states)
    datasets = list(dict.fromkeys(state.cell.dataset for state in states))
    table = Table("method")
    for dataset in datasets:
        table.add_column(dataset, justify="right")
    for method in dict.fromkeys(state.cell.method for state in states):
        table.add_row(method, *(" / ".join(str(counts[method, data, name]) for name in shown) for data in datasets))
    return table


def _report_stale(cells: "Sequence[Cell]", store: "Store") -> None:
    tasks = {task.hash: task for cell in cells for task in (cell, cell.estimate) if task is not None}
    stale = sum(store.is_stale(task) for task in tasks.values())
    if stale:
        fate = "run again now" if store.refresh_stale else "kept; use --refresh-stale to run them again"
        typer.echo(f"{stale} records are stale, made with other defaults of the code; they are {fate}", err=True)


def _report_damaged(store: "Store") -> None:
    for path in store.damaged:
        typer.echo(f"damaged record, treated as missing: {path}", err=True)


@contextmanager
def _refused() -> Iterator[None]:
    """Turn a mistake of the user into one sentence and exit code 2."""
    try:
        yield
    except (ValueError, OSError, ModuleNotFoundError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
