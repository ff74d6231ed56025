"""How a run goes on: a live table on a terminal, one line a task elsewhere, and the time that is left."""

import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unflip.bench.cells import Cell, Estimate, noise_label
from unflip.bench.store import Record, Store, Task

FRAME = 7  # lines of a live table that are no row: time left, four of its frame, "more rows", and the cursor's


class Progress:
    """Tells a console how a run goes on.

    Parameters
    ----------
    console : Console
        A table that is redrawn if it is a terminal, otherwise a line for each task that ends.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.seconds: dict[tuple[str, str], list[float]] = defaultdict(
            list
        )  # (dataset, method or "T"), of what is done
        self.left: dict[str, Task] = {}
        self.running: dict[str, tuple[Task, float]] = {}  # and when it started
        self.counts: dict[tuple[str, str], dict[str, int]] = {}  # of a row, data set and noise
        self.total = self.slots = self.failed = 0
        self.live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None

    def __enter__(self) -> "Progress":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.update(self._table(whole=True), refresh=True)
            self.live.stop()

    def begin(self, cells: Sequence[Cell], store: Store, slots: int) -> None:
        self.slots = slots
        unique: dict[str, Cell] = {cell.hash: cell for cell in cells}
        self.total = len(unique)
        for cell in unique.values():
            counts = self.counts.setdefault((cell.dataset, cell.noise_label), {"cells": 0, "done": 0, "failed": 0})
            counts["cells"] += 1
            record = store.done(cell)
            if record is not None:
                counts["done"] += 1
                self.seconds[_kind(cell)].append(record["result"]["seconds"])
                continue
            estimate = cell.estimate
            if estimate is not None and estimate.hash not in self.left and store.done(estimate) is None:
                self.left[estimate.hash] = estimate
            self.left[cell.hash] = cell
        there = self.total - sum(isinstance(task, Cell) for task in self.left.values())
        self.console.print(f"{self.total} cells, {there} of them done before.", highlight=False)
        self.tick()

    def started(self, task: Task) -> None:
        self.running[task.hash] = (task, time.monotonic())
        self.tick()

    def ended(self, task: Task, record: Record) -> None:
        self.left.pop(task.hash, None)
        _, start = self.running.pop(task.hash, (task, time.monotonic()))
        done = record["status"] == "done"
        if done:
            # A cell that went on from a checkpoint took longer than it did now.
            self.seconds[_kind(task)].append(max(time.monotonic() - start, record["result"]["seconds"]))
        if isinstance(task, Cell):
            self.counts[task.dataset, task.noise_label]["done" if done else "failed"] += 1
            self.failed += not done
        if self.live is None or not done:
            self.console.print(self._line(task, record), highlight=False, markup=False, soft_wrap=True)
        self.tick()

    def tick(self) -> None:
        if self.live:
            self.live.update(self._table(), refresh=True)

    def seconds_left(self) -> float | None:
        """The time left if cells take as long as the finished ones of the same method; None if nothing is known."""
        known = [second for seconds in self.seconds.values() for second in seconds]
        if not known:
            return None
        now, left = time.monotonic(), 0.0
        spent = {key: now - start for key, (_, start) in self.running.items()}
        for task in self.left.values():
            dataset, method = _kind(task)
            elsewhere = [s for (_, other), seconds in self.seconds.items() if other == method for s in seconds]
            alike = self.seconds.get((dataset, method)) or elsewhere
            if not alike:  # of a method's first cell it is known how long it has taken already
                first = [spent[key] for key, (other, _) in self.running.items() if _kind(other)[1] == method]
                alike = [max(sum(known) / len(known), *first, 0.0)]
            left += max(0.0, sum(alike) / len(alike) - spent.get(task.hash, 0.0))
        return left / max(1, min(self.slots, len(self.left)))

    def _line(self, task: Task, record: Record) -> str:
        cells_left = sum(isinstance(left, Cell) for left in self.left.values())
        head = f"[{self.total - cells_left}/{self.total}] {task.title}: "
        if record["status"] == "failed":
            return head + "failed, " + record["error"].strip().splitlines()[-1]
        result = record["result"]
        if isinstance(task, Estimate):
            error = result["transition_error"]
            return head + ("" if error is None else f"error {error:.3f}, ") + _duration(result["seconds"])
        return head + f"{100 * result['accuracy'][-1]:.2f} %, " + _duration(result["seconds"])

    def _table(self, whole: bool = False) -> Group:
        """The time left, what runs, and the counts of each row; no more lines than the console has, unless whole."""
        now, seconds = time.monotonic(), self.seconds_left()
        top = ["time left: " + ("not known yet" if seconds is None else _duration(seconds))] if self.left else []
        running = [f"running {_duration(now - start)}: {task.title}" for task, start in self.running.values()]
        at_work = Counter(_row(task) for task, _ in self.running.values() if isinstance(task, Cell))
        # What a small console does not show is finished, or not begun.
        rows = sorted(self.counts, key=lambda row: (not at_work[row], _is_finished(self.counts[row])))
        room = len(running) + len(rows) if whole else self.console.height - FRAME
        running = _shortened(running, max(1, room - min(len(rows), room // 2)))
        shown = set(rows[: max(1, room - len(running))])
        table = Table()
        for name in ("data", "noise", "cells", "done", "failed", "running"):
            table.add_column(name, justify="left" if name in ("data", "noise") else "right", no_wrap=True)
        for row, counts in self.counts.items():
            if row in shown:
                numbers = [counts["cells"], counts["done"], counts["failed"], at_work[row]]
                table.add_row(*row, *(str(number or "") for number in numbers))
        more = [f"... and {len(rows) - len(shown)} more rows"] if len(rows) > len(shown) else []
        return Group(*map(_one_line, top + running), table, *map(_one_line, more))


def _one_line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


def _row(task: Task) -> tuple[str, str]:
    return task.dataset, noise_label(task.noise)


def _is_finished(counts: dict[str, int]) -> bool:
    return counts["done"] + counts["failed"] == counts["cells"]


def _shortened(lines: list[str], room: int) -> list[str]:
    return lines if len(lines) <= room else [*lines[: room - 1], f"... and {len(lines) - room + 1} more running"]


def _kind(task: Task) -> tuple[str, str]:
    return (task.dataset, task.method if isinstance(task, Cell) else "T")


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
