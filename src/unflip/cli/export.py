"""``unflip export``: a saved model for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from unflip.cli.options import Json, SavedModel
from unflip.cli.terminal import one_sentence, print_json, shown


def export(
    model: SavedModel,
    onnx: Annotated[Path, typer.Option(metavar="FILE", help="ONNX file to write. Needs the extra onnx of unflip.")],
    as_json: Json = False,
) -> None:
    """Write a saved model as an ONNX file, which runs without Python.

    Linear and logistic models, trees, forests, their blends and the network
    mlp can be exported; columns of free text and other networks cannot.
    The outputs are the label and the probabilities of the classes. A model of
    a table has one input per column: numbers (NaN if missing) and strings
    (empty if missing), written as in the training data.

    Example: unflip export model --onnx model.onnx
    """
    with one_sentence():
        from unflip.commands.export import export_model

        found = export_model(model, onnx)
    if as_json:
        print_json({"onnx": str(onnx), **found})
        return
    for what, values in found.items():
        for name, kind in values.items():
            typer.echo(f"{what[:-1]} {shown(name)}: {kind}")
    typer.echo(f"ONNX: {shown(onnx)}")
