"""What a reviewer sees: the order of the columns against loops, and rows that look alike."""

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("pandas")

import pandas as pd

from unflip.audit import LabelErrors
from unflip.audit.review import look_alikes, row_contents
from unflip.noise import symmetric


def found(given, clean, scores=None):
    """Errors whose posterior is sure of the clean labels."""
    given, clean = np.asarray(given), np.asarray(clean)
    classes = np.unique(np.concatenate([given, clean]))
    posterior = (clean[:, None] == classes).astype(float)
    scores = (given != clean).astype(float) if scores is None else np.asarray(scores)
    n = np.array([scores[given == k].sum() for k in classes])
    return LabelErrors(classes, given, posterior, posterior, symmetric(len(classes), 0.1), scores, clean, n, [])


@pytest.fixture
def table():
    """200 rows; "tells" separates the classes, "town" a little, "nothing" does not; row 0 is wrong."""
    random = np.random.default_rng(0)
    clean = np.arange(200) % 2
    frame = pd.DataFrame({
        "nothing": random.normal(size=200),
        "town": np.where(random.random(200) < 0.3, "Ulm", np.where(clean == 1, "Bonn", "Köln")),
        "tells": clean * 10.0 + random.normal(size=200),
    })  # fmt: skip
    given = clean.copy()
    given[0] = 1
    return frame, found(np.array(["a", "b"])[given], np.array(["a", "b"])[clean])


class TestContents:
    def test_the_most_telling_columns_come_first(self, table):
        frame, errors = table
        contents = row_contents(frame, errors, errors.suspects)
        assert contents.columns[0] == "tells"
        (cells,) = contents.cells
        assert cells[contents.columns.index("town")] == frame["town"][0]
        assert contents.order[0, 0] == 0

    def test_evidence_is_a_ratio_of_shares(self, table):
        """The town by a loop: its share among rows of the suggested class over that of the given one."""
        frame, errors = table
        frame = frame[["town", "nothing"]].assign(other=np.where(np.arange(200) == 0, "x", "y"))
        towns = frame["town"]
        clean = errors.suggested

        def share(column, label):
            levels = len(set(frame[column])) + 1  # missing values are a level
            return (np.sum((frame[column] == frame[column][0]) & (clean == label)) + 1 / levels) / (
                np.sum(clean == label) + 1
            )

        ratios = {name: share(name, "a") / share(name, "b") for name in ("town", "other")}
        contents = row_contents(frame[["town", "other"]], errors, errors.suspects)
        assert contents.columns == sorted(ratios, key=ratios.get, reverse=True)
        assert towns[0] in contents.cells[0]

    def test_texts_come_first_and_cells_are_written_plainly(self, table):
        frame, errors = table
        frame = frame.assign(comment=[f"a comment that is long enough {i}" for i in range(200)], n=np.arange(200.0))
        frame["n"] = frame["n"].where(frame["n"] != 0)
        frame["flag"] = True
        contents = row_contents(frame, errors, np.array([0, 1]))
        assert contents.columns[0] == "comment"
        assert (contents.order[:, 0] == 0).all()
        place = contents.columns.index("n")
        assert [row[place] for row in contents.cells] == ["", "1"]
        assert contents.cells[0][contents.columns.index("flag")] == "True"

    def test_awkward_columns(self, table):
        frame, errors = table
        frame = pd.DataFrame({
            "empty": [None] * 200,
            "constant": 1,
            "nan": np.nan,
            "big": pd.array([2**60] * 199 + [None], dtype="Int64"),
            "date": pd.Timestamp("2024-01-02"),
            "kind": pd.Categorical(["u", "v"] * 100),
        })  # fmt: skip
        contents = row_contents(frame, errors, errors.suspects)
        cells = dict(zip(contents.columns, contents.cells[0], strict=True))
        assert cells["empty"] == cells["nan"] == ""
        assert (cells["constant"], cells["kind"]) == ("1", "u")
        assert cells["date"].startswith("2024-01-02")
        assert row_contents(frame, errors, np.array([], dtype=int)).cells == []


class TestLookAlikes:
    def test_are_the_nearest_confident_rows_of_the_suggested_class(self):
        random = np.random.default_rng(0)
        X, clean = random.normal(size=(60, 2)), np.arange(60) % 3
        given, scores = clean.copy(), np.full(60, 0.01)
        given[[0, 1]], scores[[0, 1]] = [1, 0], 0.9
        scores[3] = 0.5  # right, but not sure
        errors = found(given, clean, scores)
        rows = errors.suspects
        for like in (X, sparse.csr_array(X)):
            alike = look_alikes(like, errors, rows, 2)
            for row, near in zip(rows, alike, strict=True):
                allowed = [i for i in range(60) if given[i] == clean[i] == clean[row] and i != 3]
                expected = sorted(allowed, key=lambda i: np.linalg.norm(X[i] - X[row]))[:2]
                assert near.tolist() == expected

    def test_few_rows_leave_places_empty(self):
        errors = found(["a", "b", "b", "a"], ["b", "b", "b", "a"], [0.9, 0.2, 0.3, 0.1])
        assert look_alikes(np.eye(4), errors, np.array([0]), 3).tolist() == [[1, -1, -1]]
        nobody = found(["a", "a", "c"], ["b", "a", "c"])
        assert look_alikes(np.eye(3), nobody, np.array([0]), 2).tolist() == [[-1, -1]]

    def test_many_rows_are_compared_with_some(self, monkeypatch):
        monkeypatch.setattr("unflip.audit.review.MODELS", 20)
        clean = np.zeros(500, dtype=int)
        clean[:100] = 1
        given = clean.copy()
        given[:3] = 0
        errors = found(given, clean, np.where(given != clean, 0.9, np.arange(500) / 1e5))
        alike = look_alikes(np.arange(500.0)[:, None], errors, errors.suspects)
        assert (clean[alike] == 1).all()
        assert len(np.unique(alike)) <= 12
