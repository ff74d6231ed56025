"""``unflip data``: which datasets there are, and their official files."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from unflip.datasets import Entry
    from unflip.datasets.download import Progress as Report

app = typer.Typer(help="Show the datasets, and download their official files.", no_args_is_help=True)

DataDir = Annotated[
    Path | None,
    typer.Option(help="Where the datasets are.", envvar="UNFLIP_DATA", show_default="in the user's cache"),
]


@app.command("list")
def list_datasets(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, data_dir: DataDir = None
) -> None:
    """Show each dataset: its sizes (on disk, or else the official ones), its licence, and whether it is on disk.

    Example: unflip data list --json
    """
    from unflip.datasets import catalogue, data_directory

    folder = data_directory(data_dir)
    try:
        states = {entry.name: _state(entry, folder) for entry in catalogue()}
    except OSError as error:  # the data directory itself
        _fail(error)
    if as_json:
        rows = [
            {
                "name": entry.name,
                "title": entry.title,
                "n_train": entry.n_train,
                "n_test": entry.n_test,
                "shape": list(entry.shape),
                "class_names": list(entry.class_names),
                "licence": entry.licence,
                "source": entry.source,
                "on_disk": entry.on_disk(folder),
                "paths": [str(path) for path in entry.find(folder) if path],
                "how_to_get": entry.how_to_get(folder),
            }
            | states[entry.name]._asdict()
            for entry in catalogue()
        ]
        typer.echo(json.dumps({"data_directory": str(folder), "datasets": rows}, indent=1))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))  # without a frame it fits 80 columns
    table.add_column("name", no_wrap=True)
    for column in ("train", "test", "shape"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("licence")
    table.add_column("on disk", no_wrap=True)
    for entry in catalogue():
        shape = "x".join(str(size) for size in entry.shape)
        there = "yes" if entry.on_disk(folder) else "no, fetch" if entry.downloads else "no, by hand"
        state = states[entry.name]
        if state.fault or state.note:
            there = "unusable" if state.fault else state.note.split(":")[0]
        n_train, n_test = state.rows_on_disk or (entry.n_train, entry.n_test)
        table.add_row(entry.name, f"{n_train:,}", f"{n_test:,}", shape, entry.licence, there)
    Console().print(table)
    for name, state in states.items():
        if state.fault or state.note:
            typer.echo(f"{name}: {state.fault or state.note}")
    typer.echo(f"Data directory: {folder}")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A dataset of `unflip data list`.")],
    data_dir: DataDir = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what is there without the official checksum.")
    ] = False,
) -> None:
    """Download the official files of a dataset into the data directory.

    A download that breaks off is continued by the same command. A file that is there already is left alone without
    --force.

    Example: unflip data fetch mnist
    """
    from unflip.datasets import data_directory
    from unflip.datasets import fetch as fetch_files
    from unflip.datasets.download import unofficial_files

    folder = data_directory(data_dir)
    try:
        with _progress() as report:
            written = fetch_files(name, folder, report, force)
        strange = unofficial_files(name, folder)
    except (ValueError, OSError, ImportError) as error:
        _fail(error)
    if not written:
        typer.echo(f"{name} is on disk already (data directory {folder}); nothing was downloaded")
    for path in written:
        typer.echo(f"{path} ({path.stat().st_size:,} bytes)")
    if strange:
        typer.echo(
            f"{', '.join(path.name for path in strange)}: readable, but not the official checksum (compressed anew, or "
            f"a subset); `unflip data fetch {name} --force` would replace what is there"
        )


class _State(NamedTuple):
    rows_on_disk: tuple[int, int] | None = None  # training, test
    note: str = ""  # in what they differ from the official numbers
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
    """Show a bar for each file on a terminal; a line for each, as it begins, where the output is piped."""
    console = Console(stderr=True)
    if not console.is_terminal:
        begun: set[str] = set()

        def say(file: str, done: int, total: int | None) -> None:
            if file not in begun:
                begun.add(file)
                typer.echo(f"downloading {file}" + (f" ({total:,} bytes)" if total else ""), err=True)

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


def _fail(error: Exception) -> NoReturn:
    typer.echo(f"unflip: {error}", err=True)
    raise typer.Exit(1)
