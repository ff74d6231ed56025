"""Real tables and texts under six kinds of noise: python benchmarks/suite.py [--core]

A cell is (set, noise, draw). One JSON file per cell and method under ``--records`` keeps the result. What is there is
not run again, so you can stop and restart the script, and run it several times in parallel with different filters; a
method that failed is tried again. The cells run in random order, so that a report of some of them is representative,
and each process uses one thread. The tables, and a CSV with one line per record, are written from what is there, by
default next to the folder of the records. Put the sets into the folder ``suite`` of the data directory: ``tables`` with
one file per set (CSV with the target last, or NPZ with X and y) and ``text`` (CSV with text and label).
"""

import argparse
import importlib
import json
import multiprocessing
import os
import random
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _shared import Report
from _suite_report import write
from sklearn.base import ClassifierMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from unflip._output import write_whole
from unflip.core import clean_prior
from unflip.noise import asymmetric, corrupt, instance_dependent, pairflip, symmetric
from unflip.tables import Preprocessor

RESULTS = Path(__file__).parent / "results"
TRAIN_ROWS, TRAIN_SHARE, TEST_ROWS = 1500, 0.7, 5000
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
NOISES = ("none", "sym40", "pair35", "pair20", "two40", "idn30")
CORE_NOISES = ("none", "sym40", "pair35", "two40")
# Few and many classes, even and rare ones, easy and overlapping ones, numbers and codes, two texts.
CORE = (
    "adult",
    "ann_thyroid",
    "car",
    "dry_bean",
    "krkopt",
    "led7",
    "mfeat_zernike",
    "optdigits",
    "reuters_r8",
    "ring",
    "segmentation",
    "tweet_sentiment",
    "vehicle",
    "vowel",
    "wine_quality_red",
)

Cell = tuple[str, str, int]  # set, noise, draw


@dataclass
class Task:
    """Training and test rows of one draw of a set; labels are the codes 0, 1, ... of the classes of the training rows.

    Each method declares which features it takes. ``linear`` are, for a table, numbers in their own units and one-hot
    categories; for texts a sparse TF-IDF matrix. ``scaled`` are the same, standardized; TF-IDF weights are on one scale
    already. ``trees`` are those of ``linear`` for a table, but for texts 100 dense ones.
    """

    rows: int  # of the whole set
    y: np.ndarray
    y_test: np.ndarray
    linear: tuple[Any, Any]
    draw: int

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    @cached_property
    def scaled(self) -> tuple[Any, Any]:
        X, X_test = self.linear
        if not isinstance(X, np.ndarray):
            return X, X_test
        scaler = StandardScaler().fit(X)
        return scaler.transform(X), scaler.transform(X_test)

    @cached_property
    def trees(self) -> tuple[np.ndarray, np.ndarray]:
        X, X_test = self.linear
        if isinstance(X, np.ndarray):
            return X, X_test
        svd = TruncatedSVD(100, random_state=self.draw).fit(X)
        return svd.transform(X), svd.transform(X_test)


def files(folder: Path) -> dict[str, Path]:
    """Return the file of each set in the folder ``suite``, by name."""
    found = [*folder.glob("tables/*.csv.gz"), *folder.glob("tables/*.npz"), *folder.glob("text/*.csv.gz")]
    return {path.name.split(".")[0]: path for path in sorted(found, key=lambda path: path.name)}


def split(y: np.ndarray, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test rows; test rows of a class that the training rows lack are dropped."""
    rows = np.random.default_rng(draw).permutation(len(y))
    n = min(TRAIN_ROWS, int(TRAIN_SHARE * len(y)))
    train, test = rows[:n], rows[n : n + TEST_ROWS]
    return train, test[np.isin(y[test], y[train])]


def load(path: Path, draw: int) -> Task:
    """Read a set, split it and make the features from the training rows."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            X, y = arrays["X"].astype(np.float64), arrays["y"]
    elif path.parent.name == "text":
        frame = pd.read_csv(path, keep_default_na=False)
        X, y = frame["text"].to_numpy(dtype=object), frame["label"].to_numpy()
    else:
        frame = pd.read_csv(path)
        X, y = frame.iloc[:, :-1], frame.iloc[:, -1].to_numpy()
    train, test = split(y, draw)
    known, codes = np.unique(y[train], return_inverse=True)
    if path.parent.name == "text":
        words = TfidfVectorizer(sublinear_tf=True, min_df=2).fit(X[train])
        features = words.transform(X[train]), words.transform(X[test])
    else:
        take = X.iloc.__getitem__ if isinstance(X, pd.DataFrame) else X.__getitem__
        table = Preprocessor(standardize=False).fit(take(train))
        features = table.transform(take(train)), table.transform(take(test))
    return Task(len(y), codes, np.searchsorted(known, y[test]), features, draw)


def transition(noise: str, y: np.ndarray) -> np.ndarray | None:
    """Return T of a noise for clean labels y; None for the noise that has no T, since it depends on the features."""
    n_classes = int(y.max()) + 1
    if noise == "none":
        return np.eye(n_classes)
    if noise == "sym40":
        return symmetric(n_classes, 0.4)
    if noise.startswith("pair"):
        return pairflip(n_classes, int(noise.removeprefix("pair")) / 100)
    if noise == "two40":  # the second and third largest classes flip into the largest
        largest, *others = np.argsort(-np.bincount(y), kind="stable")[:3].tolist()
        return asymmetric(n_classes, {code: (largest, 0.4) for code in others})
    return None


def flipped(task: Task, noise: str, seed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy training labels and the T that drew them; for instance-dependent noise, the shares of the flips."""
    rng = np.random.default_rng(seed)
    T = transition(noise, task.y)
    if T is not None:
        return corrupt(task.y, T, random_state=rng), T
    noisy = instance_dependent(task.trees[0], task.y, 0.3, random_state=rng)
    counts = np.zeros((task.n_classes, task.n_classes))
    np.add.at(counts, (task.y, noisy), 1)
    return noisy, counts / counts.sum(axis=1, keepdims=True)


# ---- methods ----


@dataclass(frozen=True)
class Method:
    """A classifier, which features it takes, the uncorrected model it is compared with, and what must be installed."""

    make: Callable[[bool, int], Any]  # from (is X sparse, seed)
    features: str
    twin: str = ""
    needs: str = ""  # "cleanlab" or the name of a class in unflip
    knows_transition: bool = False  # gets the true T: what is within reach of the same models


def scaled(model: ClassifierMixin, sparse: bool) -> Any:
    """Return the model for ``linear`` features, which it gets standardized as in ``Task.scaled``."""
    return model if sparse else make_pipeline(StandardScaler(), model)


def logistic(sparse: bool) -> Any:
    return scaled(LogisticRegression(max_iter=1000), sparse)


def boosted(seed: int) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(random_state=seed)


def extra_trees(seed: int) -> ExtraTreesClassifier:
    return ExtraTreesClassifier(200, min_samples_leaf=2, random_state=seed)


def ours(name: str) -> Callable[..., Any]:
    return getattr(importlib.import_module("unflip"), name)


def seeded(name: str, seed: int) -> Any:
    """Make one of our classifiers with its defaults."""
    make = ours(name)
    return make(random_state=seed) if "random_state" in signature(make).parameters else make()


def corrected(estimator: Any, seed: int) -> Any:
    return ours("CorrectedClassifier")(estimator, random_state=seed)


def clean_learning(model: Any, seed: int) -> Any:
    from cleanlab.classification import CleanLearning

    return CleanLearning(model, seed=seed, find_label_issues_kwargs={"n_jobs": 1})


PLAIN = {
    "ridge": Method(lambda sparse, seed: scaled(RidgeClassifier(), sparse), "linear"),
    "logistic": Method(lambda sparse, seed: logistic(sparse), "linear"),
    "boosted": Method(lambda sparse, seed: boosted(seed), "trees"),
    "extra": Method(lambda sparse, seed: extra_trees(seed), "trees"),
}
METHODS = PLAIN | {
    # Not in a pipeline: CleanLearning weights the rows only for a classifier that takes weights itself.
    "cleanlab-logistic": Method(
        lambda sparse, seed: clean_learning(LogisticRegression(max_iter=1000), seed), "scaled", "logistic", "cleanlab"
    ),
    "cleanlab-boosted": Method(
        lambda sparse, seed: clean_learning(boosted(seed), seed), "trees", "boosted", "cleanlab"
    ),
    "auto": Method(lambda sparse, seed: corrected(None, seed), "linear", "hindsight", "CorrectedClassifier"),
    "auto-true-T": Method(
        lambda sparse, seed: corrected(None, seed), "linear", "hindsight", "CorrectedClassifier", knows_transition=True
    ),
    "corrected-boosted": Method(
        lambda sparse, seed: corrected(boosted(seed), seed), "trees", "boosted", "CorrectedClassifier"
    ),
    "corrected-extra": Method(
        lambda sparse, seed: corrected(extra_trees(seed), seed), "trees", "extra", "CorrectedClassifier"
    ),
    "corrected-logistic": Method(
        lambda sparse, seed: corrected(logistic(sparse), seed), "linear", "logistic", "CorrectedClassifier"
    ),
    "forward": Method(
        lambda sparse, seed: seeded("ForwardLogisticClassifier", seed),
        "linear",
        "logistic",
        "ForwardLogisticClassifier",
    ),
    "mcldce": Method(
        lambda sparse, seed: scaled(seeded("MCLDCEClassifier", seed), sparse),
        "linear",
        "ridge",
        "MCLDCEClassifier",
    ),
    "mcldce-volmin": Method(
        lambda sparse, seed: scaled(ours("MCLDCEClassifier")(ours("VolMin")(guard=False)), sparse),
        "linear",
        "ridge",
        "MCLDCEClassifier",
    ),
    "forward-volmin": Method(
        lambda sparse, seed: ours("ForwardLogisticClassifier")(guard=False),
        "linear",
        "logistic",
        "ForwardLogisticClassifier",
    ),
}


def missing(method: Method) -> str:
    """Return why a method cannot run here, or nothing."""
    try:
        if method.needs == "cleanlab":
            importlib.import_module("cleanlab")
        elif method.needs:
            ours(method.needs)
    except (ImportError, AttributeError):
        return f"{method.needs} is not there"
    return ""


def described(model: Any, noisy: np.ndarray, T: np.ndarray, accuracy: float) -> dict[str, Any]:
    """Return what a fitted model of ours says about the noise and about its own accuracy, next to the truth."""
    model = model[-1] if isinstance(model, Pipeline) else model
    if not hasattr(model, "transition_"):
        return {}
    estimate = model.transition_
    estimate = np.asarray(estimate.toarray() if hasattr(estimate, "toarray") else estimate)
    shares = np.bincount(noisy, minlength=len(T)) / len(noisy)
    prior = getattr(model, "class_prior_", None)
    prior = clean_prior(shares, estimate) if prior is None else np.asarray(prior)
    found: dict[str, Any] = {
        # As transition_error; T has rows that sum to less than one if the noisy labels lack a class.
        "transition_error": float(np.abs(estimate - T).sum() / len(T)),
        "noise_rate_estimated": noise_rate(prior, estimate),
        "diagonal": np.diag(estimate).round(4).tolist(),
        "prior": prior.round(4).tolist(),
    }
    if hasattr(model, "overlap_"):
        found["overlap"] = bool(model.overlap_)
    candidates = getattr(model, "candidates_", None) or []
    found["candidates"] = [
        {
            "name": c.name,
            "corrected": bool(c.corrected),
            "accuracy": None if c.accuracy is None else [float(value) for value in c.accuracy],
            "log_likelihood": None if c.log_likelihood is None else float(c.log_likelihood),
            "chosen": bool(c.chosen),
        }
        for c in candidates
    ]
    for c in candidates:
        if c.chosen:
            found["chosen"], found["corrected"] = c.name, bool(c.corrected)
        if c.chosen and c.accuracy is not None:
            found["estimate"], found["low"], found["high"] = (float(value) for value in c.accuracy[:3])
            found["covered"] = bool(found["low"] <= accuracy <= found["high"])
    return found


def noise_rate(prior: np.ndarray, T: np.ndarray) -> float:
    """Return the share of wrong labels, 1 - sum_j prior_j T_jj."""
    return float(1 - prior @ np.diag(T))


# ---- records ----


def record_path(records: Path, cell: Cell, method: str) -> Path:
    name, noise, draw = cell
    return records / name / f"{noise}-{draw}-{method}.json"


def is_done(path: Path) -> bool:
    return path.exists() and "error" not in json.loads(path.read_text())


def plan(
    sets: Iterable[str], noises: Iterable[str], draws: int, methods: Iterable[str], records: Path
) -> list[tuple[Cell, list[str]]]:
    """Return the cells in random order, each with the methods that have no record yet.

    An uncorrected model on the cell without noise is the one trained on clean labels, which every noise is compared
    with; so it is always among them.
    """
    wanted: dict[Cell, list[str]] = {}
    for name in sets:
        for draw in range(draws):
            for method in methods:
                for noise in dict.fromkeys([*(["none"] if method in PLAIN else []), *noises]):
                    cell = name, noise, draw
                    if not is_done(record_path(records, cell, method)):
                        wanted.setdefault(cell, []).append(method)
    cells = sorted(wanted.items())
    random.Random(0).shuffle(cells)
    return cells


def run_cell(path: Path, cell: Cell, methods: Iterable[str], records: Path, table: Mapping[str, Method]) -> list[str]:
    """Run the methods that have no record yet, write the records, and return a line for each."""
    name, noise, draw = cell
    methods = [method for method in methods if not is_done(record_path(records, cell, method))]  # as another run may
    if not methods:
        return []
    task = load(path, draw)
    noisy, T = flipped(task, noise, [draw, zlib.crc32(name.encode()), NOISES.index(noise)])
    # A rare class may lose all its labels; to a user the remaining ones are all there is.
    known, labels = np.unique(noisy, return_inverse=True)
    T = T[np.ix_(known, known)]
    lines = []
    for method in methods:
        X, X_test = getattr(task, table[method].features)
        record = {
            "set": name,
            "noise": noise,
            "draw": draw,
            "method": method,
            "rows": task.rows,
            "train_rows": len(task.y),
            "test_rows": len(task.y_test),
            "features": X.shape[1],
            "classes": task.n_classes,
            "noise_rate": float(np.mean(noisy != task.y)),
        }
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = table[method].make(not isinstance(X, np.ndarray), draw)  # may import a library first
                if table[method].knows_transition:
                    model.set_params(transition=T / T.sum(axis=1, keepdims=True))
                start = time.process_time()
                model.fit(X, labels)
                record["seconds"] = time.process_time() - start
                predicted = known[model.predict(X_test)]
                record["accuracy"] = float(np.mean(predicted == task.y_test))
                record |= described(model, labels, T, record["accuracy"])
            said = f"{100 * record['accuracy']:.2f}, {record['seconds']:.1f} s"
        except Exception as error:  # one that fails must not stop the others; the next run tries it again
            record["error"] = said = f"{type(error).__name__}: {error}"
        out = record_path(records, cell, method)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, json.dumps(record) + "\n")
        lines.append(f"{name}, {noise}, draw {draw}, {method}: {said}")
    return lines


def work(path: Path, cell: Cell, methods: list[str], records: Path) -> list[str]:
    return run_cell(path, cell, methods, records, METHODS)


def run(options: argparse.Namespace, sets: Mapping[str, Path]) -> None:
    methods = []
    for method in options.methods:
        if reason := missing(METHODS[method]):
            print(f"skipped: {method}: {reason}", file=sys.stderr)
        else:
            methods.append(method)
    for method in set(options.force) & set(methods):
        for name in sets:
            for noise in options.noises:
                for draw in range(options.draws):
                    record_path(options.records, (name, noise, draw), method).unlink(missing_ok=True)
    cells = plan(sets, options.noises, options.draws, methods, options.records)
    os.environ |= dict.fromkeys(THREADS, "1")  # read by the libraries when a process starts, hence spawn
    start = time.monotonic()
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(work, sets[cell[0]], cell, names, options.records) for cell, names in cells]
        for count, future in enumerate(as_completed(futures), 1):
            for line in future.result():
                print(f"[{count}/{len(cells)}, {(time.monotonic() - start) / 60:.1f} min] {line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("UNFLIP_DATA"), help="default: UNFLIP_DATA")
    parser.add_argument("--records", type=Path, default=RESULTS / "suite", help="default: benchmarks/results/suite")
    parser.add_argument("--out", type=Path, help="Markdown file; default: the folder of the records with .md")
    parser.add_argument("--core", action="store_true", help=f"only {len(CORE)} sets and {len(CORE_NOISES)} noises")
    parser.add_argument("--sets", nargs="*", default=[], help="default: all")
    parser.add_argument("--noises", nargs="*", choices=NOISES, help="default: all")
    parser.add_argument("--methods", nargs="*", choices=METHODS, help="default: all but those with volmin")
    parser.add_argument("--force", nargs="*", choices=METHODS, default=[], help="run these again; implies --methods")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread each; default: 2")
    parser.add_argument("--report", action="store_true", help="run nothing, write the tables of what is there")
    options = parser.parse_args()
    options.noises = options.noises or list(CORE_NOISES if options.core else NOISES)
    options.methods = options.methods or options.force or [name for name in METHODS if "volmin" not in name]
    options.out = options.out or options.records.with_suffix(".md")
    there = files(Path(options.data_dir) / "suite") if options.data_dir else {}
    if not there:
        print("skipped: suite is not in the data directory; set UNFLIP_DATA or --data-dir", file=sys.stderr)
        return
    names = options.sets or (CORE if options.core else list(there))
    if unknown := [name for name in names if name not in there]:
        parser.error(f"unknown set {', '.join(unknown)}; the sets are {', '.join(there)}")
    if not options.report:
        run(options, {name: there[name] for name in names})
    report = Report("The suite: real tables and texts with noisy labels", "python benchmarks/suite.py", options)
    write(report, options, list(names), {name: method.twin for name, method in METHODS.items()})


if __name__ == "__main__":
    main()
