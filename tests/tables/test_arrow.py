"""Parquet and Arrow files, and the names of classes that Hugging Face's datasets writes into them."""

import json

import numpy as np
import pytest

from unflip.tables import read_table
from unflip.tables.sources import open_tables

pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")
pa = pytest.importorskip("pyarrow", reason="unflip[data] is not installed")
from pyarrow import feather, parquet  # noqa: E402


@pytest.fixture
def table(suite):
    return pa.Table.from_pandas(pd.read_csv(suite("tables/dry_bean")).iloc[::10].reset_index(drop=True))


def write_stream(table, path):
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=400)


WRITERS = {
    "t.feather": lambda table, path: feather.write_feather(table, path, chunksize=400),
    "plain.feather": lambda table, path: feather.write_feather(table, path, "uncompressed"),
    "t.arrow": write_stream,
    "t.parquet": lambda table, path: parquet.write_table(table, path, row_group_size=400),
}


@pytest.mark.parametrize("name", WRITERS)
class TestFormats:
    def test_the_same_rows(self, table, tmp_path, name):
        WRITERS[name](table, tmp_path / name)
        found = read_table(tmp_path / name, "target")
        pd.testing.assert_frame_equal(found.X, table.drop_columns("target").to_pandas())
        assert found.y.tolist() == table["target"].to_pylist()

    def test_in_blocks(self, table, tmp_path, name):
        WRITERS[name](table, tmp_path / name)
        source = open_tables(tmp_path / name, "target", rows=300)
        assert source.n_rows == len(table)
        assert len(source.parts()) == (1 if "plain" in name else 4)
        blocks = list(source.blocks())
        assert max(map(len, blocks)) == 300
        assert np.concatenate([block.y for block in blocks]).tolist() == table["target"].to_pylist()
        found = pd.concat([block.X.frame for block in source.only(["Perimeter"]).blocks()])
        assert found.columns.tolist() == ["Perimeter"]
        assert found["Perimeter"].tolist() == table["Perimeter"].to_pylist()

    def test_names_of_classes(self, table, tmp_path, name):
        names = sorted(set(table["target"].to_pylist()))
        codes = pa.array([None if k == 3 else names.index(v) for k, v in enumerate(table["target"].to_pylist())])
        features = {"target": {"names": names, "_type": "ClassLabel"}, "Area": {"dtype": "int64", "_type": "Value"}}
        noted = {b"huggingface": json.dumps({"info": {"features": features}})}
        coded = table.drop_columns("target").append_column("target", codes)[4:].replace_schema_metadata(noted)
        WRITERS[name](coded, tmp_path / name)
        found = read_table(tmp_path / name, "target")
        assert found.y.tolist() == table["target"].to_pylist()[4:]
        few = coded.set_column(len(coded.column_names) - 1, "target", pa.array([-1, 7, *[0] * (len(coded) - 2)]))
        WRITERS[name](few, tmp_path / name)
        with pytest.raises(ValueError, match="column 'target' has the code 7, but names for 7 classes only"):
            read_table(tmp_path / name, "target")


def test_damaged_files(tmp_path, table):
    feather.write_feather(table, tmp_path / "t.feather")
    whole = (tmp_path / "t.feather").read_bytes()
    for content in (b"", b"ARROW1", whole[: len(whole) // 2], b"FEA1" + bytes(100)):
        (tmp_path / "t.feather").write_bytes(content)
        with pytest.raises(ValueError, match="t.feather cannot be read as Arrow"):
            read_table(tmp_path / "t.feather", "target")
