"""Draw the twenty most suspicious test labels of famous data sets, for label_errors.md.

    python docs/make_famous.py --data-dir DATA --cifar10 FOLDER     FOLDER: cifar-10-batches-bin, the binary files

MNIST is judged by the probabilities of the label-errors project (suite/human/labelerrors_mnist.npz), CIFAR-10 and
Banking77 by logistic regression that was trained on their training rows.
"""

import argparse
import gzip
import os
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unflip.audit import find_label_errors
from unflip.tables.text import fit_tfidf, tfidf

mpl.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).parent
CIFAR = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FIRST = 20


def suspects(y: np.ndarray, proba: np.ndarray) -> list[tuple[int, object, object]]:
    """Return the row, the label and the likeliest other label of the labels that are most probably wrong."""
    found = find_label_errors(y=y, pred_probs=proba, random_state=0)
    other = np.where(found.classes == y[:, np.newaxis], -1, found.posterior).argmax(axis=1)
    return [(int(i), y[i], found.classes[other[i]]) for i in found.ranked[:FIRST]]


def sheet(name: str, pictures: np.ndarray, rows: list[tuple[int, object, object]]) -> None:
    figure, axes = plt.subplots(2, 10, figsize=(10, 2.7), dpi=80)
    for ax, (i, given, other) in zip(axes.ravel(), rows, strict=True):
        ax.imshow(pictures[i], cmap="gray_r" if pictures[i].ndim == 2 else None)
        ax.set_title(f"#{i}\n{given}: {other}?", fontsize=7)
        ax.axis("off")
    figure.tight_layout(pad=0.3)
    figure.savefig(DOCS / "images" / f"suspects_{name}.png")


def mnist(data: Path) -> None:
    with np.load(data / "suite" / "human" / "labelerrors_mnist.npz") as z:
        y, proba = z["y_given"].astype(int), z["pred_probs"].astype(float)
    raw = gzip.decompress((data / "mnist" / "t10k-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((data / "mnist" / "t10k-labels-idx1-ubyte.gz").read_bytes())
    if not np.array_equal(np.frombuffer(labels, np.uint8, offset=8), y):
        raise ValueError("the labels of labelerrors_mnist.npz are not in the order of the official test set")
    rows = suspects(y, proba / proba.sum(axis=1, keepdims=True))
    sheet("mnist", np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 28, 28), rows)


def cifar10(data: Path, folder: Path) -> None:
    with np.load(data / "cifar10_features.npz") as z:
        X, y, X_test, y_test = (z[name].astype(np.float32) for name in ("x_train", "y_train", "x_test", "y_test"))
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=60)).fit(X, y.astype(int))
    raw = np.frombuffer((folder / "test_batch.bin").read_bytes(), np.uint8).reshape(-1, 3073)
    if not np.array_equal(raw[:, 0], y_test.astype(int)):
        raise ValueError("the features are not in the order of the official test set")
    rows = suspects(y_test.astype(int), model.predict_proba(X_test))
    named = [(i, CIFAR[int(a)], CIFAR[int(b)]) for i, a, b in rows]  # type: ignore[call-overload]
    sheet("cifar10", raw[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), named)


def banking77(data: Path) -> None:
    frame = pd.read_csv(data / "suite" / "text" / "banking77.csv.gz", keep_default_na=False)
    train, test = frame[frame["split"] == "train"], frame[frame["split"] == "test"]
    state = fit_tfidf(list(train["text"]))
    model = LogisticRegression(C=10.0, max_iter=60).fit(tfidf(list(train["text"]), state), train["label"])
    proba, texts = model.predict_proba(tfidf(list(test["text"]), state)), test["text"].to_list()
    lines = ["| row | text | label | more likely |", "| --- | --- | --- | --- |"]
    for i, given, other in suspects(test["label"].to_numpy(), proba):
        text = " ".join(texts[i].split()).replace("|", "/")
        lines.append(f"| {i} | {text} | {given} | {other} |")
    page = DOCS / "label_errors.md"
    before, _, rest = page.read_text(encoding="utf-8").partition("<!-- banking77 -->\n")
    after = rest.partition("<!-- end -->")[2]
    page.write_text(f"{before}<!-- banking77 -->\n" + "\n".join(lines) + f"\n<!-- end -->{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("UNFLIP_DATA"))
    parser.add_argument("--cifar10", type=Path)
    options = parser.parse_args()
    mnist(Path(options.data_dir))
    if options.cifar10 is not None:
        cifar10(Path(options.data_dir), options.cifar10)
    banking77(Path(options.data_dir))


if __name__ == "__main__":
    main()
