"""Text that was meant as numbers or dates: read as such where that is certain, else named with what to correct."""

import datetime
import warnings

import numpy as np
import pytest

from unflip.tables import Preprocessor, read_table
from unflip.tables.preprocessing import plain_number
from unflip.tables.read import with_point
from unflip.tables.sources import join_rows, open_tables, settled

pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")

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
        assert "names or free text" in Preprocessor().fit(column(names)).unused_["c"]
        tickets = [*map(str, range(70)), *(f"A/5 {i}" for i in range(30))]
        assert "names or free text" in Preprocessor().fit(column(tickets)).unused_["c"]

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
        with pytest.raises(ValueError, match="the label 'kind' is missing in row 3 .1 missing"):
            read_table(tmp_path / "p.parquet", "kind")
        with pytest.raises(ValueError, match="the label 'kind' is missing in row 3 .1 missing"):
            blocks(tmp_path / "p.parquet", "kind")

    def test_lists_name_no_class(self, tmp_path):
        people().assign(kind=[["a"], ["b", "c"]] * (N // 2)).to_parquet(tmp_path / "p.parquet")
        words = r"p.parquet.*: the label 'kind' is a list in row 0, \['a'\]; one label per row is needed"
        with pytest.raises(ValueError, match=words):
            read_table(tmp_path / "p.parquet", "kind")
        with pytest.raises(ValueError, match=words):
            blocks(tmp_path / "p.parquet", "kind")
