"""How far an experiment is: the state of each cell, counted for people and for programs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unflip.bench.cells import Cell
from unflip.bench.settings import is_stale
from unflip.bench.store import Store

STATES = ("done", "stale", "failed", "missing")


@dataclass(frozen=True)
class State:
    """A cell, one of ``STATES``, and the error of a failed one.

    Stale is done, but with other settings than the code would use now: its defaults have changed.
    """

    cell: Cell
    name: str
    error: str | None = None


def states(cells: Sequence[Cell], store: Store) -> list[State]:
    """Return the state of each cell."""
    return [_state(cell, store) for cell in cells]


def as_json(found: Mapping[str, Sequence[State]]) -> dict[str, Any]:
    """Return the states by protocol as plain values: counts of each protocol, data set, noise and method; failures."""
    counts: dict[tuple[str, ...], Counter[str]] = {}
    failed: list[dict[str, Any]] = []
    for protocol, some in found.items():
        for state in some:
            cell = state.cell
            where: dict[str, Any] = {
                "protocol": protocol,
                "dataset": cell.dataset,
                "noise": cell.noise_label,
                "method": cell.method,
            }
            counts.setdefault(tuple(where.values()), Counter())[state.name] += 1
            if state.name == "failed":
                failed.append(where | {"seed": cell.seed, "hash": cell.hash, "error": state.error})
    rows = [
        dict(zip(("protocol", "dataset", "noise", "method"), where, strict=True))
        | {name: count[name] for name in STATES}
        for where, count in counts.items()
    ]
    return {"counts": rows, "failed": failed}


def _state(cell: Cell, store: Store) -> State:
    record = store.get(cell)
    if record is None:
        return State(cell, "missing")
    if record["status"] == "failed":
        return State(cell, "failed", record["error"])
    return State(cell, "stale" if is_stale(cell, record) else "done")
