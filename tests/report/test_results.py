import dataclasses
import math

import numpy as np
import pytest

from tests.report.conftest import COMMIT, OTHER
from unflip.report.results import gather, made_by

KEY = ("mnist", "sym 20", "gce")
RISING = 12 * [0.1] + 5 * [0.90] + 5 * [0.92]  # the last ten epochs: mean 91, deviation 1
STEADY = 12 * [0.2] + 10 * [0.93]


def marks(experiment, records, **options):
    return gather(experiment, records, options.pop("protocol", "short"), **options).cells[KEY].marks


def test_mean_and_deviation_over_trials(experiment, make):
    records = [make(*KEY, RISING, seed=0), make(*KEY, STEADY, seed=1)]
    result = gather(experiment, records, "short").cells[KEY]
    assert (result.trials, result.epochs, list(result.deviations)) == (2, 22, ["trials", "epochs"])
    assert math.isclose(result.mean, 92)
    assert math.isclose(result.deviations["trials"], 1)  # of 91 and 93, n in the denominator
    assert math.isclose(result.deviations["epochs"], 0.5)  # of 1 and 0
    assert result.seconds == 2.5


def test_one_trial_deviates_over_its_epochs(experiment, make):
    result = gather(experiment, [make(*KEY, RISING)], "short").cells[KEY]
    assert list(result.deviations) == ["epochs"]
    assert math.isclose(result.mean, 91)
    assert math.isclose(result.deviations["epochs"], 1)


@pytest.mark.parametrize(("epochs", "last"), [(1, 1), (2, 1), (3, 1), (6, 3), (19, 9), (20, 10), (40, 10)])
def test_of_a_short_run_its_second_half_counts(experiment, make, epochs, last):
    curve = np.where(np.arange(epochs) < epochs - last, 0.1, 0.7)
    curve[-1] = 0.8
    result = gather(experiment, [make(*KEY, curve)], "short").cells[KEY]
    assert result.last.shape == (1, last)
    assert math.isclose(result.mean, 70 + 10 / last)


@pytest.mark.parametrize("accuracy", [[0.875], 0.875])
def test_one_number_has_no_deviation(experiment, make, accuracy):
    record = make("mnist", "sym 20", "ridge", [0.875])
    record["result"]["accuracy"] = accuracy
    result = gather(experiment, [record], "short").cells["mnist", "sym 20", "ridge"]
    assert (result.mean, result.deviations) == (87.5, {})


def test_failed_records_and_other_protocols_do_not_count(experiment, make):
    failed = make(*KEY, STEADY, seed=1, status="failed", result=None)
    other = make(*KEY, STEADY, seed=2, protocol="paper")
    result = gather(experiment, [make(*KEY, RISING), failed, other], "short").cells[KEY]
    assert result.trials == 1
    assert math.isclose(result.mean, 91)


def test_the_order_of_records_does_not_matter(experiment, make):
    records = [make(*KEY, np.full(12, 0.8 + 0.01 * seed), seed=seed) for seed in range(3)]
    forth, back = (gather(experiment, order, "short").cells[KEY] for order in (records, records[::-1]))
    np.testing.assert_array_equal(forth.curves, back.curves)


def test_rows_and_methods_keep_the_order_of_the_experiment(experiment, make):
    records = [make("cifar10", "sym 20", "mcldce", STEADY), make("mnist", "pair 40", "gce", STEADY)]
    results = gather(experiment, records, "short")
    assert results.rows == [("mnist", "pair 40"), ("cifar10", "sym 20")]
    assert results.methods == ["gce", "mcldce"]


def test_a_cell_that_the_protocol_does_not_change_is_the_papers(experiment, make):
    records = [make(*KEY, STEADY), make("mnist", "sym 20", "ridge", [0.9])]
    cells = gather(experiment, records, "short").cells
    assert cells[KEY].marks == ("protocol",)
    assert cells["mnist", "sym 20", "ridge"].marks == ()  # epochs are nothing to ridge
    assert marks(experiment, [make(*KEY, STEADY, protocol="paper")], protocol="paper") == ()


def test_settings_that_are_no_longer_the_experiments_are_marked(experiment, make):
    record = make(*KEY, STEADY, protocol="paper")
    record["cell"]["settings"] = {"kind": "gce", "q": 0.5}
    assert marks(experiment, [record], protocol="paper") == ("protocol",)


def test_an_experiment_without_the_paper_has_no_protocol_marks(experiment, make):
    record = make(*KEY, STEADY)
    own = {"short": experiment.protocols["short"]}
    assert marks(dataclasses.replace(experiment, protocols=own, paper={}), [record]) == ()
    assert marks(dataclasses.replace(experiment, protocols=own), [record]) == ("protocol",)


def test_marks_of_another_commit(experiment, make):
    def found(commits, **options):
        records = [make(*KEY, STEADY, seed=s, commit=c, protocol="paper") for s, c in enumerate(commits)]
        return marks(experiment, records, protocol="paper", **options)

    assert found([COMMIT, COMMIT]) == ()
    assert found([COMMIT, COMMIT, OTHER]) == ("commit",)
    assert found([COMMIT, COMMIT], commit=OTHER) == ("commit",)
    assert found([COMMIT, COMMIT], commit=COMMIT[:8]) == ()
    assert found([COMMIT], commit=f"{COMMIT} + changes") == ()  # of the reader, who has not made the records
    assert found([f"{COMMIT} + changes"] * 3) == ("commit",)
    assert found([COMMIT, None]) == ("commit",)
    assert found([None, None]) == ()


def test_marks_of_a_transition_matrix_of_another_commit(experiment, make):
    def found(source, **options):
        record = make(*KEY, STEADY, protocol="paper", **source)
        return marks(experiment, [record], protocol="paper", **options)

    assert found({}) == ()  # an old record does not tell
    assert found({"transition_from": None}) == ()
    assert found({"transition_from": {"hash": "12ab", "commit": COMMIT}}) == ()
    assert found({"transition_from": {"hash": "12ab", "commit": OTHER}}) == ("commit",)
    assert found({"transition_from": {"hash": "12ab", "commit": f"{COMMIT} + changes"}}) == ("commit",)
    assert found({"transition_from": {"hash": "12ab", "commit": None}}) == ("commit",)
    assert found({"transition_from": {"hash": "12ab", "commit": None}, "commit": None}) == ()


def test_records_of_one_row_and_seed_have_the_same_data(experiment, make):
    other = ("mnist", "sym 20", "mcldce")
    first = make(*KEY, STEADY, data="d1")
    records = [first, make(*other, STEADY, data="d1"), make(*other, STEADY, seed=1, data="d2")]  # its own noise
    records += [make("mnist", "pair 40", "gce", STEADY, data="d3"), make("cifar10", "sym 20", "gce", STEADY, data="d4")]
    records.append(make("mnist", "sym 20", "forward", STEADY))  # an old one, or one that was not told
    records.append(make("mnist", "sym 20", "volminnet", STEADY, data=None))
    records.append(make(*other, STEADY, protocol="paper", data="d5"))  # of another table
    assert len(gather(experiment, records, "short").cells) == 6
    second = make(*other, STEADY, data="d9")
    match = (
        f"{first['hash']} and {second['hash']} are both of mnist, sym 20, seed 0, .*: d1 and d9.* remove the records"
    )
    with pytest.raises(ValueError, match=match):
        gather(experiment, [first, second], "short")
    with pytest.raises(ValueError, match=f"{first['hash']} and {first['hash']}"):
        gather(experiment, [first, first | {"data": "d9"}], "short")


def test_the_best_of_the_paper(experiment, make):
    paper = experiment.paper | {("mnist", "sym 20", "ridge"): (95.88, None), ("mnist", "sym 20", "mcldce"): (90.0, 1.0)}
    results = gather(dataclasses.replace(experiment, paper=paper), [make(*KEY, STEADY)], "short")
    assert results.paper_best(("mnist", "sym 20")) == (95.88, ["gce", "ridge"])
    assert results.paper_best(("mnist", "pair 40")) == (93.06, ["mcldce"])  # whether or not there is a record
    assert results.paper_best(("cifar10", "sym 20")) is None


def test_the_reference_is_the_majority_and_of_equals_the_later(experiment, make):
    def reference(commits):
        records = [make(*KEY, STEADY, seed=s, commit=c) for s, c in enumerate(commits)]
        return gather(experiment, records, "short").commit

    assert reference([COMMIT, COMMIT, OTHER]) == COMMIT
    assert reference([OTHER, COMMIT]) == COMMIT  # a later seed was finished later
    assert reference([COMMIT, OTHER]) == OTHER
    assert reference([f"{OTHER} + changes", f"{OTHER} + changes", COMMIT]) == OTHER
    assert reference([None]) is None


def test_unknown_is_no_commit():
    assert made_by("unknown", None)
    assert not made_by("unknown", COMMIT)
    assert not made_by(COMMIT, None)


@pytest.mark.parametrize("commit", ["", "main", "abc", "A" * 40])
def test_a_commit_is_a_hash(experiment, make, commit):
    with pytest.raises(ValueError, match="commit must be 7 to 40 hexadecimal digits; got"):
        gather(experiment, [make(*KEY, STEADY)], "short", commit)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"dataset": "svhn"}, "data set 'svhn', which is not in the experiment trial_run \\(mnist, cifar10\\)"),
        ({"noise": {"kind": "symmetric", "rate": 0.3}}, "noise 'sym 30', which .* \\(sym 20, pair 40\\)"),
        ({"method": "jocor"}, "method 'jocor', which"),
    ],
)
def test_records_of_another_experiment(experiment, make, change, match):
    record = make(*KEY, STEADY)
    with pytest.raises(ValueError, match=match):
        gather(experiment, [record | {"cell": record["cell"] | change}], "short")


def test_a_cell_has_one_record_a_seed(experiment, make):
    record = make(*KEY, STEADY)
    assert gather(experiment, [record, dict(record)], "short").cells[KEY].trials == 1
    with pytest.raises(ValueError, match="and 1234 of mnist, sym 20, gce, 0, protocol short, differ in their"):
        gather(experiment, [record, record | {"hash": "1234"}], "short")


def test_trials_have_as_many_epochs(experiment, make):
    with pytest.raises(ValueError, match=r"different numbers of epochs: \[2, 22\]"):
        gather(experiment, [make(*KEY, STEADY), make(*KEY, [0.1, 0.2], seed=1)], "short")
