"""Who made a number: the commit that a table is of, and whether a trial was made by it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

CHANGED = " + changes"
UNKNOWN = "unknown"


def made_by(commit: str, reference: str | None) -> bool:
    """Whether the reference made a trial, without changes of the sources; without a reference nobody can tell."""
    return commit.startswith(reference or UNKNOWN) and not commit.endswith(CHANGED)


def reference_of(records: Iterable[Mapping[str, Any]], commit: str | None) -> str | None:
    """Return the commit whose numbers need no mark: the one asked for, or else the one that made most records."""
    if commit is not None:
        if not re.fullmatch(rf"[0-9a-f]{{7,40}}({re.escape(CHANGED)})?", commit):
            raise ValueError(f"commit must be 7 to 40 hexadecimal digits; got {commit!r}")
        return commit.removesuffix(CHANGED)
    found = [(record["commit"].removesuffix(CHANGED), record["finished"]) for record in records if record["commit"]]
    counts = Counter(name for name, _ in found)
    # Of commits that made as many, the one that was last at work, whatever the order of the records.
    return max(counts, key=lambda name: (counts[name], max(f for n, f in found if n == name), name), default=None)


def short_name(commit: str | None) -> str:
    """Return the hash shortened; what follows it stays."""
    name, *changed = (commit or UNKNOWN).split(" ", 1)
    return " ".join([name[:12], *changed])
