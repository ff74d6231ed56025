"""The command line."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from unflip import __version__
from unflip.cli.bench import app as bench_app
from unflip.cli.data import app as data_app

app = typer.Typer(
    help="Train classifiers from noisy labels as if the labels were clean.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unflip {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train classifiers from noisy labels as if the labels were clean."""


@app.command()
def demo(
    rate: Annotated[
        float, typer.Option(min=0, max=0.45, help="Share of the labels that flip to the next class.")
    ] = 0.4,
    seed: Annotated[int, typer.Option(help="Seed of the split and of the noise.")] = 0,
) -> None:
    """Flip 40 % of the labels of scikit-learn's digits, and train on them all the same.

    Example: unflip demo --rate 0.3
    """
    from unflip.demo import run_demo  # scikit-learn takes a second to import; --help should not wait for it

    result = run_demo(rate, seed)
    console = Console()
    console.print(
        f"Digits: {result.n_train:,} training images, {result.noise_rate:.1%} of their labels wrong; "
        f"{result.n_test:,} test images.\n"
    )
    table = Table(title=f"Pair noise {rate:.0%}: accuracy on clean test labels, and as estimated")
    table.add_column("classifier")
    table.add_column("T error", justify="right")
    table.add_column("accuracy", justify="right")
    table.add_column("estimate [95 %]", justify="right")
    for row in result.rows:
        error = "" if row.transition_error is None else f"{row.transition_error:.3f}"
        low, high = (f"{100 * bound:.1f}" for bound in (row.estimate.low, row.estimate.high))
        table.add_row(row.classifier, error, f"{row.accuracy:.1%}", f"{row.estimate.estimate:.1%} [{low}, {high}]")
    console.print(table)
    console.print(
        "T error: sum |T^ - T| / classes, where T^ is estimated from the noisy labels.\n"
        "Estimate: the accuracy as T^ and noisy test labels tell it; no clean label."
    )
