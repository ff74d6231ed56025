"""Put the tables of ``results/`` and ``benchmarks/results/`` into the pages that show them: python docs/fill_tables.py

A table stands between two comments, and everything between them is replaced::

    <!-- report results/deep/report/table-short.md -->    the report, with its headings one level deeper
    <!-- means results/deep/report/table-short.csv -->    only the means, one column per data set and noise
    <!-- means ...; sym 60, pair 40 -->                   the same for these noises
    <!-- audit benchmarks/results/audit.csv -->           average precisions, ours and cleanlab's best
    <!-- suite benchmarks/results/suite.csv -->           mean accuracies over tables and texts
    <!-- tree src/unflip -->                              the parts of a package, from their docstrings
    <!-- end -->
"""

import ast
import csv
import re
import textwrap
from collections.abc import Collection
from pathlib import Path
from statistics import mean, median
from typing import Any

from unflip.bench.spec import read_experiment

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("results", "scale", "architecture")))
OURS, EARLIER = "unflip, --model logistic", "unflip, VolMin (default)"
SHARED = "cleanlab, self_confidence on VolMin's p"
FEWEST_ROWS = 500  # of a set of the suite; smaller ones are in its own report
UNCORRECTED = ("logistic", "boosted", "extra")
SUITE = {
    "logistic": "logistic regression",
    "boosted": "boosted trees",
    "extra": "extra-trees",
    "hindsight": "the best of these three, chosen with the test labels",
    "auto": "`CorrectedClassifier()`",
}
NOISES = {
    "none": "no noise",
    "sym40": "symmetric 40 %",
    "pair35": "pair 35 %",
    "pair20": "pair 20 %",
    "two40": "two classes into one, 40 %",
    "idn30": "depends on the sample, 30 %",
}
SLOT = re.compile(r"(<!-- (report|means|audit|suite|tree) ([^\s;]+)(?:; ([^\n]+))? -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return a page with every slot filled from the file that it names."""
    makers: Any = {"report": report, "means": means, "audit": audit, "suite": suite, "tree": tree}

    def fill(slot: re.Match[str]) -> str:
        chosen = [slot[4].split(", ")] if slot[4] else []
        return f"{slot[1]}\n{makers[slot[2]](ROOT / slot[3], *chosen)}\n{slot[5]}"

    return SLOT.sub(fill, text)


def report(path: Path) -> str:
    text = re.sub(r"^# .*\n", "", path.read_text(encoding="utf-8"))  # the page has a title of its own
    return re.sub(r"^## ", "### ", text, flags=re.MULTILINE).strip() + "\n"


def means(path: Path, noises: Collection[str] = ()) -> str:
    """Return the table of the means; bold is what is bold in the report."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["mean"] and (not noises or line["noise"] in noises)]
    experiment = read_experiment(ROOT / "experiments" / f"{path.parents[1].name}.toml")
    columns = list(dict.fromkeys((line["dataset"], line["noise"]) for line in lines))
    found = {(line["method"], line["dataset"], line["noise"]): f"{float(line['mean']):.2f}" for line in lines}
    best = {(line["method"], line["dataset"], line["noise"]) for line in lines if line["best"] == "yes"}
    table = [["", *(f"{experiment.datasets[dataset].title}, {noise}" for dataset, noise in columns)]]
    table.append(["---"] * len(table[0]))
    for method in dict.fromkeys(line["method"] for line in lines):
        keys = [(method, *column) for column in columns]
        marked = [f"**{found[key]}**" if key in best else found.get(key, "–") for key in keys]
        table.append([experiment.methods[method].title, *marked])
    printed = {(line["dataset"], line["noise"]): line["paper_best"] for line in lines if line["paper_best"]}
    if printed:
        table.append(["*best number in the paper*", *(f"{float(printed[c]):.2f}" for c in columns)])
    return "\n".join(f"| {' | '.join(row)} |" for row in table) + "\n"


def audit(path: Path) -> str:
    """Return one row for our default and two for cleanlab: its best score, and its score on our probabilities."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    found: dict[tuple[str, str, str], float] = {}
    seconds: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        name = line["scores"]
        who = {OURS: "unflip", EARLIER: "unflip, earlier default", SHARED: "cleanlab on the same probabilities"}.get(
            name
        )
        if who is None and name.startswith("cleanlab"):
            who = "cleanlab, its best score"
        if who is None:
            continue
        key = who, line["data"], line["noise"]
        found[key] = max(float(line["average_precision"]), found.get(key, 0.0))
        seconds.setdefault((who, line["data"]), []).append(float(line["seconds"]))
    noises = list(dict.fromkeys(line["noise"] for line in lines))
    table = [["data", "scores", *noises, "seconds"], ["---"] * (len(noises) + 3)]
    for data in dict.fromkeys(line["data"] for line in lines):
        for who in dict.fromkeys(key[0] for key in found):
            values = [found.get((who, data, noise)) for noise in noises]
            if values == [None] * len(values):
                continue
            best = [max((v for (_, d, m), v in found.items() if (d, m) == (data, n)), default=0.0) for n in noises]
            cells = [
                "" if v is None else f"**{v:.3f}**" if round(v, 3) == round(b, 3) else f"{v:.3f}"
                for v, b in zip(values, best, strict=True)
            ]
            table.append([data, who, *cells, f"{median(seconds[who, data]):.2g}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in table) + "\n"


def suite(path: Path) -> str:
    """Return mean accuracies of the uncorrected models and of CorrectedClassifier, over cells that have them all."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["accuracy"] and int(line["rows"]) >= FEWEST_ROWS]
    cells: dict[tuple[str, str, str], dict[str, float]] = {}
    for line in lines:
        cells.setdefault((line["noise"], line["set"], line["draw"]), {})[line["method"]] = 100 * float(line["accuracy"])
    cells = {key: found for key, found in cells.items() if found.keys() >= set(SUITE) - {"hindsight"}}
    for found in cells.values():
        found["hindsight"] = max(found[name] for name in UNCORRECTED)
    noises = [noise for noise in NOISES if any(key[0] == noise for key in cells)]
    table = [["", *(NOISES[noise] for noise in noises)], ["---"] * (len(noises) + 1)]
    for method, title in SUITE.items():
        values = [mean(found[method] for key, found in cells.items() if key[0] == noise) for noise in noises]
        table.append([title, *(f"**{value:.1f}**" if method == "auto" else f"{value:.1f}" for value in values)])
    table.append(["*sets*", *(str(sum(key[0] == noise for key in cells)) for noise in noises)])
    return "\n".join(f"| {' | '.join(row)} |" for row in table) + "\n"


def tree(path: Path) -> str:
    """Return the modules and folders of a package, each with its purpose, and the modules of each folder."""
    lines = [f"{path.relative_to(ROOT)}/"]
    for part in sorted(path.iterdir(), key=lambda part: (part.is_dir(), part.name)):
        if part.suffix == ".py" and not part.name.startswith("__"):
            lines += tree_entry(part.name, purpose(part), [])
        elif (part / "__init__.py").exists():
            modules = sorted(str(m.relative_to(part).with_suffix("")) for m in part.rglob("[!_]*.py"))
            modules += sorted(str(m.relative_to(part).with_suffix("")) for m in part.rglob("_[!_]*.py"))
            lines += tree_entry(f"{part.name}/", purpose(part / "__init__.py"), modules)
    return "\n".join(f"    {line}" for line in lines) + "\n"


def tree_entry(name: str, text: str, modules: list[str]) -> list[str]:
    width, indent = 110, " " * 20
    lines = [*textwrap.wrap(text, width - 20), *textwrap.wrap("  ".join(modules), width - 20, break_on_hyphens=False)]
    return [f"  {name:18}{lines[0]}", *(indent + line for line in lines[1:])]


def purpose(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n\n")[0].replace("\n", " ").replace("``", "")


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
