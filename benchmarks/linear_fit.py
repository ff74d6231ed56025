"""Time and memory of one linear fit: python benchmarks/linear_fit.py --out benchmarks/results/linear_fit.md"""

import os
import resource
import subprocess
import sys

import numpy as np
from _shared import Report, arguments, features, seconds
from sklearn.linear_model import RidgeClassifier

from unflip.linear import MCLDCEClassifier, MCLDCEClassifierCV
from unflip.noise import corrupt, pairflip

MEMORY_ROWS, MEMORY_FEATURES = 2_000_000, 64


def peak_memory() -> None:
    """Print, from a fresh process, by how many MiB the fit raised the peak memory beyond X and y themselves."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(MEMORY_ROWS, MEMORY_FEATURES))
    y = rng.integers(10, size=MEMORY_ROWS)
    model = MCLDCEClassifier(pairflip(10, 0.4), alpha=1.0)
    model.fit(X[:1000], y[:1000])  # imports and BLAS buffers are not part of the fit
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.fit(X, y)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(X.nbytes / 2**20, (after - before) / 1024)


def main() -> None:
    options = arguments(__doc__)
    report = Report("Time and memory of one linear fit", "python benchmarks/linear_fit.py", options)
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    T = pairflip(10, 0.4)
    rows = []
    for dtype in (np.float64, np.float32):
        X, y, *_ = features(options, dtype)
        noisy = corrupt(y, T, random_state=0)
        fixed = MCLDCEClassifier(T, alpha=1.0)
        model = fixed.fit(X, noisy)
        times = {
            "`RidgeClassifier().fit`": seconds(lambda X=X, y=noisy: RidgeClassifier().fit(X, y), 5),
            "`MCLDCEClassifier(T, alpha=1.0).fit`": seconds(
                lambda X=X, y=noisy: MCLDCEClassifier(T, alpha=1.0).fit(X, y), 5
            ),
            "the same from its sums, with another alpha": seconds(lambda m=model: m.fit_sums(m.sums_), 5),
            "`MCLDCEClassifierCV(T).fit`, 17 penalties x 5 folds": seconds(
                lambda X=X, y=noisy: MCLDCEClassifierCV(T, random_state=0).fit(X, y), 3
            ),
        }
        ridge = times["`RidgeClassifier().fit`"]
        rows += [[np.dtype(dtype).name, name, f"{t:.3f}", f"{t / ridge:.2f}"] for name, t in times.items()]
    report.say(f"CIFAR-10 features, 50,000 x 320, 10 classes, T given; BLAS threads: {threads}.\n")
    report.table(["X", "work", "seconds", "x one RidgeClassifier fit"], rows)

    printed = subprocess.run([sys.executable, __file__, "--peak"], capture_output=True, text=True, check=True).stdout
    size, growth = map(float, printed.split())
    report.say(
        f"Memory: X is {MEMORY_ROWS:,} x {MEMORY_FEATURES} float64, {size:.0f} MiB; the fit needs "
        f"{growth:.1f} MiB on top of it ({8 * MEMORY_ROWS / 2**20:.0f} MiB of that are the codes of the labels)."
    )
    report.close()


if __name__ == "__main__":
    peak_memory() if sys.argv[1:] == ["--peak"] else main()
