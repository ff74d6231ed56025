import json
from dataclasses import asdict

import pytest

from unflip.bench.experiment import DatasetEntry, Experiment, Figure, MethodEntry, Protocol

COMMIT, OTHER = "a" * 40, "b" * 40


@pytest.fixture
def experiment():
    """Two data sets, two noises, four methods; its protocol "short" has fewer epochs than the paper's."""
    network = {"kind": "mlp", "hidden": 256}
    everywhere = ("mnist", "cifar10")
    return Experiment(
        name="trial_run",
        title="Accuracy of 100 % & more",
        note="A note with an under_score.",
        datasets={
            "mnist": DatasetEntry("MNIST", network, "em"),
            "cifar10": DatasetEntry("CIFAR_10", network, "em"),
        },
        noises=("sym 20", "pair 40"),
        methods={
            "gce": MethodEntry("GCE", {"kind": "gce", "q": 0.7}),
            "forward": MethodEntry("Forward", {"kind": "forward"}, transition="estimated"),
            "volminnet": MethodEntry("VolMinNet", {"kind": "volminnet"}, note="with Adam"),
            "mcldce": MethodEntry("MC-LDCE", {"kind": "mcldce"}, transition="estimated"),
            "ridge": MethodEntry("Ridge|linear", {"kind": "ridge"}),
        },
        protocols={
            "paper": Protocol((0, 1, 2), {"epochs": 200}, everywhere, {}, None, ""),
            "short": Protocol((0, 1, 2), {"epochs": 12}, everywhere, {}, None, "12 epochs."),
        },
        transitions={"true": {"kind": "true"}, "em": {"kind": "crossfit-em"}},
        paper={("mnist", "sym 20", "gce"): (95.88, 0.01), ("mnist", "pair 40", "mcldce"): (93.06, None)},
        figures=(Figure("mnist", "MNIST", "mnist", ("sym 20", "pair 40")),),
    )


@pytest.fixture
def make(experiment):
    """A function that makes the record of a cell as the bench does."""

    def record(dataset, noise, method, accuracy, seed=0, protocol="short", commit=COMMIT, error=None, **others):
        where = {"dataset": [dataset], "noise": [noise], "method": [method], "seed": [str(seed)]}
        (cell,) = experiment.cells(where, protocol)
        result = {"accuracy": list(accuracy), "transition": None, "transition_error": error, "seconds": 2.0 + seed}
        made = {
            "format": 1,
            "hash": cell.hash,
            "status": "done",
            "cell": asdict(cell),
            "result": result,
            "error": None,
            "versions": {},
            "commit": commit,
            "finished": f"2026-01-0{1 + seed}T00:00:00+00:00",
        }
        return json.loads(json.dumps(made | others))  # as it comes from its file

    return record
