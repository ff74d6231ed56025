"""``unflip apply``: the data with corrected labels."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from unflip.cli import options, terminal

CORRECTIONS = "suspects.csv of an audit, the CSV file that its page exports, or an export of Label Studio or Argilla."
TO = "The data that were audited: a table, an NPZ file or a folder of images."
OUT = "The copy with corrected labels, of the same kind."
LABEL = "Column of the labels. By default, the one that the audit noted, or that agrees with it."
ID = "Column that names the rows, as in unflip audit --id."
LEAST = "Apply only suggestions with at least this probability that the given label is wrong."
LOG = "CSV file of the changes."


def apply(
    corrections: Annotated[Path, typer.Argument(metavar="CORRECTIONS", help=CORRECTIONS)],
    to: Annotated[Path, Option(metavar="DATA", help=TO)],
    out: Annotated[Path, Option(metavar="FILE", help=OUT)],
    label: Annotated[str | None, Option(metavar="COLUMN", help=LABEL, show_default=False)] = None,
    id_: Annotated[str | None, Option("--id", metavar="COLUMN", help=ID, show_default=False)] = None,
    min_probability: Annotated[float, Option(min=0, max=1, help=LEAST)] = 0.0,
    log: Annotated[Path | None, Option(metavar="FILE", help=LOG, show_default="OUT.changes.csv")] = None,
    encoding: options.Encoding = None,
    as_json: options.Json = False,
) -> None:
    """Apply reviewed corrections: write a copy of the data with corrected labels.

    Every row of suspects.csv counts as accepted: delete those that you reject,
    or add a column "accepted" with yes or no. Everything but the labels stays
    as it is, and a log lists what changed.

    Example: unflip apply audit/suspects.csv --to people.csv --out clean.csv
    """
    with terminal.one_sentence():
        from unflip.commands import apply_corrections
        from unflip.tables.read import many

        done = apply_corrections(
            corrections, to, out, label=label, id=id_, least=min_probability, log=log, encoding=encoding
        )
    n = len(done.changes)
    if as_json:
        counts = {"n_rows": done.n_rows, "changed": n, "confirmed": done.kept, "changed_before": done.done}
        terminal.print_json({"out": str(out), "log": str(done.log), "label": done.label, **counts})
        return
    typer.echo(f"{n:,} of {done.n_rows:,} labels changed: {terminal.shown(out)}")
    if done.kept:
        typer.echo(f"{many(done.kept, 'label was', 'labels were')} confirmed.")
    if done.done:
        typer.echo(f"{many(done.done, 'label', 'labels')} had been changed before.")
    typer.echo(f"Log: {terminal.shown(done.log)}")
