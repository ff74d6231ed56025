"""A table of people with noisy labels, in files, and the numbers that their rows get."""

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from unflip.cli import app
from unflip.commands.row_passes import row_numbers
from unflip.noise import corrupt, pairflip
from unflip.tables.read import FrameRows

NAMES = np.array(["ant", "bee", "cat"])
T = pairflip(3, 0.3)
N = 600
FILES = (250, 200, 150)  # rows of the Parquet files


def invoke(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def people(n=N):
    random = np.random.default_rng(0)
    y = random.integers(3, size=n)
    frame = pd.DataFrame(random.normal(size=(n, 3)) + 3 * np.eye(3)[y], columns=["age", "height", "pay"])
    frame.loc[random.random(n) < 0.1, "age"] = np.nan
    frame["town"] = np.where(y == 1, "Ulm", random.choice(["Bonn", "Rome"], n))
    frame.loc[random.random(n) < 0.1, "town"] = None
    frame["number"] = np.arange(7, n + 7)
    frame["year"] = 2020
    frame["name"] = [f"P{i}" for i in range(n)]
    frame["count"] = random.integers(0, 4, size=n)
    frame["kind"] = NAMES[corrupt(y, T, random_state=1)]
    return frame


def write_people(place):
    """Write the same table as CSV, as Parquet and as a folder of Parquet files."""
    frame = people()
    frame.to_csv(place / "people.csv", index=False)
    frame.to_parquet(place / "people.parquet", index=False, row_group_size=70)
    (place / "parts").mkdir()
    for k, start in enumerate(np.cumsum((0, *FILES[:-1]))):
        frame[start : start + FILES[k]].to_parquet(place / f"parts/{k}.parquet", index=False, row_group_size=64)
    return place


def numbers(stream, sizes=FILES, seed=0):
    """Twin: the number of every row of files of these sizes, from the beginning of each file."""
    rows = [FrameRows(pd.DataFrame(index=range(n)), None, np.full(n, k)) for k, n in enumerate(sizes)]
    return np.concatenate([row_numbers(seed, stream, one) for one in rows])
