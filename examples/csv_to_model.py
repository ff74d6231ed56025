"""From a CSV file with unreliable labels to T, a saved model, predictions and a model card.

    python examples/csv_to_model.py          # works in a temporary folder
    python examples/csv_to_model.py fruit    # keeps fruit/fruit.csv and the results

Needs pandas and safetensors: pip install 'unflip[data]'
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from unflip import corrupt, load, read_table
from unflip.commands import fit_table, predict_table, read_for, write_predictions
from unflip.models import card

CLASSES = ("apple", "pear", "plum", "quince")
T = [[0.95, 0.05, 0.00, 0.00], [0.20, 0.80, 0.00, 0.00], [0.00, 0.00, 1.00, 0.00], [0.00, 0.40, 0.00, 0.60]]


def write_fruit(folder: Path, n: int = 3000) -> tuple[Path, np.ndarray]:
    """Write a table of made-up fruit whose labels are flipped by T; return its path and the clean labels."""
    random = np.random.default_rng(0)
    code = random.choice(4, size=n, p=[0.35, 0.3, 0.2, 0.15])
    clean = np.array(CLASSES)[code]
    colors = ("green", "yellow", "red", "purple")
    chances = [[0.3, 0.2, 0.5, 0.0], [0.5, 0.45, 0.05, 0.0], [0.0, 0.1, 0.2, 0.7], [0.1, 0.9, 0.0, 0.0]]
    frame = pd.DataFrame(
        {
            "id": [f"F{i:05d}" for i in range(n)],
            "weight": np.array([180, 200, 60, 280])[code] * random.lognormal(0, 0.2, n),
            "length": np.array([7.0, 9.5, 5.0, 9.0])[code] + random.normal(0, 0.9, n),
            "sugar": np.array([11.5, 10.0, 13.0, 8.0])[code] + random.normal(0, 1.2, n),
            "colour": [random.choice(colors, p=chances[k]) for k in code],
            "orchard": random.choice(["north", "south", "mill"], size=n),
            "fruit": corrupt(clean, T, random_state=1),  # not the seed of the classes
        }
    ).round({"weight": 0, "length": 1, "sugar": 1})
    frame.loc[random.random(n) < 0.05, "sugar"] = np.nan  # some values were not measured
    frame.to_csv(folder / "fruit.csv", index=False)
    return folder / "fruit.csv", clean


def main(folder: Path) -> None:
    path, clean = write_fruit(folder)
    table = read_table(path, label="fruit")
    fitted = fit_table(table, random_state=0)
    noise, score = fitted.noise, fitted.accuracy
    plain = max(one.accuracy for one in fitted.candidates if not one.corrected)  # the best that trusts the labels
    print(f"{(table.y != clean).mean():.1%} of the labels are wrong; the estimate is {noise.noise_rate:.1%}")
    for i, name in enumerate(noise.names):
        row = "  ".join(f"{given} {p:.2f}" for given, p in zip(noise.names, noise.transition[i], strict=True))
        print(f"  {name:<7} is labeled  {row}")
    print(f"not used: {', '.join(f'{name} ({reason})' for name, reason in fitted.unused.items())}")

    model_folder = fitted.model.save(folder / "model")
    model = load(model_folder)  # possibly in another program, on another day
    table = read_for(model, path)  # the columns are found by name
    predicted, proba = predict_table(model, table)
    write_predictions(folder / "predictions.csv", table, predicted, proba, model.classes_)
    (folder / "model-card.md").write_text(card(model_folder), encoding="utf-8")

    print(f"chosen: {fitted.name}")
    print(f"accuracy on clean labels: estimated {score.estimate:.3f} [{score.low:.3f}, {score.high:.3f}], ", end="")
    print(f"true {(predicted == clean).mean():.3f}; without correction, estimated {plain.estimate:.3f}")
    print("wrote", ", ".join(sorted(path.name for path in folder.iterdir())))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        chosen = Path(sys.argv[1])
        chosen.mkdir(parents=True, exist_ok=True)
        main(chosen)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
