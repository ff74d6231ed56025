"""The matrix of a table: each column against its formula, columns by name, and back from a file to the bit."""

import datetime
import json
import warnings
from decimal import Decimal

import numpy as np
import pytest
from sklearn.base import clone

from unflip.models import load
from unflip.models.folder import checksum
from unflip.tables import Preprocessor, read_table
from unflip.tables.preprocessing import plain_number
from unflip.tables.read import join_rows, with_point
from unflip.tables.sources import open_tables, settled

pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")

FRAME = pd.DataFrame(
    {
        "age": [20.0, np.nan, 40.0, 70.0, 30.0, 30.0],
        "rooms": [1, 2, 2, 3, 1, 2],
        "town": ["Ulm", "Bonn", None, "Ulm", "Ulm", "Rome"],
        "paid": [True, False, True, True, False, True],
        "size": pd.Categorical(["s", "m", "s", "l", "m", "s"]),
        "born": pd.to_datetime(["2020-01-01"] * 5 + ["2021-01-01"]),
        "note": ["a b", "c d", "e", "f", "g", "h"],
        "same": [7] * 6,
        "void": [np.nan] * 6,
        "id": [11, 12, 13, 14, 15, 16],
    }
)
USED = ["age", "rooms", "town", "paid", "size"]


def twin(frame):
    """The matrix from its formula, cell by cell."""
    columns = []
    for name in ("age", "rooms"):
        given = [x for x in FRAME[name] if x == x]
        median = sorted(given)[len(given) // 2] if len(given) % 2 else np.mean(sorted(given)[len(given) // 2 - 1 :][:2])
        fitted = [x if x == x else median for x in FRAME[name]]
        mean = sum(fitted) / len(fitted)
        deviation = (sum((x - mean) ** 2 for x in fitted) / len(fitted)) ** 0.5
        columns.append([((x if x == x else median) - mean) / deviation for x in frame[name]])
    for name, values in [("town", ["Bonn", "Rome", "Ulm", None]), ("paid", [False, True]), ("size", ["l", "m", "s"])]:
        for value in values:
            columns.append([float(pd.isna(x) if value is None else x == value) for x in frame[name]])
    return np.column_stack(columns)


@pytest.fixture
def fitted():
    return Preprocessor().fit(FRAME)


def test_numbers_may_keep_their_scale():
    kept = Preprocessor(standardize=False).fit(FRAME).transform(FRAME)
    np.testing.assert_array_equal(kept[:, 0], [20, 30, 40, 70, 30, 30])  # the median where there is none
    np.testing.assert_array_equal(kept[:, 1], FRAME["rooms"])
    np.testing.assert_array_equal(kept[:, 2:], twin(FRAME)[:, 2:])


def test_equals_its_formula(fitted):
    np.testing.assert_allclose(fitted.transform(FRAME), twin(FRAME), atol=1e-12)
    assert fitted.get_feature_names_out().tolist() == [
        *("age", "rooms", "town=Bonn", "town=Rome", "town=Ulm", "town=(missing)"),
        *("paid=False", "paid=True", "size=l", "size=m", "size=s"),
    ]


def test_what_is_of_no_use_is_named(fitted):
    assert list(fitted.unused_) == ["born", "note", "same", "void", "id"]
    reasons = ("holds dates", "every value is different", "same value in every row", "no values", "numbers the rows")
    for reason, said in zip(reasons, fitted.unused_.values(), strict=True):
        assert reason in said


@pytest.mark.parametrize(
    ("values", "use"),
    [
        ([Decimal("1.5"), None, Decimal("2"), Decimal("2")], "number"),
        (pd.array([1, None, 2, 2], dtype="Int64"), "number"),
        ([True, None, False, True], "category"),
        (["a", 1, "a", 1], "category"),
        ([1, 0, 1, 0], "number"),
        (["x", None, "x", "x"], "category"),
        ([5, None, 5, 5], "same value"),
        ([[1], [2], [1], [2]], "holds list objects"),
        ([datetime.date(2020, 1, 1)] * 2 + [datetime.date(2021, 1, 1)] * 2, "holds dates"),
        ([datetime.timedelta(1), datetime.timedelta(2)] * 2, "holds dates"),
        ([1j, 2j, 1j, 2j], "complex"),
        (["x", "x", "x", "x"], "same value"),
        ([4, 3, 2, 1], "number"),
    ],
)
def test_kinds_of_columns(values, use):
    frame = pd.DataFrame({"other": [0.5, 0.1, 0.5, 0.7], "c": values})
    fitted = Preprocessor().fit(frame)
    found = "number" if "c" in fitted.numbers_ else "category" if "c" in fitted.categories_ else fitted.unused_["c"]
    assert use in found
    assert np.isfinite(fitted.transform(frame)).all()


def test_free_text_is_left_out_and_frequent_categories_are_kept():
    words = [f"word {i}" for i in range(60)]
    frame = pd.DataFrame({"text": [*words, *words[:30]], "town": [f"t{i % 9}" for i in range(81)] + ["t0"] * 9})
    fitted = Preprocessor(max_categories=4).fit(frame)
    assert fitted.unused_ == {"text": "it has 60 different values in 90 rows: names or codes"}
    assert fitted.categories_ == {"town": ["t0", "t1", "t2", "t3"]}
    np.testing.assert_array_equal(fitted.transform(frame)[:6], np.eye(6, 4))  # t4 and t5 are rare: zero everywhere


class TestColumnsByName:
    def test_order_and_further_columns_do_not_matter(self, fitted):
        other = FRAME.assign(new=1)[["new", *reversed(USED)]]
        np.testing.assert_array_equal(fitted.transform(other), fitted.transform(FRAME))

    def test_a_missing_column_is_named(self, fitted):
        with pytest.raises(ValueError, match="no column 'town', 'size', which the model needs"):
            fitted.transform(FRAME[["age", "rooms", "paid"]])
        with pytest.raises(ValueError, match="no column 'age'.*did you mean 'Age'"):
            fitted.transform(FRAME.rename(columns={"age": "Age"}))
        with pytest.raises(ValueError, match="no column 'w'.*did you mean 'W'"):
            Preprocessor().fit(pd.DataFrame({"w": [1, 3]})).transform(pd.DataFrame({"W": [1, 3]}))

    def test_unknown_and_missing_values(self, fitted):
        row = pd.DataFrame({"age": [None], "rooms": [2], "town": ["Oslo"], "paid": [None], "size": ["xl"]})
        np.testing.assert_allclose(fitted.transform(row)[0, 2:], 0)
        assert fitted.transform(row)[0, 0] == pytest.approx((30 - FRAME["age"].fillna(30).mean()) / fitted.scale_[0])

    def test_numbers_that_come_as_text(self, fitted):
        good = FRAME.assign(rooms=["1", "2", "2", "3", "1", " 2 "])
        np.testing.assert_array_equal(fitted.transform(good), fitted.transform(FRAME))
        with pytest.raises(ValueError, match=r"'rooms' must hold numbers, but row 2 has 'two' \(2 such values\)"):
            fitted.transform(FRAME.assign(rooms=["1", "2", "two", "3", "x", None]))
        with pytest.raises(ValueError, match="'rooms' must hold numbers, not dates"):
            fitted.transform(FRAME.assign(rooms=FRAME["born"]))
        with pytest.raises(ValueError, match="'age' is infinite in row 1"):
            fitted.transform(FRAME.assign(age=[1.0, np.inf, 1, 1, 1, 1]))
        with pytest.raises(ValueError, match="'town' must hold categories, but holds lists"):
            fitted.transform(FRAME.assign(town=[[1]] * 6))

    def test_codes_are_the_same_category_however_they_are_read(self):
        text = pd.DataFrame({"code": ["1", "2", "A", "1"]})
        fitted = Preprocessor().fit(text)
        expected = fitted.transform(text)[:2]
        for values in ([1, 2], [1.0, 2.0], pd.Categorical([1, 2]), pd.array([1, 2], dtype="Int64")):
            np.testing.assert_array_equal(fitted.transform(pd.DataFrame({"code": values})), expected)


class TestArrays:
    X = np.array([[1.0, 5, np.nan, 3], [np.nan, 5, np.nan, 4], [3, 5, np.nan, 8]])

    def test_numbers_alone(self):
        fitted = Preprocessor().fit(self.X)
        assert fitted.numbers_ == [0, 3]
        assert fitted.unused_ == {"x1": "it has the same value in every row", "x2": "it has no values"}
        expected = np.array([[1, 3], [2, 4], [3, 8]])
        np.testing.assert_allclose(fitted.transform(self.X), (expected - expected.mean(0)) / expected.std(0))
        assert fitted.get_feature_names_out().tolist() == ["x0", "x3"]

    def test_another_kind_of_table_is_refused(self, fitted):
        with pytest.raises(ValueError, match="fitted to a data frame but got an array"):
            fitted.transform(self.X)
        array = Preprocessor().fit(self.X)
        with pytest.raises(ValueError, match="fitted to an array but got a data frame"):
            array.transform(FRAME)
        with pytest.raises(ValueError, match="2 features, but Preprocessor is expecting 4"):
            array.transform(self.X[:, :2])

    def test_fitting_again_forgets_the_names(self, fitted):
        assert not hasattr(fitted.fit(self.X), "feature_names_in_")
        assert fitted.transform(self.X).shape == (3, 2)


def test_mistakes_in_fit():
    with pytest.raises(ValueError, match="no column can be used. 'note': every value.*'same': it has the same"):
        Preprocessor().fit(FRAME[["note", "same"]])
    with pytest.raises(ValueError, match="more than one column 'a'"):
        Preprocessor().fit(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="max_categories must be a whole number >= 1; got 0"):
        Preprocessor(max_categories=0).fit(FRAME)


def test_leaves_its_input_alone():
    before = FRAME.copy()
    Preprocessor().fit_transform(FRAME)
    pd.testing.assert_frame_equal(FRAME, before)


class TestSaved:
    @pytest.mark.parametrize(
        "table",
        [FRAME, FRAME[["age", "rooms"]], FRAME[["town", "paid"]], FRAME.rename(columns=str.upper), TestArrays.X],
    )
    def test_there_and_back_to_the_bit(self, table, tmp_path):
        fitted = Preprocessor(max_categories=3).fit(table)
        back = load(fitted.save(tmp_path / "p"))
        assert back.get_params() == fitted.get_params()
        assert back.unused_ == fitted.unused_
        np.testing.assert_array_equal(back.transform(table), fitted.transform(table))
        np.testing.assert_array_equal(back.get_feature_names_out(), fitted.get_feature_names_out())

    def test_a_clone_is_not_fitted(self, fitted, tmp_path):
        with pytest.raises(ValueError, match="not fitted"):
            clone(fitted).save(tmp_path / "p")

    @pytest.mark.parametrize(
        ("name", "value", "match"),
        [
            ("scale_", np.array([1.0, 0.0]), "must be positive"),
            ("mean_", np.zeros(3), "mean_ must be 2 finite numbers"),
            ("median_", np.array([np.nan, 1.0]), "median_ must be 2 finite"),
            ("numbers_", ["age", "shoes"], "not among"),
            ("numbers_", ["age", "age"], "not among"),
            ("categories_", {"town": []}, "must be different strings"),
            ("categories_", {"town": ["a", "a"]}, "must be different strings"),
            ("categories_", {"town": [None, "a"]}, "must be different strings"),
            ("n_features_in_", 9, "not among the 9"),
            ("unused_", {"note": 5}, "must give the reason"),
        ],
    )
    def test_an_edited_one_is_refused(self, fitted, tmp_path, monkeypatch, name, value, match):
        vars(fitted)[name] = value
        with pytest.raises(ValueError, match=f"cannot be saved.*{match}"):
            fitted.save(tmp_path / "p")
        with monkeypatch.context() as patch:
            patch.setattr(Preprocessor, "_check_fitted_state", lambda self: None)
            fitted.save(tmp_path / "p")
        with pytest.raises(ValueError, match=f"damaged or was edited.*{match}"):
            load(tmp_path / "p")

    def test_a_missing_part_is_refused(self, fitted, tmp_path):
        fitted.save(tmp_path / "p")
        document = json.loads((tmp_path / "p" / "model.json").read_text())
        for name in document["attributes"]["dict"].keys() - {"texts_", "embedding_"}:  # which earlier files lack
            less = {key: value for key, value in document["attributes"]["dict"].items() if key != name}
            edited = {**document, "attributes": {"dict": less}}
            edited["checksum"] = checksum(edited)
            (tmp_path / "p" / "model.json").write_text(json.dumps(edited))
            with pytest.raises(ValueError, match="damaged or was edited"):
                load(tmp_path / "p")


# Text that was meant as numbers or dates ------------------------------------------------------------------------------

N = 60


def people(n=N):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"pay": random.normal(size=n).round(3), "height": random.integers(3, 9, n) / 10})
    frame["rooms"] = random.integers(1, 5, n)
    frame["town"] = random.choice(["Ulm", "Bonn"], n)
    frame["kind"] = random.choice(["cat", "dog"], n)
    frame.loc[7, ["pay", "town"]] = None
    return frame


def blocks(path, label, rows=7):
    """The same file as blocks of a few rows, joined."""
    (part,) = settled(open_tables(path, label, rows=rows)).parts()
    found = list(part.blocks())
    return join_rows([block.X for block in found]).frame, np.concatenate([block.y for block in found])


def check_same_in_blocks(path, label="kind"):
    table = read_table(path, label)
    frame, y = blocks(path, label)
    pd.testing.assert_frame_equal(frame, table.X)
    assert y.tolist() == table.y.tolist()
    return table


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234.50", "1234.50"),
        ("-12,345,678", "-12345678"),
        ("1,5", "1.5"),
        ("0,123", "0.123"),
        (",5", ".5"),
        ("1.234,50", "1234.50"),
        ("1.234.567", "1234567"),
        ("1 234,5", "1234.5"),
        ("1'234.5", "1234.5"),
        ("12.5 %", "12.5"),
        ("-3e-5", "-3e-5"),
        ("1,2,3", None),
        ("12,34,567", None),
        ("2020-12-31", None),
        ("31.12.2020", None),
        ("1 Main Street", None),
        ("nan", None),
        ("", None),
    ],
)
def test_numbers_as_people_write_them(text, expected):
    assert plain_number(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("1,5", "1.5"), ("-,5 ", "-.5"), ("1.234,5", "1.234,5"), ("a,b", "a,b"), (1, 1)]
)
def test_decimal_commas_become_points(value, expected):
    assert with_point(value) == expected


class TestSemicolons:
    def test_decimal_commas_are_numbers(self, tmp_path):
        people().to_csv(tmp_path / "p.csv", index=False, sep=";", decimal=",")
        people().to_csv(tmp_path / "q.csv", index=False, sep=",")
        found, expected = check_same_in_blocks(tmp_path / "p.csv"), read_table(tmp_path / "q.csv", "kind")
        pd.testing.assert_frame_equal(found.X, expected.X)
        assert Preprocessor().fit(found.X).numbers_ == ["pay", "height", "rooms"]

    def test_points_stay_points(self, tmp_path):
        people().to_csv(tmp_path / "p.csv", index=False, sep=";")
        pd.testing.assert_frame_equal(check_same_in_blocks(tmp_path / "p.csv").X, people().drop(columns="kind"))

    def test_both_marks_in_one_file_are_not_guessed_at(self, tmp_path):
        frame = people()
        frame["height"] = frame["height"].astype(str).str.replace(".", ",")
        frame.to_csv(tmp_path / "p.csv", index=False, sep=";")
        table = check_same_in_blocks(tmp_path / "p.csv")
        assert table.X["pay"].dtype == np.float64
        with pytest.warns(
            UserWarning, match="'height' is not used: its numbers are not written as numbers: write 0.6 for"
        ):
            Preprocessor().fit(table.X)

    def test_a_tab_says_nothing_of_commas(self, tmp_path):
        people().to_csv(tmp_path / "p.tsv", index=False, sep="\t", decimal=",")
        with pytest.warns(UserWarning, match="is not used: its numbers are not written as numbers"):
            fitted = Preprocessor().fit(read_table(tmp_path / "p.tsv", "kind").X)
        assert set(fitted.unused_) == {"pay", "height"}

    def test_a_word_among_them_is_what_is_named(self, tmp_path):
        frame = people()
        pay = frame["pay"].astype(str).str.replace(".", ",")
        pay[9] = "oops"
        frame.assign(pay=pay).to_csv(tmp_path / "p.csv", index=False, sep=";", decimal=",")
        reason = "58 of 59 values are numbers, but row 9 has 'oops': correct it, or empty the cell"
        with pytest.warns(UserWarning, match=reason):
            Preprocessor().fit(read_table(tmp_path / "p.csv", "kind").X)
        fitted = Preprocessor().fit(people()[["pay"]])
        check_same_in_blocks(tmp_path / "p.csv")  # in which all blocks are text, since one is
        with pytest.raises(ValueError, match=r"'pay' must hold numbers, but row 9 has 'oops' \(1 such values\)"):
            fitted.transform(read_table(tmp_path / "p.csv").X)

    def test_codes_are_the_same_category_in_columns_of_text_and_of_numbers(self, tmp_path):
        words = ["1,5", "2,5", "a"] * (N // 3)
        people().assign(code=words).to_csv(tmp_path / "p.csv", index=False, sep=";", decimal=",")
        people().assign(code=["1,5", "2,5"] * (N // 2)).to_csv(tmp_path / "q.csv", index=False, sep=";", decimal=",")
        fitted = Preprocessor().fit(check_same_in_blocks(tmp_path / "p.csv").X[["code"]])
        assert fitted.categories_ == {"code": ["1.5", "2.5", "a"]}
        np.testing.assert_array_equal(fitted.transform(read_table(tmp_path / "q.csv").X)[:2], np.eye(2, 3))

    def test_labels_are_left_alone(self, tmp_path):
        frame = people().assign(kind=["1,5", "b"] * (N // 2))
        frame.to_csv(tmp_path / "p.csv", index=False, sep=";", decimal=",")
        assert check_same_in_blocks(tmp_path / "p.csv").class_names == ("1,5", "b")


def column(values):
    return pd.DataFrame({"other": np.arange(len(values)) % 7, "c": values})


NUMBERS = [f"{x:.2f}" for x in np.linspace(-3, 3, 30)]
THOUSANDS = [f"{x:,.2f}" for x in np.linspace(1000, 3e6, 30)]


class TestAlmostNumbers:
    @pytest.mark.parametrize(
        ("values", "reason"),
        [
            ([*NUMBERS, "oops"], "30 of 31 values are numbers, but row 30 has 'oops': correct it, or empty the cell"),
            (["-", None, *NUMBERS, "-"], "30 of 32 values are numbers, but 2 are not, such as '-' in row 0: correct"),
            ([*range(30), "oops"], "30 of 31 values are numbers, but row 30 has 'oops'"),
            (
                [*NUMBERS * 9, "oops"],
                "270 of 271 values are numbers, but row 270 has 'oops'",
            ),  # not free text: it repeats
            (["0.1", "0.2"] * 20 + ["x"], "40 of 41 values are numbers, but row 40 has 'x'"),
            (THOUSANDS, r"its numbers are not written as numbers: write 1000.00 for '1,000.00' \(row 0\)"),
            (["1,234", "1,500", "0.5", "7,25"] * 9, r"write 7.25 for '7,25' \(row 3\)"),
            (["1,234", "1,500", "12"] * 9, r"write 1234 for '1,234' \(row 0\)"),
            ([f"{x}%" for x in range(30)], r"write 0 for '0%'"),
            ([*THOUSANDS, "oops"], "30 of 31 values are numbers, but row 30 has 'oops'"),
            (NUMBERS, "its numbers are text; store them as numbers"),
        ],
    )
    def test_named_with_what_to_correct(self, values, reason):
        with pytest.warns(UserWarning, match=f"column 'c' is not used: .*{reason}"):
            fitted = Preprocessor().fit(column(values))
        assert list(fitted.unused_) == ["c"]
        with pytest.raises(ValueError, match=f"no column can be used. 'c': .*{reason}"):
            Preprocessor().fit(column(values)[["c"]])

    def test_correcting_it_is_all_that_is_needed(self):
        assert Preprocessor().fit(column([float(x) for x in NUMBERS] + [None])).numbers_ == ["other", "c"]

    def test_the_row_is_that_of_the_index(self):
        with pytest.warns(UserWarning, match="but row 1030 has 'oops'"):
            Preprocessor().fit(column([*NUMBERS, "oops"]).set_axis(range(1000, 1031)))

    @pytest.mark.parametrize(
        "values",
        [
            ["1", "2", "3"] * 10 + ["x"],  # codes
            ["1", "2"] * 10,  # codes as text
            [*NUMBERS[:3], "a", "b"] * 9,  # fewer than 90 %
            pd.Categorical(["0.1", "0.2"] * 20 + ["x"]),  # categories on purpose
            [True, False] * 5,
        ],
    )
    def test_categories_stay_categories(self, values):
        assert list(Preprocessor().fit(column(values)).categories_) == ["c"]

    def test_free_text_is_still_called_so(self):
        names = [f"{i} Main Street" for i in range(20)]
        assert "names or codes" in Preprocessor().fit(column(names)).unused_["c"]
        tickets = [*map(str, range(70)), *(f"A/5 {i}" for i in range(30))]
        assert "names or codes" in Preprocessor().fit(column(tickets)).unused_["c"]

    def test_a_model_asks_for_numbers_as_it_takes_them(self):
        fitted = Preprocessor().fit(pd.DataFrame({"c": [1.5, 2.5, 4.0]}))
        with pytest.raises(ValueError, match=r"row 1 has '2,5' \(1 such values\); write 2.5, or leave the cell empty"):
            fitted.transform(pd.DataFrame({"c": ["1.5", "2,5"]}))
        with pytest.raises(ValueError, match=r"row 2 has 'x' \(1 such values\); write numbers"):
            fitted.transform(pd.DataFrame({"c": ["1.5", "2,5", "x"]}))

    def test_the_same_in_blocks(self, tmp_path):
        from unflip.commands import fit_out_of_core

        frame = people(300)
        frame["pay"] = frame["pay"].astype(object)
        frame.loc[209, "pay"] = "oops"
        frame.to_csv(tmp_path / "p.csv", index=False)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = fit_out_of_core(tmp_path / "p.csv", "kind", rows=50, transition=np.eye(2))
        assert "but row 209 has 'oops'" in str(told[0].message)
        assert len(told) == 1
        with pytest.warns(UserWarning, match="but row 209 has 'oops'"):
            expected = Preprocessor().fit(read_table(tmp_path / "p.csv", "kind").X).unused_
        assert found.unused == expected
        assert found.unused["pay"].startswith("298 of 299 values are numbers, but row 209 has 'oops'")


class TestDates:
    @pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M", "%d.%m.%Y", "%m/%d/%Y"])
    @pytest.mark.parametrize("different", [3, 30])
    def test_named_as_in_parquet(self, form, different):
        days = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=i % different) for i in range(30)]
        fitted = Preprocessor().fit(column([day.strftime(form) for day in days]))
        assert fitted.unused_ == Preprocessor().fit(column(days)).unused_
        assert fitted.unused_["c"].startswith("it holds dates")

    def test_names_with_a_date_are_none(self):
        assert "c" in Preprocessor().fit(column(["2020-01-01 Ulm", "2020-01-02 Bonn"] * 9)).categories_


class TestLabels:
    def test_spaces_around_them_are_none_of_theirs(self, tmp_path):
        frame = people()
        frame["kind"] = [f"{name} " if i % 2 else name for i, name in enumerate(frame["kind"])]
        frame.to_csv(tmp_path / "p.csv", index=False)
        assert check_same_in_blocks(tmp_path / "p.csv").class_names == ("cat", "dog")
        frame["kind"] = " " + frame["kind"]
        frame.to_parquet(tmp_path / "p.parquet")
        assert check_same_in_blocks(tmp_path / "p.parquet").class_names == ("cat", "dog")
        np.savez(tmp_path / "p.npz", X=np.zeros((3, 2)), y=["a", "a ", "b\t"])
        assert read_table(tmp_path / "p.npz").y.tolist() == ["a", "a", "b"]

    def test_spaces_alone_are_a_missing_label(self, tmp_path):
        frame = people()
        frame.loc[3, "kind"] = "  "
        frame.to_parquet(tmp_path / "p.parquet")
        assert read_table(tmp_path / "p.parquet", "kind").unlabeled.names.tolist() == [3]
        with pytest.raises(ValueError, match="the label 'kind' is missing in row 3 .1 missing"):
            blocks(tmp_path / "p.parquet", "kind")

    def test_lists_name_no_class(self, tmp_path):
        people().assign(kind=[["a"], ["b", "c"]] * (N // 2)).to_parquet(tmp_path / "p.parquet")
        words = r"p.parquet.*: the label 'kind' is a list in row 0, \['a'\]; one label per row is needed"
        with pytest.raises(ValueError, match=words):
            read_table(tmp_path / "p.parquet", "kind")
        with pytest.raises(ValueError, match=words):
            blocks(tmp_path / "p.parquet", "kind")
