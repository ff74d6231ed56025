"""Finding wrong labels, compared with cleanlab: python benchmarks/audit.py

Average precision of ranking the flipped labels first. One JSON file per (data, noise, draw) under ``--records`` keeps
the results, method by method. What is there is not run again, so you can stop and restart the script, and run it in
parallel for different ``--data`` or ``--noise``. The table is written from what is there. The rows of cleanlab need
cleanlab (pip install cleanlab); those with networks need PyTorch.
"""

import argparse
import csv
import io
import json
import os
import time
from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _shared import Report, features, images, path_of
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from unflip._output import write_whole
from unflip.audit import LabelErrors, find_label_errors
from unflip.linear import ForwardLogisticClassifier
from unflip.noise import corrupt, pairflip, symmetric
from unflip.transition import VolMin

RESULTS = Path(__file__).parent / "results"
DRAWN = {
    "sym 20": symmetric(10, 0.2),
    "sym 40": symmetric(10, 0.4),
    "pair 20": pairflip(10, 0.2),
    "pair 40": pairflip(10, 0.4),
}
HUMAN = {"CIFAR-10N aggregate": "aggre_label", "CIFAR-10N random1": "random_label1"}
DATA = {"digits": tuple(DRAWN), "mnist": tuple(DRAWN), "cifar10-features": (*DRAWN, *HUMAN)}
NOISE = (*DRAWN, *HUMAN)
# On the CIFAR-10 features: what a first prototype of the same idea reached; we want at least that.
GOAL = dict(zip(NOISE, (0.968, 0.983, 0.987, 0.994, 0.765, 0.879), strict=True))
MNIST_ROWS = 10_000
FOLDS = 5
KEYS = ("average_precision", "seconds", "flagged", "precision", "recall", "estimated_errors")  # of a run


class Task:
    """Noisy data, the folds shared by all methods, and probabilities that several methods read, with their seconds."""

    def __init__(self, X: np.ndarray, noisy: np.ndarray, draw: int) -> None:
        self.X, self.noisy, self.draw = X, noisy, draw
        self.folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=draw).split(X, noisy))

    def out_of_fold(self, model: Any) -> tuple[np.ndarray, float]:
        start = time.process_time()
        proba = cross_val_predict(model, self.X, self.noisy, cv=self.folds, method="predict_proba")
        return proba, time.process_time() - start

    @cached_property
    def logistic(self) -> tuple[np.ndarray, float]:
        return self.out_of_fold(logistic())

    @cached_property
    def volmin(self) -> tuple[np.ndarray, float]:
        start = time.process_time()
        proba = VolMin(guard=False).fit_held_out(self.X, self.noisy, folds=FOLDS)
        assert proba is not None
        return proba, time.process_time() - start


def logistic() -> LogisticRegression:
    return LogisticRegression(max_iter=1000)


def crossfit() -> Any:
    from unflip.transition import CrossFitEM

    return CrossFitEM(VolMin(guard=False), progress=False)


def forward_network() -> Any:
    from unflip.deep import NoisyLabelClassifier

    return NoisyLabelClassifier("forward", transition=VolMin(guard=False), standardize=False, progress=False)


# Each method returns scores (higher for labels that are more likely wrong), which samples it calls wrong, the seconds
# that the scores cost on top of the call (for probabilities made earlier), and the estimated number of errors, if any.
Found = tuple[np.ndarray, np.ndarray, float, float | None]


def ours(make: Callable[[], Any], own_folds: bool = False) -> Callable[[Task], Found]:
    def run(task: Task) -> Found:
        cv = FOLDS if own_folds else task.folds
        found: LabelErrors = find_label_errors(task.X, task.noisy, make(), cv=cv, random_state=task.draw)
        return found.scores, found.suggested != task.noisy, 0.0, found.total

    return run


def quality(source: str, method: str) -> Callable[[Task], Found]:
    """cleanlab's label quality score; find_label_issues on the same probabilities decides what is called wrong."""

    def run(task: Task) -> Found:
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores

        proba, spent = getattr(task, source)
        scores = -get_label_quality_scores(task.noisy, proba, method=method)
        return scores, find_label_issues(task.noisy, proba, n_jobs=1), spent, None

    return run


def issues_first(task: Task) -> Found:
    """find_label_issues with its defaults: its issues in its own order, then the others by the same score."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_self_confidence_for_each_label

    proba, spent = task.logistic
    issues = find_label_issues(task.noisy, proba, return_indices_ranked_by="self_confidence", n_jobs=1)
    flagged = np.zeros(len(task.noisy), dtype=bool)
    flagged[issues] = True
    return flagged - get_self_confidence_for_each_label(task.noisy, proba), flagged, spent, None


def clean_learning(task: Task) -> Found:
    """CleanLearning with its own folds and defaults, with the same classifier: its issues first, then label quality."""
    from cleanlab.classification import CleanLearning

    found = CleanLearning(logistic(), seed=task.draw, find_label_issues_kwargs={"n_jobs": 1}).find_label_issues(
        task.X, task.noisy
    )
    flagged = found["is_label_issue"].to_numpy()
    return flagged - found["label_quality"].to_numpy(), flagged, 0.0, None


def plain(task: Task) -> Found:
    proba, spent = task.logistic
    return 1 - proba[np.arange(len(proba)), task.noisy], proba.argmax(axis=1) != task.noisy, spent, None


METHODS: dict[str, Callable[[Task], Found]] = {
    "unflip, --model logistic": ours(ForwardLogisticClassifier, own_folds=True),
    "unflip, scikit-learn's logistic regression": ours(logistic),
    "unflip, --model auto": ours(lambda: None, own_folds=True),
    "unflip, VolMin (default)": ours(lambda: VolMin(guard=False)),  # the default of an earlier version
    "unflip, CrossFitEM (MLP)": ours(crossfit),
    "unflip, forward (MLP)": ours(forward_network),
    "1 - p of logistic regression": plain,
    "cleanlab, self_confidence": quality("logistic", "self_confidence"),
    "cleanlab, normalized_margin": quality("logistic", "normalized_margin"),
    "cleanlab, find_label_issues": issues_first,
    "cleanlab, CleanLearning": clean_learning,
    "cleanlab, self_confidence on VolMin's p": quality("volmin", "self_confidence"),
}
NEEDS = {"cleanlab": [name for name in METHODS if "cleanlab" in name], "torch": [n for n in METHODS if "MLP" in n]}
DEFAULT = [name for name in METHODS if not any(other in name for other in ("MLP", "auto", "default"))]


def load(options: argparse.Namespace, data: str, noise: str, draw: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, noisy labels and clean labels."""
    if data == "digits":
        X, y = load_digits(return_X_y=True)
        X = (X / 16).astype(np.float32)
    elif data == "mnist":
        X, y, *_ = images(options, "mnist")
        rows = np.random.default_rng(draw).permutation(len(y))[:MNIST_ROWS]
        X, y = X[rows], y[rows]
    else:
        X, y, *_ = features(options)
    if noise in HUMAN:
        with np.load(path_of(options, "cifar10n_labels.npz")) as arrays:
            return X, arrays[HUMAN[noise]].astype(np.int64), y
    return X, corrupt(y, DRAWN[noise], random_state=draw), y


def run(options: argparse.Namespace, data: str, noise: str, draw: int) -> None:
    """Run what is missing in the record of (data, noise, draw)."""
    path = record_path(options, data, noise, draw)
    record = json.loads(path.read_text()) if path.exists() else {"data": data, "noise": noise, "draw": draw}
    done = record.setdefault("methods", {})
    absent = {name for module, names in NEEDS.items() if find_spec(module) is None for name in names}
    missing = [name for name in options.methods if name not in done and name not in absent]
    if not missing:
        return
    X, noisy, y = load(options, data, noise, draw)
    wrong = noisy != y
    record["samples"], record["wrong"] = len(y), int(wrong.sum())
    task = Task(X, noisy, draw)
    for name in missing:
        start = time.process_time()
        # The first method that reads probabilities also makes them; do not count their time twice.
        before = set(vars(task))
        scores, flagged, spent, total = METHODS[name](task)
        elapsed = time.process_time() - start + (0.0 if set(vars(task)) - before else spent)
        done[name] = {
            "average_precision": float(average_precision_score(wrong, scores)),
            "seconds": elapsed,
            "flagged": int(flagged.sum()),
            "precision": float(wrong[flagged].mean()) if flagged.any() else None,
            "recall": float(flagged[wrong].mean()),
            "estimated_errors": total,
        }
        write_whole(path, json.dumps(record, indent=1) + "\n")
        print(
            f"{data}, {noise}, draw {draw}, {name}: {done[name]['average_precision']:.4f}, {elapsed:.1f} s", flush=True
        )


def record_path(options: argparse.Namespace, data: str, noise: str, draw: int) -> Path:
    return options.records / f"{data}-{noise.replace(' ', '-')}-{draw}.json".lower()


def draws_of(options: argparse.Namespace, noise: str) -> range:
    return range(1 if noise in HUMAN else options.draws)  # people answered once


def records(options: argparse.Namespace, data: str, noise: str) -> list[dict[str, Any]]:
    paths = [record_path(options, data, noise, draw) for draw in draws_of(options, noise)]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def mean(found: list[dict[str, Any]], name: str, key: str) -> float | None:
    values = [r["methods"][name][key] for r in found if name in r["methods"]]
    return float(np.mean(values)) if values and None not in values else None


def write(options: argparse.Namespace) -> None:
    report = Report("Finding wrong labels", "python benchmarks/audit.py", options)
    report.say(
        "Average precision of ranking the wrong labels first, mean over draws of noise and folds (CIFAR-10N: one), "
        f"best of each column in bold. {FOLDS} folds, the same for all methods; CleanLearning and `--model logistic`, "
        "which is comparable to it, make their own; *VolMin (default)* was the default of an earlier version. "
        "cleanlab reads the out-of-fold probabilities of scikit-learn's "
        "logistic regression; *on VolMin's p*: it reads the probabilities of the clean label that `--model logistic` "
        "starts from. `find_label_issues` and `CleanLearning` flag labels: the flagged labels come first, then the "
        "others, both ordered by label quality. `seconds`: processor time on one core, median of single runs, "
        "including the out-of-fold probabilities.\n"
    )
    rows = []
    for data, noises in DATA.items():
        found = {noise: records(options, data, noise) for noise in noises}
        found = {noise: each for noise, each in found.items() if each}
        names = [name for name in METHODS if any(name in r["methods"] for each in found.values() for r in each)]
        if not names:
            continue
        some = next(iter(found.values()))
        report.say(f"## {data}, {some[0]['samples']:,} samples, {max(map(len, found.values()))} draw(s)\n")
        ap = {(name, n): mean(found[n], name, "average_precision") for name in names for n in found}
        best = {n: max(v for (_, m), v in ap.items() if m == n and v is not None) for n in found}

        def cell(name: str, noise: str, ap: dict[Any, Any] = ap, best: dict[str, float] = best) -> str:
            value = ap[name, noise]
            if value is None:
                return "-"
            return f"**{value:.4f}**" if round(value, 4) == round(best[noise], 4) else f"{value:.4f}"

        lines = []
        for name in names:
            times = [r["methods"][name]["seconds"] for each in found.values() for r in each if name in r["methods"]]
            lines.append([name, *(cell(name, n) for n in found), f"{np.median(times):.3g}"])
        rivals = [name for name in names if "cleanlab" in name and "VolMin" not in name]
        others = {n: [ap[name, n] for name in rivals if ap[name, n] is not None] for n in found}
        leads = {n: (ap.get((next(iter(METHODS)), n)), max(others[n], default=None)) for n in found}
        lines.append(
            [
                "*--model logistic, lead over cleanlab's best on logistic regression*",
                *(_lead(*leads[n]) for n in found),
                "",
            ]
        )
        if data == "cifar10-features":
            lines.append(["*goal*", *(f"{GOAL[n]:.3f}" for n in found), ""])
        report.table(["scores", *found, "seconds"], lines)
        if absent := [noise for noise in noises if noise not in found]:
            report.say(f"Not run yet: {', '.join(absent)}; and everything marked with -.\n")
        truth = [f"{np.mean([r['wrong'] for r in each]):,.0f}" for each in found.values()]
        estimates = [name for name in names if any(mean(each, name, "estimated_errors") for each in found.values())]
        report.say("Number of wrong labels, estimated by the sum of the scores:\n")
        report.table(
            ["", *found],
            [["*truth*", *truth]]
            + [
                [name, *(_count(mean(each, name, "estimated_errors")) for each in found.values())] for name in estimates
            ],
        )
        report.say("Precision / recall of the labels called wrong:\n")
        report.table(
            ["", *found],
            [
                [name, *(_pair(mean(e, name, "precision"), mean(e, name, "recall")) for e in found.values())]
                for name in names
            ],
        )
        for name in names:
            for noise, each in found.items():
                runs = sum(name in r["methods"] for r in each)
                if runs:
                    values = [mean(each, name, key) for key in KEYS]
                    rows.append([data, noise, name, runs, *("" if v is None else f"{v:.4f}" for v in values)])
    report.close()
    if options.out:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["data", "noise", "scores", "draws", *KEYS])
        writer.writerows(rows)
        write_whole(options.out.with_suffix(".csv"), text.getvalue())


def _lead(value: float | None, other: float | None) -> str:
    return "-" if value is None or other is None else f"{value - other:+.4f}"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _pair(precision: float | None, recall: float | None) -> str:
    return "-" if precision is None or recall is None else f"{precision:.3f} / {recall:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("UNFLIP_DATA"), help="default: UNFLIP_DATA")
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file and a CSV next to it")
    parser.add_argument("--records", type=Path, default=RESULTS / "audit")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA))
    parser.add_argument("--noise", nargs="*", choices=NOISE, default=list(NOISE))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=DEFAULT, help="default: all without networks")
    options = parser.parse_args()
    for data in options.data:
        for noise in [n for n in DATA[data] if n in options.noise]:
            for draw in draws_of(options, noise):
                run(options, data, noise, draw)
    write(options)


if __name__ == "__main__":
    main()
