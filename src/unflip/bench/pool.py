"""Worker processes on this machine: each runs one task at a time, and one that dies takes only its task with it."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from unflip.bench.store import Record, Task
from unflip.bench.work import THREADS, commit, make_record, work


class Pool(Protocol):
    """Where tasks run: here, or on a Dask cluster."""

    @property
    def slots(self) -> int:
        """How many tasks run at once."""

    def submit(self, task: Task, T: Any, checkpoint: Path | None) -> None:
        """Start a task; there must be a free slot."""

    def wait(self, timeout: float) -> list[tuple[Task, Record]]:
        """Return the tasks that ended, after at most so many seconds; the list may be empty."""

    def close(self) -> None:
        """End all workers at once."""


class LocalPool:
    """Processes of this machine, which share its cores without oversubscribing them.

    Parameters
    ----------
    jobs : int
        How many; each has ``cores // jobs`` threads, at least one, and at most ``OMP_NUM_THREADS`` where that is set.
    data_dir : str or None
    """

    def __init__(self, jobs: int, data_dir: str | None = None) -> None:
        self.jobs = jobs
        self.data_dir = data_dir
        limit = os.environ.get(THREADS[0], "")
        self.threads = max(1, min(cores() // jobs, int(limit) if limit.isdigit() else cores()))
        self.workers: list[_Worker] = []

    @property
    def slots(self) -> int:
        return self.jobs

    def submit(self, task: Task, T: Any, checkpoint: Path | None) -> None:
        worker = next((worker for worker in self.workers if worker.task is None), None)
        if worker is not None and not worker.process.is_alive():
            self.workers.remove(worker)
            worker = None
        if worker is None:
            worker = _Worker(self.data_dir, self.threads)
            self.workers.append(worker)
        worker.task = task
        with suppress(OSError):  # if it died just now, wait() finds that out
            worker.connection.send((task, T, checkpoint))

    def wait(self, timeout: float) -> list[tuple[Task, Record]]:
        busy = {worker.connection: worker for worker in self.workers if worker.task is not None}
        ended = []
        for connection in wait(list(busy), timeout):
            worker = busy[connection]  # type: ignore[index]
            task, worker.task = worker.task, None
            assert task is not None
            try:
                record = worker.connection.recv()
            except (EOFError, OSError):
                worker.process.join()
                self.workers.remove(worker)
                code = worker.process.exitcode or 0
                how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                record = make_record(task, None, f"the worker process {how}; was there enough memory?\n")
            ended.append((task, record))
        return ended

    def close(self) -> None:
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.process.join()
            worker.connection.close()
        self.workers.clear()


class _Worker:
    def __init__(self, data_dir: str | None, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.task: Task | None = None
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, data_dir), daemon=True)
        with _environment({name: str(threads) for name in THREADS}):  # read when NumPy and torch are imported
            self.process.start()
        theirs.close()  # so that the end of the process is the end of the connection


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _serve(connection: Connection, data_dir: str | None) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the main one decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    commit()
    while True:
        try:
            task, T, checkpoint = connection.recv()
        except EOFError:
            return
        connection.send(work(task, T, data_dir, checkpoint))


def _end_with_parent() -> None:
    """Killed with its parent, a run leaves no worker behind that computes for nobody."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
