"""Put the tables of ``results/`` into README.md and docs/results.md: python docs/fill_tables.py

A table stands between two comments and is replaced whole::

    <!-- report results/deep/report/table-short.md -->    the report, its headings one level deeper
    <!-- means results/deep/report/table-short.csv -->    the means alone, a column a data set and noise
    <!-- end -->
"""

import csv
import re
from pathlib import Path

from unflip.bench.spec import read_experiment

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md")
SLOT = re.compile(r"(<!-- (report|means) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return a page with every slot filled from the file that it names."""
    makers = {"report": report, "means": means}
    return SLOT.sub(lambda slot: f"{slot[1]}\n{makers[slot[2]](ROOT / slot[3])}\n{slot[4]}", text)


def report(path: Path) -> str:
    return re.sub(r"^## ", "### ", path.read_text(encoding="utf-8"), flags=re.MULTILINE).strip() + "\n"


def means(path: Path) -> str:
    """Return the table of the means; bold is what the report has in bold, the best as printed."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["mean"]]
    experiment = read_experiment(ROOT / "experiments" / f"{path.parents[1].name}.toml")
    columns = list(dict.fromkeys((line["dataset"], line["noise"]) for line in lines))
    found = {(line["method"], line["dataset"], line["noise"]): f"{float(line['mean']):.2f}" for line in lines}
    best = {c: max((value for key, value in found.items() if key[1:] == c), key=float) for c in columns}
    table = [["", *(f"{experiment.datasets[dataset].title}, {noise}" for dataset, noise in columns)]]
    table.append(["---"] * len(table[0]))
    for method in dict.fromkeys(line["method"] for line in lines):
        values = [found.get((method, *column), "–") for column in columns]
        marked = [f"**{v}**" if v == best[c] else v for c, v in zip(columns, values, strict=True)]
        table.append([experiment.methods[method].title, *marked])
    printed = {(line["dataset"], line["noise"]): line["paper_best"] for line in lines if line["paper_best"]}
    if printed:
        table.append(["*best number in the paper*", *(f"{float(printed[c]):.2f}" for c in columns)])
    return "\n".join(f"| {' | '.join(row)} |" for row in table) + "\n"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
