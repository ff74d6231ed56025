"""A table as a matrix: standardized numbers, one-hot categories, TF-IDF of text, and the columns that are of no use."""

import datetime
import re
import warnings
from collections.abc import Collection, Iterable
from numbers import Number
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from unflip._validation import LARGEST, FloatArray, check_range
from unflip.models.folder import Savable
from unflip.tables.read import DECIMAL_COMMA, _number, as_frame, nearest
from unflip.tables.text import (
    CHOICES,
    Text,
    as_texts,
    check_embedding,
    check_tfidf,
    embedded,
    fit_tfidf,
    load_embedding,
    tfidf,
    tfidf_names,
)

FEWEST_COUNTED = 3  # from this many rows on, 1, 2, 3 is a numbering and "a", "b", "c" are names
SHARE = 0.9  # of the values: a column with as many numbers or dates is meant as such
FEW_CODES = 10  # different whole numbers; next to words they are codes, more of them are numbers with a mistake
SAME, EMPTY, NUMBERED = "it has the same value in every row", "it has no values", "it numbers the rows"
TIMES = "it holds times; make numbers of them, such as the hour"

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(r"-?(0|[1-9]\d*)\.0+")
DATE = re.compile(r"\d{4}-\d\d?-\d\d?([T ]\d\d:\d\d.*)?|\d\d?([./])\d\d?\2\d{4}")
DAY_MONTH = re.compile(r"(\d\d?)([./])(\d\d?)\2\d{4}")
# As people write numbers: 1,234.50 and 1.234,50 and 1 234,50 and 12 %
GAPS = re.compile(r"(?<=\d)[\s'’](?=\d{3}(?!\d))")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
THOUSAND_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3}){2,}")

# A word has a letter and no space in it, so that a path or an address is one; Chinese and Japanese have no spaces.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\S*[^\W\d_]\S*")
LEAST_WORDS = 3.0  # per value; fewer are names
LOOKED_AT = 1000  # values that tell how many words there are


class Preprocessor(Savable, TransformerMixin, BaseEstimator):
    """Turn a data frame into a matrix: numbers are standardized, categories one-hot encoded, texts counted.

    It combines scikit-learn's :class:`~sklearn.impute.SimpleImputer`, :class:`~sklearn.preprocessing.StandardScaler`
    and :class:`~sklearn.preprocessing.OneHotEncoder`::

        number      (x - mean) / deviation, with the median for a missing x
        date        the same, of the days since the beginning of 1970
        category    1 in the column of its value, 0 elsewhere; a missing one is a value of its own
        text        TF-IDF of words, pairs of words, and three or four characters; a missing one is empty

    Columns are found by name: their order does not matter, and further ones are ignored.

    Parameters
    ----------
    max_categories : int, default=50
        Maximum number of categories per column; the most frequent ones are kept. The others, and those that were never
        seen, are zero in all columns.
    standardize : bool, default=True
        If False, numbers keep their scale, with mean 0 and deviation 1 above: for a learner that chooses the scale.
        Next to TF-IDF they are standardized in any case, and all columns that are not text are divided by the root
        of their number: a row of TF-IDF has norm one, and so have they.
    text : {"tfidf", "lsa", "wordllama"}, default="tfidf"
        What becomes of columns of free text. "tfidf" gives a sparse matrix. "lsa" are its first 100 singular vectors,
        for learners that need a dense one. "wordllama" is the mean of static embeddings of the tokens, 256 numbers,
        from the package WordLlama (``pip install 'unflip[text]'``), which is saved with the model.

    Attributes
    ----------
    numbers_ : list of str
        The columns of numbers; for an array, which has no names, their positions.
    dates_ : dict of str to bool
        Those among them that hold dates, and whether 1/2/2020 is in February.
    categories_ : dict of str to list
        The categories of each categorical column; None stands for a missing value.
    texts_ : dict of str to dict
        For each column of free text its terms and their inverse document frequencies; empty for "wordllama".
    embedding_ : dict
        For "wordllama", the vectors of the tokens and the tokenizer.
    unused_ : dict of str to str
        Why a column is left out: names of the rows, or the same value everywhere. For numbers that cannot be
        read because of a mistake there is also a warning.
    median_, mean_, scale_ : ndarray of shape (n_numbers,)
    n_features_in_, feature_names_in_
        As in scikit-learn; the names only for a data frame.

    Notes
    -----
    An array of shape (n_samples, n_features) is a table of numbers; a sparse matrix is one, too, and stays as it is,
    neither centered nor scaled. Whole numbers are numbers, however few different
    ones there are: give a column of codes as strings or as pandas categories. Strings are free text if they have three
    words or more on average and most of them occur once or twice, or if there are more than ``max_categories``.

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

    texts_: dict[str, Any]
    dates_: dict[str, bool]
    embedding_: dict[str, Any]

    def __init__(self, max_categories: int = 50, *, standardize: bool = True, text: Text = "tfidf") -> None:
        self.max_categories = max_categories
        self.standardize = standardize
        self.text = text

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn medians, means, deviations, categories and terms of a data frame or array; y is ignored."""
        X = as_frame(X)
        self.choose(X)
        self.embedding_ = load_embedding() if self.texts_ and self.text == "wordllama" else {}
        if self.texts_ and not self.embedding_:
            frame = _named(X)
            self.texts_ = {name: fit_tfidf(as_texts(frame[name]), lsa=self.text == "lsa") for name in self.texts_}
        numbers = check_range(
            self._numbers(X), [name if isinstance(name, str) else f"x{name}" for name in self.numbers_]
        )
        self.median_, self.mean_, self.scale_ = np.zeros((3, 0))
        if sparse.issparse(numbers):
            self.median_, self.mean_, self.scale_ = np.repeat([[0.0], [0.0], [1.0]], len(self.numbers_), axis=1)
        elif self.numbers_:
            imputer = SimpleImputer(strategy="median").fit(numbers)
            self.median_ = imputer.statistics_
            self.mean_, self.scale_ = np.zeros_like(self.median_), np.ones_like(self.median_)
            if self.standardize or self.is_sparse:
                scaler = StandardScaler().fit(imputer.transform(numbers))
                self.mean_, self.scale_ = scaler.mean_, scaler.scale_
        return self

    def choose(self, X: Any) -> Self:
        """Only find out which columns of a data frame or array are used, as what, and which are not."""
        if not isinstance(self.max_categories, int | np.integer) or self.max_categories < 1:
            raise ValueError(f"max_categories must be a whole number >= 1; got {self.max_categories!r}")
        if self.text not in CHOICES:
            raise ValueError(f"text must be one of {', '.join(CHOICES)}; got {self.text!r}")
        X = as_frame(X)
        if is_frame(X):
            self._choose_columns(_named(X))
        else:
            self._choose_positions(self._matrix(X, reset=True))
        if not (self.numbers_ or self.categories_ or self.texts_):
            reasons = "; ".join(f"{name!r}: {reason}" for name, reason in [*self.unused_.items()][:10])
            raise ValueError(f"no column can be used. {reasons}")
        return self

    @property
    def is_sparse(self) -> bool:
        """Whether ``transform`` returns a sparse matrix."""
        return bool(self.texts_) and self.text == "tfidf"

    def transform(self, X: Any, *, standardize: bool = True) -> Any:
        """Return the matrix, shape (n_samples, n_numbers + n_categories + n_terms): an array, or CSR with TF-IDF.

        A data frame needs the columns of ``fit``, in any order; an array must be as wide as that of ``fit``. If
        ``standardize`` is False, the numbers stay in their own units, except next to TF-IDF.
        """
        check_is_fitted(self)
        X = as_frame(X)
        self._check_columns(X)
        parts = []
        if self.numbers_:
            numbers = self._numbers(X)
            if sparse.issparse(numbers):
                if not self.mean_.any() and (self.scale_ == 1).all():
                    return numbers
                numbers = numbers.toarray()
            numbers = np.where(np.isnan(numbers), self.median_, numbers)
            parts.append((numbers - self.mean_) / self.scale_ if standardize or self.is_sparse else numbers)
        if self.categories_:
            frame, known = _named(X), self.categories_.items()
            values = [as_categories(frame[name], name, categories) for name, categories in known]
            lists = [np.array([np.nan if v is None else v for v in of], dtype=object) for _, of in known]
            encoder = OneHotEncoder(categories=lists, handle_unknown="ignore", sparse_output=False)
            parts.append(encoder.fit_transform(np.column_stack(values)))
        if self.is_sparse:  # a row of TF-IDF has norm one, and so have all other columns together
            parts = [part / np.sqrt(len(self.numbers_) + len(self.categories_)) for part in parts]
        for name, state in self.texts_.items():
            texts = as_texts(_named(X)[name])
            parts.append(embedded(texts, self.embedding_) if self.embedding_ else tfidf(texts, state))
        return sparse.csr_array(sparse.hstack(parts, format="csr")) if self.is_sparse else np.hstack(parts)

    @property
    def kinds(self) -> dict[str, str]:
        """Each column's kind, "number", "date", "category" or "text", for :func:`read_table`; none of an array."""
        if not hasattr(self, "feature_names_in_"):
            return {}
        columns = {"number": self.numbers_, "date": self.dates_, "category": self.categories_, "text": self.texts_}
        return {name: kind for kind, names in columns.items() for name in names}

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return a name for each column of the matrix, such as "age", "town=Ulm" and "note: late"."""
        check_is_fitted(self)
        numbers = [name if isinstance(name, str) else f"x{name}" for name in self.numbers_]
        pairs = ((name, value) for name, values in self.categories_.items() for value in values)
        found = (f"{name}={'(missing)' if value is None else value}" for name, value in pairs)
        size = self.embedding_["table"].shape[1] if self.embedding_ else 0
        terms = ((name, tfidf_names(state) if state else range(size)) for name, state in self.texts_.items())
        return np.array([*numbers, *found, *(f"{name}: {term}" for name, of in terms for term in of)], dtype=object)

    def _choose_columns(self, frame: Any) -> None:
        self.feature_names_in_ = np.array(frame.columns, dtype=object)
        self.n_features_in_ = len(frame.columns)
        self.numbers_: list[Any] = []
        self.categories_: dict[str, list[str | None]] = {}
        self.texts_, self.dates_, self.unused_ = {}, {}, {}
        mistakes = []
        for name in frame.columns:
            use, reason = kind(frame[name], self.max_categories)
            if use in ("number", "date"):
                self.numbers_.append(name)
                if use == "date":
                    self.dates_[name] = is_day_first(frame[name])
            elif use == "category":
                self.categories_[name] = _most_frequent(as_categories(frame[name], name), self.max_categories)
            elif use == "text":
                self.texts_[name] = {}
            else:
                self.unused_[name] = reason
                mistakes += [name] * (use == "mistake")
        if self.numbers_ or self.categories_ or self.texts_:  # else it is an error
            for name in mistakes:
                warnings.warn(f"column {name!r} is not used: {self.unused_[name]}", stacklevel=3)

    def _choose_positions(self, X: FloatArray) -> None:
        if hasattr(self, "feature_names_in_"):  # of an earlier fit
            del self.feature_names_in_
        self.categories_, self.texts_, self.dates_ = {}, {}, {}
        if sparse.issparse(X):
            self.numbers_, self.unused_ = list(range(X.shape[1])), {}
            return
        missing = np.isnan(X)
        low, high = np.where(missing, np.inf, X).min(axis=0), np.where(missing, -np.inf, X).max(axis=0)
        self.numbers_ = np.flatnonzero(low < high).tolist()
        unused = np.flatnonzero(~(low < high)).tolist()
        self.unused_ = {f"x{place}": SAME if low[place] == high[place] else EMPTY for place in unused}

    def _check_columns(self, X: Any) -> None:
        if is_frame(X) != hasattr(self, "feature_names_in_"):
            kinds = ("an array", "a data frame") if is_frame(X) else ("a data frame", "an array")
            raise ValueError(f"this was fitted to {kinds[0]} but got {kinds[1]}; give the same kind of table")
        if not is_frame(X):
            return
        there = list(_named(X).columns)
        known = set(there)
        missing = [name for name in (*self.numbers_, *self.categories_, *self.texts_) if name not in known]
        if missing:
            near = nearest(missing[0], there)
            raise ValueError(
                f"the table has no column {', '.join(map(repr, missing[:10]))}, which the model needs"
                + (f"; did you mean {near!r}?" if near else ".")
                + f" It has {', '.join(map(repr, there[:20]))}"
            )

    def _numbers(self, X: Any) -> Any:
        if is_frame(X):
            frame = _named(X)
            columns = [
                as_days(frame[name], name, self.dates_[name]) if name in self.dates_ else as_numbers(frame[name], name)
                for name in self.numbers_
            ]
            return np.column_stack(columns) if columns else np.zeros((len(frame), 0))
        return self._matrix(X)[:, self.numbers_]

    def _matrix(self, X: Any, reset: bool = False) -> Any:
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite="allow-nan")

    def _check_fitted_state(self) -> None:
        named, width = hasattr(self, "feature_names_in_"), self.n_features_in_
        columns = list(self.feature_names_in_) if named else list(range(width))
        used = [*self.numbers_, *self.categories_, *self.texts_]
        if len(columns) != width or len(set(used)) != len(used) or not used or not set(used) <= set(columns):
            raise ValueError(f"the columns that are used, {used[:10]}, are not among the {width} columns of the table")
        for name in ("median_", "mean_", "scale_"):
            values = getattr(self, name)
            if values.shape != (len(self.numbers_),) or values.dtype != np.float64 or not np.isfinite(values).all():
                raise ValueError(f"{name} must be {len(self.numbers_)} finite numbers, one per column of numbers")
        if not (self.scale_ > 0).all():
            raise ValueError("scale_ must be positive")
        for name, values in self.categories_.items():
            known = values[:-1] if values[-1:] == [None] else values
            if not values or len(set(values)) != len(values) or not all(isinstance(item, str) for item in known):
                raise ValueError(f"the categories of {name!r} must be different strings, with None only at the end")
        if not all(isinstance(item, str) for pair in self.unused_.items() for item in pair):
            raise ValueError("unused_ must give the reason for each column")
        if self.texts_ and self.text == "wordllama":
            check_embedding(self.embedding_)
        elif self.embedding_:
            raise ValueError("embedding_ is there, but no column is embedded")
        for state in self.texts_.values():
            if not self.embedding_:
                check_tfidf(state)
            if ("components" in state) != (self.text == "lsa") or (self.embedding_ and state):
                raise ValueError(f"the terms of a text are not those of {self.text}")

    def _set_fitted_state(self, state: dict[str, Any]) -> None:
        super()._set_fitted_state({"texts_": {}, "embedding_": {}, "dates_": {}, **state})  # an earlier file lacks them


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame rather than an array."""
    return hasattr(X, "columns") and hasattr(X, "iloc")


def _named(frame: Any) -> Any:
    """The data frame with column names of type str, each of them once."""
    if not all(isinstance(name, str) for name in frame.columns):
        frame = frame.rename(columns=str)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"the table has more than one column {twice!r}; rename or drop one of them")
    return frame


def _most_frequent(values: NDArray[Any], largest: int) -> list[str | None]:
    import pandas as pd

    counts = pd.Series(values, dtype=object).value_counts(dropna=False)
    ranked = sorted((-int(count), "" if pd.isna(value) else value, pd.isna(value)) for value, count in counts.items())
    kept = [None if lost else value for _, value, lost in ranked[:largest]]
    return sorted(kept, key=lambda value: (value is None, value))  # None comes last


def kind(column: Any, max_categories: int) -> tuple[str, str]:
    """Return "number", "date", "category" or "text" and an empty reason; or "unused" and the reason why.

    Strings, booleans, pandas categories and mixtures of them are categories; numbers are numbers. Strings that were
    meant as numbers, except for a few of them or for the way they are written, are a "mistake": of no use until
    somebody corrects it, as the reason says. Strings with more than ``max_categories`` distinct values, most of which
    occur once or twice, are free text or, if they are shorter than three words, names.
    """
    import pandas as pd

    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":  # tables of numbers may have many columns
        values = column.to_numpy()
        values = values[values == values]
        if len(values) == 0 or (values == values[0]).all():
            return "unused", SAME if len(values) else EMPTY
        counts_rows = column.dtype.kind != "f" and len(values) >= FEWEST_COUNTED and (np.diff(values) == 1).all()
        return ("unused", NUMBERED) if counts_rows else ("number", "")
    present = column.dropna()
    if len(present) == 0:
        return "unused", EMPTY
    holds = _content(column.dtype, present)
    if holds == "number":
        numbers = pd.to_numeric(present)
        if (numbers == numbers.iloc[0]).all():
            return "unused", SAME
        whole = pd.api.types.is_integer_dtype(numbers.dtype) and len(numbers) == len(column)
        if whole and len(column) >= FEWEST_COUNTED and _numbers_rows(numbers):
            return "unused", NUMBERED
        return "number", ""
    if holds == "date":
        return ("unused", SAME) if len(pd.unique(present)) == 1 else ("date", "")
    if holds != "category":
        return "unused", holds
    distinct = len(pd.unique(present))
    if distinct == 1 and len(present) == len(column):
        return "unused", SAME
    is_text = not (pd.api.types.is_bool_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype))
    texts = present.map(lambda value: str(value).strip()) if is_text else present
    counts: Any = texts.value_counts(sort=False) if is_text else None
    if is_text and counts[[DATE.fullmatch(text) is not None for text in counts.index]].sum() >= SHARE * len(present):
        return "date", ""
    if is_text and (mistake := number_mistake(present, texts, counts)):
        return "mistake", mistake
    all_differ = distinct == len(present) >= FEWEST_COUNTED
    if is_text and (distinct > max_categories or 2 * distinct > len(present)) and is_free_text(counts.index):
        return "text", ""
    if not all_differ and (distinct <= max_categories or 2 * distinct <= len(present)):
        return "category", ""
    if is_text and all(map(NUMBER.fullmatch, counts.index)):
        return "mistake", "its numbers are text; store them as numbers"
    if all_differ:
        return "unused", "every value is different: names or codes"
    return "unused", f"it has {distinct} different values in {len(present)} rows: names or codes"


def is_free_text(values: Iterable[str]) -> bool:
    """Return whether values are sentences rather than names: three words or more on average."""
    looked_at = [value for value, _ in zip(values, range(LOOKED_AT), strict=False)]
    return sum(len(WORD.findall(value)) for value in looked_at) >= LEAST_WORDS * max(len(looked_at), 1)


def as_numbers(column: Any, name: str) -> FloatArray:
    """Return a column as float64, with NaN for missing values, or name the first value that is not a number."""
    import pandas as pd

    types, rows = pd.api.types, column.index  # the numbers of the rows in their table
    if types.is_datetime64_any_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        raise ValueError(f"column {name!r} must hold numbers, not dates ({column.dtype}); give what training had")
    if not (types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype)):
        numbers = pd.Series([_number(value) for value in column], dtype=np.float64)
        wrong = np.flatnonzero(numbers.isna().to_numpy() & column.notna().to_numpy())
        if len(wrong):
            # a word says more than numbers in another form, which a word may have kept from being read
            words = [row for row in wrong if plain_number(str(column.iloc[row])) is None]
            row = words[0] if words else wrong[0]
            value = column.iloc[row]
            raise ValueError(
                f"column {name!r} must hold numbers, but row {rows[row]} has {value!r} "
                f"({len(words or wrong)} such values); "
                + ("write numbers" if words else f"write {plain_number(str(value))}")
                + ", or leave the cell empty if one is missing"
            )
        column = numbers
    values: FloatArray = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        row = rows[np.isinf(values).argmax()]
        raise ValueError(f"column {name!r} is infinite in row {row}; leave such cells empty")
    large = np.abs(values) > LARGEST
    if large.any():
        raise ValueError(
            f"column {name!r} has {values[large][0]:.3g} in row {rows[large.argmax()]}; only numbers up to {LARGEST:g} "
            "can be squared and summed: divide the column by a suitable number"
        )
    return values


def as_days(column: Any, name: str, day_first: bool) -> FloatArray:
    """Return dates as days since the beginning of 1970, with NaN for what is missing or not a date."""
    import pandas as pd

    if getattr(column.dtype, "kind", "O") in "biuf" and column.notna().any():
        raise ValueError(f"column {name!r} must hold dates, as in training, but holds numbers, {column.dtype}")
    found, values = pd.factorize(column)
    values = pd.Series(values, dtype=object)
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):
        values = values.map(lambda value: str(value).strip())
    dates = pd.to_datetime(values, format="mixed", dayfirst=day_first, utc=True, errors="coerce")
    days = ((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(dtype=np.float64)
    chosen: FloatArray = np.append(days, np.nan)[found]  # code -1, the last, is missing
    return chosen


def is_day_first(column: Any) -> bool:
    """Return whether 1.2.2020 or 1/2/2020 is in February: if a day above 12 says so, else if points separate them."""
    marks = {match.groups() for value in column.dropna().unique() if (match := DAY_MONTH.fullmatch(str(value).strip()))}
    if any(int(first) > 12 for first, _, _ in marks):
        return True
    return all(int(second) <= 12 for _, _, second in marks) and any(mark == "." for _, mark, _ in marks)


def as_categories(column: Any, name: str, known: Collection[str | None] = ()) -> NDArray[Any]:
    """Return a column as strings, an object array with NaN for missing values.

    1, 1.0 and "1" are one category: in a file a column of codes is read as integers, with one cell empty as floats, and
    with one letter in it as text. A value that is not among the ``known`` categories is written as one that is: "1" or
    "1.0" for 1, "True" for "true".
    """
    import pandas as pd

    try:
        codes, values = pd.factorize(column)
    except TypeError as error:
        raise ValueError(f"column {name!r} must hold categories, but holds lists or other objects: {error}") from error
    texts = np.array([*(_text(value, known) for value in values), np.nan], dtype=object)
    chosen: NDArray[Any] = texts[codes]  # code -1, the last, is missing
    return chosen


def _numbers_rows(numbers: Any) -> bool:
    """Return whether whole numbers count the rows, of which some may have been left out, or be in another order."""
    steps, index = np.diff(numbers.to_numpy()), numbers.index
    counted = index.dtype.kind in "iu" and index.is_unique and (steps == np.diff(index.to_numpy())).all()
    return bool(counted or (steps == 1).all())


def _content(dtype: Any, present: Any) -> str:
    """What the values are: "number", "date", "category", or the reason why they are of no use."""
    import pandas as pd

    types = pd.api.types
    if types.is_datetime64_any_dtype(dtype):
        return "date"
    if types.is_timedelta64_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return TIMES
    if types.is_bool_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if types.is_complex_dtype(dtype):
        return "it holds complex numbers"
    if types.is_numeric_dtype(dtype):
        return "number"
    found = set(map(type, present))
    if all(issubclass(kind, Number) and not issubclass(kind, bool | np.bool_ | complex) for kind in found):
        return "number"
    if all(issubclass(kind, str | Number | np.bool_) for kind in found):
        return "category"
    if all(issubclass(kind, datetime.date) for kind in found):
        return "date"
    if all(issubclass(kind, datetime.date | datetime.time | datetime.timedelta) for kind in found):
        return TIMES
    other = next(kind.__name__ for kind in found if not issubclass(kind, str | Number))
    return f"it holds {other} objects, which are neither numbers nor categories; give each number a column of its own"


def _text(value: Any, known: Collection[str | None]) -> str:
    text = str(value)
    # 1.0, not 01: zeros in front belong to a code
    whole = text.split(".")[0] if WHOLE.fullmatch(text) else text
    usual = whole if isinstance(value, float | np.floating) else text
    others = (text, whole, text.strip().capitalize() if text.strip().lower() in ("true", "false") else text)
    return usual if usual in known else next((other for other in others if other in known), usual)


def plain_number(text: str) -> str | None:
    """Return a number as a computer reads it, 1234.50 for "1,234.50" and "1.234,50"; None for anything else."""
    number = GAPS.sub("", text.strip().removesuffix("%").rstrip())
    if NUMBER.fullmatch(number):
        return number
    if THOUSANDS.fullmatch(number):
        return number.replace(",", "")
    if DECIMAL_COMMA.fullmatch(number):
        return number.replace(".", "").replace(",", ".")
    return number.replace(".", "") if THOUSAND_POINTS.fullmatch(number) else None


def number_mistake(present: Any, texts: Any, counts: Any) -> str:
    """Return what keeps a column of text, without missing values, from being numbers; "" if it is not meant as numbers.

    ``texts`` are the values without the spaces around them, and ``counts`` says how often each occurs. A column is
    meant as numbers if at least 90 % of its values are numbers; not if all are, since that is text on purpose, nor if
    they are a few whole numbers again and again next to words, since these are codes.
    """
    values = counts.index.to_numpy(dtype=object)
    is_plain = np.array([NUMBER.fullmatch(text) is not None for text in values])
    if is_plain.all():
        return ""
    is_number = np.array([plain_number(text) is not None for text in values])
    n, n_numbers = len(present), int(counts[is_number].sum())
    if n_numbers < SHARE * n:
        return ""
    few = is_number.sum() <= min(FEW_CODES, n_numbers / 2)
    if few and n_numbers < n and all(text.isdecimal() for text in values[is_number]):
        return ""
    if n_numbers < n:
        row, value = _first(present, texts.isin(values[~is_number]))
        said = f"{n_numbers} of {n} values are numbers, but"
        if n - n_numbers == 1:
            return f"{said} row {row} has {value!r}: correct it, or empty the cell for a missing number"
        return f"{said} {n - n_numbers} are not, such as {value!r} in row {row}: correct them, or empty their cells"
    written = values[~is_plain]
    # 1,234 may be a thousand or a fraction: one that is not ambiguous is the better example
    sure = [text for text in written if not re.fullmatch(r"[+-]?\d+,\d{3}", text)]
    row, value = _first(present, texts.isin(sure or written))
    return f"its numbers are not written as numbers: write {plain_number(value)} for {value!r} (row {row})"


def _first(present: Any, chosen: Any) -> tuple[Any, str]:
    place = int(chosen.to_numpy().argmax())
    return present.index[place], str(present.iloc[place])
