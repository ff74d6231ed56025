"""Which learner a method and a network name, and the samples of a table as it takes them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

from unflip import registry
from unflip._validation import FloatArray
from unflip.tables import Preprocessor, Table
from unflip.transition import VolMin

NETWORKS = ("linear", "mlp", "cnn6")
UNCORRECTED = "ce"  # the method of a network that takes the labels as they are


def make_classifier(
    method: str,
    network: str,
    transition: FloatArray | None,
    *,
    epochs: int | None = None,
    random_state: Any = None,
    progress: bool | str = False,
) -> Any:
    """Return the unfitted classifier of a method, with T where the method takes one."""
    check_network(network, epochs)
    if network != "linear":
        from unflip.deep import NoisyLabelClassifier

        if method not in registry.names("deep"):
            raise ValueError(
                f"{method!r} is not a method for networks; choose one of {', '.join(registry.names('deep'))}"
            )
        return NoisyLabelClassifier(
            method, network, transition, epochs=epochs, progress=progress, random_state=random_state
        )
    if method not in registry.names("linear"):
        raise ValueError(
            f"{method!r} is not a method for linear models; choose one of {', '.join(registry.names('linear'))}. "
            "To train a network, choose network mlp or cnn6"
        )
    kind = registry.find(method, "linear").load()
    given = {"transition": transition, "random_state": random_state}
    return kind(**{name: value for name, value in given.items() if name in kind().get_params(deep=False)})


def make_baseline(
    network: str, n_classes: int, *, epochs: int | None = None, random_state: Any = None, progress: bool | str = False
) -> tuple[str, Any]:
    """Return the name and the unfitted classifier that takes the noisy labels as they are."""
    if network == "linear":
        from unflip.linear import MCLDCEClassifierCV

        return "ridge without correction", MCLDCEClassifierCV(np.eye(n_classes), random_state=random_state)
    options = {"epochs": epochs, "random_state": random_state, "progress": progress}
    return "cross-entropy without correction", make_classifier(UNCORRECTED, network, None, **options)


def make_transition_estimator(network: str, *, random_state: Any = None, progress: bool | str = False) -> Any:
    """Return the estimator of T for a network, which for a linear model is a classifier as well."""
    check_network(network)
    if network == "linear":
        return VolMin(scaling="auto", random_state=random_state)
    from unflip.transition.crossfit import CrossFitEM

    return CrossFitEM(network=network, random_state=random_state, progress=progress)


def prepared(classifier: Any, X: Any) -> Any:
    """Return the classifier behind a preprocessor where X is a table; images go to it as they are.

    VolMin chooses the scale of the features itself: pixels and embeddings have one in common, which would be lost.
    """
    if np.ndim(X) > 2:
        return classifier
    return make_pipeline(Preprocessor(standardize=not isinstance(classifier, VolMin)), classifier)


def samples(X: Any, network: str) -> Any:
    """Return X as the network takes it: images as rows of pixels for all but ``cnn6``."""
    if network == "cnn6":
        if np.ndim(X) < 3:
            raise ValueError("network cnn6 takes images, and this is a table; choose linear or mlp")
        return X
    return X.reshape(len(X), -1) if np.ndim(X) > 2 else X


def usable(table: Table, network: str) -> tuple[Any, dict[str, str]]:
    """Return the samples without the columns that are of no use, and why these are not.

    It is asked of the whole table: in a part of its rows a column that numbers them looks like any other.
    """
    X = samples(table.X, network)
    if not hasattr(X, "columns"):
        return X, {}
    unused = Preprocessor().fit(X).unused_
    return X.drop(columns=list(unused)), unused


def labels(table: Table) -> NDArray[Any]:
    """Return the labels of a table, or say that it has none."""
    if table.y is None:
        raise ValueError("the table has no labels; name their column (or, in an NPZ, their key)")
    return table.y


def check_network(network: str, epochs: int | None = None) -> None:
    if network not in NETWORKS:
        raise ValueError(f"network must be one of {', '.join(NETWORKS)}; got {network!r}")
    if network == "linear" and epochs is not None:
        raise ValueError("epochs are those of a network; a linear model has none. Choose network mlp or cnn6")
