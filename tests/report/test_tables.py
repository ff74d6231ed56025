import csv
import dataclasses
import io
import re

import pytest

from tests.report.conftest import COMMIT, OTHER
from unflip.report.grid import Entry, Grid, accuracy_grid, transition_grid
from unflip.report.results import gather
from unflip.report.tables import csv_table, latex_table, markdown_table


def steady(value, epochs=12):
    return epochs * [value]


@pytest.fixture
def records(make):
    return [
        make("mnist", "sym 20", "gce", steady(0.9500), seed=0, protocol="paper"),
        make("mnist", "sym 20", "gce", steady(0.9700), seed=1, protocol="paper"),
        make("mnist", "sym 20", "mcldce", steady(0.97), seed=0, protocol="paper", error=0.02),
        make("mnist", "sym 20", "mcldce", steady(0.98), seed=1, protocol="paper", error=0.04, commit=OTHER),
        make("mnist", "pair 40", "gce", steady(0.9), seed=0, protocol="paper"),
        make("cifar10", "sym 20", "gce", steady(0.700010), seed=0, protocol="paper"),
        make("cifar10", "sym 20", "mcldce", steady(0.700049), seed=0, protocol="paper", error=0.1),
    ]


def markdown_cells(text):
    """The cells of the first table; the rule left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert len({len(line) for line in cells}) == 1
    assert all(re.fullmatch(":-+:?", cell) for cell in cells[1])
    return [cells[0], *cells[2:]]


def check_latex(text):
    """Environments nest, braces balance, rows have as many columns as the tabular, no sign is left bare."""
    stack = []
    for word, name in re.findall(r"\\(begin|end)\{([a-z*]+)\}", text):
        if word == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    bare = re.sub(r"\\[\\{}&%$#_]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[#_~^|<>±†‡§–−μ]", bare)
    assert all(line.startswith("%") for line in bare.splitlines() if "%" in line)
    for columns, body in re.findall(r"\\begin\{tabular\}\{([lc]+)\}(.*?)\\end\{tabular\}", text, flags=re.DOTALL):
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len(rows) > 1
        for row in rows:
            spans = [int(span) - 1 for span in re.findall(r"\\multicolumn\{(\d+)\}", row)]
            assert len(re.findall(r"(?<!\\)&", row)) + 1 + sum(spans) == len(columns)
            assert not row.lstrip().startswith(("[", "*"))


def test_markdown(experiment, records):
    text = markdown_table(accuracy_grid(gather(experiment, records, "paper")))
    two_trials = r"96.00 ± 1.00 / 0.00 (95.88 ± 0.01) \[2/3\]"
    assert markdown_cells(text) == [
        ["Data set", "Noise", "GCE", "MC-LDCE", "Paper's best", "Ours − paper's best"],
        ["MNIST", "Symmetric 20%", two_trials, r"**97.50 ± 0.50 / 0.00** ‡\[2/3\]", "95.88, GCE", "+1.62"],
        ["MNIST", "Pairflip 40%", r"**90.00 ± 0.00** \[1/3\]", "– (93.06)", "93.06, MC-LDCE", "−3.06"],
        # a tie in what is printed
        [r"CIFAR\_10", "Symmetric 20%", r"**70.00 ± 0.00** \[1/3\]", r"**70.00 ± 0.00** \[1/3\]", "–", "–"],
    ]


def test_markdown_notes(experiment, records):
    text = markdown_table(accuracy_grid(gather(experiment, records, "paper")))
    notes = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
    assert notes == [
        "In percent: ours ± standard deviation (the paper's number ± its printed deviation). Bold: our best for the "
        "same data and noise. –: no record.",
        r"Ours: the mean of the last half of runs of 12 epochs, mean over the protocol's 3 trials (\[n/3\]: over n of "
        "them).",
        "± b / c: b is over trials, c over the last half of runs of 12 epochs (averaged over trials). ± c: over the "
        "last half of runs of 12 epochs of one trial. All have n in the denominator.",
        "Paper's best: the paper's highest number for the same data and noise, and its method (–: it has none). "
        "Ours − paper's best: our best (bold) minus that.",
        f"‡ This number, or its T, was made by another commit or by modified sources: {OTHER[:12]} (1 trial).",
        f"Made by commit {COMMIT[:12]}, except for these.",
        r"Without records: CIFAR\_10 Pairflip 40%, Forward, VolMinNet, Ridge\|linear.",
        r"A note with an under\_score.",
    ]
    assert text.startswith("## Accuracy of 100 % \\& more; protocol paper\n\n|")


def test_the_longer_side_goes_down(experiment, make):
    methods = ("gce", "volminnet", "mcldce")
    records = [make("mnist", "sym 20", method, steady(0.9)) for method in methods]
    records.append(make("mnist", "pair 40", "gce", steady(0.8)))
    grid = accuracy_grid(gather(experiment, records, "short"))
    assert markdown_cells(markdown_table(grid)) == [
        ["Method", "MNIST, Symmetric 20%", "MNIST, Pairflip 40%"],
        ["GCE", "**90.00 ± 0.00** (95.88 ± 0.01)", "**80.00 ± 0.00**"],
        ["VolMinNet", "**90.00 ± 0.00**", "–"],
        ["MC-LDCE", "**90.00 ± 0.00**", "– (93.06)"],
        ["Paper's best", "95.88, GCE", "93.06, MC-LDCE"],
        ["Ours − paper's best", "−5.88", "−13.06"],
    ]
    assert "VolMinNet: with Adam." in grid.notes


def test_methods_without_epochs(experiment, make):
    records = [make("mnist", "sym 20", "ridge", [0.8 + 0.02 * seed], seed=seed) for seed in range(3)]
    experiment = dataclasses.replace(experiment, paper={})
    grid = accuracy_grid(gather(experiment, records, "short"))
    assert grid.rows == [(("MNIST", "Symmetric 20%"), [Entry("82.00 ± 1.63", best=True)])]
    assert grid.notes[1] == "Ours: the accuracy, mean over 3 trials."
    assert grid.notes[2] == "± b: over trials, for a method without epochs. All have n in the denominator."
    assert not any("paper" in note or "last ten" in note for note in grid.notes)
    one = accuracy_grid(gather(experiment, records[:1], "short"))
    assert one.rows[0][1] == [Entry("80.00", best=True)]
    assert not any("denominator" in note for note in one.notes)


def test_errors_of_transition_matrices(experiment, make):
    def one(method, seed, error):
        return make("mnist", "sym 20", method, steady(0.9), seed=seed, protocol="paper", error=error)

    records = [one("forward", 0, 0.02), one("forward", 1, 0.04), one("mcldce", 0, 0.02), one("mcldce", 2, 0.06)]
    records += [one("volminnet", 0, 0.5), make("mnist", "pair 40", "gce", steady(0.9), protocol="paper")]
    grid = transition_grid(gather(experiment, records, "paper"))
    assert grid.heads == [("crossfit-em",), ("VolMinNet",)]
    deviation = ((0.02**2 + 0 + 0.02**2) / 3) ** 0.5  # of 0.02, 0.04, 0.06: the seeds of both methods, each once
    assert grid.rows == [
        (("MNIST", "Symmetric 20%"), [Entry(f"0.0400 ± {deviation:.4f}"), Entry("0.5000", symbols="[1/3]")]),
        (("MNIST", "Pairflip 40%"), [Entry(), Entry()]),
    ]
    assert grid.notes[1:3] == ["crossfit-em: the T given to Forward, MC-LDCE.", "VolMinNet: its own T."]


def test_a_true_or_unknown_transition_matrix_has_no_error_to_show(experiment, make):
    record = make("mnist", "sym 20", "mcldce", steady(0.9), error=0.0)
    assert transition_grid(gather(experiment, [record], "short")) is not None
    record["cell"]["transition"] = {"kind": "true"}
    assert transition_grid(gather(experiment, [record], "short")) is None
    assert transition_grid(gather(experiment, [make("mnist", "sym 20", "gce", steady(0.9))], "short")) is None


def test_latex(experiment, records):
    results = gather(experiment, records, "paper")
    text = latex_table(accuracy_grid(results)) + latex_table(transition_grid(results))
    check_latex(text)
    assert r"MNIST & Symmetric 20\% & 96.00 $\pm$ 1.00 / 0.00 (95.88 $\pm$ 0.01)\textsuperscript{{[}2/3]} & " in text
    assert r"\textbf{97.50 $\pm$ 0.50 / 0.00}\textsuperscript{\ddag{}{[}2/3]} & 95.88, GCE & +1.62 \\" in text
    assert r"CIFAR\_10 & Symmetric 20\%" in text
    assert "\n & Pairflip 40" in text  # MNIST is named once
    assert r"-- (93.06) & 93.06, MC-LDCE & $-$3.06 \\" in text
    assert text.count(r"\midrule") == 4  # below the head and between the data sets, twice
    assert r"\label{tab:trial-run-paper}" in text


def test_latex_with_methods_down(experiment, make):
    records = [
        make(dataset, noise, method, steady(0.9))
        for dataset, noise in (("mnist", "sym 20"), ("mnist", "pair 40"), ("cifar10", "sym 20"))
        for method in ("gce", "forward", "volminnet", "mcldce")
    ]
    text = latex_table(accuracy_grid(gather(experiment, records, "short")))
    check_latex(text)
    assert r" & \multicolumn{2}{c}{MNIST} & \multicolumn{1}{c}{CIFAR\_10} \\" in text
    assert r"\cmidrule(lr){2-3}\cmidrule(lr){4-4}" in text
    assert text.count(r"\midrule") == 2  # below the head and above the foot
    assert r"Paper's best & 95.88, GCE & 93.06, MC-LDCE & -- \\" in text
    assert r"Ours $-$ paper's best & $-$5.88 & $-$3.06 & -- \\" in text
    assert r"protocol short, not the paper's.}" in text  # the caption
    assert r"Method & Symmetric 20\% & Pairflip 40\% & Symmetric 20\% \\" in text


@pytest.mark.parametrize(
    "name", ["a|b", "*bold*", "[x](y)", "<b>", "`c`", "a_b~c^d", "50% & $x$ #{1}", "\\n", "μ", "a\nb"]
)
def test_any_name_is_only_text(name):
    grid = Grid("x", name, ("Method",), [(name,)], [((name,), [Entry()]), ((name,), [Entry()])], [name])
    check_latex(latex_table(grid))
    cells = markdown_cells(markdown_table(grid))
    assert len(cells) == 3
    escaped = r"\\([!-/:-@\[-`{-~])"
    plain = re.sub(escaped, "", cells[1][0])  # what is left has no meaning to Markdown
    assert not re.search(r"[|*_\[\]<>`~$&\\]", plain)
    assert re.sub(escaped, r"\1", cells[1][0]) == " ".join(name.split())
    assert (
        len(re.findall(r"^\S.* & -- \\\\$", latex_table(grid), flags=re.MULTILINE)) == 2
    )  # a row a method, each named


def test_csv_round_trip(experiment, records):
    results = gather(experiment, records, "paper")
    lines = list(csv.DictReader(io.StringIO(csv_table(results))))
    assert len(lines) == 3 * 2
    found = {(line["dataset"], line["noise"], line["method"]): line for line in lines}
    for key, result in results.cells.items():
        line = found[key]
        assert float(line["mean"]) == result.mean
        assert float(line["deviation"]) == result.deviations[line["deviation_over"]]
        assert (int(line["trials"]), int(line["epochs"])) == (result.trials, result.epochs)
        assert line["best"] == ("yes" if results.is_best(key) else "no")
    assert {"yes", "no"} <= {line["best"] for line in lines}
    best = found["mnist", "sym 20", "mcldce"]
    assert (best["protocol"], best["deviation_over"], best["marks"]) == ("paper", "trials", "commit")
    assert best["commit"] == f"{COMMIT}; {OTHER}"
    assert float(best["transition_error"]) == pytest.approx(0.03)
    assert float(best["seconds"]) == 2.5
    assert best["transition_commit"] == ""
    gce = found["mnist", "sym 20", "gce"]
    assert (gce["planned_trials"], gce["paper_best"], gce["paper_best_method"]) == ("3", "95.88", "gce")
    assert float(gce["above_paper_best"]) == pytest.approx(0.12)
    assert (float(gce["deviation"]), float(gce["epoch_deviation"])) == (pytest.approx(1), pytest.approx(0))
    assert (gce["paper_mean"], gce["paper_deviation"], gce["transition_error"]) == ("95.88", "0.01", "")


def test_a_formula_is_guarded_in_csv(experiment, records):
    results = gather(experiment, records, "paper")
    named = dataclasses.replace(experiment, methods={"=gce": experiment.methods["gce"]})
    cells = {(dataset, noise, f"={method}"): cell for (dataset, noise, method), cell in results.cells.items()}
    results = dataclasses.replace(results, experiment=named, cells=cells)
    assert {line["method"] for line in csv.DictReader(io.StringIO(csv_table(results)))} == {"'=gce"}


def test_a_missing_cell_is_empty_in_csv(experiment, records):
    lines = csv.DictReader(io.StringIO(csv_table(gather(experiment, records, "paper"))))
    (missing,) = [line for line in lines if line["trials"] == "0"]
    assert (missing["noise"], missing["method"], missing["paper_mean"]) == ("pair 40", "mcldce", "93.06")
    assert {
        missing[name]
        for name in ("mean", "deviation", "seconds", "commit", "marks", "paper_deviation", "above_paper_best")
    } == {""}
