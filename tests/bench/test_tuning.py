"""Settings chosen on held-out noisy labels: the rule, the order of work, and a real run."""

from dataclasses import replace

import numpy as np
import pytest

from tests.bench.test_schedule import InlinePool, Silence, done
from unflip.bench.cells import Cell
from unflip.bench.record import make_record
from unflip.bench.schedule import run_cells
from unflip.bench.spec import read_experiment
from unflip.bench.store import Store, states
from unflip.bench.trial import held_out_rows, noisy_data, run_cell
from unflip.bench.tuning import candidates, settle

TUNING = """seeds = [3, 4]

[protocols.paper.tuning]
held_out = 0.25
ema = 0.9
settings = [{ dropout = 0.0 }, { dropout = 0.5, weight_decay = 1e-3 }]
"""


class Watch(Silence):
    def renamed(self, task, settled): ...


@pytest.fixture
def cells(experiment_file):
    path = experiment_file(("seeds = [0]", TUNING))
    return read_experiment(path).cells({"noise": ["sym 20"], "method": ["jocor", "mcldce-exact", "ridge"]})


def scored(*scores):
    return [{"held_out": dict(zip(("weights", "average"), pair, strict=True))} for pair in scores]


def test_a_cell_without_tuning_keeps_its_hash(experiment_file):
    cell = read_experiment(experiment_file()).cells()[2]
    assert cell.hash == "f4d11d86c0c2d3ec"  # as records of earlier versions have it
    assert candidates(cell) == []


def test_every_method_gets_the_same_grid_and_its_own_settings_of_it_are_left_out(cells):
    ridge, jocor, mcldce = cells[:3]
    assert ridge.tuning is None
    for cell in (jocor, mcldce):
        tried = candidates(cell)
        assert [one.settings["dropout"] for one in tried] == [0.0, 0.5]
        assert [one.settings.get("weight_decay") for one in tried] == [None, 1e-3]
        assert {(one.settings["ema"], one.held_out, one.seed, one.tuning) for one in tried} == {(0.9, 0.25, 3, None)}
        assert tried == candidates(replace(cell, seed=4)), "all trials share the choice of the first one"
    assert candidates(jocor)[0].settings["forget_rate"] == 0.2


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ([(0.5, 0.4), (0.3, 0.4)], {}),
        ([(0.5, 0.6), (0.3, 0.4)], {"ema": 0.9}),
        ([(0.5, 0.5), (0.5, 0.5)], {}),  # of equal ones the first, and the weights as they are
        ([(0.5, 0.5), (0.7, 0.6)], {"dropout": 0.5, "weight_decay": 1e-3}),
        ([(0.5, 0.5), (0.6, 0.7)], {"dropout": 0.5, "weight_decay": 1e-3, "ema": 0.9}),
    ],
)
def test_most_held_out_labels_win(cells, scores, chosen):
    settled = settle(cells[2], scored(*scores))
    fixed = {"kind": "mcldce", "operator": "exact"}
    assert settled == replace(cells[2], settings=fixed | chosen, tuning=None)


def test_no_dropout_is_said_where_the_network_has_some(cells):
    for network, chosen in (
        ({"kind": "cnn6"}, {"dropout": 0.0}),
        ({"kind": "mlp", "dropout": 0.5}, {"dropout": 0.0}),
        ({"kind": "mlp"}, {}),
    ):
        settled = settle(replace(cells[2], network=network), scored((0.5, 0.4), (0.3, 0.4)))
        assert settled.settings == {"kind": "mcldce", "operator": "exact"} | chosen


def test_candidates_run_first_and_the_choice_is_recorded(cells, tmp_path):
    store, watch = Store(tmp_path), Watch()

    def outcome(task, T):
        record = done(task, T)
        if isinstance(task, Cell) and task.held_out is not None:
            strong = task.settings["dropout"] > 0
            record["result"]["held_out"] = {"weights": 0.6 if strong else 0.5, "average": 0.4}
        return record

    assert [state.name for state in states(cells[1:2], store)] == ["missing"]
    assert run_cells(cells, store, InlinePool(2, outcome), watch) == []
    trained = [task for task in watch.order if isinstance(task, Cell)]
    held = [task.held_out is not None for task in trained if task.method == "jocor"]
    assert held == [True, True, False, False]
    for record in store.records(cells[1:3]):
        assert record["cell"]["settings"]["dropout"] == 0.5
        assert record["cell"]["tuning"] is None
        (cell,) = [cell for cell in cells[1:3] if cell.method == record["cell"]["method"]]
        assert set(record["tuned_from"]) == {one.hash for one in candidates(cell)}
        assert sorted(scores["weights"] for scores in record["tuned_from"].values()) == [0.5, 0.6]
    again = Watch()
    assert run_cells(cells, store, InlinePool(2, outcome), again) == []
    assert again.order == []


def test_a_cell_that_another_protocol_has_says_too_how_it_was_chosen(cells, tmp_path):
    store, cell = Store(tmp_path), cells[1]

    def outcome(task, T):
        record = done(task)
        if isinstance(task, Cell) and task.held_out:
            record["result"]["held_out"] = {"weights": 0.5, "average": 0.4}
        return record

    tried = candidates(cell)
    settled = settle(cell, [outcome(one, None)["result"] for one in tried])
    store.put(settled, done(settled))
    assert run_cells([cell], store, InlinePool(1, outcome), Watch()) == []
    assert set(store.done(cell)["tuned_from"]) == {one.hash for one in tried}
    later = replace(cell, seed=cell.seed + 1)  # settled by the records of the first trial
    store.put(store.settled(later), done(store.settled(later)))
    assert run_cells([later], store, InlinePool(1, outcome), Watch()) == []
    assert set(store.done(later)["tuned_from"]) == {one.hash for one in tried}


def test_a_setting_that_fails_fails_the_cell(cells, tmp_path):
    def outcome(task, T):
        return make_record(task, None, "oh\n") if isinstance(task, Cell) and task.held_out else done(task)

    failed = run_cells(cells[1:2], Store(tmp_path), InlinePool(1, outcome), Watch())
    assert {record["error"] for record in failed} == {"oh\n", "a setting of the grid could not be trained: oh\n"}


def test_a_candidate_is_trained_without_the_held_out_labels_and_scored_on_them(cells, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'unflip[deep]'")
    from unflip.deep import Trainer

    seen = {}
    fit = Trainer.fit

    def spy(self, x, y, **keywords):
        seen.update(x=x, y=y)
        return fit(self, x, y, **keywords)

    monkeypatch.setattr(Trainer, "fit", spy)
    candidate = candidates(cells[1])[1]
    result = run_cell(candidate)
    data = noisy_data("digits", None, candidate.noise, candidate.seed, None)
    held, kept = held_out_rows(len(data.y), 0.25, candidate.seed)
    assert sorted([*held, *kept]) == list(range(len(data.y)))
    assert np.array_equal(seen["y"], data.y[kept])
    assert len(result["accuracy"]) == 1, "the second half of three epochs, as in the tables"
    assert set(result["held_out"]) == {"weights", "average"}
    assert all(0.1 < score < 0.9 for score in result["held_out"].values()), "noisy labels: chance is 0.1, the best 0.8"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("held_out = 0.25", "held_out = 1.0", "held_out must be a number between 0 and 1; got 1.0"),
        ("settings = [{ dropout = 0.0 }, ", "settings = [{ drop = 0.0 }, ", "unknown key 'drop'"),
        (
            "settings = [{ dropout = 0.0 }, { dropout = 0.5, weight_decay = 1e-3 }]",
            "settings = []",
            "settings is empty",
        ),
        ("ema = 0.9\n", "", "is missing the key 'ema'"),
    ],
)
def test_bad_grids(experiment_file, old, new, message):
    with pytest.raises(ValueError, match=message):
        read_experiment(experiment_file(("seeds = [0]", TUNING.replace(old, new, 1))))
