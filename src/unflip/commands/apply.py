"""Apply reviewed corrections to the data: a copy with other labels, and a log of what changed."""

import csv
import gzip
import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unflip._input import check_file, check_there, opened, parse_json, read_json
from unflip._output import (
    SEPARATORS,
    check_apart,
    check_place,
    check_replaced,
    replaced,
    replaced_folder,
    together,
    unguarded,
    write_columns,
)
from unflip.audit.exchange import read_answers
from unflip.datasets.npz import read_arrays
from unflip.tables import read_table
from unflip.tables.read import ARROW, JSON_LINES, PARQUET, TEXT, missing_labels, no_such, open_file, table_suffix

YES = {"yes", "y", "true", "1", "x", "accepted", "accept"}
NO = {"no", "n", "false", "0", "", "rejected", "reject"}


class Correction(NamedTuple):
    """A label that a reviewer decided on."""

    name: str  # of the row
    given: str | None  # the label as it was, if the file says so
    corrected: str
    probability: str = ""  # of being wrong, as the file has it


@dataclass(frozen=True)
class Applied:
    """What :func:`apply_corrections` did: the changes as (name, before, after, probability), and how many more.

    ``kept`` labels were confirmed by the reviewer, and ``done`` had been corrected before.
    """

    out: Path
    log: Path
    label: str
    changes: list[tuple[str, str, str, str]]
    kept: int
    done: int
    n_rows: int


def apply_corrections(
    corrections: str | os.PathLike[str],
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    label: str | None = None,
    id: str | None = None,
    least: float = 0.0,
    log: str | os.PathLike[str] | None = None,
    encoding: str | None = None,
) -> Applied:
    """Write a copy of the data with corrected labels, and a log of the changes next to it.

    Everything but the labels stays as it is. Nothing is written if a row is not found, or has another label than the
    one that was judged; 1.0 is the label 1, as everywhere.

    Parameters
    ----------
    corrections : path-like
        ``suspects.csv`` of an audit, of which every row counts as accepted, or only those whose column ``accepted``
        says so, if there is one; ``corrected-labels.csv``, which the page exports; or what Label Studio or Argilla
        export (JSON), see :mod:`unflip.audit.exchange`. A column ``corrected`` takes precedence over ``suggested``.
    data : path-like
        What was audited: CSV, TSV, JSON Lines, Parquet, Arrow, NPZ, or a folder of images.
    out : path-like
        The copy, of the same kind.
    label, id : str, default=None
        The columns of the labels and of the names of the rows. If None, they are those of ``summary.json`` next to the
        corrections; if there is none, the label is the one column that agrees with what was judged, and rows are found
        by their number, counted from 0, as in the audit.
    least : float, default=0.0
        Apply only suggestions with at least this probability that the given label is wrong.
    log : path-like, default=None
        CSV file of the changes: name, given, corrected, probability_wrong, source. If None, it is called like ``out``,
        with ``.changes.csv`` at its end.
    encoding : str, default=None
        The encoding of text files, as in :func:`unflip.tables.read_table`; the copy has the same.
    """
    source, target = Path(data), Path(out)
    noted = _noted(Path(corrections))
    if label is None and noted.get("annotators"):
        raise ValueError(
            f"{corrections} judges the labels of several annotators together, so that no column holds the labels to "
            "correct: labels.csv next to it has the suggested label of each row, or name a column of the data that "
            "holds the majority with --label"
        )
    label, id = label or noted.get("label"), id or noted.get("id")
    log = _plain(target).with_name(_plain(target).name + ".changes.csv") if log is None else Path(log)
    _check_paths(source, target, log, Path(corrections))
    wanted: dict[str, Correction] = {}
    for one in read_corrections(corrections, least):
        if wanted.setdefault(one.name, one).corrected != one.corrected:
            raise ValueError(f"{corrections} has two labels for {one.name!r}; keep one of them")
    if not wanted:
        raise ValueError(f"{corrections} has no accepted correction; nothing would change")
    with together():
        applied = Applied(target, log, *_writer(source, encoding)(source, target, wanted, label, id))
        columns = ("name", "given", "corrected", "probability_wrong", "source")
        rows = [(*change, Path(corrections).name) for change in applied.changes]
        write_columns(log, {name: np.array([row[k] for row in rows], dtype=object) for k, name in enumerate(columns)})
    return applied


def read_corrections(path: str | os.PathLike[str], least: float = 0.0) -> list[Correction]:
    """Return the accepted corrections of a file, see :func:`apply_corrections`."""
    source = Path(path)
    check_file(source)
    if source.suffix.lower() == ".json":
        answers = [Correction(*answer) for answer in read_answers(source)]
        return [one for one in answers if float(one.probability or 1) >= least]
    if source.suffix.lower() not in SEPARATORS:
        raise ValueError(
            f"{source} must end in .csv, .tsv or .json: suspects of an audit, or an export of reviewed ones"
        )
    with source.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter=SEPARATORS[source.suffix.lower()])
        there = list(reader.fieldnames or ())
        # audit --raw writes suggestions as they are; the page always guards its export, which has none.
        plain = (lambda cell: cell) if "suggested" in there and _noted(source).get("raw") else unguarded
        if "name" not in there or not {"corrected", "suggested"} & set(there):
            raise ValueError(
                f"{source} must have the columns name, and corrected or suggested; it has {', '.join(there)}"
            )
        found = []
        for number, row in enumerate(reader, 2):
            probability = row.get("probability_wrong") or ""
            answer = (row.get("accepted") or "").strip().lower()
            if "accepted" in there and answer not in YES | NO:
                raise ValueError(f"line {number} of {source} has {answer!r} in the column accepted; write yes or no")
            texts = (plain(row.get(name) or "").strip() for name in ("corrected", "suggested"))
            corrected = next(filter(None, texts), "")
            if (answer in YES or "accepted" not in there) and corrected and float(probability or 1) >= least:
                given = row.get("given")
                found.append(Correction(plain(row["name"]), given and plain(given), corrected, probability))
    return found


def _noted(path: Path) -> dict[str, Any]:
    """Return what the audit in whose folder the corrections are noted about its data."""
    try:
        summary = read_json(path.parent / "summary.json")
    except (OSError, ValueError):
        return {}
    columns = summary.get("columns", {}) if isinstance(summary, dict) else {}
    return columns if isinstance(columns, dict) else {}


def _plain(path: Path) -> Path:
    """Return a path without its suffix, which may be two, as in .csv.gz."""
    return path.with_name(path.name.removesuffix(".gz").removesuffix(Path(path.name.removesuffix(".gz")).suffix))


def _check_paths(source: Path, target: Path, log: Path, corrections: Path) -> None:
    check_there(source)
    if target.exists() and target.samefile(source):
        raise ValueError(f"{target} is the data itself; choose another name, so that the labels as they were are kept")
    if source.is_dir():
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise FileExistsError(f"{target} exists; choose another folder")
    elif target.name.lower().endswith(".gz") != source.name.lower().endswith(".gz") or _kind(target) != _kind(source):
        raise ValueError(f"{target} must end like {source.name}: it is a copy with other labels, of the same kind")
    for path in (target, log):
        check_place(path)
        if path == log or not source.is_dir():
            check_replaced(path)
    check_apart([target, log], [source, corrections])


def _kind(path: Path) -> str:
    return ".parquet" if table_suffix(str(path)) in PARQUET else table_suffix(str(path))


# One function per kind of data. Each returns the label's column, the changes, how many were kept and how many had been
# made before, and the number of rows.

Wanted = Mapping[str, Correction]
Done = tuple[str, list[tuple[str, str, str, str]], int, int, int]


def _writer(source: Path, encoding: str | None) -> Callable[[Path, Path, Wanted, str | None, str | None], Done]:
    kind = _kind(source)
    if encoding is not None and (source.is_dir() or kind not in (*TEXT, *JSON_LINES)):
        raise ValueError(f"an encoding is for text files, but {source} is not one; leave it out")
    if source.is_dir():
        return _write_images
    if kind in TEXT:
        return partial(_write_text, encoding=encoding)
    if kind in JSON_LINES:
        return partial(_write_json_lines, encoding=encoding)
    if kind == ".npz":
        return _write_npz
    if kind == ".parquet" or kind in ARROW:
        return _write_arrow
    raise ValueError(f"{source} is not a table, an NPZ file or a folder of images")


class _Changes:
    """Collects what happens to each row."""

    def __init__(self, wanted: Wanted, source: Path) -> None:
        self.wanted, self.source = wanted, source
        self.seen: set[str] = set()
        self.made: list[tuple[str, str, str, str]] = []
        self.kept = self.done = 0

    def label_of(self, name: str, label: str) -> str | None:
        """Return the new label of a row, or None if it keeps its own."""
        if (one := self.wanted.get(name)) is None:
            return None
        if name in self.seen:
            raise ValueError(f"{self.source} has more than one row called {name!r}; name the rows with --id COLUMN")
        self.seen.add(name)
        if one.given is not None and not _same(label, one.given.strip()):
            if not _same(label, one.corrected):
                raise ValueError(
                    f"row {name!r} of {self.source} has the label {label!r}, but {one.given!r} was judged; is this the "
                    "file that was audited? Name the label and the rows with --label and --id"
                )
            self.done += 1
            return None
        if _same(label, one.corrected):
            self.kept += 1
            return None
        new = _written_like(label, one.corrected)
        self.made.append((name, label, new, one.probability))
        return new

    def result(self, label: str, n_rows: int) -> Done:
        if lost := [name for name in self.wanted if name not in self.seen]:
            raise ValueError(
                f"{self.source} has no row called {lost[0]!r} ({len(lost):,} of {len(self.wanted):,} were not found); "
                "name the rows with --id COLUMN, or give the file that was audited"
            )
        return label, self.made, self.kept, self.done, n_rows


def _write_text(
    source: Path, target: Path, wanted: Wanted, label: str | None, id: str | None, encoding: str | None = None
) -> Done:
    """Rewrite a CSV file, record by record; those without a change are copied as they are written."""
    form: Any = open_file(str(source), encoding)
    header = list(form.header)
    for name in (label, id):
        if name is not None and name not in header:
            no_such(name, [one for one in header if one], f"{source} has no column")
    at = header.index(id) if id is not None else 0 if header[0] == "" else None

    def called(number: int, cells: list[str]) -> str:
        if at is None:
            return str(number)
        name = cells[at].strip()
        return str(int(name)) if id is None and name.lstrip("-").isdecimal() else name

    if label is None:
        label = _label_that_agrees(
            ((called(k, cells), cells) for k, (cells, _) in enumerate(_records(source, form))), header, wanted, source
        )
    place, changes = header.index(label), _Changes(wanted, source)
    with replaced(target) as partial, _opened(source, target, partial, form) as (file, written):
        n = -1  # the header comes first
        for cells, raw in _raw_records(file, form):
            new = changes.label_of(called(n, cells), cells[place].strip()) if cells and n >= 0 else None
            n += bool(cells)
            if new is not None:
                cells[place] = new
                end = raw[len(raw.rstrip("\r\n")) :]
                csv.writer(written, delimiter=form.separator, lineterminator=end).writerow(cells)
            else:
                written.write(raw)
        done = changes.result(label, n)
    return done


def _label_that_agrees(rows: Iterator[tuple[str, list[str]]], header: list[str], wanted: Wanted, source: Path) -> str:
    """Return the one column that has the labels that were judged."""
    right, met = Counter[int](), 0
    for name, cells in rows:
        one = wanted.get(name)
        if one is not None and one.given is not None:
            met += 1
            right.update(k for k, cell in enumerate(cells[: len(header)]) if _same(cell.strip(), one.given.strip()))
    agree = [header[k] for k, times in right.items() if times == met]
    if not agree:
        raise ValueError(
            f"no column of {source} has the labels that were judged; name their column with --label, and the column "
            "that names the rows, if the audit had one, with --id"
        )
    if len(agree) > 1:
        named = ", ".join(map(repr, sorted(agree)))
        raise ValueError(f"{named} of {source} all have the labels that were judged; choose one with --label")
    return agree[0]


def _records(source: Path, form: Any) -> Iterator[tuple[list[str], str]]:
    with _reading(source, form) as file:
        records = (record for record in _raw_records(file, form) if record[0])
        next(records)
        yield from records


def _raw_records(file: Any, form: Any) -> Iterator[tuple[list[str], str]]:
    """Return the cells of each record, and its lines as they are written; empty lines have no cells."""
    held: list[str] = []

    def lines() -> Iterator[str]:
        for line in file:
            held.append(line)
            yield line

    for cells in csv.reader(lines(), delimiter=form.separator, skipinitialspace=True):
        raw = "".join(held)
        held.clear()
        yield cells, raw


@contextmanager
def _reading(path: Path, form: Any) -> Iterator[Any]:
    """Open the text of a file, decompressed."""
    with opened(path) as raw:
        yield io.TextIOWrapper(raw, getattr(form, "encoding", "utf-8"), newline="")


@contextmanager
def _opened(source: Path, target: Path, partial: Path, form: Any) -> Iterator[tuple[Any, Any]]:
    """Open the source to read and a partial file to write, compressed if the target's name says so."""
    is_compressed = target.name.lower().endswith(".gz")
    how: dict[str, Any] = {"encoding": getattr(form, "encoding", "utf-8"), "newline": ""}
    with _reading(source, form) as file, (gzip.open if is_compressed else open)(partial, "wt", **how) as written:
        yield file, written


def _write_json_lines(
    source: Path, target: Path, wanted: Wanted, label: str | None, id: str | None, encoding: str | None = None
) -> Done:
    changes, n = _Changes(wanted, source), 0
    label = _needed(label, source)
    form = open_file(str(source), encoding)
    with replaced(target) as partial, _opened(source, target, partial, form) as (file, written):
        for line in file:
            if not line.strip():
                continue
            row = parse_json(line)
            if id is not None and id not in row:
                no_such(id, row, f"row {n} of {source} has no value")
            given = "" if row.get(label) is None else str(row[label]).strip()
            new = changes.label_of(str(n if id is None else row[id]), given) if given else None
            if new is not None:
                row[label] = _like(row[label], new)
            written.write(line if new is None else json.dumps(row, ensure_ascii=False) + "\n")
            n += 1
        done = changes.result(label, n)
    return done


def _write_arrow(source: Path, target: Path, wanted: Wanted, label: str | None, id: str | None) -> Done:
    import pyarrow
    from pyarrow import feather, parquet

    label, is_parquet = _needed(label, source), _kind(source) == ".parquet"
    names, labels = _names_and_labels(source, label, id)
    table = parquet.read_table(source) if is_parquet else feather.read_table(source)  # after it has been checked
    column, changes = table.column(label), _Changes(wanted, source)
    values = column.to_pylist()
    kept = np.flatnonzero(~missing_labels(np.array(values, dtype=object)))  # rows without a label were not judged
    for k, name, old in zip(kept.tolist(), names, labels, strict=True):
        new = changes.label_of(name, old)
        if new is not None:
            values[k] = _like(values[k], new)
    done = changes.result(label, len(values))
    is_dictionary = pyarrow.types.is_dictionary(column.type)
    changed = pyarrow.array(values, column.type.value_type if is_dictionary else column.type)
    changed = changed.dictionary_encode() if is_dictionary else changed
    place = table.schema.get_field_index(label)
    field = table.schema.field(label).with_type(changed.type)
    table = table.set_column(place, field, changed)
    with replaced(target) as partial:
        if is_parquet:
            parquet.write_table(table, partial, write_page_checksum=True)
        else:
            feather.write_feather(table, str(partial))
    return done


def _write_npz(source: Path, target: Path, wanted: Wanted, label: str | None, id: str | None) -> Done:
    table = read_table(source, label)
    if table.y is None or table.label is None:
        raise ValueError(f"{source} has no labels; name their key with --label")
    changes = _Changes(wanted, source)
    found: dict[str, Any] = dict(read_arrays(source))
    if table.label not in found:
        raise ValueError(f"the labels of {source} are in another file, {table.label}; correct them there")
    y = found[table.label]
    labels: Any = [_like(value, str(value)) for value in np.ravel(y).tolist()]
    is_coded = "classes" in found and y.dtype.kind in "iu" and table.y.dtype.kind == "U"
    codes = {str(name): k for k, name in enumerate(found["classes"].tolist())} if is_coded else {}
    kept = np.flatnonzero(~missing_labels(np.ravel(y)))  # rows without a label were not judged
    for k, name, old in zip(kept.tolist(), table.names.tolist(), table.y.tolist(), strict=True):
        new = changes.label_of(str(name), str(old))
        if new is not None:
            labels[k] = codes[new] if new in codes else _like(labels[k], new)
    done = changes.result(table.label, len(labels))
    found[table.label] = np.array(labels, dtype=None if y.dtype.kind in "US" else y.dtype).reshape(y.shape)
    with replaced(target) as partial, partial.open("wb") as file:
        np.savez(file, **found)
    return done


def _write_images(source: Path, target: Path, wanted: Wanted, label: str | None, id: str | None) -> Done:
    """Copy a folder of images; those with another label go to its folder."""
    changes, n = _Changes(wanted, source), 0
    with replaced_folder(target) as partial:
        for path in sorted(path for path in source.rglob("*") if path.is_file()):
            inside = path.relative_to(source)
            n += 1
            new = changes.label_of(inside.as_posix(), inside.parts[0]) if len(inside.parts) == 2 else None
            place = partial / (inside if new is None else Path(new) / path.name)
            if new is not None and (place.parent.resolve().parent != partial.resolve()):
                raise ValueError(f"the label {new!r} cannot be the name of a folder")
            if new is not None and (place.exists() or (source / new / path.name).exists()):
                place = place.with_name(f"{inside.parts[0]}-{path.name}")  # another image has this name there
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
        done = changes.result("folder", n)
    return done


def _names_and_labels(source: Path, label: str, id: str | None) -> tuple[list[str], list[str]]:
    table = read_table(source, label, kinds=None if id is None else {id: "category"})
    assert table.y is not None
    if id is None:
        names = table.names.tolist()
    elif id in table.X.columns:
        names = table.X[id].tolist()
    else:
        no_such(id, map(str, table.X.columns), f"{source} has no column")
    return [str(name) for name in names], [str(value) for value in table.y.tolist()]


def _needed(label: str | None, source: Path) -> str:
    if label is None:
        raise ValueError(f"{source} needs --label COLUMN, the column of its labels")
    return label


def _same(label: str, other: str) -> bool:
    """Return whether two labels are the same, however they are written: 1.0 is 1, and TRUE is True."""
    return label == other or _canonical(label) == _canonical(other) is not None


def _canonical(label: str) -> int | bool | None:
    """Return the whole number or the boolean that a label means, if any."""
    if label.lower() in ("true", "false"):
        return label.lower() == "true"
    try:
        number = float(label)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def _written_like(label: str, new: str) -> str:
    """Return a new label in the way that the old one is written: 2.0 next to 1.0, and FALSE next to TRUE."""
    before, after = _canonical(label), _canonical(new)
    if isinstance(before, bool) and isinstance(after, bool):
        return new.upper() if label.isupper() else new.lower() if label.islower() else new
    _, point, zeros = label.partition(".")
    is_decimal = point and before is not None and not zeros.strip("0")
    return f"{after}.{zeros}" if is_decimal and after is not None and "." not in new else new


def _like(value: Any, text: str) -> Any:
    """Return a label that is written as text as what the other labels are."""
    try:
        if isinstance(value, bool):
            return {"True": True, "False": False}[text]
        return type(value)(text) if isinstance(value, int | float) else text
    except (KeyError, ValueError) as error:
        raise ValueError(f"the labels are like {value!r}, which {text!r} is not; correct it in the review") from error
