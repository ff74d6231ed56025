"""Options that several commands have."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Network(StrEnum):
    linear = "linear"
    mlp = "mlp"
    cnn6 = "cnn6"


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="CSV, TSV, Parquet or NPZ file, or a folder with one folder of images per class."
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.")]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Column of the labels, or their key in an NPZ file. Folders are their own labels."
    ),
]
Weights = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the sample weights.")]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Leave this column out. May be repeated.")]
ImageSize = Annotated[
    str | None, typer.Option(metavar="HEIGHTxWIDTH", help="Resize the images of a folder, for example to 32x32.")
]
NetworkOption = Annotated[Network, typer.Option(help="The model to train. Networks need PyTorch; cnn6 is for images.")]
Transition = Annotated[
    str,
    typer.Option(metavar="auto|FILE", help="T = P(given label | clean label) as JSON, CSV or NPY; auto estimates it."),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1, help="Epochs of a network. Estimating T has its own number.", show_default="by the size of the data"
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 2, help="The same seed gives the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
