"""A person's own table: fit, audit, noise and predictions, as a notebook would call them."""

import csv
import json
import os
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")

import pandas as pd

from unflip import load, registry
from unflip._output import check_place, write_columns
from unflip.audit import find_label_errors
from unflip.commands import (
    Noise,
    audit_table,
    compare_classifiers,
    find_noise,
    fit_table,
    predict_table,
    read_for,
    read_transition,
    write_audit,
    write_fit_page,
    write_predictions,
    write_transition,
)
from unflip.commands.audit import audit_page, summarise
from unflip.commands.fit import check_model_folder
from unflip.commands.folders import check_folder, written_folder
from unflip.core import clean_prior
from unflip.metrics import clean_accuracy, transition_error
from unflip.models import card
from unflip.noise import corrupt, pairflip
from unflip.tables import Table, read_table

NAMES = np.array(["<script>", "cat", "dog"])
T = pairflip(3, 0.3)


def make_frame(n=300, seed=0):
    """Three clusters, a town that tells of one, missing numbers, columns of no use; and the clean labels."""
    random = np.random.default_rng(seed)
    y = random.integers(3, size=n)
    frame = pd.DataFrame(random.normal(size=(n, 4)) + 4 * np.eye(3, 4)[y], columns=list("abcd"))
    frame.loc[::17, "a"] = np.nan
    frame["town"] = np.where(y == 1, "Ulm", "Bonn")
    frame["id"] = range(n)
    frame["note"] = [f"note {i}" for i in range(n)]
    frame["kind"] = NAMES[corrupt(y, T, random_state=seed)]
    return frame, NAMES[y]


def table_of(frame, label="kind", weights=None):
    X = frame.drop(columns=[label])
    return Table(X, np.array(frame[label].tolist()), weights, np.arange(len(X)), label, tuple(NAMES))


@pytest.fixture(scope="module")
def table():
    return table_of(make_frame()[0])


@pytest.fixture(scope="module")
def fitted(table):
    return fit_table(table, random_state=0)


@pytest.fixture(scope="module")
def errors(table):
    return audit_table(table, folds=3, random_state=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Noughts and ones of the digits as PNG files, a tenth of them in the wrong folder."""
    pytest.importorskip("PIL")
    pytest.importorskip("jinja2")
    from sklearn.datasets import load_digits

    from unflip.page.thumbnails import thumbnail

    top = tmp_path_factory.mktemp("digits")
    X, y = load_digits(n_class=2, return_X_y=True)
    for i in range(80):
        place = top / NAMES[y[i] if i % 10 else 1 - y[i]]
        place.mkdir(exist_ok=True)
        (place / f"{i}.png").write_bytes(thumbnail(X[i].reshape(1, 8, 8), 0, 16))
    return top


class TestFit:
    def test_the_model_withstands_the_noise_and_says_so(self, fitted):
        fresh, clean = make_frame(400, seed=9)
        accuracy = np.mean(fitted.model.predict(fresh) == clean)
        assert accuracy > 0.9
        assert fitted.accuracy.low < accuracy < fitted.accuracy.high + 1e-9
        assert transition_error(fitted.noise.transition, T) < 0.3
        assert fitted.baseline is not None
        assert fitted.baseline_name == "ridge without correction"

    def test_a_fifth_of_each_class_is_held_out(self, fitted, table):
        assert fitted.n_train + fitted.n_test == len(table.y)
        assert fitted.n_test == sum(round(0.2 * np.sum(table.y == name)) for name in NAMES)

    def test_columns_of_no_use_are_named_although_rows_were_split(self, fitted):
        assert fitted.unused == {
            "id": "it numbers the rows",
            "note": "every value is different: names or free text",
        }
        assert set(fitted.model.preprocessor_.numbers_) == set("abcd")
        assert set(fitted.model.preprocessor_.categories_) == {"town"}

    def test_saved_with_what_is_known_of_it(self, fitted, table, tmp_path):
        fitted.model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert np.array_equal(again.predict_proba(table.X), fitted.model.predict_proba(table.X))
        text = card(tmp_path / "model")
        for words in (
            "estimated accuracy on clean labels",
            "the same learner without correction",
            "it numbers the rows",
        ):
            assert words in text

    def test_same_seed_same_result(self, fitted, table):
        again = fit_table(table, random_state=0)
        assert again.accuracy == fitted.accuracy
        assert np.array_equal(again.noise.transition, fitted.noise.transition)
        assert fit_table(table, random_state=1).accuracy != fitted.accuracy

    @pytest.mark.parametrize("method", registry.names("linear"))
    def test_every_linear_method(self, method, tmp_path):
        small = table_of(make_frame(150)[0])
        found = fit_table(small, method=method, transition=T, random_state=0)
        assert np.array_equal(found.noise.transition, T)
        assert found.accuracy.estimate > 0.5
        found.model.save(tmp_path / "model")
        predicted, proba = predict_table(load(tmp_path / "model"), small)
        assert np.array_equal(predicted, found.model.predict(small.X))
        assert np.allclose(proba.sum(axis=1), 1)

    def test_a_method_without_t_has_it_estimated_for_the_accuracy(self):
        told = []
        found = fit_table(table_of(make_frame(150)[0]), method="lnsi", random_state=0, tell=told.append)
        assert transition_error(found.noise.transition, T) < 0.5
        assert any("estimating T" in text for text in told)

    def test_a_test_table_leaves_all_rows_for_training(self, table):
        found = fit_table(table, test=table_of(make_frame(100, seed=3)[0]), transition=T, random_state=0)
        assert (found.n_train, found.n_test) == (300, 100)

    def test_weights_count(self, table):
        # Rows of weight 0 say nothing: their labels may be anything.
        weights = np.arange(300) % 2 + 0.0
        other = np.where(weights == 0, "dog", table.y)
        options = {"transition": T, "test": table, "random_state": 0}
        one, two = (
            fit_table(Table(table.X, y, weights, table.names, "kind", tuple(NAMES)), **options)
            for y in (table.y, other)
        )
        assert np.allclose(one.model.classifier_.coef_, two.model.classifier_.coef_)
        assert np.allclose(one.noise.class_prior, two.noise.class_prior)

    def test_a_network(self, table, tmp_path):
        pytest.importorskip("torch")
        found = fit_table(table, network="mlp", transition=T, epochs=2, random_state=0)
        assert found.baseline_name == "cross-entropy without correction"
        found.model.save(tmp_path / "model")
        predicted, _ = predict_table(load(tmp_path / "model"), table)
        assert np.array_equal(predicted, found.model.predict(table.X))
        alone = fit_table(table, network="mlp", method="ce", transition=T, epochs=1, random_state=0)
        assert alone.baseline is None
        assert set(found.curves) == {
            f"{name}: {what}"
            for name in ("mcldce", "cross-entropy")
            for what in ("loss", "accuracy on held-out noisy labels")
        }
        assert all(len(values) == 2 for values in found.curves.values())
        noisy = found.curves["mcldce: accuracy on held-out noisy labels"][-1]
        assert round(noisy * found.n_test) == pytest.approx(noisy * found.n_test)

    def test_the_page_of_a_fit(self, fitted, table, tmp_path):
        pytest.importorskip("jinja2")
        curves = {"mcldce: loss": [2.0, 1.0]}
        path = write_fit_page(replace(fitted, curves=curves), tmp_path / "page", title="<b>people.csv")
        text = path.read_text(encoding="utf-8")
        assert "&lt;b&gt;people.csv" in text
        assert "<b>people" not in text
        for words in (
            "curves-title",
            "mcldce, linear",
            "ridge without correction",
            "mcldce: loss",
            f"{fitted.n_test:,} noisy labels",
        ):
            assert words in text
        assert "uspect labels" not in text
        write_fit_page(fitted, tmp_path / "page", title="again")
        assert "curves-title" not in path.read_text(encoding="utf-8")  # a linear model has no epochs
        (tmp_path / "page" / "mine.txt").write_text("mine")
        with pytest.raises(FileExistsError, match="no earlier result"):
            write_fit_page(fitted, tmp_path / "page", title="again")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"method": "gce"}, "'gce' is not a method for linear models; choose one of mcldce, ule"),
            ({"network": "resnet"}, "network must be one of linear, mlp, cnn6; got 'resnet'"),
            ({"epochs": 3}, "epochs are those of a network"),
            ({"transition": np.eye(2)}, "2 x 2 but there are 3 classes"),
            ({"holdout": 0.0}, "between 0 and 1; got 0.0"),
            ({"holdout": 0.001}, "too few to hold"),
            ({"test": Table(None, None, None, np.arange(3), None, ())}, "has no labels"),
            (
                {"test": Table(None, np.arange(3), None, np.arange(3), "y", ())},
                "labels are text, those of the test data",
            ),
        ],
    )
    def test_mistakes(self, table, options, words):
        with pytest.raises(ValueError, match=words):
            fit_table(table, **options)

    def test_a_class_of_one_row_stays_in_training(self):
        frame = make_frame(100)[0]
        frame.loc[0, "kind"] = "emu"
        found = fit_table(table_of(frame), transition=pairflip(4, 0.2), random_state=0)
        assert "emu" in found.noise.names


class TestNoise:
    def test_rates_and_shares_follow_from_t(self):
        noise = Noise.of(np.array(["a", "a", "a", "b"]), np.array([[0.9, 0.1], [0.4, 0.6]]))
        prior = clean_prior([0.75, 0.25], [[0.9, 0.1], [0.4, 0.6]])
        assert np.allclose(noise.noise_rates, [0.1, 0.4])
        assert np.isclose(noise.noise_rate, prior[0] * 0.1 + prior[1] * 0.4)
        assert noise.names == ["a", "b"]

    def test_found_in_a_table(self, table):
        assert transition_error(find_noise(table, random_state=0).transition, T) < 0.3

    def test_written_and_read_back(self, tmp_path):
        pytest.importorskip("matplotlib")
        noise = Noise.of(NAMES[[0, 1, 2]], T)
        folder = write_transition(noise, tmp_path / "noise")
        for name in ("transition.json", "transition.csv"):
            assert np.array_equal(read_transition(folder / name, NAMES), T)
        assert (folder / "transition.svg").read_bytes().startswith(b"<?xml")
        assert (folder / "transition.png").read_bytes().startswith(b"\x89PNG")
        before = (folder / "transition.svg").read_bytes()
        write_transition(noise, folder)  # takes the place of the earlier one
        assert (folder / "transition.svg").read_bytes() == before

    @pytest.mark.parametrize("n", [30, 70])
    def test_a_picture_of_many_classes(self, n):
        pytest.importorskip("matplotlib")
        from unflip.report.matrix import draw_transition, picture

        names = [f"class number {i} $x\n" * 2 for i in range(n)]
        assert picture(draw_transition(pairflip(n, 0.2), names), "png").startswith(b"\x89PNG")


class TestTransitionFile:
    def write(self, path, content):
        if path.suffix == ".npy":
            np.save(path, content)
        else:
            path.write_text(content)
        return path

    def test_names_in_any_order(self, tmp_path):
        shuffled = [2, 0, 1]
        content = {"classes": NAMES[shuffled].tolist(), "transition": T[np.ix_(shuffled, shuffled)].tolist()}
        assert np.array_equal(read_transition(self.write(tmp_path / "t.json", json.dumps(content)), NAMES), T)
        rows, columns = [1, 2, 0], [2, 1, 0]
        lines = [["", *NAMES[columns]], *([NAMES[i], *T[i, columns]] for i in rows)]
        with (tmp_path / "t.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)
        assert np.array_equal(read_transition(tmp_path / "t.csv", NAMES), T)

    def test_without_names(self, tmp_path):
        text = "\n".join(",".join(map(repr, row)) for row in T.tolist())
        assert np.array_equal(read_transition(self.write(tmp_path / "t.csv", text), NAMES), T)
        assert np.array_equal(read_transition(self.write(tmp_path / "t.json", json.dumps(T.tolist())), NAMES), T)
        assert np.array_equal(read_transition(self.write(tmp_path / "t.npy", T), NAMES), T)

    def test_whole_numbers_as_class_names(self, tmp_path):
        with (tmp_path / "t.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["", 1, 2], [1, 0.9, 0.1], [2, 0.2, 0.8]])
        assert read_transition(tmp_path / "t.csv", np.array([1, 2])).tolist() == [[0.9, 0.1], [0.2, 0.8]]

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("t.npy", np.eye(4), "4 x 4 but there are 3 classes"),
            ("t.npy", np.array([None, {}], dtype=object), "cannot be read as a transition matrix"),
            ("t.npy", pairflip(3, 0.3).T @ np.diag([0.5, 1, 1]), "sums to"),
            ("t.txt", "", "should be .json, .csv or .npy"),
            ("t.json", "{", "cannot be read"),
            ("t.json", '{"classes": ["a"]}', "no entry 'transition'"),
            ("t.json", '{"classes": ["a", "a"], "transition": []}', "not a list of different names"),
            ("t.json", '{"classes": ["a", "b"], "transition": [[1, 0], [0, 1]]}', "of the classes 'a', 'b', but"),
            ("t.json", '{"transition": [[1, 0], [0, 1]]}', "2 x 2 but there are 3 classes"),
            ("t.csv", "", "it has 0 lines"),
            ("t.csv", "1,0\n0,1,0\n", "square matrix"),
            ("t.csv", ",a,b\na,1,0\nb,0,x\n", "could not convert string to float: 'x'"),
            ("t.csv", ",a,b\na,1,0\nb,0,1\n", "those of the labels are '<script>', 'cat', 'dog'"),
        ],
    )
    def test_mistakes(self, tmp_path, name, content, words):
        with pytest.raises(ValueError, match=words) as caught:
            read_transition(self.write(tmp_path / name, content), NAMES)
        assert name in str(caught.value)

    def test_damaged_and_missing_files(self, tmp_path):
        whole = self.write(tmp_path / "whole.npy", T).read_bytes()
        objects = self.write(tmp_path / "objects.npy", np.array([None, {}], dtype=object)).read_bytes()
        for content in (b"", b"\n", b"no array", whole[:-8], whole[:20], objects):
            (tmp_path / "t.npy").write_bytes(content)
            with pytest.raises(
                ValueError, match=r"t.npy cannot be read .*: it holds no whole array of numbers, such as"
            ):
                read_transition(tmp_path / "t.npy", NAMES)
        (tmp_path / "t.csv").write_bytes("ä".encode("latin-1"))
        with pytest.raises(ValueError, match=r"t.csv cannot be read as a transition matrix: it is not text in UTF-8$"):
            read_transition(tmp_path / "t.csv", NAMES)
        (tmp_path / "folder.json").mkdir()
        with pytest.raises(ValueError, match=r"folder.json cannot be read as a transition matrix: Is a directory$"):
            read_transition(tmp_path / "folder.json", NAMES)
        with pytest.raises(FileNotFoundError, match=r"^[^\[]*nowhere.npy does not exist$"):
            read_transition(tmp_path / "nowhere.npy", NAMES)


class TestPredict:
    def test_blocks_are_the_whole(self, fitted, table):
        whole, proba = predict_table(fitted.model, table)
        parts, again = predict_table(fitted.model, table, block=7)
        assert np.array_equal(whole, parts)
        assert np.allclose(proba, again)
        assert np.array_equal(whole, fitted.model.predict(table.X))

    def test_columns_by_name(self, fitted, table):
        mixed = table.X[[*reversed(table.X.columns)]].assign(more=1)
        other = Table(mixed, None, None, table.names, None, ())
        assert np.array_equal(predict_table(fitted.model, other)[1], predict_table(fitted.model, table)[1])
        without = Table(table.X.drop(columns="b"), None, None, table.names, None, ())
        with pytest.raises(ValueError, match="no column 'b', which the model needs"):
            predict_table(fitted.model, without)

    @pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
    def test_written(self, fitted, table, tmp_path, suffix):
        pytest.importorskip("pyarrow")
        predicted, proba = predict_table(fitted.model, table)
        path = write_predictions(tmp_path / f"new/p.{suffix}", table, predicted, proba, fitted.model.classes_)
        frame = (
            pd.read_parquet(path) if suffix == "parquet" else pd.read_csv(path, sep="\t" if suffix == "tsv" else ",")
        )
        assert list(frame.columns) == ["name", "prediction", *(f"probability_{name}" for name in NAMES)]
        assert frame["prediction"].tolist() == predicted.tolist()
        assert np.array_equal(frame.iloc[:, 2:].to_numpy(), proba)
        assert [item.name for item in path.parent.iterdir()] == [path.name]

    def test_what_predicts_nothing(self, fitted, table):
        with pytest.raises(ValueError, match="is a Preprocessor, which predicts nothing"):
            predict_table(fitted.model.preprocessor_, table)

    def test_a_failed_file_leaves_nothing(self, tmp_path):
        with pytest.raises(ValueError, match="longer"):
            write_columns(tmp_path / "p.csv", {"a": np.arange(2), "b": np.arange(3)})
        with pytest.raises(ValueError, match="must end in"):
            write_columns(tmp_path / "p.xls", {"a": np.arange(2)})
        assert not list(tmp_path.iterdir())


class TestAudit:
    def test_finds_the_flipped_labels(self, errors, table):
        wrong = table.y != make_frame()[1]
        assert wrong[errors.suspects].mean() > 0.9
        assert abs(errors.total - wrong.sum()) < 0.25 * wrong.sum()

    def test_embeddings_keep_the_scale_that_they_have_in_common(self):
        """What ``find_label_errors`` finds in the same numbers: a preprocessor must not blow up the rare ones."""
        random = np.random.default_rng(0)
        y = random.integers(3, size=300)
        X = random.normal(size=(300, 20)) * np.r_[np.ones(4), np.full(16, 0.01)] + 4 * np.eye(3, 20)[y]
        noisy = corrupt(y, T, random_state=0)
        ours = audit_table(Table(X, noisy, None, np.arange(300), "y", ("0", "1", "2")), folds=3, random_state=0)
        np.testing.assert_allclose(ours.scores, find_label_errors(X, noisy, cv=3, random_state=0).scores)

    def test_a_given_t_is_used(self, table):
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
        assert summary == summarise(errors)
        page = (folder / "index.html").read_text(encoding="utf-8")
        assert "&lt;b&gt;people.csv" in page
        assert "<b>people" not in page
        assert r"\u003cscript\u003e" in page
        write_audit(errors, table, folder, title="again")  # takes the place of the earlier one
        assert "again" in (folder / "index.html").read_text(encoding="utf-8")
        assert [item.name for item in tmp_path.iterdir()] == ["audit"]

    def test_compared_on_samples_that_were_not_seen(self, errors, table):
        found = compare_classifiers(errors, table, folds=3, random_state=0)
        assert list(found) == ["VolMin", "ridge without correction"]
        said = errors.classes[errors.proba.argmax(axis=1)]
        assert found["VolMin"] == clean_accuracy(table.y, said, errors.transition, classes=errors.classes)
        truth = np.mean(said == make_frame()[1])
        assert found["VolMin"].low <= truth <= found["VolMin"].high

    def test_the_page_has_one_number_of_wrong_labels(self, errors, table, tmp_path):
        pytest.importorskip("jinja2")
        compared = compare_classifiers(errors, table, folds=3, random_state=0)
        summary = write_audit(errors, table, tmp_path / "audit", title="people.csv", compared=compared)
        assert list(summary["clean_accuracy"]) == ["VolMin", "ridge without correction"]
        page = (tmp_path / "audit" / "index.html").read_text(encoding="utf-8")
        assert f'id="noise-rate">{errors.rate:.1%}<' in page
        assert f"about {errors.total:,.0f} of them" in page
        assert "ridge without correction" in page

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
        assert list(compare_classifiers(errors, table, network="mlp", folds=2)) == ["mcldce, mlp"]

    def test_mistakes(self, table):
        with pytest.raises(ValueError, match="epochs are those of a network"):
            audit_table(table, epochs=2)
        with pytest.raises(ValueError, match="no labels"):
            audit_table(Table(table.X, None, None, table.names, None, ()))
        pytest.importorskip("torch")
        with pytest.raises(ValueError, match="cnn6 takes images"):
            audit_table(table, network="cnn6")


class TestPlaces:
    def test_below_a_file_nothing_can_be_written(self, tmp_path):
        (tmp_path / "file").write_text("mine")
        for check in (check_place, check_model_folder, lambda path: check_folder(path, ("a",))):
            with pytest.raises(NotADirectoryError, match="file is a file, not a folder"):
                check(tmp_path / "file" / "x" / "y")
        check_place(tmp_path / "new" / "x")

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
    def test_where_nothing_may_be_written(self, tmp_path):
        tmp_path.chmod(0o555)
        with pytest.raises(PermissionError, match="no permission to write to the folder"):
            check_place(tmp_path / "x")

    def test_an_empty_folder_may_become_a_model(self, fitted, tmp_path):
        check_model_folder(tmp_path)
        fitted.model.save(tmp_path)
        assert {item.name for item in tmp_path.iterdir()} == {"model.json", "weights.safetensors"}


class TestFolders:
    FILES = ("summary.json", "list.csv")

    def test_whole_or_not_at_all(self, tmp_path):
        def stopped():
            with written_folder(tmp_path / "out", self.FILES) as partial:
                (partial / "list.csv").write_text("half")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            stopped()
        assert not list(tmp_path.iterdir())

    def test_an_earlier_result_is_replaced_or_kept(self, tmp_path):
        for text in ("unflip 1", "unflip 2"):
            with written_folder(tmp_path / "out", self.FILES) as partial:
                (partial / "summary.json").write_text(text)
        with pytest.raises(ZeroDivisionError), written_folder(tmp_path / "out", self.FILES) as partial:
            raise ZeroDivisionError
        assert (tmp_path / "out" / "summary.json").read_text() == "unflip 2"
        assert [item.name for item in tmp_path.iterdir()] == ["out"]

    def test_an_empty_folder_is_free(self, tmp_path):
        assert check_folder(tmp_path, self.FILES) == tmp_path.resolve()

    @pytest.mark.parametrize(
        "files", [{"summary.json": "mine"}, {"list.csv": "unflip "}, {"summary.json": "unflip ", "thesis.tex": ""}]
    )
    def test_the_files_of_others_are_left_alone(self, tmp_path, files):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        with pytest.raises(FileExistsError, match="choose another folder"):
            check_folder(tmp_path, self.FILES)
        (tmp_path / "file").write_text("")
        with pytest.raises(FileExistsError, match="choose another folder"):
            check_folder(tmp_path / "file", self.FILES)


class TestImages:
    def test_audit_shows_thumbnails(self, folder, tmp_path):
        table = read_table(folder)
        errors = audit_table(table, folds=3, random_state=0)
        names = table.names[errors.suspects].tolist()
        assert sum(int(name.rpartition("/")[2].removesuffix(".png")) % 10 == 0 for name in names) >= 6
        write_audit(errors, table, tmp_path / "audit", title="digits")
        assert (tmp_path / "audit/index.html").read_text().count("iVBORw0KGgo") == len(errors.suspects)

    def test_a_linear_model_of_pixels(self, folder, tmp_path):
        found = fit_table(read_table(folder), random_state=0)
        found.model.save(tmp_path / "model")
        model = load(tmp_path / "model")
        table = read_for(model, folder / "cat")  # images without labels
        assert np.mean(predict_table(model, table)[0] == "cat") > 0.8
        wrong = Table(np.zeros((2, 1, 9, 8), np.float32), None, None, np.arange(2), None, ())
        with pytest.raises(ValueError, match="1x8x8, but these are 1x9x8"):
            predict_table(model, wrong)

    def test_grey_images_for_a_model_of_colours(self, folder):
        grey = read_table(folder)
        colour = Table(np.repeat(grey.X, 3, axis=1), grey.y, None, grey.names, "folder", grey.class_names)
        model = fit_table(colour, random_state=0).model
        assert np.array_equal(predict_table(model, grey)[1], predict_table(model, colour)[1])

    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_thumbnail_is_the_image(self, channels):
        image = pytest.importorskip("PIL.Image")
        pytest.importorskip("jinja2")
        from io import BytesIO

        from unflip.page.thumbnails import thumbnail

        pixels = np.random.default_rng(0).integers(256, size=(channels, 5, 7))
        with image.open(BytesIO(thumbnail(pixels, 0, 255))) as read:
            assert np.array_equal(np.asarray(read).reshape(5, 7, channels), pixels.transpose(1, 2, 0))
        with image.open(BytesIO(thumbnail(pixels, 0, 255, largest=3))) as read:  # squares of 3 x 3
            small = np.asarray(read).reshape(2, 3, channels)
        assert np.abs(small[0, 1] - pixels[:, :3, 3:6].mean(axis=(1, 2))).max() <= 0.5
        assert np.abs(small[0, 2] - pixels[:, :3, 6].mean(axis=1)).max() <= 0.5  # the last column repeated

    def test_thumbnail_of_odd_channels_and_shapes(self):
        pytest.importorskip("jinja2")
        from unflip.page.thumbnails import thumbnail

        two = np.stack([np.zeros((2, 2)), np.ones((2, 2))])
        assert thumbnail(two) == thumbnail(np.full((1, 2, 2), 0.5))
        with pytest.raises(ValueError, match="got \\(2, 2\\)"):
            thumbnail(np.zeros((2, 2)))
