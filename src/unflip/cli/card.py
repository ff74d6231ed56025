"""``unflip card``: what a saved model is."""

from pathlib import Path
from typing import Annotated

import typer

from unflip.cli.options import Json, SavedModel
from unflip.cli.terminal import one_sentence, print_json, shown


def card(
    model: SavedModel,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it here instead of printing it.")] = None,
    as_json: Json = False,
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
    if as_json:
        print_json({"model": str(model), "out": None if out is None else str(out), "markdown": text})
        return
    typer.echo(text if out is None else f"Card: {shown(out)}", nl=out is not None)
