"""A saved model on a new table: predictions and probabilities, in blocks, to a CSV or Parquet file."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from unflip._output import check_output, write_columns, written_columns
from unflip._validation import FloatArray
from unflip.sources.block import Block
from unflip.sources.csv_frames import mixed_columns
from unflip.sources.frames import FrameSource, open_frames, table_files
from unflip.sources.parquet_frames import ParquetFile
from unflip.tables import Table, read_table

BLOCK = 8192  # rows; the preprocessed numbers of no more than these are in memory


def read_for(model: Any, path: str | os.PathLike[str]) -> Table:
    """Read samples for a fitted model, without labels; images of a folder in the size that it was trained on."""
    shape = getattr(model, "metadata_", {}).get("image shape")
    size = (int(shape[1]), int(shape[2])) if shape and Path(path).is_dir() else None
    return read_table(path, False, image_size=size)


def predict_table(model: Any, table: Table, block: int = BLOCK) -> tuple[NDArray[Any], FloatArray]:
    """Return the most likely clean labels, shape (n,), and P(clean class | x), shape (n, n_classes).

    The columns of a data frame are known by name; one that the model needs and that is not there is named.

    Parameters
    ----------
    model : classifier
        What :func:`unflip.load` gives.
    table : Table
    block : int, default=8192
        Rows at once.
    """
    _check_predicts(model)
    X = _samples(model, table.X)
    starts = range(0, len(X), block)
    blocks = [model.predict_proba(_safe_indexing(X, slice(start, start + block))) for start in starts]
    proba = np.concatenate(blocks)
    predicted: NDArray[Any] = model.classes_[proba.argmax(axis=1)]
    return predicted, proba


def predict_files(
    model: Any, path: str | os.PathLike[str], out: str | os.PathLike[str], block: int = BLOCK
) -> Counter[Any]:
    """Predict a table of any size, and return how many of its rows are predicted to be of each class.

    The output is that of :func:`predict_table` and :func:`write_predictions`, and appears whole or not at all; a block
    of rows is in memory. Rows of several files are named by their number, counted on from file to file.

    Parameters
    ----------
    model : classifier
        What :func:`unflip.load` gives.
    path : path-like
        A Parquet or CSV file, a folder of them, or a pattern such as ``data/*.parquet``.
    out : path-like
        ``.csv``, ``.tsv`` or ``.parquet``.
    block : int, default=8192
        Rows at once.

    Notes
    -----
    If a column of a text file looks like numbers in some blocks and not in others, it is text, as it is for
    :func:`unflip.tables.read_table`. That shows at the end, and the file is read again.
    """
    _check_predicts(model)
    target = check_output(out)
    if target.exists() and any(target.samefile(file) for file in table_files(path)):
        raise ValueError(f"{target} is DATA itself; choose another file for the predictions")
    source = open_frames(path, rows=block)
    needed = _needed(model)
    if all(isinstance(file, ParquetFile) and set(needed or [""]) <= set(file.names) for file in source.files):
        source = source.only(needed)  # the other columns are not read
    several = len(source.files) > 1
    try:
        return _predict_blocks(model, source, target, several)
    except _ReadAgain as found:
        return _predict_blocks(model, source.as_text(found.text), target, several or found.counted)


def is_streamed(model: Any, path: str | os.PathLike[str]) -> bool:
    """Return whether :func:`predict_files` reads this path: not arrays and images, which are read whole."""
    if "image shape" in getattr(model, "metadata_", {}):
        return False
    try:
        return bool(table_files(path))
    except ValueError:
        return False


def write_predictions(
    path: str | os.PathLike[str], table: Table, predicted: NDArray[Any], proba: FloatArray, classes: NDArray[Any]
) -> Path:
    """Write ``name``, ``prediction`` and a column ``probability_CLASS`` a class, as CSV or Parquet by the suffix."""
    return write_columns(path, _columns(table.names, predicted, proba, classes))


class _ReadAgain(Exception):
    """Blocks showed that those before them had been read in another way than the whole file is."""

    def __init__(self, text: frozenset[str], counted: bool) -> None:
        super().__init__(text, counted)
        self.text, self.counted = text, counted


def _predict_blocks(model: Any, source: FrameSource, out: Path, counted: bool) -> Counter[Any]:
    predictions: Counter[Any] = Counter()
    matters = {"", *(_needed(model) or (name for file in source.files for name in file.names))}
    seen: dict[tuple[str, str], str] = {}
    n = 0
    misnamed = False
    with written_columns(out) as write:
        for block in (block for part in source.whole_files() for block in part.blocks() if len(block)):
            seen = {(name, kind): block.where for name, kind in block.X.kinds.items() if name in matters} | seen
            names = np.asarray(block.X.frame.index)
            own = names.ndim == 1 and names.dtype.kind in "iuOU"
            counted = counted or (n == 0 and not own)
            misnamed = misnamed or not (counted or own)
            if misnamed or mixed_columns(seen):
                continue  # only to see which other columns are
            predicted, proba = _predict_block(model, block)
            write(_columns(np.arange(n, n + len(block)) if counted else names, predicted, proba, model.classes_))
            predictions.update(predicted.tolist())
            n += len(block)
        text = frozenset(mixed_columns(seen))
        if text or misnamed:
            raise _ReadAgain(text, misnamed and "" not in text)
        if n == 0:
            path = source.files[0].path
            raise ValueError(f"{path} is empty: it has {len(source.files[0].names)} columns and no rows")
    return predictions


def _needed(model: Any) -> list[str]:
    """The columns of a data frame that the model reads; none if it does not say so."""
    preprocessor: Any = getattr(model, "preprocessor_", None)
    if not hasattr(preprocessor, "feature_names_in_"):
        return []
    return [*preprocessor.numbers_, *preprocessor.categories_]


def _predict_block(model: Any, block: Block) -> tuple[NDArray[Any], FloatArray]:
    try:
        proba = model.predict_proba(block.X.numbered())
    except ValueError as error:
        if block.start == 0 and block.X.files[0] == 0:
            raise
        block.refuse(str(error))
    return model.classes_[proba.argmax(axis=1)], proba


def _columns(
    names: NDArray[Any], predicted: NDArray[Any], proba: FloatArray, classes: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    columns = {"name": names, "prediction": predicted}
    return columns | {f"probability_{name}": proba[:, k] for k, name in enumerate(classes.tolist())}


def _check_predicts(model: Any) -> None:
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"the model is a {type(model).__name__}, which predicts nothing")


def _samples(model: Any, X: Any) -> Any:
    if np.ndim(X) < 3:
        return X
    shape = getattr(model, "metadata_", {}).get("image shape")
    if shape is not None:
        if X.shape[1] == 1 and shape[0] == 3:  # a folder of grey images alone
            X = np.repeat(X, 3, axis=1)
        if list(X.shape[1:]) != list(shape):
            raise ValueError(
                f"the model was trained on images of channels x height x width {'x'.join(map(str, shape))}, these are "
                f"{'x'.join(map(str, X.shape[1:]))}; give images of the same kind"
            )
    flat = getattr(model, "preprocessor_", None) is not None or not hasattr(
        getattr(model, "classifier_", model), "input_shape_"
    )
    return X.reshape(len(X), -1) if flat else X
