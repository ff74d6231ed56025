"""Connect to a Dask cluster by its address."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager

from distributed import Client, KilledWorker
from distributed.comm import CommClosedError

from unflip.tables._dask import silent

TIMEOUT = 10  # seconds to wait for the scheduler


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Make the scheduler at ``address``, such as ``tcp://10.0.0.1:8786``, the active one."""
    try:
        client = Client(address, timeout=TIMEOUT)
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(f"there is no Dask scheduler at {address}: {error}") from error
    with client, silent():
        if not client.ncores():
            raise ValueError(f"the Dask scheduler at {address} has no workers; start some with `dask worker {address}`")
        try:
            yield
        except KilledWorker as error:
            raise ValueError(f"Dask workers died repeatedly on the same block: {error}") from error
        except Exception as error:
            # Without its scheduler, Dask raises whatever the call at that moment makes of it.
            if isinstance(error, CancelledError | CommClosedError) or client.status != "running":
                lost = f"the connection to the Dask scheduler at {address} was lost; nothing was written"
                raise ConnectionError(f"{lost}. Start it and run the same command again") from error
            raise
