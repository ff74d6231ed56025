"""``unflip fit``: from a table to a saved model."""

import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer import Option

from unflip import registry
from unflip.cli import options, terminal

if TYPE_CHECKING:
    from unflip.commands import FittedTable


LINEAR, DEEP = ", ".join(registry.names("linear")), ", ".join(registry.names("deep"))
BLOCKS = (
    "Read DATA in blocks, for tables larger than memory: a Parquet or CSV file, a folder or a pattern of them. Only "
    "for model mcldce."
)
WORKERS = (
    "Read out of core on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786. They must find DATA at the "
    "same path."
)
PAGE = "Write a page with the noise, the classifiers and, for a network, its training."
SAMPLE = "Out of core: the number of rows from which preprocessing and T are learned."
FORCE = "Replace a saved model even if it was trained on other data or classes."
MISSING = "Write predictions for the rows of DATA that have no label; the suffix chooses CSV, TSV or Parquet."
TEST = "Table with noisy labels, from which the accuracy is estimated."


def _complete(incomplete: str) -> list[str]:
    names = dict.fromkeys([*registry.names("linear"), *registry.names("deep")])
    return [name for name in names if name.startswith(incomplete)]


METHOD = f"For researchers: the method that trains --network. Linear: {LINEAR}. Networks: {DEEP}."
Method = Annotated[
    str | None,
    Option(help=METHOD, autocompletion=_complete, show_default="mcldce for linear, discounted-forward for networks"),
]


def fit(
    data: options.Data,
    out: Annotated[Path, Option(metavar="MODEL", help="Folder of the saved model.")],
    label: options.Label = None,
    label_columns: options.LabelColumns = None,
    item: options.Item = None,
    annotator: options.AnnotatorColumn = None,
    model: options.ModelOption = None,
    method: Method = None,
    network: options.NetworkOption = None,
    transition: options.Transition = "auto",
    test: Annotated[Path | None, Option(metavar="FILE", help=TEST, show_default="a fifth of DATA")] = None,
    weights: options.Weights = None,
    drop: options.Drop = None,
    encoding: options.Encoding = None,
    text: options.TextOption = options.Text.tfidf,
    page: Annotated[Path | None, Option(metavar="FOLDER", help=PAGE, show_default=False)] = None,
    predict_missing: Annotated[Path | None, Option(metavar="FILE", help=MISSING, show_default=False)] = None,
    raw: options.Raw = False,
    out_of_core: Annotated[bool, Option("--out-of-core", help=BLOCKS)] = False,
    dask: Annotated[str | None, Option(metavar="ADDRESS", help=WORKERS, show_default=False)] = None,
    sample: Annotated[int, Option(min=1, metavar="ROWS", help=SAMPLE)] = 100_000,
    image_size: options.ImageSize = None,
    epochs: options.Epochs = None,
    seed: options.Seed = 0,
    force: Annotated[bool, Option("--force", help=FORCE)] = False,
    as_json: options.Json = False,
) -> None:
    """Fit a classifier that withstands wrong labels, and save it.

    Prints how the labels are flipped (T), the models that were compared, which
    of them was chosen and why, and its accuracy on clean labels, estimated from
    noisy ones.
    Rows without a label are counted and left out.
    Without --test, a fifth of the rows is held out for this estimate and not
    trained on; with --out-of-core, at most 100,000 rows.

    Example: unflip fit people.csv --label job --out model

    Example: unflip fit people.csv --label job --out model --model trees

    Example: unflip fit people.csv --label job --out model --predict-missing rest.csv

    Example: unflip fit people.csv --label-columns ann,bob,eve --out model

    Example: unflip fit people/ --label job --out model --out-of-core
    """
    if out_of_core := out_of_core or dask is not None:
        _check_out_of_core(model, method, network, transition, epochs, image_size, predict_missing)
        terminal.one_label_only(label_columns, item, annotator)
    if predict_missing is not None and (label_columns is not None or item is not None):
        hint = "rows without a label of any annotator are left out; save them as a table for unflip predict"
        raise typer.BadParameter(hint, param_hint="--predict-missing")
    with terminal.one_sentence():
        from unflip._output import together
        from unflip.commands import fit_out_of_core, fit_table, write_fit_page
        from unflip.commands.fit import resolve_model
        from unflip.models.folder import check_same_model

        method, trained = resolve_model(model, method, network)
        _check(trained, epochs, out, page, predict_missing)
        same = (lambda *_: None) if force else partial(check_same_model, out, terminal.called(data, whole=False))
        same(label)  # before the work
        predicted: Counter[Any] | None = None
        with terminal.steps(trained) as tell:
            name = terminal.called(data, whole=False)
            columns = (label, weights, None, image_size)
            tested = None if test is None else partial(terminal.read, test, *columns, encoding=encoding)
            further: dict[str, Any] = {"test": tested, "random_state": seed, "tell": tell}
            if out_of_core:
                T = None if transition == "auto" else transition
                further |= {"weights": weights, "drop": drop or (), "sample_size": sample, "dask": dask}
                further |= {
                    "encoding": encoding,
                    "text": "lsa" if text == "tfidf" else str(text),
                }  # which sums can hold
                fitted = fit_out_of_core(data, terminal.required(label, data), transition=T, **further)
            else:
                tell(f"reading {terminal.called(data)}")
                several = (label_columns, item, annotator)
                table = terminal.read(
                    data, label, weights, drop, image_size, text=text, encoding=encoding, several=several
                )
                T, label = terminal.read_matrix(transition, table, trained, seed), table.label
                same(label, table.y)
                further |= {"epochs": epochs, "progress": terminal.progress(as_json)}
                fitted = fit_table(table, method=method, network=trained, transition=T, **further)
            fitted.model.metadata_ = {"data": name, "label": label, **fitted.model.metadata_}
            same(label, fitted.model.classes_)
            with together():
                path = fitted.model.save(out)
                if predict_missing is not None:
                    predicted = _predict_missing(fitted.model, table, predict_missing, raw)
                if page is not None:
                    page = write_fit_page(fitted, page, title=name)
    seconds = terminal.seconds()
    if as_json:
        counts = None if predicted is None else {str(k): predicted[k] for k in fitted.model.classes_.tolist()}
        more = {} if counts is None else {"predicted": counts}
        terminal.print_json({"model": str(path), **_document(fitted), **more, "seconds": seconds})
    else:
        _print(fitted, transition == "auto")
        typer.echo(f"Model: {terminal.shown(out)} ({fitted.n_train:,} rows, {seconds:.1f} s)")
        if predicted is not None and predicted:
            where = terminal.shown(predict_missing)
            typer.echo(f"{predicted.total():,} predictions for rows without a label: {where}")
        elif predicted is not None:
            typer.echo("Every row has a label, so that there is nothing to predict")
        if page is not None:
            typer.echo(f"Page: {terminal.shown(page)}")


def _predict_missing(model: Any, table: Any, out: Path, raw: bool) -> "Counter[Any]":
    """Write the predictions for the rows without a label, and return how many are in each class."""
    from unflip.commands import predict_table, write_predictions

    if table.unlabeled is None:
        return Counter()
    predicted, proba = predict_table(model, table.unlabeled)
    write_predictions(out, table.unlabeled, predicted, proba, model.classes_, raw)
    return Counter(predicted.tolist())


def _check_out_of_core(
    model: str | None,
    method: str | None,
    network: str | None,
    transition: str,
    epochs: int | None,
    size: str | None,
    missing: Path | None,
) -> None:
    if model not in (None, "mcldce") or method not in (None, "mcldce") or network not in (None, "linear"):
        named = [name for name in (model, method, network) if name not in (None, "mcldce", "linear")]
        raise typer.BadParameter(
            f"only model mcldce is a sum over the rows, which can be computed in blocks; got {', '.join(named)}",
            param_hint="--out-of-core",
        )
    if transition in registry.names("transition"):
        raise typer.BadParameter("with --out-of-core it must be auto or a file", param_hint="--transition")
    if missing is not None:
        raise typer.BadParameter(
            "with --out-of-core, rows without a label are only counted; run unflip predict MODEL DATA afterwards",
            param_hint="--predict-missing",
        )
    for name, value in (("--epochs", epochs), ("--image-size", size)):
        if value is not None:
            raise typer.BadParameter("it has no meaning with --out-of-core; leave it out", param_hint=name)


def _check(network: str, epochs: int | None, out: Path, page: Path | None, missing: Path | None) -> None:
    """Refuse, before any work is done, what cannot be fitted or written."""
    from unflip._output import check_output
    from unflip.commands.fit import PAGE as FILES
    from unflip.commands.fit import check_network
    from unflip.commands.folders import check_folder
    from unflip.models.folder import check_model_folder

    check_network(network, epochs)
    check_model_folder(out)
    model = Path(os.path.realpath(out))
    if missing is not None:
        if str(missing) == "-":
            raise ValueError("--predict-missing needs a file, because standard output tells of the fit")
        check_output(missing)
        if model in Path(os.path.realpath(missing)).parents:
            raise ValueError(f"{missing} would be inside the folder of the model, {out}; choose another place")
    if page is not None:
        check_folder(page, FILES)
        place = Path(os.path.realpath(page))
        if model in (place, *place.parents):
            raise ValueError(f"the page {page} would be inside the folder of the model, {out}; choose another folder")


def _print(fitted: "FittedTable", estimated: bool) -> None:
    from unflip.commands.out_of_core import SAMPLED

    console = Console()
    terminal.print_noise(console, fitted.noise)
    if fitted.candidates:
        terminal.print_candidates(console, fitted.n_train, fitted.candidates)
    terminal.print_accuracies(console, fitted.n_test, fitted.scores)
    terminal.print_notes(fitted.noise.notes)
    terminal.print_findings(fitted.findings)
    terminal.print_unused(fitted.unused)
    rows = fitted.model.metadata_.get(SAMPLED)
    if rows is not None:
        what = "medians, deviations, categories and T" if estimated else "medians, deviations and categories"
        typer.echo(f"Learned from a uniform sample of {rows:,} rows: {what}.")


def _document(fitted: "FittedTable") -> dict[str, Any]:
    from unflip.commands.fit import CALLED, candidate_records, interval
    from unflip.commands.out_of_core import SAMPLED

    baseline, sampled = fitted.baseline, fitted.model.metadata_.get(SAMPLED)
    return {
        "method": fitted.method,
        "network": None if fitted.method in CALLED else fitted.network,
        **fitted.noise.as_json(),
        "clean_accuracy": interval(fitted.accuracy),
        "baseline": None if baseline is None else {**interval(baseline), "learner": fitted.baseline_name},
        "candidates": candidate_records(fitted.candidates),
        "n_train": fitted.n_train,
        "n_test": fitted.n_test,
        "unused": fitted.unused,
        "findings": [finding.as_json() for finding in fitted.findings],
        **({} if sampled is None else {"n_sample": sampled}),
    }
