"""``unflip data``: list the data sets, and download their official files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from unflip.cli.options import Json
from unflip.cli.terminal import State, print_json, quietable

if TYPE_CHECKING:
    from unflip.datasets import Entry
    from unflip.datasets.download import Progress as Report

app = typer.Typer(help="List the data sets, and download their official files.", no_args_is_help=True)

DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder of the data sets.", envvar="UNFLIP_DATA", show_default="in the user's cache"),
]


@app.command("list")
@quietable
def list_datasets(as_json: Json = False, data_dir: DataDir = None) -> None:
    """Show the size (on disk, or else the official one) and license of each data set, and whether it is on disk.

    Example: unflip data list --json
    """
    from unflip.datasets import catalogue, data_directory

    folder = data_directory(data_dir)
    with _errors():  # of the data directory itself
        states = {entry.name: _state(entry, folder) for entry in catalogue()}
    if as_json:
        keys = ("name", "title", "n_train", "n_test", "shape", "class_names", "licence", "source")
        rows = [
            {key: getattr(entry, key) for key in keys}
            | {"on_disk": entry.on_disk(folder), "paths": [str(path) for path in entry.find(folder) if path]}
            | {"how_to_get": entry.how_to_get(folder), **states[entry.name]._asdict()}
            for entry in catalogue()
        ]
        print_json({"data_directory": str(folder), "datasets": rows})
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))  # without a frame it fits 80 columns
    for column in ("name", "train", "test", "shape", "license", "on disk"):
        number = column in ("train", "test", "shape")
        table.add_column(column, justify="right" if number else "left", no_wrap=column != "license")
    for entry in catalogue():
        state = states[entry.name]
        there = "yes" if entry.on_disk(folder) else "no, fetch" if entry.downloads else "no, by hand"
        if state.fault or state.note:
            there = "unusable" if state.fault else state.note.split(":")[0]
        sizes = state.rows_on_disk or (entry.n_train, entry.n_test)
        table.add_row(entry.name, *(f"{n:,}" for n in sizes), "x".join(map(str, entry.shape)), entry.licence, there)
    Console().print(table)
    for name, state in states.items():
        if state.fault or state.note:
            typer.echo(f"{name}: {state.fault or state.note}")
    typer.echo(f"Data directory: {folder}")


@app.command()
@quietable
def fetch(
    name: Annotated[str, typer.Argument(help="A data set from `unflip data list`.")],
    data_dir: DataDir = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files without the official checksum.")] = False,
    as_json: Json = False,
) -> None:
    """Download the official files of a data set into the data directory.

    Run the same command again to continue an interrupted download. Files that are already there are left alone unless
    you use --force.

    Example: unflip data fetch mnist
    """
    from unflip.datasets import data_directory
    from unflip.datasets import fetch as fetch_files
    from unflip.datasets.download import unofficial_files

    folder = data_directory(data_dir)
    with _errors():
        with _progress() as report:
            written = fetch_files(name, folder, report, force)
        strange = unofficial_files(name, folder)
    if as_json:
        files = [{"path": str(path), "bytes": path.stat().st_size} for path in written]
        print_json({"name": name, "data_directory": str(folder), "written": files, "unofficial": [*map(str, strange)]})
        return
    if not written:
        typer.echo(f"{name} is already on disk (data directory {folder}); nothing was downloaded")
    for path in written:
        typer.echo(f"{path} ({path.stat().st_size:,} bytes)")
    if strange:
        typer.echo(
            f"{', '.join(path.name for path in strange)}: readable, but without the official checksum (compressed "
            f"again, or a subset); run `unflip data fetch {name} --force` to replace it"
        )


class _State(NamedTuple):
    rows_on_disk: tuple[int, int] | None = None  # training, test
    note: str = ""  # how they differ from the official numbers
    fault: str = ""  # why the files cannot be used


def _state(entry: "Entry", folder: Path) -> _State:
    if not entry.on_disk(folder):
        return _State()
    try:
        rows = entry.rows(folder)
    except (ValueError, OSError) as error:
        return _State(fault=str(error))
    return _State(rows, entry.size_note(*rows))


@contextmanager
def _progress() -> Iterator["Report"]:
    """Show a bar for each file on a terminal, and a line for each file elsewhere."""
    console = Console(stderr=True)
    if State.quiet or not console.is_terminal:  # no bar that is disabled: rich 13.0 ends it with an empty line
        told: set[str] = set()

        def say(file: str, done: int, total: int | None) -> None:
            if file not in told and not State.quiet:
                typer.echo(f"downloading {file}" + (f" ({total:,} bytes)" if total else ""), err=True)
            told.add(file)

        yield say
        return
    bars: dict[str, TaskID] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:

        def show(file: str, done: int, total: int | None) -> None:
            if file not in bars:
                bars[file] = progress.add_task(escape(file))
            progress.update(bars[file], completed=done, total=total)

        yield show


@contextmanager
def _errors() -> Iterator[None]:
    """Turn an error into one line and exit code 1."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        typer.echo(f"unflip: {error}", err=True)
        raise typer.Exit(1) from error
