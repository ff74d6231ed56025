"""Progress of a run: a live table on a terminal, one line per task elsewhere, and the time left."""

import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unflip.bench.cells import Cell, Estimate, Task
from unflip.bench.record import Record
from unflip.bench.store import Store


class Progress:
    """Shows the progress of a run on a console.

    A terminal shows a table, which rich redraws a few times per second and cuts to its height; elsewhere each task that
    ends is a line.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.seconds: dict[tuple[str, str], list[float]] = defaultdict(list)  # by data set and method, or "T"
        self.left: dict[str, Task] = {}
        self.running: dict[str, tuple[Task, float]] = {}  # with the time of its start
        self.counts: dict[tuple[str, str], Counter[str]] = {}  # by row: data set and noise
        self.total = self.slots = 0
        self.live = Live(console=console) if console.is_terminal else None

    def __enter__(self) -> "Progress":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.vertical_overflow = "visible"  # show the whole table at the end
            self.tick()
            self.live.stop()

    def begin(self, cells: Sequence[Cell], store: Store, slots: int) -> None:
        unique = {cell.hash: cell for cell in cells}
        self.total, self.slots = len(unique), slots
        for cell in unique.values():
            counts = self.counts.setdefault((cell.dataset, cell.noise_label), Counter())
            counts["cells"] += 1
            record, estimate = store.done(cell), cell.estimate
            if record is not None:
                counts["done"] += 1
                self.seconds[_kind(cell)].append(record["result"]["seconds"])
                continue
            if estimate is not None and estimate.hash not in self.left and store.done(estimate) is None:
                self.left[estimate.hash] = estimate
            self.left[cell.hash] = cell
        self.console.print(f"{self.total} cells, {self._finished()} of them already done.", highlight=False)
        self.tick()

    def started(self, task: Task) -> None:
        self.running[task.hash] = (task, time.monotonic())
        self.tick()

    def renamed(self, task: Task, settled: Task) -> None:
        """Take a task for the one that it has become."""
        self.left = {settled.hash if key == task.hash else key: one for key, one in self.left.items()}

    def ended(self, task: Task, record: Record) -> None:
        self.left.pop(task.hash, None)
        _, start = self.running.pop(task.hash, (task, time.monotonic()))
        done = record["status"] == "done"
        if done:
            # A cell that continued from a checkpoint took longer than it did now.
            self.seconds[_kind(task)].append(max(time.monotonic() - start, record["result"]["seconds"]))
        if isinstance(task, Cell):
            self.counts[task.dataset, task.noise_label]["done" if done else "failed"] += 1
        if self.live is None or not done:
            self.console.print(self._line(task, record), highlight=False, markup=False, soft_wrap=True)
        self.tick()

    def tick(self) -> None:
        if self.live:
            self.live.update(self._table())

    def seconds_left(self) -> float | None:
        """Return the time left if cells take as long as finished ones of the same method; None if nothing is known."""
        known = [second for seconds in self.seconds.values() for second in seconds]
        if not known:
            return None
        now, left = time.monotonic(), 0.0
        spent = {key: now - start for key, (_, start) in self.running.items()}
        for task in self.left.values():
            dataset, method = _kind(task)
            elsewhere = [s for (_, other), seconds in self.seconds.items() if other == method for s in seconds]
            similar = self.seconds.get((dataset, method)) or elsewhere
            if not similar:  # all that is known of a method's first cell is how long it has run so far
                first = [spent[key] for key, (other, _) in self.running.items() if _kind(other)[1] == method]
                similar = [max(sum(known) / len(known), *first, 0.0)]
            left += max(0.0, sum(similar) / len(similar) - spent.get(task.hash, 0.0))
        return left / max(1, min(self.slots, len(self.left)))

    def _finished(self) -> int:
        return self.total - sum(isinstance(task, Cell) for task in self.left.values())

    def _line(self, task: Task, record: Record) -> str:
        head = f"[{self._finished()}/{self.total}] {task.title}: "
        if record["status"] == "failed":
            return head + "failed, " + record["error"].strip().splitlines()[-1]
        result, error = record["result"], record["result"]["transition_error"]
        shown = f"{100 * result['accuracy'][-1]:.2f} %, " if isinstance(task, Cell) else ""
        if isinstance(task, Estimate) and error is not None:
            shown = f"error {error:.3f}, "
        return head + shown + _duration(result["seconds"])

    def _table(self) -> Group:
        """Return the time left, the running tasks, and the counts of each row; rows with running cells come first."""
        now, seconds = time.monotonic(), self.seconds_left()
        lines = ["time left: " + ("unknown" if seconds is None else _duration(seconds))] if self.left else []
        lines += [f"running {_duration(now - start)}: {task.title}" for task, start in self.running.values()]
        at_work = Counter((t.dataset, t.noise_label) for t, _ in self.running.values() if isinstance(t, Cell))
        table = Table()
        for name in ("data", "noise", "cells", "done", "failed", "running"):
            table.add_column(name, justify="left" if name in ("data", "noise") else "right", no_wrap=True)
        for row in sorted(self.counts, key=lambda row: not at_work[row]):
            numbers = [*(self.counts[row][name] for name in ("cells", "done", "failed")), at_work[row]]
            table.add_row(*row, *(str(number or "") for number in numbers))
        return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines), table)


def _kind(task: Task) -> tuple[str, str]:
    return task.dataset, task.method if isinstance(task, Cell) else "T"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
