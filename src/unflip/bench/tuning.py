"""Settings that every method has, chosen for each method and noise from the same grid, on noisy labels alone.

A protocol with ``tuning`` leaves dropout, weight decay and the average of the weights open. Each setting of its grid is
trained on 90 % of the noisy labels of the first trial and scored by how many of the other noisy labels it predicts, in
the mean of the last epochs, once with the weights as they are and once with their average. The best one is taken for
all trials, and from then on the cell is an ordinary one. No clean label takes part.

Why this score: it needs neither T nor calibrated probabilities, so it means the same for every method. While the
diagonal of T dominates, the classifier that predicts most noisy labels is the one that predicts most clean labels.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unflip.bench.cells import TUNED, Cell, n_last

WEIGHTS, AVERAGE = "weights", "average"  # what predicts: the weights as they are, or their moving average


def candidates(cell: Cell) -> list[Cell]:
    """Return the cells whose scores decide the settings of a cell; none if nothing is left open."""
    if cell.tuning is None:
        return []
    grid = cell.tuning
    return [
        replace(
            cell,
            settings=_fixed(cell) | setting | {"ema": grid["ema"]},
            tuning=None,
            held_out=grid["held_out"],
            seed=grid["seed"],
        )
        for setting in grid["settings"]
    ]


def settle(cell: Cell, results: Sequence[dict[str, Any]]) -> Cell:
    """Return the cell with the settings that predicted most held-out noisy labels.

    ``results`` are those of its candidates. Of equal ones the first is taken, and the weights before their average.
    """
    assert cell.tuning is not None
    scores = [(result["held_out"][kind], n, kind) for n, result in enumerate(results) for kind in (WEIGHTS, AVERAGE)]
    _, best, kind = max(scores, key=lambda score: score[0])
    chosen = cell.tuning["settings"][best] | ({"ema": cell.tuning["ema"]} if kind == AVERAGE else {})
    # Without the zeros that go without saying, so that no regularization is the same cell as the published one.
    assert cell.network is not None
    kept = ("dropout",) if cell.network["kind"] != "mlp" or "dropout" in cell.network else ()
    chosen = {key: value for key, value in chosen.items() if value or key in kept}
    return replace(cell, settings=_fixed(cell) | chosen, tuning=None)


class Scores:
    """What the trainer records of a candidate after each of the last epochs: its shares of correct predictions.

    Parameters
    ----------
    held_out, test : (x, y)
        Noisy labels that training does not see, which decide; clean ones, which only tell how good the decision was.
    """

    def __init__(self, held_out: tuple[Any, Any], test: tuple[Any, Any]) -> None:
        self.held_out, self.test = held_out, test

    def __call__(self, trainer: Any) -> dict[str, float]:
        if len(trainer.history) < trainer.epochs - n_last(trainer.epochs):
            return {}
        kinds = {WEIGHTS: trainer.method, AVERAGE: trainer.model}
        found = {kind: _accuracy(model, *self.held_out, trainer.device) for kind, model in kinds.items()}
        return found | {"accuracy": _accuracy(trainer.model, *self.test, trainer.device)}


def summary(history: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a candidate from what :class:`Scores` recorded."""
    last = [epoch for epoch in history if WEIGHTS in epoch]
    held_out = {kind: sum(epoch[kind] for epoch in last) / len(last) for kind in (WEIGHTS, AVERAGE)}
    return {"accuracy": [epoch["accuracy"] for epoch in last], "held_out": held_out}


def _accuracy(model: Any, x: Any, y: Any, device: Any) -> float:
    from unflip.deep.trainer import predict_logits

    return float(np.mean(predict_logits(model, x, device=device).argmax(1).numpy() == y))


def _fixed(cell: Cell) -> dict[str, Any]:
    return {key: value for key, value in cell.settings.items() if key not in TUNED}
