"""How strongly MC-LDCE should be regularised, chosen from noisy labels alone: the loss on held-out noisy labels.

The corrected loss |T'h - e_y|^2 needs no clean label, so that a part of the noisy training set can choose between
settings. Each is trained on 90 % of the noisy labels, under the protocol `short` of experiments/deep.toml and with the
estimates of T that its records hold, and scored on the other 10 %; the clean test labels are shown beside it and choose
nothing. One JSON record a run is kept under ``--records``; a run that has one is not made again.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
from _shared import Report

from unflip._output import write_whole
from unflip.bench.cells import Cell
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store
from unflip.bench.trial import noisy_data
from unflip.deep import MCLDCELoss, Trainer, make_method, make_network
from unflip.deep._network_estimator import seeded

ROOT = Path(__file__).parents[1]
SETTINGS = {
    "dropout 0.25": {"dropout": 0.25, "weight_decay": 0.0},
    "dropout 0.5": {"dropout": 0.5, "weight_decay": 0.0},
    "dropout 0.5, weight decay 1e-4": {"dropout": 0.5, "weight_decay": 1e-4},
}
HELD_OUT = 0.1
EMA = 0.999


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("UNFLIP_DATA"), help="default: UNFLIP_DATA")
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--records", type=Path, default=Path(__file__).parent / "results" / "regularisation")
    parser.add_argument("--noise", nargs="*", help="only these noises, as 'sym 20'")
    parser.add_argument("--dataset", nargs="*", help="only these data sets")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def run(options: argparse.Namespace, cell: Cell, T: np.ndarray, setting: dict[str, float]) -> dict[str, float]:
    """Train one setting on 90 % of the noisy labels, and return its loss on the others and its test accuracy."""
    data = noisy_data(cell.dataset, None, cell.noise, cell.seed, options.data_dir)
    order = np.random.default_rng([cell.seed, 2]).permutation(len(data.y))
    held, kept = np.split(order, [int(HELD_OUT * len(order))])
    factory = make_network("mlp", data.x.shape[1:], data.n_classes, hidden=256, dropout=setting["dropout"])
    with seeded(cell.seed):
        method = make_method("mcldce", factory, data.n_classes, T, metric="noisy")
    training = {key: value for key, value in cell.protocol.items() if key != "name"}
    trainer = Trainer(method, **training, weight_decay=setting["weight_decay"], ema=EMA, seed=cell.seed, progress=False)
    trainer.fit(data.x[kept], data.y[kept])
    loss = MCLDCELoss(T, metric="noisy")(trainer.predict_logits(data.x[held]), torch.from_numpy(data.y[held]))
    accuracy = np.mean(trainer.predict_logits(data.x_test).argmax(1).numpy() == data.y_test)
    return {"held_out_loss": float(loss), "accuracy": float(accuracy)}


def record_of(options: argparse.Namespace, cell: Cell, store: Store, name: str) -> dict[str, float]:
    path = options.records / f"{cell.dataset}-{cell.noise_label}-{name}.json".replace(" ", "-").replace(",", "")
    if not path.exists():
        assert cell.estimate is not None
        estimate = store.done(cell.estimate)
        if estimate is None:
            raise SystemExit(f"{cell.estimate.title} is not in {store.folder}; run experiments/deep.toml first")
        found = run(options, cell, np.array(estimate["result"]["transition"]), SETTINGS[name])
        write_whole(path, json.dumps(SETTINGS[name] | found, indent=1) + "\n")
        print(cell.title, name, found, flush=True)
    return dict(json.loads(path.read_text(encoding="utf-8")))


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    plan = read_experiment(ROOT / "experiments" / "deep.toml")
    where = {
        "dataset": options.dataset or ["mnist", "fashion-mnist"],
        "method": ["mcldce-exact"],
        "seed": ["0"],
        "noise": options.noise or list(plan.noises),
    }
    store = Store(ROOT / "results" / "deep")
    rows = []
    for cell in plan.cells(where, "short"):
        found = {name: record_of(options, cell, store, name) for name in SETTINGS}
        least = min(found, key=lambda name: found[name]["held_out_loss"])
        best = max(found, key=lambda name: found[name]["accuracy"])
        texts = [f"{r['held_out_loss']:.4f} / {100 * r['accuracy']:.2f}" for r in found.values()]
        marked = [f"**{text}**" if name == least else text for name, text in zip(found, texts, strict=True)]
        lost = 100 * (found[best]["accuracy"] - found[least]["accuracy"])
        rows.append((plan.datasets[cell.dataset].title, cell.noise_label, *marked, f"{lost:.2f}"))
    report = Report("Regularisation chosen without clean labels", "python benchmarks/regularisation.py", options)
    report.say(
        "MC-LDCE (exact, noisy metric) on 54,000 images, 40 epochs, one seed: loss on 6,000 held-out noisy labels / "
        "test accuracy after the last epoch, per cent. Bold: the least loss, which is chosen. `lost` is what the best "
        "of the row has more.\n"
    )
    report.table(("data", "noise", *SETTINGS, "lost"), rows)
    report.close()


if __name__ == "__main__":
    main()
