"""Soak: processes fit, audit and predict in shared folders, while they are killed and their disk is full.

    make soak                                   ten minutes, four processes
    python tests/hostile/soak.py --seconds 120 --processes 2

Each process repeats: fork, write one of the shared outputs in the child, and meanwhile read what is there. Some
children are killed at a random moment, some may only write small files, as on a full disk. A reader must see a whole
version at any moment: a model that predicts as one of the versions does, predictions of all rows of one version, an
audit whose lists have as many rows as its summary says. A table that is replaced between two passes of its reader is
refused in a sentence and read again. At the end every output is whole, and what the kills left is cleaned up.
"""

import argparse
import csv
import io
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from unflip import _output, load
from unflip.commands import audit_table, fit_table, predict_table, write_audit, write_predictions
from unflip.noise import corrupt, pairflip
from unflip.tables import read_table

VERSIONS = 2
T = pairflip(3, 0.3)
FULL = "cannot be written: the file would be larger than the system allows"


def make_table(folder, version):
    """Write and read the data of a version: each has another number of rows."""
    random = np.random.default_rng(version)
    n = 200 + 100 * version
    y = random.integers(3, size=n)
    frame = pd.DataFrame(random.normal(size=(n, 3)) + 3 * np.eye(3)[y], columns=["age", "height", "pay"])
    frame["kind"] = np.array(["ash", "beech", "cedar"])[corrupt(y, T, random_state=version)]
    path = folder / f"data-{version}.csv"
    frame.to_csv(path, index=False)
    return read_table(path, "kind")


class Writer:
    """Writes a version of one of the shared outputs, all of which are prepared beforehand."""

    def __init__(self, folder):
        self.folder, self.tables = folder, [make_table(folder, version) for version in range(VERSIONS)]
        self.fits = [fit_table(table, model="mcldce", transition=T, random_state=0) for table in self.tables]
        self.models = [fitted.model for fitted in self.fits]
        self.audits = [audit_table(table, model="mcldce", transition=T, random_state=0) for table in self.tables]
        self.sample = self.tables[0].X.iloc[:20]
        self.expected = [model.predict_proba(self.sample) for model in self.models]

    def write(self, what, version):
        table = self.tables[version]
        if what == "fit":  # the whole of it, not only the output
            fitted = fit_table(table, model="mcldce", transition=T, random_state=0)
            with _output.together():
                fitted.model.save(self.folder / "model")
                predicted, proba = predict_table(fitted.model, table)
                write_predictions(self.folder / "of-fit.csv", table, predicted, proba, fitted.model.classes_)
        elif what == "model":
            self.models[version].save(self.folder / "model")
        elif what == "audit":
            write_audit(self.audits[version], table, self.folder / "audit", title="soak")
        else:
            suffix = "csv" if what == "predict" else "parquet"
            predicted, proba = predict_table(self.models[version], table)
            write_predictions(self.folder / f"p.{suffix}", table, predicted, proba, self.models[version].classes_)

    def read(self, what):
        """Return whether there was something to read; what is not whole is an error."""
        lengths = {len(table.names) for table in self.tables}
        if what in ("fit", "model"):
            if not (self.folder / "model").exists():
                return False
            proba = load(self.folder / "model").predict_proba(self.sample)
            assert any(np.allclose(proba, expected) for expected in self.expected), "a model that nobody saved"
        elif what == "audit":
            try:
                place = os.open(self.folder / "audit", os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                return False
            try:
                texts = {name: _text(place, name) for name in ("summary.json", "labels.csv", "index.html")}
            except FileNotFoundError:
                return False  # this version was replaced and removed while it was read
            finally:
                os.close(place)
            n = json.loads(texts["summary.json"])["n_samples"]
            assert n in lengths, n
            assert len(list(csv.reader(io.StringIO(texts["labels.csv"])))) == n + 1
            assert texts["index.html"].rstrip().endswith("</html>")
        else:
            path = self.folder / f"p.{'csv' if what == 'predict' else 'parquet'}"
            if not path.exists():
                return False
            n = len(read_table(path, False).names)
            assert n in lengths, n
        return True


def _text(place, name):
    with open(os.open(name, os.O_RDONLY, dir_fd=place), encoding="utf-8", newline="") as file:
        return file.read()


def child(writer, what, version, limited):
    """Write in a process of its own, and end with 0, or 3 if the disk is full."""
    if limited:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limited, limited))
    try:
        writer.write(what, version)
    except OSError as error:
        os._exit(3 if FULL in str(error) else 4)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(5)
    os._exit(0)


def work(writer, seconds, seed, results):
    random, counts, faults = np.random.default_rng(seed), Counter(), []
    kinds = ("fit", "model", "audit", "predict", "parquet")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        what, version = str(random.choice(kinds)), int(random.integers(VERSIONS))
        limited = int(random.integers(100, 5000)) if random.random() < 0.2 else 0
        pid = os.fork()
        if pid == 0:
            child(writer, what, version, limited)
        counts["writers"] += 1
        deadline = time.monotonic() + random.exponential(0.1) if random.random() < 0.4 else None
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
            if deadline is not None and time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                break
            looked = str(random.choice(kinds))
            try:
                counts["reads"] += writer.read(looked)
            except Exception as error:
                if isinstance(error, ValueError) and "changed while it was read" in str(error):
                    counts["replaced between two passes of a reader, and noticed"] += 1
                else:
                    faults.append(f"{looked}: {type(error).__name__}: {error}")
        if os.WIFSIGNALED(status):
            counts["killed"] += 1
        else:
            code = os.WEXITSTATUS(status)
            counts[{0: "written", 3: "full disk"}.get(code, f"exit code {code}")] += 1
    results.put((counts, faults))


def soak(seconds, processes, seed, folder):
    """Return the counts and the faults of all processes."""
    warnings.simplefilter("ignore")
    writer = Writer(folder)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=work, args=(writer, seconds, seed + k, results)) for k in range(processes)]
    for worker in workers:
        worker.start()
    counts, faults = Counter(), []
    for _ in workers:
        found, wrong = results.get(timeout=seconds + 300)
        counts += found
        faults += wrong
    for worker in workers:
        worker.join()
    counts["left by kills"] = sum(_output.PARTIAL in path.name for path in folder.iterdir())
    _output.FRESH = 0  # so that what was left just now is cleaned up as well
    for what in ("fit", "model", "audit", "predict", "parquet"):
        writer.write(what, 0)
        assert writer.read(what)
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    faults += [f"left behind: {name}" for name in left]
    faults += [f"{n} writers ended with {name}" for name, n in counts.items() if name.startswith("exit code")]
    return counts, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unflip-soak-") as folder:
        counts, faults = soak(given.seconds, given.processes, given.seed, Path(folder))
    print(f"{given.seconds:g} s, {given.processes} processes, seed {given.seed}")
    for name, n in sorted(counts.items()):
        print(f"{n:10,} {name}")
    for fault in faults[:20]:
        print("FAULT", fault)
    print(f"{len(faults):,} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
