"""What each operator does to a centroid: python benchmarks/operators.py --out benchmarks/results/operators.md"""

import numpy as np
from _shared import Report, arguments, images

from unflip.core import ClassSums, clean_centroid
from unflip.linear import MCLDCEClassifier
from unflip.metrics import centroid_error
from unflip.noise import corrupt, pairflip, symmetric

NOISES = {
    "sym 20": symmetric(10, 0.2),
    "sym 60": symmetric(10, 0.6),
    "pair 20": pairflip(10, 0.2),
    "pair 40": pairflip(10, 0.4),
    "pair 45": pairflip(10, 0.45),
}
DRAWS = 3

options = arguments(__doc__)
report = Report("The two operators on Fashion-MNIST", "python benchmarks/operators.py", options)
X, y, X_test, y_test = images(options, "fashion-mnist")
alpha = 1e-3 * len(y)
clean = ClassSums.of(X, y, 10)
ceiling = MCLDCEClassifier(np.eye(10), alpha=alpha).fit_sums(clean).score(X_test, y_test)
report.say(
    f"Raw pixels, 60,000 training images, true T, mean of {DRAWS} draws of the noise. Error: |mu_estimated - mu_clean| "
    "/ |mu_clean|. Accuracy: the linear classifier built from that centroid, in percent; clean labels: "
    f"{ceiling:.2%}.\n"
)
rows = []
for name, T in NOISES.items():
    errors, accuracies = [], []
    for seed in range(DRAWS):
        sums = ClassSums.of(X, corrupt(y, T, random_state=seed), 10)
        centroids = [sums.centroid, clean_centroid(sums, T, "published"), clean_centroid(sums, T, "exact")]
        errors.append([centroid_error(mu, clean.centroid) for mu in centroids])
        models = [
            MCLDCEClassifier(np.eye(10), alpha=alpha),
            MCLDCEClassifier(T, alpha=alpha, operator="published"),
            MCLDCEClassifier(T, alpha=alpha),
        ]
        accuracies.append([100 * model.fit_sums(sums).score(X_test, y_test) for model in models])
    cells = [f"{e:.3f}" for e in np.mean(errors, axis=0)] + [f"{a:.2f}" for a in np.mean(accuracies, axis=0)]
    rows.append([name, *cells])
report.table(
    ["noise", "error: noisy", "published", "exact", "accuracy: noisy", "published", "exact"],
    rows,
)
report.close()
