"""``unflip fit``: a table to a saved model."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from unflip import registry
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
from unflip.cli.terminal import one_sentence, plain, print_accuracies, print_json, print_noise, print_unused, steps

if TYPE_CHECKING:
    from unflip.commands import FittedTable

LINEAR, DEEP = registry.names("linear"), registry.names("deep")


def _complete(incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys([*LINEAR, *DEEP]) if name.startswith(incomplete)]


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="MODEL", help="Folder of the saved model.")],
    label: Label = None,
    method: Annotated[
        str,
        typer.Option(
            help=f"Linear: {', '.join(LINEAR)}. Networks: {', '.join(DEEP)}.",
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
    out_of_core: Annotated[
        bool,
        typer.Option(
            "--out-of-core",
            help="Read DATA in blocks, for tables larger than memory: a Parquet or CSV file, a folder or a pattern of "
            "them. With method mcldce and network linear.",
        ),
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Out of core on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786. They must find DATA "
            "by the same path.",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option(min=1, metavar="ROWS", help="Out of core: rows that preprocessing and T are learnt from.")
    ] = 100_000,
    image_size: ImageSize = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fit a classifier that withstands wrong labels, and save it.

    Prints how the labels are flipped (T), and the accuracy on clean labels as
    the noisy ones tell it, beside that of a learner that takes the labels as
    they are. Without --test a fifth of the rows is held out for it and not
    trained on; with --out-of-core at most 100,000.

    Example: unflip fit people.csv --label job --out model

    Example: unflip fit people/ --label job --out model --out-of-core
    """
    if out_of_core := out_of_core or dask is not None:
        _check_out_of_core(method, network, epochs, image_size)
    with one_sentence():
        from unflip.commands import fit_out_of_core, fit_table, write_fit_page
        from unflip.commands.fit import PAGE, check_model_folder
        from unflip.commands.folders import check_folder
        from unflip.commands.learners import check_network
        from unflip.commands.out_of_core import SAMPLED

        check_network(network.value, epochs)
        check_model_folder(out)
        if page is not None:
            check_folder(page, PAGE)
            if page.resolve() == out.resolve() or out.resolve() in page.resolve().parents:
                raise ValueError(f"the page {page} would lie in the folder of the model, {out}; give it another one")
        start = time.monotonic()
        with steps(network.value) as tell:
            tested = None if test is None else read(test, label, weights, None, image_size)
            if out_of_core:
                if label is None:
                    raise ValueError(f"{data} needs --label COLUMN, the column of its labels")
                fitted = fit_out_of_core(
                    data,
                    label,
                    weights=weights,
                    drop=drop or (),
                    transition=None if transition == "auto" else transition,
                    test=tested,
                    sample_size=sample,
                    random_state=seed,
                    dask=dask,
                    tell=tell,
                )
            else:
                tell(f"reading {data}")
                table = read(data, label, weights, drop, image_size)
                fitted = fit_table(
                    table,
                    method=method,
                    network=network.value,
                    transition=read_matrix(transition, table),
                    test=tested,
                    epochs=epochs,
                    random_state=seed,
                    progress=False if as_json else "auto",
                    tell=tell,
                )
                label = table.label
            fitted.model.metadata_ = {"data": data.name, "label": label, **fitted.model.metadata_}
            path = fitted.model.save(out)
            if page is not None:
                write_fit_page(fitted, page, title=data.resolve().name)
        seconds = time.monotonic() - start
    if as_json:
        print_json({"model": str(path), "method": method, "network": network.value, **_document(fitted, seconds)})
        return
    console = Console()
    print_noise(console, fitted.noise)
    compared = {f"{method}, {network.value}": fitted.accuracy, fitted.baseline_name: fitted.baseline}
    scores = {name: score for name, score in compared.items() if score is not None}
    print_accuracies(console, fitted.n_test, scores)
    print_unused(fitted.unused)
    if out_of_core:
        rows = fitted.model.metadata_[SAMPLED]
        what = "medians, deviations and categories" if transition != "auto" else "medians, deviations, categories and T"
        typer.echo(f"Learnt from a uniform sample of {rows:,} rows: {what}.")
    typer.echo(f"Model: {plain(out)} ({fitted.n_train:,} rows, {seconds:.1f} s)")
    if page is not None:
        typer.echo(f"Page: {plain(page / PAGE[0])}")


def _check_out_of_core(method: str, network: Network, epochs: int | None, image_size: str | None) -> None:
    if method != "mcldce" or network is not Network.linear:
        raise typer.BadParameter(
            f"only method mcldce with network linear is a sum over the rows and can be fitted so; got {method} with "
            f"{network.value}",
            param_hint="--out-of-core",
        )
    for name, value in (("--epochs", epochs), ("--image-size", image_size)):
        if value is not None:
            raise typer.BadParameter("it has no meaning with --out-of-core; leave it out", param_hint=name)


def _document(fitted: "FittedTable", seconds: float) -> dict[str, Any]:
    from unflip.commands.fit import interval
    from unflip.commands.out_of_core import SAMPLED

    baseline, sampled = fitted.baseline, fitted.model.metadata_.get(SAMPLED)
    return {
        **fitted.noise.as_json(),
        "clean_accuracy": interval(fitted.accuracy),
        "baseline": None if baseline is None else {**interval(baseline), "learner": fitted.baseline_name},
        "n_train": fitted.n_train,
        "n_test": fitted.n_test,
        "unused": fitted.unused,
        **({} if sampled is None else {"n_sample": sampled}),
        "seconds": seconds,
    }
