"""Labels by people and by rules: how many are wrong, how well they are found, and how accurate the model is.

Nothing here is tuned while it runs, but the prior of the noise model (the constants at the top of
``unflip/transition/varying.py``) was chosen with the sets of people's labels in view; see the page that this writes.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _shared import Report
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unflip import VolMin
from unflip._base import predicted_codes
from unflip.audit import find_label_errors
from unflip.core.posterior import bayes
from unflip.corrected import fit_soft
from unflip.metrics import clean_accuracy
from unflip.noise import corrupt, pairflip, symmetric
from unflip.tables.text import fit_tfidf, tfidf
from unflip.transition.varying import fit_varying

RESULTS = Path(__file__).parent / "results"
PEOPLE = {
    "CIFAR-10N": ["aggregate", "random1"],
    "labelme": ["majority", "single 0", "single 1", "single 2"],
    "sentiment_mturk": ["majority", "single 0", "single 1"],
    "hatespeech_votes": ["single 0", "single 1"],
}
GOLD = {name: ["gold"] for name in PEOPLE}  # the same rows, none of which is labeled wrongly
RULES = {
    "wrench_youtube": ["majority"],
    "wrench_semeval": ["majority"],
    "wrench_trec": ["majority"],
    "hausa_news": [""],
}
DRAWN = {"digits": ["sym 20", "pair 20"], "CIFAR-10, 10,000 rows": ["sym 20", "pair 20", "sym 40"]}
TRAINED = {  # draws that classifiers learn from
    "labelme": ["majority", "single 0", "single 1", "single 2", "single 3"],
    "sentiment_mturk": ["majority", "single 0", "single 1", "single 2"],
    "hatespeech_votes": ["single 0", "single 1"],
    "CIFAR-10N": ["aggregate 0", "aggregate 1", "random1 0", "random1 1"],
}
CIFAR_ROWS, HATE_ROWS = 4_000, 13_000  # that are trained on
BINS = 8
STRENGTH = 100.0  # rows of the global T that are added to each class of a bin


def texts(values: Any) -> Any:
    return tfidf(list(values), fit_tfidf(list(values)))


def single(A: np.ndarray, draw: int) -> np.ndarray:
    """Return the label of one annotator per row, drawn at random; -1 marks missing labels."""
    random = np.random.default_rng(draw)
    return np.array([random.choice(row[row >= 0]) if (row >= 0).any() else -1 for row in A])


def load(folder: Path, name: str, kind: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return X, noisy labels and gold labels of the training rows, as codes."""
    if kind == "gold":
        X, _, gold = load(folder, name, PEOPLE[name][0])
        return X, gold, gold
    human, draw = folder / "suite" / "human", int(kind.split()[-1]) if kind.startswith("single") else 0
    if name.startswith("CIFAR"):
        with np.load(folder / "cifar10_features.npz") as arrays, np.load(folder / "cifar10n_labels.npz") as labels:
            X, gold = arrays["x_train"].astype(np.float32), labels["clean_label"].astype(int)
            if name == "CIFAR-10N":
                return X, labels["aggre_label" if kind == "aggregate" else "random_label1"].astype(int), gold
        rows = np.random.default_rng(0).permutation(len(X))[:10_000]
        X, gold = X[rows], gold[rows]
    elif name == "digits":
        X, gold = load_digits(return_X_y=True)
    elif name == "labelme":
        with np.load(human / "labelme.npz") as z:
            rows = z["split"] == 0
            noisy = z["noisy_mv_train"] if kind == "majority" else single(z["A_train"], draw)
            return z["X"][rows].astype(np.float64), noisy.astype(int), z["y"][rows].astype(int)
    else:
        frame = pd.read_csv(human / f"{name}.csv.gz", keep_default_na=False)
        if name == "hatespeech_votes":
            votes, random = frame[["v0", "v1", "v2"]].to_numpy(), np.random.default_rng(draw)
            noisy = np.array([random.choice(3, p=v / v.sum()) for v in votes])
            return texts(frame["text"]), noisy, frame["label"].to_numpy()
        keep = np.array(frame["split"] == "train")
        if name == "sentiment_mturk" and kind != "majority":
            A = np.load(human / "sentiment_mturk_annot.npz")["A"]
            return texts(frame["text"][keep]), single(A, draw), frame["label"].to_numpy()[keep]
        classes = np.unique(frame["label"].to_numpy().astype(str))
        keep &= np.isin(frame["noisy"].to_numpy().astype(str), classes)
        codes = [np.searchsorted(classes, frame[column].to_numpy().astype(str)[keep]) for column in ("noisy", "label")]
        return texts(frame["text"][keep]), codes[0], codes[1]
    c, (shape, rate) = int(gold.max()) + 1, kind.split()
    T = (symmetric if shape == "sym" else pairflip)(c, int(rate) / 100)
    return X, corrupt(gold, T, random_state=0), gold


def split(folder: Path, name: str, kind: str) -> tuple[Any, np.ndarray, np.ndarray, Any, np.ndarray]:
    """Return X, noisy and gold labels of the rows to train on, and X and gold labels of others to test on."""
    human = folder / "suite" / "human"
    if name == "CIFAR-10N":
        X, noisy, gold = load(folder, name, kind.split()[0])
        rows = np.random.default_rng(int(kind.split()[1])).permutation(len(X))[:CIFAR_ROWS]
        with np.load(folder / "cifar10_features.npz") as arrays:
            return X[rows], noisy[rows], gold[rows], arrays["x_test"].astype(np.float32), arrays["y_test"].astype(int)
    X, noisy, gold = load(folder, name, kind)
    if name == "labelme":
        with np.load(human / "labelme.npz") as z:
            rows = z["split"] != 0
            return X, noisy, gold, z["X"][rows].astype(np.float64), z["y"][rows].astype(int)
    frame = pd.read_csv(human / f"{name}.csv.gz", keep_default_na=False)
    if name == "hatespeech_votes":  # it has no test rows of its own
        order = np.random.default_rng(100).permutation(len(gold))
        train, test = order[:HATE_ROWS], order[HATE_ROWS:]
        noisy, gold = noisy[train], gold[train]
    else:
        train, test = (np.flatnonzero((frame["split"] == "train") == wanted) for wanted in (True, False))
    words = fit_tfidf(list(frame["text"].iloc[train]))
    X, X_test = (tfidf(list(frame["text"].iloc[rows]), words) for rows in (train, test))
    return X, noisy, gold, X_test, frame["label"].to_numpy().astype(int)[test]


def trained(folder: Path, name: str, kind: str) -> dict[str, Any]:
    """Return the test accuracy of logistic regression on labels as they are, soft by one T, and by T(x)."""
    X, y, gold, X_test, gold_test = split(folder, name, kind)
    c = int(max(y.max(), gold.max())) + 1
    errors = find_label_errors(X, y, VolMin(guard=False), random_state=0)
    p, T = errors.proba, 0.9999 * errors.transition + 0.0001 / c
    soft = {"labels": np.eye(c)[y], "T": bayes(p, y, T), "T(x)": errors.noise.posterior(p, y), "gold": np.eye(c)[gold]}
    found: dict[str, Any] = {"rows": len(y), "wrong": float(np.mean(y != gold)), "slope": errors.noise.slope}
    for key, R in soft.items():
        dense = isinstance(X, np.ndarray)
        model = LogisticRegression(C=0.01 if dense else 3.0, max_iter=300)
        fitted = fit_soft(make_pipeline(StandardScaler(), model) if dense else model, X, y, R, None)
        right = predicted_codes(fitted, X_test, c).argmax(axis=1) == gold_test
        loss = -float(np.mean(np.log(np.maximum(R[np.arange(len(gold)), gold], 1e-3))))
        found[key] = {"accuracy": float(right.mean()), "loss": loss, "right": np.packbits(right).tobytes().hex()}
    return found


def binned(p: np.ndarray, y: np.ndarray, T: np.ndarray, bins: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return P(noisy = j | x, clean = k) of each row, by EM in each bin on the rows seen, drawn to the global T."""
    c, local = len(T), np.empty((len(y), len(T), len(T)))
    for b in np.unique(bins):
        rows, own = np.flatnonzero((bins == b) & seen), T
        for _ in range(30):
            R = bayes(p[rows], y[rows], own)
            N = np.stack([np.bincount(y[rows], R[:, k], minlength=c) for k in range(c)]) + STRENGTH * T
            own = N / N.sum(axis=1, keepdims=True)
        local[bins == b] = own
    return local


def compare(X: Any, y: np.ndarray, p: np.ndarray, T: np.ndarray) -> dict[str, dict[str, float]]:
    """Return the held-out log-likelihood per label and the expected share of wrong labels of each noise model."""
    n, c = p.shape
    rows = np.random.default_rng(0).permutation(n)[:6_000]
    p, y, n = p[rows], y[rows], len(rows)
    T = 0.999 * T + 0.001 / c
    margin = np.sort(p, axis=1)
    bins = {
        "margin bins": np.searchsorted(np.quantile(m := margin[:, -1] - margin[:, -2], np.arange(1, BINS) / BINS), m)
    }
    Z = X[rows] if isinstance(X, np.ndarray) else TruncatedSVD(20, random_state=0).fit_transform(X[rows])
    bins["neighborhoods"] = KMeans(BINS, n_init=1, random_state=0).fit(Z).labels_
    half = np.random.default_rng(1).integers(0, 2, n).astype(bool)
    found: dict[str, dict[str, float]] = {}

    def add(name: str, joint: np.ndarray, test: np.ndarray) -> None:
        one = found.setdefault(name, {"log-likelihood": 0.0, "share": 0.0})
        q = np.maximum(joint.sum(axis=1), 1e-12)
        one["log-likelihood"] += float(np.log(q).sum()) / n
        one["share"] += float(np.sum(1 - joint[np.arange(len(joint)), y[test]] / q)) / n

    for test in (half, ~half):
        add("one T", p[test] * T.T[y[test]], test)
        for name, b in bins.items():
            local = binned(p, y, T, b, ~test)[test]
            add(name, p[test] * local[np.arange(test.sum()), :, y[test]], test)
        noise = fit_varying(p[~test], y[~test], T)
        add("resemblance", noise.joint(p[test], y[test]), test)
    return found


def measure(folder: Path, name: str, kind: str, model: str, models: Any = None) -> dict[str, Any]:
    X, y, gold = load(folder, name, kind)
    start, wrong, rows = time.process_time(), y != gold, np.arange(len(y))
    errors = find_label_errors(X, y, VolMin(guard=False) if model == "logistic" else None, random_state=0)
    seconds = time.process_time() - start
    T, p = errors.transition, errors.proba
    before = 1 - bayes(p, y, 0.9999 * T + 0.0001 / len(T))[rows, y]
    predicted = p.argmax(axis=1)
    score = clean_accuracy(y, predicted, T, classes=np.arange(len(T)), transition_std=errors.transition_std)
    noise = errors.noise
    record = {
        "rows": len(y),
        "wrong": int(wrong.sum()),
        "before": float(before.sum()),
        "count": errors.total,
        "low": errors.interval[0],
        "high": errors.interval[1],
        "suspected": errors.suspected,
        "ap_before": float(average_precision_score(wrong, before)) if wrong.any() else None,
        "ap": float(average_precision_score(wrong, errors.scores)) if wrong.any() else None,
        "slope": None if noise is None else noise.slope,
        "evidence": None if noise is None else noise.evidence,
        "accuracy": float(np.mean(predicted == gold)),
        "by_T": [score.estimate, score.low, score.high],
        "by_both": list(errors.accuracy()[:3]),
        "by_posterior": float(errors.posterior[rows, predicted].mean()),
        "notes": errors.notes,
        "seconds": seconds,
    }
    compared = model == "logistic" and kind != "gold"
    return record | ({"models": models or compare(X, y, p, T)} if compared else {})


def known_errors(folder: Path, name: str) -> dict[str, Any]:
    """Return how early each score finds the labels that the crowd rejected (fewer than 3 of 5 votes), if judged."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    with np.load(folder / "suite" / "human" / f"labelerrors_{name}.npz") as z:
        proba, y, rows, votes = z["pred_probs"].astype(float), z["y_given"].astype(int), z["reviewed"], z["votes"]
    proba /= proba.sum(axis=1, keepdims=True)
    rejected = votes[:, 0] < 3
    scores = {"unflip": find_label_errors(y=y, pred_probs=proba, random_state=0).scores}
    for method in ("self_confidence", "normalized_margin", "confidence_weighted_entropy"):
        scores[f"cleanlab, {method}"] = 1 - get_label_quality_scores(y, proba, method=method)
    for by in ("prune_by_noise_rate", "prune_by_class", "both", "confident_learning", "predicted_neq_given"):
        flagged = find_label_issues(y, proba, filter_by=by, n_jobs=1)
        scores[f"cleanlab, find_label_issues, {by}"] = 10.0 * flagged + scores["cleanlab, self_confidence"]
    found = {}
    for method, score in scores.items():
        order = np.argsort(-score[rows], kind="stable")
        hits = {str(k): float(rejected[order[:k]].mean()) for k in (10, 15, 25, 50, 100, 200, 400) if k < len(rows)}
        ap, rank = float(average_precision_score(rejected, score[rows])), float(np.flatnonzero(rejected[order]).mean())
        found[method] = {"ap": ap, "rank": 1 + rank, "hits": hits}
    return {"judged": len(rows), "rejected": int(rejected.sum()), "scores": found}


def write(options: argparse.Namespace, found: dict[str, Any]) -> None:
    report = Report("Labels by people and by rules", "python benchmarks/human_noise.py", options)
    report.say(
        "`before`: the count by one T for all samples, on the same posteriors; `count`: with noise that depends on the "
        "sample, which `find_label_errors` uses unless the labels contradict it (`slope` 0); `none, or` a number: the "
        "labels cannot tell noise from overlap, so that there is no count, but this one if people made them who err as "
        "in the four sets below, and a range that reaches up to sum(1 - q_given). AP: average precision. "
        "CIFAR-10N has 50,000 rows; one draw each. The tables of `auto` are made by `--models auto --only labelme "
        "sentiment_mturk hatespeech_votes`.\n\n**The prior of the noise model was chosen with the gold labels "
        "of the sets that people labeled in view**: several functional forms and about 30 settings of its constants "
        "were compared, on `logistic`, with CIFAR-10N aggregate and random1, labelme majority and single 0, "
        "sentiment_mturk majority and single 0, and hatespeech_votes single 0. The last of them, the expected "
        "sharpness, was set so that the mean of log(count / wrong) over these four sets is about zero. So these counts "
        "show how well one setting fits four sets, not what to expect on a fifth. The other draws were not looked at "
        "before, but they are of the same rows.\n"
    )
    groups = {"People": PEOPLE, "Rules and distant supervision": RULES, "Drawn class-conditional noise": DRAWN}
    for model in ("logistic", "auto"):
        for title, sets in groups.items():
            keys = [f"{model}/{name}/{kind}" for name, kinds in sets.items() for kind in kinds]
            records = {key.split("/", 1)[1]: found[key] for key in keys if "by_both" in found.get(key, {})}
            if not records:
                continue
            report.say(f"## {title}, `--model {model}`\n")
            rows = []
            for name, r in records.items():
                off, inside = r["count"] / r["wrong"] - 1, r["low"] <= r["wrong"] <= r["high"]
                unsure = r.get("suspected") is not None
                told = f"none, or {r['suspected']:,.0f}" if unsure else f"{r['count']:,.0f}"
                row = [name, f"{r['rows']:,}", f"{r['wrong']:,}", f"{r['before']:,.0f}", told]
                row += ["" if unsure else f"{off:+.0%}", f"{r['low']:,.0f} to {r['high']:,.0f}"]
                row += ["yes" if inside else "no"]
                row += [f"{r['ap_before']:.4f}", f"{r['ap']:.4f}", f"{r['slope']:.2f}", f"{r['seconds']:.0f}"]
                rows.append(row)
            header = ["set", "rows", "wrong", "before", "count", "off by", "90 % interval", "covers", "AP before", "AP"]
            report.table([*header, "slope", "seconds"], rows)
            counted = [r for r in records.values() if r.get("suspected") is None]
            near = sum(abs(r["count"] / r["wrong"] - 1) <= 0.15 for r in counted)
            covered = sum(r["low"] <= r["wrong"] <= r["high"] for r in records.values())
            report.say(
                f"Within 15 %: {near} of the {len(counted)} that got a count; the interval covers {covered} of "
                f"{len(records)}.\n"
            )
            report.say("Accuracy of the model that judged, on rows that it did not see:\n")
            accuracies = []
            for name, r in records.items():
                truth, row = r["accuracy"], [name, f"{r['accuracy']:.3f}", f"{r['by_T'][0]:.3f}"]
                for _, low, high in (r["by_T"], r["by_both"]):
                    row += [f"{low:.3f} to {high:.3f}", "yes" if low <= truth <= high else "no"]
                accuracies.append([*row, f"{r['by_posterior']:.3f}"])
            header = ["set", "truth", "estimate", "95 % interval by T", "covers", "and by noise that varies", "covers"]
            report.table([*header, "mean posterior of the prediction"], accuracies)
            inside = [
                sum(r[by][1] <= r["accuracy"] <= r[by][2] for r in records.values()) for by in ("by_T", "by_both")
            ]
            report.say(
                f"The interval of `clean_accuracy` covers {inside[0]} of {len(records)}, that of "
                f"`LabelErrors.accuracy()` {inside[1]}.\n"
            )
            if model == "logistic":
                names = list(next(iter(records.values()))["models"])
                report.say(
                    "Noise models: log-likelihood of held-out labels; wrong labels / truth (up to 6,000 rows):\n"
                )
                report.table(
                    ["set", *names],
                    [
                        [name]
                        + [
                            f"{m['log-likelihood']:.4f}; {m['share'] * r['rows'] / r['wrong']:.2f}"
                            for m in r["models"].values()
                        ]
                        for name, r in records.items()
                    ],
                )
            for name, r in records.items():
                for note in r["notes"]:
                    report.say(f"- {name}: {note}")
            report.say("")
    write_gold(report, found)
    write_trained(report, found)
    for name in ("mnist", "imdb"):
        if (r := found.get(f"known/{name}")) is None:
            continue
        report.say(
            f"## Known label errors: labelerrors_{name}\n\nOf {r['judged']:,} judged rows the crowd rejected the label "
            f"of {r['rejected']:,}. Average precision, and precision among the first k judged rows:\n"
        )
        ks = list(r["scores"]["unflip"]["hits"])
        rows = [
            [m, f"{s['ap']:.4f}", f"{s['rank']:.1f}", *(f"{s['hits'][k]:.3f}" for k in ks)]
            for m, s in r["scores"].items()
        ]
        report.table(["scores", "AP", "mean rank", *(f"first {k}" for k in ks)], rows)
    report.close()


def write_gold(report: Report, found: dict[str, Any]) -> None:
    """Write how many labels are taken for wrong where none is."""
    keys = [f"{model}/{name}/gold" for model in ("logistic", "auto") for name in GOLD]
    records = {key: found[key] for key in keys if key in found}
    if not records:
        return
    report.say("## The same rows with their gold labels, of which none is wrong\n")
    rows = []
    for key, r in records.items():
        model, name, _ = key.split("/")
        told = f"{r['count']:,.0f}" if r["suspected"] is None else f"none, or {r['suspected']:,.0f}"
        rows.append([model, name, f"{r['rows']:,}", told, f"{r['low']:,.0f} to {r['high']:,.0f}"])
    report.table(["model", "set", "rows", "count", "90 % interval"], rows)
    report.say("")


def write_trained(report: Report, found: dict[str, Any]) -> None:
    """Write the accuracies of classifiers that learned through one T and through T(x)."""
    cells = {f"{name}/{kind}": found.get(f"trained/{name}/{kind}") for name, kinds in TRAINED.items() for kind in kinds}
    records = {key: r for key, r in cells.items() if r is not None}
    if not records:
        return
    report.say(
        "## A classifier through noise that depends on the sample\n\nAccuracy on gold labels of test rows, in percent, "
        "of logistic regression trained on the labels as they are, on P(clean | x, noisy) by one T and by "
        "`VaryingNoise`, T(x), and on gold labels. p(x) is VolMin's, out of fold. CIFAR-10N: "
        f"{CIFAR_ROWS:,} rows; hatespeech_votes: {HATE_ROWS:,}, tested on the others. In brackets, the log loss of "
        "the gold labels of the rows that were trained on; then how many test rows only T(x), and only T, gets right.\n"
    )
    rows, leads = [], []
    for name, r in records.items():
        right = [
            np.unpackbits(np.frombuffer(bytes.fromhex(r[k]["right"]), np.uint8)).astype(bool) for k in ("T(x)", "T")
        ]
        ahead, behind = int(np.sum(right[0] & ~right[1])), int(np.sum(right[1] & ~right[0]))
        leads.append(100 * (r["T(x)"]["accuracy"] - r["T"]["accuracy"]))
        row = [
            name,
            f"{r['wrong']:.1%}",
            *(f"{100 * r[k]['accuracy']:.2f} ({r[k]['loss']:.2f})" for k in ("labels", "T")),
        ]
        row += [f"{100 * r['T(x)']['accuracy']:.2f} ({r['T(x)']['loss']:.2f})", f"{100 * r['gold']['accuracy']:.2f}"]
        rows.append([*row, f"{ahead} : {behind}", f"{leads[-1]:+.2f}"])
    report.table(["draw", "wrong", "labels", "T", "T(x)", "gold", "only T(x) : only T", "T(x) - T"], rows)
    error = np.std(leads, ddof=1) / np.sqrt(len(leads)) if len(leads) > 1 else np.nan
    report.say(
        f"T(x) - T: {np.mean(leads):+.2f} points on average (standard error {error:.2f} over draws, which share "
        f"rows), at least as accurate in {sum(lead >= 0 for lead in leads)} of {len(leads)}.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("UNFLIP_DATA"), help="default: UNFLIP_DATA")
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    parser.add_argument("--records", type=Path, default=RESULTS / "human_noise.json")
    parser.add_argument("--models", nargs="*", choices=["logistic", "auto"], default=["logistic"])
    parser.add_argument("--only", nargs="*", help="names of sets; default: all")
    options = parser.parse_args()
    found = json.loads(options.records.read_text()) if options.records.exists() else {}
    for model in options.models:
        for sets in (PEOPLE, DRAWN, RULES, GOLD):
            for name, kinds in sets.items():
                for kind in kinds:
                    key = f"{model}/{name}/{kind}"
                    known = found.get(key, {})
                    if "by_both" in known or (options.only and name not in options.only):
                        continue
                    found[key] = measure(Path(options.data_dir), name, kind, model, known.get("models"))
                    options.records.write_text(json.dumps(found, indent=1) + "\n")
    for name, kinds in TRAINED.items():
        for kind in kinds:
            key = f"trained/{name}/{kind}"
            if key not in found and (not options.only or name in options.only):
                found[key] = trained(Path(options.data_dir), name, kind)
                options.records.write_text(json.dumps(found, indent=1) + "\n")
    for name in ("mnist", "imdb"):
        if "rank" not in found.get(f"known/{name}", {}).get("scores", {}).get("unflip", {}):
            found[f"known/{name}"] = known_errors(Path(options.data_dir), name)
            options.records.write_text(json.dumps(found, indent=1) + "\n")
    write(options, found)


if __name__ == "__main__":
    main()
