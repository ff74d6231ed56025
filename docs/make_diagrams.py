"""Draw docs/images/path.svg and docs/images/layers.svg for docs/architecture.md: python docs/make_diagrams.py

``--png FOLDER`` also writes PNG copies to look at.
"""

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

IMAGES = Path(__file__).parent / "images"
INK, GRAY, BLUE, PALE = "#1f2933", "#616e7c", "#1f6feb", "#eef4fd"

# Each step of the path: its name, what it computes, and the files that hold it.
PATH = [
    ("data", "X and noisy labels y", "tables/read.py (your files)\ndatasets/ (the paper's)"),
    ("noise", "T of the usual noise models\n(experiments only)", "noise.py"),
    ("T", "T[i, j] = P(noisy j | clean i)\nestimated from X and y", "transition/\none estimator per file"),
    ("prior", "clean_prior\nnoisy prior = T' prior", "core/ldce.py"),
    ("centroid", "clean_centroid\nmu_clean = mu_noisy M^+", "core/sums.py\ncore/ldce.py"),
    ("risk", "1 + mean |h|^2 - 2 tr(W' mu)\nper sample |M'h - e_y|^2", "core/ldce.py\ndeep/losses.py"),
    ("model", "fit, predict, predict_proba", "corrected.py, linear/\nand deep/methods/"),
    ("evaluate", "clean_accuracy, clean_scorer\nfind_label_errors", "metrics.py\naudit/"),
    ("report", "a page, a model card,\ntables and figures", "page/ and models/\nreport/"),
]

# Each layer from top to bottom: its parts, and what they are for. A part imports only parts below it.
LAYERS = [
    ("cli", "one file per command: options in, printing out"),
    ("commands", "what each command does, as functions that return values"),
    ("report  page", "tables and figures from records; the HTML page"),
    ("bench", "experiments: cells, records, schedule"),
    ("audit", "which labels are probably wrong"),
    ("linear  corrected", "linear methods, one per file; any model through T"),
    ("transition", "estimators of T, one per file"),
    ("deep  metrics", "networks, losses, methods, trainer; scores from noisy labels"),
    ("tables", "one reader for files of any size; preprocessing; TableClassifier"),
    ("_base", "shared base of the estimators"),
    ("models", "save, load, checks, card"),
    ("core  noise  datasets", "pure functions on arrays; noise models; the paper's data sets"),
    ("registry  _validation  _output", "the one list of methods; the conventions; writing files atomically"),
]


def box(axis: plt.Axes, x: float, y: float, width: float, height: float, color: str = PALE) -> None:
    style = "round,pad=0,rounding_size=0.06"
    axis.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=color, edgecolor=BLUE, linewidth=1.2)
    )


def arrow(axis: plt.Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": GRAY, "linewidth": 1.4, "mutation_scale": 14}
    )


def draw_path() -> plt.Figure:
    figure, axis = empty(13.4, 4.0)
    width, height, gap, columns = 2.4, 1.5, 0.3, 5
    for i, (name, what, files) in enumerate(PATH):
        row, column = divmod(i, columns)
        x, y = column * (width + gap), (1 - row) * (height + 0.75)
        box(axis, x, y, width, height)
        axis.text(x + 0.12, y + height - 0.12, name, weight="bold", fontsize=13, va="top", color=BLUE)
        axis.text(x + 0.12, y + height - 0.45, what, fontsize=9.5, va="top", linespacing=1.35)
        axis.text(x + 0.12, y + 0.1, files, fontsize=9.5, va="bottom", color=GRAY, linespacing=1.35, family="monospace")
        if column:
            arrow(axis, (x - gap, y + height / 2), (x, y + height / 2))
    # From the end of the first row to the start of the second.
    right, left, middle = columns * (width + gap) - gap - width / 2, width / 2, height + 0.375
    axis.plot([right, right, left], [height + 0.75, middle, middle], color=GRAY, linewidth=1.4)
    arrow(axis, (left, middle), (left, height))
    axis.set(xlim=(-0.05, columns * (width + gap) - gap + 0.05), ylim=(-0.05, 2 * height + 0.8))
    return figure


def draw_layers() -> plt.Figure:
    figure, axis = empty(10.6, 6.3)
    height, step, width = 0.36, 0.48, 4.1
    for depth, (parts, purpose) in enumerate(reversed(LAYERS)):
        y, names = depth * step, parts.split()
        start, share = 0.5, width / len(names)
        for name in names:
            box(axis, start, y, share - 0.06, height)
            axis.text(
                start + share / 2 - 0.03, y + height / 2 - 0.01, name, ha="center", va="center", family="monospace"
            )
            start += share
        axis.text(0.5 + width + 0.15, y + height / 2, purpose, va="center", color=GRAY, fontsize=10)
    arrow(axis, (0.22, step * len(LAYERS) - 0.12), (0.22, 0))
    axis.text(0.06, step * len(LAYERS) / 2, "imports", rotation=90, ha="center", va="center", color=GRAY)
    axis.set(xlim=(-0.1, 10.2), ylim=(-0.05, step * len(LAYERS)))
    return figure


def empty(width: float, height: float) -> tuple[plt.Figure, plt.Axes]:
    figure, axis = plt.subplots(figsize=(width, height), layout="constrained")
    figure.set_facecolor("white")
    axis.axis("off")
    return figure, axis


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--png", type=Path, metavar="FOLDER", help="also write PNG copies to this folder")
    folder = parser.parse_args().png
    plt.rcParams.update({"font.family": "sans-serif", "font.size": 11, "text.color": INK, "svg.hashsalt": "unflip"})
    for name, figure in (("path", draw_path()), ("layers", draw_layers())):
        figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
        if folder:
            figure.savefig(folder / f"{name}.png", dpi=90)


if __name__ == "__main__":
    main()
