"""Frames of any library, tensors and datasets give what the same file gives."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")
pa = pytest.importorskip("pyarrow", reason="unflip[data] is not installed")

from unflip.audit import find_label_errors  # noqa: E402
from unflip.commands import find_noise  # noqa: E402
from unflip.linear import MCLDCEClassifierCV, class_sums  # noqa: E402
from unflip.noise import symmetric  # noqa: E402
from unflip.tables import Preprocessor, TableClassifier, open_source, read_table  # noqa: E402
from unflip.tables.read import as_frame  # noqa: E402


@pytest.fixture(scope="module")
def path(suite):
    return suite("tables/primary_tumor")


@pytest.fixture(params=["pandas", "polars", "polars lazy", "arrow", "datasets"])
def frame(request, path):
    """Categories with missing values, from a real file."""
    whole = pd.read_csv(path)
    library = request.param.split()[0]
    if library == "pandas":
        return whole
    if library == "arrow":
        return pa.Table.from_pandas(whole)
    module = pytest.importorskip(library, reason=f"{library} is not installed: pip install 'unflip[dev]'")
    if library == "datasets":
        return module.Dataset.from_pandas(whole)
    found = module.from_pandas(whole)
    return found.lazy() if "lazy" in request.param else found


def test_a_frame_is_a_table(frame, path):
    table, expected = read_table(frame, "target", drop=["age"]), read_table(path, "target", drop=["age"])
    assert table.y.tolist() == expected.y.tolist()
    assert (table.label, table.class_names) == ("target", expected.class_names)
    assert table.X.fillna("?").astype(str).equals(expected.X.fillna("?").astype(str))
    np.testing.assert_array_equal(Preprocessor().fit_transform(table.X), Preprocessor().fit_transform(expected.X))
    assert table.names.tolist() == list(range(len(table.y)))


def test_a_model_takes_it(frame, path):
    expected = read_table(path, "target")
    model = TableClassifier(MCLDCEClassifierCV(np.eye(15))).fit(expected.X, expected.y)
    proba = model.predict_proba(expected.X)
    np.testing.assert_array_equal(model.predict_proba(frame), proba)  # further columns are ignored
    labels = as_frame(frame)["target"]
    again = TableClassifier(MCLDCEClassifierCV(np.eye(15))).fit(as_frame(frame).drop(columns="target"), labels)
    np.testing.assert_allclose(again.predict_proba(frame), proba)


def test_other_libraries_fit_themselves(path):
    """X and y as polars and datasets have them, without a conversion by the caller."""
    polars, datasets = (pytest.importorskip(name) for name in ("polars", "datasets"))
    whole = pd.read_csv(path)
    expected = TableClassifier(MCLDCEClassifierCV(np.eye(15))).fit(whole.drop(columns="target"), whole["target"])
    for X, y in (
        (polars.from_pandas(whole).drop("target"), polars.from_pandas(whole["target"])),
        ((ds := datasets.Dataset.from_pandas(whole)).remove_columns("target"), ds["target"]),
    ):
        model = TableClassifier(MCLDCEClassifierCV(np.eye(15))).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(whole))


class TestNumbers:
    """Frames of numbers and tensors, as sources, for an audit and for T."""

    @pytest.fixture
    def vehicles(self, suite):
        return pd.read_csv(suite("tables/vehicle"))

    def test_sources_and_audits(self, vehicles):
        polars, torch, datasets = (pytest.importorskip(name) for name in ("polars", "torch", "datasets"))
        X, y = vehicles.drop(columns="target").astype(float), vehicles["target"]
        sums, T = class_sums(X.to_numpy(), y.to_numpy()), symmetric(y.nunique(), 0.2)
        errors = find_label_errors(X.to_numpy(), y, MCLDCEClassifierCV(alphas=[1.0]), T, random_state=0)
        tensor = torch.tensor(X.to_numpy(), requires_grad=True)
        for data, labels in (
            (polars.from_pandas(X), polars.from_pandas(y)),
            (tensor, torch.tensor(y.to_numpy())),
            (datasets.Dataset.from_pandas(X), y),
        ):
            found = class_sums(open_source(data, labels, rows=100))
            np.testing.assert_allclose(found.mean, sums.mean)
            audited = find_label_errors(data, labels, MCLDCEClassifierCV(alphas=[1.0]), T, random_state=0)
            np.testing.assert_allclose(audited.scores, errors.scores)
        labeled = open_source(polars.from_pandas(vehicles), label="target", rows=100)
        np.testing.assert_allclose(class_sums(labeled).mean, sums.mean)

    def test_tensors_by_their_names_and_in_a_file(self, vehicles, tmp_path):
        torch = pytest.importorskip("torch")
        from safetensors.torch import save_file

        X = torch.tensor(vehicles.drop(columns="target").to_numpy(float).copy(order="C"))
        y = torch.tensor(vehicles["target"].to_numpy())
        save_file({"X": X, "y": y}, tmp_path / "t.safetensors")
        for given in ({"X": X, "y": y}, tmp_path / "t.safetensors"):
            table = read_table(given)
            np.testing.assert_array_equal(table.X, X.numpy())
            assert table.y.tolist() == y.tolist()
        (tmp_path / "u.safetensors").write_bytes(b"x" * 100)
        with pytest.raises(ValueError, match="u.safetensors cannot be read as safetensors"):
            read_table(tmp_path / "u.safetensors")

    def test_noise(self, vehicles):
        polars = pytest.importorskip("polars")
        found = [
            find_noise(read_table(data, "target"), method="anchor", random_state=0).transition
            for data in (vehicles, polars.from_pandas(vehicles))
        ]
        np.testing.assert_array_equal(*found)


class TestDatasets:
    @pytest.fixture
    def dataset(self, suite):
        datasets = pytest.importorskip("datasets", reason="datasets is not installed: pip install 'unflip[dev]'")
        frame = pd.read_csv(suite("text/tweet_irony"), usecols=["text", "label"])
        features = datasets.Features(
            text=datasets.Value("string"), label=datasets.ClassLabel(names=["plain", "ironic"])
        )
        return datasets.Dataset.from_pandas(frame, features=features, preserve_index=False)

    def test_classes_have_their_names_in_memory_and_on_disk(self, dataset, tmp_path):
        expected = [("plain", "ironic")[code] for code in dataset["label"]]
        dataset.save_to_disk(tmp_path / "saved", num_shards=3)
        dataset.to_parquet(tmp_path / "t.parquet")
        for data in (dataset, tmp_path / "saved", tmp_path / "t.parquet"):
            table = read_table(data, "label")
            assert table.y.tolist() == expected
            assert table.X["text"].tolist() == dataset["text"][:]
        assert read_table(dataset.select([5, 3, 9, 100]), "label").X["text"].tolist() == dataset["text"][[5, 3, 9, 100]]

    def test_splits_must_be_chosen(self, dataset, tmp_path):
        datasets = pytest.importorskip("datasets")
        splits = datasets.DatasetDict(train=dataset.select(range(20)), test=dataset.select(range(5)))
        with pytest.raises(ValueError, match=r"DatasetDict has several splits; .* data\['train'\]"):
            read_table(splits, "label")
        splits.save_to_disk(tmp_path / "both")
        with pytest.raises(ValueError, match="the splits test, train of a dataset; name one of these folders"):
            read_table(tmp_path / "both", "label")
        with pytest.raises(ValueError, match="IterableDataset has no rows yet"):
            read_table(dataset.to_iterable_dataset(), "label")


def test_mistakes():
    frame = pd.DataFrame({"a": [1, 2, 3], "y": ["p", "q", "q"]})
    with pytest.raises(ValueError, match="the data frame has no column 'z'"):
        read_table(frame, "z")
    with pytest.raises(ValueError, match="the data frame is empty"):
        read_table(frame[:0], "y")
    with pytest.raises(ValueError, match="a table is a path, a data frame or a dict with X and y; got ndarray"):
        read_table(np.eye(3))
    with pytest.raises(ValueError, match="DATA in memory takes no encoding: leave out 'utf-8'"):
        read_table(frame, "y", encoding="utf-8")
    named = read_table(frame.set_index(pd.Index(["u", "v", "w"])), "y")
    assert named.names.tolist() == ["u", "v", "w"]
