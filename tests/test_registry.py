"""One registry: all other lists derive from it, and a new method is one file and one line in it."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import unflip
from unflip import registry

SOURCE = Path(unflip.__file__).parent

# Three toy methods, each one file and one line.
LINEAR = '''
"""The mean of each class, as a linear classifier."""

import numpy as np
from sklearn.utils.extmath import softmax

from unflip._base import LinearClassifier, check_training_data


class ToyClassifier(LinearClassifier):
    """Score a sample by its distance to the mean of each noisy class."""

    shrinkage_: float

    def __init__(self, shrinkage=0.0, random_state=None):
        self.shrinkage = shrinkage
        self.random_state = random_state

    def fit(self, X, y):
        X, codes, _ = check_training_data(self, X, y)
        means = np.array([X[codes == k].mean(axis=0) for k in range(len(self.classes_))])
        self.coef_ = (1 - self.shrinkage) * means
        self.intercept_ = -0.5 * (self.coef_**2).sum(axis=1)
        self.shrinkage_ = float(self.shrinkage)
        return self

    def predict_proba(self, X):
        return softmax(self._scores(X))
'''
DEEP = '''
"""Cross-entropy with a constant added."""

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import Method, weighted_mean


class ToyMethod(Method):
    name = "toydeep"

    def __init__(self, network_factory, n_classes, transition=None, prior=None, *, offset: float = 0.0):
        super().__init__(network_factory, n_classes, transition, prior)
        self.offset = offset

    def forward(self, x, y, epoch, weight=None):
        return weighted_mean(cross_entropy(self.logits(x), y), weight) + self.offset
'''
TRANSITION = '''
"""T by guessing: symmetric noise at a given rate."""

import numpy as np
from sklearn.base import BaseEstimator

from unflip._validation import check_labels
from unflip.noise import symmetric


class ToyTransition(BaseEstimator):
    def __init__(self, rate=0.25, classes=None, random_state=None):
        self.rate = rate
        self.classes = classes
        self.random_state = random_state

    def fit(self, X, y):
        self.classes_, _ = check_labels(y, self.classes)
        self.transition_ = symmetric(len(self.classes_), self.rate)
        return self
'''
LINES = """ENTRIES = [
    Entry("toy", "linear.toy", "ToyClassifier", "linear", robust=True, saved=True),
    Entry("toydeep", "deep.methods.toy", "ToyMethod", "deep", robust=True, networks=1),
    Entry("toyt", "transition.toy", "ToyTransition", "transition"),
"""

EXPERIMENT = """
name = "toys"
title = "Toys"
noises = ["sym 20"]

[protocols.paper]
epochs = 1
decay_from = 0
batch_size = 256
lr = 0.01
seeds = [0]

[datasets.digits]
title = "Digits"
network = { kind = "mlp", hidden = 8 }
transition = "guess"

[transitions.guess]
kind = "toyt"
rate = 0.2

[methods.toy]
title = "Toy"
kind = "ToyClassifier"

[methods.corrected]
title = "MC-LDCE"
kind = "MCLDCEClassifier"
transition = "estimated"
"""

DEEP_ROW = """
[methods.deep]
title = "Toy network"
kind = "toydeep"
offset = 1.0
"""

PYTHON = """
import warnings
warnings.simplefilter("error")
import json
import numpy as np
import pandas as pd
import unflip
from unflip.linear import ToyClassifier
from unflip.transition import ToyTransition, estimate_transition

assert unflip.ToyClassifier is ToyClassifier and "ToyClassifier" in dir(unflip) and "ToyTransition" in unflip.__all__
frame = pd.read_csv("people.csv")
X, y = frame[["age", "pay"]].to_numpy(), frame["job"].to_numpy()
model = ToyClassifier(0.1).fit(X, y)
loaded = unflip.load(model.save("toy-python"))
assert loaded.shrinkage_ == 0.1
np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
T = estimate_transition(X, y, "toyt", rate=0.3)
np.testing.assert_array_equal(T, unflip.symmetric(3, 0.3))
corrected = unflip.MCLDCEClassifier(ToyTransition(0.1)).fit(X, y)
np.testing.assert_array_equal(corrected.transition_, unflip.symmetric(3, 0.1))

# Registered as robust: the audit takes its probabilities as those of the clean label.
clean = unflip.find_label_errors(X, y, ToyClassifier(), unflip.symmetric(3, 0.2), cv=3, random_state=0)
rows = np.arange(len(y))
seen = unflip.find_label_errors(X, y, unflip.VolMin(), ToyTransition(0.2), cv=3, random_state=0)
print(json.dumps({"suspects": len(clean.suspects), "with T": len(seen.suspects), "n": len(rows)}))
warnings.resetwarnings()
"""

PYTHON_DEEP = """
import numpy as np
import pandas as pd
from unflip.deep import NoisyLabelClassifier
from unflip import find_label_errors, load

frame = pd.read_csv("people.csv")
X, y = frame[["age", "pay"]].to_numpy(), frame["job"].to_numpy()
model = NoisyLabelClassifier("toydeep", epochs=1, network_options={"hidden": 4}, random_state=0, progress=False)
loaded = load(model.fit(X, y).save("toy-deep-python"))
np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), rtol=1e-6)
find_label_errors(X, y, model, np.eye(3) * 0.7 + 0.1, cv=2, random_state=0)
"""

COMMANDS = """
import json
import sys
from typer.testing import CliRunner
from unflip.cli import app

done = [CliRunner().invoke(app, command) for command in json.loads(sys.argv[1])]
print(json.dumps([(one.exit_code, one.stdout if one.exit_code == 0 else one.output) for one in done]))
"""

needs_tables = pytest.mark.skipif(not (find_spec("pandas") and find_spec("safetensors")), reason="needs unflip[data]")
needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="needs unflip[deep]")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the package with three more files and three more lines in the registry, and a table to work on."""
    folder = tmp_path_factory.mktemp("house")
    package = folder / "src" / "unflip"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in {"linear/toy": LINEAR, "deep/methods/toy": DEEP, "transition/toy": TRANSITION}.items():
        (package / f"{name}.py").write_text(text)
    lines = (package / "registry.py").read_text()
    assert lines.count("ENTRIES = [\n") == 1
    (package / "registry.py").write_text(lines.replace("ENTRIES = [\n", LINES))
    rng = np.random.default_rng(0)
    job = rng.integers(3, size=240)
    rows = zip(25 + 15 * job + rng.normal(0, 3, 240), 30 + 20 * job + rng.normal(0, 4, 240), job, strict=True)
    table = [f"{age:.1f},{pay:.1f},{('baker', 'doctor', 'pilot')[k]}" for age, pay, k in rows]
    (folder / "people.csv").write_text("\n".join(["age,pay,job", *table]) + "\n")
    return folder


def run(house, *arguments):
    path = os.pathsep.join([str(house / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [sys.executable, *arguments]
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, cwd=house, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_commands(house, *commands, before=""):
    """Return what each command prints; all of them run in one process, because imports take longest.

    The first line is what the code prints that runs before them.
    """
    first, _, done = run(house, "-c", before + COMMANDS, json.dumps(commands)).strip().rpartition("\n")
    done = json.loads(done)
    assert all(code == 0 for code, _ in done), done
    return [first, *(shown for _, shown in done)]


@pytest.mark.slow  # tests/bench/test_settings.py has another toy network
@needs_tables
@needs_torch
def test_a_toy_network_from_python(house):
    run(house, "-c", PYTHON_DEEP)


def experiment(house, name, text):
    """Write an experiment; return the commands that run it and show it."""
    (house / f"{name}.toml").write_text(text)
    place = (f"{name}.toml", "--store", name)
    return ("bench", "run", *place, "--jobs", "1"), ("bench", "status", *place, "--json")


@needs_tables
def test_toys(house):
    """From Python, on the command line, and in an experiment."""
    toy = ("fit", "people.csv", "--label", "job", "--method", "toy", "--out", "toy-model", "--json")
    t = ("--transition", "toyt", "--json")
    shown = run_commands(
        house,
        ("fit", "--help"),
        toy,
        ("predict", "toy-model", "people.csv", "--out", "predictions.csv"),
        ("card", "toy-model"),
        ("fit", "people.csv", "--label", "job", "--model", "mcldce", *t, "--out", "t-model"),
        ("audit", "people.csv", "--label", "job", "--network", "linear", *t, "--out", "t-audit"),
        *experiment(house, "toys", EXPERIMENT),
        before=PYTHON,
    )
    found, explained, fitted, _, card, corrected, audited, _, status = shown
    found = json.loads(found)
    assert 0 <= found["suspects"] < found["n"]
    assert "toy" in explained
    assert json.loads(fitted)["method"] == "toy"
    assert "ToyClassifier" in card
    np.testing.assert_allclose(json.loads(corrected)["transition"], unflip.symmetric(3, 0.25))
    assert json.loads(audited)["n_samples"] == 240
    assert json.loads(status)


@pytest.mark.slow
@needs_tables
@needs_torch
def test_a_toy_network_on_the_command_line(house):
    words = ("people.csv", "--label", "job", "--network", "mlp", "--method", "toydeep", "--epochs", "1")
    found = json.loads(run(house, "-m", "unflip.cli", "fit", *words, "--out", "deep-model", "--json"))
    assert found["method"] == "toydeep"


@pytest.mark.slow
@needs_torch
def test_a_toy_network_in_an_experiment(house):
    *_, status = run_commands(house, *experiment(house, "toys-deep", EXPERIMENT + DEEP_ROW))
    assert json.loads(status)


def test_names_are_unique_within_a_family():
    named = [(entry.name, entry.family) for entry in registry.ENTRIES if entry.name is not None]
    assert len(named) == len(set(named))
    classes = [entry.cls for entry in registry.ENTRIES]
    assert len(classes) == len(set(classes))


def test_unknown_name():
    with pytest.raises(ValueError, match=r"unknown method 'gcee'; choose one of ce, gce"):
        registry.find("gcee", "deep")
    assert registry.find_class("Nothing") is None
    with pytest.raises(ValueError, match="Nothing is not in the registry"):
        registry.make("Nothing")


@pytest.mark.parametrize("entry", registry.ENTRIES, ids=lambda entry: f"{entry.family}-{entry.cls}")
def test_a_line_tells_the_truth(entry):
    if entry.networks or entry.cls == "NoisyLabelClassifier":
        pytest.importorskip("torch")
    cls = entry.load()
    assert hasattr(cls, "save") == entry.saved
    assert not entry.biased or (entry.takes_transition and not entry.robust)
    if entry.family == "linear":
        assert ("transition" in cls().get_params()) == entry.takes_transition
    if entry.family == "deep":
        assert (cls.name, cls.n_networks) == (entry.name, entry.networks)
        assert cls.needs_transition == entry.takes_transition
        assert hasattr(cls, "transition") == entry.learns_transition
