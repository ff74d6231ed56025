"""The tables in the repository are those that its records give, and the pages show these tables."""

import runpy
from pathlib import Path

import pytest

from unflip.bench.spec import read_experiment
from unflip.bench.store import Store
from unflip.report import write_report

ROOT = Path(__file__).parents[1]
REPORTS = sorted((ROOT / "results").glob("*/report/table-*.md"))


@pytest.mark.parametrize("path", REPORTS, ids=[f"{path.parents[1].name}-{path.stem}" for path in REPORTS])
def test_a_committed_table_is_what_its_records_give(path, tmp_path):
    experiment = read_experiment(ROOT / "experiments" / f"{path.parents[1].name}.toml")
    protocol = path.stem.removeprefix("table-")
    records = list(Store(path.parents[1]).records(experiment.cells(protocol=protocol)))
    write_report(experiment, records, tmp_path, protocol=protocol, figures=False)
    for kind in ("md", "csv", "tex"):
        made, there = (folder / f"{path.stem}.{kind}" for folder in (tmp_path, path.parent))
        assert made.read_text(encoding="utf-8") == there.read_text(encoding="utf-8"), (
            f"{there} is not what the records give; run: unflip bench report experiments/{path.parents[1].name}.toml"
        )


def test_the_pages_show_the_tables():
    script = runpy.run_path(str(ROOT / "docs" / "fill_tables.py"))
    for page in script["PAGES"]:
        text = page.read_text(encoding="utf-8")
        assert script["SLOT"].search(text), f"{page} has no table"
        assert script["filled"](text) == text, f"{page} shows other tables; run: python docs/fill_tables.py"
