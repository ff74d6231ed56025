"""MC-LDCE with the MLP on MNIST and Fashion-MNIST, T estimated: python benchmarks/deep_accuracy.py

40 epochs, linear decay from epoch 16. There is one JSON record per run under ``--records``; a run that has one is not
run again. T comes from CrossFitEM (seed 0), from the records of benchmarks/deep_transition.py, which must have run
before.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
from _shared import Report, images

from unflip._output import write_whole
from unflip.core import clean_prior
from unflip.deep import Trainer, make_method, make_network
from unflip.metrics import clean_accuracy, transition_error
from unflip.noise import corrupt, pairflip, symmetric

RESULTS = Path(__file__).parent / "results"
NOISE = {
    "sym 20": symmetric(10, 0.2),
    "sym 60": symmetric(10, 0.6),
    "pair 20": pairflip(10, 0.2),
    "pair 40": pairflip(10, 0.4),
}
PAPER = {  # MC-LDCE after 200 epochs, and the best of all methods in the paper
    "mnist": {"sym 20": (97.40, 97.40), "sym 60": (94.84, 94.84), "pair 20": (97.28, 97.28), "pair 40": (93.06, 95.52)},
    "fashion-mnist": {
        "sym 20": (87.70, 87.70),
        "sym 60": (84.70, 84.70),
        "pair 20": (87.83, 87.83),
        "pair 40": (85.38, 85.38),
    },
}
VARIANTS = {
    "exact": {"operator": "exact", "dropout": 0.5, "ema": 0.999},
    "published": {"operator": "published", "dropout": 0.5, "ema": 0.999},
    "exact, no EMA": {"operator": "exact", "dropout": 0.5, "ema": None},
    "exact, no dropout": {"operator": "exact", "dropout": 0.0, "ema": 0.999},
    # A tenth of the noisy labels is held out; the result is the epoch with the best clean_accuracy on it.
    "exact, chosen epoch": {"operator": "exact", "dropout": 0.5, "ema": 0.999, "held_out": 0.1},
}


def run(options: argparse.Namespace, data: str, noise: str, variant: str) -> dict:
    X, y, X_test, y_test = images(options, data)
    noisy = corrupt(y, NOISE[noise], random_state=0)
    source = RESULTS / "deep_transition" / f"{data}-{noise.replace(' ', '-')}-0.json"
    if not source.exists():
        raise SystemExit(f"{source} is missing: run python benchmarks/deep_transition.py first")
    T = np.array(json.loads(source.read_text())["crossfit"])
    prior = clean_prior(np.bincount(noisy, minlength=10) / len(noisy), T)
    settings = VARIANTS[variant]
    network = make_network("mlp", (784,), 10, dropout=settings["dropout"])
    with torch.random.fork_rng([]):
        torch.manual_seed(options.seed)
        method = make_method("mcldce", network, 10, T, prior, operator=settings["operator"], metric="clean")
    trainer = Trainer(method, epochs=40, decay_from=16, ema=settings["ema"], seed=options.seed, progress=False)
    held_out = np.arange(len(noisy)) < settings.get("held_out", 0) * len(noisy)  # the images come in random order

    def evaluate(trainer: Trainer) -> dict[str, float]:
        scores = {"accuracy": float(np.mean(trainer.predict_logits(X_test).argmax(1).numpy() == y_test))}
        if held_out.any():
            guess = trainer.predict_logits(X[held_out]).argmax(1).numpy()
            scores["estimate"] = clean_accuracy(noisy[held_out], guess, T).estimate
        return scores

    history = trainer.fit(X[~held_out], noisy[~held_out], evaluate=evaluate)
    predicted = trainer.predict_logits(X_test).argmax(1).numpy()
    score = clean_accuracy(corrupt(y_test, NOISE[noise], random_state=1), predicted, T)
    return {
        "data": data,
        "noise": noise,
        "variant": variant,
        "seed": options.seed,
        "settings": {**settings, "epochs": 40, "decay_from": 16, "batch_size": 128, "lr": 1e-3, "output": "softmax"},
        "transition_error": transition_error(T, NOISE[noise]),
        "accuracy": [epoch["accuracy"] for epoch in history],
        "chosen": int(np.argmax([epoch["estimate"] for epoch in history])) if held_out.any() else None,
        "seconds": sum(epoch["seconds"] for epoch in history),
        "estimated_accuracy": score._asdict(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("UNFLIP_DATA"), help="default: UNFLIP_DATA")
    parser.add_argument("--out", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--records", type=Path, default=RESULTS / "deep_accuracy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--variants", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--data", nargs="*", choices=PAPER, default=list(PAPER))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    rows = []
    for data in options.data:
        for noise in NOISE:
            cells = {}
            for variant in options.variants:
                name = f"{data}-{noise}-{variant}-{options.seed}".replace(",", "").replace(" ", "-")
                path = options.records / f"{name}.json"
                if not path.exists():
                    write_whole(path, json.dumps(run(options, data, noise, variant)))
                cells[variant] = json.loads(path.read_text())
                last = 100 * np.array(cells[variant]["accuracy"][-10:])
                print(f"{name}: {last.mean():.2f} +- {last.std():.2f}, {cells[variant]['seconds']:.0f} s", flush=True)
            printed = []
            for cell in cells.values():
                accuracy = 100 * np.array(cell["accuracy"])
                value = accuracy[-10:].mean() if cell.get("chosen") is None else accuracy[cell["chosen"]]
                printed.append(f"{value:.2f} ({accuracy.max():.2f})")
            score = 100 * next(iter(cells.values()))["estimated_accuracy"]["estimate"]
            error = next(iter(cells.values()))["transition_error"]
            paper, best = PAPER[data][noise]
            rows.append([data, noise, f"{error:.3f}", *printed, f"{score:.1f}", f"{paper:.2f}", f"{best:.2f}"])
    report = Report("MC-LDCE with the MLP", "python benchmarks/deep_accuracy.py", options)
    report.say(
        "Full training sets, noisy labels (`random_state=0`), T from CrossFitEM (noisy labels only), MLP 784-256-10, "
        "softmax output, dropout 0.5, EMA 0.999, Adam 1e-3, batch 128, 40 epochs with linear decay from 16 (the paper: "
        f"200 epochs), seed {options.seed}. Mean test accuracy of the last ten epochs in percent (best epoch).\n"
    )
    report.table(
        [
            "data",
            "noise",
            "T error",
            *options.variants,
            "estimated from noisy test",
            "paper",
            "paper's best method",
        ],
        rows,
    )
    report.close()


if __name__ == "__main__":
    main()
