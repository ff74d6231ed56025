"""A saved model on a new table: predictions and probabilities, in blocks, to a CSV or Parquet file."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from unflip._validation import FloatArray
from unflip.files import Table, read_table
from unflip.files.output import write_columns

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
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"the model is a {type(model).__name__}, which predicts nothing")
    X = _samples(model, table.X)
    starts = range(0, len(X), block)
    blocks = [model.predict_proba(_safe_indexing(X, slice(start, start + block))) for start in starts]
    proba = np.concatenate(blocks)
    predicted: NDArray[Any] = model.classes_[proba.argmax(axis=1)]
    return predicted, proba


def write_predictions(
    path: str | os.PathLike[str], table: Table, predicted: NDArray[Any], proba: FloatArray, classes: NDArray[Any]
) -> Path:
    """Write ``name``, ``prediction`` and a column ``probability_CLASS`` a class, as CSV or Parquet by the suffix."""
    columns = {"name": table.names, "prediction": predicted}
    columns |= {f"probability_{name}": proba[:, k] for k, name in enumerate(classes.tolist())}
    return write_columns(path, columns)


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
