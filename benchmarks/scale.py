"""Linear fits of data larger than memory: python benchmarks/scale.py --out benchmarks/results/scale.md

Rows are made block by block and are never in memory together. Every measurement is a process of its own, whose peak is
the peak of the measurement, and one JSON under ``--records``, which is not measured again; the tables are written from
what is there. BLAS has one thread in all of them.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _shared import Report, features
from scipy import sparse
from threadpoolctl import threadpool_limits

from unflip._output import write_whole
from unflip.linear import MCLDCEClassifier, class_sums
from unflip.metrics import transition_error
from unflip.noise import corrupt, pairflip, symmetric
from unflip.tables import Block, Source, open_source
from unflip.transition import VolMin, sample_rows

RESULTS = Path(__file__).parent / "results"
SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)
ON_DISK = 3_000_000
SAMPLES = (5_000, 10_000, 20_000, 50_000)
RATE = 0.4
BLOCK = 65_536


@dataclass(frozen=True)
class Blobs:
    """The part of the data that one seed makes: normal clusters around random means, labels with pair noise."""

    n_rows: int
    n_classes: int = 10
    n_features: int = 64
    spread: float = 2.0  # of a feature, where the means of two classes differ by sqrt(2) or so
    seed: int = 0

    def blocks(self) -> Iterator[Block]:
        X, _, noisy = self.draw()
        yield Block(X, noisy, name=f"seed {self.seed}")

    def draw(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """X, clean labels, noisy labels."""
        means = np.random.default_rng(0).normal(size=(self.n_classes, self.n_features)).astype(np.float32)
        rng = np.random.default_rng([1, self.seed])
        y = rng.integers(self.n_classes, size=self.n_rows)
        X = rng.standard_normal((self.n_rows, self.n_features), dtype=np.float32)
        X *= self.spread
        X += means[y]
        flipped = rng.random(self.n_rows, dtype=np.float32) < RATE
        return X, y, (y + flipped) % self.n_classes

    def test(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of another seed with their clean labels."""
        X, y, _ = replace(self, n_rows=20_000, seed=2**31).draw()
        return X, y


class Made(Source):
    """As many parts as n rows need; a source of one's own is a class with ``parts``."""

    def __init__(self, n_rows: int, **shape: Any) -> None:
        self.n_rows, self.shape = n_rows, shape

    def parts(self) -> list[Blobs]:
        full, rest = divmod(self.n_rows, BLOCK)
        sizes = [BLOCK] * full + [rest] * (rest > 0)
        return [Blobs(size, **self.shape, seed=k) for k, size in enumerate(sizes)]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    value = work()
    return value, time.perf_counter() - start


def bare(source: Source, mapped: bool = False) -> dict[str, float]:
    """Reading all blocks, and X'X of each, apart; what is only mapped into memory is copied to be read."""
    reading = product = 0.0
    blocks = source.blocks()
    while True:
        block, seconds = timed(lambda: next(blocks, None))
        reading += seconds
        if block is None:
            return {"reading": reading, "product": product}
        X, seconds = timed(lambda X=block.X: np.array(X) if mapped else X)
        reading += seconds
        _, seconds = timed(lambda X=X: X.T @ X)
        product += seconds


def fitted(source: Any, T: Any, test: tuple[np.ndarray, np.ndarray], n_classes: int, **options: Any) -> dict[str, Any]:
    """The fit that is measured."""
    sums, summing = timed(lambda: class_sums(source, classes=range(n_classes), **options))
    model, solving = timed(lambda: MCLDCEClassifier(T).fit_sums(sums))
    return {"seconds": summing + solving, "solving": solving, "accuracy": model.score(*test)}


def least(n: int, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The least numbers of five runs where one is short, since other processes disturb it most; else of one."""
    runs = [work() for _ in range(5 if n <= 1_000_000 else 1)]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def measure_bare(n: int) -> dict[str, Any]:
    return least(n, lambda: bare(Made(n)))


def measure_fit(n: int, threads: int = 1) -> dict[str, Any]:
    test = Blobs(n).test()
    return least(n, lambda: fitted(Made(n), pairflip(10, RATE), test, 10, threads=threads))


def measure_sgd(n: int) -> dict[str, Any]:
    from sklearn.linear_model import SGDClassifier

    test = Blobs(n).test()

    def fit() -> dict[str, Any]:
        model = SGDClassifier(random_state=0)
        start = time.perf_counter()
        for block in Made(n).blocks():
            model.partial_fit(block.X, block.y, classes=range(10))
        return {"seconds": time.perf_counter() - start, "accuracy": model.score(*test)}

    return least(n, fit)


def measure_dask(n: int, workers: int) -> dict[str, Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        class_sums(Made(10 * BLOCK), classes=range(10), engine="dask")  # the workers import
        found = fitted(Made(n), pairflip(10, RATE), Blobs(n).test(), 10, engine="dask")
        return {**found, "parts": len(Made(n).parts())}


def measure_tasks(n: int) -> dict[str, Any]:
    """What a task costs Dask beside its work: n blocks of one row."""
    from distributed import Client, LocalCluster

    class Rows(Made):
        def parts(self) -> list[Blobs]:
            return [Blobs(1, seed=k) for k in range(n)]

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        class_sums(Made(BLOCK), classes=range(10), engine="dask")
        return {"seconds": timed(lambda: class_sums(Rows(n), classes=range(10), engine="dask"))[1]}


def write_rows(folder: Path, n: int, kind: str) -> None:
    """Write n rows as Parquet files or as an array."""
    import pyarrow
    from pyarrow import parquet

    names = [f"x{j}" for j in range(64)]
    if kind == "memmap":
        X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, 64))
        y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.int64, (n,))
    for k, part in enumerate(Made(n).parts()):
        block, _, noisy = part.draw()
        if kind == "memmap":
            rows = slice(k * BLOCK, k * BLOCK + part.n_rows)
            X[rows], y[rows] = block, noisy
        else:
            table = pyarrow.table({**dict(zip(names, block.T, strict=True)), "y": noisy})
            parquet.write_table(table, folder / f"{k:04}.parquet", compression="none", use_dictionary=False)


def measure_disk(n: int, kind: str) -> dict[str, Any]:
    """The same rows in files, which the system has in its cache since they were written."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        writer = multiprocessing.get_context("spawn").Process(target=write_rows, args=(folder, n, kind))
        writer.start()  # in a process of its own: its memory is not ours
        writer.join()
        source: tuple[Any, ...] = (folder,) if kind == "parquet" else (folder / "X.npy", folder / "y.npy")
        options: dict[str, Any] = {"label": "y"} if kind == "parquet" else {}
        best: dict[str, float] = {}
        for _ in range(8):
            found = bare(open_source(*source, **options), mapped=kind == "memmap")
            sums, found["seconds"] = timed(lambda: class_sums(*source, **options, classes=range(10), threads=1))
            best = {name: min(value, best.get(name, np.inf)) for name, value in found.items()}
        sums = replace(sums, feature_names=None)
        accuracy = MCLDCEClassifier(pairflip(10, RATE)).fit_sums(sums).score(*Blobs(n).test())
        return {**best, "accuracy": accuracy, "bytes": sum(f.stat().st_size for f in folder.iterdir())}


def measure_classes(n: int, n_classes: int, n_features: int, kind: str) -> dict[str, Any]:
    """Thousands of classes; T sparse, or the same matrix dense."""
    T: Any = sparse.eye(n_classes, format="lil") * (1 - RATE)
    T[np.arange(n_classes), (np.arange(n_classes) + 1) % n_classes] = RATE
    T = T.tocsr() if kind == "sparse" else T.toarray()
    shape = {"n_classes": n_classes, "n_features": n_features, "spread": 4.0}
    test = Blobs(n, **shape).test()
    ridge = class_sums(Made(n, **shape), classes=range(n_classes), threads=1)
    uncorrected = MCLDCEClassifier(sparse.eye(n_classes, format="csr")).fit_sums(ridge).score(*test)
    return {**fitted(Made(n, **shape), T, test, n_classes, threads=1), "uncorrected": uncorrected}


def measure_sample(rows: int, noise: str) -> dict[str, Any]:
    """The error of T from a sample of the CIFAR-10 features."""
    T = {"pair 0.4": pairflip(10, 0.4), "sym 0.4": symmetric(10, 0.4)}[noise]
    X, y, *_ = features(argparse.Namespace(data_dir=os.environ.get("UNFLIP_DATA")))
    sample = sample_rows((X, corrupt(y, T, random_state=0)), rows)
    estimated, seconds = timed(lambda: VolMin().fit(sample.X, sample.y).transition_)
    return {"error": transition_error(estimated, T), "seconds": seconds}


def write_table(folder: Path, n: int) -> None:
    """Write n rows of twelve numbers and a category as Parquet, a file for each sixteenth."""
    import pyarrow
    from pyarrow import parquet

    for k in range(16):
        X, y, noisy = Blobs(n // 16, n_features=12, seed=k).draw()
        columns = {**{f"x{j}": column for j, column in enumerate(X.T)}, "group": [f"g{c % 4}" for c in y], "y": noisy}
        parquet.write_table(pyarrow.table(columns), folder / f"{k:02}.parquet")


def measure_table(n: int) -> dict[str, Any]:
    """``unflip fit --out-of-core --sample 50000`` of a table."""
    from unflip.commands import fit_out_of_core

    with tempfile.TemporaryDirectory() as place:
        writer = multiprocessing.get_context("spawn").Process(target=write_table, args=(Path(place), n))
        writer.start()
        writer.join()
        fitted_, seconds = timed(lambda: fit_out_of_core(place, "y", sample_size=50_000))
        return {"seconds": seconds, "estimate": fitted_.accuracy.estimate}


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    name.removeprefix("measure_"): value for name, value in list(globals().items()) if name.startswith("measure_")
}


def measured(options: argparse.Namespace, name: str, *arguments: Any) -> dict[str, Any]:
    """The record of a measurement, which is made in a process of its own if there is none yet."""
    path = options.records / ("-".join([name, *map(str, arguments)]).replace(" ", "-") + ".json")
    if not path.exists():
        command = [sys.executable, __file__, "--measure", json.dumps([name, *arguments])]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        write_whole(path, done.stdout)
        print(path.stem, done.stdout.strip(), file=sys.stderr, flush=True)
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def measure(name: str, *arguments: Any) -> None:
    with threadpool_limits(1):
        found = MEASURES[name](*arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**found, "peak": peak}))


def write(options: argparse.Namespace) -> None:
    report = Report("Linear fits of data larger than memory", "python benchmarks/scale.py", options)
    report.say(
        "64 features in float32, ten classes, pair noise 0.4, T given, blocks of 65,536 rows, one thread. *Reading* is "
        "making the blocks and nothing else, *X'X* the bare product of each block in BLAS. *Total* is `class_sums` "
        "with its reading, and the solution. *Of the bound*: the total beside 1.3 x the larger of reading and X'X, "
        "plus reading. *Peak* is that of the process, Python and libraries included. SGD is scikit-learn's "
        "`SGDClassifier.partial_fit` on the same blocks, reading included; accuracies on 20,000 clean rows. Up to "
        "1,000,000 rows the least of five runs.\n"
    )
    sizes = [n for n in SIZES if n <= options.most]
    found = {n: {m: measured(options, m, n) for m in ("bare", "fit", "sgd")} for n in sizes}
    rows = []
    for n, each in found.items():
        reading, product, total = each["bare"]["reading"], each["bare"]["product"], each["fit"]["seconds"]
        rows.append(
            [
                f"{n:,}",
                *(f"{value:.2f}" for value in (reading, product, total)),
                f"{total / bound(reading, product):.2f}",
                f"{1e9 * total / n:.0f}",
                f"{each['fit']['peak'] / 2**20:.0f}",
                f"{each['sgd']['seconds']:.2f}",
                f"{each['sgd']['seconds'] / total:.1f}",
                f"{100 * each['fit']['accuracy']:.2f}",
                f"{100 * each['sgd']['accuracy']:.2f}",
            ]
        )
    header = ["rows", "reading, s", "X'X, s", "total, s", "of the bound", "ns a row", "peak, MiB", "SGD, s"]
    report.table([*header, "SGD / total", "accuracy", "SGD's accuracy"], rows)

    report.say(f"The same rows on disk, {ON_DISK:,} of them, in the system's cache; least of eight runs:\n")
    rows = []
    for kind in ("memmap", "parquet"):
        one = measured(options, "disk", min(ON_DISK, options.most), kind)
        rows.append(
            [
                kind,
                f"{one['bytes'] / 2**20:.0f}",
                *(f"{one[name]:.2f}" for name in ("reading", "product", "seconds")),
                f"{one['seconds'] / bound(one['reading'], one['product']):.2f}",
                f"{one['peak'] / 2**20:.0f}",
            ]
        )
    report.table(["file", "MiB", "reading, s", "X'X, s", "total, s", "of the bound", "peak, MiB"], rows)

    n = min(10_000_000, options.most)
    threads = [measured(options, "fit", n, *more)["seconds"] for more in ((), (2,))]
    workers = [measured(options, "dask", n, k)["seconds"] for k in (1, 2)]
    report.say(f"One worker against two on this machine of two cores, {n:,} rows:\n")
    report.table(
        ["", "one, s", "two, s", "speed-up"],
        [
            [name, *(f"{s:.2f}" for s in pair), f"{pair[0] / pair[1]:.2f}"]
            for name, pair in (("threads", threads), ("Dask, processes of a LocalCluster", workers))
        ],
    )
    tasks = 2000
    overhead = measured(options, "tasks", tasks)["seconds"] / tasks
    report.say(f"A task costs Dask {1000 * overhead:.2f} ms beside its work ({tasks:,} tasks of one row).\n")

    report.say("T from a sample of the 320 features of CIFAR-10, `sample_rows` and VolMin, sum |T^ - T| / classes:\n")
    sampled = {
        noise: [measured(options, "sample", rows, noise) for rows in SAMPLES] for noise in ("pair 0.4", "sym 0.4")
    }
    report.table(
        ["rows", *(f"{rows:,}" for rows in SAMPLES)],
        [[noise, *(f"{one['error']:.3f}" for one in each)] for noise, each in sampled.items()],
    )

    tables = {n: measured(options, "table", n) for n in (1_000_000, 4_000_000)}
    report.say("`unflip fit --out-of-core --sample 50000`, twelve numbers and a category, sixteen Parquet files:\n")
    report.table(
        ["rows", "seconds", "peak, MiB"],
        [[f"{n:,}", f"{one['seconds']:.0f}", f"{one['peak'] / 2**20:.0f}"] for n, one in tables.items()],
    )

    report.say("Many classes: 500,000 rows of 512 features, 5,000 classes, pair noise 0.4, one thread.\n")
    rows = []
    for kind in ("sparse", "dense"):
        one = measured(options, "classes", 500_000, 5000, 512, kind)
        rows.append(
            [
                kind,
                f"{one['seconds']:.1f}",
                f"{one['solving']:.1f}",
                f"{one['peak'] / 2**20:.0f}",
                f"{100 * one['accuracy']:.2f}",
                f"{100 * one['uncorrected']:.2f}",
            ]
        )
    report.table(["T", "total, s", "of it solving, s", "peak, MiB", "accuracy", "without correction"], rows)
    parquet = measured(options, "disk", min(ON_DISK, options.most), "parquet")["seconds"] / min(ON_DISK, options.most)
    estimate(report, parquet, overhead)
    report.close()


def estimate(report: Report, seconds_a_row: float, seconds_a_task: float) -> None:
    """What a cluster would do, from the cost of a row and of a task measured above."""
    machines, workers, n, group, disk = 100, 2, 10**10, 2**20, 1e9
    tasks = n / group * 8 / 7  # the tree adds one for every eight
    size = 8 * (64 * 64 + 10 * 64 + 64 + 10)
    reading, summing = 256 * n / machines / disk, n * seconds_a_row / machines / workers
    scheduling, sending = tasks * seconds_a_task, tasks * size / machines / 1.25e8
    times = {
        f"reading {256 * n / 1e12:.2f} TB, {disk / 1e9:.0f} GB/s a machine": reading,
        f"sums, {1e9 * seconds_a_row:.0f} ns a row, {workers} workers a machine": summing,
        f"Dask's scheduler, {tasks:,.0f} tasks one after the other": scheduling,
        f"their sums over the network, {size / 1024:.0f} KiB each, 1 Gbit/s a machine": sending,
    }
    report.say(
        f"**An estimate, not a measurement:** {n:.0e} rows of 64 features in Parquet on {machines} machines like this "
        f"one, in row groups of {group:,} rows. Cost of a row (from the system's cache) and of a task as measured "
        "above; speed of disks and network assumed.\n"
    )
    report.table(["what", "seconds"], [[name, f"{value:.2f}"] for name, value in times.items()])
    whole = sum(times.values())
    report.say(f"At most {whole:.0f} seconds, if nothing overlaps; the client receives {size / 1024:.0f} KiB.\n")


def bound(reading: float, product: float) -> float:
    return 1.3 * max(reading, product) + reading


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    parser.add_argument("--records", type=Path, default=RESULTS / "scale")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="largest number of rows")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*json.loads(options.measure))
    else:
        write(options)


if __name__ == "__main__":
    main()
