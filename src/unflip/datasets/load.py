"""From a name to the arrays."""

import os
from pathlib import Path

from unflip.datasets.dataset import Dataset
from unflip.datasets.entry import Entry, PathLike, check_readable, pickle_error
from unflip.datasets.npz import read_features
from unflip.datasets.registry import CATALOGUE, CIFAR10_NEEDS, HUMAN_LABELS


def load_dataset(name: PathLike, data_dir: PathLike | None = None) -> Dataset:
    """Read a dataset of the catalogue, or any ``.npz`` file of features.

    Parameters
    ----------
    name : str or path-like
        A name of :func:`catalogue`, such as ``"mnist"``, or the path of an ``.npz`` file with the arrays ``x_train``,
        ``x_test``, ``y_test``, and ``y_train`` (clean labels), ``y_noisy`` or both.
    data_dir : path-like, default=None
        Where the datasets are; None takes ``UNFLIP_DATA``, or a folder in the user's cache.

    Examples
    --------
    >>> data = load_dataset("digits")
    >>> data.x_train.shape, data.y_test.shape
    ((1078, 1, 8, 8), (719,))
    """
    if name in CATALOGUE:
        return CATALOGUE[str(name)].load(data_dir)
    path = Path(name).expanduser()
    if path.suffix.lower() in (".pt", ".pth", ".pkl", ".pickle"):
        raise pickle_error(path, HUMAN_LABELS.how)
    if path.name in ("cifar-10-batches-py", "cifar-10-python.tar.gz"):
        raise pickle_error(path, CIFAR10_NEEDS[0].how)
    if path.suffix.lower() != ".npz":
        raise ValueError(f"{_unknown(name)}, or the path of any .npz file")
    if not path.exists():
        raise FileNotFoundError(
            f"there is no file {path.absolute()}; give the path of an .npz file, or a name of the "
            f"catalogue: {', '.join(CATALOGUE)}"
        )
    check_readable(path)
    return read_features(path)


def catalogue() -> list[Entry]:
    """Return every dataset that has a name: its sizes, licence, source, and ``on_disk(data_dir)``."""
    return list(CATALOGUE.values())


def find_entry(name: str) -> Entry:
    """Return the entry of a name, or say which names there are."""
    if name not in CATALOGUE:
        raise ValueError(_unknown(name))
    return CATALOGUE[name]


def _unknown(name: PathLike) -> str:
    return f"{os.fspath(name)!r} is no dataset; there are {', '.join(CATALOGUE)}"
