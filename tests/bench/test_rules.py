import pytest

from tests.bench.conftest import TINY
from unflip.bench.rules import NETWORKS
from unflip.bench.spec import read_experiment


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "tiny"', 'name = ""', "the file: name must be a name that a folder can have"),
        ('name = "tiny"', 'name = "a/b"', "the file: name must be a name that a folder can have"),
        ('name = "tiny"', 'name = ".."', "the file: name must be a name that a folder can have"),
        ('title = "A tiny experiment"', "title = 1", "the file: title must be text; got 1"),
        ('["sym 20", "pair 40"]', '"sym 20"', "the file: noises must be a list of different texts"),
        ('["sym 20", "pair 40"]', "[20]", r"the file: noises must be a list of different texts.*got \[20\]"),
        ('["sym 20", "pair 40"]', '["sym 20", "sym 20"]', "the file: noises must be a list of different texts"),
        ('"sym 20"', '"sym 20.0"', "noises: write 'sym 20' for 'sym 20.0'"),
        ("epochs = 3", 'epochs = "40"', r"\[protocols.paper\]: epochs must be a whole number, at least 1; got '40'"),
        ("epochs = 3", "epochs = 0", r"\[protocols.paper\]: epochs must be a whole number, at least 1; got 0"),
        ("epochs = 3", "epochs = 3.0", r"\[protocols.paper\]: epochs must be a whole number"),
        ("epochs = 3", "epochs = true", r"\[protocols.paper\]: epochs must be a whole number"),
        ("decay_from = 1", "decay_from = -1", r"\[protocols.paper\]: decay_from must be a whole number, at least 0"),
        ("batch_size = 64", "batch_size = 0", r"\[protocols.paper\]: batch_size must be a whole number, at least 1"),
        ("lr = 0.01", "lr = 0", r"\[protocols.paper\]: lr must be a number above 0; got 0"),
        ("lr = 0.01", "lr = nan", r"\[protocols.paper\]: lr must be a number above 0; got nan"),
        ("lr = 0.01", 'lr = "0.01"', r"\[protocols.paper\]: lr must be a number above 0"),
        ("seeds = [0]", "seeds = 0", r"\[protocols.paper\]: seeds must be a list of different whole numbers"),
        ("seeds = [0]", "seeds = []", r"\[protocols.paper\]: seeds must be a list"),
        ("seeds = [0]", "seeds = [0, 0]", r"\[protocols.paper\]: seeds must be a list of different"),
        ("seeds = [0]", "seeds = [-1]", r"\[protocols.paper\]: seeds must be a list of different whole numbers, 0 or"),
        ("seeds = [0]", 'seeds = ["0"]', r"\[protocols.paper\]: seeds must be a list"),
        ("seeds = [0]", "seeds = [0]\nsubset = 0", r"\[protocols.paper\]: subset must be a whole number, at least 1"),
        ("seeds = [0]", "seeds = [0]\nsubset = 5000", "digits has 1078 training rows; a subset of 5000 is too large"),
        ("seeds = [0]", "seeds = [0]\nnetwork = { width = 0.1 }", "network of digits: there is no 'width'"),
        ("seeds = [0]", 'seeds = [0]\ndatasets = "digits"', r"\[protocols.paper\]: datasets must be a list"),
        ("hidden = 16", "hiden = 16", r"\[datasets.digits\] network: there is no 'hiden'; there are kind, hidden"),
        ("hidden = 16", "hidden = 1.5", r"\[datasets.digits\] network: hidden must be a whole number"),
        ('kind = "mlp", hidden = 16', "hidden = 16", r"\[datasets.digits\] network lacks kind"),
        ('kind = "volmin"', 'kind = ["volmin"]', r"\[transitions.volmin\]: kind must be text"),
        ("alpha = 0.1", "alpha = 2020-01-01", r"\[transitions.volmin\]: alpha must be text, true, false or a finite"),
        ("dropout = 0.5", "dropout = 5", r"\[methods.mcldce-exact\]: dropout must be a number from 0 to less than 1"),
        ("dropout = 0.5", "scale = inf", r"\[methods.mcldce-exact\]: scale must be text, true, false or a finite"),
        ('kind = "jocor"', 'kind = "jocor"\nwhen = 1', r"\[methods.jocor\]: when must be a list of tables; got 1"),
        ('transition = "estimated"', "transition = 1", r"\[methods.mcldce-exact\]: transition must be text; got 1"),
    ],
)
def test_a_value_of_a_wrong_kind_is_named_with_its_place(experiment_file, old, new, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_experiment(experiment_file((old, new)))
    assert "tiny.toml: " in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TINY.split("[protocols")[0] + "datasets = []\nmethods = {}\nprotocols = {}", "datasets must be a table with"),
        (TINY + '[[methods.linear.when]]\nnoise = "sym 20"', r"\[\[methods.linear.when\]\]: noise must be a list"),
        (TINY + "[paper]\ndigits = 1", r"\[paper.digits\] must be a table; got 1"),
        (TINY + "[paper.digits]\n'sym 20' = 1", r"\[paper.digits\]: sym 20 must be a table; got 1"),
        (
            TINY + "[paper.digits]\n'sym 20' = { ridge = '1' }",
            "'sym 20': ridge must be a number, or mean and deviation",
        ),
        (TINY + "[paper.digits]\n'sym 20' = { ridge = [1, 2, 3] }", "ridge must be a number, or mean and deviation"),
        ("figures = 1\n" + TINY, "figures must be a list of tables; got 1"),
    ],
)
def test_a_table_of_a_wrong_kind_is_named_with_its_place(experiment_file, text, message):
    with pytest.raises(ValueError, match=message):
        read_experiment(experiment_file(text=text))


def test_options_of_networks_are_those_of_unflip_deep():
    from inspect import signature

    from unflip.bench.settings import network_class

    for kind, options in NETWORKS.items():
        parameters = signature(network_class(kind)).parameters
        assert list(options) == [name for name, parameter in parameters.items() if parameter.default != parameter.empty]
