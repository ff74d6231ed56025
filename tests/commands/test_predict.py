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
        np.testing.assert_allclose(frame.iloc[:, 2:].to_numpy(), proba, atol=1e-15)  # pandas 2 rounds the last digit
        assert [item.name for item in path.parent.iterdir()] == [path.name]

    def test_what_predicts_nothing(self, fitted, table):
        with pytest.raises(ValueError, match="Preprocessor is not a classifier and cannot predict; give"):
            predict_table(fitted.model.preprocessor_, table)

    @pytest.mark.parametrize("threshold", [0, 0.7, 1])
    def test_abstains_where_it_is_not_sure(self, fitted, table, threshold):
        predicted, proba = predict_table(fitted.model, table)
        labels, again = predict_table(fitted.model, table, threshold=threshold)
        assert np.array_equal(proba, again)
        assert np.array_equal(np.ma.getmaskarray(labels), proba.max(axis=1) < threshold)
        assert np.array_equal(labels.compressed(), predicted[proba.max(axis=1) >= threshold])

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    @pytest.mark.parametrize("classes", [NAMES, np.array([3, 5, 7])])
    def test_an_abstention_is_an_empty_cell(self, table, tmp_path, suffix, classes):
        pytest.importorskip("pyarrow")
        predicted = np.ma.masked_array(np.repeat(classes[:1], len(table.X)), np.arange(len(table.X)) % 3 == 0)
        proba = np.full((len(table.X), 3), 1 / 3)
        path = write_predictions(tmp_path / f"p.{suffix}", table, predicted, proba, classes)
        frame = pd.read_parquet(path) if suffix == "parquet" else pd.read_csv(path)
        assert np.array_equal(frame["prediction"].isna(), predicted.mask)
        assert set(frame["prediction"].dropna()) == {classes[0]}

    def test_a_threshold_that_is_not_a_probability(self, fitted, table):
        with pytest.raises(ValueError, match="between 0 and 1; got 90"):
            predict_table(fitted.model, table, threshold=90)
