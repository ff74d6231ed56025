"""An audit in blocks: what memory gives where the data fit, and the same errors where they do not."""

import json

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("jinja2")

import pandas as pd

from tests.cli.conftest import invoke
from tests.commands.conftest import make_frame
from unflip.commands import audit_out_of_core, audit_table, named_by, write_audit
from unflip.tables import read_table


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """1,200 rows in a CSV file, the clean labels, and the same rows in three Parquet files."""
    folder = tmp_path_factory.mktemp("people")
    frame, clean = make_frame(1200)
    frame = frame.drop(columns=["id", "note"]).assign(code=[f"{k:05d}" for k in range(1200)])
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "parts").mkdir()
    for k in range(3):
        frame.iloc[k::3].to_parquet(folder / "parts" / f"{k}.parquet", index=False)
    return folder, clean


@pytest.mark.parametrize("model", ["logistic", "mcldce"])
def test_the_ranking_of_memory_where_the_data_fit(people, model):
    folder, _ = people
    table = named_by(read_table(folder / "people.csv", "kind", kinds={"code": "category"}), "code")
    inside = audit_table(table, model=model, random_state=0)
    errors, rows, totals = audit_out_of_core(folder / "people.csv", "kind", model=model, id="code", rows=500)
    assert rows.names[errors.suspects].tolist() == table.names[inside.suspects].tolist()
    np.testing.assert_allclose(errors.scores[errors.suspects], inside.scores[inside.suspects], rtol=1e-9)
    np.testing.assert_array_equal(errors.transition, inside.transition)
    assert totals.total == pytest.approx(inside.total)
    assert (totals.n_rows, totals.n_suspects) == (1200, len(inside.suspects))
    np.testing.assert_allclose(totals.noise_rates, inside.noise_rates, atol=1e-12)
    assert "code" not in rows.X.columns
    chosen = errors.suspects[0]
    assert rows.X["town"][chosen] == table.X["town"][inside.suspects[0]]


def test_rows_that_were_not_drawn_are_judged_by_a_model_that_has_not_seen_them(people):
    folder, clean = people
    given: dict = {"sample_size": 500, "rows": 300, "random_state": 1}
    errors, rows, totals = audit_out_of_core(folder / "people.csv", "kind", **given)
    y = read_table(folder / "people.csv", "kind").y
    wrong = np.flatnonzero(y != clean)
    found = rows.names[errors.suspects].astype(int)
    assert np.isin(found, wrong).mean() > 0.9
    assert np.isin(wrong, found).mean() > 0.9
    assert totals.total == pytest.approx(len(wrong), rel=0.15)
    assert (totals.n_rows, totals.n_suspects) == (1200, len(found))
    assert totals.noisy.sum() == 1200
    # A bound keeps the surest, in the same order; blocks and threads make no difference.
    bounded = audit_out_of_core(folder / "people.csv", "kind", most=40, threads=2, **given | {"rows": 1000})
    assert bounded[1].names[bounded[0].suspects].tolist() == rows.names[errors.suspects][:40].tolist()
    assert bounded[2].total == pytest.approx(totals.total)
    assert bounded[2].n_suspects == totals.n_suspects


def test_rows_without_a_label_are_left_out_with_a_count(people, tmp_path):
    folder, _ = people
    frame = pd.read_csv(folder / "people.csv", dtype={"code": str})
    frame.loc[::10, "kind"] = " "
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    given: dict = {"model": "logistic", "random_state": 0}
    inside = audit_table(read_table(tmp_path / "gaps.csv", "kind", drop=["code"]), **given)
    with pytest.warns(UserWarning, match=r"^120 of 1,200 rows have no label and are left out$"):
        _, rows, totals = audit_out_of_core(tmp_path / "gaps.csv", "kind", rows=500, drop=["code"], **given)
    assert totals.n_rows == 1080
    assert totals.total == pytest.approx(inside.total)
    assert not (rows.names.astype(int) % 10 == 0).any()


def test_the_checks_are_those_of_the_uniform_sample(people, tmp_path):
    folder, _ = people
    frame = pd.read_csv(folder / "people.csv").drop(columns="code")
    # Each row of the first half occurs twice; a tenth of the copies has another label.
    copies = frame[:600].assign(kind=np.where(np.arange(600) % 10, frame["kind"][:600], "cat"))
    pd.concat([frame[:600], copies]).to_csv(tmp_path / "copies.csv", index=False)
    found = [audit_out_of_core(tmp_path / "copies.csv", "kind", most=most)[1].findings for most in (5, 10_000)]
    assert [one.sentence for one in found[0]] == [one.sentence for one in found[1]]
    table = read_table(tmp_path / "copies.csv", "kind")
    assert [one.sentence for one in found[0]] == [one.sentence for one in table.findings]


def test_several_files_name_their_rows(people):
    folder, _ = people
    errors, rows, totals = audit_out_of_core(folder / "parts", "kind", sample_size=500, drop=["code"])
    assert totals.n_rows == 1200
    first = rows.names[errors.suspects[0]]
    file, row = first.split(":")
    frame = pd.read_parquet(folder / "parts" / file)
    assert frame["kind"][int(row)] == errors.given[errors.suspects[0]]
    assert frame["b"][int(row)] == rows.X["b"][errors.suspects[0]]


def test_written(people, tmp_path):
    folder, _ = people
    given = {"id": "code", "sample_size": 500, "most": 50}
    errors, rows, totals = audit_out_of_core(folder / "people.csv", "kind", **given)
    summary = write_audit(errors, rows, tmp_path / "audit", title="people", id="code", totals=totals)
    assert {item.name for item in (tmp_path / "audit").iterdir()} == {"suspects.csv", "summary.json", "index.html"}
    suspects = pd.read_csv(tmp_path / "audit" / "suspects.csv", dtype={"name": str})
    assert len(suspects) == 50
    assert suspects["name"].str.len().eq(5).all()
    assert suspects["looks_like_1"].notna().all()
    assert summary["n_suspects"] == totals.n_suspects > 50
    page = (tmp_path / "audit" / "index.html").read_text(encoding="utf-8")
    assert f"of the {totals.n_rows:,} labels are estimated" in page
    assert "50 of them are listed" in page


def test_on_the_command_line(people, tmp_path):
    folder, _ = people
    words = ("audit", folder / "people.csv", "--label", "kind", "--id", "code", "--out-of-core", "--sample", 500)
    done = invoke(*words, "--suspects", 30, "--out", tmp_path / "audit")
    assert done.exit_code == 0, done.output
    assert "The 30 surest are listed" in done.stdout
    assert "of 1,200 labels are suspects" in done.stdout
    clean = invoke(
        "apply", tmp_path / "audit" / "suspects.csv", "--to", folder / "people.csv", "--out", tmp_path / "c.csv"
    )
    assert "30 of 1,200 labels changed" in clean.stdout
    document = json.loads((tmp_path / "audit" / "summary.json").read_text())
    assert document["columns"] == {"label": "kind", "id": "code"}
    for wrong, match in (
        (("--groups", "town"), "has no meaning with --out-of-core"),
        (("--model", "trees"), "the model must be logistic or mcldce; got 'trees'"),
        (("--id", "nope"), "has no column 'nope'"),
    ):
        failed = invoke(*words[:4], "--out-of-core", *wrong, "--out", tmp_path / "other")
        assert failed.exit_code
        assert match in " ".join(failed.stderr.replace("│", " ").split())


def test_on_dask(people):
    distributed = pytest.importorskip("distributed")
    folder, _ = people
    given = {"sample_size": 500, "most": 40, "drop": ["code"]}
    here = audit_out_of_core(folder / "parts", "kind", **given)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        there = audit_out_of_core(folder / "parts", "kind", dask=cluster.scheduler_address, **given)
    assert here[1].names[here[0].suspects].tolist() == there[1].names[there[0].suspects].tolist()
    np.testing.assert_array_equal(here[2].n_errors, there[2].n_errors)
