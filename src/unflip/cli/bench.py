"""``unflip bench``: run an experiment file, see how far it is, and write its tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from unflip.bench.cells import Cell
    from unflip.bench.experiment import Experiment
    from unflip.bench.store import Store

app = typer.Typer(help="Run the experiments of the paper, or your own.", no_args_is_help=True)

ExperimentPath = Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="The experiment file, a TOML.")]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Only these cells: KEY=VALUE,... with dataset, noise, method or seed. May be repeated."),
]
ProtocolName = Annotated[str | None, typer.Option(help="A protocol of the file.  [default: its first]")]
StoreFolder = Annotated[
    Path | None, typer.Option(help="Where the records are.  [default: results/NAME beside experiments/]")
]


@app.command()
def run(
    experiment: ExperimentPath,
    where: Where = None,
    protocol: ProtocolName = None,
    jobs: Annotated[int, typer.Option(min=1, help="Cells at once; they share the cores.")] = 1,
    store: StoreFolder = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data sets are.  [default: UNFLIP_DATA]")] = None,
    dask: Annotated[
        str | None, typer.Option(help="Send the cells to the Dask scheduler at this address instead.")
    ] = None,
) -> None:
    """Run the cells of an experiment that are not done. Stopped or killed, the same command goes on.

    Example: unflip bench run experiments/deep.toml --where dataset=mnist --protocol short --jobs 2
    """
    from unflip.bench.pool import LocalPool, Pool
    from unflip.bench.progress import Progress
    from unflip.bench.run import check_settings
    from unflip.bench.schedule import run_cells

    _, cells, records = _read(experiment, where, protocol, store)
    folder = None if data_dir is None else str(data_dir)
    try:
        for cell in cells:
            check_settings(cell)
        pool: Pool
        if dask is None:
            pool = LocalPool(jobs, folder)
        else:
            from unflip.bench._dask import DaskPool

            pool = DaskPool(dask, folder)
    except (ValueError, ModuleNotFoundError) as error:
        raise _refusal(error) from error
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
    experiment: ExperimentPath, where: Where = None, protocol: ProtocolName = None, store: StoreFolder = None
) -> None:
    """Show how many cells are done, failed and missing.

    Example: unflip bench status experiments/deep.toml --protocol short
    """
    plan, cells, records = _read(experiment, where, protocol, store)
    states = [(cell, records.get(cell)) for cell in cells]
    typer.echo(f"{plan.name}, protocol {plan.protocol(protocol)}: done / failed / missing cells in {records.folder}")
    table = Table()
    datasets = list(dict.fromkeys(cell.dataset for cell in cells))
    table.add_column("method")
    for dataset in datasets:
        table.add_column(dataset, justify="right")
    for method in dict.fromkeys(cell.method for cell in cells):
        counts = []
        for dataset in datasets:
            here = [record for cell, record in states if (cell.method, cell.dataset) == (method, dataset)]
            kinds = ["missing" if record is None else record["status"] for record in here]
            counts.append(" / ".join(str(kinds.count(kind)) for kind in ("done", "failed", "missing")))
        table.add_row(method, *counts)
    Console().print(table)
    _name_damaged(records)
    for cell, record in states:
        if record is not None and record["status"] == "failed":
            typer.echo(f"failed: {cell.title}: {record['error'].strip().splitlines()[-1]}")


@app.command()
def report(
    experiment: ExperimentPath,
    where: Where = None,
    protocol: ProtocolName = None,
    store: StoreFolder = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the tables and figures.  [default: in the store]")] = None,
) -> None:
    """Write the tables and figures from the records of the cells that are done.

    Example: unflip bench report experiments/deep.toml --protocol short --out tables
    """
    plan, cells, records = _read(experiment, where, protocol, store)
    found = list(records.records(cells))
    _name_damaged(records)
    if not found:
        raise _refusal(ValueError(f"none of the {len(cells)} cells is done in {records.folder}; run them first"))
    folder = out or records.folder / "report"
    try:
        from unflip.report import write_report

        write_report(plan, found, folder)
    except (ValueError, ModuleNotFoundError, OSError) as error:
        raise _refusal(error) from error
    typer.echo(f"{len(found)} of {len(cells)} cells: {folder}")


def _read(
    path: Path, where: list[str] | None, protocol: str | None, folder: Path | None
) -> "tuple[Experiment, list[Cell], Store]":
    from unflip.bench.spec import parse_where, read_experiment
    from unflip.bench.store import Store

    try:
        plan = read_experiment(path)
        cells = plan.cells(parse_where(where or []), protocol)
    except (ValueError, OSError) as error:
        raise _refusal(error) from error
    return plan, cells, Store(folder or path.resolve().parents[1] / "results" / plan.name)


def _name_damaged(store: "Store") -> None:
    for path in store.damaged:
        typer.echo(f"damaged, taken as missing: {path}", err=True)


def _refusal(error: Exception) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(2)
