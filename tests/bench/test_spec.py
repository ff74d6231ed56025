import re
from pathlib import Path

import pytest

from tests.bench.conftest import TINY
from unflip import registry
from unflip.bench import spec
from unflip.bench.settings import NETWORKS, check_settings, method_kinds
from unflip.bench.spec import find_experiment, read_experiment, shipped_experiments

PAGE = Path(__file__).parents[2] / "docs" / "experiments.md"
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "A tiny experiment"', "", "the file is missing the key 'title'"),
        ("noises", "noise", "the file is missing the key 'noises'"),
        ('title = "A tiny', 'colour = "red"\ntitle = "A tiny', "the file: unknown key 'colour'"),
        ('"sym 20"', '"sym20"', "a noise is written 'sym 20'"),
        ("epochs = 3", "epoch = 3", r"\[protocols.paper\]: unknown key 'epoch'; choose one of seeds, epochs"),
        ("epochs = 3", "", r"\[protocols.paper\] needs epochs for the deep method jocor"),
        (
            "[datasets.digits]",
            "[datasets.mist]",
            r"\[datasets.mist\]: unknown data set 'mist'; choose one of digits",
        ),
        (
            'kind = "mlp"',
            'kind = "mpl"',
            r"\[datasets.digits\] network kind: unknown network 'mpl'; choose one of mlp",
        ),
        (
            'network = { kind = "mlp", hidden = 16 }',
            "",
            r"\[datasets.digits\] needs a network for the deep method jocor",
        ),
        ('transition = "volmin"', "", r"\[datasets.digits\] needs a transition"),
        (
            'transition = "volmin"',
            'transition = "volmim"',
            "unknown estimator of T 'volmim'; choose one of true",
        ),
        (
            'kind = "volmin"',
            'kind = "vol"',
            r"\[transitions.volmin\] kind: unknown estimator of T 'vol'",
        ),
        ('kind = "jocor"', 'kind = "jokor"', r"\[methods.jocor\] kind: unknown method 'jokor'; choose one of ce, gce"),
        (
            'transition = "estimated"',
            'transition = "guess"',
            r"\[methods.mcldce-exact\] transition: unknown estimator of T 'guess'",
        ),
        ('[methods.ridge]\ntitle = "Ridge"', "[methods.ridge]", r"\[methods.ridge\] is missing the key 'title'"),
        ('"sym 20", "pair 40"', '"human"', r"\[datasets.digits\] needs noise_rate"),
        ("lr = ", 'precision = "half"\nlr = ', r"precision must be 'float32' or 'bfloat16'"),
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
        ('[[methods.jocor.when]]\ndataset = ["mnist"]', r"\[\[methods.jocor.when\]\]: unknown dataset 'mnist'"),
        ("[paper.mnist]\n'sym 20' = { ridge = 1.0 }", r"\[paper\]: unknown data set 'mnist'"),
        ("[paper.digits]\n'sym 30' = { ridge = 1.0 }", r"\[paper.digits\]: unknown key 'sym 30'"),
        ("[paper.digits]\n'sym 20' = { rigde = 1.0 }", r"\[paper.digits\] 'sym 20': unknown key 'rigde'"),
        ('[[figures]]\nname = "a"\ntitle = "A"\ndataset = "mnist"', r"\[\[figures\]\]: unknown data set 'mnist'"),
    ],
)
def test_a_mistake_in_what_may_be_left_out(experiment_file, added, message):
    with pytest.raises(ValueError, match=message):
        read_experiment(experiment_file(text=TINY + added))


def test_no_file_but_a_folder_or_bytes(tmp_path):
    with pytest.raises(ValueError, match="the experiment file cannot be read: .* is a folder"):
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
    with pytest.raises(ValueError, match=r"\[protocols.paper\] transition: unknown estimator of T 'truth'"):
        read_experiment(experiment_file(("seeds = [0]", 'seeds = [0]\ntransition = "truth"')))


def test_a_subset_has_one_owner(experiment_file):
    path = experiment_file(
        ("seeds = [0]", "seeds = [0]\nsubset = 500"), ('title = "Digits"', 'title = "D"\nsubset = 400')
    )
    with pytest.raises(ValueError, match="both set subset"):
        read_experiment(path)


def test_no_such_file(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        read_experiment(tmp_path / "none.toml")


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_experiments_of_the_repository(path):
    pytest.importorskip("torch", reason="unflip[deep] is not installed")
    experiment = read_experiment(path)
    assert experiment.name == path.stem
    for protocol in experiment.protocols:
        cells = experiment.cells(protocol=protocol)
        assert len({cell.hash for cell in cells}) == len(cells)  # no two columns of one method
        for cell in cells:
            if cell.seed == 0:
                check_settings(cell)


def test_what_a_protocol_adds_to_the_training(experiment_file):
    experiment = read_experiment(experiment_file(("lr = ", 'precision = "bfloat16"\naugment = "shift"\nlr = ')))
    cell = next(cell for cell in experiment.cells() if cell.network is not None)
    assert (cell.protocol["precision"], cell.protocol["augment"]) == ("bfloat16", "shift")


def test_the_default_precision_leaves_the_hash(experiment_file):
    plain = read_experiment(experiment_file()).cells()
    named = read_experiment(experiment_file(("lr = ", 'precision = "float32"\nlr = '))).cells()
    assert [cell.hash for cell in named] == [cell.hash for cell in plain]


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
    assert len(experiment.cells()) == 16 * 13 * 5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "tiny"', 'name = ""', "the file: name must be a valid folder name"),
        ('name = "tiny"', 'name = "a/b"', "the file: name must be a valid folder name"),
        ('name = "tiny"', 'name = ".."', "the file: name must be a valid folder name"),
        ('title = "A tiny experiment"', "title = 1", "the file: title must be text; got 1"),
        ('["sym 20", "pair 40"]', '"sym 20"', "the file: noises must be a list of one or more different texts"),
        (
            '["sym 20", "pair 40"]',
            "[20]",
            r"noises must be a list of one or more different texts.*got \[20\]",
        ),
        (
            '["sym 20", "pair 40"]',
            '["sym 20", "sym 20"]',
            "the file: noises must be a list of one or more different texts",
        ),
        ('"sym 20"', '"sym 20.0"', "noises: write 'sym 20' instead of 'sym 20.0'"),
        ("epochs = 3", 'epochs = "40"', r"\[protocols.paper\]: epochs must be a whole number, at least 1; got '40'"),
        ("epochs = 3", "epochs = 0", r"\[protocols.paper\]: epochs must be a whole number, at least 1; got 0"),
        ("epochs = 3", "epochs = 3.0", r"\[protocols.paper\]: epochs must be a whole number"),
        ("epochs = 3", "epochs = true", r"\[protocols.paper\]: epochs must be a whole number"),
        ("decay_from = 1", "decay_from = -1", r"\[protocols.paper\]: decay_from must be a whole number, at least 0"),
        ("batch_size = 64", "batch_size = 0", r"\[protocols.paper\]: batch_size must be a whole number, at least 1"),
        ("lr = 0.01", "lr = 0", r"\[protocols.paper\]: lr must be a number above 0; got 0"),
        ("lr = 0.01", "lr = nan", r"\[protocols.paper\]: lr must be a number above 0; got nan"),
        ("lr = 0.01", 'lr = "0.01"', r"\[protocols.paper\]: lr must be a number above 0"),
        (
            "seeds = [0]",
            "seeds = 0",
            r"\[protocols.paper\]: seeds must be a list of one or more different whole numbers",
        ),
        ("seeds = [0]", "seeds = []", r"\[protocols.paper\]: seeds must be a list"),
        ("seeds = [0]", "seeds = [0, 0]", r"\[protocols.paper\]: seeds must be a list of one or more different"),
        (
            "seeds = [0]",
            "seeds = [-1]",
            r"\[protocols.paper\]: seeds must be a list of one or more different whole numbers, 0 or",
        ),
        ("seeds = [0]", 'seeds = ["0"]', r"\[protocols.paper\]: seeds must be a list"),
        ("seeds = [0]", "seeds = [0]\nsubset = 0", r"\[protocols.paper\]: subset must be a whole number, at least 1"),
        ("seeds = [0]", "seeds = [0]\nsubset = { digits = 0 }", "subset: digits must be a whole number, at least 1"),
        ("seeds = [0]", "seeds = [0]\nsubset = { mnist = 9 }", "subset: unknown key 'mnist'; choose one of digits"),
        ("seeds = [0]", "seeds = [0]\nsubset = 5000", "a subset of 5000 is too large; digits has 1078 rows"),
        ("seeds = [0]", "seeds = [0]\nnetwork = { width = 0.1 }", "network of digits: unknown key 'width'"),
        ("seeds = [0]", 'seeds = [0]\ndatasets = "digits"', r"\[protocols.paper\]: datasets must be a list"),
        ("hidden = 16", "hiden = 16", r"\[datasets.digits\] network: unknown key 'hiden'; choose one of kind, hidden"),
        ("hidden = 16", "hidden = 1.5", r"\[datasets.digits\] network: hidden must be a whole number"),
        ('kind = "mlp", hidden = 16', "hidden = 16", r"\[datasets.digits\] network is missing the key 'kind'"),
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


@pytest.mark.parametrize(
    ("heading", "rules"),
    [
        ("The file", spec.FILE),
        ("Data sets", spec.DATASET),
        ("Networks", [*NETWORKS, *spec.NETWORK]),
        ("Protocols", spec.PROTOCOL),
        ("Estimators of T", spec.TRANSITION),
        ("Methods", spec.METHOD),
        ("Special cases", spec.CASE),
        ("Figures", spec.FIGURE),
    ],
)
def test_the_page_documents_every_key(heading, rules):
    text = re.split(rf"^#+ {heading}.*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1].split("\n#")[0]
    assert [key for key in rules if f"`{key}`" not in text and f'`"{key}"`' not in text] == []


def test_the_page_names_every_deep_method_and_estimator_of_t():
    text = PAGE.read_text(encoding="utf-8")
    for name in [*registry.names("deep"), *registry.names("transition"), "ridge", "logistic"]:
        assert f'`"{name}"`' in text
    assert {"ule", "MCLDCEClassifier"} < set(method_kinds())


def test_the_example_of_the_page_is_complete(tmp_path):
    pytest.importorskip("torch", reason="unflip[deep] is not installed")
    example = PAGE.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    (tmp_path / "mine.toml").write_text(example, encoding="utf-8")
    experiment = read_experiment(tmp_path / "mine.toml")
    assert len(experiment.cells()) == 2 * 4 * 2
    for cell in experiment.cells():
        check_settings(cell)


def test_an_experiment_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shipped = shipped_experiments()
    assert {"deep", "linear", "human", "recipe", "animal10n"} <= shipped.keys()
    path, results = find_experiment("deep")
    assert (path, results) == (shipped["deep"], shipped["deep"].parents[1] / "results")
    assert read_experiment(path).name == "deep"
    (tmp_path / "deep").write_text("x = 1")  # a file goes before a name
    assert find_experiment("deep")[0] == Path("deep")
    with pytest.raises(ValueError, match="no experiment of this name; those are .*deep"):
        find_experiment("shallow")
    assert find_experiment("experiments/mine.toml")[1] == tmp_path / "results"


def test_an_experiment_of_an_installed_package(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "unflip"
    (package / "experiments").mkdir(parents=True)
    (package / "experiments" / "deep.toml").write_text("x = 1")
    monkeypatch.setattr(spec, "__file__", str(package / "bench" / "spec.py"))
    assert find_experiment("deep") == (package / "experiments" / "deep.toml", Path("results"))  # in the current folder
