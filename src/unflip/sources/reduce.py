"""A sum over the blocks of a source, by threads or by Dask, in an order that does not depend on either."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from unflip.sources.block import Block, BlockError
from unflip.sources.iterables import IterableSource
from unflip.sources.source import Part, Source

Engine = Literal["threads", "dask"]
FAN_IN = 8  # values that one step of the tree adds


def reduce_blocks(
    source: Source, function: Callable[[Block], Any], *, threads: int | None = None, engine: Engine | None = None
) -> Any:
    """Return the sum of ``function(block)`` over all blocks of a source.

    The values are added as a tree of fan-in 8 over the blocks of each part, then over the parts, both in their order.
    The tree depends on the data alone, so the answer is the same for any number of threads and workers; and rounding
    grows with the logarithm of the number of blocks.

    Parameters
    ----------
    source : Source
        Of :func:`open_source`.
    function : callable
        Of a :class:`Block`, returns a value with ``+``. It must not change what it is given; on Dask it runs again
        where a worker was lost.
    threads : int, default=None
        Of the engine "threads"; None takes all processors of this process. BLAS is held to one thread in each. At most
        two blocks a thread are in memory, and two that are being read.
    engine : {"threads", "dask"}, default=None
        None takes Dask for Dask collections, else threads. "dask" sends the parts of files or arrays to the scheduler
        that is active in Dask; the workers must find the files by the same names.
    """
    if engine not in (None, "threads", "dask"):
        raise ValueError(f"engine must be 'threads', 'dask' or None; got {engine!r}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1; got {threads}")
    try:
        if engine == "dask" or (engine is None and source.on_dask):
            total = _by_dask(source, function)
        else:
            total = _by_threads(source, function, threads or processors())
    except BlockError as error:
        # The frames of a worker or a thread tell nothing that the message does not.
        raise BlockError(str(error)) from error.__cause__
    if total is None:
        hint = "check the path, the filter or the generator"
        if not source.rereadable:
            hint = "an iterator that was read before has none left: give a function that returns a new one"
        raise ValueError(f"the source has no rows; {hint}")
    return total


class TreeSum:
    """Add values one by one, as a tree of fan-in 8: ((v0 + ... + v7) + (v8 + ... + v15) + ...) + ...

    Only one value a level is kept. None is a value that adds nothing.
    """

    def __init__(self) -> None:
        self.levels: list[tuple[Any, int]] = []  # the sum so far and the number of its terms

    def add(self, value: Any, level: int = 0) -> None:
        if level == len(self.levels):
            self.levels.append((None, 0))
        total, terms = self.levels[level]
        total, terms = add_values([total, value]), terms + 1
        self.levels[level] = (None, 0) if terms == FAN_IN else (total, terms)
        if terms == FAN_IN:
            self.add(total, level + 1)

    def total(self) -> Any:
        carried = None
        for total, _ in self.levels:
            carried = add_values([total, carried])
        return carried


def add_values(values: Iterable[Any]) -> Any:
    """The sum from the left; None adds nothing."""
    total = None
    for value in values:
        total = value if total is None else total if value is None else total + value
    return total


def fold_part(part: Part, number: int, function: Callable[[Block], Any]) -> Any:
    """The sum over the blocks of a part, which are read one at a time; None if there is none."""
    tree = TreeSum()
    for block in numbered(part, number):
        tree.add(apply(function, block))
    return tree.total()


def numbered(part: Part, number: int) -> Iterator[Block]:
    count = 0
    for block in part.blocks():
        if len(block):
            yield replace(block, index=(number, count))
            count += 1


def apply(function: Callable[[Block], Any], block: Block) -> Any:
    try:
        return function(block)
    except BlockError:
        raise
    except (ValueError, TypeError, ArithmeticError) as error:
        raise BlockError(f"{block.where}: {error}") from error


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _by_threads(source: Source, function: Callable[[Block], Any], threads: int) -> Any:
    with threadpool_limits(1, "blas"):
        parts = source.parts()
        tasks: Iterable[Callable[[], Any]]
        tasks = (partial(fold_part, part, number, function) for number, part in enumerate(parts))
        if threads == 1:
            tree = TreeSum()
            for task in tasks:
                tree.add(task())
            return tree.total()
        if len(parts) == 1:  # such as a generator: this thread reads, the others work
            tasks = (partial(apply, function, block) for block in numbered(parts[0], 0))
        with ThreadPoolExecutor(threads, "unflip") as pool:
            return _sum_by_pool(pool, tasks, threads)


def _sum_by_pool(pool: ThreadPoolExecutor, tasks: Iterable[Callable[[], Any]], threads: int) -> Any:
    tree = TreeSum()
    running: deque[Future[Any]] = deque()
    try:
        for task in tasks:
            running.append(pool.submit(task))
            del task  # it holds a block
            # A bounded number under way: blocks that wait for a thread fill the memory.
            if len(running) >= 2 * threads:
                tree.add(running.popleft().result())
        while running:
            tree.add(running.popleft().result())
    finally:
        for future in running:
            future.cancel()
    return tree.total()


def _by_dask(source: Source, function: Callable[[Block], Any]) -> Any:
    if isinstance(source, IterableSource):
        raise ValueError(
            "an iterable lives in this process and cannot be sent to Dask; give files, a Dask array or a Dask dataframe"
        )
    try:
        from unflip.sources._dask import reduce_by_dask
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("engine='dask' needs Dask: pip install unflip[scale]") from error
    return reduce_by_dask(source, function)
