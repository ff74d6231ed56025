"""Which columns of a file are read, and how a batch of pyarrow becomes a block."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip.sources.block import Block, BlockError, make_block
from unflip.sources.columns import check_roles
from unflip.tables.labels import stripped_labels


@dataclass(frozen=True)
class Columns:
    """The columns to read: features, label, weights."""

    features: tuple[str, ...]
    label: str | None
    weights: str | None
    single: bool  # all features are float32 or shorter

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([*self.features, *(name for name in (self.label, self.weights) if name)]))

    def only_label(self) -> "Columns":
        return replace(self, features=(), weights=None)


def pyarrow(kind: str) -> Any:
    """The library, or a word on how to get it."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"reading {kind} in batches needs pyarrow: pip install unflip[data]") from error
    return pyarrow


def choose_columns(
    schema: Any, path: str, label: str | None, weights: str | None, columns: Sequence[str] | None
) -> Columns:
    """Return what to read of a file with this schema: the given columns, or all beside label and weights."""
    twice = [name for name, times in Counter(schema.names).items() if times > 1]
    if twice:
        raise ValueError(f"{path}: the column {twice[0]!r} is there more than once; rename one of them")
    check_roles(schema.names, label, weights, columns, path)
    # A first column without name is the index that DataFrame.to_csv wrote.
    features = [n for n in schema.names if n not in (label, weights, "")] if columns is None else list(columns)
    if not features:
        raise ValueError(f"{path} has no column beside label and weights; there are no features")
    check_numbers(schema, path, features)
    types = pyarrow("files").types
    kinds = [schema.field(name).type for name in features]
    single = all(types.is_float32(kind) or types.is_float16(kind) for kind in kinds)
    return Columns(tuple(features), label, weights, single)


def check_numbers(schema: Any, path: str, features: Sequence[str]) -> None:
    """Refuse features that are not numbers."""
    types = pyarrow("files").types

    def is_number(kind: Any) -> bool:
        known = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
        return any(test(kind) for test in known)

    other = [name for name in features if not is_number(schema.field(name).type)]
    if other:
        said = ", ".join(f"{name!r} ({schema.field(name).type})" for name in other[:5])
        raise ValueError(
            f"{path} has {len(other)} columns that are not numbers: {said}; name the features with columns=[...], "
            "or turn these into numbers first"
        )


def batch_block(batch: Any, columns: Columns, name: str, start: int) -> Block:
    """Return a record batch as a block; a missing value becomes NaN, and labels lose the spaces around them."""
    try:
        n = batch.num_rows
        # Feature by feature, as the file has them; the sums read some thousand rows at a time and turn those.
        X = np.empty((len(columns.features), n), dtype=np.float32 if columns.single else np.float64).T
        for j, feature in enumerate(columns.features):
            X[:, j] = _numbers(batch.column(feature))
        y = None if columns.label is None else _labels(batch.column(columns.label), columns.label, start)
        weights = None if columns.weights is None else _numbers(batch.column(columns.weights))
    except (TypeError, ValueError) as error:  # pyarrow's own are kinds of them
        raise BlockError(f"{name}, rows {start} to {start + batch.num_rows - 1}: {error}") from error
    features = columns.features
    return make_block(X if features else None, y, weights, name, start, features or None)


def _numbers(column: Any) -> NDArray[Any]:
    types = pyarrow("files").types
    if not types.is_floating(column.type):
        column = column.cast("float64", safe=False)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _labels(column: Any, label: str, start: int) -> NDArray[Any]:
    types = pyarrow("files").types
    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    said = f"the label {label!r}"
    if column.null_count or not (is_text or types.is_dictionary(column.type)):
        return stripped_labels(column.to_numpy(zero_copy_only=False), said, start)
    # Few different strings: strip those and turn them into NumPy's, not every row's.
    encoded = column.dictionary_encode() if is_text else column
    different = np.asarray(encoded.dictionary.to_pylist(), dtype=str if is_text else None)
    return stripped_labels(different, said)[encoded.indices.to_numpy(zero_copy_only=False)]
