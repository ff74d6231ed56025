"""Write the page: one HTML file with the noise that was found and the labels that are suspect."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from unflip._output import short_names, write_whole
from unflip._validation import FloatArray
from unflip.page.data import Page, check_page
from unflip.page.marks import axis, curve, flips, heat

try:
    from jinja2 import Environment, StrictUndefined, Template
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the page needs jinja2: pip install 'unflip[report]'") from error


LABEL_LENGTH, WIDTH = 120, 0.6  # pixels of a label of the matrix, and the width of a letter in units of its size
LONGEST_CELL = 600  # characters; suspects.csv has the rest


def write_page(page: Page, path: str | Path) -> Path:
    """Write the page as one HTML file that needs no network, and return its path.

    A page that contradicts itself, or has a name that cannot be written as UTF-8, causes a ValueError. The file appears
    whole or not at all; the same data give the same bytes. Every name stays text: the template escapes it, the data are
    in a JSON block without ``<``, and the page's policy lets no script run but its own, identified by its hash.

    The page exports ``name,given,corrected`` of the ticked suspects as CSV according to RFC 4180 (CRLF, quotes where
    needed, UTF-8 without a byte order mark). A value that a spreadsheet would take for a formula gets an apostrophe, as
    in every CSV file of this package; the page says how many there are, and
    :func:`~unflip.commands.apply_corrections` takes it away.
    """
    T, counts = check_page(page)
    rate, clean = page.noise_rate, counts["clean_counts"]
    script = _part("page.js")
    label = _label_size(len(T))
    html = _template().render(
        page=page,
        n_classes=len(T),
        noise_rate=1 - float(clean @ np.diag(T)) / float(clean.sum()) if rate is None else rate,
        heat=heat(T),
        flips=flips(T, clean),
        counts=counts,
        axis=axis(page.classifiers),
        curves=[curve(name, values) for name, values in page.curves.items()],
        has_thumbnails=any(suspect.thumbnail for suspect in page.suspects or ()),
        has_alike=any(suspect.alike for suspect in page.suspects or ()),
        label=label,
        labels=short_names(page.classes, int(LABEL_LENGTH / (WIDTH * label))),
        row_names=short_names(page.classes, 17),
        data=_data(page, T),
        script=script,
        style=_part("page.css"),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    try:
        return write_whole(path, html.encode())
    except UnicodeEncodeError as error:
        bad = html[error.start : error.end]
        raise ValueError(f"a name on the page has {bad!r}, not a character; decode it as text first") from error


def _data(page: Page, T: FloatArray) -> str:
    """Return what the script reads, as JSON without the characters that mean something in HTML."""
    suspects = page.suspects or ()
    code = {name: i for i, name in enumerate(page.classes)}
    thumbnails = [base64.b64encode(suspect.thumbnail or b"").decode() for suspect in suspects]
    data = {
        "classes": list(page.classes),
        "transition": np.round(T, 5).tolist(),
        "name": [suspect.name for suspect in suspects],
        "given": [code[suspect.given] for suspect in suspects],
        "suggested": [code[suspect.suggested] for suspect in suspects],
        "probability": [round(float(suspect.probability), 6) for suspect in suspects],
        "thumbnail": thumbnails if any(thumbnails) else [],
        "columns": list(page.columns),
        "cells": [list(map(_cut, suspect.cells)) for suspect in suspects] if page.columns else [],
        "first": [list(suspect.first) for suspect in suspects] if page.columns else [],
        "alike": [list(suspect.alike) for suspect in suspects] if page.examples else [],
        "examples": [
            [one.name, code[one.label], list(map(_cut, one.cells)), base64.b64encode(one.thumbnail or b"").decode()]
            for one in page.examples
        ],
    }
    text = json.dumps(data, separators=(",", ":"))
    # The browser stores the ticks under this key, so that those of another page are never taken for this one's.
    text = f'{{"key":"unflip-{hashlib.sha256(text.encode()).hexdigest()[:16]}",{text[1:]}'
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _label_size(n_classes: int) -> float:
    """Return the size of the labels of the matrix, in pixels."""
    return 13 if n_classes <= 12 else 12 if n_classes <= 40 else min(11, max(850 / n_classes, 4))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


@cache
def _part(name: str) -> str:
    text = (files("unflip.page") / "templates" / name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")  # as a browser does: the hash of the script must not change


@cache
def _template(name: str = "page.html.j2") -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["percent"] = _percent
    return environment.from_string(_part(name))


def _percent(fraction: float, digits: int = 1) -> str:
    """Return a fraction in percent; what is not quite none or all is not rounded to it."""
    text = f"{fraction:.{digits}%}"
    if fraction > 0 and text == f"{0:.{digits}%}":
        return f"<{10**-digits:.{digits}f}%"
    if fraction < 1 and text == f"{1:.{digits}%}":
        return f">{100 - 10**-digits:.{digits}f}%"
    return text
