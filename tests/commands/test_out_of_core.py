"""Tables larger than memory: the fit by two passes against the fit in memory, and predictions block by block."""

import json
import warnings

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")

import pandas as pd

from tests.commands.people import N, T, invoke, numbers, people, write_people
from unflip import load, read_table
from unflip.commands import fit_out_of_core, fit_table, predict_files, predict_table, read_for, write_predictions
from unflip.commands.row_passes import DRAW, FOLD
from unflip.linear import MCLDCEClassifier, MCLDCEClassifierCV
from unflip.models import card
from unflip.tables import Table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_people(tmp_path_factory.mktemp("people"))


@pytest.fixture(scope="module")
def fitted(folder):
    return fit_out_of_core(folder / "parts", "kind", weights="count", rows=100, threads=1)


@pytest.fixture(scope="module")
def saved(folder, fitted):
    return fitted.model.save(folder / "model")


class TestAgainstMemory:
    def test_is_the_fit_in_memory_of_the_rows_not_held_out(self, folder, fitted):
        table = read_table(folder / "people.parquet", "kind", "count")
        keys, fold = numbers(DRAW), (5 * numbers(FOLD)).astype(int)
        held = keys < np.sort(keys)[120]
        parts = [
            Table(table.X[rows].reset_index(drop=True), table.y[rows], table.sample_weight[rows], None, "kind", ())
            for rows in (~held, held)
        ]
        # In memory the column that numbers the rows is seen in the whole table.
        train = Table(parts[0].X.drop(columns="number"), *list(vars(parts[0]).values())[1:])
        other = fit_table(train, model="mcldce", test=parts[1], random_state=0)
        mine, theirs = fitted.model, other.model
        assert np.array_equal(mine.transition_, theirs.transition_)
        for name in ("median_", "mean_", "scale_"):
            assert np.array_equal(getattr(mine.preprocessor_, name), getattr(theirs.preprocessor_, name))
        assert mine.preprocessor_.categories_ == theirs.preprocessor_.categories_
        assert mine.unused_ == {**theirs.unused_, "number": "it numbers the rows"}
        assert (fitted.n_train, fitted.n_test) == (480, 120)
        # The folds are others than those of the fit in memory: give it the same.
        fold = fold[~held]
        splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
        X = mine.preprocessor_.transform(train.X)
        twin = MCLDCEClassifierCV(mine.transition_, cv=splits).fit(X, train.y, train.sample_weight)
        assert mine.classifier_.alpha_ == pytest.approx(twin.alpha_)
        np.testing.assert_allclose(mine.classifier_.coef_, twin.coef_, atol=1e-10)
        np.testing.assert_allclose(mine.classifier_.risk_, twin.risk_, rtol=1e-10)
        same = MCLDCEClassifier(mine.transition_, alpha=mine.classifier_.alpha_).fit(X, train.y, train.sample_weight)
        np.testing.assert_allclose(mine.classifier_.coef_, same.coef_, atol=1e-10)
        np.testing.assert_allclose(fitted.noise.class_prior, other.noise.class_prior, rtol=1e-10)
        hits = np.mean(mine.predict(parts[1].X) == theirs.predict(parts[1].X))
        assert hits > 0.97
        assert fitted.accuracy.estimate == pytest.approx(other.accuracy.estimate, abs=0.05)

    def test_threads_change_no_bit(self, folder, fitted):
        other = fit_out_of_core(folder / "parts", "kind", weights="count", rows=100, threads=3)
        assert np.array_equal(other.model.classifier_.coef_, fitted.model.classifier_.coef_)
        assert other.accuracy == fitted.accuracy

    @pytest.mark.parametrize("rows", [23, 10_000])
    def test_blocks_change_neither_sample_nor_folds(self, folder, fitted, rows):
        other = fit_out_of_core(folder / "parts", "kind", weights="count", rows=rows)
        assert np.array_equal(other.model.transition_, fitted.model.transition_)
        assert other.baseline == pytest.approx(fitted.baseline, abs=1e-12)
        np.testing.assert_allclose(other.model.classifier_.coef_, fitted.model.classifier_.coef_, atol=1e-10)

    def test_csv_means_what_parquet_does(self, folder):
        one = fit_out_of_core(folder / "people.parquet", "kind", rows=90, drop="count")
        two = fit_out_of_core(folder / "people.csv", "kind", rows=90, drop=["count"])
        assert one.unused == two.unused
        assert set(one.unused) == {"number", "year", "name"}
        np.testing.assert_allclose(one.model.transition_, two.model.transition_, atol=1e-4)
        np.testing.assert_allclose(one.model.classifier_.coef_, two.model.classifier_.coef_, atol=1e-3)

    def test_a_given_transition_and_a_test_file(self, folder, tmp_path):
        np.save(tmp_path / "T.npy", T)
        test = read_table(folder / "people.csv", "kind")
        options = {"drop": ["count"], "test": test}
        one = fit_out_of_core(folder / "parts", "kind", transition=tmp_path / "T.npy", **options)
        two = fit_out_of_core(folder / "parts", "kind", transition=T, **options)
        assert np.array_equal(one.model.classifier_.coef_, two.model.classifier_.coef_)
        assert np.array_equal(one.model.transition_, T)
        assert (one.n_train, one.n_test) == (N, N)
        assert one.model.classifier.transition is not None  # so the card says that it was given


class TestSample:
    def test_a_small_sample_still_sums_all_rows(self, folder, fitted, monkeypatch):
        for module in ("out_of_core", "row_passes"):
            monkeypatch.setattr(f"unflip.commands.{module}.MOST_HELD_OUT", 120)
        small = fit_out_of_core(folder / "parts", "kind", weights="count", rows=100, sample_size=200)
        assert small.n_train == 480
        assert small.model.metadata_["rows that preprocessing and T were learned from"] == 200
        sums, all_sums = small.model.classifier_.sums_, fitted.model.classifier_.sums_
        assert np.array_equal(sums.counts, all_sums.counts)
        assert small.unused["number"] == "it numbers the rows"  # although the sample has gaps

    def test_a_label_outside_the_sample(self, tmp_path):
        frame = people()
        rare = np.argsort(numbers(DRAW, (N,)))[-4:]
        frame.loc[rare, "kind"] = "yak"
        frame.to_parquet(tmp_path / "p.parquet", index=False)
        with pytest.warns(
            UserWarning, match="no row of the sample has the label 'yak': T treats such labels as correct"
        ):
            found = fit_out_of_core(tmp_path / "p.parquet", "kind", sample_size=300)
        assert found.noise.names == ["ant", "bee", "cat", "yak"]
        assert found.noise.transition[3].tolist() == [0, 0, 0, 1]
        assert found.noise.transition[:, 3].tolist() == [0, 0, 0, 1]
        assert found.model.classifier_.sums_.counts[3] == 4

    def test_what_occurs_once_stays_in_training(self, tmp_path):
        frame = people()
        first = np.argsort(numbers(DRAW, (N,)))[0]  # would be held out
        frame.loc[first, "kind"] = "yak"
        frame.to_parquet(tmp_path / "p.parquet", index=False)
        found = fit_out_of_core(tmp_path / "p.parquet", "kind", rows=100, transition=np.eye(4))
        assert (found.n_train, found.n_test) == (481, 119)
        assert found.model.classifier_.sums_.counts[3] == 1


class TestTextFiles:
    def test_a_column_that_turns_out_to_be_text(self, tmp_path):
        """Codes: numbers in the first blocks, one letter in the last. In memory all of them are text."""
        frame = people().drop(columns="count")
        frame["code"] = (np.arange(N) % 3).astype(str)
        frame.loc[N - 3 :, "code"] = "x"
        frame.to_csv(tmp_path / "p.csv", index=False)
        found = fit_out_of_core(tmp_path / "p.csv", "kind", rows=100, transition=T)
        assert found.model.preprocessor_.categories_["code"] == ["0", "1", "2", "x"]

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_rows_without_a_label_are_left_out_with_a_count(self, tmp_path, kind):
        whole = people().drop(columns="number")
        lost = np.isin(np.arange(N), [0, 7, 333, *range(400, 500)])  # one block has no label at all
        for name, frame in (("gaps", whole.assign(kind=whole["kind"].where(~lost))), ("kept", whole[~lost])):
            path = tmp_path / f"{name}.{kind}"
            frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
        how = {"rows": 100, "transition": T, "test": read_table(tmp_path / f"kept.{kind}", "kind")}
        with pytest.warns(UserWarning, match=r"^103 of 600 rows have no label and are left out$"):
            found = fit_out_of_core(tmp_path / f"gaps.{kind}", "kind", **how)
        assert found.n_train == N - 103
        expected = fit_out_of_core(tmp_path / f"kept.{kind}", "kind", **how)
        np.testing.assert_allclose(found.noise.noisy_prior, expected.noise.noisy_prior)
        coefficients = found.model.classifier_.coef_, expected.model.classifier_.coef_
        np.testing.assert_allclose(*coefficients, atol=0.02)  # the folds that choose the penalty differ

    def test_numbers_with_gaps_and_labels_as_numbers(self, tmp_path):
        frame = people().drop(columns="count")
        frame["kind"] = frame["kind"].map({"ant": 1, "bee": 2, "cat": 10})
        frame["late"] = pd.Series(np.arange(N) % 7, dtype="Int64")
        frame.loc[N - 2 :, "late"] = pd.NA  # whole numbers at first, then with gaps
        frame["empty"] = np.nan
        frame["flag"] = np.where(np.arange(N) % 2, "true", "False")
        frame.to_csv(tmp_path / "p.csv", index=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = fit_out_of_core(tmp_path / "p.csv", "kind", rows=100, transition=T)
        assert found.noise.classes.tolist() == [1, 2, 10]
        assert "late" in found.model.preprocessor_.numbers_
        assert found.unused["empty"] == "it has no values"
        assert found.model.preprocessor_.categories_["flag"] == ["False", "True"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.assign(kind="ant"), "has only one class"),
        (lambda f: f.assign(kind=range(N)), "has 600 different values in 600 rows"),
        (lambda f: f.assign(kind=np.nan), r"the label .kind. is missing in each of the 600 rows"),
        (
            lambda f: f.assign(kind=np.linspace(0, 1, N)),
            r"rows 0 to 99: the label .kind. is 0.00\d+ in row 1",
        ),
        (lambda f: f.assign(count=-1), r"rows 0 to 99: the weight .count. is -1 in row 0"),
        (lambda f: f.assign(count=0), r"the weights .count. of .*p\.\w+ are zero in every row; at least one sample"),
        (
            lambda f: f.assign(count="blue"),
            r"rows 0 to 99: the weight .count. is .blue. in row 0 .100",
        ),
        (
            lambda f: f.assign(count=["1"] * 345 + ["blue"] * 255),
            r"rows 300 to 399: the weight .count. is .blue. in row 345 .55 such rows.; a weight must be a number",
        ),
        (lambda f: f.assign(count=pd.Timestamp("2020-01-01")), r"the weight .count. is .2020-01-01.* in row 0"),
        (lambda f: f[:0], "no rows"),
        (lambda f: f[:3], "too few"),
        (lambda f: f[["kind", "count"]], "nothing is left to learn from"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_is_wrong_with_a_file(tmp_path, change, words, kind):
    changed = change(people())
    path = tmp_path / f"p.{kind}"
    changed.to_csv(path, index=False) if kind == "csv" else changed.to_parquet(path, index=False, row_group_size=100)
    with pytest.raises(ValueError, match=words):
        fit_out_of_core(path, "kind", weights="count", rows=100)


class TestMistakes:
    @pytest.mark.parametrize(
        ("part", "words"),
        [(0, "are zero in each of the 120 rows held out"), (1, "are zero in each of the 480 rows drawn to estimate T")],
    )
    def test_no_weight_in_a_part(self, tmp_path, part, words):
        keys = numbers(DRAW, (N,))
        held = keys < np.sort(keys)[120]
        people().assign(count=np.where(held, part, 1 - part)).to_parquet(tmp_path / "p.parquet", index=False)
        with pytest.raises(ValueError, match=f"the weights 'count' of .*p.parquet {words}; at least one sample must"):
            fit_out_of_core(tmp_path / "p.parquet", "kind", weights="count", rows=100)

    def test_infinity_names_its_block(self, tmp_path):
        frame = people()
        frame.loc[345, "pay"] = np.inf
        frame.to_parquet(tmp_path / "p.parquet", index=False, row_group_size=100)
        with pytest.raises(ValueError, match=r"row group 3, rows 300 to 399: column 'pay' is infinite in row 345;"):
            fit_out_of_core(tmp_path / "p.parquet", "kind", rows=100)

    def test_files_must_agree(self, folder, tmp_path):
        frame = people(50)
        frame.to_parquet(tmp_path / "a.parquet")
        frame.assign(pay="much").to_parquet(tmp_path / "b.parquet")
        with pytest.raises(
            ValueError, match=r"'pay' holds text in .*b.parquet, but numbers in .*a.parquet; write it as"
        ):
            fit_out_of_core(tmp_path, "kind")
        frame.rename(columns={"pay": "Pay"}).to_parquet(tmp_path / "b.parquet")
        with pytest.raises(ValueError, match=r"b.parquet, unlike .*a.parquet, has no column 'pay'; did you mean 'Pay'"):
            fit_out_of_core(tmp_path / "*.parquet", "kind")
        with pytest.raises(ValueError, match="has no column 'knd'; did you mean 'kind'"):
            fit_out_of_core(folder / "parts", "knd")
        with pytest.raises(FileNotFoundError, match="does not exist"):
            fit_out_of_core(folder / "nothing", "kind")

    def test_rows_longer_than_the_header(self, tmp_path):
        text = people().to_csv(index=False).splitlines()
        text[400] += ",1"
        (tmp_path / "p.csv").write_text("\n".join(text), encoding="utf-8")
        with pytest.raises(ValueError, match=r"p.csv cannot be read as a table: .*line 401, saw 10"):
            fit_out_of_core(tmp_path / "p.csv", "kind", rows=100)

    def test_a_file_that_changes_meanwhile(self, tmp_path):
        path = tmp_path / "p.csv"
        people().to_csv(path, index=False)

        def tell(text):
            if text.startswith("summing"):
                people(N - 1).to_csv(path, index=False)

        with pytest.raises(ValueError, match=r"p.csv changed while it was read: it had .* bytes and now has"):
            fit_out_of_core(path, "kind", tell=tell)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"sample_size": 0}, "sample_size must be"),
            ({"holdout": 1.0}, "holdout must be the share"),
            ({"random_state": None}, "random_state must be a whole number"),
            ({"transition": np.eye(2)}, "2"),
            ({"transition": "nowhere.npy"}, "does not exist"),
            ({"rows": 100, "holdout": 0.001}, "too few to hold 0% of them out"),
        ],
    )
    def test_options(self, folder, options, words):
        with pytest.raises((ValueError, FileNotFoundError), match=words):
            fit_out_of_core(folder / "parts", "kind", **options)


class TestPredict:
    def whole(self, model, path, out, block):
        table = read_for(model, path)
        predicted, proba = predict_table(model, table, block)
        write_predictions(out, table, predicted, proba, model.classes_)
        return predicted

    @pytest.mark.parametrize(
        "index",
        [
            None,
            pd.RangeIndex(5, 5 + 2 * N, 2),
            [f"row {i}" for i in range(N)],
            [*range(N - 1), "last"],  # text, since one is
            [*range(N - 1), None],  # not whole numbers, since one is missing: the rows are counted
            [None, *range(N - 1)],
            np.linspace(0, 1, N),
        ],
        ids=["none", "counting", "text", "late text", "late gap", "early gap", "fractions"],
    )
    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_is_what_it_is_in_memory(self, folder, saved, tmp_path, index, kind, suffix):
        frame = people()
        if index is not None:
            mixed = kind == "parquet" and isinstance(index, list) and "last" in index
            frame.index = list(map(str, index)) if mixed else index
        path = tmp_path / f"p.{kind}"
        if kind == "csv":
            frame.to_csv(path, index=index is not None)
        else:
            frame.to_parquet(path, row_group_size=70)
        model = load(saved)
        predicted = self.whole(model, path, tmp_path / f"whole.{suffix}", 64)
        counts = predict_files(model, path, tmp_path / f"blocks.{suffix}", 64)
        assert counts == {name: np.sum(predicted == name) for name in np.unique(predicted)}
        if suffix == "csv":
            assert (tmp_path / "blocks.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
        else:
            one, two = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("blocks", "whole"))
            pd.testing.assert_frame_equal(one, two, check_exact=True)

    def test_categories_that_look_like_numbers_at_first(self, tmp_path):
        frame = people().drop(columns="count")
        frame["code"] = [*["1.0"] * 300, *["a", "01"] * 150]
        frame.to_csv(tmp_path / "p.csv", index=False)
        model = fit_table(read_table(tmp_path / "p.csv", "kind"), model="mcldce", random_state=0).model
        assert model.preprocessor_.categories_["code"] == ["01", "1.0", "a"]
        self.whole(model, tmp_path / "p.csv", tmp_path / "whole.csv", 100)
        predict_files(model, tmp_path / "p.csv", tmp_path / "blocks.csv", 100)
        assert (tmp_path / "blocks.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()

    def test_rows_of_several_files_are_counted_on(self, folder, saved, tmp_path):
        model = load(saved)
        counts = predict_files(model, folder / "parts", tmp_path / "parts.csv")
        predict_files(model, folder / "people.parquet", tmp_path / "one.csv")
        one, parts = pd.read_csv(tmp_path / "one.csv"), pd.read_csv(tmp_path / "parts.csv")
        pd.testing.assert_frame_equal(one, parts, rtol=1e-12)
        assert counts.total() == N

    def test_large_output_is_written_in_row_groups(self, folder, saved, tmp_path, monkeypatch):
        from pyarrow import parquet

        monkeypatch.setattr("unflip._output.GROUP", 3000)
        predict_files(load(saved), folder / "people.csv", tmp_path / "p.parquet", 50)
        assert parquet.ParquetFile(tmp_path / "p.parquet").metadata.num_row_groups > 3
        assert len(pd.read_parquet(tmp_path / "p.parquet")) == N

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_half_way_leaves_nothing(self, folder, saved, tmp_path, suffix):
        frame = people()
        frame["pay"] = frame["pay"].astype(object)
        frame.loc[555, "pay"] = "much"
        frame.to_csv(tmp_path / "p.csv", index=False)
        out = tmp_path / f"out.{suffix}"
        out.write_text("before")
        model = load(saved)
        said = r"column 'pay' must hold numbers, but row 555 has 'much' \(1 such"
        with pytest.raises(ValueError, match=f"p.csv, rows 500 to 599: {said}"):
            predict_files(model, tmp_path / "p.csv", out, 100)
        with pytest.raises(ValueError, match=f"^{said}"):  # as in memory, where blocks are predicted, too
            predict_table(model, read_for(model, tmp_path / "p.csv"), 100)

        class Stopped:
            classes_, metadata_, calls = model.classes_, {}, 0

            def predict_proba(self, X):
                self.calls += 1
                if self.calls == 3:
                    raise KeyboardInterrupt
                return model.predict_proba(X)

        with pytest.raises(KeyboardInterrupt):
            predict_files(Stopped(), folder / "people.csv", out, 100)
        assert out.read_text() == "before"
        assert {path.name for path in tmp_path.iterdir()} == {"p.csv", out.name}

    def test_mistakes(self, folder, saved, tmp_path):
        model = load(saved)
        with pytest.raises(ValueError, match="is DATA itself"):
            predict_files(model, folder / "parts", folder / "parts/1.parquet")
        people(60)[:0].to_csv(tmp_path / "empty.csv", index=False)
        with pytest.raises(ValueError, match="is empty: it has 9 columns and no rows"):
            predict_files(model, tmp_path / "empty.csv", tmp_path / "p.csv")
        people(60).drop(columns="pay").to_parquet(tmp_path / "less.parquet")
        with pytest.raises(ValueError, match="no column 'pay', which the model needs. It has 'age', 'height', 'town'"):
            predict_files(model, tmp_path / "less.parquet", tmp_path / "p.csv")
        assert not (tmp_path / "p.csv").exists()


class TestCommand:
    def test_fit_and_predict(self, folder, fitted, tmp_path):
        arguments = ["fit", folder / "parts", "--label", "kind", "--weights", "count", "--out", tmp_path / "model"]
        done = invoke(*arguments, "--out-of-core", "--page", tmp_path / "page")
        assert done.exit_code == 0, done.output
        assert "Learned from a uniform sample of 480 rows: medians, deviations, categories and T." in done.stdout
        assert "Column not used: number: it numbers the rows" in done.stdout
        assert (tmp_path / "page/index.html").exists()
        assert "| rows that preprocessing and T were learned from | 480 |" in card(tmp_path / "model")
        assert "The noise was estimated" in card(tmp_path / "model")
        told = json.loads(invoke(*arguments, "--out-of-core", "--json", "--sample", 100).stdout)
        assert (told["n_train"], told["n_test"], told["n_sample"]) == (480, 120, 100)
        assert told["baseline"]["learner"] == "ridge without correction"
        done = invoke("predict", tmp_path / "model", folder / "parts", "--out", tmp_path / "p.csv", "--json")
        assert json.loads(done.stdout)["n_rows"] == N

    def test_a_folder_of_tables_is_read_whole_without_it(self, folder, tmp_path):
        options = ("--label", "kind", "--model", "mcldce", "--json")
        done = invoke("fit", folder / "parts", *options, "--out", tmp_path / "model")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["n_train"] > 0

    @pytest.mark.parametrize(
        ("options", "code", "words"),
        [
            (["--out-of-core", "--method", "ule"], 2, "only model mcldce is a sum"),
            (["--out-of-core", "--model", "trees"], 2, "only model mcldce is a sum"),
            (["--out-of-core", "--network", "mlp"], 2, "only model mcldce is a sum"),
            (["--dask", "tcp://127.0.0.1:1", "--method", "ule"], 2, "only model mcldce is a sum"),
            (["--out-of-core", "--image-size", "8x8"], 2, "has no meaning with"),
            (["--out-of-core", "--transition", "nowhere.npy"], 1, "unflip: nowhere.npy does not exist"),
        ],
    )
    def test_mistakes(self, folder, tmp_path, options, code, words):
        done = invoke("fit", folder / "parts", "--label", "kind", "--out", tmp_path / "model", *options)
        assert done.exit_code == code
        assert words in " ".join(done.stderr.replace("│", " ").split())
        assert not (tmp_path / "model").exists()
