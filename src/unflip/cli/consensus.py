"""``unflip consensus``: what several annotators say together, and how good each of them is."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unflip.cli import options, terminal

SHOWN = 10  # annotators and rows on the terminal


def consensus(
    data: options.Data,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the lists and the page.")],
    label_columns: options.LabelColumns = None,
    item: options.Item = None,
    annotator: options.AnnotatorColumn = None,
    label: options.Label = None,
    encoding: options.Encoding = None,
    raw: options.Raw = False,
    as_json: options.Json = False,
) -> None:
    """Combine the labels of several annotators, and rate the annotators.

    FOLDER will contain consensus.csv (each row's label with its
    probability), annotators.csv (their quality, and how much of each class they
    labeled), confusions.csv (what each of them says about each class), next.csv
    (the rows for which one more label would tell most), summary.json and
    index.html. Other columns are not used; unflip fit and unflip audit use them
    as further evidence.

    Example: unflip consensus people.csv --label-columns ann,bob,eve --out consensus

    Example: unflip consensus labels.csv --item photo --annotator who --label animal --out consensus
    """
    with terminal.one_sentence():
        from unflip.commands import write_consensus
        from unflip.commands.consensus import FILES, split_names
        from unflip.commands.folders import check_folder
        from unflip.crowd import AnnotatorModel

        if not split_names(label_columns, item, annotator, label):
            raise ValueError("give --label-columns, or --item, --annotator and --label")
        check_folder(out, FILES)
        with terminal.steps("linear") as tell:
            tell(f"reading {terminal.called(data)}")
            several = (label_columns, item, annotator)
            table = terminal.read(data, label, None, None, None, encoding=encoding, several=several)
            tell(f"joining {len(table.annotations.codes):,} labels")
            crowd = AnnotatorModel().fit(table.annotations)
            tell(f"writing {out}")
            summary = write_consensus(crowd, table.names, out, title=terminal.called(data, whole=False), raw=raw)
    if as_json:
        terminal.print_json(summary)
        return
    console = Console()
    counts = f"{summary['labels']:,} labels of {summary['rows']:,} rows by {summary['annotators']:,} annotators"
    alpha = "" if summary["krippendorff_alpha"] is None else f"; agreement {summary['krippendorff_alpha']:.2f} (alpha)"
    console.print(f"{counts}{alpha}", highlight=False)
    console.print(
        f"About {summary['expected_accuracy']:.1%} of the consensus labels are right. Errors that all annotators share "
        "do not show in labels.",
        highlight=False,
    )
    order = crowd.quality_.argsort(kind="stable")
    quality = terminal.plain_table("annotator", right=("labels", "quality"))
    for k in order[:SHOWN]:
        quality.add_row(terminal.cell(crowd.annotators_[k]), f"{crowd.n_labels_[k]:,}", f"{crowd.quality_[k]:.1%}")
    console.print(f"\nAnnotators, {'worst first' if len(order) <= SHOWN else f'the worst {SHOWN}'}", highlight=False)
    console.print(quality)
    rows = terminal.plain_table("row", "consensus", right=("probability", "labels"))
    given = crowd.annotations_.counts.sum(axis=1)
    for i in crowd.next_rows(SHOWN):
        cells = (terminal.cell(table.names[i]), terminal.cell(crowd.consensus_[i]))
        rows.add_row(*cells, f"{crowd.confidence_[i]:.2f}", f"{given[i]:.0f}")
    console.print("\nLabel these rows next", highlight=False)
    console.print(rows)
    if summary["pairs_dependent"]:
        first = summary["dependent"][0]
        typer.echo(
            f"{summary['pairs_dependent']:,} of {summary['pairs_tested']:,} pairs of annotators agree more often than "
            f"independent ones would, {first['first']} and {first['second']} most of all: what they say "
            "together may count for too much."
        )
    typer.echo(f"Page: {terminal.shown(out / 'index.html')}")
