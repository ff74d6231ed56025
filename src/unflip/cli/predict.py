"""``unflip predict``: what a saved model says about new rows."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from unflip.cli.options import Data, Encoding, Json, Raw, SavedModel
from unflip.cli.terminal import called, one_sentence, print_json, shown, steps

OUT = "File for the predictions; its suffix chooses CSV, TSV or Parquet. - writes CSV to standard output."
ABSTAIN = "Leave the prediction empty where the most likely class is less likely than this."


def predict(
    model: SavedModel,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help=OUT)],
    abstain_below: Annotated[float | None, typer.Option(min=0, max=1, metavar="P", help=ABSTAIN)] = None,
    encoding: Encoding = None,
    raw: Raw = False,
    as_json: Json = False,
) -> None:
    """Predict the clean label of each row, with one probability per class.

    Columns are found by name: their order does not matter, and others, such
    as the labels, are ignored. Tables are read and written in blocks of rows,
    so they may be larger than memory.

    Example: unflip predict model people.csv --out predictions.csv

    Example: unflip predict model people.csv --out sure.csv --abstain-below 0.9
    """
    with one_sentence():
        from unflip._output import check_output
        from unflip.commands import predict_files, predict_table, read_for, write_predictions
        from unflip.commands.predict import is_streamed
        from unflip.models import load

        check_output(out)
        if as_json and str(out) == "-":
            raise ValueError("--json and --out - both write to standard output; choose one of them")
        with steps() as tell:
            fitted = load(model)
            if is_streamed(fitted, data):
                tell(f"predicting {called(data)}")
                found = predict_files(fitted, data, out, threshold=abstain_below, encoding=encoding, raw=raw)
            else:
                tell(f"reading {called(data)}")
                table = read_for(fitted, data, encoding=encoding)
                tell(f"predicting {len(table.names):,} rows")
                predicted, proba = predict_table(fitted, table, threshold=abstain_below)
                write_predictions(out, table, predicted, proba, fitted.classes_, raw)
                found = Counter(predicted.tolist())
    if as_json:
        counts = {str(name): found[name] for name in fitted.classes_.tolist()}
        print_json({"out": str(out), "n_rows": found.total(), "abstained": found[None], "predicted": counts})
    else:
        abstained = "" if abstain_below is None else f" ({found[None]:,} abstained)"
        typer.echo(f"{found.total() - found[None]:,} predictions{abstained}: {shown(out)}", err=str(out) == "-")
