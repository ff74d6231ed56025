import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from unflip import noise
from unflip.bench.cells import NOISES, Cell, Estimate, noise_label, noise_of
from unflip.bench.spec import read_experiment

RESULTS = Path(__file__).parents[2] / "results"


def test_hash_is_of_what_changes_the_number(experiment_file):
    cell = read_experiment(experiment_file()).cells()[2]
    assert re.fullmatch("[0-9a-f]{16}", cell.hash)
    assert Cell(**asdict(cell)) == cell
    for same in (
        replace(cell, experiment="other"),
        replace(cell, method="other"),
        replace(cell, protocol=cell.protocol | {"name": "other"}),
        replace(cell, settings=dict(reversed(cell.settings.items()))),
    ):
        assert same.hash == cell.hash
    for other in (
        replace(cell, dataset="mnist"),
        replace(cell, noise={"kind": "symmetric", "rate": 0.3}),
        replace(cell, settings=cell.settings | {"ema": 0.99}),
        replace(cell, transition={"kind": "true"}),
        replace(cell, network=cell.network | {"hidden": 17}),
        replace(cell, subset={"rows": 100}),
        replace(cell, protocol=cell.protocol | {"epochs": 4}),
        replace(cell, seed=1),
    ):
        assert other.hash != cell.hash


def test_equal_numbers_have_one_hash(experiment_file):
    cell = read_experiment(experiment_file()).cells()[2]
    one, same, other = (replace(cell, settings=cell.settings | {"q": q}) for q in (1, 1.0, True))
    assert one.hash == same.hash != other.hash
    assert replace(cell, network={"sizes": [1.0]}).hash == replace(cell, network={"sizes": [1]}).hash


def test_hashes_are_those_of_the_records_that_there_are():
    cell = Cell(
        experiment="deep",
        dataset="mnist",
        noise={"kind": "symmetric", "rate": 0.2},
        method="mcldce-exact",
        settings={"kind": "mcldce", "operator": "exact", "output": "softmax", "dropout": 0.5, "ema": 0.999},
        transition={"network": {"kind": "mlp", "hidden": 256}, "kind": "crossfit-em"},
        network={"kind": "mlp", "hidden": 256},
        subset=None,
        protocol={"name": "short", "epochs": 40, "decay_from": 16, "batch_size": 128, "lr": 0.001},
        seed=0,
    )
    assert (cell.hash, cell.estimate.hash) == ("72c6dd0ab47a86f6", "ccd68482f6f69d2f")
    for path in RESULTS.glob("*/records/*.json"):
        assert Cell(**json.loads(path.read_text(encoding="utf-8"))["cell"]).hash == path.stem
    for path in RESULTS.glob("*/transitions/*.json"):
        assert Estimate(**json.loads(path.read_text(encoding="utf-8"))["estimate"]).hash == path.stem


@pytest.mark.parametrize("label", ["sym 20", "pair 45", "sym 2.5", "human"])
def test_noise_label_and_back(label):
    assert noise_label(noise_of(label)) == label


@pytest.mark.parametrize("kind", NOISES.values())
def test_a_kind_of_noise_is_a_function_of_classes_and_rate(kind):
    assert getattr(noise, kind)(3, 0.2).diagonal() == pytest.approx(0.8)
