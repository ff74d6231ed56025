"""The catalogue of data sets, and reading one by its name. A new data set is a reader and an entry here."""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unflip.datasets import images, npz
from unflip.datasets.entry import Arrays, Dataset, Download, Entry, Need, PathLike, check_readable, pickle_error

CLOTHES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ANIMALS = ("cat", "lynx", "wolf", "coyote", "cheetah", "jaguar", "chimpanzee", "orangutan", "hamster", "guinea pig")
CIFAR10_ARCHIVE = "cifar-10-binary.tar.gz"
CIFAR10_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
ANIMALS_PAGE = "https://dm.kaist.ac.kr/datasets/animal-10n"
SVHN_FILES = ("train_32x32.mat", "test_32x32.mat")
SVHN_PAGE = "https://ufldl.stanford.edu/housenumbers"

IDX_FILES = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
# Labels of each class, for training and for testing.
MNIST_COUNTS = (
    (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
)
CIFAR10_FOLDERS = ("cifar10/", "cifar10/cifar-10-batches-bin/", "cifar-10-batches-bin/")
CIFAR10_NEEDS = tuple(
    Need(
        places=tuple(f"{folder}{name}.bin" for folder in CIFAR10_FOLDERS),
        how=f"Run `unflip data fetch cifar10` to download the binary version, {CIFAR10_ARCHIVE}, from {CIFAR10_PAGE}",
        pickles=(
            *(f"cifar10/{name}", name),
            *(f"{folder}cifar-10-{form}" for folder in ("cifar10/", "") for form in ("batches-py", "python.tar.gz")),
        ),
    )
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
)
FEATURES = Need(
    places=("cifar10_features.npz",),
    how="cifar10_features.npz has no download: make it from the images of CIFAR-10 with any network trained elsewhere, "
    "as float arrays x_train (50000, d) and x_test (10000, d) with y_train and y_test in the official order",
)
# Lets torch build NumPy arrays of int64 and nothing else, so that no code of the file runs.
CONVERT_HUMAN_LABELS = (
    "with torch.serialization.safe_globals([f := numpy._core.multiarray._reconstruct, "
    "(f, 'numpy.core.multiarray._reconstruct'), numpy.ndarray, numpy.dtype, numpy.dtypes.Int64DType]): "
    "numpy.savez_compressed('cifar10n_labels.npz', **torch.load('CIFAR-10_human.pt', weights_only=True))"
)
HUMAN_LABELS = Need(
    places=("cifar10n_labels.npz", "cifar10n/cifar10n_labels.npz"),
    how="The official labels of CIFAR-10N, CIFAR-10_human.pt on https://github.com/UCSC-REAL/cifar-10-100n, are a "
    "pickle; convert it once, without running code from it, to cifar10n_labels.npz in the data directory: "
    + CONVERT_HUMAN_LABELS,
    pickles=tuple(
        f"{folder}CIFAR-10_human.{form}" for folder in ("", "cifar10n/", "cifar10/") for form in ("pt", "npy")
    ),
)
# Name here, title, key in the official file.
HUMAN_SETS = (
    ("aggregate", "CIFAR-10N, majority of three people", "aggre_label"),
    ("random1", "CIFAR-10N, first person", "random_label1"),
    ("random2", "CIFAR-10N, second person", "random_label2"),
    ("random3", "CIFAR-10N, third person", "random_label3"),
    ("worse", "CIFAR-10N, a wrong answer if any of three people gave one", "worse_label"),
)


def load_dataset(name: PathLike, data_dir: PathLike | None = None) -> Dataset:
    """Read a data set of the catalogue, or any ``.npz`` file of features.

    Parameters
    ----------
    name : str or path-like
        A name of :func:`catalogue`, such as ``"mnist"``, or the path of an ``.npz`` file with the arrays ``x_train``,
        ``x_test``, ``y_test``, and ``y_train`` (clean labels), ``y_noisy`` or both.
    data_dir : path-like, default=None
        Folder of the data sets. If None, ``UNFLIP_DATA`` or a folder in the user's cache is used.

    Examples
    --------
    >>> data = load_dataset("digits")
    >>> data.x_train.shape, data.y_test.shape
    ((1078, 1, 8, 8), (719,))
    """
    if name in CATALOGUE:
        return CATALOGUE[str(name)].load(data_dir)
    path, names = Path(name).expanduser(), ", ".join(CATALOGUE)
    if path.suffix.lower() in (".pt", ".pth", ".pkl", ".pickle"):
        raise pickle_error(path, HUMAN_LABELS.how)
    if path.name in ("cifar-10-batches-py", "cifar-10-python.tar.gz"):
        raise pickle_error(path, CIFAR10_NEEDS[0].how)
    if path.suffix.lower() != ".npz":
        raise ValueError(
            f"unknown data set {os.fspath(name)!r}; choose one of {names}, or give the path of an .npz file"
        )
    if not path.exists():
        hint = f"give the path of an .npz file, or a name of the catalogue: {names}"
        raise FileNotFoundError(f"the file {path.absolute()} does not exist; {hint}")
    check_readable(path)
    return npz.read_features(path)


def catalogue() -> list[Entry]:
    """Return every data set that has a name, with its sizes, license, source, and ``on_disk(data_dir)``."""
    return list(CATALOGUE.values())


def find_entry(name: str) -> Entry:
    """Return the entry of a name, or say which names there are."""
    if name not in CATALOGUE:
        raise ValueError(f"unknown data set {os.fspath(name)!r}; choose one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def _read_digits() -> Arrays:
    """Read scikit-learn's digits with a fixed split, 60 % for training; images become (n, 1, 8, 8)."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    x = (X.reshape(-1, 1, 8, 8) / 16).astype(np.float32)  # gray levels are 0 .. 16
    x_train, x_test, y_train, y_test = train_test_split(
        x, y.astype(np.int64), test_size=0.4, stratify=y, random_state=0
    )
    return Arrays(x_train, y_train, x_test, y_test)


def _downloads(name: str, server: str, files: Iterable[str], sha256: str) -> tuple[Download, ...]:
    found = zip(files, sha256.split(), strict=True)
    return tuple(Download(server + file, f"sha256:{digest}", f"{name}/{file}") for file, digest in found)


def _idx_entry(name: str, server: str, sha256: str, **rest: Any) -> Entry:
    """Return the entry of MNIST or a data set like it: four IDX files, gzipped or not."""
    how = f"Run `unflip data fetch {name}` to download {', '.join(IDX_FILES)} from {server}"
    return Entry(
        name=name,
        read=images.read_mnist,
        needs=tuple(Need((f"{name}/{file}", f"{name}/{file.removesuffix('.gz')}"), how) for file in IDX_FILES),
        n_train=60_000,
        n_test=10_000,
        shape=(1, 28, 28),
        downloads=_downloads(name, server, IDX_FILES, sha256),
        count=images.count_mnist,
        **rest,
    )


def _cifar10_entry(licence: str = "none stated", source: str = CIFAR10_PAGE, **rest: Any) -> Entry:
    """Return an entry with the samples of CIFAR-10: its images or features of them."""
    rest |= {"n_train": 50_000, "n_test": 10_000, "class_names": CIFAR10, "class_counts": ((5000,) * 10, (1000,) * 10)}
    return Entry(licence=licence, source=source, **rest)


def _human_entry(name: str, title: str, key: str, with_images: bool) -> Entry:
    """Return the entry of one set of human labels, with the images or the features of CIFAR-10."""
    return _cifar10_entry(
        name=f"cifar10n-{name}-images" if with_images else f"cifar10n-{name}",
        title=f"{title}, {'images' if with_images else 'features'}",
        read=partial(npz.read_cifar10n, key=key),
        needs=(*CIFAR10_NEEDS, HUMAN_LABELS) if with_images else (FEATURES, HUMAN_LABELS),
        shape=(3, 32, 32) if with_images else (320,),
        licence="CC BY-NC 4.0",
        source="http://www.noisylabels.com",
        count=partial(npz.count_cifar10n, key=key),
    )


ENTRIES = (
    Entry(
        name="digits",
        title="scikit-learn's digits",
        read=_read_digits,
        needs=(),
        n_train=1_078,
        n_test=719,
        shape=(1, 8, 8),
        class_names=npz.DIGITS,
        licence="CC BY 4.0",
        source="https://archive.ics.uci.edu/dataset/80",
    ),
    _idx_entry(
        name="mnist",
        title="MNIST",
        class_names=npz.DIGITS,
        class_counts=MNIST_COUNTS,
        licence="CC BY-SA 3.0",
        source="http://yann.lecun.com/exdb/mnist",
        server="https://ossci-datasets.s3.amazonaws.com/mnist/",  # the source no longer offers the files
        sha256="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 "
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c "
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 "
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    _idx_entry(
        name="fashion-mnist",
        title="Fashion-MNIST",
        class_names=CLOTHES,
        class_counts=((6000,) * 10, (1000,) * 10),
        licence="MIT",
        source="https://github.com/zalandoresearch/fashion-mnist",
        server="https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        sha256="08dc20ab1689590a0bcd66e874647b6ee8464e2d501b5a3f1f78831db19a3fdc "
        "b0197879cbda89f3dc7b894f9fd52b858e68ea4182b6947c9d8c2b67e5f18dcc "
        "78dcbbfb5a27efaf1b6c1d616caca68560be8766c5bffcb2791df9273a534229 "
        "42bd18137a62d5998cdeae52bf3a0676ac6b706f5cf8439b47bb5b151ae3dccf",
    ),
    Entry(
        name="svhn",
        title="SVHN",
        read=images.read_svhn,
        needs=tuple(
            Need(
                (f"svhn/{file}",),
                f"Run `unflip data fetch svhn` to download {' and '.join(SVHN_FILES)} from {SVHN_PAGE}",
            )
            for file in SVHN_FILES
        ),
        n_train=73_257,
        n_test=26_032,
        shape=(3, 32, 32),
        class_names=npz.DIGITS,
        licence="non-commercial",
        source=SVHN_PAGE,
        downloads=_downloads(
            "svhn",
            SVHN_PAGE + "/",
            SVHN_FILES,
            "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8 "
            "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
        ),
        count=images.count_svhn,
    ),
    _cifar10_entry(
        name="cifar10",
        title="CIFAR-10",
        read=images.read_cifar10,
        needs=CIFAR10_NEEDS,
        shape=(3, 32, 32),
        downloads=_downloads(
            "cifar10",
            "https://www.cs.toronto.edu/~kriz/",
            [CIFAR10_ARCHIVE],
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
        count=images.count_cifar10,
    ),
    _cifar10_entry(
        name="cifar10-features",
        title="CIFAR-10, features",
        read=npz.read_cifar10_features,
        needs=(FEATURES,),
        shape=(320,),
        licence="as CIFAR-10",
        count=npz.count_cifar10_features,
    ),
    *(_human_entry(*labels, with_images) for with_images in (False, True) for labels in HUMAN_SETS),
    Entry(
        name="animal10n",
        title="Animal-10N",
        read=images.read_animal10n,
        needs=tuple(
            Need(
                places=(f"animal10n/{part}",),
                how=f"Animal-10N is available on request: ask for the raw image version on {ANIMALS_PAGE} and put its "
                "folders training and testing in the folder animal10n of the data directory",
                is_folder=True,
            )
            for part in ("training", "testing")
        ),
        n_train=50_000,
        n_test=5_000,
        shape=(3, 64, 64),
        class_names=ANIMALS,
        licence="none stated",
        source=ANIMALS_PAGE,
        count=images.count_animal10n,
    ),
)
CATALOGUE = {entry.name: entry for entry in ENTRIES}
