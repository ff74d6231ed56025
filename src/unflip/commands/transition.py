"""The noise of a table's labels: T estimated, written as JSON, CSV and picture, and read back from a file."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip import __version__
from unflip._input import check_file, read_bytes, read_json, read_npy
from unflip._output import guarded, unguarded
from unflip._validation import FloatArray, check_transition
from unflip.commands.fit import (
    Noise,
    check_crowd,
    crowd_noise,
    estimated_transition,
    features,
    labels,
    make_classifier,
    make_transition_estimator,
    overlap_notes,
)
from unflip.commands.folders import written_folder
from unflip.tables import Table
from unflip.transition.ridge import RidgeEM, suits_ridge

QUICK = (
    "T was estimated by ridge regression alone, which is fast on texts. The method stacked-em, which unflip fit uses, "
    "takes longer and is usually closer."
)
FILES = ("transition.json", "transition.csv", "transition.svg", "transition.png")


def find_noise(
    table: Table,
    *,
    network: str | None = None,
    method: str | None = None,
    random_state: Any = None,
    progress: bool | str = False,
) -> Noise:
    """Estimate T from the noisy labels of a table.

    Parameters
    ----------
    table : Table
        A table from :func:`unflip.tables.read_table` with labels. Its sample weights are used.
    network : {"linear", "mlp", "cnn6"}, default=None
        :class:`~unflip.transition.VolMin`, or the default of :class:`~unflip.deep.NoisyLabelClassifier` for such
        samples: :class:`~unflip.transition.CrossFitEM` with that network, unless the table has at most 50,000 rows and
        1,024 features. If None, T is that of :class:`~unflip.CorrectedClassifier`, as in
        :func:`~unflip.commands.fit_table`; for columns of text as TF-IDF, that of
        :class:`~unflip.transition.RidgeEM`, which is faster but less exact.
    method : str, default=None
        The name of another estimator of T in :mod:`unflip.registry`.
    random_state : int, RandomState instance or None, default=None
    progress : bool or "auto", default=False
        Whether to show the progress of a network.
    """
    y, weights = labels(table), table.sample_weight
    if table.annotations is not None:
        check_crowd("auto" if (network, method) == (None, None) else str(network or method), None)
        model = make_classifier("auto", "linear", None, random_state=random_state)
        return crowd_noise(model.fit(features(table, "linear"), table.annotations, sample_weight=weights))
    trained = network or "linear"
    X, quick = features(table, trained), False
    if network is not None or method is not None:
        estimator = make_transition_estimator(method, trained, X, random_state=random_state, progress=progress)
    elif quick := suits_ridge(X, len(np.unique(y))):
        estimator = RidgeEM()
    else:
        estimator = make_classifier("auto", trained, None, random_state=random_state)
    T, fitted = estimated_transition(X, y, weights, estimator)
    return Noise.of(y, T, weights, [QUICK] if quick else overlap_notes(fitted))


def write_transition(noise: Noise, folder: str | os.PathLike[str]) -> Path:
    """Write T to a folder as JSON, as CSV with class names, and as a picture in SVG and PNG; return the folder.

    The folder appears whole or not at all; an earlier result is replaced, any other folder is refused.
    """
    from unflip.report.figures import draw_transition, picture

    with written_folder(folder, FILES) as partial:
        document = {"made_with": f"unflip {__version__}", **noise.as_json()}
        (partial / "transition.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        with (partial / "transition.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            names = [guarded(name) for name in noise.names]
            writer.writerow(["clean", *names])
            writer.writerows([name, *row] for name, row in zip(names, noise.transition.tolist(), strict=True))
        drawing = draw_transition(noise.transition, noise.names)
        for kind in ("svg", "png"):
            (partial / f"transition.{kind}").write_bytes(picture(drawing, kind))
    return Path(folder)


def read_transition(path: str | os.PathLike[str], classes: NDArray[Any]) -> FloatArray:
    """Read T from a file, in the order of the classes.

    Parameters
    ----------
    path : path-like
        ``.json`` as ``unflip transition --json`` writes it, or a list of rows; ``.csv``, with or without a line and a
        column of class names; ``.npy``. If the file names the classes, they may be in any order.
    classes : ndarray of shape (n_classes,)
        The classes of the labels.
    """
    file = Path(path)
    readers = {".json": _read_json, ".csv": _read_csv, ".npy": _read_npy}
    if file.suffix.lower() not in readers:
        raise ValueError(f"{file} does not look like a transition matrix; its name should end in .json, .csv or .npy")
    check_file(file)
    try:
        rows, columns, matrix = readers[file.suffix.lower()](file)
    except (OSError, ValueError, EOFError, RecursionError, csv.Error) as error:
        reason: Any = error
        if isinstance(error, UnicodeDecodeError):
            reason = "it is not text in UTF-8"
        elif isinstance(error, OSError):
            reason = error.strerror or error
        raise ValueError(f"{file} cannot be read as a transition matrix: {reason}") from error
    wanted = [str(name) for name in classes.tolist()]
    if rows is not None and not {*rows} <= {*wanted}:  # names that this package wrote may be guarded
        rows, columns = ([unguarded(name) for name in names] for names in (rows, columns or rows))
    try:
        T = check_transition(matrix, None if rows is not None else len(wanted))
        for names in (rows, columns):
            if names is not None and (len(names) != len(T) or sorted(names) != sorted(wanted)):
                raise ValueError(
                    f"its classes are {_listed(names)}, but those of the labels are {_listed(wanted)}; give one row "
                    "and one column for each"
                )
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    down, across = ([(names or wanted).index(name) for name in wanted] for names in (rows, columns))
    return T[np.ix_(down, across)]


_Read = tuple[list[str] | None, list[str] | None, Any]  # names of the rows and of the columns, matrix


def _read_json(path: Path) -> _Read:
    content = read_json(path)
    if not isinstance(content, dict):
        return None, None, content
    if "transition" not in content:
        raise ValueError("it has no entry 'transition'")
    names = content.get("classes")
    if names is not None and not (isinstance(names, list) and len(names) == len({str(name) for name in names})):
        raise ValueError("its 'classes' are not a list of different names")
    named = None if names is None else [str(name) for name in names]
    return named, named, content["transition"]


def _read_csv(path: Path) -> _Read:
    text = io.StringIO(read_bytes(path).decode("utf-8-sig"), newline="")
    lines = [line for line in csv.reader(text) if line]
    if len(lines) < 2:
        raise ValueError(f"it has {len(lines)} lines")
    if len(lines) == len(lines[0]):  # as many lines as cells: with names, there is one more of each
        try:
            return None, None, _numbers(lines)
        except ValueError:
            pass
    return [line[0] for line in lines[1:]], lines[0][1:], _numbers([line[1:] for line in lines[1:]])


def _read_npy(path: Path) -> _Read:
    check_file(path)
    try:
        return None, None, read_npy(path)
    except (ValueError, EOFError, MemoryError) as error:  # NumPy's own messages speak of pickle and buffers
        raise ValueError("it does not hold a complete array of numbers, such as numpy.save writes") from error


def _numbers(lines: list[list[str]]) -> list[list[float]]:
    if len({len(line) for line in lines}) > 1:
        raise ValueError("its lines have different numbers of cells")
    return [[float(cell) for cell in line] for line in lines]


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
