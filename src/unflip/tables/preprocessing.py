"""A table as a matrix of numbers: standardised numbers, one-hot categories, and the names of what is of no use."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from unflip._validation import FloatArray
from unflip.models.folder import Savable
from unflip.tables.columns import as_categories, as_numbers, kind
from unflip.tables.frames import nearest


class Preprocessor(Savable, TransformerMixin, BaseEstimator):
    """Make a matrix of a data frame: numbers are standardised, categories one-hot encoded.

    By scikit-learn's own :class:`~sklearn.impute.SimpleImputer`, :class:`~sklearn.preprocessing.StandardScaler` and
    :class:`~sklearn.preprocessing.OneHotEncoder`::

        number      (x - mean) / deviation, where x is missing the median
        category    1 in the column of its value, else 0; a missing one is a value of its own

    Columns are known by name: their order does not matter, further ones are ignored.

    Parameters
    ----------
    max_categories : int, default=50
        Of each column so many categories are kept, the most frequent ones. The others, and those that were never seen,
        are zero in all columns.
    standardize : bool, default=True
        False leaves numbers in their own scale, mean 0 and deviation 1 above: for a learner that chooses the scale.

    Attributes
    ----------
    numbers_ : list of str
        The columns taken as numbers; for an array, which has no names, their positions.
    categories_ : dict of str to list
        The categories of each column taken as such; None is the missing one.
    unused_ : dict of str to str
        Why a column is left out: dates, free text, names of the rows, or the same value everywhere. Of numbers that
        cannot be read because of a mistake there is a warning, too.
    median_, mean_, scale_ : ndarray of shape (n_numbers,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If the table is a data frame.

    Notes
    -----
    An array of shape (n_samples, n_features) is a table of numbers. Whole numbers are numbers, however few of them
    there are: give a column of codes as strings or as pandas categories.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [20, 40, None, 60], "town": ["Ulm", "Bonn", "Ulm", "Bonn"], "year": 2020})
    >>> preprocessor = Preprocessor().fit(frame)
    >>> preprocessor.transform(frame).round(1)
    array([[-1.4,  0. ,  1. ], [ 0. ,  1. ,  0. ], [ 0. ,  0. ,  1. ], [ 1.4,  1. ,  0. ]])
    >>> preprocessor.unused_
    {'year': 'it has the same value in every row'}
    """

    def __init__(self, max_categories: int = 50, *, standardize: bool = True) -> None:
        self.max_categories = max_categories
        self.standardize = standardize

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn medians, means, deviations and categories.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
        y : Ignored
        """
        if not isinstance(self.max_categories, int | np.integer) or self.max_categories < 1:
            raise ValueError(f"max_categories must be a whole number >= 1; got {self.max_categories!r}")
        if _is_frame(X):
            self._choose_columns(_named(X))
        else:
            self._choose_positions(validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan"))
        if not self.numbers_ and not self.categories_:
            reasons = "; ".join(f"{name!r}: {reason}" for name, reason in [*self.unused_.items()][:10])
            raise ValueError(f"no column can be used. {reasons}")
        numbers = self._numbers(X)
        self.median_, self.mean_, self.scale_ = np.zeros((3, 0))
        if self.numbers_:
            imputer = SimpleImputer(strategy="median").fit(numbers)
            self.median_, self.mean_, self.scale_ = imputer.statistics_, *self._scale(imputer.transform(numbers))
        self._make_transformers()
        return self

    def transform(self, X: Any, *, standardize: bool = True) -> FloatArray:
        """Return the matrix, shape (n_samples, n_numbers + n_categories).

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            With the columns of ``fit``, in any order; an array as wide as that of ``fit``.
        standardize : bool, default=True
            If False, the numbers stay in their own units.
        """
        check_is_fitted(self)
        self._check_columns(X)
        parts = []
        if self.numbers_:
            numbers = self._imputer.transform(self._numbers(X))
            parts.append(self._scaler.transform(numbers) if standardize else numbers)
        if self.categories_:
            frame = _named(X)
            values = np.column_stack([as_categories(frame[name], name) for name in self.categories_])
            parts.append(self._encoder.transform(values))
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return a name for each column of the matrix, such as "age" and "town=Ulm"."""
        check_is_fitted(self)
        numbers = [name if isinstance(name, str) else f"x{name}" for name in self.numbers_]
        found = [
            f"{name}={'(missing)' if value is None else value}"
            for name, values in self.categories_.items()
            for value in values
        ]
        return np.array([*numbers, *found], dtype=object)

    def _scale(self, numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
        if not self.standardize:
            return np.zeros(numbers.shape[1]), np.ones(numbers.shape[1])
        scaler = StandardScaler().fit(numbers)
        return scaler.mean_, scaler.scale_

    def _choose_columns(self, frame: Any) -> None:
        self.feature_names_in_ = np.array(frame.columns, dtype=object)
        self.n_features_in_ = len(frame.columns)
        self.numbers_: list[Any] = []
        self.categories_: dict[str, list[str | None]] = {}
        self.unused_: dict[str, str] = {}
        mistakes = []
        for name in frame.columns:
            use, reason = kind(frame[name], self.max_categories)
            if use == "number":
                self.numbers_.append(name)
            elif use == "category":
                self.categories_[name] = _most_frequent(as_categories(frame[name], name), self.max_categories)
            else:
                self.unused_[name] = reason
                mistakes += [name] * (use == "mistake")
        if self.numbers_ or self.categories_:  # else it is an error
            for name in mistakes:
                warnings.warn(f"column {name!r} is not used: {self.unused_[name]}", stacklevel=3)

    def _choose_positions(self, X: FloatArray) -> None:
        if hasattr(self, "feature_names_in_"):  # of an earlier fit
            del self.feature_names_in_
        missing = np.isnan(X)
        low, high = np.where(missing, np.inf, X).min(axis=0), np.where(missing, -np.inf, X).max(axis=0)
        self.numbers_ = np.flatnonzero(low < high).tolist()
        self.categories_ = {}
        self.unused_ = {
            f"x{position}": "it has the same value in every row"
            if low[position] == high[position]
            else "it has no values"
            for position in np.flatnonzero(~(low < high)).tolist()
        }

    def _check_columns(self, X: Any) -> None:
        if _is_frame(X) != hasattr(self, "feature_names_in_"):
            kinds = ("a data frame", "an array") if hasattr(self, "feature_names_in_") else ("an array", "a data frame")
            raise ValueError(f"this was fitted to {kinds[0]} and got {kinds[1]}; give the same kind of table")
        if not _is_frame(X):
            return
        there = list(_named(X).columns)
        missing = [name for name in (*self.numbers_, *self.categories_) if name not in there]
        if missing:
            near = nearest(missing[0], there)
            raise ValueError(
                f"the table has no column {', '.join(map(repr, missing[:10]))}, which the model needs"
                + (f"; is {near!r} meant?" if near else ".")
                + f" It has {', '.join(map(repr, there[:20]))}"
            )

    def _numbers(self, X: Any) -> FloatArray:
        if _is_frame(X):
            frame = _named(X)
            columns = [as_numbers(frame[name], name) for name in self.numbers_]
            return np.column_stack(columns) if columns else np.zeros((len(frame), 0))
        checked: FloatArray = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        return checked[:, self.numbers_]

    def _make_transformers(self) -> None:
        """Make the transformers of the numbers alone, so that a loaded one computes what a fitted one does."""
        if self.numbers_:
            self._imputer = SimpleImputer(strategy="median").fit(self.median_[np.newaxis])  # of one row: itself
            self._scaler = StandardScaler().fit(self.mean_[np.newaxis])
            self._scaler.mean_, self._scaler.scale_, self._scaler.var_ = self.mean_, self.scale_, self.scale_**2
        if self.categories_:
            lists = [
                np.array([np.nan if v is None else v for v in values], dtype=object)
                for values in self.categories_.values()
            ]
            encoder = OneHotEncoder(categories=lists, handle_unknown="ignore", sparse_output=False)
            self._encoder = encoder.fit(np.array([[values[0] for values in lists]], dtype=object))

    def _fitted_state(self) -> dict[str, Any]:
        state = super()._fitted_state()
        return {name: value for name, value in state.items() if not name.startswith("_")}

    def _check_fitted_state(self) -> None:
        named, width = hasattr(self, "feature_names_in_"), self.n_features_in_
        columns = list(self.feature_names_in_) if named else list(range(width))
        used = [*self.numbers_, *self.categories_]
        if len(columns) != width or len(set(used)) != len(used) or not used or not set(used) <= set(columns):
            raise ValueError(f"the columns that are used, {used[:10]}, are not among the {width} of the table")
        for name in ("median_", "mean_", "scale_"):
            values = getattr(self, name)
            if values.shape != (len(self.numbers_),) or values.dtype != np.float64 or not np.isfinite(values).all():
                raise ValueError(f"{name} must be {len(self.numbers_)} finite numbers, one per column of numbers")
        if not (self.scale_ > 0).all():
            raise ValueError("scale_ must be positive")
        for name, values in self.categories_.items():
            known = values[:-1] if values[-1:] == [None] else values
            if not values or len(set(values)) != len(values) or not all(isinstance(item, str) for item in known):
                raise ValueError(f"the categories of {name!r} must be different strings, and None at the end at most")
        if not all(isinstance(item, str) for pair in self.unused_.items() for item in pair):
            raise ValueError("unused_ must name the reason of each column")
        self._make_transformers()


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "iloc")


def _named(frame: Any) -> Any:
    """The data frame with names of type str, each of them once."""
    if not all(isinstance(name, str) for name in frame.columns):
        frame = frame.rename(columns=str)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"the table has the column {twice!r} more than once; rename or drop one of them")
    return frame


def _most_frequent(values: NDArray[Any], largest: int) -> list[str | None]:
    import pandas as pd

    counts = pd.Series(values, dtype=object).value_counts(dropna=False)
    ranked = sorted((-int(count), "" if pd.isna(value) else value, pd.isna(value)) for value, count in counts.items())
    kept = ranked[:largest]
    missing: list[str | None] = [None] if any(lost for _, _, lost in kept) else []
    return [*sorted(value for _, value, lost in kept if not lost), *missing]
