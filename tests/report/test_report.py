import subprocess
import sys

import numpy as np
import pytest

from unflip.report import write_report

CURVE = tuple(np.linspace(0.3, 0.9, 12))


@pytest.fixture
def records(make):
    found = [
        make("mnist", "sym 20", method, np.array(CURVE) + 0.01 * seed, seed=seed, protocol=protocol, error=0.1)
        for protocol in ("short", "paper")
        for method in ("gce", "mcldce")
        for seed in range(2)
    ]
    return [*found, make("cifar10", "sym 20", "gce", CURVE)]


def test_files(experiment, records, tmp_path):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "new" / "report"
    written = write_report(experiment, records, folder)
    names = ["table-paper.md", "table-paper.csv", "table-paper.tex", "table-short.md", "table-short.csv"]
    names += ["table-short.tex", *(f"curves-{p}-mnist.{kind}" for p in ("paper", "short") for kind in ("svg", "png"))]
    assert [path.relative_to(folder).as_posix() for path in written] == names
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)  # and nothing half-written
    text = (folder / "table-short.md").read_text(encoding="utf-8")
    assert text.count("## ") == 2
    assert "CIFAR" not in (folder / "table-paper.md").read_text(encoding="utf-8").split("Without records")[0]


def test_the_same_records_give_the_same_bytes(experiment, records, tmp_path):
    pytest.importorskip("matplotlib")
    first = write_report(experiment, records, tmp_path / "a")
    second = write_report(experiment, reversed(records), tmp_path / "b")
    assert [path.name for path in first] == [path.name for path in second]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, second, strict=True))


def test_a_report_replaces_an_older_one(experiment, make, tmp_path):
    write_report(experiment, [make("mnist", "sym 20", "ridge", [0.5])], tmp_path)
    (path, *_) = write_report(experiment, [make("mnist", "sym 20", "ridge", [0.75])], tmp_path)
    assert "75.00" in path.read_text(encoding="utf-8")


def test_one_protocol(experiment, records, tmp_path):
    written = write_report(experiment, records, tmp_path, protocol="paper")
    assert {path.name.split("-")[1].split(".")[0] for path in written} == {"paper"}


def test_failed_records_are_ignored(experiment, make, tmp_path):
    records = [make("mnist", "sym 20", "ridge", [0.5 + seed / 10], seed=seed) for seed in range(2)]
    records.append(make("mnist", "sym 20", "ridge", [0.9], seed=2, status="failed", result=None, error="Traceback"))
    (path, *_) = write_report(experiment, records, tmp_path)
    assert "55.00 ± 5.00" in path.read_text(encoding="utf-8")


def test_the_commit_is_passed_on(experiment, make, tmp_path):
    record = make("mnist", "sym 20", "ridge", [0.5])
    (path, *_) = write_report(experiment, [record], tmp_path, commit="b" * 40)
    assert "**50.00** ‡" in path.read_text(encoding="utf-8")


def test_nothing_to_report(experiment, make, tmp_path):
    failed = make("mnist", "sym 20", "gce", CURVE, status="failed", result=None)
    for records in ([], [failed]):
        with pytest.raises(ValueError, match="none of the records of trial_run is done; run it first"):
            write_report(experiment, records, tmp_path / "out")
    done = make("mnist", "sym 20", "gce", CURVE)
    with pytest.raises(ValueError, match="is done under the protocol paper"):
        write_report(experiment, [done], tmp_path / "out", protocol="paper")
    with pytest.raises(ValueError, match="unknown protocol 'long'; choose one of paper, short"):
        write_report(experiment, [done], tmp_path / "out", protocol="long")
    renamed = done | {"cell": done["cell"] | {"protocol": {"name": "quick"}}}
    with pytest.raises(ValueError, match="protocols quick, which are not in the experiment trial_run"):
        write_report(experiment, [done, renamed], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tables_without_matplotlib(experiment, records, make, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "unflip.report.figures", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'unflip\[report\]'"):
        write_report(experiment, records, tmp_path / "curves")
    assert len(list((tmp_path / "curves").iterdir())) == 6
    linear = make("mnist", "sym 20", "ridge", [0.5])
    assert len(write_report(experiment, [linear], tmp_path / "linear")) == 3


def test_importing_the_report_imports_no_matplotlib():
    pytest.importorskip("matplotlib")
    code = "import sys, unflip.report; early = 'matplotlib' in sys.modules; import unflip.report.figures; "
    code += "sys.exit(early or 'matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
