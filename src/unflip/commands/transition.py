"""The noise of a table's labels: T with its class names, as a table, JSON and picture, and read back from a file."""

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from unflip import __version__
from unflip._validation import FloatArray, check_transition
from unflip.commands.folders import written_folder
from unflip.commands.learners import labels, make_transition_estimator, prepared, usable
from unflip.core import clean_prior
from unflip.tables import Table

FILES = ("transition.json", "transition.csv", "transition.svg", "transition.png")


@dataclass(frozen=True, eq=False)
class Noise:
    """How the labels of a table are flipped.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    transition : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    noisy_prior, class_prior : ndarray of shape (n_classes,)
        The share of each class among the given labels, and among the clean ones as T tells it.
    """

    classes: NDArray[Any]
    transition: FloatArray
    noisy_prior: FloatArray
    class_prior: FloatArray

    @classmethod
    def of(cls, y: NDArray[Any], transition: FloatArray, sample_weight: FloatArray | None = None) -> "Noise":
        """Return the noise of labels whose T is known."""
        classes, codes = np.unique(y, return_inverse=True)
        counts = np.bincount(codes, sample_weight, minlength=len(classes))
        noisy_prior = counts / counts.sum()
        return cls(classes, transition, noisy_prior, clean_prior(noisy_prior, transition))

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.classes.tolist()]

    @property
    def noise_rates(self) -> FloatArray:
        """The share of each clean class that was given another label."""
        rates: FloatArray = 1 - np.diag(self.transition)
        return rates

    @property
    def noise_rate(self) -> float:
        """The share of all labels that are wrong."""
        return float(self.class_prior @ self.noise_rates)

    def as_json(self) -> dict[str, Any]:
        """Return what a program reads, in the form that :func:`read_transition` takes back."""
        return {
            "classes": self.names,
            "transition": self.transition.tolist(),
            "noise_rate": self.noise_rate,
            "noise_rates": self.noise_rates.tolist(),
            "noisy_prior": self.noisy_prior.tolist(),
            "class_prior": self.class_prior.tolist(),
        }


def find_noise(
    table: Table, *, network: str = "linear", random_state: Any = None, progress: bool | str = False
) -> Noise:
    """Estimate T from the noisy labels of a table.

    Parameters
    ----------
    table : Table
        What :func:`unflip.tables.read_table` gives, with labels.
    network : {"linear", "mlp", "cnn6"}, default="linear"
        :class:`~unflip.transition.VolMin`, or :class:`~unflip.transition.CrossFitEM` with that network.
    random_state : int, RandomState instance or None, default=None
    progress : bool or "auto", default=False
        Show the progress of a network.
    """
    y = labels(table)
    X, _ = usable(table, network)
    estimator = prepared(make_transition_estimator(network, random_state=random_state, progress=progress), X)
    fitted = estimator.fit(X, y)
    return Noise.of(y, (fitted[-1] if isinstance(fitted, Pipeline) else fitted).transition_)


def write_transition(noise: Noise, folder: str | os.PathLike[str]) -> Path:
    """Write T to a folder, as JSON, as CSV with class names, and as a picture in SVG and PNG; return the folder.

    The folder appears whole or not at all; an earlier one of the same files is replaced, any other refused.
    """
    from unflip.report.matrix import draw_transition, picture

    with written_folder(folder, FILES) as partial:
        document = {"made_with": f"unflip {__version__}", **noise.as_json()}
        (partial / "transition.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        with (partial / "transition.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["clean", *noise.names])
            writer.writerows([name, *row] for name, row in zip(noise.names, noise.transition.tolist(), strict=True))
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
        column of class names; ``.npy``. Where the file names the classes they may be in any order.
    classes : ndarray of shape (n_classes,)
        Those of the labels.
    """
    file = Path(path)
    readers = {".json": _of_json, ".csv": _of_csv, ".npy": _of_npy}
    if file.suffix.lower() not in readers:
        raise ValueError(f"{file} holds no transition matrix by its name; it should be .json, .csv or .npy")
    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist")
    try:
        rows, columns, matrix = readers[file.suffix.lower()](file)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} cannot be read as a transition matrix: it is not text in UTF-8") from error
    except OSError as error:
        raise ValueError(f"{file} cannot be read as a transition matrix: {error.strerror or error}") from error
    except (ValueError, EOFError, RecursionError, csv.Error) as error:
        raise ValueError(f"{file} cannot be read as a transition matrix: {error}") from error
    wanted = [str(name) for name in classes.tolist()]
    try:
        T = check_transition(matrix, None if rows is not None else len(wanted))
        for names in (rows, columns):
            if names is not None and (len(names) != len(T) or sorted(names) != sorted(wanted)):
                raise ValueError(
                    f"it is of the classes {_listed(names)}, but those of the labels are {_listed(wanted)}; give one "
                    "row and one column for each"
                )
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    order = range(len(T)) if rows is None else [rows.index(name) for name in wanted]
    across = range(len(T)) if columns is None else [columns.index(name) for name in wanted]
    chosen: FloatArray = T[np.ix_(list(order), list(across))]
    return chosen


_Read = tuple[list[str] | None, list[str] | None, Any]  # names of the rows and of the columns, matrix


def _of_json(path: Path) -> _Read:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        return None, None, content
    if "transition" not in content:
        raise ValueError("it has no entry 'transition'")
    names = content.get("classes")
    if names is not None and not (isinstance(names, list) and len(names) == len({str(name) for name in names})):
        raise ValueError("its 'classes' are not a list of different names")
    named = None if names is None else [str(name) for name in names]
    return named, named, content["transition"]


def _of_csv(path: Path) -> _Read:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = [line for line in csv.reader(file) if line]
    if len(lines) < 2:
        raise ValueError(f"it has {len(lines)} lines")
    if len(lines) == len(lines[0]):  # as many lines as cells: with names both are one more
        try:
            return None, None, _numbers(lines)
        except ValueError:
            pass
    names = [line[0] for line in lines[1:]]
    return names, lines[0][1:], _numbers([line[1:] for line in lines[1:]])


def _of_npy(path: Path) -> _Read:
    with path.open("rb") as file:
        try:
            matrix = np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, EOFError, MemoryError) as error:  # NumPy's own words are of pickle and buffers
            raise ValueError("it holds no whole array of numbers, such as numpy.save writes") from error
    return None, None, matrix


def _numbers(lines: list[list[str]]) -> list[list[float]]:
    if len({len(line) for line in lines}) > 1:
        raise ValueError("its lines have different numbers of cells")
    return [[float(cell) for cell in line] for line in lines]


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
