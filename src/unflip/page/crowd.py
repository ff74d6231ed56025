"""Write the page of several annotators: the consensus, their quality and confusion, and what to label next."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unflip import __version__
from unflip._output import write_whole
from unflip.crowd import AnnotatorModel, Dependence
from unflip.page.write import _cut, _part, _template

ANNOTATORS = 200  # the worst, with their confusion; annotators.csv has all
NEXT = 50  # rows to label next; next.csv has more
PAIRS = 20


def write_crowd_page(
    crowd: AnnotatorModel,
    names: Any,
    path: str | Path,
    *,
    title: str,
    dependent: Sequence[Dependence] = (),
    n_pairs: int = 0,
    command: str = "unflip consensus",
) -> Path:
    """Write what a fitted model knows as one HTML file that needs no network and has no script; return its path.

    ``names`` are those of the rows, ``dependent`` the pairs of annotators that depend on each other, out of
    ``n_pairs`` that were tested.
    """
    a = crowd.annotations_
    classes = [str(name) for name in crowd.classes_.tolist()]
    votes = a.counts.astype(int)
    n_votes = votes.sum(axis=1)
    following = [
        (
            _cut(str(names[i])),
            str(crowd.consensus_[i]),
            float(crowd.confidence_[i]),
            ", ".join(f"{n} × {classes[k]}" for k, n in enumerate(votes[i]) if n),
        )
        for i in crowd.next_rows(NEXT)
    ]
    worst = np.argsort(crowd.quality_, kind="stable")[:ANNOTATORS]
    alpha = "unknown" if np.isnan(crowd.agreement_) else f"{crowd.agreement_:.2f} (Krippendorff's alpha)"
    html = _template("crowd.html.j2").render(
        title=title,
        style=_part("page.css"),
        expected=float(crowd.confidence_.mean()),
        n_rows=a.n_rows,
        facts=[
            ("labels", f"{len(a.codes):,}, {n_votes.mean():.1f} per row"),
            ("annotators", f"{len(a.names):,}" + (", which abstain" if crowd.abstain_ else "")),
            ("agreement", alpha),
            ("average quality", f"{np.average(crowd.quality_, weights=crowd.n_labels_):.1%}"),
        ],
        classes=classes,
        given=votes.sum(axis=0),
        rows=np.bincount(crowd.posterior_.argmax(axis=1), minlength=len(classes)),
        prior=crowd.class_prior_.tolist(),
        pool=crowd.transition_.tolist(),
        annotators=[
            (str(a.names[k]), float(crowd.quality_[k]), int(crowd.n_labels_[k]), crowd.transitions_[k].tolist())
            for k in worst
        ],
        n_annotators=len(a.names),
        abstain=crowd.abstain_,
        following=following,
        pairs=list(dependent)[:PAIRS],
        n_dependent=len(dependent),
        n_pairs=n_pairs,
        made_with=f"unflip {__version__}, {command}",
    )
    return write_whole(path, html.encode())
