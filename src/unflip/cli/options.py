"""Options that several commands have."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from unflip import registry

Network = StrEnum("Network", ("linear", "mlp", "cnn6"))
Text = StrEnum("Text", ("tfidf", "lsa", "wordllama"))
Model = StrEnum("Model", ("auto", "logistic", "trees", "forest", "mcldce", "mlp", "cnn6"))
ESTIMATORS = ", ".join(registry.names("transition"))
DATA = (
    "CSV, TSV, JSON Lines, Parquet, Arrow or NPZ file; several files with the same columns, or a pattern such as "
    "'data/*.csv'; - for standard input; or a folder of images, one folder per class."
)
ENCODING = "Encoding of text files, such as cp1251. UTF-8, UTF-16 with a byte order mark and cp1252 are detected."
T = (
    "T = P(given label | clean label): a JSON, CSV or NPY file, or the name of an estimator of T; auto chooses one. "
    f"The estimators are {ESTIMATORS}."
)
EPOCHS = "Epochs of a network. The estimate of T uses its own number of epochs."
Data = Annotated[list[Path], Argument(metavar="DATA...", help=DATA, show_default=False)]
Encoding = Annotated[str | None, Option(metavar="NAME", help=ENCODING)]
SavedModel = Annotated[Path, Argument(metavar="MODEL", help="Folder of a saved model.")]
Label = Annotated[str | None, Option(metavar="COLUMN", help="Column of the labels, or their key in an NPZ file.")]
LABEL_COLUMNS = (
    "Columns of the labels of several annotators or rules, separated by commas; empty cells are missing labels."
)
LabelColumns = Annotated[str | None, Option(metavar="COLUMN,COLUMN,...", help=LABEL_COLUMNS)]
ITEM = "Long form, one line per label: the column that names the item. With --annotator and --label."
Item = Annotated[str | None, Option(metavar="COLUMN", help=ITEM)]
AnnotatorColumn = Annotated[str | None, Option(metavar="COLUMN", help="Long form: the column of the annotator.")]
Weights = Annotated[str | None, Option(metavar="COLUMN", help="Column of the sample weights.")]
Drop = Annotated[list[str] | None, Option(metavar="COLUMN", help="Leave this column out. May be repeated.")]
ImageSize = Annotated[str | None, Option(metavar="HEIGHTxWIDTH", help="Resize the images of a folder, e.g. to 32x32.")]
TEXT = (
    "How to turn columns of free text into features: TF-IDF of words and characters, its 100 main directions (lsa), or "
    "static embeddings (wordllama, which needs the extra text of unflip)."
)
TextOption = Annotated[Text, Option("--text", help=TEXT)]
MODEL = (
    "auto compares several models, corrected and as they are, and takes the best. logistic, trees and forest are "
    "corrected for the noise; mcldce is the closed form; networks need PyTorch, and cnn6 is for images."
)
NETWORK = "For researchers: train a linear model or this network. Networks need PyTorch; cnn6 is for images."
ModelOption = Annotated[Model | None, Option(help=MODEL, show_default="auto")]
NetworkOption = Annotated[Network | None, Option(help=NETWORK, show_default="by the other options")]
Transition = Annotated[str, Option(metavar="auto|FILE|NAME", help=T)]
Epochs = Annotated[int | None, Option(min=1, help=EPOCHS, show_default="by the size of the data")]
Seed = Annotated[int, Option(min=0, max=2**32 - 2, help="The same seed gives the same result.")]
RAW = "Write text as it is. By default, text that a spreadsheet takes for a formula gets an apostrophe in CSV files."
Raw = Annotated[bool, Option("--raw", help=RAW)]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
