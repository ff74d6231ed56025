"""Where tasks run: processes on this machine, or a Dask cluster. A worker that dies takes only its task with it."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from joblib import cpu_count

from unflip.bench.cells import Task
from unflip.bench.record import THREADS, Record, commit, make_record, work

GONE = "the connection to the Dask cluster is lost; run the same command again to continue"
PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>
ONE_AT_A_TIME = threading.Lock()  # torch's random state belongs to the process, and a Dask worker may have many threads


class LocalPool:
    """Processes on this machine, as many as ``jobs``, which share its cores without oversubscribing them.

    Each has ``cpu_count() // jobs`` threads, at least one, and at most ``OMP_NUM_THREADS`` if that is set.
    """

    def __init__(self, jobs: int, data_dir: str | None = None) -> None:
        self.slots = jobs  # how many tasks run at once
        self.data_dir = data_dir
        limit = os.environ.get(THREADS[0], "")
        self.threads = max(1, min(cpu_count() // jobs, int(limit) if limit.isdigit() else cpu_count()))
        self.workers: list[_Worker] = []

    def submit(self, task: Task, T: Any, checkpoint: Path | None) -> None:
        """Start a task; there must be a free slot."""
        self.workers = [worker for worker in self.workers if worker.task is not None or worker.process.is_alive()]
        worker = next((worker for worker in self.workers if worker.task is None), None)
        if worker is None:
            worker = _Worker(self.data_dir, self.threads)
            self.workers.append(worker)
        worker.task = task
        with suppress(OSError):  # if it died just now, wait() finds out
            worker.connection.send((task, T, checkpoint))

    def wait(self, timeout: float) -> list[tuple[Task, Record]]:
        """Return the tasks that ended, after at most this many seconds; the list may be empty."""
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
        """Stop all workers at once."""
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
        theirs.close()  # so that the connection ends with the process


class DaskPool:
    """The workers of a Dask cluster, one task each; its scheduler has an address such as ``tcp://10.0.0.1:8786``.

    If ``data_dir`` is None, each worker's own ``UNFLIP_DATA`` is used.
    """

    def __init__(self, address: str, data_dir: str | None = None, timeout: float = 10) -> None:
        from distributed import Client

        from unflip.tables._dask import silent

        self.silence = ExitStack()
        self.silence.enter_context(silent())
        try:
            self.client = Client(address, timeout=timeout)
        except (OSError, TimeoutError, ValueError) as error:
            raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
        self.data_dir = data_dir
        self.futures: dict[Any, Task] = {}

    @property
    def slots(self) -> int:
        with _connection():
            return max(1, len(self.client.ncores()))  # workers may come and go

    def submit(self, task: Task, T: Any, checkpoint: Path | None) -> None:
        # Without a checkpoint: the store's folder may not exist on a worker.
        with _connection():
            self.futures[self.client.submit(_work_alone, task, T, self.data_dir, pure=False)] = task

    def wait(self, timeout: float) -> list[tuple[Task, Record]]:
        from distributed import wait as wait_for

        with _connection():
            try:
                done = wait_for(list(self.futures), timeout=timeout, return_when="FIRST_COMPLETED").done
                ended = [(self.futures.pop(future), future) for future in done]
                return [(task, _record(future, task)) for task, future in ended]
            except TimeoutError:
                if self.client.status != "running":
                    raise
                return []

    def close(self) -> None:
        is_lost = self.client.status != "running"
        with suppress(Exception):  # whatever a client without a scheduler makes of it
            self.client.cancel(list(self.futures))
        with suppress(Exception):
            self.client.close()
        if not is_lost:  # its threads would still log tracebacks after the sentence
            self.silence.close()


@contextmanager
def _connection() -> Iterator[None]:
    """Say in one sentence that the scheduler is gone; Dask raises whatever the call at that moment makes of it."""
    try:
        yield
    except (CancelledError, OSError, RuntimeError) as error:
        raise ConnectionError(GONE) from error


Pool = LocalPool | DaskPool


def _record(future: Any, task: Task) -> Record:
    try:
        record: Record = future.result()
    except CancelledError:
        raise
    except Exception as error:  # the task killed its worker more than once
        record = make_record(task, None, f"the cluster could not run this task: {error!r}\n")
    return record


def _work_alone(task: Task, T: Any, data_dir: str | None) -> Record:
    with ONE_AT_A_TIME:
        return work(task, T, data_dir, None)


def _serve(connection: Connection, data_dir: str | None) -> None:
    """Run tasks until the connection ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the main one decides
    _end_with_parent()
    commit()
    while True:
        try:
            task, T, checkpoint = connection.recv()
        except EOFError:
            return
        connection.send(work(task, T, data_dir, checkpoint))


def _end_with_parent() -> None:
    """End this worker when its parent ends, so that a killed run leaves no workers behind.

    Linux kills it at once, whatever it is doing. Elsewhere a thread waits for the parent, and has to wait for a long
    computation in C, too.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait_for_it() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_for_it, daemon=True).start()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent.pid:  # it had ended before
            os._exit(1)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if name in values})
