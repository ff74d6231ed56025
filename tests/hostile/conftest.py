"""What the attacks share: a small table with a saved model, the command line, and a disk that is full."""

import sys
from contextlib import contextmanager

import pytest

from tests.cli.conftest import folder, invoke, start  # noqa: F401

resource = pytest.importorskip("resource") if sys.platform != "win32" else None


@contextmanager
def full_disk(size):
    """Let no file grow beyond ``size`` bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
