"""Accuracy by epoch as the paper draws it, and T as a heat map with class names."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unflip._validation import FloatArray, check_transition
from unflip.bench.experiment import Figure
from unflip.report.results import Results, noise_title

try:
    from matplotlib import style
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap, to_rgba
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("figures need matplotlib: pip install 'unflip[report]'") from error

# Curves with the same dashes differ enough in color for every kind of color vision, as a test measures.
COLORS = (
    *("#8a929b", "#43a6fd", "#0f7a55", "#22cde8", "#c55fae", "#3b1391"),
    *("#7a3b12", "#7fb23a", "#e69f00", "#d1372f", "#000000"),
)
PLAIN, DASHED = ("solid", (0, (1, 1.4))), ((0, (5, 1.2)), (0, (5, 1.2, 1, 1.2)))  # in the first round, and after it
LOOKS = [(color, DASHED if place in (2, 3, 4, 6, 7) else PLAIN) for place, color in enumerate(COLORS)]
INK, PALE, GRID = "#1f2933", "#616e7c", "#e4e7eb"
STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a title is text
    "axes.labelcolor": INK,
    "axes.edgecolor": "#9aa5b1",
    "xtick.color": PALE,
    "ytick.color": PALE,
    "svg.hashsalt": "unflip",  # otherwise the identifiers in an SVG are random
}
WIDTH, PANEL, HEAD, FOOT, LINE = 9.0, 2.7, 0.86, 0.53, 0.22  # inches
LEFT, RIGHT = 0.065, 0.985  # of the width
LEGEND_COLUMNS = 4
FLIPPED = LinearSegmentedColormap.from_list("flipped", ["#f7f6f2", "#0b6e75"])  # the colors of the page
KEPT = "#cfcfcf"
LARGEST_WRITTEN = 20  # classes up to which each cell shows its number
SMALLEST_WRITTEN = 0.005  # smaller numbers, which would be written as 0, are left out
LARGEST_NAMED = 60  # classes up to which each one is named
LONGEST_NAME = 18  # characters
CELL, MARGIN = 0.5, 1.6  # inches


def draw_curves(results: Results, figure: Figure) -> Drawing:
    """Return the mean curves of a figure, shaded by the deviation over trials, in one panel per noise that has any."""
    panels = results.panels(figure)
    methods = [method for method in results.methods if any(method in shown for shown in panels.values())]
    legend_lines = -(-len(methods) // LEGEND_COLUMNS)
    panel_width = WIDTH * (RIGHT - LEFT) / len(panels)
    height = HEAD + PANEL + FOOT + LINE * legend_lines
    with style.context(["default", STYLE]):
        drawing = Drawing(figsize=(WIDTH, height), dpi=200)
        axes = drawing.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        drawing.subplots_adjust(
            left=LEFT, right=RIGHT, top=1 - HEAD / height, bottom=(FOOT + LINE * legend_lines) / height, wspace=0.1
        )
        for ax, (noise, shown) in zip(axes, panels.items(), strict=True):
            for method in shown:
                _draw_method(ax, results, (figure.dataset, noise, method))
            _dress(ax, noise_title(noise))
        axes[0].set_ylabel("test accuracy, %")
        axes[0].yaxis.set_label_coords(-0.37 / panel_width, 0.5)
        limits = _limits([results.cells[figure.dataset, n, m].curves for n in panels for m in panels[n]])
        axes[0].set_ylim(limits)
        for ax, (noise, shown) in zip(axes, panels.items(), strict=True):
            _label_cut_curves(ax, results, [(figure.dataset, noise, method) for method in shown], limits[0])
        drawing.text(LEFT, 1 - 0.14 / height, figure.title, va="top", fontsize=12.5, fontweight="bold")
        drawing.text(LEFT, 1 - 0.40 / height, _subtitle(results, figure, panels), va="top", fontsize=8.5, color=PALE)
        handles = [_handle(results, figure, method, panels) for method in methods]
        place, columns = ((LEFT + RIGHT) / 2, 0.03 / height), min(LEGEND_COLUMNS, len(methods))
        look = {"frameon": False, "handlelength": 2.2, "columnspacing": 1.8}
        drawing.legend(handles=handles, loc="lower center", bbox_to_anchor=place, ncols=columns, **look)
    return drawing


def picture(drawing: Drawing, kind: str) -> bytes:
    """Return a drawing as "svg" or "png", without the time and the version of the program that drew it."""
    file = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with style.context(["default", STYLE]):
        drawing.savefig(file, format=kind, metadata=metadata, facecolor="white")
    return file.getvalue()


def draw_transition(transition: ArrayLike, classes: Sequence[str]) -> Drawing:
    """Return the drawing of T[i, j] = P(noisy = j | clean = i).

    Flips are shaded up to the largest of them; labels that stayed are gray.
    """
    T = check_transition(transition, len(classes), invertible=False)
    side = min(max(CELL * len(T), 2.0), 10.0)
    flips = np.where(np.eye(len(T), dtype=bool), 0, T)
    largest = max(float(flips.max()), 1e-9)
    colors = FLIPPED(flips / largest)
    colors[np.diag_indices(len(T))] = to_rgba(KEPT)
    with style.context(["default", STYLE]):
        drawing = Drawing(figsize=(side + MARGIN, side + MARGIN), dpi=150, layout="constrained")
        ax = drawing.subplots()
        ax.imshow(colors)
        if len(T) <= LARGEST_WRITTEN:
            for i, j in np.ndindex(T.shape):
                if T[i, j] >= SMALLEST_WRITTEN:
                    color = "white" if flips[i, j] > 0.6 * largest else INK
                    ax.text(j, i, f"{100 * T[i, j]:.0f}", ha="center", va="center", fontsize=8, color=color)
        if len(T) <= LARGEST_NAMED:
            names = [_short(name) for name in classes]
            ax.set_xticks(range(len(T)), names, rotation=90 if max(map(len, names)) > 3 else 0)
            ax.set_yticks(range(len(T)), names)
        ax.tick_params(length=0, labelsize=8)
        ax.spines[:].set_visible(False)
        ax.set(xlabel="given label", ylabel="clean label")
        ax.set_title("P(given label | clean label), %", fontsize=10, color=PALE, loc="left")
    return drawing


def _draw_method(ax: Axes, results: Results, key: tuple[str, str, str]) -> None:
    curves = results.cells[key].curves
    epochs, mean = np.arange(1, curves.shape[1] + 1), curves.mean(axis=0)
    look = _look(results, key[2])
    if len(curves) > 1:
        deviation = curves.std(axis=0)
        ax.fill_between(epochs, mean - deviation, mean + deviation, color=look["color"], alpha=0.18, linewidth=0)
    name = f"curve-{key[1]}-{key[2]}".replace(" ", "-")
    ax.plot(epochs, mean, label=results.experiment.methods[key[2]].title, gid=name, **look)


def _look(results: Results, method: str) -> dict[str, Any]:
    """Return color and dashes by the method's place in the experiment, so that all its figures agree."""
    lap, place = divmod(list(results.experiment.methods).index(method), len(LOOKS))
    color, dashes = LOOKS[place]
    own = results.experiment.methods[method].settings["kind"] == "mcldce"
    weight = {"linewidth": 2.0, "zorder": 3} if own else {"linewidth": 1.3, "zorder": 2}
    return {"color": color, "linestyle": dashes[min(lap, 1)], "solid_capstyle": "round", **weight}


def _dress(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=9.5, loc="left", pad=5)
    ax.set_xlabel("epoch")
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=GRID, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, labelsize=8)
    ax.margins(x=0.02)


def _limits(found: list[FloatArray]) -> tuple[float, float]:
    """Return limits that leave out the first tenth of the epochs, whose climb would flatten the rest.

    A curve that collapses would flatten the others too: if the lowest 4 % of the points are far below, they are cut.
    """
    late = np.concatenate([curves.mean(axis=0)[-(-curves.shape[1] // 10) :] for curves in found])
    low, high = float(late.min()), float(late.max())
    most = float(np.percentile(late, 4))
    if most - low > (high - most) / 2:
        low = most
    room = 0.05 * max(high - low, 1.0)
    return max(low - room, 0.0), min(high + room, 100.5)


def _label_cut_curves(ax: Axes, results: Results, keys: list[tuple[str, str, str]], low: float) -> None:
    """Name the curves that end below the panel, and say where."""
    ends = {key[2]: float(results.cells[key].curves.mean(axis=0)[-1]) for key in keys}
    for line, method in enumerate(method for method, end in ends.items() if end < low):
        text = f"{results.experiment.methods[method].title}: {ends[method]:.0f} ↓"
        color = _look(results, method)["color"]
        ax.text(0.97, 0.03 + 0.07 * line, text, transform=ax.transAxes, ha="right", fontsize=7.5, color=color)


def _subtitle(results: Results, figure: Figure, panels: dict[str, list[str]]) -> str:
    cells = [results.cells[figure.dataset, noise, method] for noise, shown in panels.items() for method in shown]
    counts = sorted({result.trials for result in cells})
    planned = f" of {results.planned}" if counts[0] < results.planned else ""
    many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    text = f"mean of {many}{planned} trials, shade: deviation over trials"
    if counts == [1]:
        text = f"one{planned} trials" if planned else "one trial"
    marks = {mark for result in cells for mark in result.marks}
    text += f"; protocol {results.protocol}" + (", not the paper's" if "protocol" in marks else "")
    return text + ("; ‡ part of it or its T by another commit" if "commit" in marks else "")


def _handle(results: Results, figure: Figure, method: str, panels: dict[str, list[str]]) -> Line2D:
    mixed = any("commit" in results.cells[figure.dataset, n, method].marks for n in panels if method in panels[n])
    return Line2D([], [], label=results.experiment.methods[method].title + " ‡" * mixed, **_look(results, method))


def _short(name: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in name)
    return printable if len(printable) <= LONGEST_NAME else printable[: LONGEST_NAME - 1] + "…"
