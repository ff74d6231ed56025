"""T from noisy labels alone, with networks: VolMinNet, and CrossFitEM, which refines it, on MNIST and Fashion-MNIST.

One JSON record per cell is kept under ``--records``; a cell that has one is not run again.
"""

import argparse
import json
import os
from pathlib import Path
from time import process_time

import numpy as np
import torch
from _shared import Report, images

from unflip.metrics import transition_error
from unflip.noise import asymmetric, corrupt, pairflip, symmetric
from unflip.transition.crossfit import CrossFitEM
from unflip.transition.volminnet import VolMinNet

DATA = {"mnist": "MNIST", "fashion-mnist": "F-MNIST"}
NOISE = {
    "sym 20": symmetric(10, 0.2),
    "sym 60": symmetric(10, 0.6),
    "pair 20": pairflip(10, 0.2),
    "pair 40": pairflip(10, 0.4),
    "one-sided 40": asymmetric(10, {7: (1, 0.4), 2: (7, 0.4), 5: (6, 0.4), 6: (5, 0.4), 3: (8, 0.4)}),
}
LIMIT = 0.05


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("UNFLIP_DATA"), help="default: UNFLIP_DATA")
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--records", type=Path, default=Path(__file__).parent / "results" / "deep_transition")
    parser.add_argument("--seed", type=int, default=0, help="seed of the estimators; the noise always has seed 0")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def run(options: argparse.Namespace, data: str, noise: str) -> dict:
    """Run both estimators on one cell; CrossFitEM starts from the VolMinNet shown next to it."""
    X, y_clean, X_test, y_test = images(options, data)
    T = NOISE[noise]
    y = corrupt(y_clean, T, random_state=0)
    counted = np.stack([np.bincount(y[y_clean == k], minlength=10) for k in range(10)]).astype(float)
    clock = process_time()
    volminnet = VolMinNet(random_state=options.seed).fit(X, y)
    between = process_time()
    crossfit = CrossFitEM(volminnet.transition_, random_state=options.seed).fit(X, y)
    end = process_time()
    return {
        "data": data,
        "noise": noise,
        "seed": options.seed,
        "counted_error": transition_error(counted / counted.sum(axis=1, keepdims=True), T),
        "volminnet_error": transition_error(volminnet.transition_, T),
        "volminnet_epoch": volminnet.best_epoch_,
        "volminnet_seconds": between - clock,
        "volminnet_accuracy": volminnet.score(X_test, y_test),
        "crossfit_error": transition_error(crossfit.transition_, T),
        "crossfit_error_by_round": [transition_error(record["transition"], T) for record in crossfit.history_],
        "log_likelihood_by_round": [record["log_likelihood"] for record in crossfit.history_],
        "crossfit_seconds": end - between,
        "crossfit_accuracy": crossfit.score(X_test, y_test),
        "settings": {"volminnet": plain(volminnet), "crossfit": plain(crossfit)},
        "volminnet": volminnet.transition_.tolist(),
        "crossfit": crossfit.transition_.tolist(),
    }


def plain(estimator: VolMinNet | CrossFitEM) -> dict:
    return {name: value for name, value in estimator.get_params(deep=False).items() if name != "start"}


def record_of(options: argparse.Namespace, data: str, noise: str) -> dict:
    path = options.records / f"{data}-{noise.replace(' ', '-')}-{options.seed}.json"
    if not path.exists():
        record = run(options, data, noise)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(record, indent=1))
        partial.replace(path)
    return json.loads(path.read_text())


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    report = Report("T from noisy labels with networks", "python benchmarks/deep_transition.py", options)
    report.say(
        "60,000 training images, the MLP 784-256-10, noisy labels only. Error of T is sum |T^ - T| / n_classes; "
        "`counted` is the error of counting T with the clean labels, which nobody has. Seconds are processor time on "
        "one core; those of CrossFitEM come on top of those of VolMinNet, from which it starts. Accuracy is that of "
        "`predict` on the clean test images, in percent.\n"
    )
    rows = []
    for data, name in DATA.items():
        for noise in NOISE:
            if (data, noise) == ("fashion-mnist", "one-sided 40"):
                continue  # these flips are between digits that look similar; no such flips are known for the clothes
            r = record_of(options, data, noise)
            rows.append(
                (
                    name,
                    noise,
                    f"{r['counted_error']:.3f}",
                    f"{r['volminnet_error']:.3f}",
                    f"**{r['crossfit_error']:.3f}**" if r["crossfit_error"] <= LIMIT else f"{r['crossfit_error']:.3f}",
                    f"{r['volminnet_seconds']:.0f}",
                    f"{r['crossfit_seconds']:.0f}",
                    f"{100 * r['volminnet_accuracy']:.2f}",
                    f"{100 * r['crossfit_accuracy']:.2f}",
                )
            )
            print(*rows[-1], flush=True)
    header = ("data", "noise", "counted", "VolMinNet", "CrossFitEM", "VolMinNet s", "CrossFitEM s")
    report.table((*header, "VolMinNet acc", "CrossFitEM acc"), rows)
    report.say(f"Bold: at most {LIMIT}.")
    report.close()


if __name__ == "__main__":
    main()
