"""Data frames of any library, tensors and Hugging Face datasets, as the pandas frames and arrays that others take."""

from typing import Any

import numpy as np

from unflip.tables.read import class_names


def converted(data: Any) -> Any:
    """Return what :func:`unflip.tables.read.as_frame` makes of the data of other libraries."""
    library = type(data).__module__.split(".")[0]
    if library == "torch" and hasattr(data, "detach"):
        return data.detach().cpu().numpy()
    if library == "datasets":
        return _from_datasets(data)
    if library == "pyarrow" and hasattr(data, "to_pandas"):
        return data.to_pandas()
    return _from_narwhals(data)


def is_frame(data: Any) -> bool:
    """Return whether :func:`unflip.tables.read.as_frame` makes a table of named columns of it."""
    kind = type(data)  # the columns of a lazy frame cost a query
    return kind.__module__.split(".")[0] == "datasets" or (
        hasattr(kind, "columns") and not hasattr(kind, "__dask_graph__")
    )


def _from_datasets(data: Any) -> Any:
    kind = type(data).__name__
    if kind == "Column":  # what dataset["label"] is
        return np.asarray(data)
    if "Dict" in kind:
        raise ValueError(f"a {kind} has several splits; give one of them, such as data[{next(iter(data))!r}]")
    if "Iterable" in kind:
        raise ValueError("an IterableDataset has no rows yet; give a Dataset, or a function that yields (X, y) blocks")
    frame = data.with_format("arrow")[:].to_pandas()
    for name, feature in data.features.items():
        if type(feature).__name__ == "ClassLabel":
            frame[name] = class_names(frame[name], feature.names)
    return frame


def _from_narwhals(data: Any) -> Any:
    try:
        import narwhals
    except ModuleNotFoundError:
        return data
    found = narwhals.from_native(data, pass_through=True, allow_series=True)
    if isinstance(found, narwhals.LazyFrame):
        found = found.collect()
    return found.to_pandas() if isinstance(found, narwhals.DataFrame | narwhals.Series) else data
