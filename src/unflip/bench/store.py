"""The store: one JSON file per cell and per T, each written whole or not at all. Copying files merges two stores."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from unflip._input import read_json
from unflip._output import write_whole
from unflip.bench.cells import Cell, Estimate, Task
from unflip.bench.record import FORMAT, Record, is_stale
from unflip.bench.tuning import candidates, settle

STATES = ("done", "stale", "failed", "missing")


class Store:
    """A folder of records.

    ::

        records/<hash>.json         one per cell
        transitions/<hash>.json     one per T
        checkpoints/, locks/        of running tasks

    The folder is created when the first record is written. With ``refresh_stale``, results that were produced with
    other defaults of the code (:func:`unflip.bench.record.is_stale`) do not count as done, and new results replace
    them. ``damaged`` lists the files that are not valid records; they count as missing. A cell whose settings are yet
    to be chosen (``unflip.bench.tuning``) has the record of the cell that it becomes, and none until that is known.
    """

    def __init__(self, folder: str | Path, refresh_stale: bool = False) -> None:
        self.folder = Path(folder)
        if os.path.lexists(folder) and not self.folder.is_dir():
            raise NotADirectoryError(f"{folder} is not a folder, but records are kept in one; name another place")
        self.refresh_stale = refresh_stale
        self.damaged: list[Path] = []
        self._locks: dict[str, FileLock] = {}

    def settled(self, task: Task) -> Task | None:
        """Return a task with all settings chosen; None if some of its candidates have no result yet."""
        if isinstance(task, Estimate) or task.tuning is None:
            return task
        found = [self.done(candidate) for candidate in candidates(task)]
        return settle(task, [record["result"] for record in found if record]) if all(found) else None

    def path(self, task: Task) -> Path:
        return self.folder / ("records" if isinstance(task, Cell) else "transitions") / f"{task.hash}.json"

    def checkpoint(self, task: Task, fingerprint: str) -> Path | None:
        """Return the file for the state of a cell. Another version of the program has another fingerprint."""
        return self.folder / "checkpoints" / f"{task.hash}-{fingerprint}.pt" if isinstance(task, Cell) else None

    def get(self, task: Task) -> Record | None:
        """Return the record of a task, done or failed; None if there is none, or only a damaged one."""
        task = self.settled(task) or task
        path = self.path(task)
        try:
            record = read_json(path)
            if record["format"] == FORMAT and record["hash"] == task.hash:
                status = record["status"]
                if status == "failed" or (status == "done" and _is_whole(task, record["result"])):
                    return dict(record)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            pass
        if path not in self.damaged:
            self.damaged.append(path)
        return None

    def done(self, task: Task) -> Record | None:
        """Return the record of a task that is done: neither failed, nor stale if stale ones are to be refreshed."""
        record = self._result(task)
        return None if record is None or (self.refresh_stale and self._is_stale(task, record)) else record

    def is_stale(self, task: Task) -> bool:
        """Say whether a task has a result for which the code would now use other settings."""
        record = self._result(task)
        return record is not None and self._is_stale(task, record)

    def put(self, task: Task, record: Record) -> None:
        """Write a record whole, or not at all.

        A result is never replaced, except by a new result if it is stale and ``refresh_stale`` is set.
        """
        if self.done(task) is not None or (record["status"] == "failed" and self._result(task) is not None):
            return
        path = self.path(task)
        write_whole(path, _readable_json(record))
        if path in self.damaged:
            self.damaged.remove(path)
        if record["status"] == "done":  # a task that was killed can continue from its checkpoint
            for checkpoint in (self.folder / "checkpoints").glob(f"*{task.hash}-*"):
                checkpoint.unlink(missing_ok=True)

    def complete(self, task: Task, **entries: Any) -> None:
        """Add entries to a record that lacks them, such as the scores that chose its settings."""
        record = self._result(task)
        if record is None or all(record.get(name) is not None for name in entries) or not self.lock(task):
            return  # nothing to add, or another process is about to write this record
        try:
            if (record := self._result(task)) is not None:  # read again, now that nobody else writes
                kept = {name: value for name, value in record.items() if value is not None}
                write_whole(self.path(task), _readable_json(record | entries | kept))
        finally:
            self.unlock(task)

    def records(self, cells: Iterable[Cell]) -> Iterator[Record]:
        """Yield the finished records of these cells, with the names that the cells have now."""
        for cell in cells:
            record = self.done(cell)
            if record is not None:
                yield record | {"cell": asdict(self.settled(cell) or cell)}

    def lock(self, task: Task) -> bool:
        """Reserve a task for this process; False if another process has it.

        A lock ends with its process, even if that is killed. The empty files in ``locks/`` stay: removing one could
        give two processes the same lock.
        """
        path = self.folder / "locks" / task.hash
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        self._locks[task.hash] = lock
        return True

    def unlock(self, task: Task) -> None:
        self._locks.pop(task.hash).release()

    def unlock_all(self) -> None:
        while self._locks:
            self._locks.popitem()[1].release()

    def _is_stale(self, task: Task, record: Record) -> bool:
        return is_stale(self.settled(task) or task, record)

    def _result(self, task: Task) -> Record | None:
        record = self.get(task)
        return record if record is not None and record["status"] == "done" else None


@dataclass(frozen=True)
class State:
    """A cell, one of ``STATES`` (stale: done with other settings than the code would use now), and its error if any."""

    cell: Cell
    name: str
    error: str | None = None


def states(cells: Iterable[Cell], store: Store) -> list[State]:
    """Return the state of each cell."""

    def state(cell: Cell) -> State:
        record = store.get(cell)
        if record is None:
            return State(cell, "missing")
        if record["status"] == "failed":
            return State(cell, "failed", record["error"])
        return State(cell, "stale" if store.is_stale(cell) else "done")

    return [state(cell) for cell in cells]


def states_as_json(found: Mapping[str, Sequence[State]]) -> dict[str, Any]:
    """Return the states by protocol as plain values: counts per protocol, data set, noise and method; and failures."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    failed: list[dict[str, Any]] = []
    for protocol, some in found.items():
        for state in some:
            cell = state.cell
            where = {"protocol": protocol, "dataset": cell.dataset, "noise": cell.noise_label, "method": cell.method}
            rows.setdefault(tuple(where.values()), where | dict.fromkeys(STATES, 0))[state.name] += 1
            if state.name == "failed":
                failed.append(where | {"seed": cell.seed, "hash": cell.hash, "error": state.error})
    return {"counts": list(rows.values()), "failed": failed}


def _is_whole(task: Task, result: Any) -> bool:
    """Say whether a result has all of its parts; NaN would silently spoil a table."""
    if not isfinite(result["seconds"]):
        return False
    if isinstance(task, Estimate):
        return len(result["transition"]) > 0
    scores = [*result["accuracy"], *result.get("held_out", {}).values()]
    return len(result["accuracy"]) > 0 and all(0 <= value <= 1 for value in scores)


def _readable_json(record: Record) -> str:
    """Return JSON with each list of numbers on one line. JSON strings have no line breaks, so none is touched."""
    text = json.dumps(record, indent=1, allow_nan=False)
    return re.sub(r"\[\s*\n[-+.\deE,\s]*\]", lambda numbers: f"[{' '.join(numbers[0][1:-1].split())}]", text) + "\n"
