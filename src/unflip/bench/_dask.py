"""The cells on a Dask cluster: the same function; records come back and are stored here."""

import threading
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from distributed import Client, Future
from distributed import wait as wait_for

from unflip.bench.store import Record, Task
from unflip.bench.work import make_record, work

GONE = "the Dask cluster is gone; the same command goes on where it stopped"
ONE_AT_A_TIME = threading.Lock()  # torch's random state belongs to the process; a worker may have many threads


class DaskPool:
    """The workers of a Dask cluster, one task each.

    Parameters
    ----------
    address : str
        Of the scheduler, as ``tcp://10.0.0.1:8786``.
    data_dir : str or None
        Where the workers find the data sets; None is each worker's own ``UNFLIP_DATA``.
    timeout : float, default=10
        Seconds to wait for the scheduler.
    """

    def __init__(self, address: str, data_dir: str | None = None, timeout: float = 10) -> None:
        try:
            self.client = Client(address, timeout=timeout)
        except (OSError, TimeoutError, ValueError) as error:
            raise ValueError(f"there is no Dask scheduler at {address}: {error}") from error
        self.data_dir = data_dir
        self.futures: dict[Future, Task] = {}

    @property
    def slots(self) -> int:
        return max(1, len(self.client.ncores()))  # workers may come and go

    def submit(self, task: Task, T: Any, checkpoint: Path | None) -> None:
        # Without a checkpoint: the store's folder need not be there on a worker.
        self.futures[self.client.submit(work_alone, task, T, self.data_dir, pure=False)] = task

    def wait(self, timeout: float) -> list[tuple[Task, Record]]:
        try:
            done = wait_for(list(self.futures), timeout=timeout, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            if self.client.status != "running":
                raise ConnectionError(GONE) from None
            return []
        except CancelledError as error:
            raise ConnectionError(GONE) from error
        ended = [(future, self.futures.pop(future)) for future in done]
        return [(task, self._record(future, task)) for future, task in ended]

    def close(self) -> None:
        self.client.cancel(list(self.futures))
        self.client.close()

    def _record(self, future: Future, task: Task) -> Record:
        try:
            record: Record = future.result()
        except CancelledError as error:
            raise ConnectionError(GONE) from error
        except Exception as error:  # the worker died with it, more than once
            record = make_record(task, None, f"the cluster could not run it: {error!r}\n")
        return record


def work_alone(task: Task, T: Any, data_dir: str | None) -> Record:
    with ONE_AT_A_TIME:
        return work(task, T, data_dir, None)
