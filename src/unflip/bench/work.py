"""A task becomes a record: its result or its traceback, and with what program it was made."""

import json
import os
import platform
import subprocess
import traceback
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from unflip import __version__
from unflip.bench.cells import Cell, short_hash
from unflip.bench.settings import resolved
from unflip.bench.store import FORMAT, Record, Task

SOURCE = Path(__file__).parents[1]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def work(task: Task, T: Any, data_dir: str | None, checkpoint: Path | None) -> Record:
    """Return the record of a task. This one function runs in local workers and on a Dask cluster alike."""
    commit()  # now: the source that is loaded, not the one that is there when the cell is done
    result, error, made_with = None, None, {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            settings = resolved(task)  # first: what costs nothing must not fail after hours
            result = _result(task, T, data_dir, checkpoint)
            json.dumps(result, allow_nan=False)  # a number that is none is a failure
            made_with = {"resolved": settings, "data": result.pop("data", None)}
        except Exception:
            result, error = None, traceback.format_exc()
            if checkpoint is not None:  # a retry must not fail in the state that this attempt left
                checkpoint.unlink(missing_ok=True)
    warned = [f"{entry.category.__name__}: {entry.message}" for entry in caught]
    return make_record(task, result, error, warned) | made_with


def _result(task: Task, T: Any, data_dir: str | None, checkpoint: Path | None) -> dict[str, Any]:
    from unflip.bench.run import run_cell, run_estimate

    if not isinstance(task, Cell):
        return run_estimate(task, data_dir=data_dir)
    transition = None if T is None else np.asarray(T, dtype=np.float64)
    return run_cell(task, transition, data_dir=data_dir, checkpoint=checkpoint)


def make_record(
    task: Task, result: dict[str, Any] | None, error: str | None = None, warned: Sequence[str] = ()
) -> Record:
    """Return the record of a task: done with a result, or failed with an error; and the warnings on the way.

    ``resolved``, all settings with the code's defaults, and ``data``, the fingerprint of the data, are known where the
    task is done; ``transition_from``, the hash, commit and settings of the T that a cell was given, where it was found.
    """
    threads = os.environ.get(THREADS[0], "")
    return {
        "format": FORMAT,
        "hash": task.hash,
        "status": "done" if error is None else "failed",
        "cell" if isinstance(task, Cell) else "estimate": task.as_dict(),
        "result": result,
        "error": error,
        "warnings": sorted(set(warned)),
        "resolved": None,
        "data": None,
        "transition_from": None,
        "versions": versions(),
        "commit": commit(),
        "threads": int(threads) if threads.isdigit() else None,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@lru_cache(maxsize=1)
def versions() -> dict[str, str | None]:
    """Return the versions of what the numbers depend on; None for what is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version(), "unflip": __version__}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


@lru_cache(maxsize=1)
def commit() -> str | None:
    """Return the git commit of the source, with " + changes" if ``src`` differs from it; None outside a checkout."""
    root = SOURCE.parents[1]
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head + (" + changes" if _git(root, "status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def fingerprint() -> str:
    """Return a hash of the source files and versions: a checkpoint of another program is not gone on with."""
    files = {str(path.relative_to(SOURCE)): sha256(path.read_bytes()).hexdigest() for path in SOURCE.rglob("*.py")}
    return short_hash([files, versions()])


def _git(root: Path, *words: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(root), *words]  # no lock: somebody may be working there
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
