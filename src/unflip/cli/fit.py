"""``unflip fit``: a table to a saved model."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from unflip.cli.terminal import cell, estimate, one_sentence, plain, print_json, print_noise, print_unused, steps

if TYPE_CHECKING:
    from unflip.own_data import FittedTable

# Those of networks as unflip.deep.METHODS has them; to read them there would import PyTorch.
METHODS = (
    *("mcldce", "ule", "musgd", "rank-pruning", "lnsi", "scd", "lics", "cege"),
    *("ce", "gce", "coteaching", "coteaching+", "jocor", "sigua", "forward", "volminnet"),
)


def _complete(incomplete: str) -> list[str]:
    return [name for name in METHODS if name.startswith(incomplete)]


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="MODEL", help="Folder of the saved model.")],
    label: Label = None,
    method: Annotated[
        str,
        typer.Option(
            help="Linear: mcldce, ule, musgd, rank-pruning, lnsi, scd, lics, cege. Networks: mcldce, ce, gce, "
            "coteaching, coteaching+, jocor, sigua, forward, volminnet.",
            autocompletion=_complete,
        ),
    ] = "mcldce",
    network: NetworkOption = Network.linear,
    transition: Transition = "auto",
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Noisy labels to estimate the accuracy from.", show_default="a fifth of DATA"
        ),
    ] = None,
    weights: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the sample weights.")] = None,
    drop: Drop = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write a page with the noise, the classifiers and, of a network, its training.",
            show_default=False,
        ),
    ] = None,
    image_size: ImageSize = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fit a classifier that withstands wrong labels, and save it.

    Prints how the labels are flipped (T), and the accuracy on clean labels as
    the noisy ones tell it, beside that of a learner that takes the labels as
    they are. Without --test a fifth of the rows is held out for it and not
    trained on.

    Example: unflip fit people.csv --label job --out model
    """
    with one_sentence():
        from unflip.own_data import fit_table, write_fit_page
        from unflip.own_data.fit import PAGE, check_model_folder
        from unflip.own_data.folders import check_folder
        from unflip.own_data.learners import check_network

        check_network(network.value, epochs)
        check_model_folder(out)
        if page is not None:
            check_folder(page, PAGE)
        start = time.monotonic()
        with steps(network.value) as tell:
            tell(f"reading {data}")
            table = read(data, label, weights, drop, image_size)
            matrix = read_matrix(transition, table)
            tested = None if test is None else read(test, label, weights, None, image_size)
            fitted = fit_table(
                table,
                method=method,
                network=network.value,
                transition=matrix,
                test=tested,
                epochs=epochs,
                random_state=seed,
                progress=False if as_json else "auto",
                tell=tell,
            )
            fitted.model.metadata_ = {"data": data.name, "label": table.label, **fitted.model.metadata_}
            path = fitted.model.save(out)
            if page is not None:
                write_fit_page(fitted, page, title=data.resolve().name)
        seconds = time.monotonic() - start
    if as_json:
        print_json({"model": str(path), "method": method, "network": network.value, **_document(fitted, seconds)})
        return
    console = Console()
    print_noise(console, fitted.noise)
    _print_accuracy(console, fitted, method, network.value)
    print_unused(fitted.unused)
    typer.echo(f"Model: {plain(out)} ({fitted.n_train:,} rows, {seconds:.1f} s)")
    if page is not None:
        typer.echo(f"Page: {plain(page / PAGE[0])}")


def _print_accuracy(console: Console, fitted: "FittedTable", method: str, network: str) -> None:
    console.print(f"Accuracy on clean labels, estimated from {fitted.n_test:,} noisy ones", highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("classifier")
    table.add_column("estimate [95 %]", justify="right")
    table.add_row(cell(f"{method}, {network}"), cell(estimate(fitted.accuracy)))
    if fitted.baseline is not None:
        table.add_row(cell(fitted.baseline_name), cell(estimate(fitted.baseline)))
    console.print(table)


def _document(fitted: "FittedTable", seconds: float) -> dict[str, Any]:
    from unflip.own_data.fit import interval

    baseline = fitted.baseline
    return {
        **fitted.noise.as_json(),
        "clean_accuracy": interval(fitted.accuracy),
        "baseline": None if baseline is None else {**interval(baseline), "learner": fitted.baseline_name},
        "n_train": fitted.n_train,
        "n_test": fitted.n_test,
        "unused": fitted.unused,
        "seconds": seconds,
    }
