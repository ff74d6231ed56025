"""The labels of several annotators in a table: which columns they are, and the consensus as files and a page."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip import __version__
from unflip._output import write_columns
from unflip.commands.folders import written_folder
from unflip.crowd import AnnotatorModel, annotations_of, long_annotations
from unflip.tables import Table
from unflip.tables.read import _number, as_labels, no_such

FILES = ("summary.json", "consensus.csv", "annotators.csv", "confusions.csv", "next.csv", "index.html")
NEXT = 1_000  # rows that are listed for another label
PAIRS = 20  # of annotators that depend on each other, in the summary
INTEGER = re.compile(r"-?(0|[1-9]\d{0,14})(\.0+)?")  # 1.0, not 01: zeros in front belong to a code
LIKELY = 0.01  # p-value below which annotators count as dependent


def split_names(columns: str | None, item: str | None, annotator: str | None, label: str | None) -> list[str]:
    """Return the columns that several annotators need, none if there is one label per row, or say what is missing."""
    if columns is None and item is None and annotator is None:
        return []
    if columns is None:
        if item is None or annotator is None or label is None:
            raise ValueError("labels in long form need --item, --annotator and --label, one column each")
        return [item, annotator, label]
    if item is not None or annotator is not None or label is not None:
        raise ValueError("--label-columns excludes --label, --item and --annotator; give either form")
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"--label-columns needs at least two different columns, separated by commas; got {columns!r}")
    return names


def annotated_table(
    table: Table, columns: str | None = None, item: str | None = None, annotator: str | None = None, label: Any = None
) -> tuple[Table, int]:
    """Return a table with the labels of several annotators, and how many rows have none and are left out.

    Parameters
    ----------
    table : Table
        A table from :func:`unflip.tables.read_table`, read with ``label=False``.
    columns : str, default=None
        The columns of the annotators, separated by commas.
    item, annotator, label : str, default=None
        In long form, the columns that name the item and the annotator, and that of the label. The other columns of an
        item are those of its first line.
    """
    names = split_names(columns, item, annotator, label)
    frame = table.X
    if not hasattr(frame, "columns"):
        raise ValueError("several annotators need a table with named columns; arrays and images have one label per row")
    for name in names:
        if name not in frame.columns:
            no_such(name, map(str, frame.columns), "the table has no column")
    rest, weights, rows_named = frame.drop(columns=names), table.sample_weight, table.names
    if columns is not None:
        said = as_said(frame[names].astype(object).where(frame[names].notna(), "").to_numpy())
        if any(isinstance(cell, float) for cell in said.ravel()):  # refused, in the words for one label per row
            for name, column in zip(names, said.T, strict=True):
                as_labels(type(frame[name])([0.0 if cell is None else cell for cell in column], name=name))
        a = annotations_of(type(frame)(said, columns=names, dtype=object))
        said_of = columns
    else:
        kept = np.flatnonzero(frame[label].notna() & frame[item].notna() & frame[annotator].notna())
        if len(kept) == 0:
            raise ValueError(f"no line has an entry in each of {item!r}, {annotator!r} and {label!r}")
        values = [frame[name].iloc[kept].astype(str).to_numpy(dtype=object).astype(str) for name in names]
        values[names.index(label)] = as_labels(as_said(frame[label].iloc[kept].to_numpy(dtype=object)))
        rows_named, a = long_annotations(*values)
        _, first = np.unique(values[0], return_index=True)
        first = kept[np.sort(first)]
        rest, weights = rest.iloc[first].reset_index(drop=True), None if weights is None else weights[first]
        said_of = str(label)
    labeled = np.flatnonzero(a.counts.sum(axis=1) > 0)
    lost = a.n_rows - len(labeled)
    if lost:
        a, rest, rows_named = a.take(labeled), rest.iloc[labeled].reset_index(drop=True), rows_named[labeled]
        weights = None if weights is None else weights[labeled]
    y = a.classes[a.majority]
    found = replace(table, X=rest, y=y, sample_weight=weights, names=rows_named, label=said_of, annotations=a)
    return found, lost


def as_said(cells: NDArray[Any]) -> NDArray[Any]:
    """Return labels in one way, whoever wrote them, and None where there is none: 1.0 and " 1" are the label 1.

    Numbers that are not all whole are floats, which :func:`unflip.tables.read.as_labels` refuses.
    """
    texts = [str(cell).strip() for cell in cells.ravel().tolist()]
    given = {text for text in texts if text}
    if all(map(INTEGER.fullmatch, given)):
        meant: dict[str, Any] = {text: int(float(text)) for text in given}
    elif all(np.isfinite(_number(text)) for text in given) and any(_number(text) % 1 for text in given):
        meant = {text: _number(text) for text in given}
    elif given <= {"True", "False"}:
        meant = {text: text == "True" for text in given}
    else:
        meant = {text: text.partition(".")[0] if INTEGER.fullmatch(text) else text for text in given}
    found = np.empty(len(texts), dtype=object)
    found[:] = [meant.get(text) for text in texts]
    return found.reshape(cells.shape)


def write_consensus(
    crowd: AnnotatorModel,
    names: Any,
    folder: str | os.PathLike[str],
    *,
    title: str,
    n_next: int = NEXT,
    raw: bool = False,
) -> dict[str, Any]:
    """Write the consensus, the annotators, the rows to label next and a page to a folder, and return the summary.

    ``names`` are those of the rows. The folder appears whole or not at all; an earlier result is replaced, any other
    folder is refused. Unless ``raw``, text that a spreadsheet would take for a formula gets an apostrophe.
    """
    from unflip.page import write_crowd_page

    classes, names = [str(name) for name in crowd.classes_.tolist()], np.asarray(names)
    who = np.array([str(name) for name in crowd.annotators_.tolist()], dtype=object)
    pairs = crowd.dependence()
    dependent = [pair for pair in pairs if pair.p_value < LIKELY and pair.z > 0]
    summary: dict[str, Any] = {
        "made_with": f"unflip {__version__}",
        "rows": len(crowd.posterior_),
        "annotators": len(who),
        "labels": len(crowd.annotations_.codes),
        "classes": classes,
        "class_prior": crowd.class_prior_.tolist(),
        "transition": crowd.transition_.tolist(),
        "expected_accuracy": float(crowd.confidence_.mean()),
        "krippendorff_alpha": None if np.isnan(crowd.agreement_) else crowd.agreement_,
        "annotators_abstain": crowd.abstain_,
        "pairs_tested": len(pairs),
        "pairs_dependent": len(dependent),
        "dependent": [
            {
                "first": str(pair.first),
                "second": str(pair.second),
                "rows": pair.n_rows,
                "agreement": pair.agreement,
                "expected": pair.expected,
                "p_value": pair.p_value,
            }
            for pair in dependent[:PAIRS]
        ],
    }
    n_given = crowd.annotations_.counts.sum(axis=1).astype(int)
    text = crowd.consensus_.astype(str)
    proba = {f"probability_{name}": crowd.posterior_[:, k].round(6) for k, name in enumerate(classes)}
    following = crowd.next_rows(n_next)
    with written_folder(folder, FILES) as partial:
        (partial / FILES[0]).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        sure = {"name": names, "label": text, "probability": crowd.confidence_.round(6), "n_labels": n_given}
        write_columns(partial / FILES[1], {**sure, **proba}, raw)
        coverage = {f"coverage_{name}": crowd.coverage_[:, k].round(6) for k, name in enumerate(classes)}
        quality: Mapping[str, Any] = {"annotator": who, "n_labels": crowd.n_labels_, "quality": crowd.quality_.round(6)}
        write_columns(partial / FILES[2], {**quality, **coverage}, raw)
        m, c = len(who), len(classes)
        rates = {f"says_{name}": crowd.transitions_[:, :, k].ravel().round(6) for k, name in enumerate(classes)}
        write_columns(partial / FILES[3], {"annotator": np.repeat(who, c), "class": np.tile(classes, m), **rates}, raw)
        worth = {"information": crowd.next_label_value_.round(6), **sure}
        write_columns(partial / FILES[4], {key: np.asarray(values)[following] for key, values in worth.items()}, raw)
        write_crowd_page(crowd, names, partial / FILES[5], title=title, dependent=dependent, n_pairs=len(pairs))
    return {**summary, "out": str(Path(folder))}
