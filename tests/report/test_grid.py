import dataclasses

import pytest

from tests.report.conftest import COMMIT, OTHER
from unflip import registry
from unflip.bench.experiment import MethodEntry
from unflip.report.grid import accuracy_grid, transition_grid, tuning_grid
from unflip.report.results import gather
from unflip.report.tables import markdown_table

KEY = ("mnist", "sym 20", "gce")
WAVES = 10 * [0.5] + 5 * [0.90] + 5 * [0.92]  # the last ten epochs: mean 91, deviation 1


def entries(grid):
    return [entry for _, line in grid.rows for entry in line]


def symbols(grid):
    return "".join(entry.symbols for entry in entries(grid))


def test_both_deviations_and_the_papers(experiment, make):
    def first(*records):
        return markdown_table(accuracy_grid(gather(experiment, records, "short"))).splitlines()[4].split("|")[3].strip()

    higher = [value + 0.02 for value in WAVES]
    one, two = make(*KEY, WAVES), make(*KEY, higher, seed=1)
    assert first(one) == "**91.00 ± 1.00** (95.88 ± 0.01)"
    assert first(one, two) == "**92.00 ± 1.00 / 1.00** (95.88 ± 0.01)"
    three = make(*KEY, [0.95] * 20, seed=1)
    assert first(one, three) == "**93.00 ± 2.00 / 0.50** (95.88 ± 0.01)"


@pytest.mark.parametrize(
    ("printed", "text"),
    [((87.1, 0.359), "(87.10 ± 0.359)"), ((97.4, None), "(97.40)"), ((74.125, 0.05), "(74.125 ± 0.05)")],
)
def test_the_papers_numbers_are_not_rounded(experiment, make, printed, text):
    other = dataclasses.replace(experiment, paper={KEY: printed})
    assert entries(accuracy_grid(gather(other, [make(*KEY, WAVES)], "short")))[0].paper == text


def test_what_the_deviations_are_over(experiment, make):
    def note(*records):
        (found,) = [n for n in accuracy_grid(gather(experiment, records, "short")).notes if n.startswith("±")]
        return found

    deep = [make(*KEY, WAVES, seed=seed) for seed in range(2)]
    linear = [make("mnist", "sym 20", "ridge", [0.8], seed=seed) for seed in range(2)]
    both, epochs, trials = (
        "± b / c: b is over",
        "± c: over the last ten epochs of one trial",
        "± b: over trials, for a method without epochs",
    )
    for records, kinds in (
        (deep, {both}),
        (deep[:1], {epochs}),
        (linear, {trials}),
        (deep + linear, {both, trials}),
        ([*deep, make("mnist", "sym 20", "mcldce", WAVES), *linear], {both, epochs, trials}),
    ):
        assert {kind for kind in (both, epochs, trials) if kind in note(*records)} == kinds


def test_trials_that_are_missing(experiment, make):
    def counts(*trials):
        methods = ("gce", "volminnet")
        records = [
            make("mnist", "sym 20", m, WAVES, seed=s) for m, n in zip(methods, trials, strict=True) for s in range(n)
        ]
        grid = accuracy_grid(gather(experiment, records, "short"))
        return [entry.symbols for entry in entries(grid)[:2]], grid.notes[1].split("epochs, ")[1]

    assert counts(3, 3) == (["", ""], "mean over 3 trials.")
    assert counts(2, 2) == (["", ""], "mean over 2 of the protocol's 3 trials.")
    assert counts(1, 1) == (["", ""], "one of the protocol's 3 trials.")
    assert counts(3, 1) == (["", "[1/3]"], "mean over the protocol's 3 trials ([n/3]: over n of them).")
    assert counts(2, 1) == (["[2/3]", "[1/3]"], "mean over the protocol's 3 trials ([n/3]: over n of them).")


def test_one_trial_of_one_is_whole(experiment, make):
    plan = dataclasses.replace(experiment.protocols["short"], seeds=(0,))
    alone = dataclasses.replace(experiment, protocols=experiment.protocols | {"short": plan})
    assert accuracy_grid(gather(alone, [make(*KEY, WAVES)], "short")).notes[1].endswith("epochs, one trial.")


def test_a_protocol_that_holds_for_all_is_said_once_and_in_the_title(experiment, make):
    deep = make("mnist", "sym 20", "mcldce", WAVES, error=0.1)
    for grid in (f(gather(experiment, [deep], "short")) for f in (accuracy_grid, transition_grid)):
        assert grid.title.endswith("; protocol short, not the paper's")
        assert "All numbers: protocol short, not the paper's: 12 epochs." in grid.notes
        assert symbols(grid) == ""
    mixed = accuracy_grid(gather(experiment, [deep, make("mnist", "sym 20", "ridge", [0.8])], "short"))
    assert mixed.title.endswith("; protocol short, in part (†) not the paper's")
    assert "† These numbers: protocol short, not the paper's: 12 epochs." in mixed.notes
    assert [entry.symbols for entry in entries(mixed)[:2]] == ["†", ""]
    paper = accuracy_grid(gather(experiment, [make(*KEY, WAVES, protocol="paper")], "paper"))
    assert paper.title.endswith("; protocol paper")
    assert not any("protocol paper" in note for note in paper.notes)


def test_the_papers_protocol_with_other_settings(experiment, make):
    record = make(*KEY, WAVES, protocol="paper")
    record["cell"]["settings"] = {"kind": "gce", "q": 0.5}
    grid = accuracy_grid(gather(experiment, [record], "paper"))
    assert grid.title.endswith("; protocol paper, other settings than the experiment has now")
    told = "protocol paper, but the records have other settings than the experiment has now."
    assert f"All numbers: {told}" in grid.notes


def test_a_protocol_without_a_note_is_told_by_its_settings(experiment, make):
    plan = dataclasses.replace(experiment.protocols["short"], note="")
    plain = dataclasses.replace(experiment, protocols=experiment.protocols | {"short": plan})
    grid = accuracy_grid(gather(plain, [make(*KEY, WAVES)], "short"))
    assert "All numbers: protocol short, not the paper's: epochs 12." in grid.notes


def commit_notes(grid):
    return [note for note in grid.notes if note.startswith(("‡", "Made"))]


def test_commits_in_the_notes(experiment, make):
    def notes(*commits, **options):
        records = [make(*KEY, WAVES, seed=s, commit=c) for s, c in enumerate(commits)]
        return commit_notes(accuracy_grid(gather(experiment, records, "short", **options)))

    start = "‡ This number, or its T, was made by another commit or by modified sources:"
    assert notes(COMMIT, COMMIT) == ["Made by commit aaaaaaaaaaaa."]
    assert notes(None) == ["Made by commit unknown."]
    assert notes(COMMIT, COMMIT, commit=OTHER) == [f"{start} aaaaaaaaaaaa (2 trials)."]
    assert notes(COMMIT, f"{COMMIT} + changes", None) == [
        f"{start} aaaaaaaaaaaa + changes (1 trial), unknown (1 trial).",
        "Made by commit aaaaaaaaaaaa, except for these.",
    ]


def test_a_transition_matrix_of_another_commit_in_the_notes(experiment, make):
    source = {"transition_from": {"hash": "12ab", "commit": OTHER}}
    records = [make("mnist", "sym 20", "mcldce", WAVES, seed=seed, error=0.1, **source) for seed in range(2)]
    results = gather(experiment, [*records, make(*KEY, WAVES)], "short")
    accuracy, transition = accuracy_grid(results), transition_grid(results)
    assert [entry.symbols for entry in entries(accuracy)[:2]] == ["[1/3]", "‡[2/3]"]
    assert symbols(transition) == "‡"
    for grid in (accuracy, transition):
        assert commit_notes(grid) == [
            "‡ This number, or its T, was made by another commit or by modified sources: T by bbbbbbbbbbbb (2 trials).",
            "Made by commit aaaaaaaaaaaa, except for these.",
        ]


@pytest.mark.parametrize(
    ("epochs", "meant"),
    [
        ([2], "last half of runs of 2 epochs"),
        ([19], "last half of runs of 19 epochs"),
        ([20], "last ten epochs"),
        ([6, 40], "last ten epochs (last half of runs of 6 epochs)"),
    ],
)
def test_the_notes_say_which_epochs_count(experiment, make, epochs, meant):
    names = ("gce", "forward")
    records = [make("mnist", "sym 20", name, n * [0.9]) for name, n in zip(names, epochs, strict=False)]
    records.append(make("mnist", "sym 20", "ridge", [0.8]))
    notes = accuracy_grid(gather(experiment, records, "short")).notes
    assert any(note.startswith(f"Ours: the mean of the {meant}, ") for note in notes)
    assert any(note.startswith(f"± c: over the {meant} of ") for note in notes)


@pytest.mark.parametrize(
    ("accuracy", "difference"), [(0.97, "+1.12"), (0.958801, "0.00"), (0.9588, "0.00"), (0.9587, "−0.01")]
)
def test_ours_against_the_best_of_the_paper(experiment, make, accuracy, difference):
    records = [make("mnist", "sym 20", "ridge", [accuracy]), make("mnist", "sym 20", "volminnet", 20 * [0.5])]
    flat = accuracy_grid(gather(experiment, records[:1], "short"))
    assert flat.heads[-2:] == [("Paper's best",), ("Ours − paper's best",)]
    assert [entry.ours for entry in flat.rows[0][1][-2:]] == ["95.88, GCE", difference]  # though GCE has no record
    tall = accuracy_grid(gather(experiment, records, "short"))
    assert [(labels, [entry.ours for entry in line]) for labels, line in tall.foot] == [
        (("Paper's best",), ["95.88, GCE"]),
        (("Ours − paper's best",), [difference]),
    ]


def test_an_experiment_without_numbers_of_the_paper_has_no_best(experiment, make):
    grid = accuracy_grid(gather(dataclasses.replace(experiment, paper={}), [make(*KEY, WAVES)], "short"))
    assert grid.heads == [("GCE",)]
    assert not grid.foot
    assert not any("best:" in note for note in grid.notes)


def test_methods_of_two_networks(experiment, make):
    pair = {"one": MethodEntry("One", {"kind": "jocor"}), "two": MethodEntry("Two", {"kind": "coteaching+"})}
    more = dataclasses.replace(experiment, methods=experiment.methods | pair)
    base = make(*KEY, WAVES)
    records = [base, *(base | {"cell": base["cell"] | {"method": name}} for name in pair)]

    def notes(experiment, records):
        return [note for note in accuracy_grid(gather(experiment, records, "short")).notes if "networks" in note]

    told = "One, Two: two networks, scored together here by the mean of their probabilities"
    assert notes(more, records) == [f"{told}."]
    paper = {("mnist", "sym 20", "two"): (90.0, 0.1)}
    assert notes(dataclasses.replace(more, paper=paper), records) == [f"{told}; the paper may score them differently."]
    assert notes(more, [base]) == []


def test_which_methods_have_two_networks():
    pytest.importorskip("unflip.deep", exc_type=ImportError)
    for entry in registry.ENTRIES:
        if entry.family == "deep":
            assert entry.load().n_networks == entry.networks


def test_bold_is_what_a_paired_test_over_trials_cannot_tell_from_the_best(experiment, make):
    def bold(*methods):
        """Which methods are bold if their trials have these numbers."""
        names = ("gce", "forward", "mcldce")
        records = [
            make("mnist", "sym 20", name, [number / 100], seed=seed)
            for name, numbers in zip(names, methods, strict=True)
            for seed, number in enumerate(numbers)
        ]
        grid = accuracy_grid(gather(experiment, records, "short"))
        return [entry.best for entry in entries(grid)[:3]], grid.notes[0]

    best = (90.0, 92.0, 91.0)
    tied = (89.9, 92.05, 90.9)  # sometimes ahead
    behind = (89.5, 91.45, 90.5)  # always behind by the same half point, whatever the trial
    flags, legend = bold(best, tied, behind)
    assert flags == [True, True, False]
    assert "cannot tell from it" in legend
    flags, legend = bold(best[:2], tied[:2], behind[:2])
    assert sum(flags) == 1, "two trials are too few for a test"
    assert "cannot tell" not in legend
    assert bold(best, best, best)[0] == [True, True, True]


def test_chosen_settings_have_a_table(experiment, make):
    grid = {"held_out": 0.1, "ema": 0.99, "settings": [{"dropout": 0.0}, {"dropout": 0.5, "weight_decay": 1e-4}]}
    short = dataclasses.replace(experiment.protocols["short"], tuning=grid)
    tuned = dataclasses.replace(experiment, protocols=experiment.protocols | {"short": short})
    plain, strong = make(*KEY, WAVES), make("mnist", "sym 20", "mcldce", WAVES)
    strong["cell"]["settings"] |= {"dropout": 0.5, "ema": 0.99}
    results = gather(tuned, [plain, strong, make("mnist", "sym 20", "ridge", [0.9])], "short")
    found = tuning_grid(results)
    assert [entry.ours for entry in entries(found)] == ["none", "dropout 0.5, averaged", "–"]
    assert "dropout 0; dropout 0.5, weight decay 0.0001; each with the weights as they are" in found.notes[0]
    assert tuning_grid(gather(experiment, [plain], "short")) is None


def test_what_a_method_has_of_its_own_is_told_unless_it_is_tuned(experiment, make):
    told = dataclasses.replace(experiment.methods["volminnet"], untuned="with dropout")
    experiment.methods["volminnet"] = told
    record = make("mnist", "sym 20", "volminnet", WAVES)
    assert "VolMinNet: with Adam; with dropout." in accuracy_grid(gather(experiment, [record], "short")).notes
    grid = {"held_out": 0.1, "ema": 0.99, "settings": [{"dropout": 0.0}]}
    short = dataclasses.replace(experiment.protocols["short"], tuning=grid)
    tuned = dataclasses.replace(experiment, protocols=experiment.protocols | {"short": short})
    assert "VolMinNet: with Adam." in accuracy_grid(gather(tuned, [record], "short")).notes
