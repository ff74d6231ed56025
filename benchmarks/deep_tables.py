"""Which loss for networks on tables? python benchmarks/deep_tables.py --out benchmarks/results/deep_tables.md

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

EVERY = 3
DRAWN = ("sym40", "pair35", "two40")
METHODS = ("ce", "gce", "mcldce", "proper", "forward", "discounted-forward")

options = arguments(__doc__)
sets = {name: path for name, path in files(path_of(options, "suite")).items() if path.parent.name == "tables"}
records = (options.out or Path("deep_tables")).with_suffix("")
records.mkdir(parents=True, exist_ok=True)
torch.set_num_threads(1)
found: dict[str, list[list[float]]] = {noise: [] for noise in DRAWN}
names = sorted(sets)[::EVERY]
for name in names:
    for noise in DRAWN:
        record = records / f"{name}-{noise}.json"
        done = json.loads(record.read_text()) if record.exists() else {}
        if set(METHODS) - set(done):
            task = load(sets[name], 0)
            labels, T = flipped(task, noise, [0, zlib.crc32(name.encode()), NOISES.index(noise)])
            X, X_test = (np.asarray(part, dtype=np.float64) for part in task.linear)
            for method in METHODS:
                if method not in done:
                    model = NoisyLabelClassifier(
                        method, transition=T, classes=np.arange(len(T)), progress=False, random_state=0
                    )
                    done[method] = float(np.mean(model.fit(X, labels).predict(X_test) == task.y_test))
                    write_whole(record, json.dumps(done) + "\n")
        found[noise].append([100 * done[method] for method in METHODS])
report = Report("Losses for networks on tables", "python benchmarks/deep_tables.py", options)
report.say(
    f"Mean test accuracy in percent of `NoisyLabelClassifier(method, transition=T)` with the true T on {len(names)} "
    "tables of the suite, at most 1,500 noisy labels each, draw 0; all but the method is the default. *below the "
    "best*: by how many points the method misses the best one of a cell, on average and at most.\n"
)
rows = []
scores = np.array([found[noise] for noise in DRAWN])  # (noise, table, method)
missed = scores.max(axis=2, keepdims=True) - scores
for m, method in enumerate(METHODS):
    means = [f"{value:.2f}" for value in (*scores[:, :, m].mean(axis=1), scores[:, :, m].mean())]
    rows.append([method, *means, f"{missed[:, :, m].mean():.2f}", f"{missed[:, :, m].max():.2f}"])
report.table(["method", *DRAWN, "all", "below the best", "at most"], rows)
report.say(f"Tables: {', '.join(names)}.\n")
report.close()
