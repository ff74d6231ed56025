"""Running many cells: each T just before the cells that need it, everything once, and nothing that is done already."""

import time
from collections.abc import Sequence

from unflip.bench.cells import Cell, Estimate, Task
from unflip.bench.progress import Progress
from unflip.bench.record import Record, fingerprint, make_record
from unflip.bench.store import Store
from unflip.bench.tuning import candidates, settle
from unflip.bench.workers import Pool

POLL = 1.0  # seconds between checks of what other processes are doing


def run_cells(cells: Sequence[Cell], store: Store, pool: Pool, watch: Progress) -> list[Record]:
    """Run the cells that are not done, and return the records of those that failed.

    Cells that failed before are tried again, once. A cell or T that another process is working on is left to it. The
    run ends when all cells are done or have failed. Where settings are yet to be chosen, the candidates run first.
    """
    run = _Run(store, pool, watch)
    planned, cells = cells, [one for cell in cells for one in (*candidates(cell), cell)]
    waiting = {cell.hash: cell for cell in cells if store.done(cell) is None}
    watch.begin(cells, store, pool.slots)
    try:
        while waiting or run.running:
            while len(run.running) < pool.slots and run.start_next(waiting):
                pass
            if run.running:
                run.collect()
            elif waiting:
                time.sleep(POLL)  # other processes are working on all that is left
            watch.tick()
    finally:
        pool.close()
        store.unlock_all()
    for cell in planned:  # a record made under another protocol may not say how its settings were chosen
        if cell.tuning is not None and (settled := store.settled(cell)) is not None:
            scores = {one.hash: (store.done(one) or {})["result"]["held_out"] for one in candidates(cell)}
            store.complete(settled, tuned_from=scores)
    return run.failed


class _Run:
    def __init__(self, store: Store, pool: Pool, watch: Progress) -> None:
        self.store, self.pool, self.watch = store, pool, watch
        self.running: dict[str, Record | None] = {}  # by hash: where the T of a running task came from
        self.failed: list[Record] = []
        self.estimates: dict[str, Record] = {}  # of this run, done or failed, or from the store
        self.tuned: dict[str, Record] = {}  # by hash: the scores that chose the settings of a cell
        self.scored: dict[str, Record] = {}  # by hash: the results of candidates
        self.lost: dict[str, str] = {}  # by hash: the errors of cells that failed
        self.fingerprint = fingerprint()

    def start_next(self, waiting: dict[str, Cell]) -> bool:
        """Start the first task that can start; False if there is none."""
        self._settle(waiting)
        for cell in list(waiting.values()):
            if cell.tuning is not None:
                continue
            made, estimate = None, cell.estimate
            found = self.store.done(cell)
            if found is not None:  # another process was faster
                self.watch.ended(cell, found)
                del waiting[cell.hash]
                continue
            if estimate is not None:
                made = self.estimates.get(estimate.hash) or self.store.done(estimate)
                if made is None:
                    if estimate.hash not in self.running and self._start(estimate):
                        return True
                    continue
                self.estimates[estimate.hash] = made
                if made["status"] == "failed":
                    if self._lock(cell):
                        self._end(cell, make_record(cell, None, f"the estimate of its T failed: {made['error']}"))
                        del waiting[cell.hash]
                    continue
            if self._start(cell, made):
                del waiting[cell.hash]
                return True
        return False

    def _settle(self, waiting: dict[str, Cell]) -> None:
        """Put the cells whose settings are known by now in the place of those that waited for them."""
        for cell in [cell for cell in waiting.values() if cell.tuning is not None]:
            tried = {one.hash: one for one in candidates(cell)}
            for key, one in tried.items():
                if key not in self.scored and (record := self.store.done(one)) is not None:
                    self.scored[key] = record["result"]
            if tried.keys() <= self.scored.keys():
                results = [self.scored[key] for key in tried]
                settled = settle(cell, results)
                self.tuned[settled.hash] = {key: self.scored[key]["held_out"] for key in tried}
                self.watch.renamed(cell, settled)
                items = [(settled.hash, settled) if key == cell.hash else (key, one) for key, one in waiting.items()]
                waiting.clear()
                waiting.update(items)
            elif (lost := self.lost.keys() & tried.keys()) and self._lock(cell):
                error = self.lost[min(lost)]
                self._end(cell, make_record(cell, None, f"a setting of the grid could not be trained: {error}"))
                del waiting[cell.hash]

    def collect(self) -> None:
        """Wait briefly for tasks to end, and store their records."""
        for task, record in self.pool.wait(POLL):
            record["transition_from"] = self.running.pop(task.hash)
            record["tuned_from"] = self.tuned.get(task.hash)
            self._end(task, record)

    def _start(self, task: Task, made: Record | None = None) -> bool:
        """Start a task with the T of a record; False if another process is working on it, or was faster."""
        if not self._lock(task):
            return False
        self.running[task.hash] = None if made is None else {k: made.get(k) for k in ("hash", "commit", "resolved")}
        self.watch.started(task)
        T = None if made is None else made["result"]["transition"]
        self.pool.submit(task, T, self.store.checkpoint(task, self.fingerprint))
        return True

    def _lock(self, task: Task) -> bool:
        if not self.store.lock(task):
            return False
        if self.store.done(task) is not None:  # finished between our check and our lock
            self.store.unlock(task)
            return False
        return True

    def _end(self, task: Task, record: Record) -> None:
        self.store.put(task, record)
        if isinstance(task, Estimate):
            self.estimates[task.hash] = record
        elif record["status"] == "failed":
            self.failed.append(record)
            self.lost[task.hash] = str(record["error"])
        self.watch.ended(task, record)
        self.store.unlock(task)
