"""The passes over a table: which rows are drawn, what is in memory, and the block of a mistake."""

import gc
import weakref

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")

import pandas as pd

from tests.commands.people import FILES, NAMES, N, numbers, people, write_people
from unflip.commands.row_passes import DRAW, SumFolds, draw_rows, row_numbers, split_rows
from unflip.tables import Preprocessor, reduce_blocks
from unflip.tables.read import FrameRows
from unflip.tables.sources import TablePart, open_tables
from unflip.transition.sample import PIECES


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_people(tmp_path_factory.mktemp("people"))


def test_sample_and_held_out_rows_are_drawn_apart(folder, monkeypatch):
    monkeypatch.setattr("unflip.commands.row_passes.MOST_HELD_OUT", 50)
    drawn = draw_rows(open_tables(folder / "parts", "kind", rows=40), 90, 0, {"threads": 1})
    split = split_rows(drawn, 0.2, 40)
    place = split.rows.rows + np.cumsum((0, *FILES[:-1]))[split.rows.files]
    order = np.argsort(numbers(DRAW))
    assert np.array_equal(place[split.held], np.sort(order[:50]))
    assert np.array_equal(place[split.sample], np.sort(order[50:90]))
    frame = people()
    assert split.rows.frame["name"].tolist() == frame["name"][place].tolist()
    assert split.y.tolist() == frame["kind"][place].tolist()


def test_numbers_of_rows_are_not_those_of_the_default_generator():
    rows = FrameRows(pd.DataFrame(index=range(9)), None, np.zeros(9, dtype=int))
    assert not np.isin(row_numbers(0, 0, rows), np.random.default_rng(0).random(99)).any()


def test_memory_is_some_blocks_and_the_sample(folder, monkeypatch):
    alive, most = set(), []
    read = TablePart.blocks

    def watched(self):
        for block in read(self):
            alive.add(id(block))
            weakref.finalize(block, alive.discard, id(block))
            most.append(len(alive))
            yield block

    monkeypatch.setattr(TablePart, "blocks", watched)
    source = open_tables(folder / "people.csv", "kind", rows=5)
    gc.disable()
    try:
        drawn = draw_rows(source, 30, 0, {"threads": 1})
    finally:
        gc.enable()
    assert len(most) == N // 5
    assert max(most) <= 3
    assert drawn.smallest.n_kept <= 60
    assert len(drawn.smallest.pieces) <= PIECES
    assert sum(drawn.labels.values()) == N


def test_the_second_pass_names_its_block(folder):
    source = open_tables(folder / "parts", "kind", rows=100)
    preprocessor = Preprocessor().fit(people()[["pay"]].assign(town=1.0 * np.arange(N)))
    function = SumFolds(preprocessor, NAMES, 0, 5, 0.0)
    with pytest.raises(ValueError, match=r"row groups 0 to 1, rows 0 to 99: column 'town' must hold numbers"):
        reduce_blocks(source, function)
    with pytest.raises(
        ValueError, match=r"rows 0 to 99: row \d+ has the label 'cat', which is not one of the 2 classes"
    ):
        reduce_blocks(source, SumFolds(preprocessor, NAMES[:2], 0, 5, 0.0))


def test_the_second_pass_names_the_row_of_the_file(tmp_path):
    frame = people()[["pay", "kind"]].assign(code=["1", "2", "3"] * 115 + ["x"] + ["4"] * 254)
    frame.to_parquet(tmp_path / "p.parquet", index=False, row_group_size=100)
    preprocessor = Preprocessor().fit(frame[["pay"]].assign(code=np.arange(N) % 5))
    with pytest.raises(ValueError, match=r"row group 3, rows 300 to 399: column 'code' .* but row 345 has 'x' \(1"):
        reduce_blocks(open_tables(tmp_path / "p.parquet", "kind", rows=100), SumFolds(preprocessor, NAMES, 0, 5, 0.0))
