"""The audit of a table, and the page and files that it writes."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")

import pandas as pd

from tests.commands.conftest import T, make_frame, table_of
from unflip.audit import LabelErrors, find_label_errors
from unflip.audit.find import speaks_of_noisy_labels
from unflip.commands import (
    apply_corrections,
    audit_table,
    compare_classifiers,
    fit_table,
    judge_table,
    named_by,
    predict_table,
    read_probabilities,
    write_audit,
)
from unflip.commands.audit import Totals, audit_page, explain_counts, explain_interval, noise_of, summarize
from unflip.metrics import clean_accuracy
from unflip.noise import corrupt, symmetric
from unflip.tables import Table, read_table


class TestAudit:
    def test_finds_the_flipped_labels(self, errors, table):
        wrong = table.y != make_frame()[1]
        assert wrong[errors.suspects].mean() > 0.9
        assert abs(errors.total - wrong.sum()) < 0.25 * wrong.sum()

    def test_embeddings_keep_the_scale_that_they_have_in_common(self, table, quick):
        """What ``find_label_errors`` finds in the same numbers: a preprocessor must not blow up the rare ones."""
        random = np.random.default_rng(0)
        y = random.integers(3, size=300)
        X = random.normal(size=(300, 20)) * np.r_[np.ones(4), np.full(16, 0.01)] + 4 * np.eye(3, 20)[y]
        noisy = corrupt(y, T, random_state=0)
        ours = audit_table(Table(X, noisy, None, np.arange(300), "y", ("0", "1", "2")), folds=3, random_state=0)
        np.testing.assert_allclose(ours.scores, find_label_errors(X, noisy, cv=3, random_state=0).scores)
        assert list(compare_classifiers(ours, table)) == [
            "boosted trees, uncorrected",
            "boosted trees, corrected",
            "logistic, corrected",
        ]

    def test_a_given_t_is_used(self, table, quick):
        assert np.array_equal(audit_table(table, transition=T, folds=2, random_state=0).transition, T)

    def test_written(self, errors, table, tmp_path):
        pytest.importorskip("jinja2")
        summary = write_audit(errors, table, tmp_path / "audit", title="<b>people.csv")
        folder = tmp_path / "audit"
        assert {item.name for item in folder.iterdir()} == {"suspects.csv", "labels.csv", "summary.json", "index.html"}
        suspects = pd.read_csv(folder / "suspects.csv")
        assert suspects["name"].tolist() == errors.suspects.tolist()
        assert suspects["probability_wrong"].is_monotonic_decreasing
        assert (suspects["given"] != suspects["suggested"]).all()
        every = pd.read_csv(folder / "labels.csv")
        assert np.allclose(every["probability_wrong"], errors.scores, atol=1e-6)
        assert every["given"].tolist() == table.y.tolist()
        document = json.loads((folder / "summary.json").read_text())
        assert document["expected_errors"] == summary["expected_errors"] == errors.total
        assert summary == summarize(errors) | {"columns": {"label": "kind", "id": None}, "findings": []}
        page = (folder / "index.html").read_text(encoding="utf-8")
        assert "&lt;b&gt;people.csv" in page
        assert "<b>people" not in page
        assert r"\u003cscript\u003e" in page
        write_audit(errors, table, folder, title="again")  # takes the place of the earlier one
        assert "again" in (folder / "index.html").read_text(encoding="utf-8")
        assert [item.name for item in tmp_path.iterdir()] == ["audit"]

    def test_compared_on_samples_that_were_not_seen(self, errors, table):
        found = compare_classifiers(errors, table, network="linear", folds=3, random_state=0)
        assert list(found) == ["VolMin", "ridge without correction"]
        said = errors.classes[errors.proba.argmax(axis=1)]
        options = {"classes": errors.classes, "transition_std": errors.transition_std}
        assert found["VolMin"] == clean_accuracy(table.y, said, errors.transition, **options)
        plain = clean_accuracy(table.y, said, errors.transition, classes=errors.classes)
        assert found["VolMin"].low < plain.low  # T is an estimate
        truth = np.mean(said == make_frame()[1])
        assert found["VolMin"].low <= truth <= found["VolMin"].high

    def test_the_page_has_one_number_of_wrong_labels(self, errors, table, tmp_path):
        pytest.importorskip("jinja2")
        compared = compare_classifiers(errors, table, network="linear", folds=3, random_state=0)
        summary = write_audit(errors, table, tmp_path / "audit", title="people.csv", compared=compared)
        assert list(summary["clean_accuracy"]) == ["VolMin", "ridge without correction"]
        page = (tmp_path / "audit" / "index.html").read_text(encoding="utf-8")
        assert f'id="noise-rate">{errors.rate:.1%}<' in page
        assert f"about {errors.total:,.0f} of them" in page
        assert "ridge without correction" in page

    @pytest.mark.parametrize("rates", [[0.2, 0.2, 0.2], [0.1, 0.4, 0.1]])
    def test_rates_come_from_the_labels_where_t_is_symmetric(self, rates):
        """A symmetric T says the same of every class; the class that stands out must be the one with wrong labels."""
        pytest.importorskip("jinja2")
        clean = np.repeat(np.arange(3), 400)
        given = np.where(np.arange(1200) % 400 < 400 * np.array(rates)[clean], (clean + 1) % 3, clean)
        posterior = np.eye(3)[clean]
        wrong = (given != clean).astype(float)
        found = (np.arange(3), given, posterior, posterior, symmetric(3, 0.2), wrong, clean, wrong, [])
        errors = LabelErrors(*found)
        page = audit_page(errors, [str(i) for i in range(1200)], title="t", command="c")
        np.testing.assert_allclose(page.noise_rates, rates)
        np.testing.assert_allclose(summarize(errors)["noise_rates"], rates)
        assert dict(page.summary).get("noisiest class") == (None if len(set(rates)) == 1 else "1 (40.0%)")

    def test_training_of_a_network_is_on_the_page(self, table, tmp_path):
        pytest.importorskip("torch")
        begun = []
        options = {"network": "mlp", "transition": T, "folds": 2, "epochs": 3, "random_state": 0}
        errors = audit_table(table, **options, on_fold=begun.append)
        assert begun == [0, 1]
        assert [len(history) for history in errors.histories] == [3, 3]
        page = audit_page(errors, [str(name) for name in table.names], title="t", command="c")
        losses = [[record["loss"] for record in history] for history in errors.histories]
        np.testing.assert_allclose(page.curves["loss, mean of 2 folds"], np.mean(losses, axis=0))
        assert list(compare_classifiers(errors, table, network="mlp", folds=2)) == ["forward, mlp"]

    def test_mistakes(self, table):
        with pytest.raises(ValueError, match="epochs apply to networks"):
            audit_table(table, epochs=2)
        with pytest.raises(ValueError, match="no labels"):
            audit_table(Table(table.X, None, None, table.names, None, ()))
        pytest.importorskip("torch")
        with pytest.raises(ValueError, match="cnn6 needs images"):
            audit_table(table, network="cnn6")

    def test_audit_shows_thumbnails(self, folder, tmp_path):
        table = read_table(folder)
        errors = audit_table(table, network="linear", folds=3, random_state=0)
        names = table.names[errors.suspects].tolist()
        assert sum(int(name.rpartition("/")[2].removesuffix(".png")) % 10 == 0 for name in names) >= 6
        write_audit(errors, table, tmp_path / "audit", title="digits")
        page = (tmp_path / "audit/index.html").read_text()
        assert page.count("iVBORw0KGgo") > len(errors.suspects)  # and those that look like them


class TestReview:
    """What suspects.csv says of the rows, and how they are named."""

    def test_the_cells_of_each_suspect_and_its_look_alikes(self, errors, table, tmp_path):
        pytest.importorskip("jinja2")
        write_audit(errors, table, tmp_path / "audit", title="people.csv")
        suspects = pd.read_csv(tmp_path / "audit" / "suspects.csv")
        assert set(table.X.columns) <= set(suspects.columns)
        for row in (0, len(suspects) - 1):
            name = suspects["name"][row]
            assert suspects["note"][row] == table.X["note"][name]
            assert suspects["b"][row] == pytest.approx(table.X["b"][name], rel=1e-5)
            for near in suspects.loc[row, ["looks_like_1", "looks_like_2", "looks_like_3"]]:
                assert table.y[near] == suspects["suggested"][row]

    def test_a_column_with_a_name_of_ours_keeps_both(self, errors, table, tmp_path):
        pytest.importorskip("jinja2")
        renamed = replace(table, X=table.X.rename(columns={"town": "given"}))
        write_audit(errors, renamed, tmp_path / "audit", title="people.csv")
        suspects = pd.read_csv(tmp_path / "audit" / "suspects.csv")
        assert set(suspects["given (data)"]) <= {"Ulm", "Bonn"}
        assert set(suspects["given"]) <= set(table.class_names)

    def test_rows_named_by_a_column(self, table):
        named = named_by(table, "note")
        assert named.names.tolist() == [f"note {i}" for i in range(300)]
        assert "note" not in named.X.columns
        for column, match in (("town", "occurs"), ("nope", "no column 'nope'; did you mean 'note'"), ("a", "is empty")):
            with pytest.raises(ValueError, match=match):
                named_by(table, column)
        with pytest.raises(ValueError, match="arrays or images"):
            named_by(Table(np.eye(3), None, None, np.arange(3), None, ()), "a")

    def test_the_sentence_adds_up(self, errors):
        numbers = [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", explain_counts(Totals.of(errors)))]
        n_suspects, n, among, others, total = numbers
        assert (n_suspects, n) == (len(errors.suspects), 300)
        assert abs(among + others - total) <= 1
        assert total == round(errors.total)


class TestProbabilities:
    @pytest.fixture
    def written(self, errors, table, tmp_path):
        """Probabilities of noisy labels, in three kinds of files."""
        q = errors.proba @ errors.transition
        frame = pd.DataFrame(q, columns=[f"probability_{name}" for name in errors.classes])
        frame.to_csv(tmp_path / "order.csv", index=False)
        plain = pd.DataFrame(q, columns=errors.classes).assign(name=np.arange(300)).iloc[::-1]
        plain.to_csv(tmp_path / "names.csv", index=False)
        np.save(tmp_path / "array.npy", q)
        return tmp_path, q

    @pytest.mark.parametrize("name", ["order.csv", "names.csv", "array.npy"])
    def test_are_read_in_the_order_of_the_table(self, written, table, name):
        folder, q = written
        np.testing.assert_allclose(read_probabilities(folder / name, table), q)

    def test_classes_that_are_numbers(self, tmp_path):
        """pandas writes the columns of an array as 0, 1, 2."""
        table = Table(np.eye(6), np.array([0, 1, 2, 0, 1, 2]), None, np.arange(6), None, ("0", "1", "2"))
        q = np.random.default_rng(0).dirichlet(np.ones(3), size=6)
        pd.DataFrame(q).to_csv(tmp_path / "array.csv", index=False)
        np.testing.assert_allclose(read_probabilities(tmp_path / "array.csv", table), q)

    def test_other_arrays_are_refused(self, table, tmp_path):
        np.save(tmp_path / "text.npy", np.array(["a", "b"]))
        np.savez(tmp_path / "two.npz", a=np.eye(2), b=np.eye(2))
        with pytest.raises(ValueError, match="text.npy must hold numbers, the probabilities; it holds <U1"):
            read_probabilities(tmp_path / "text.npy", table)
        with pytest.raises(ValueError, match="two.npz must hold one array, the probabilities; it holds 2 arrays"):
            read_probabilities(tmp_path / "two.npz", table)

    def test_judge_the_labels(self, written, table):
        errors = audit_table(table, pred_probs=written[1], random_state=0)
        wrong = table.y != make_frame()[1]
        assert wrong[errors.suspects].mean() > 0.9
        with pytest.raises(ValueError, match="take the place of a model"):
            audit_table(table, model="trees", pred_probs=written[1])
        assert list(compare_classifiers(errors, table, judge="mine")) == ["mine"]

    def test_mistakes(self, written, table, tmp_path):
        pd.DataFrame({"cat": [1.0], "dog": [0.0]}).to_csv(tmp_path / "lacks.csv", index=False)
        with pytest.raises(ValueError, match="has none for '<script>'"):
            read_probabilities(tmp_path / "lacks.csv", table)
        pd.read_csv(tmp_path / "order.csv").iloc[:5].to_csv(tmp_path / "few.csv", index=False)
        with pytest.raises(ValueError, match="has 5 rows, but the data have 300"):
            read_probabilities(tmp_path / "few.csv", table)
        pd.read_csv(tmp_path / "names.csv").iloc[:5].to_csv(tmp_path / "some.csv", index=False)
        with pytest.raises(ValueError, match="no probabilities of 295 of 300 rows"):
            read_probabilities(tmp_path / "some.csv", table)


def test_groups_and_a_saved_model(table, fitted, quick):
    errors = audit_table(table, model="logistic", groups=np.arange(300) // 3, random_state=0)
    assert (table.y != make_frame()[1])[errors.suspects].mean() > 0.9
    frame, clean = make_frame(seed=1)
    new = table_of(frame)
    found = judge_table(fitted.model, new)
    assert (new.y != clean)[found.suspects].mean() > 0.9
    assert abs(found.total - (new.y != clean).sum()) < 0.3 * (new.y != clean).sum()
    only = table_of(frame[frame["kind"] == "cat"].reset_index(drop=True))
    found = judge_table(fitted.model, only)
    assert noise_of(found, only, Totals.of(found)).noisy_prior.tolist() == [0, 1, 0]


def test_a_saved_model_of_noisy_labels_judges_through_T(table):
    model = fit_table(table, method="lnsi", random_state=0).model  # T does not reach its probabilities
    found = judge_table(model, table)
    q = predict_table(model, table)[1]
    assert speaks_of_noisy_labels(model)
    assert np.mean(found.proba.max(axis=1)) > np.mean(q.max(axis=1)) + 0.02
    clean = fit_table(table, method="mcldce", random_state=0).model
    assert not speaks_of_noisy_labels(clean)
    np.testing.assert_array_equal(judge_table(clean, table).proba, predict_table(clean, table)[1])


def test_exports_go_to_other_tools_and_come_back(errors, table, tmp_path):
    """Suspects to Label Studio and Argilla, answers of a reviewer who knows the truth, and corrected labels."""
    pytest.importorskip("jinja2")
    frame, clean = make_frame()
    frame.to_csv(tmp_path / "people.csv", index=False)
    options = {"title": "people.csv", "exports": ["label-studio", "argilla"]}
    write_audit(errors, table, tmp_path / "audit", **options)
    write_audit(errors, table, tmp_path / "audit", **options)  # takes the place of the earlier one
    tasks = json.loads((tmp_path / "audit" / "label_studio.json").read_text(encoding="utf-8"))
    records = json.loads((tmp_path / "audit" / "argilla" / "records.json").read_text(encoding="utf-8"))
    assert len(tasks) == len(records) == len(errors.suspects)
    assert f"note: note {tasks[0]['data']['name']}" in tasks[0]["data"]["row"]
    for task, record in zip(tasks, records, strict=True):
        truth = str(clean[int(task["data"]["name"])])
        result = {"from_name": "label", "to_name": "row", "type": "choices", "value": {"choices": [truth]}}
        task["annotations"] = [{"result": [result], "was_cancelled": False}]
        record["responses"] = {"label": [{"value": truth, "user_id": "u"}]}
    for k, answers in enumerate((tasks, records)):
        (tmp_path / f"{k}.json").write_text(json.dumps(answers))
        apply_corrections(tmp_path / f"{k}.json", tmp_path / "people.csv", tmp_path / f"{k}.csv", label="kind")
        y = read_table(tmp_path / f"{k}.csv", "kind").y
        assert (y[errors.suspects] == clean[errors.suspects]).all()
        assert (y != clean).sum() < 0.15 * (table.y != clean).sum()
    with pytest.raises(ValueError, match="exports must be some of label-studio, argilla"):
        write_audit(errors, table, tmp_path / "other", title="t", exports=["doccano"])


def test_the_number_of_wrong_labels_has_an_interval(errors):
    totals = Totals.of(errors)
    assert totals.interval[0] <= totals.total <= totals.interval[1]
    assert "with 90 % probability between" in explain_interval(totals)
    assert "cannot be told" in explain_interval(replace(totals, by_rules=True))
    assert summarize(errors)["expected_errors_interval"] == list(errors.interval)
    assert summarize(errors)["suspected_errors"] is None


def test_labels_that_cannot_tell_noise_from_overlap_get_no_count(errors):
    unsure = replace(errors, doubt=errors.proba, undecided=True)
    low, high = unsure.interval
    totals = replace(Totals.of(unsure), suspected=50.0)
    said = explain_interval(totals)
    assert f"Between {low:,.0f} and {high:,.0f} of {len(errors.given):,} are wrong; about 50, if people made" in said
    assert explain_counts(totals) == f"{len(errors.suspects):,} labels have a likelier one."
    assert explain_counts(replace(totals, n_suspects=1)) == "1 label has a likelier one."
    assert explain_counts(replace(totals, n_suspects=0)) == "No label has a likelier one."
    assert summarize(unsure)["suspected_errors"] == unsure.suspected > 0
    assert summarize(unsure)["undecided"]
    both = explain_interval(replace(totals, suspected=None))
    assert both.endswith(f"the number may be anywhere between {low:,.0f} and {high:,.0f}.")
    assert explain_interval(replace(totals, by_rules=True)).startswith("How many labels are wrong cannot be told")
