"""The record of a task: its result or its traceback, and the program, settings and data that produced it."""

import json
import os
import platform
import subprocess
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from unflip import __version__
from unflip.bench import trial
from unflip.bench.cells import Cell, Task, short_hash
from unflip.bench.settings import resolved

FORMAT = 1
SOURCE = Path(__file__).parents[1]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

Record = dict[str, Any]


def work(task: Task, T: Any, data_dir: str | None, checkpoint: Path | None) -> Record:
    """Run a task and return its record. Local workers and Dask clusters run this same function."""
    commit()  # now, because the source may change before the cell is done
    result, error, made_with = None, None, {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            settings = resolved(task)  # first, so that a wrong setting fails at once and not after hours
            if isinstance(task, Cell):
                T = None if T is None else np.asarray(T, dtype=np.float64)
                result = trial.run_cell(task, T, data_dir=data_dir, checkpoint=checkpoint)
            else:
                result = trial.run_estimate(task, data_dir=data_dir)
            json.dumps(result, allow_nan=False)  # NaN in a result is a failure
            made_with = {"resolved": settings} | {key: result.pop(key, None) for key in ("data", "device")}
        except Exception:
            result, error = None, traceback.format_exc()
            if checkpoint is not None:  # a retry must not fail because of the state that this attempt left
                checkpoint.unlink(missing_ok=True)
    warned = [f"{entry.category.__name__}: {entry.message}" for entry in caught]
    return make_record(task, result, error, warned) | made_with


def make_record(
    task: Task, result: dict[str, Any] | None, error: str | None = None, warned: Sequence[str] = ()
) -> Record:
    """Return the record of a task that is done, with its result, or failed, with its error; and all warnings.

    Five entries are filled in by the caller that knows them: ``resolved``, all settings with the code's defaults;
    ``data``, the fingerprint of the data; ``device``, such as "cpu"; ``transition_from``, the hash, commit and settings
    of the T that a cell was given; and ``tuned_from``, the scores on held-out noisy labels that chose its settings, by
    the candidates' hashes.
    """
    threads = os.environ.get(THREADS[0], "")
    return {
        "format": FORMAT,
        "hash": task.hash,
        "status": "done" if error is None else "failed",
        "cell" if isinstance(task, Cell) else "estimate": asdict(task),
        "result": result,
        "error": error,
        "warnings": sorted(set(warned)),
        "resolved": None,
        "data": None,
        "device": None,
        "transition_from": None,
        "tuned_from": None,
        "versions": versions(),
        "commit": commit(),
        "threads": int(threads) if threads.isdigit() else None,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def is_stale(task: Task, record: Record) -> bool:
    """Say whether the code would now use other settings than those behind a record, or behind the T it was given.

    For records of older versions, which do not keep their settings, the answer is no. A setting that did not exist then
    does not count: its default leaves what was done before as it was. Nor does one that no longer exists if it was off
    (None or False).
    """
    made_with = [(task, record.get("resolved"))]
    if isinstance(task, Cell) and task.estimate is not None:
        made_with.append((task.estimate, (record.get("transition_from") or {}).get("resolved")))
    try:
        return any(settings is not None and _differ(settings, resolved(made)) for made, settings in made_with)
    except ModuleNotFoundError:  # tables can be written without torch, but then the defaults are unknown
        return False


def _differ(old: Any, new: Any) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        was_off = (None, False)
        return any(_differ(old[name], new[name]) if name in new else old[name] not in was_off for name in old)
    return bool(old != new)


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
    """Return a hash of the source files and versions, so that no run continues the checkpoint of another program."""
    files = {str(path.relative_to(SOURCE)): sha256(path.read_bytes()).hexdigest() for path in SOURCE.rglob("*.py")}
    return short_hash([files, versions()])


def _git(root: Path, *words: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(root), *words]  # no lock: somebody may be working there
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
