from dataclasses import replace
from inspect import signature

import pytest

from unflip.bench.record import work
from unflip.bench.settings import NETWORKS, check_settings, linear_class, method_kinds, network_class, resolved
from unflip.bench.spec import read_experiment

pytest.importorskip("torch", reason="unflip[deep] is not installed")


@pytest.fixture
def cells(experiment_file):
    """ridge, jocor, mcldce-exact and linear with symmetric noise 20."""
    return read_experiment(experiment_file()).cells({"noise": ["sym 20"]})


def test_resolved_are_all_settings_with_the_defaults_of_the_code(cells):
    ridge, jocor, mcldce, _ = map(resolved, cells)
    assert ridge["method"]["alpha"] == 1.0
    assert "random_state" not in ridge["method"]
    assert jocor["method"] == {"forget_rate": 0.2, "num_gradual": 10, "exponent": 1.0, "co_lambda": 0.9}
    assert (mcldce["method"]["operator"], mcldce["method"]["output"]) == ("exact", "softmax")
    assert not {"kind", "dropout", "ema", "transition", "prior"} & set(mcldce["method"])
    assert mcldce["network"] == {"kind": "mlp", "hidden": 16, "dropout": 0.5, "slope": 0.01}
    expected = {"epochs": 3, "lr": 0.01, "ema": 0.9, "weight_decay": 0.0, "betas": [0.9, 0.999]}
    assert {key: mcldce["training"][key] for key in expected} == expected
    assert not {"seed", "device", "progress", "checkpoint"} & set(mcldce["training"])


def test_resolved_of_an_estimator_of_t(cells):
    volmin = resolved(cells[2].estimate)["estimator"]
    assert (volmin["rounds"], volmin["alpha"], volmin["max_iter"]) == (1, 0.1, 1000)
    own = {"kind": "crossfit-em", "network": {"kind": "lenet"}, "folds": 2}
    em = resolved(replace(cells[2].estimate, transition=own))
    assert (em["estimator"]["rounds"], em["estimator"]["folds"]) == (24, 2)
    assert em["network"] == {"kind": "lenet"}
    assert em["start"]["epochs"] == 24  # T starts from VolMinNet, whose defaults count too
    assert resolved(replace(cells[2].estimate, transition={"kind": "true"})) == {"estimator": {}}


@pytest.mark.parametrize(
    ("number", "settings", "transition", "message"),
    [
        (
            1,
            {"kind": "jocor", "forget_rate": 0.2, "lambda": 1},
            None,
            r"\[methods.jocor\]: method 'jocor' has no setting",
        ),
        (1, {"kind": "jocor"}, None, r"\[methods.jocor\] needs T"),
        (
            0,
            {"kind": "ridge", "alfa": 1.0},
            None,
            r"\[methods.ridge\]: ridge has no setting alfa; its",
        ),
        (0, {"kind": "ridge"}, {"kind": "true"}, "ridge does not take T"),
        (
            2,
            {"kind": "mcldce"},
            {"kind": "volmin", "alfa": 1},
            "volmin has no setting alfa; its settings are volume",
        ),
    ],
)
def test_settings_are_checked_before_anything_runs(cells, number, settings, transition, message):
    for cell in cells:
        check_settings(cell)
    with pytest.raises(ValueError, match=message):
        check_settings(replace(cells[number], settings=settings, transition=transition))


def test_options_of_networks_are_those_of_unflip_deep():
    for kind, (_, *options) in NETWORKS.items():
        parameters = signature(network_class(kind)).parameters
        assert options == [name for name, parameter in parameters.items() if parameter.default != parameter.empty]


TOYS = """
import numpy as np
from sklearn.linear_model import RidgeClassifier

class ToyClassifier(RidgeClassifier):
    pass

class ToyEstimator:
    def __init__(self, rate=0.1):
        self.rate = rate

    def fit(self, X, y):
        c = y.max() + 1
        self.transition_ = (1 - self.rate) * np.eye(c) + self.rate / c
        return self
"""
DEEP_TOY = """
from unflip.deep.methods.cross_entropy import CrossEntropy

class Toy(CrossEntropy):
    name = "deep-toy"
"""


def test_a_method_is_one_file_and_one_line_of_the_registry(experiment_file, tmp_path, monkeypatch):
    import unflip
    from unflip import registry

    (tmp_path / "toys.py").write_text(TOYS)
    (tmp_path / "deep_toy.py").write_text(DEEP_TOY)
    monkeypatch.setattr(unflip, "__path__", [*unflip.__path__, str(tmp_path)])
    lines = [
        registry.Entry("toy", "toys", "ToyClassifier", "linear"),
        registry.Entry("deep-toy", "deep_toy", "Toy", "deep", networks=1),
        registry.Entry("toy-t", "toys", "ToyEstimator", "transition"),
    ]
    monkeypatch.setattr(registry, "ENTRIES", registry.ENTRIES + lines)
    path = experiment_file(
        ('kind = "ridge"', 'kind = "toy"\nalpha = 2.0'),
        ('kind = "volmin"\nrounds = 1\nalpha = 0.1', 'kind = "toy-t"\nrate = 0.3'),
        ('kind = "jocor"\nforget_rate = "noise rate"', 'kind = "deep-toy"'),
    )
    for cell in read_experiment(path).cells({"noise": ["sym 20"]}):
        check_settings(cell)
        T = None if cell.estimate is None else work(cell.estimate, None, None, None)["result"]["transition"]
        record = work(cell, T, None, None)
        assert record["status"] == "done", record["error"]
    assert read_experiment(experiment_file(('kind = "ridge"', 'kind = "ToyClassifier"'))).methods["ridge"].deep is False


def test_a_linear_method_is_named_by_its_class_or_its_name():
    from unflip.linear import SCDClassifier

    assert {"gce", "ridge", "SCDClassifier", "scd"} <= set(method_kinds())
    assert linear_class("SCDClassifier") is linear_class("scd") is SCDClassifier
