"""The command line."""

from typing import Annotated

import typer

from unflip import __version__
from unflip.cli.apply import apply
from unflip.cli.audit import audit
from unflip.cli.bench import app as bench_app
from unflip.cli.card import card
from unflip.cli.consensus import consensus
from unflip.cli.data import app as data_app
from unflip.cli.demo import demo
from unflip.cli.export import export
from unflip.cli.fit import fit
from unflip.cli.predict import predict
from unflip.cli.terminal import quietable
from unflip.cli.transition import transition

app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)
for command in (demo, fit, predict, audit, apply, consensus, transition, card, export):
    app.command()(quietable(command))
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
    """Train classifiers from noisy labels as if the labels were clean.

    Exit codes: 0 success; 1 failure, which one sentence explains;
    2 wrong usage; 130 stopped by Ctrl-C.
    """
