"""``unflip predict`` and ``unflip card``: what a saved model says, and what it is."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from unflip.cli.options import Json
from unflip.cli.terminal import one_sentence, plain, print_json, steps

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.")]


def predict(
    model: Model,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="CSV, TSV or Parquet file, a folder or a pattern of them; NPZ file, or a folder of images.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="CSV, TSV or Parquet file, by its suffix.")],
    as_json: Json = False,
) -> None:
    """Predict the clean label of each row, with a probability for each class.

    The columns are known by name: their order does not matter, further ones,
    such as the labels, are ignored. Tables are read and written in blocks of
    rows, and may be larger than memory.

    Example: unflip predict model people.csv --out predictions.csv
    """
    with one_sentence():
        from unflip._output import check_output
        from unflip.commands import predict_files, predict_table, read_for, write_predictions
        from unflip.commands.predict import is_streamed
        from unflip.models import load

        check_output(out)
        if out.exists() and data.exists() and out.samefile(data):
            raise ValueError(f"{out} is DATA itself; choose another file for the predictions")
        with steps() as tell:
            fitted = load(model)
            if is_streamed(fitted, data):
                tell(f"predicting {data}")
                found = predict_files(fitted, data, out)
            else:
                tell(f"reading {data}")
                table = read_for(fitted, data)
                tell(f"predicting {len(table.X):,} rows")
                predicted, proba = predict_table(fitted, table)
                write_predictions(out, table, predicted, proba, fitted.classes_)
                found = Counter(predicted.tolist())
    counts = {str(name): found[name] for name in fitted.classes_.tolist()}
    if as_json:
        print_json({"out": str(out), "n_rows": found.total(), "predicted": counts})
        return
    typer.echo(f"{found.total():,} predictions: {plain(out)}")


def card(
    model: Model,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it here instead of printing it.", show_default=False)
    ] = None,
) -> None:
    """Describe a saved model in Markdown: its data, the noise found, the estimated accuracy, its limits.

    Example: unflip card model --out model-card.md
    """
    with one_sentence():
        from unflip._output import write_whole
        from unflip.models import card as describe

        text = describe(model)
        if out is not None:
            write_whole(out, text)
    typer.echo(text if out is None else f"Card: {plain(out)}", nl=out is not None)
