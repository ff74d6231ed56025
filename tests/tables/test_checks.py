"""Checks of the data: each fault is found where it was put into a real table, and a sound table has none."""

import time

import numpy as np
import pytest
from scipy import sparse

from unflip.tables import check_table, read_table
from unflip.tables.checks import _is_typo

pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")


@pytest.fixture(scope="module")
def beans(suite):
    """1,945 real rows of seven kinds of beans, without any fault."""
    frame = pd.read_csv(suite("tables/dry_bean"))
    return frame.drop_duplicates(frame.columns[:-1].tolist()).iloc[::7].reset_index(drop=True)


def found(frame, kind=None, label="target"):
    findings = check_table(read_table(frame, label))
    return findings if kind is None else [one for one in findings if one.kind == kind]


def one(frame, kind):
    (finding,) = found(frame, kind)
    return finding


def test_a_sound_table_has_no_findings(beans):
    assert found(beans) == []


class TestLabels:
    def test_classes_with_a_handful_of_rows(self, beans):
        frame = beans.copy()
        frame.loc[[3, 8], "target"] = "WALNUT"
        frame.loc[[5, 9, 11, 12, 13], "target"] = "PEANUT"
        finding = one(frame, "rare class")
        assert finding.sentence.startswith(
            "2 classes have 5 rows or fewer: 'WALNUT' (2), 'PEANUT' (5). That is too few"
        )
        assert finding.rows == (3, 5, 8, 9, 11, 12, 13)
        assert finding.columns == ("target",)

    def test_uneven_classes(self, suite):
        finding = one(pd.read_csv(suite("tables/fars")), "imbalance")
        assert finding.sentence.startswith("The classes are very uneven: '1' has 8,432 rows, '3' 57.")

    def test_case_spaces_and_typos(self, beans):
        frame = beans.copy()
        frame["target"] = frame["target"].str.lower()
        wrong = {0: "Seker", 1: "sek er", 2: "skeer", 3: "seker.", 4: "dermson", 5: "sekers", 6: "sekar"}
        frame.loc[list(wrong), "target"] = list(wrong.values())
        finding = one(frame, "similar labels")
        for word, meant in {"Seker": "seker", "skeer": "seker", "dermson": "dermason", "sekar": "seker"}.items():
            assert f"{word!r} (1 row), did you mean {meant!r}" in finding.sentence
        assert set(finding.rows) >= {0, 2, 4, 5, 6}

    def test_a_typo_of_a_short_word_may_be_longer(self):
        y = np.array(["joy"] * 60 + ["anger"] * 60 + ["joyy", "jo"])
        (typo,) = found(pd.DataFrame({"a": np.arange(122.0) ** 2, "target": y}), "similar labels")
        assert typo.sentence == "Some labels may be one class: 'joyy' (1 row), did you mean 'joy' (60)?"

    def test_one_is_one_point_zero(self):
        y = np.array(["1"] * 60 + ["1.0"] * 40 + ["10"] * 20 + ["other"] * 20)
        (same,) = found(pd.DataFrame({"a": np.arange(140.0) ** 2, "target": y}), "similar labels")
        assert same.sentence == "Some labels may be one class: '1.0' (40 rows), did you mean '1' (60)?"

    def test_other_words_are_no_typos(self, beans):
        """Numbers, short words, and classes as large as each other are different classes."""
        frame = beans.copy()
        names = ["class 1", "class 2", "cat", "car", "left", "loft", "male"]
        frame["target"] = np.array(names)[np.arange(len(frame)) % 7]
        frame.loc[0, "target"] = "class 3"
        assert found(frame, "similar labels") == []

    @pytest.mark.parametrize(
        ("word", "other", "expected"),
        [
            ("plian", "plain", True),  # exchanged
            ("plan", "plain", True),  # missing
            ("plaain", "plain", True),  # added
            ("plein", "plain", True),  # wrong
            ("painl", "plain", False),
            ("type1", "type2", False),
            ("plain", "planet", False),
            ("plai", "plain", True),
        ],
    )
    def test_typos(self, word, other, expected):
        assert _is_typo(word, other) == _is_typo(other, word) == expected

    def test_spaces_are_told(self, tmp_path):
        (tmp_path / "t.csv").write_text("a,y\n" + '1,p\n2,q\n3,"p "\n' * 20)
        table = read_table(tmp_path / "t.csv", "y")
        assert table.class_names == ("p", "q")
        (finding,) = (one for one in table.findings if one.kind == "spaces")
        assert finding.sentence == "20 labels had spaces around them, such as 'p '; the spaces were left out."

    def test_numbers_and_no_labels(self, suite):
        table = read_table(suite("tables/vehicle"), "target")
        assert [finding for finding in table.findings if finding.kind == "similar labels"] == []
        assert check_table(read_table(suite("tables/vehicle"), False)) == []


class TestColumns:
    def test_running_numbers_and_identifiers(self, beans):
        random = np.random.default_rng(0)
        n = len(beans)
        frame = beans.assign(
            visit=np.cumsum(random.integers(1, 9, n)),
            counted=np.arange(n),
            customer_id=random.integers(10**6, size=n),
            height=random.integers(10**6, size=n),
        )
        findings = {finding.columns[0]: finding.sentence for finding in found(frame, "identifier")}
        assert findings.keys() == {"visit", "customer_id"}  # "counted" is left out by the preprocessor
        assert "used as a feature" in findings["visit"]

    def test_they_do_not_hide_copies(self, beans):
        frame = pd.concat([beans, beans[:40].assign(target="SIRA")], ignore_index=True)
        frame = frame.assign(visit=np.arange(len(frame)) * 2)
        assert one(frame, "copies").rows

    def test_dates(self, beans):
        random = np.random.default_rng(0)
        days = pd.to_datetime("2020-01-01") + pd.to_timedelta(random.integers(900, size=len(beans)), "D")
        frame = beans.assign(
            day=days.strftime("%Y-%m-%d"),
            compact=days.strftime("%Y%m%d").astype(int),
            stamp=days.astype("int64") // 10**9 if days.dtype.str.endswith("[ns]") else days.astype("int64") // 10**6,
            money=random.integers(10**8, size=len(beans)),
        )
        findings = {finding.columns[0]: finding.sentence for finding in found(frame, "dates")}
        assert findings.keys() >= {"day", "compact"}
        assert "money" not in findings
        assert findings["day"] == "Column 'day' holds dates, which become numbers, days since 1970."
        assert "dates written as numbers (such as 202" in findings["compact"]

    def test_constant(self, beans):
        finding = one(beans.assign(a=1, b="x", c=np.nan), "constant")
        assert finding.columns == ("a", "b", "c")
        assert finding.sentence == "Columns 'a', 'b', 'c' have the same value in every row, or none, and are not used."

    def test_leakage(self, beans):
        random = np.random.default_rng(0)
        _, codes = np.unique(beans["target"], return_inverse=True)
        nearly = np.where(random.uniform(size=len(beans)) < 0.02, random.integers(7, size=len(beans)), codes)
        frame = beans.assign(
            copy=beans["target"].str.title(),
            code=(codes * 3) % 7 + random.normal(0, 0.01, len(beans)),
            nearly=np.array([f"k{k}" for k in range(7)])[nearly],
            missing=np.where(codes == 0, np.nan, 1.0),
            honest=codes + random.normal(0, 2, len(beans)),
        )
        findings = {finding.columns[0]: finding.sentence for finding in found(frame, "leakage")}
        assert findings.keys() == {"copy", "code", "nearly"}
        assert "'copy' alone predicts 100.0% of the labels (the largest class has" in findings["copy"]

    def test_leakage_among_many_columns(self, beans):
        random = np.random.default_rng(0)
        _, codes = np.unique(beans["target"], return_inverse=True)
        X = random.normal(size=(len(beans), 400))
        X[:, 333] = codes
        table = read_table({"X": X, "y": beans["target"].to_numpy(str)})
        assert [finding.columns for finding in table.findings if finding.kind == "leakage"] == [("x333",)]

    def test_arrays(self, beans):
        X = beans.drop(columns="target").to_numpy()
        X = np.column_stack([X, np.arange(len(X)) * 3.0 + 1, np.ones(len(X))])
        table = read_table({"X": X, "y": beans["target"].to_numpy(str)})
        findings = {(one.kind, one.columns) for one in table.findings}
        # The rows are sorted by class, so that their number predicts it.
        assert findings == {("identifier", ("x16",)), ("leakage", ("x16",)), ("constant", ("x17",))}


class TestCopies:
    def test_the_rate(self, beans):
        """A pair of copies, a group of three with one other label, and copies that agree."""
        rows = beans.iloc[[0, 1, 1, 2]].copy()
        rows.iloc[0, -1] = "other"
        rows.iloc[1, -1] = "other"
        finding = one(pd.concat([beans, rows], ignore_index=True), "copies")
        # pairs: 1 that differs; 3, of which 2 differ; 1 that agrees
        assert finding.rate == pytest.approx(3 / 5)
        assert finding.sentence.startswith(
            "7 rows are copies of other rows; 3 of 5 pairs of copies (60.0%) have different labels."
        )
        n = len(beans)
        assert set(finding.rows) == {0, 1, n, n + 1, n + 2}

    @pytest.mark.parametrize("form", ["frame", "array", "sparse", "images"])
    def test_every_kind_of_data(self, beans, form):
        X, y = beans.drop(columns="target").to_numpy(), beans["target"].to_numpy(str)
        X, y = np.vstack([X, X[:10]]), np.append(y, np.full(10, "SIRA" if y[0] != "SIRA" else "BOMBAY"))
        expected = int((y[:10] != y[-10:]).sum())
        data = {"array": X, "sparse": sparse.csr_array(X), "images": X.reshape(-1, 1, 4, 4)}
        frame = pd.DataFrame(X).rename(columns=str).assign(y=y)
        table = read_table(frame if form == "frame" else {"X": data[form], "y": y}, "y")
        (finding,) = (one for one in table.findings if one.kind == "copies")
        assert finding.rate == pytest.approx(expected / 10)

    def test_nearly_equal_numbers(self, beans):
        random = np.random.default_rng(0)
        X = beans.drop(columns="target")
        near = X[:60] * (1 + 1e-6 * random.normal(size=(60, 1)))
        frame = pd.concat([beans[:1500], near.assign(target="SIRA")], ignore_index=True)
        finding = one(frame, "near copies")
        expected = (beans["target"][:60] != "SIRA").mean()
        assert finding.rate == pytest.approx(expected, abs=0.05)

    def test_real_texts(self, suite):
        """Tweets that were collected twice, with another emotion almost every time."""
        finding = one(pd.read_csv(suite("text/emotion_tweets")).rename(columns={"label": "target"}), "copies")
        assert (finding.rate, len(finding.rows)) == (pytest.approx(32 / 33), 64)

    def test_nearly_equal_texts(self, suite):
        frame = pd.read_csv(suite("text/banking77"), usecols=["text", "label"]).rename(columns={"label": "target"})
        frame = frame.drop_duplicates("text")[:3000]
        before = found(frame, "near copies")
        shouted = frame[:50].assign(text=frame["text"][:50].str.upper() + "!!", target="other")
        finding = one(pd.concat([frame, shouted], ignore_index=True), "near copies")
        assert set(finding.rows) >= set(range(50)) | set(range(3000, 3050))
        assert finding.rate > (before[0].rate if before else 0)


def test_for_a_program(beans):
    frame = pd.concat([beans, beans[:10].assign(target="SIRA")], ignore_index=True)
    finding = one(frame, "copies").as_json()
    assert finding.keys() == {"kind", "sentence", "rows", "rate"}
    assert one(beans.assign(a=1), "constant").as_json()["columns"] == ["a"]


def test_large_tables_take_a_bounded_time():
    random = np.random.default_rng(0)
    n = 200_000
    frame = pd.DataFrame(random.normal(size=(n, 10))).rename(columns=str)
    frame["town"] = np.array(["Ulm", "Bonn", "Rome"])[random.integers(3, size=n)]
    frame["target"] = np.array(["p", "q"])[random.integers(2, size=n)]
    table = read_table(frame, "target")
    start = time.process_time()
    assert table.findings == []
    assert time.process_time() - start < 5


def test_many_columns_without_numbers_and_numbers_of_pandas():
    rng = np.random.default_rng(0)
    wide = pd.DataFrame({f"c{k}": rng.choice(["yes", "no"], 30) for k in range(210)})
    read_table(wide.assign(y=rng.choice(["a", "b"], 30)), "y").findings  # noqa: B018
    own = pd.DataFrame({"n": pd.array([1, None, 3] * 10, dtype="Int64"), "y": rng.choice(["a", "b"], 30)})
    read_table(own, "y").findings  # noqa: B018
