"""``unflip audit`` and ``unflip transition``: which labels of a table are wrong, and how they are flipped."""

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from unflip.cli.options import (
    Data,
    Drop,
    Epochs,
    ImageSize,
    Json,
    Label,
    Network,
    NetworkOption,
    Seed,
    Transition,
    read,
    read_matrix,
)
from unflip.cli.terminal import (
    cell,
    one_sentence,
    plain,
    print_accuracies,
    print_json,
    print_noise,
    print_unused,
    steps,
)

SHOWN = 10  # suspects on the terminal


def audit(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the lists and the page.")],
    label: Label = None,
    network: NetworkOption = Network.linear,
    transition: Transition = "auto",
    folds: Annotated[int, typer.Option(min=2, help="A label is judged by a model of the other folds.")] = 5,
    drop: Drop = None,
    image_size: ImageSize = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Find the labels that are probably wrong, and what they should be.

    FOLDER gets suspects.csv (the labels that should be another, surest first),
    labels.csv (every label with its probability of being wrong), summary.json,
    and index.html, a page to look at, tick and export from.

    Example: unflip audit people.csv --label job --out audit
    """
    with one_sentence():
        from unflip.commands import Noise, audit_table, compare_classifiers, write_audit
        from unflip.commands.audit import FILES
        from unflip.commands.folders import check_folder
        from unflip.commands.learners import check_network

        check_network(network.value, epochs)
        check_folder(out, FILES)
        with steps(network.value) as tell:
            tell(f"reading {data}")
            table = read(data, label, None, drop, image_size)
            matrix = read_matrix(transition, table)
            judging = f"judging {len(table.y):,} labels"
            errors = audit_table(
                table,
                network=network.value,
                transition=matrix,
                folds=folds,
                epochs=epochs,
                random_state=seed,
                progress=False if as_json else "auto",
                on_fold=lambda k: tell(f"{judging}, fold {k + 1} of {folds}", k / folds),
            )
            tell("comparing with a learner that takes the labels as they are")
            compared = compare_classifiers(errors, table, network=network.value, folds=folds, random_state=seed)
            tell(f"writing {out}")
            summary = write_audit(errors, table, out, title=data.resolve().name, compared=compared)
    if as_json:
        print_json({"out": str(out), **summary})
        return
    console = Console()
    print_noise(console, Noise.of(errors.given, errors.transition), errors.rate)
    print_accuracies(console, len(errors.given), compared)
    suspects = errors.suspects
    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("name", "given", "suggested"):
        found.add_column(title, overflow="fold")
    found.add_column("P(wrong)", justify="right")
    for i in suspects[:SHOWN]:
        names = (table.names[i], errors.given[i], errors.suggested[i])
        found.add_row(*map(cell, names), f"{errors.scores[i]:.3f}")
    if len(suspects):
        console.print(f"\nThe surest of {len(suspects):,} suspects", highlight=False)
        console.print(found)
    print_unused(_unused(table, network))
    typer.echo(
        f"{len(errors.scores):,} labels: about {errors.total:,.0f} are wrong, {len(suspects):,} should be another."
    )
    typer.echo(f"Page: {plain(out / 'index.html')}")


def transition(
    data: Data,
    label: Label = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write T here as JSON, CSV, SVG and PNG.", show_default=False)
    ] = None,
    network: NetworkOption = Network.linear,
    drop: Drop = None,
    image_size: ImageSize = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Estimate how the labels are flipped: T = P(given label | clean label).

    What --json prints can be given to the other commands as --transition FILE.

    Example: unflip transition people.csv --label job --json > T.json
    """
    with one_sentence():
        from unflip.commands import find_noise, write_transition
        from unflip.commands.folders import check_folder
        from unflip.commands.transition import FILES

        if out is not None:
            import unflip.report.matrix  # noqa: F401 - matplotlib missing is told before the work

            check_folder(out, FILES)
        with steps(network.value) as tell:
            tell(f"reading {data}")
            table = read(data, label, None, drop, image_size)
            tell(f"estimating T from {len(table.X):,} rows")
            noise = find_noise(table, network=network.value, random_state=seed, progress=False if as_json else "auto")
            if out is not None:
                write_transition(noise, out)
    if as_json:
        print_json(noise.as_json())
        return
    print_noise(Console(), noise)
    print_unused(_unused(table, network))
    if out is not None:
        typer.echo(f"T: {plain(out)}")


def _unused(table: Any, network: Network) -> dict[str, str]:
    from unflip.commands.learners import usable

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were shown when the table was used
        return usable(table, network.value)[1]
