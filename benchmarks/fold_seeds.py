"""How much do the folds matter? python benchmarks/fold_seeds.py --out benchmarks/results/fold_seeds.md

Cells of the suite, see ``suite.py``. One JSON file per fit, in a folder called like ``--out`` without its ending, keeps
the result; what is there is not run again.
"""

import json
import zlib
from pathlib import Path

import numpy as np
from _shared import Report, arguments, path_of
from suite import NOISES, files, flipped, load

from unflip import CorrectedClassifier
from unflip._output import write_whole

CELLS = (
    *(("car", "sym40"), ("nursery", "idn30"), ("phoneme", "two40"), ("reuters_r8", "pair20"), ("ring", "none")),
    ("segmentation", "pair35"),
)
SEEDS = 10

options = arguments(__doc__)
sets = files(path_of(options, "suite"))
records = (options.out or Path("fold_seeds")).with_suffix("")
records.mkdir(parents=True, exist_ok=True)
rows = []
for name, noise in CELLS:
    found = []
    for seed in range(SEEDS):
        record = records / f"{name}-{noise}-{seed}.json"
        if not record.exists():
            task = load(sets[name], 0)
            labels, _ = flipped(task, noise, [0, zlib.crc32(name.encode()), NOISES.index(noise)])
            model = CorrectedClassifier(random_state=seed).fit(task.linear[0], labels)
            right = float(np.mean(model.predict(task.linear[1]) == task.y_test))
            (chosen,) = (candidate for candidate in model.candidates_ if candidate.chosen)
            write_whole(record, json.dumps({"accuracy": right, "corrected": bool(chosen.corrected)}) + "\n")
        found.append(json.loads(record.read_text()))
    a = 100 * np.array([r["accuracy"] for r in found])
    numbers = [f"{value:.2f}" for value in (a.mean(), a.std(ddof=1), a.min(), a.max())]
    rows.append([name, noise, *numbers, sum(r["corrected"] for r in found)])
report = Report("The folds of CorrectedClassifier", "python benchmarks/fold_seeds.py", options)
report.say(
    f"Test accuracy of `CorrectedClassifier(random_state=seed)` in percent over {SEEDS} seeds, same rows and noisy "
    "labels: cells of the suite with more than 1,000 training rows, draw 0. *corrected*: with how many seeds a model "
    "through T was chosen.\n"
)
report.table(["set", "noise", "mean", "standard deviation", "lowest", "highest", "corrected"], rows)
report.close()
