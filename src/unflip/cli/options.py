"""Options that several commands have."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Network(StrEnum):
    linear = "linear"
    mlp = "mlp"
    cnn6 = "cnn6"


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="CSV, TSV, Parquet or NPZ file, or a folder with a folder of images for each class."
    ),
]
Label = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of the labels; of an NPZ their key. Folders name them themselves."),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Leave this column out. May be repeated.")]
ImageSize = Annotated[
    str | None, typer.Option(metavar="HEIGHTxWIDTH", help="Resize the images of a folder, such as 32x32.")
]
NetworkOption = Annotated[Network, typer.Option(help="What learns. Networks need PyTorch; cnn6 is for images.")]
Transition = Annotated[
    str,
    typer.Option(metavar="auto|FILE", help="T = P(given label | clean label) as JSON, CSV or NPY; auto estimates it."),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Epochs of a network; to estimate T takes its own.",
        show_default="by the size of the data",
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 2, help="Same seed, same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def read(
    data: Path,
    label: str | None,
    weights: str | None = None,
    drop: list[str] | None = None,
    image_size: str | None = None,
) -> Any:
    """Read DATA with its labels."""
    from unflip.tables import read_table

    is_file = data.is_file() and data.suffix.lower() != ".npz"
    if is_file and label is None:
        raise ValueError(f"{data} needs --label COLUMN, the column of its labels")
    return read_table(data, label, weights, drop or (), image_size=_size(image_size))


def read_matrix(transition: str, table: Any) -> Any:
    """Return T of a file, in the order of the classes, or None for "auto"."""
    if transition == "auto":
        return None
    import numpy as np

    from unflip.commands import read_transition
    from unflip.commands.learners import labels

    return read_transition(transition, np.unique(labels(table)))


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    height, cross, width = text.lower().partition("x")
    if not (cross and height.isdecimal() and width.isdecimal() and int(height) and int(width)):
        raise typer.BadParameter(f"it must be HEIGHTxWIDTH, such as 32x32; got {text!r}", param_hint="--image-size")
    return int(height), int(width)
