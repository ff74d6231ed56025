"""A fit on a Dask cluster: the workers read the files, and only sums travel.

    python examples/dask_cluster.py

The cluster here has two workers on this machine. For one of your own, replace LocalCluster by the address of its
scheduler; the workers must find the files at the same path. The model is the same as from all rows in memory.
Needs Dask and pandas: pip install 'unflip[scale,data]'
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster

from unflip import MCLDCEClassifier, VolMin, class_sums, corrupt, symmetric
from unflip.commands import fit_out_of_core

NAMES = [f"x{k}" for k in range(12)]


def write_files(folder: Path, n_files: int = 8, n_rows: int = 5000) -> None:
    """Write Parquet files whose labels are flipped."""
    random = np.random.default_rng(0)
    centers = random.normal(size=(4, 12))
    for k in range(n_files):
        y = random.integers(4, size=n_rows)
        frame = pd.DataFrame(centers[y] + random.normal(size=(n_rows, 12)), columns=NAMES)
        frame["kind"] = np.array(["a", "b", "c", "d"])[corrupt(y, symmetric(4, 0.3), random_state=k)]
        frame.to_parquet(folder / f"part-{k}.parquet")


def main(folder: Path) -> None:
    write_files(folder)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        sample = pd.read_parquet(folder / "part-0.parquet")
        T = VolMin(random_state=0).fit(sample[NAMES].to_numpy(), sample["kind"]).transition_
        sums = class_sums(folder, label="kind", engine="dask")  # on the workers of the active client
        model = MCLDCEClassifier(T, alpha=1.0).fit_sums(sums)

        # The same from T to the saved model, with preprocessing, in one call.
        fitted = fit_out_of_core(folder, "kind", random_state=0, dask=client.scheduler.address)
    print(f"{sums.counts.sum():,.0f} rows on 2 workers; labels wrong, estimated: {fitted.noise.noise_rate:.3f}")

    frame = pd.concat(map(pd.read_parquet, sorted(folder.glob("*.parquet"))))
    memory = MCLDCEClassifier(T, alpha=1.0).fit(frame[NAMES].to_numpy(), frame["kind"])
    difference = np.abs(memory.coef_ - model.coef_).max() / np.abs(memory.coef_).max()
    print(f"largest difference from the fit in memory: {difference:.1e}")
    print(f"accuracy on clean labels, estimated from noisy ones: {fitted.accuracy.estimate:.3f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
