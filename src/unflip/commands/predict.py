"""Apply a saved model to a new table: predictions and probabilities, in blocks, to a CSV or Parquet file."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from unflip._output import check_output, write_columns, written_columns
from unflip._validation import FloatArray
from unflip.tables import Table, read_table
from unflip.tables.arrow import ArrowFile
from unflip.tables.sources import open_tables, settled, table_files

BLOCK = 8192  # rows; the preprocessed numbers of no more than these are in memory


def read_for(model: Any, path: Any, encoding: str | None = None) -> Table:
    """Read samples for a fitted model, without labels.

    Columns are read with the kinds the model knows, and images are resized to its input size.
    """
    shape = getattr(model, "metadata_", {}).get("image shape")
    first = path[0] if isinstance(path, list | tuple) else path
    size = (int(shape[1]), int(shape[2])) if shape and Path(first).is_dir() else None
    return read_table(path, False, image_size=size, kinds=getattr(model, "kinds", {}), encoding=encoding)


def predict_table(
    model: Any, table: Table, block: int = BLOCK, *, threshold: float | None = None
) -> tuple[NDArray[Any], FloatArray]:
    """Return the most likely clean labels, shape (n,), and P(clean class | x), shape (n, n_classes).

    ``model`` is what :func:`unflip.load` returns, and ``block`` the number of rows to predict at once. The columns of a
    data frame are found by name; an error names a column that the model needs and the table lacks. With a
    ``threshold``, the model abstains where no class is as likely: the labels are a masked array, without a label there.
    """
    _check_predicts(model, threshold)
    X = _samples(model, table.X)
    starts = range(0, X.shape[0], block)
    proba = np.concatenate([model.predict_proba(_safe_indexing(X, slice(k, k + block))) for k in starts])
    return _labels(model, proba, threshold), proba


def predict_files(
    model: Any,
    path: Any,
    out: str | os.PathLike[str],
    block: int = BLOCK,
    *,
    threshold: float | None = None,
    encoding: str | None = None,
    raw: bool = False,
) -> Counter[Any]:
    """Predict a table of any size, and return how many of its rows are predicted to be in each class.

    Rows for which the model abstains are counted under None.

    The output is that of :func:`predict_table` and :func:`write_predictions`, and appears whole or not at all; only one
    block of rows is in memory. Rows of several files are named by their number, which continues from file to file.

    Parameters
    ----------
    model, block, threshold
        As in :func:`predict_table`.
    path : path-like or list of them
        A Parquet, Arrow, CSV or JSON Lines file, a folder of them, a pattern such as ``data/*.parquet``, or "-" for
        standard input.
    out : path-like
        ``.csv``, ``.tsv`` or ``.parquet``, or "-" for CSV on standard output.
    encoding : str, default=None
        As in :func:`unflip.tables.read_table`.
    raw : bool, default=False
        Write text as it is. If False, text that a spreadsheet would take for a formula gets an apostrophe in CSV files.
    """
    _check_predicts(model, threshold)
    target = check_output(out)
    if target.exists() and any(target.samefile(file) for file in table_files(path)):
        raise ValueError(f"{target} is DATA itself; choose another file for the predictions")
    kinds = getattr(model, "kinds", {})
    source = open_tables(path, rows=block, kinds=kinds, encoding=encoding)
    counted = len(source.files) > 1
    if not kinds:
        source = settled(source)
    elif all(isinstance(file, ArrowFile) and kinds.keys() <= set(file.names) for file in source.files):
        source = source.only([*kinds])  # the other columns are not read
    elif not counted:
        source = settled(source, [""])  # the model knows the columns, but not the names of the rows
    found: Counter[Any] = Counter()
    with written_columns(target, raw) as write:
        for part in source.parts(whole_files=True):
            for rows in part.blocks():
                if len(rows):
                    try:
                        proba = model.predict_proba(rows.X.frame)
                    except ValueError as error:
                        if rows.start == 0 and rows.X.files[0] == 0:
                            raise
                        rows.refuse(str(error))
                    predicted = _labels(model, proba, threshold)
                    n, names = found.total(), None if counted else rows.X.names
                    names = np.arange(n, n + len(rows)) if names is None else names
                    write(_columns(names, predicted, proba, model.classes_))
                    found.update(predicted.tolist())
        if not found:
            raise ValueError(source.no_rows)
    return found


def is_streamed(model: Any, path: Any) -> bool:
    """Return whether :func:`predict_files` reads this path: not arrays and images, which are read whole."""
    if "image shape" in getattr(model, "metadata_", {}):
        return False
    try:
        return bool(files := table_files(path)) and not files[0].endswith(".npy")
    except ValueError:
        return False


def write_predictions(
    path: str | os.PathLike[str],
    table: Table,
    predicted: NDArray[Any],
    proba: FloatArray,
    classes: NDArray[Any],
    raw: bool = False,
) -> Path:
    """Write ``name``, ``prediction`` and one ``probability_CLASS`` per class, as CSV or Parquet by the suffix.

    Where the model abstains, ``prediction`` is empty. ``raw`` is as in :func:`predict_files`.
    """
    return write_columns(path, _columns(table.names, predicted, proba, classes), raw)


def _columns(
    names: NDArray[Any], predicted: NDArray[Any], proba: FloatArray, classes: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    probabilities = {f"probability_{name}": proba[:, k] for k, name in enumerate(classes.tolist())}
    return {"name": names, "prediction": predicted, **probabilities}


def _labels(model: Any, proba: FloatArray, threshold: float | None) -> NDArray[Any]:
    """Return the most likely labels; with a threshold, those that are less likely are masked."""
    labels: NDArray[Any] = model.classes_[proba.argmax(axis=1)]
    return labels if threshold is None else np.ma.masked_array(labels, proba.max(axis=1) < threshold)


def _check_predicts(model: Any, threshold: float | None) -> None:
    if threshold is not None and not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be a probability between 0 and 1; got {threshold}")
    if not hasattr(model, "predict_proba"):
        name = type(model).__name__
        raise ValueError(f"{name} is not a classifier and cannot predict; give a model written by unflip fit")


def _samples(model: Any, X: Any) -> Any:
    if np.ndim(X) < 3:
        return X
    shape = getattr(model, "metadata_", {}).get("image shape")
    if shape is not None:
        if X.shape[1] == 1 and shape[0] == 3:  # a folder with only gray images
            X = np.repeat(X, 3, axis=1)
        if list(X.shape[1:]) != list(shape):
            raise ValueError(
                f"the model was trained on images of channels x height x width {'x'.join(map(str, shape))}, but these "
                f"are {'x'.join(map(str, X.shape[1:]))}; give images of the same kind"
            )
    takes_images = hasattr(getattr(model, "classifier_", model), "input_shape_")
    return X if takes_images and getattr(model, "preprocessor_", None) is None else X.reshape(len(X), -1)
