"""Which loss and T for networks on tables? python benchmarks/deep_tables.py --out benchmarks/results/deep_tables.md

Losses are compared on every third table of the suite (see ``suite.py``), T on the tables next to these, so that T is
not judged on the tables for which the loss was chosen. T of more than 10,000 rows is compared on every second table
that has as many, and T of many features on the tables that have them. What has been run is kept in a JSON file next to
``--out`` and is not run again: delete it after a change of the defaults.
"""

import json
import zlib
from pathlib import Path
from time import process_time

import numpy as np
import suite
import torch
from _shared import Report, arguments, path_of
from suite import NOISES, files, flipped, load

from unflip._output import write_whole
from unflip.deep import NoisyLabelClassifier
from unflip.deep.classifier import FEW_FEATURES, default_estimator
from unflip.transition import CrossFitEM, StackedEM

EVERY = 3
MANY_ROWS = 12_000
DRAWN = ("sym40", "pair35", "two40")
CHOSEN = "discounted-forward, chosen weight decay"
LOSSES = ("ce", "gce", "mcldce", "proper", "forward", "discounted-forward")
METHODS = {name: name for name in (*LOSSES, CHOSEN)}
TRANSITIONS = {
    "none: cross-entropy": "ce",
    "the true one": "discounted-forward",
    "`CrossFitEM()`, networks": "crossfit",
    "the default": "default",
    "the true one, chosen weight decay": CHOSEN,
    "the default, chosen weight decay": "default, chosen weight decay",
}
OF_MANY_ROWS = {name: row for name, row in TRANSITIONS.items() if "chosen" not in name}
OF_MANY_FEATURES = {
    "none: cross-entropy": "ce, chosen weight decay",
    "the true one": CHOSEN,
    "`StackedEM()`": "stacked, chosen weight decay",
    "the default, `VolMin()`": "default, chosen weight decay",
}

options = arguments(__doc__)
sets = {name: path for name, path in files(path_of(options, "suite")).items() if path.parent.name == "tables"}
names = sorted(sets)
store = (options.out or Path("deep_tables.md")).with_suffix(".json")
records: dict[str, dict[str, list[float]]] = json.loads(store.read_text()) if store.exists() else {}
torch.set_num_threads(1)


def run(name: str, noise: str, row: str, n_rows: int) -> list[float]:
    """Return the test accuracy in percent and the seconds of processor time of a fit."""
    suite.TRAIN_ROWS = n_rows
    task = load(sets[name], 0)
    labels, T = flipped(task, noise, [0, zlib.crc32(name.encode()), NOISES.index(noise)])
    X, X_test = (np.asarray(part, dtype=np.float64) for part in task.linear)
    row, chosen, _ = row.partition(", chosen")
    estimators = {
        "crossfit": CrossFitEM(progress=False, random_state=0),
        "stacked": StackedEM(random_state=0),
        "default": default_estimator(X, random_state=0),
    }
    settings = {"classes": np.arange(len(T)), "weight_decay": None if chosen else 0.0, "progress": False}
    method = row if row in METHODS else "discounted-forward"
    model = NoisyLabelClassifier(method, transition=estimators.get(row, T), random_state=0, **settings)
    start = process_time()
    model.fit(X, labels)
    seconds = process_time() - start
    return [100 * float(np.mean(model.predict(X_test) == task.y_test)), seconds]


def result(name: str, noise: str, row: str, n_rows: int) -> list[float]:
    done = records.setdefault(f"{name} {noise}" + (f" {n_rows}" if n_rows == MANY_ROWS else ""), {})
    if row not in done:
        done[row] = run(name, noise, row, n_rows)
        write_whole(store, json.dumps(records, indent=1, sort_keys=True) + "\n")
    return done[row]


def show(
    report: Report,
    header: str,
    rows: dict[str, str],
    tables: list[str],
    noises: tuple[str, ...],
    n_rows: int = suite.TRAIN_ROWS,
) -> None:
    """Add a table of mean accuracies, by how much each row misses the best one, and seconds."""
    found = np.array(
        [[[result(name, noise, row, n_rows) for row in rows.values()] for name in tables] for noise in noises]
    )
    scores, seconds = found[..., 0], found[..., 1]  # (noise, table, row)
    missed = scores.max(axis=2, keepdims=True) - scores
    lines = []
    for m, row in enumerate(rows):
        means = [f"{value:.2f}" for value in (*scores[:, :, m].mean(axis=1), scores[:, :, m].mean())]
        last = [f"{missed[:, :, m].mean():.2f}", f"{missed[:, :, m].max():.2f}", f"{seconds[:, :, m].mean():.1f}"]
        lines.append([row, *means, *last])
    report.table([header, *noises, "all", "below the best", "at most", "seconds"], lines)
    report.say(f"Tables: {', '.join(tables)}.\n")


report = Report("Losses and T for networks on tables", "python benchmarks/deep_tables.py", options)
report.say(
    "Mean test accuracy in percent of `NoisyLabelClassifier(method, transition=T)` with the true T on tables of the "
    "suite, at most 1,500 noisy labels each, draw 0; all but the method is the default, but `weight_decay=0` unless it "
    "is *chosen*, as it is by default. *below the best*: by how many points a row misses the best one of a cell, on "
    "average and at most. *seconds*: processor time of a fit, while other programs were running.\n"
)
show(report, "method", METHODS, names[::EVERY], DRAWN)
report.say(
    "The same for `NoisyLabelClassifier(transition=T)` on other tables, where T is known, or comes from the noisy "
    "labels:\n"
)
show(report, "T", TRANSITIONS, names[1::EVERY], ("none", *DRAWN))
report.say(f"The same for {MANY_ROWS:,} rows:\n")
large = [name for name in names if suite.TRAIN_SHARE * load(sets[name], 0).rows > 10_000]
show(report, "T", OF_MANY_ROWS, large[::2], ("none", "sym40", "pair35"), MANY_ROWS)
report.say(f"The same for more than {FEW_FEATURES} features and at most 1,500 rows, with the chosen weight decay:\n")
wide = [name for name in names if load(sets[name], 0).linear[0].shape[1] > FEW_FEATURES]
show(report, "T", OF_MANY_FEATURES, wide, ("none", *DRAWN))
report.close()
