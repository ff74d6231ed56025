"""An order of the rows that does not depend on the one they come in."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from unflip.transition._row_order import in_caller_order, row_order


def tables():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).round(1)
    X[40:] = X[:20]  # equal rows, some with another label
    frame = pd.DataFrame({"a": X[:, 0], "b": rng.choice(["red", "blue", "green"], 60), "c": X[:, 1]})
    words = rng.poisson(0.1, size=(60, 700)).astype(float)
    words[5:15] = words[4]
    words[10:15] *= 2  # the same words, so the same key
    return {
        "numbers": X,
        "missing": np.where(X > 1, np.nan, X),
        "close": np.column_stack([np.repeat([1.0, 1.0 + 1e-12], 30), np.ones(60)]),
        "frame": frame,
        "objects": frame.to_numpy(),
        "texts": frame["b"].tolist(),
        "images": rng.integers(0, 3, size=(60, 2, 2)).astype(np.uint8),
        "sparse": sparse.csr_matrix(words[:, :50]),
        "words": sparse.csr_matrix(words),
    }


def taken(X, rows):
    if isinstance(X, list):
        return [X[i] for i in rows]
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def written(X, rows):
    X = taken(X, rows)
    X = X.toarray() if sparse.issparse(X) else X
    return np.asarray(X, dtype=object).astype(str)


@pytest.mark.parametrize("kind", tables())
def test_any_table_in_any_order(kind):
    X, rng = tables()[kind], np.random.default_rng(1)
    codes, weights, groups = rng.integers(3, size=60), rng.integers(1, 3, size=60) / 2, rng.choice(["u", "v"], 60)
    order = row_order(X, codes, weights, groups)
    assert sorted(order) == list(range(60))
    shuffled = rng.permutation(60)
    other = shuffled[row_order(taken(X, shuffled), codes[shuffled], weights[shuffled], groups[shuffled])]
    for column in (codes, weights, groups):
        np.testing.assert_array_equal(column[order], column[other])
    np.testing.assert_array_equal(written(X, order), written(X, other))


def test_units_do_not_matter():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(200, 4)), rng.integers(2, size=200)
    np.testing.assert_array_equal(row_order(X * [1e-3, 2, 7, 1e5] + 3, codes), row_order(X, codes))


def test_back_in_the_order_in_which_rows_came():
    order = np.array([2, 0, 1])
    values = np.array([[5.0], [6.0], [7.0]])
    np.testing.assert_array_equal(in_caller_order(values[order], order), values)
    np.testing.assert_array_equal(in_caller_order({"a": values[order]}, order)["a"], values)
    assert in_caller_order(None, order) is None
