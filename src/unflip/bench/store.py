"""The store: one JSON file a cell and one a T, written whole or not at all; two stores merge by copying their files."""

import json
import os
import re
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import IO, Any

from unflip._output import write_whole
from unflip.bench.cells import Cell, Estimate
from unflip.bench.settings import is_stale

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = 1
Record = dict[str, Any]
Task = Cell | Estimate


class Store:
    """A folder of records.

    ::

        records/<hash>.json         one a cell
        transitions/<hash>.json     one a T
        checkpoints/, locks/        of what is running

    Parameters
    ----------
    folder : path
        Made when the first record is written.
    refresh_stale : bool, default=False
        Results that were made with other defaults of the code (:func:`unflip.bench.settings.is_stale`) do not count as
        done, and give way to new results.

    Attributes
    ----------
    damaged : list of Path
        Files that were found not to be records. They count as missing, and are replaced when their cell is run.
    """

    def __init__(self, folder: str | Path, refresh_stale: bool = False) -> None:
        self.folder = Path(folder)
        self.refresh_stale = refresh_stale
        self.damaged: list[Path] = []
        self._locks: dict[str, IO[str]] = {}

    def path(self, task: Task) -> Path:
        return self.folder / ("records" if isinstance(task, Cell) else "transitions") / f"{task.hash}.json"

    def checkpoint(self, task: Task, fingerprint: str) -> Path | None:
        """Where a cell keeps its state. The fingerprint: another version of the program must not go on from it."""
        return self.folder / "checkpoints" / f"{task.hash}-{fingerprint}.pt" if isinstance(task, Cell) else None

    def get(self, task: Task) -> Record | None:
        """Return the record of a task, done or failed; None if there is none, or only a damaged one."""
        path = self.path(task)
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            ours = record["format"] == FORMAT and record["hash"] == task.hash
            if ours and (
                record["status"] == "failed" or (record["status"] == "done" and _is_whole(task, record["result"]))
            ):
                return dict(record)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            pass
        if path not in self.damaged:
            self.damaged.append(path)
        return None

    def done(self, task: Task) -> Record | None:
        """Return the record of a task that is done: not a failed one, nor a stale one that is to be refreshed."""
        record = self._result(task)
        return None if record is None or (self.refresh_stale and is_stale(task, record)) else record

    def is_stale(self, task: Task) -> bool:
        """Say whether there is a result of a task that the code would now make with other settings."""
        record = self._result(task)
        return record is not None and is_stale(task, record)

    def put(self, task: Task, record: Record) -> None:
        """Write a record: it is there whole or not at all, whatever happens.

        A result is never replaced, but by a new result if it is stale and ``refresh_stale`` is set.
        """
        if self.done(task) is not None or (record["status"] == "failed" and self._result(task) is not None):
            return
        path = self.path(task)
        write_whole(path, _readable_json(record))
        if path in self.damaged:
            self.damaged.remove(path)
        if record["status"] == "done":  # one that was killed can go on from it
            for checkpoint in (self.folder / "checkpoints").glob(f"*{task.hash}-*"):
                checkpoint.unlink(missing_ok=True)

    def records(self, cells: Iterable[Cell]) -> Iterator[Record]:
        """Yield the finished records of these cells, with the names that the cells have now."""
        for cell in cells:
            record = self.done(cell)
            if record is not None:
                yield record | {"cell": cell.as_dict()}

    def lock(self, task: Task) -> bool:
        """Take a task for this process; False if another has it. A lock ends with its process, however that ends."""
        path = self.folder / "locks" / task.hash
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
        try:
            if sys.platform == "win32":
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        if not _is_at(file, path):  # its last owner removed it between our open and our lock
            file.close()
            return False
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")  # for a person who wonders
        file.flush()
        self._locks[task.hash] = file
        return True

    def unlock(self, task: Task) -> None:
        file = self._locks.pop(task.hash)
        if sys.platform != "win32":  # there an open file cannot be removed
            Path(file.name).unlink(missing_ok=True)
        file.close()

    @contextmanager
    def locks_released(self) -> Iterator[None]:
        """Release at the end what is still locked."""
        try:
            yield
        finally:
            for file in self._locks.values():
                Path(file.name).unlink(missing_ok=True)
                file.close()
            self._locks.clear()

    def _result(self, task: Task) -> Record | None:
        record = self.get(task)
        return record if record is not None and record["status"] == "done" else None


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _is_whole(task: Task, result: Any) -> bool:
    """Whether it has what every result has; a number that is none would spoil a table without a word."""
    if not isfinite(result["seconds"]):
        return False
    if isinstance(task, Estimate):
        return len(result["transition"]) > 0
    return len(result["accuracy"]) > 0 and all(0 <= value <= 1 for value in result["accuracy"])


def _readable_json(record: Record) -> str:
    """JSON with each list of numbers on one line. A string has no line breaks of its own, so that none is touched."""
    text = json.dumps(record, indent=1, allow_nan=False)
    return re.sub(r"\[\s*\n[-+.\deE,\s]*\]", lambda numbers: f"[{' '.join(numbers[0][1:-1].split())}]", text) + "\n"
