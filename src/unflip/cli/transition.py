"""``unflip transition``: how the labels of a table are flipped."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unflip import registry
from unflip.cli.options import (
    ESTIMATORS,
    AnnotatorColumn,
    Data,
    Drop,
    Encoding,
    ImageSize,
    Item,
    Json,
    Label,
    LabelColumns,
    NetworkOption,
    Seed,
    Text,
    TextOption,
    Weights,
)
from unflip.cli.terminal import (
    called,
    one_sentence,
    print_findings,
    print_json,
    print_noise,
    print_notes,
    print_unused_of,
    progress,
    read,
    shown,
    steps,
)


def transition(
    data: Data,
    label: Label = None,
    label_columns: LabelColumns = None,
    item: Item = None,
    annotator: AnnotatorColumn = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write T here as JSON, CSV, SVG and PNG.")] = None,
    network: NetworkOption = None,
    method: Annotated[
        str | None, typer.Option(help=f"Estimator of T: {ESTIMATORS}.", show_default="by --network")
    ] = None,
    weights: Weights = None,
    drop: Drop = None,
    encoding: Encoding = None,
    text: TextOption = Text.tfidf,
    image_size: ImageSize = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Estimate how the labels are flipped: T = P(given label | clean label).

    The other commands take the output of --json as --transition FILE.

    Example: unflip transition people.csv --label job --json > T.json
    """
    with one_sentence():
        from unflip.commands import find_noise, write_transition
        from unflip.commands.folders import check_folder
        from unflip.commands.transition import FILES

        if method is not None:
            registry.find(method, "transition")  # an unknown name is refused before the work
        if out is not None:
            import unflip.report.figures  # noqa: F401 - if matplotlib is missing, say so before the work

            check_folder(out, FILES)
        trained = "linear" if network is None else network.value
        with steps(trained) as tell:
            tell(f"reading {called(data)}")
            several = (label_columns, item, annotator)
            table = read(data, label, weights, drop, image_size, text=text, encoding=encoding, several=several)
            tell(f"estimating T from {len(table.names):,} rows")
            bars = progress(as_json)
            noise = find_noise(table, network=network, method=method, random_state=seed, progress=bars)
            if out is not None:
                write_transition(noise, out)
    if as_json:
        print_json(noise.as_json() | {"findings": [finding.as_json() for finding in table.findings]})
        return
    print_noise(Console(), noise)
    print_notes(noise.notes)
    print_findings(table.findings)
    print_unused_of(table, trained)
    if out is not None:
        typer.echo(f"T: {shown(out)}")
