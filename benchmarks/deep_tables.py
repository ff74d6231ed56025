"""Which loss and T for networks on tables? python benchmarks/deep_tables.py --out benchmarks/results/deep_tables.md

Every third table of the suite, see ``suite.py``. The accuracies of each table and noise are saved as JSON in a folder
named after ``--out``, and what has been saved is not run again: delete it after a change of the defaults.
"""

import json
import zlib
from pathlib import Path

import numpy as np
import torch
from _shared import Report, arguments, path_of
from suite import NOISES, files, flipped, load

from unflip._output import write_whole
from unflip.deep import NoisyLabelClassifier
from unflip.transition import CrossFitEM

EVERY = 3
DRAWN = ("sym40", "pair35", "two40")
METHODS = ("ce", "gce", "mcldce", "proper", "forward", "discounted-forward")
ESTIMATED = {  # the second seed is the one that a classifier with random_state=0 gives to an estimator of its own
    "CrossFitEM()": CrossFitEM(progress=False, random_state=0),
    "CrossFitEM(guard=True)": CrossFitEM(guard=True, progress=False, random_state=209652396),
}
TRANSITIONS = {"none: cross-entropy": "ce", "the true one": "discounted-forward", **{name: name for name in ESTIMATED}}

options = arguments(__doc__)
sets = {name: path for name, path in files(path_of(options, "suite")).items() if path.parent.name == "tables"}
records = (options.out or Path("deep_tables")).with_suffix("")
records.mkdir(parents=True, exist_ok=True)
torch.set_num_threads(1)
names = sorted(sets)[::EVERY]


def accuracies(name: str, noise: str) -> dict[str, float]:
    """Return the test accuracy of every row, in percent; without noise, only of those of the second table."""
    record = records / f"{name}-{noise}.json"
    done = json.loads(record.read_text()) if record.exists() else {}
    wanted = [*(METHODS if noise in DRAWN else ["ce", "discounted-forward"]), *ESTIMATED]
    if {*wanted} - {*done}:
        task = load(sets[name], 0)
        labels, T = flipped(task, noise, [0, zlib.crc32(name.encode()), NOISES.index(noise)])
        X, X_test = (np.asarray(part, dtype=np.float64) for part in task.linear)
        for row in (row for row in wanted if row not in done):
            method, given = (row, T) if row in METHODS else ("discounted-forward", ESTIMATED[row])
            model = NoisyLabelClassifier(
                method, transition=given, classes=np.arange(len(T)), progress=False, random_state=0
            )
            done[row] = 100 * float(np.mean(model.fit(X, labels).predict(X_test) == task.y_test))
            write_whole(record, json.dumps(done) + "\n")
    return done


def show(report: Report, header: str, rows: dict[str, str], noises: tuple[str, ...]) -> None:
    """Add a table of mean accuracies, and by how much each row misses the best one."""
    cells = [[accuracies(name, noise) for name in names] for noise in noises]
    scores = np.array([[[done[key] for key in rows.values()] for done in of] for of in cells])  # (noise, table, row)
    missed = scores.max(axis=2, keepdims=True) - scores
    lines = []
    for m, row in enumerate(rows):
        means = [f"{value:.2f}" for value in (*scores[:, :, m].mean(axis=1), scores[:, :, m].mean())]
        lines.append([row, *means, f"{missed[:, :, m].mean():.2f}", f"{missed[:, :, m].max():.2f}"])
    report.table([header, *noises, "all", "below the best", "at most"], lines)


report = Report("Losses and T for networks on tables", "python benchmarks/deep_tables.py", options)
report.say(
    f"Mean test accuracy in percent of `NoisyLabelClassifier(method, transition=T)` with the true T on {len(names)} "
    "tables of the suite, at most 1,500 noisy labels each, draw 0; all but the method is the default. *below the "
    "best*: by how many points the method misses the best one of a cell, on average and at most.\n"
)
show(report, "method", {method: method for method in METHODS}, DRAWN)
report.say(
    "The same for `NoisyLabelClassifier(transition=T)`, where T is known, or comes from the noisy labels, by the "
    "default estimator without and with its guard:\n"
)
show(report, "T", TRANSITIONS, ("none", *DRAWN))
report.say(f"Tables: {', '.join(names)}.\n")
report.close()
