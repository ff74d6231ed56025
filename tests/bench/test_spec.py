import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.conftest import TINY
from unflip.bench.cells import Cell, Estimate, noise_label, noise_of
from unflip.bench.experiment import parse_where
from unflip.bench.spec import read_experiment

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


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


def test_hash_is_of_what_changes_the_number(experiment_file):
    cell = read_experiment(experiment_file()).cells()[2]
    assert re.fullmatch("[0-9a-f]{16}", cell.hash)
    assert Cell.from_dict(cell.as_dict()) == cell
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
    for path in EXPERIMENTS.parent.glob("results/*/records/*.json"):
        assert Cell.from_dict(json.loads(path.read_text(encoding="utf-8"))["cell"]).hash == path.stem
    for path in EXPERIMENTS.parent.glob("results/*/transitions/*.json"):
        assert Estimate(**json.loads(path.read_text(encoding="utf-8"))["estimate"]).hash == path.stem


def test_where_and_protocol(experiment_file):
    long = "[protocols.long]\nepochs = 9\ndecay_from = 3\nbatch_size = 64\nlr = 0.01\nseeds = [3, 1, 2]\n\n"
    experiment = read_experiment(experiment_file(("[datasets.digits]", long + "[datasets.digits]")))
    cells = experiment.cells(parse_where(["noise=sym 20", "method=ridge,jocor", "seed=2,3"]), "long")
    assert [(cell.seed, cell.method) for cell in cells] == [(3, "ridge"), (3, "jocor"), (2, "ridge"), (2, "jocor")]
    assert cells[1].protocol["epochs"] == 9
    assert experiment.protocol() == "paper"
    with pytest.raises(ValueError, match="where seed, protocol paper: there is no '2'; there are 0"):
        experiment.cells({"seed": ["2"]})
    with pytest.raises(ValueError, match="there is no 'short'; there are paper, long"):
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


def test_the_network_of_t_is_that_of_the_data_unless_it_has_its_own(experiment_file):
    kind = ('kind = "volmin"\nrounds = 1\nalpha = 0.1', 'kind = "crossfit-em"')
    cell = read_experiment(experiment_file(kind)).cells()[2]
    assert cell.transition == {"kind": "crossfit-em", "network": {"kind": "mlp", "hidden": 16}}
    own = (kind[0], kind[1] + '\nnetwork = { kind = "lenet" }')
    assert read_experiment(experiment_file(own)).cells()[2].transition["network"] == {"kind": "lenet"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "A tiny experiment"', "", "the file lacks title"),
        ("noises", "noise", "the file lacks noises"),
        ('title = "A tiny', 'colour = "red"\ntitle = "A tiny', "the file: there is no 'colour'"),
        ('"sym 20"', '"sym20"', "a noise is written 'sym 20'"),
        ("epochs = 3", "epoch = 3", r"\[protocols.paper\]: there is no 'epoch'; there are seeds, epochs"),
        ("epochs = 3", "", r"\[protocols.paper\] needs epochs for the deep method jocor"),
        ("[datasets.digits]", "[datasets.mist]", r"\[datasets.mist\]: there is no 'mist'; there are digits, mnist"),
        ('kind = "mlp"', 'kind = "mpl"', r"\[datasets.digits\] network kind: there is no 'mpl'; there are mlp, cnn6"),
        (
            'network = { kind = "mlp", hidden = 16 }',
            "",
            r"\[datasets.digits\] needs a network for the deep method jocor",
        ),
        ('transition = "volmin"', "", r"\[datasets.digits\] needs a transition"),
        ('transition = "volmin"', 'transition = "volmim"', "there is no 'volmim'; there are true, volmin"),
        ('kind = "volmin"', 'kind = "vol"', r"\[transitions.volmin\] kind: there is no 'vol'; there are volmin"),
        ('kind = "jocor"', 'kind = "jokor"', r"\[methods.jocor\] kind: there is no 'jokor'; there are ce, gce"),
        (
            'transition = "estimated"',
            'transition = "guess"',
            r"\[methods.mcldce-exact\] transition: there is no 'guess'",
        ),
        ('[methods.ridge]\ntitle = "Ridge"', "[methods.ridge]", r"\[methods.ridge\] lacks title"),
        ('"sym 20", "pair 40"', '"human"', r"\[datasets.digits\] needs noise_rate"),
        ("name = ", "name ", "is not a TOML file"),
    ],
)
def test_a_mistake_is_named_with_its_place(experiment_file, old, new, message):
    path = experiment_file((old, new))
    with pytest.raises(ValueError, match=message) as caught:
        read_experiment(path)
    assert "tiny.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ('[[methods.jocor.when]]\ndataset = ["mnist"]', r"\[\[methods.jocor.when\]\] dataset: there is no 'mnist'"),
        ("[paper.mnist]\n'sym 20' = { ridge = 1.0 }", r"\[paper\]: there is no 'mnist'"),
        ("[paper.digits]\n'sym 30' = { ridge = 1.0 }", r"\[paper.digits\]: there is no 'sym 30'"),
        ("[paper.digits]\n'sym 20' = { rigde = 1.0 }", r"\[paper.digits\] 'sym 20': there is no 'rigde'"),
        ('[[figures]]\nname = "a"\ntitle = "A"\ndataset = "mnist"', r"\[\[figures\]\] dataset: there is no 'mnist'"),
    ],
)
def test_a_mistake_in_what_may_be_left_out(experiment_file, added, message):
    with pytest.raises(ValueError, match=message):
        read_experiment(experiment_file(text=TINY + added))


def test_no_file_but_a_folder_or_bytes(tmp_path):
    with pytest.raises(ValueError, match="the experiment file .* cannot be read: Is a directory"):
        read_experiment(tmp_path)
    (tmp_path / "latin.toml").write_bytes('title = "é"'.encode("latin-1"))
    with pytest.raises(ValueError, match="latin.toml is not a TOML file"):
        read_experiment(tmp_path / "latin.toml")


def test_a_protocol_can_choose_the_transition(experiment_file):
    own = read_experiment(experiment_file()).cells()
    cells = read_experiment(experiment_file(("seeds = [0]", 'seeds = [0]\ntransition = "true"'))).cells()
    assert any(cell.transition for cell in own)
    for before, now in zip(own, cells, strict=True):
        assert now.transition == (before.transition and {"kind": "true"})
    with pytest.raises(ValueError, match=r"\[protocols.paper\] transition: there is no 'truth'; there are true"):
        read_experiment(experiment_file(("seeds = [0]", 'seeds = [0]\ntransition = "truth"')))


def test_a_subset_has_one_owner(experiment_file):
    path = experiment_file(
        ("seeds = [0]", "seeds = [0]\nsubset = 500"), ('title = "Digits"', 'title = "D"\nsubset = 400')
    )
    with pytest.raises(ValueError, match="both set subset"):
        read_experiment(path)


def test_no_such_file(tmp_path):
    with pytest.raises(ValueError, match="there is no experiment file"):
        read_experiment(tmp_path / "none.toml")


@pytest.mark.parametrize("label", ["sym 20", "pair 45", "sym 2.5", "human"])
def test_noise_label_and_back(label):
    assert noise_label(noise_of(label)) == label


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_experiments_of_the_repository(path):
    from unflip.bench.settings import check_settings

    experiment = read_experiment(path)
    assert experiment.name == path.stem
    for protocol in experiment.protocols:
        cells = experiment.cells(protocol=protocol)
        assert len({cell.hash for cell in cells}) == len(cells)  # no two columns of one method
        for cell in cells:
            if cell.seed == 0:
                check_settings(cell)


def test_the_main_table_is_the_paper_s():
    experiment = read_experiment(EXPERIMENTS / "deep.toml")
    assert len(experiment.rows) == 16
    printed = ["gce", "coteaching+", "jocor", "sigua", "mcldce-published"]
    assert list(experiment.paper) == [(*row, method) for row in experiment.rows for method in printed]
    assert experiment.paper["svhn", "pair 40", "sigua"] == (88.97, 0.01)
    by_name = {
        name: {key: experiment.protocols[name].training[key] for key in ("epochs", "decay_from", "batch_size", "lr")}
        for name in ("paper", "short")
    }
    assert by_name["paper"] == {"epochs": 200, "decay_from": 80, "batch_size": 128, "lr": 1e-3}
    assert by_name["short"] == {"epochs": 40, "decay_from": 16, "batch_size": 128, "lr": 1e-3}
    assert len(experiment.protocols["paper"].seeds) == 5
    assert len(experiment.cells()) == 16 * 11 * 5
