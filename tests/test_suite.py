"""The suite in benchmarks/: its noises, its records and its arithmetic."""

import argparse
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

from unflip.metrics import CleanAccuracy

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NAMES = ("_shared", "_suite_report", "suite")


@pytest.fixture(scope="module")
def suite():
    if not BENCHMARKS.exists():
        pytest.skip("the benchmarks are not in the source distribution")
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("suite")
    sys.path.remove(str(BENCHMARKS))
    for name in NAMES:
        del sys.modules[name]


@pytest.fixture(scope="module")
def summary(suite):
    return sys.modules["_suite_report"]


@pytest.fixture
def table(tmp_path):
    """A set of 60 rows with three classes of different sizes."""
    path = tmp_path / "tables" / "small.csv.gz"
    path.parent.mkdir()
    y = np.repeat([3, 10, 7], [30, 20, 10])
    x = np.random.default_rng(0).normal(size=60)
    pd.DataFrame({"x": x + y, "c": np.where(x > 0, "yes", "no"), "target": y}).to_csv(path, index=False)
    return path


def record(name, noise, method, accuracy, **more):
    base = {"set": name, "noise": noise, "draw": 0, "method": method, "accuracy": accuracy, "seconds": 1.0}
    return base | {"rows": 1000, "test_rows": 300, "features": 4, "noise_rate": 0.0} | more


# ---- data and noise ----


def test_the_split(suite):
    y = np.arange(10_000) % 4
    y[5] = 9
    train, test = suite.split(y, 0)
    assert (len(train), set(train) & set(test)) == (1500, set())
    assert set(y[test]) <= set(y[train])
    assert 4999 <= len(test) <= 5000
    assert len(suite.split(y[:100], 0)[0]) == 70


def test_a_table_is_read(suite, table):
    task = suite.load(table, 0)
    assert suite.files(table.parents[1]) == {"small": table}
    assert (task.rows, len(task.y), len(task.y_test)) == (60, 42, 18)
    assert task.linear[0].shape == (42, 3)
    assert task.trees == task.linear
    np.testing.assert_allclose(task.scaled[0].mean(axis=0), 0, atol=1e-12)
    # Codes follow the sorted classes, so x is near 3, 7, 10.
    means = [task.linear[0][task.y == code, 0].mean() for code in range(3)]
    np.testing.assert_allclose(means, [3, 7, 10], atol=1)


def test_texts_are_sparse_for_linear_models_and_dense_for_trees(suite, tmp_path):
    words = [f"w{i}" for i in range(150)]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, 20)) for _ in range(400)]
    path = tmp_path / "text" / "some.csv.gz"
    path.parent.mkdir()
    pd.DataFrame({"text": texts, "label": np.arange(400) % 2, "split": "train"}).to_csv(path, index=False)
    task = suite.load(path, 0)
    assert hasattr(task.linear[0], "tocsr")
    assert task.scaled == task.linear
    assert task.trees[1].shape == (120, 100)


@pytest.mark.parametrize(
    ("noise", "T"),
    [
        ("none", np.eye(3)),
        ("sym40", [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]),
        ("pair35", [[0.65, 0.35, 0], [0, 0.65, 0.35], [0.35, 0, 0.65]]),
        ("pair20", [[0.8, 0.2, 0], [0, 0.8, 0.2], [0.2, 0, 0.8]]),
        ("two40", [[0.6, 0.4, 0], [0, 1, 0], [0, 0.4, 0.6]]),
    ],
)
def test_the_noises(suite, noise, T):
    y = np.repeat([0, 1, 2], [10, 30, 20])
    np.testing.assert_allclose(suite.transition(noise, y), T)


def test_two_into_one_takes_the_largest_three_classes(suite):
    y = np.repeat([0, 1, 2, 3], [5, 40, 30, 20])
    np.testing.assert_allclose(np.diag(suite.transition("two40", y)), [1, 1, 0.6, 0.6])
    np.testing.assert_allclose(suite.transition("two40", np.array([0, 1, 1])), [[0.6, 0.4], [0, 1]])


def test_noise_that_depends_on_the_features_is_described_by_its_flips(suite, table):
    task = suite.load(table, 0)
    noisy, T = suite.flipped(task, "idn30", [0])
    prior = np.bincount(task.y) / len(task.y)
    assert suite.noise_rate(prior, T) == pytest.approx(np.mean(noisy != task.y))
    np.testing.assert_allclose(T.sum(axis=1), 1)


# ---- records ----


class Counted(DummyClassifier):
    fits = 0

    def fit(self, X, y):
        Counted.fits += 1
        if len(np.unique(y)) == 1:
            raise ValueError("one class")
        return super().fit(X, y)


def test_what_is_there_is_not_run_again(suite, table, tmp_path):
    methods = {"dummy": suite.Method(lambda sparse, seed: Counted(), "linear")}
    records, cell = tmp_path / "records", ("small", "pair35", 0)
    Counted.fits = 0
    lines = [suite.run_cell(table, cell, methods, records, methods) for _ in range(2)]
    assert (Counted.fits, list(map(len, lines))) == (1, [1, 0])
    path = suite.record_path(records, cell, "dummy")
    found = json.loads(path.read_text())
    assert (found["set"], found["rows"], found["classes"]) == ("small", 60, 3)
    assert 0 < found["noise_rate"] < 0.7
    path.write_text(json.dumps(found | {"error": "it failed"}))
    suite.run_cell(table, cell, methods, records, methods)
    assert Counted.fits == 2
    assert "error" not in json.loads(path.read_text())


def test_a_failure_is_recorded_and_does_not_stop_the_others(suite, table, tmp_path):
    def broken(sparse, seed):
        raise ValueError("broken")

    methods = {"broken": suite.Method(broken, "trees"), "dummy": suite.Method(lambda *_: Counted(), "scaled")}
    lines = suite.run_cell(table, ("small", "none", 0), methods, tmp_path, methods)
    assert lines[0].endswith("ValueError: broken")
    assert not suite.is_done(suite.record_path(tmp_path, ("small", "none", 0), "broken"))
    assert suite.is_done(suite.record_path(tmp_path, ("small", "none", 0), "dummy"))


def test_the_plan_has_what_is_missing_and_the_clean_twins(suite, tmp_path):
    cells = dict(suite.plan(["a", "b"], ["sym40"], 1, ["ridge", "auto"], tmp_path))
    assert cells[("a", "sym40", 0)] == ["ridge", "auto"]
    assert cells[("b", "none", 0)] == ["ridge"]
    path = suite.record_path(tmp_path, ("a", "none", 0), "ridge")
    path.parent.mkdir()
    path.write_text("{}")
    assert len(suite.plan(["a", "b"], ["sym40"], 1, ["ridge", "auto"], tmp_path)) == len(cells) - 1


def test_what_a_model_says_about_itself(suite):
    T = np.array([[0.8, 0.2], [0.3, 0.7]])
    candidates = [
        SimpleNamespace(name=name, corrected=chosen, accuracy=CleanAccuracy(a, a - 0.1, a + 0.1, 0.05),
                        log_likelihood=-1.0, chosen=chosen)
        for name, a, chosen in (("trees", 0.8, True), ("logistic", 0.7, False))
    ]  # fmt: skip
    model = SimpleNamespace(transition_=T, class_prior_=[0.5, 0.5], candidates_=candidates, overlap_=False)
    found = suite.described(model, np.array([0, 1, 1]), np.eye(2), accuracy=0.85)
    assert found["noise_rate_estimated"] == pytest.approx(0.25)
    assert found["transition_error"] == pytest.approx(0.5)
    assert (found["chosen"], found["corrected"], found["covered"], found["overlap"]) == ("trees", True, True, False)
    assert [c["name"] for c in found["candidates"]] == ["trees", "logistic"]
    assert not suite.described(model, np.array([0, 1, 1]), np.eye(2), accuracy=0.95)["covered"]
    assert suite.described(DummyClassifier(), np.array([0, 1]), np.eye(2), 0.5) == {}


# ---- arithmetic ----


def test_wins_losses_and_ties(summary):
    assert summary.tally([1.0, 0.51, 0.5, -0.5, -0.6]) == (2, 1, 2)


def test_the_share_of_the_gap_is_a_ratio_of_means(summary):
    assert summary.share_closed([(1.0, 2.0), (5.0, 6.0)]) == pytest.approx(6 / 8)
    assert summary.share_closed([]) is None
    assert summary.share_closed([(1.0, 0.0)]) is None


def test_gaps_and_differences(summary):
    everything = summary.Results(
        [
            record("a", "none", "boosted", 0.9),
            record("a", "sym40", "boosted", 0.7),
            record("a", "sym40", "corrected-boosted", 0.8),
            record("b", "sym40", "boosted", 0.6),  # without clean labels, so there is no gap yet
            record("b", "sym40", "corrected-boosted", 0.7),
        ]
    )
    noisy = everything.where(lambda cell, _: cell[1] != "none")
    assert noisy.gaps("corrected-boosted", "boosted", everything) == [pytest.approx((10, 20))]
    assert noisy.differences("corrected-boosted", "boosted") == pytest.approx({c: 10 for c in noisy.cells})
    assert noisy.accuracy(("a", "sym40", 0), "hindsight") is None
    assert noisy.accuracy(("a", "sym40", 0), "best") == pytest.approx(80)


def test_coverage_with_and_without_the_error_of_the_test(summary):
    results = summary.Results(
        record(name, "sym40", "auto", 0.8, low=low, high=0.9) for name, low in (("a", 0.7), ("b", 0.82), ("c", 0.88))
    )
    inside, nearly = results.coverage("auto")
    assert (inside.tolist(), nearly.tolist()) == ([True, False, False], [True, True, False])
    assert not len(summary.Results([]).coverage("auto")[0])


def test_the_goals(summary):
    def cell(name, noise, auto, rate, **more):
        said = {"noise_rate_estimated": rate, "low": 0.0, "high": 1.0, "overlap": False} | more
        truth = 0.0 if noise == "none" else 0.4
        return [
            *(record(name, noise, method, 0.7) for method in summary.UNCORRECTED),
            record(name, noise, "cleanlab-logistic", 0.75),
            record(name, noise, "auto", auto, noise_rate=truth, **said),
        ]

    results = summary.Results(
        [
            *cell("a", "sym40", 0.9, 0.42),
            *cell("b", "sym40", 0.68, 0.34),
            *cell("a", "none", 0.7, 0.01),
            *cell("b", "none", 0.68, 0.2),
        ]
    )
    found = {goal.text: goal for goal in summary.goals(results, results)}

    def of(start):
        return next(goal for text, goal in found.items() if text.startswith(start))

    lead = "auto, points above the best uncorrected model chosen with hindsight"
    assert (of(f"{lead}: mean").value, of(f"{lead}: mean").reached) == ("9.00", "yes")
    assert of(f"{lead}: cells").measured == pytest.approx(50)
    assert (of(f"{lead}: worst").value, of(f"{lead}: worst").reached) == ("-2.00", "yes")
    assert of("auto, points below the best of all methods").measured == pytest.approx(3.5)  # 0 and 75 - 68
    assert of("auto, cells ahead of cleanlab-logistic").reached == "**no**"
    assert (of("auto, points above cleanlab-boosted").reached, of("auto, points above cleanlab-boosted").count) == (
        "-",
        0,
    )
    assert of("clean labels: auto, points lost to the best uncorrected model: worst").measured == pytest.approx(2)
    assert of("clean labels: auto, sets with at most 2 %").measured == pytest.approx(50)
    assert (of("clean labels: auto, sets with more").measured, of("clean labels: auto, sets with more").count) == (0, 1)
    assert of("auto, error of the noise rate").measured == pytest.approx(4)
    assert of("auto, intervals that contain the test accuracy, noisy").measured == pytest.approx(100)


def test_the_bound(summary, capsys, tmp_path):
    """In cells that both have: what auto and the true T gain, and how many cells have noise that was not found."""
    cells = [("a", 0.80, 0.9, 0.0, 2), ("b", 0.65, 0.8, 0.38, 3), ("c", 0.9, None, 0.4, 3)]
    records = []
    for name, auto, oracle, rate, classes in cells:
        for noise, accuracy in (("none", 0.9), ("sym40", 0.7)):
            records += [record(name, noise, method, accuracy, classes=classes) for method in summary.UNCORRECTED]
        more = {"noise_rate": 0.4, "noise_rate_estimated": rate, "classes": classes}
        records.append(record(name, "sym40", "auto", auto, **more))
        records += [] if oracle is None else [record(name, "sym40", summary.ORACLE, oracle, **more)]
    options = argparse.Namespace(out=tmp_path / "suite.md")
    summary.within_reach(summary.Report("Suite", "python", options), summary.Results(records), ["none", "sym40"])
    text = capsys.readouterr().out
    assert "lose 20.0 points to noise" in text
    assert "| sym40 | 2 | +2.50 | 50 | -5.00 | +15.00 | 0 | +10.00 |" in text
    assert "| two classes | 1 | 100 | 40.0 | +10.00 |" in text
    assert "| more classes | 2 | 0 | 1.0 | +7.50 |" in text


def test_a_report_of_some_records(suite, summary, tmp_path, capsys):
    records = tmp_path / "records"
    for r in [
        record("a", "none", "ridge", 0.9),
        record("a", "sym40", "ridge", 0.8),
        record("a", "sym40", "mcldce", 0.85),
    ]:
        path = suite.record_path(records, (r["set"], r["noise"], r["draw"]), r["method"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(r))
    options = argparse.Namespace(records=records, out=tmp_path / "suite.md", noises=["none", "sym40"], draws=1)
    twins = {name: method.twin for name, method in suite.METHODS.items()}
    summary.write(summary.Report("Suite", "python", options), options, ["a", "b"], twins)
    text = (tmp_path / "suite.md").read_text()
    assert "2 of 4 cells" in text
    assert "| mcldce | ridge | +5.00 | 1 / 0 / 0 | +5.00 (a, sym40) |" in text
    assert "| mcldce | - | 50 | 50 |" in text  # half of the gap, under sym40 and over all noises
    assert capsys.readouterr().out.strip() == text.strip()
    assert len(pd.read_csv(tmp_path / "suite.csv")) == 3
