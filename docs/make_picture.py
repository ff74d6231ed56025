"""Draw docs/images/pair-noise.svg, the picture in the README: UNFLIP_DATA=... python docs/make_picture.py"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from _shared import arguments, features

mpl.use("Agg")
from matplotlib import pyplot as plt
from sklearn.linear_model import RidgeClassifier

from unflip.linear import MCLDCEClassifier
from unflip.noise import corrupt, pairflip

RATES = [0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45]
INK, GRAY, WARM, COOL = "#1f2933", "#9aa5b1", "#d9822b", "#1f6feb"

options = arguments(__doc__)
X, y, X_test, y_test = features(options)
ceiling = 100 * RidgeClassifier().fit(X, y).score(X_test, y_test)
curves: dict[str, list[float]] = {"ridge": [], "published": [], "exact": []}
for rate in RATES:
    noisy = corrupt(y, pairflip(10, rate), random_state=0)
    exact = MCLDCEClassifier().fit(X, noisy)
    published = MCLDCEClassifier(exact.transition_, operator="published").fit_sums(exact.sums_)
    ridge = RidgeClassifier().fit(X, noisy)
    for name, model in (("ridge", ridge), ("published", published), ("exact", exact)):
        curves[name].append(100 * float(np.mean(model.predict(X_test) == y_test)))
    if rate == 0.4:
        estimated = exact.transition_
    print(rate, {name: round(values[-1], 2) for name, values in curves.items()}, flush=True)

plt.rcParams.update({"font.family": "sans-serif", "font.size": 11, "text.color": INK, "axes.labelcolor": INK})
plt.rcParams.update({"svg.hashsalt": "unflip", "xtick.color": INK, "ytick.color": INK, "axes.edgecolor": GRAY})
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.9), width_ratios=[2.1, 1, 1], layout="constrained")
figure.set_facecolor("white")

x = 100 * np.array(RATES)
left.axhline(ceiling, color=GRAY, linestyle="--", linewidth=1)
left.text(0, ceiling + 0.4, "ridge on clean labels", color="#616e7c", fontsize=10)
for name, color, label in (
    ("ridge", GRAY, "ridge"),
    ("published", WARM, "MC-LDCE, published operator"),
    ("exact", COOL, "MC-LDCE, exact operator"),
):
    left.plot(x, curves[name], color=color, marker="o", markersize=5, linewidth=2.2, label=label)
left.set(xlabel="labels flipped to the next class, %", ylabel="test accuracy, %", ylim=(min(curves["ridge"]) - 3, 89))
left.set_title("CIFAR-10 features, 50,000 noisy labels, T estimated", fontsize=11.5, loc="left")
left.legend(frameon=False, loc="lower left")
left.spines[["top", "right"]].set_visible(False)
left.grid(axis="y", color="#e4e7eb", linewidth=0.8)

for axis, T, title in ((middle, pairflip(10, 0.4), "true T, 40 %"), (right, estimated, "T from noisy labels")):
    axis.imshow(T, cmap="Blues", vmin=0, vmax=0.8)
    axis.set_title(title, fontsize=11.5)
    axis.set(xlabel="noisy", xticks=range(0, 10, 3), yticks=range(0, 10, 3))
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
middle.set_ylabel("clean")

out = Path(__file__).parent / "images" / "pair-noise.svg"
out.parent.mkdir(exist_ok=True)
figure.savefig(out, metadata={"Date": None})
if options.out:  # a raster copy to look at
    figure.savefig(options.out, dpi=120)
