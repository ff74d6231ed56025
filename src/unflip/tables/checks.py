"""Checks of the data: what a person should know about labels, rows and columns before trusting a model."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from unflip._validation import FloatArray, IntArray
from unflip.tables.preprocessing import EMPTY, SAME, WHOLE, as_days, is_day_first, kind
from unflip.tables.read import Table, many

HANDFUL = 5  # rows of a class that are too few to learn from
RATIO = 50  # of the largest class to the smallest
RARER = 10  # times as many rows has the class of which a label is a misspelling
SHORTEST = 4  # letters of a label that may be misspelled
MOST_ROWS = 20_000  # the columns of larger tables are judged by a sample
MOST_CELLS = 10**7  # in which copies are looked for
NEIGHBORS = 2000  # rows among which near copies are looked for if all columns are numbers
NEAR = 0.1  # of the median distance to the nearest row
GRID = 0.01  # of the deviation: numbers that are equal after rounding are near
FEWEST = 50  # rows from which leakage can be told
LEAKING = 0.95  # of the labels that the largest class leaves; no honest column predicts so many noisy ones
MOST_COLUMNS = 200  # that are tried alone, those that vary most between the classes
MOST_VALUES = 100  # beyond it, numbers are put into bins
BINS = 64
MOST_NAMED = 3  # classes or columns in a sentence
IDENTIFIER = re.compile(r"(^|[\W_])(id|ids|uuid|guid|key|index|idx|nr|rownum)$", re.IGNORECASE)
IDENTIFIER_CAMEL = re.compile(r"[a-z](Id|ID|Key|Nr)$")
COMPACT_DATE = (19_000_101, 21_001_231)  # 20240131
SECONDS = (6.0e8, 2.6e9)  # 1989 to 2052 in seconds since 1970; a thousand times as much in milliseconds


@dataclass(frozen=True)
class Finding:
    """Something that the data show.

    Attributes
    ----------
    kind : str
        "rare class", "imbalance", "similar labels", "spaces", "copies", "near copies", "identifier", "dates",
        "constant" or "leakage".
    sentence : str
        What was found, and what can be done. Nothing was changed, unless the sentence says so.
    columns : tuple of str
        The columns that it is about.
    rows : tuple of int
        The first 100 rows that it is about, counted from 0.
    rate : float or None
        For copies, the share of pairs that have different labels.
    """

    kind: str
    sentence: str
    columns: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    rate: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it for a program."""
        found: dict[str, Any] = {"kind": self.kind, "sentence": self.sentence}
        found |= {"columns": list(self.columns)} if self.columns else {}
        found |= {"rows": list(self.rows)} if self.rows else {}
        return found | ({} if self.rate is None else {"rate": self.rate})


def check_table(table: Table) -> list[Finding]:
    """Return what a person should know about the labels, rows and columns of a table; nothing is changed.

    It looks for classes with a handful of rows, very uneven classes, labels that differ by case, spaces or a typo,
    copies and near copies with different labels, columns that number or name the rows, dates, columns with one value,
    and columns that predict the label alone. Tables of more than 20,000 rows are judged by a sample of as many, except
    for their labels and copies.

    Examples
    --------
    >>> import pandas as pd
    >>> from unflip.tables import read_table
    >>> frame = pd.DataFrame({"size": range(40), "fruit": ["plum", "pear"] * 19 + ["Plum", "paer"]})
    >>> for finding in check_table(read_table(frame, "fruit"))[1:]:
    ...     print(finding.sentence)
    Some labels may be one class: 'Plum' (1 row), did you mean 'plum' (19)? 'paer' (1 row), did you mean 'pear' (19)?
    """
    findings = [Finding("spaces", note, _labels_column(table)) for note in table.notes]
    codes: IntArray | None = None
    if table.y is not None:
        classes, codes = np.unique(table.y, return_inverse=True)
        findings += _check_classes(classes, codes, _labels_column(table))
    X, kinds = table.X, None
    if hasattr(X, "columns"):  # pandas' own numbers, whose missing value NumPy does not know
        own = [name for name in X.columns if _is_number(X[name]) and not isinstance(X[name].dtype, np.dtype)]
        X = X.astype(dict.fromkeys(own, np.float64)) if own else X
    if np.ndim(X) > 2:
        X = X.reshape(len(X), -1)
    elif not sparse.issparse(X):
        n = len(X)
        sample = np.arange(n)
        if n > MOST_ROWS:
            sample = np.sort(np.random.default_rng(0).choice(n, MOST_ROWS, replace=False))
        seen = None if codes is None else codes[sample]
        if hasattr(X, "columns"):
            frame = X if len(sample) == n else X.iloc[sample]
            kinds = {str(name): kind(frame[name], 50) for name in frame.columns}
            findings += _check_columns(X, frame, kinds, seen)
        else:
            findings += _check_array(X[sample], seen)
    hiding = ("identifier", "dates", "leakage")  # in which copies of a row differ
    aside = {name for finding in findings if finding.kind in hiding for name in finding.columns}
    findings += _check_copies(X, codes, kinds, aside)
    return findings


def _labels_column(table: Table) -> tuple[str, ...]:
    return () if table.label is None else (table.label,)


# Labels ---------------------------------------------------------------------------------------------------------------


def _check_classes(classes: NDArray[Any], codes: IntArray, label: tuple[str, ...]) -> Iterator[Finding]:
    counts = np.bincount(codes)
    names = [str(name) for name in classes.tolist()]
    rare = np.flatnonzero(counts <= HANDFUL)
    if len(rare):
        rows = np.flatnonzero(np.isin(codes, rare))
        listed = _listed([f"{names[k]!r} ({counts[k]})" for k in rare[np.argsort(counts[rare], kind="stable")]])
        yield Finding(
            "rare class",
            f"{many(len(rare), 'class has', 'classes have')} {HANDFUL} rows or fewer: {listed}. That is too few to "
            "learn from: add rows, or merge or drop such classes.",
            label,
            _first(rows),
        )
    large, small = int(counts.argmax()), int(np.where(counts > HANDFUL, counts, counts.max()).argmin())
    if counts[large] >= RATIO * counts[small]:
        yield Finding(
            "imbalance",
            f"The classes are very uneven: {names[large]!r} has {counts[large]:,} rows, {names[small]!r} "
            f"{counts[small]:,}. A high accuracy says little here; look at the classes one by one.",
            label,
        )
    if classes.dtype.kind == "U":
        yield from _check_spelling(names, counts, codes, label)


def _check_spelling(names: list[str], counts: IntArray, codes: IntArray, label: tuple[str, ...]) -> Iterator[Finding]:
    """Labels that are equal but for case, spaces and punctuation, and rare ones with a typo."""
    meant: dict[int, int] = {}
    whole = [name.split(".")[0] if WHOLE.fullmatch(name) else name for name in names]  # 1.0 is 1
    plain = [" ".join(re.findall(r"\w+", name.casefold().replace("_", " "))) or name for name in whole]
    order = np.argsort(-counts, kind="stable").tolist()
    spelled: dict[str, int] = {}
    shorter: dict[str, list[int]] = {}  # words without one of their letters: words with a typo share one
    for k in order:
        word = plain[k]
        if word in spelled:
            meant[k] = spelled[word]
            continue
        spelled[word] = k
        if len(word) < SHORTEST:  # too short to be a typo itself, but a typo of it may be longer
            shorter.setdefault(word, []).append(k)
            continue
        variants = {word} | {word[:i] + word[i + 1 :] for i in range(len(word))}
        near = {j for variant in variants for j in shorter.get(variant, []) if counts[j] >= RARER * counts[k]}
        found = [j for j in near if _is_typo(word, plain[j])]
        if found:
            meant[k] = max(found, key=lambda j: counts[j])
        for variant in variants:
            shorter.setdefault(variant, []).append(k)
    if meant:
        said = [
            f"{names[k]!r} ({many(counts[k], 'row', 'rows')}), did you mean {names[j]!r} ({counts[j]:,})?"
            for k, j in meant.items()
        ]
        more = f" And {len(said) - 10} more." if len(said) > 10 else ""
        rows = np.flatnonzero(np.isin(codes, list(meant)))
        yield Finding(
            "similar labels", f"Some labels may be one class: {' '.join(said[:10])}{more}", label, _first(rows)
        )


def _is_typo(word: str, other: str) -> bool:
    """Whether one letter, but no digit, is wrong, missing, added or exchanged with the next one."""
    short, long = sorted((word, other), key=len)
    start = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(long) - len(short) > 1 or long[start].isdigit() or short[start : start + 1].isdigit():
        return False
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    swapped = short[start : start + 2] == long[start : start + 2][::-1] and short[start + 2 :] == long[start + 2 :]
    return swapped or short[start + 1 :] == long[start + 1 :]


# Columns --------------------------------------------------------------------------------------------------------------


def _check_columns(
    whole: Any, frame: Any, kinds: dict[str, tuple[str, str]], codes: IntArray | None
) -> Iterator[Finding]:
    constant = tuple(name for name, (_, reason) in kinds.items() if reason in (SAME, EMPTY))
    if constant:
        yield _constant(constant)
    for (name, (use, _)), original in zip(kinds.items(), frame.columns, strict=True):
        column = frame[original]
        values = column.to_numpy() if getattr(column.dtype, "kind", "O") in "iuf" else None
        if use == "date":
            yield _dates(name, column)
        elif values is not None and use == "number" and (said := _written_as_numbers(values)):
            yield _date_numbers(name, said)
        elif values is not None and use == "number" and _is_running(whole[original].to_numpy()):
            yield _identifier(name, "its values grow or fall from row to row")
        elif use in ("number", "category") and _is_named_identifier(name, column):
            yield _identifier(name, f"by its name, and it has {column.nunique():,} values")
    if codes is not None:
        used = [name for name in frame.columns if kinds[str(name)][0] != "unused"]
        yield from _check_leakage([(str(name), frame[name]) for name in used], codes)


def _check_array(X: NDArray[Any], codes: IntArray | None) -> Iterator[Finding]:
    if X.dtype.kind not in "iuf":
        return
    finite = np.where(np.isnan(X), 0, X) if X.dtype.kind == "f" else X
    low, high = finite.min(axis=0), finite.max(axis=0)
    constant = tuple(f"x{k}" for k in np.flatnonzero(low == high))
    if constant:
        yield _constant(constant)
    for k in np.flatnonzero((X[0] < X[1]) & (X[1] < X[2])) if len(X) >= FEWEST else ():
        if _is_running(X[:, k]):
            yield _identifier(f"x{k}", "its values grow from row to row")
    if codes is not None:
        yield from _check_leakage([(f"x{k}", X[:, k]) for k in range(X.shape[1])], codes)


def _constant(names: tuple[str, ...]) -> Finding:
    listed = _listed([repr(name) for name in names])
    said = "Column" if len(names) == 1 else "Columns"
    verb = (
        "has the same value in every row, or none, and is"
        if len(names) == 1
        else ("have the same value in every row, or none, and are")
    )
    return Finding("constant", f"{said} {listed} {verb} not used.", names)


def _identifier(name: str, why: str) -> Finding:
    return Finding(
        "identifier",
        f"Column {name!r} looks like a running number or an identifier ({why}), but is used as a feature: leave it out "
        "(drop) if it says nothing about new rows.",
        (name,),
    )


def _dates(name: str, column: Any) -> Finding:
    first = is_day_first(column)
    lost = int(np.isnan(as_days(column, name, first)).sum() - column.isna().sum())
    said = many(lost, "value is not a date and counts", "values are not dates and count")
    other = f"; {said} as missing" if lost else ""
    return Finding("dates", f"Column {name!r} holds dates, which become numbers, days since 1970{other}.", (name,))


def _date_numbers(name: str, said: str) -> Finding:
    return Finding(
        "dates",
        f"Column {name!r} looks like dates written as numbers ({said}) and is used as a number: make the year, the "
        "month or an age of it, or leave it out (drop).",
        (name,),
    )


def _is_running(values: NDArray[Any]) -> bool:
    """Whether whole numbers grow, or fall, from each row to the next."""
    if len(values) < FEWEST or (values.dtype.kind == "f" and not (values == np.round(values)).all()):
        return False
    steps = np.diff(values[:1000].astype(np.float64))  # most columns end here
    if not ((steps > 0).all() or (steps < 0).all()):
        return False
    steps = np.diff(values.astype(np.float64))
    return bool((steps > 0).all() or (steps < 0).all())


def _is_named_identifier(name: str, column: Any) -> bool:
    """Whether a column is called an identifier and has as many values as one."""
    if not (IDENTIFIER.search(name) or IDENTIFIER_CAMEL.search(name)) or len(column) < FEWEST:
        return False
    return bool(column.nunique() > max(20, len(column) / 20))


def _written_as_numbers(values: NDArray[Any]) -> str:
    present = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if len(present) < FEWEST or present.min() < COMPACT_DATE[0]:
        return ""
    whole = (present == np.round(present)).all()
    if whole and present.max() <= COMPACT_DATE[1]:
        month, day = present // 100 % 100, present % 100
        if month.min() >= 1 and month.max() <= 12 and day.min() >= 1 and day.max() <= 31:
            return f"such as {int(present[0])}"
    for scale, unit in ((1, "seconds"), (1000, "milliseconds")):
        low, high = scale * SECONDS[0], scale * SECONDS[1]
        if low <= present.min() and present.max() <= high and len(np.unique(present[:1000])) > 20:
            return f"such as {present[0]:.0f}, {unit} since 1970"
    return ""


# Leakage --------------------------------------------------------------------------------------------------------------


def _check_leakage(columns: Sequence[tuple[str, Any]], codes: IntArray) -> Iterator[Finding]:
    """Columns that predict the labels alone, judged on rows that were not counted."""
    n = len(codes)
    if n < FEWEST or len(counts := np.bincount(codes)) < 2:
        return
    majority = counts.max() / n
    for name, column in _most_varying(columns, codes):
        accuracy = _accuracy_alone(column, codes)
        if accuracy - majority >= LEAKING * (1 - majority):
            yield Finding(
                "leakage",
                f"Column {name!r} alone predicts {accuracy:.1%} of the labels (the largest class has {majority:.1%}): "
                "it may have been made from the label. Leave it out (drop) if it is not known before the label is.",
                (name,),
            )


def _most_varying(columns: Sequence[tuple[str, Any]], codes: IntArray) -> Sequence[tuple[str, Any]]:
    """The 200 columns of numbers with the largest share of variance between the classes, and as many others."""
    if len(columns) <= MOST_COLUMNS:
        return columns
    numbers = [pair for pair in columns if _is_number(pair[1])]
    if not numbers:
        return columns[:MOST_COLUMNS]
    values = np.nan_to_num(np.column_stack([np.asarray(column, dtype=np.float64) for _, column in numbers]))
    values -= values.mean(axis=0)
    indicator = sparse.csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))))
    means = (indicator @ values) / np.sqrt(np.maximum(np.bincount(codes), 1))[:, None]
    between = (means**2).sum(axis=0) / np.maximum((values**2).sum(axis=0), 1e-300)
    chosen = np.argsort(-between, kind="stable")[:MOST_COLUMNS]
    return [numbers[k] for k in chosen] + [pair for pair in columns if not _is_number(pair[1])][:MOST_COLUMNS]


def _is_number(column: Any) -> bool:
    return getattr(column.dtype, "kind", "O") in "iuf"


def _accuracy_alone(column: Any, codes: IntArray) -> float:
    """The share of labels that the most frequent label of the same value, in the other half of the rows, predicts."""
    values = _discrete(column)
    if values is None:
        return 0.0
    k, correct = int(codes.max()) + 1, 0
    half = np.random.default_rng(0).permutation(len(codes)) % 2 == 0
    for train in (half, ~half):
        table = np.bincount(values[train] * k + codes[train], minlength=(int(values.max()) + 1) * k).reshape(-1, k)
        guess = table.argmax(axis=1)
        guess[table.sum(axis=1) == 0] = np.bincount(codes[train]).argmax()
        correct += int((guess[values[~train]] == codes[~train]).sum())
    return correct / len(codes)


def _discrete(column: Any) -> IntArray | None:
    """The values of a column as codes; numbers with many values in bins, missing values as one of their own."""
    if _is_number(column):
        numbers: FloatArray = np.asarray(column, dtype=np.float64)
        missing = np.isnan(numbers)
        distinct, found = np.unique(np.where(missing, -np.inf, numbers), return_inverse=True)
        if len(distinct) > MOST_VALUES:
            edges = np.quantile(numbers[~missing], np.linspace(0, 1, BINS + 1)[1:-1])
            found = np.where(missing, BINS, np.searchsorted(edges, numbers, side="right"))
        return found.astype(np.intp)
    if not hasattr(column, "factorize"):
        return np.unique(column, return_inverse=True)[1].astype(np.intp)
    try:
        found, distinct = column.factorize()
    except TypeError:  # lists
        return None
    if len(distinct) > len(column) / 2:  # names and free text
        return None
    return np.where(found < 0, len(distinct), found).astype(np.intp)


# Copies ---------------------------------------------------------------------------------------------------------------


def _check_copies(
    X: Any, codes: IntArray | None, kinds: dict[str, tuple[str, str]] | None, aside: set[str]
) -> Iterator[Finding]:
    """Equal and nearly equal rows with different labels: no model of these columns can tell which is right."""
    if codes is None or X.shape[0] < 2:
        return
    if kinds is not None:
        X = X[[name for name in X.columns if str(name) not in aside and _tells_rows_apart(kinds[str(name)])]]
    if X.shape[1] == 0:
        return
    limit = max(MOST_CELLS // X.shape[1], 1000)
    rows = np.arange(X.shape[0])
    if len(rows) > limit:
        rows = np.sort(np.random.default_rng(0).choice(len(rows), limit, replace=False))
        X = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
    said = "" if len(rows) == len(codes) else f" in a sample of {len(rows):,} rows"
    codes = codes[rows]
    keys = _keys(X)
    exact = _pairs(keys, codes)
    if exact.differ:
        yield Finding(
            "copies",
            f"{exact.rows:,} rows are copies of other rows{said}; {exact.told('of copies')}. Either labels are wrong, "
            "or a column is missing.",
            rows=_first(rows[exact.differing]),
            rate=exact.rate,
        )
    near = _near_copies(X, codes, keys, kinds)
    if near is not None and near.differ:
        yield Finding(
            "near copies",
            f"{near.rows:,} rows are nearly equal to another row{near.said or said}; {near.told('of such rows')}.",
            rows=_first(rows[near.differing]),
            rate=near.rate,
        )


def _tells_rows_apart(found: tuple[str, str]) -> bool:
    """Whether a column describes rows: not if it numbers or names them, or holds what cannot be compared."""
    use, reason = found
    return use != "unused" or reason == SAME


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of equal rows: how many rows are in one, how many pairs there are, and how many differ in their label."""

    rows: int
    total: int
    differ: int
    differing: NDArray[np.intp]
    said: str = ""

    @property
    def rate(self) -> float:
        return self.differ / max(self.total, 1)

    def told(self, kind: str) -> str:
        have = "has" if self.differ == 1 else "have"
        pairs = many(self.total, "pair", "pairs")
        return f"{self.differ:,} of {pairs} {kind} ({self.rate:.1%}) {have} different labels"


def _pairs(keys: NDArray[Any], codes: IntArray) -> Pairs:
    _, group, size = np.unique(keys, return_inverse=True, return_counts=True)
    k = int(codes.max()) + 1
    _, both, same = np.unique(group.astype(np.int64) * k + codes, return_inverse=True, return_counts=True)
    total, equal = int((size * (size - 1) // 2).sum()), int((same * (same - 1) // 2).sum())
    return Pairs(int(size[size > 1].sum()), total, total - equal, np.flatnonzero(size[group] > same[both]))


def _keys(X: Any) -> NDArray[Any]:
    """A number for each row; equal rows have equal ones."""
    if hasattr(X, "columns"):
        from pandas.util import hash_pandas_object

        return np.asarray(hash_pandas_object(X, index=False))
    if sparse.issparse(X):
        pieces = np.split(np.arange(X.nnz), X.indptr[1:-1])
        return np.array([hash((X.indices[part].tobytes(), X.data[part].tobytes())) for part in pieces])
    return np.array([hash(row.tobytes()) for row in np.ascontiguousarray(X)])


def _near_copies(X: Any, codes: IntArray, keys: NDArray[Any], kinds: dict[str, tuple[str, str]] | None) -> Pairs | None:
    if sparse.issparse(X):
        return None
    if kinds is not None and not all(_is_number(X[name]) for name in X.columns):
        return _near_words(X, codes, keys)
    return _near_numbers(np.asarray(X, dtype=np.float64), codes, keys)


def _near_words(X: Any, codes: IntArray, keys: NDArray[Any]) -> Pairs:
    """Rows that are equal up to the case, order and number of their words, and to a hundredth of the deviation."""
    import pandas as pd

    rounded = {}
    for name in X.columns:
        column = X[name]
        if _is_number(column):
            numbers = column.to_numpy(dtype=np.float64)
            spread = float(np.nanstd(numbers)) if np.isfinite(numbers).any() else 0.0
            rounded[str(name)] = np.round(numbers / (GRID * spread or 1.0))
        else:
            found, distinct = pd.factorize(column)
            words = [" ".join(sorted(set(re.findall(r"\w+", str(value).casefold())))) for value in distinct]
            rounded[str(name)] = np.array([*words, ""], dtype=object)[found]
    first = pd.Series(keys).drop_duplicates().index.to_numpy()  # copies have been counted
    near = _pairs(_keys(pd.DataFrame(rounded).iloc[first]), codes[first])
    return Pairs(near.rows, near.total, near.differ, first[near.differing])


def _near_numbers(X: FloatArray, codes: IntArray, keys: NDArray[Any]) -> Pairs | None:
    """Rows much closer to another row than is usual; by chance, ln 2 * NEAR^d of them are."""
    _, first = np.unique(keys, return_index=True)
    said = ""
    if len(first) > NEIGHBORS:
        first = np.sort(np.random.default_rng(0).choice(first, NEIGHBORS, replace=False))
        said = f" in a sample of {NEIGHBORS:,} rows"
    if len(first) < FEWEST or X.shape[1] < 3:
        return None
    Z = np.nan_to_num(X[first])
    Z = Z - Z.mean(axis=0)
    Z /= np.maximum(Z.std(axis=0), 1e-12 * max(np.abs(Z).max(), 1e-300))
    squares = (Z**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * Z @ Z.T, 0)
    np.fill_diagonal(distances, np.inf)
    nearest, distance = distances.argmin(axis=1), np.sqrt(distances.min(axis=1))
    close = np.flatnonzero(distance < NEAR * np.median(distance))
    pairs = np.unique(np.sort(np.column_stack([close, nearest[close]]), axis=1), axis=0)
    if len(pairs) < max(HANDFUL, 5 * NEAR ** X.shape[1] * len(first)):
        return None
    differ = pairs[codes[first[pairs[:, 0]]] != codes[first[pairs[:, 1]]]]
    involved = np.unique(pairs)
    return Pairs(len(involved), len(pairs), len(differ), first[np.unique(differ)] if len(differ) else first[:0], said)


# Sentences ------------------------------------------------------------------------------------------------------------


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return ", ".join(items[:MOST_NAMED]) + more


def _first(rows: NDArray[np.intp]) -> tuple[int, ...]:
    return tuple(rows[:100].tolist())
