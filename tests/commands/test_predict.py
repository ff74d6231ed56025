"""Predictions of a saved model, block by block, and written to files."""

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("safetensors")

import pandas as pd

from tests.commands.conftest import NAMES
from unflip.commands import predict_table, write_predictions
from unflip.tables import Table


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
        with pytest.raises(ValueError, match="Preprocessor is not a classifier and cannot predict; give"):
            predict_table(fitted.model.preprocessor_, table)
