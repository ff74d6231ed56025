"""``unflip bench``: run an experiment file, see how far it is, and write its tables."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unflip.bench.cells import Cell
    from unflip.bench.experiment import Experiment
    from unflip.bench.status import State
    from unflip.bench.store import Store

app = typer.Typer(help="Run the experiments of the paper, or your own.", no_args_is_help=True)

ExperimentPath = Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="The experiment file, a TOML.")]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Only these cells: KEY=VALUE,... with dataset, noise, method or seed. May be repeated."),
]
ProtocolName = Annotated[str | None, typer.Option(help="A protocol of the file. (default: its first)")]
ProtocolWithRecords = Annotated[
    str | None, typer.Option("--protocol", help="A protocol of the file. (default: each that has records)")
]
StoreFolder = Annotated[
    Path | None, typer.Option(help="Where the records are. (default: results/NAME beside experiments/)")
]


@app.command()
def run(
    experiment: ExperimentPath,
    where: Where = None,
    protocol: ProtocolName = None,
    jobs: Annotated[int, typer.Option(min=1, help="Cells at once; they share the cores.")] = 1,
    store: StoreFolder = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data sets are. (default: UNFLIP_DATA)")] = None,
    dask: Annotated[
        str | None, typer.Option(help="Send the cells to the Dask scheduler at this address instead.")
    ] = None,
    refresh_stale: Annotated[
        bool, typer.Option("--refresh-stale", help="Make again what was made with other defaults of the code.")
    ] = False,
) -> None:
    """Run the cells of an experiment that are not done. Stopped or killed, the same command goes on.

    Example: unflip bench run experiments/deep.toml --where dataset=mnist --protocol short --jobs 2
    """
    from unflip.bench.pool import LocalPool, Pool, cores
    from unflip.bench.progress import Progress
    from unflip.bench.run import check_data
    from unflip.bench.schedule import run_cells
    from unflip.bench.settings import check_settings

    _, fitting, records = _read(experiment, where, protocol, store)
    (cells,) = fitting.values()
    records.refresh_stale = refresh_stale
    folder = None if data_dir is None else str(data_dir)
    try:
        for cell in cells:
            check_settings(cell)
        pool: Pool
        if dask is None:
            check_data(dict.fromkeys(cell.dataset for cell in cells if records.done(cell) is None), folder)
            if jobs > cores():
                typer.echo(f"{jobs} jobs share {cores()} cores: more jobs than cores are no faster", err=True)
            pool = LocalPool(jobs, folder)
        else:
            from unflip.bench._dask import DaskPool

            pool = DaskPool(dask, folder)
    except (ValueError, ModuleNotFoundError) as error:
        raise _refusal(error) from error
    _tell_of_stale(cells, records)
    try:
        with Progress(Console()) as progress:
            failed = run_cells(cells, records, pool, progress)
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on", err=True)
        raise typer.Exit(130) from None
    except ConnectionError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    _name_damaged(records)
    if failed:
        typer.echo(
            f"{len(failed)} of {len(cells)} cells failed; the same command tries them again. The last one:", err=True
        )
        typer.echo(failed[-1]["error"], err=True)
        raise typer.Exit(1)


@app.command()
def status(
    experiment: ExperimentPath,
    where: Where = None,
    protocol: ProtocolWithRecords = None,
    store: StoreFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Counts and failures for a program.")] = False,
) -> None:
    """Show how many cells are done, stale (done with other defaults of the code), failed and missing.

    Example: unflip bench status experiments/deep.toml --protocol short
    """
    from unflip.bench import status

    plan, fitting, records = _read(experiment, where, protocol, store, every=True)
    plans = {name: cells for name, cells in fitting.items() if any(records.get(cell) for cell in cells)}
    found = {name: status.states(cells, records) for name, cells in (plans or _first(fitting)).items()}
    if as_json:
        head = {"experiment": plan.name, "store": str(records.folder), "damaged": list(map(str, records.damaged))}
        typer.echo(json.dumps(head | status.as_json(found), indent=1))
        return
    for name, states in found.items():
        shown = [kind for kind in status.STATES if kind != "stale" or any(s.name == "stale" for s in states)]
        typer.echo(f"{plan.name}, protocol {name}: {' / '.join(shown)} cells in {records.folder}")
        Console().print(_status_table(states, shown))
    _name_damaged(records)
    for states in found.values():
        for state in states:
            if state.error is not None:
                typer.echo(f"failed: {state.cell.title}: {state.error.strip().splitlines()[-1]}")


@app.command()
def report(
    experiment: ExperimentPath,
    where: Where = None,
    protocol: ProtocolWithRecords = None,
    store: StoreFolder = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the tables and figures. (default: in the store)")] = None,
    commit: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Mark the numbers that another commit than this one made. (default: the commit of most records)",
        ),
    ] = None,
) -> None:
    """Write the tables and figures from the records of the cells that are done.

    Example: unflip bench report experiments/deep.toml --protocol short --out tables
    """
    plan, fitting, records = _read(experiment, where, protocol, store, every=True)
    plans = {name: cells for name, cells in fitting.items() if any(records.done(cell) for cell in cells)}
    cells = [cell for cells in (plans or _first(fitting)).values() for cell in cells]
    found = list(records.records(cells))
    _name_damaged(records)
    if not found:
        raise _refusal(ValueError(f"none of the {len(cells)} cells is done in {records.folder}; run them first"))
    folder = out or records.folder / "report"
    try:
        from unflip.report import write_report

        write_report(plan, found, folder, commit=commit)
    except (ValueError, ModuleNotFoundError, OSError) as error:
        raise _refusal(error) from error
    typer.echo(f"{len(found)} of {len(cells)} cells: {folder}")


def _read(
    path: Path, where: list[str] | None, protocol: str | None, folder: Path | None, *, every: bool = False
) -> "tuple[Experiment, dict[str, list[Cell]], Store]":
    """The experiment, its cells by protocol, and its store.

    Without the name of a protocol it is the first of the file, or ``every`` one that has what ``where`` chooses.
    """
    from unflip.bench.spec import parse_where, read_experiment
    from unflip.bench.store import Store

    fitting: dict[str, list[Cell]] = {}
    errors = []
    try:
        plan, chosen = read_experiment(path), parse_where(where or [])
        for name in plan.protocols if every and protocol is None else [plan.protocol(protocol)]:
            try:
                fitting[name] = plan.cells(chosen, name)
            except ValueError as error:
                errors.append(error)
        if not fitting:
            raise errors[0]
    except (ValueError, OSError) as error:
        raise _refusal(error) from error
    return plan, fitting, Store(folder or path.resolve().parent.parent / "results" / plan.name)


def _first(fitting: "dict[str, list[Cell]]") -> "dict[str, list[Cell]]":
    name = next(iter(fitting))
    return {name: fitting[name]}


def _status_table(states: "Sequence[State]", shown: "Sequence[str]") -> Table:
    """Data sets across, methods down, and in each field the counts of the states that are shown."""
    counts = Counter((state.cell.method, state.cell.dataset, state.name) for state in states)
    datasets = list(dict.fromkeys(state.cell.dataset for state in states))
    table = Table()
    table.add_column("method")
    for dataset in datasets:
        table.add_column(dataset, justify="right")
    for method in dict.fromkeys(state.cell.method for state in states):
        fields = (" / ".join(str(counts[method, dataset, name]) for name in shown) for dataset in datasets)
        table.add_row(method, *fields)
    return table


def _tell_of_stale(cells: "Sequence[Cell]", store: "Store") -> None:
    tasks = {task.hash: task for cell in cells for task in (cell, cell.estimate) if task is not None}
    stale = sum(store.is_stale(task) for task in tasks.values())
    if stale:
        fate = "they are made again" if store.refresh_stale else "they are kept; --refresh-stale makes them again"
        typer.echo(f"stale, made with other defaults of the code than it has now: {stale} records; {fate}", err=True)


def _name_damaged(store: "Store") -> None:
    for path in store.damaged:
        typer.echo(f"damaged, taken as missing: {path}", err=True)


def _refusal(error: Exception) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(2)
