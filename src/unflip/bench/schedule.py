"""Many cells: each T just before the cells that need it, everything once, and what is there is not made again."""

import time
from collections.abc import Sequence
from typing import Protocol

from unflip.bench.cells import Cell, Estimate
from unflip.bench.pool import Pool
from unflip.bench.store import Record, Store, Task
from unflip.bench.work import fingerprint, make_record

POLL = 1.0  # seconds between looks at what another process is doing


class Watch(Protocol):
    """Who is told how a run goes on."""

    def begin(self, cells: Sequence[Cell], store: Store, slots: int) -> None: ...
    def started(self, task: Task) -> None: ...
    def ended(self, task: Task, record: Record) -> None: ...
    def tick(self) -> None: ...


def run_cells(cells: Sequence[Cell], store: Store, pool: Pool, watch: Watch) -> list[Record]:
    """Run the cells that are not done, and return the records of those that failed.

    Cells that failed before are tried again, once. A cell or a T that another process is at is left to it: this run
    ends when all cells are done or have failed.
    """
    run = _Run(store, pool, watch)
    waiting = {cell.hash: cell for cell in cells if store.done(cell) is None}
    watch.begin(cells, store, pool.slots)
    with store.locks_released():
        try:
            while waiting or run.running:
                while len(run.running) < pool.slots and run.start_next(waiting):
                    pass
                if run.running:
                    run.collect()
                elif waiting:
                    time.sleep(POLL)  # all that is left is at work elsewhere
                watch.tick()
        finally:
            pool.close()
    return run.failed


class _Run:
    def __init__(self, store: Store, pool: Pool, watch: Watch) -> None:
        self.store, self.pool, self.watch = store, pool, watch
        self.running: dict[str, Record | None] = {}  # and where their T came from
        self.failed: list[Record] = []
        self.estimates: dict[str, Record] = {}  # of this run, done or failed
        self.fingerprint = fingerprint()

    def start_next(self, waiting: dict[str, Cell]) -> bool:
        """Start the first task that can start; False if none can now."""
        for cell in list(waiting.values()):
            made, estimate = None, cell.estimate
            found = self.store.done(cell)
            if found is not None:  # another process was faster
                self.watch.ended(cell, found)
                del waiting[cell.hash]
                continue
            if estimate is not None:
                made = self._estimate(estimate)
                if made is None:
                    if estimate.hash not in self.running and self._start(estimate):
                        return True
                    continue
                if made["status"] == "failed":
                    if self._fail(cell, f"its T failed: {made['error']}"):
                        del waiting[cell.hash]
                    continue
            if self._start(cell, made):
                del waiting[cell.hash]
                return True
        return False

    def collect(self) -> None:
        """Wait a little for tasks that end, and store them."""
        for task, record in self.pool.wait(POLL):
            record["transition_from"] = self.running.pop(task.hash)
            self._end(task, record)
            self.store.unlock(task)

    def _estimate(self, task: Estimate) -> Record | None:
        """The record of a T: that of this run, failed or not, or a finished one in the store."""
        if task.hash not in self.estimates:
            found = self.store.done(task)
            if found is None:
                return None
            self.estimates[task.hash] = found
        return self.estimates[task.hash]

    def _start(self, task: Task, made: Record | None = None) -> bool:
        """Start a task with the T of a record; False if another process is at it, or was faster."""
        if not self._lock(task):
            return False
        source = None if made is None else {key: made.get(key) for key in ("hash", "commit", "resolved")}
        self.running[task.hash] = source
        self.watch.started(task)
        T = None if made is None else made["result"]["transition"]
        self.pool.submit(task, T, self.store.checkpoint(task, self.fingerprint))
        return True

    def _fail(self, cell: Cell, error: str) -> bool:
        """Record a failure without a start; False as above."""
        if not self._lock(cell):
            return False
        self._end(cell, make_record(cell, None, error))
        self.store.unlock(cell)
        return True

    def _lock(self, task: Task) -> bool:
        if not self.store.lock(task):
            return False
        if self.store.done(task) is not None:  # done between our look and our lock
            self.store.unlock(task)
            return False
        return True

    def _end(self, task: Task, record: Record) -> None:
        self.store.put(task, record)
        if isinstance(task, Estimate):
            self.estimates[task.hash] = record
        elif record["status"] == "failed":
            self.failed.append(record)
        self.watch.ended(task, record)
