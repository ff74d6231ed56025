import pytest

from unflip.bench.experiment import parse_where
from unflip.bench.spec import read_experiment


def test_cells_of_the_grid(experiment_file):
    experiment = read_experiment(experiment_file())
    cells = experiment.cells()
    assert [(cell.noise_label, cell.method) for cell in cells] == [
        (noise, method) for noise in ("sym 20", "pair 40") for method in ("ridge", "jocor", "mcldce-exact", "linear")
    ]
    assert len({cell.hash for cell in cells}) == 8
    ridge, jocor, mcldce, linear = cells[4:]
    assert jocor.settings == {"kind": "jocor", "forget_rate": 0.4}  # the noise rate, resolved
    assert jocor.protocol == {"name": "paper", "epochs": 3, "decay_from": 1, "batch_size": 64, "lr": 0.01}
    # A linear method has neither network nor epochs: they must not change its hash.
    assert (ridge.network, ridge.protocol, ridge.estimate) == (None, {"name": "paper"}, None)
    assert mcldce.estimate == linear.estimate
    assert mcldce.estimate.hash == linear.estimate.hash != cells[2].estimate.hash


def test_where_and_protocol(experiment_file):
    long = "[protocols.long]\nepochs = 9\ndecay_from = 3\nbatch_size = 64\nlr = 0.01\nseeds = [3, 1, 2]\n\n"
    experiment = read_experiment(experiment_file(("[datasets.digits]", long + "[datasets.digits]")))
    cells = experiment.cells(parse_where(["noise=sym 20", "method=ridge,jocor", "seed=2,3"]), "long")
    assert [(cell.seed, cell.method) for cell in cells] == [(3, "ridge"), (3, "jocor"), (2, "ridge"), (2, "jocor")]
    assert cells[1].protocol["epochs"] == 9
    assert experiment.protocol() == "paper"
    with pytest.raises(ValueError, match="protocol paper: unknown seed '2'; choose one of 0"):
        experiment.cells({"seed": ["2"]})
    with pytest.raises(ValueError, match="unknown protocol 'short'; choose one of paper, long"):
        experiment.cells(protocol="short")
    for word in ("dataset", "dataset=", "=mnist", "colour=red"):
        with pytest.raises(ValueError, match="--where"):
            parse_where([word])


def test_when_gives_other_settings(experiment_file):
    cases = """
[[methods.jocor.when]]
noise = ["pair 40"]
co_lambda = 0.5
forget_rate = 0.1
[[methods.jocor.when]]
noise = ["pair 40"]
protocol = ["paper"]
co_lambda = 0.6
"""
    path = experiment_file(("\n[methods.mcldce-exact]", cases + "\n[methods.mcldce-exact]"))
    first, second = read_experiment(path).cells({"method": ["jocor"]})
    assert first.settings == {"kind": "jocor", "forget_rate": 0.2}
    assert second.settings == {"kind": "jocor", "forget_rate": 0.1, "co_lambda": 0.6}  # the last case wins


def test_a_protocol_may_reduce_data_and_network(experiment_file):
    path = experiment_file(("seeds = [0]", "seeds = [0]\nsubset = 500\nnetwork = { hidden = 4 }"))
    cell = read_experiment(path).cells({"method": ["mcldce-exact"]})[0]
    assert cell.subset == {"rows": 500}
    assert cell.network == {"kind": "mlp", "hidden": 4}
    assert cell.estimate.subset == {"rows": 500}
    path = experiment_file(("seeds = [0]", "seeds = [0]\nsubset = { digits = 300 }"), name="table.toml")
    assert read_experiment(path).cells()[0].subset == {"rows": 300}
    path = experiment_file(("seeds = [0]", "seeds = [0]\nsubset = {}"), name="none.toml")
    assert read_experiment(path).cells()[0].subset is None


def test_the_network_of_t_is_that_of_the_data_unless_it_has_its_own(experiment_file):
    kind = ('kind = "volmin"\nrounds = 1\nalpha = 0.1', 'kind = "crossfit-em"')
    cell = read_experiment(experiment_file(kind)).cells()[2]
    assert cell.transition == {"kind": "crossfit-em", "network": {"kind": "mlp", "hidden": 16}}
    own = (kind[0], kind[1] + '\nnetwork = { kind = "lenet" }')
    assert read_experiment(experiment_file(own)).cells()[2].transition["network"] == {"kind": "lenet"}


def test_a_data_set_may_have_only_some_of_the_noises(experiment_file):
    mnist = """[datasets.mnist]
title = "MNIST"
network = { kind = "mlp" }
transition = "volmin"
noises = ["pair 40"]

[transitions.volmin]"""
    experiment = read_experiment(experiment_file(("[transitions.volmin]", mnist)))
    assert experiment.rows == [("digits", "sym 20"), ("digits", "pair 40"), ("mnist", "pair 40")]
    assert {(cell.dataset, cell.noise_label) for cell in experiment.cells()} == set(experiment.rows)
    with pytest.raises(ValueError, match=r"\[datasets.mnist\] noises: unknown noise 'sym 60'"):
        read_experiment(experiment_file(("[transitions.volmin]", mnist.replace("pair 40", "sym 60"))))
