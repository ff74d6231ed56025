"""Arrays in NPZ files: which array is what, sparse matrices, and the names of classes."""

import numpy as np
import pytest
from scipy import sparse

from unflip.commands.predict import predict_table, read_for
from unflip.linear import MCLDCEClassifierCV
from unflip.models import load
from unflip.tables import Preprocessor, TableClassifier, read_table


class TestDense:
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 1, 0])

    def saved(self, tmp_path, **arrays):
        np.savez(tmp_path / "t.npz", **arrays)
        return tmp_path / "t.npz"

    @pytest.mark.parametrize(
        ("keys", "label"),
        [
            (("X", "y"), None),
            (("x_train", "y_train"), None),
            (("X", "given"), "given"),
            (("x_test", "y_test"), "y_test"),
        ],
    )
    def test_keys(self, tmp_path, keys, label):
        table = read_table(self.saved(tmp_path, **dict(zip(keys, (self.X, self.y), strict=True))), label)
        np.testing.assert_array_equal(table.X, self.X)
        np.testing.assert_array_equal(table.y, self.y)
        assert table.label == keys[1]
        assert table.names.tolist() == [0, 1, 2, 3]

    def test_the_samples_belong_to_the_label(self, tmp_path):
        path = self.saved(tmp_path, x_train=self.X, y_train=self.y, x_test=-self.X[:3], y_test=self.y[:3])
        np.testing.assert_array_equal(read_table(path, "y_test").X, -self.X[:3])
        np.testing.assert_array_equal(read_table(path).X, self.X)

    def test_no_labels_wanted(self, tmp_path):
        assert read_table(self.saved(tmp_path, X=self.X, y=[1, 1, 1, 1]), False).y is None

    def test_labels_in_a_column_and_as_bytes(self, tmp_path):
        path = self.saved(tmp_path, X=self.X, y=np.array([[b"p"], [b"q"], [b"q"], [b"p"]]), w=[1, 2, 3, 4])
        table = read_table(path, weights="w")
        assert table.y.tolist() == ["p", "q", "q", "p"]
        assert table.sample_weight.tolist() == [1, 2, 3, 4]

    def test_images_become_channels_first_in_unit_range(self, tmp_path):
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
        last = read_table(self.saved(tmp_path, X=pixels, y=self.y)).X
        assert (last.shape, last.dtype) == ((4, 3, 6, 5), np.float32)
        assert last[1, 2, 3, 4] == np.float32(pixels[1, 3, 4, 2]) / np.float32(255)
        grey = read_table(self.saved(tmp_path, X=pixels[..., 0], y=self.y)).X
        np.testing.assert_array_equal(grey[:, 0], last[:, 0])
        first = read_table(self.saved(tmp_path, X=pixels.transpose(0, 3, 1, 2), y=self.y)).X
        np.testing.assert_array_equal(first, last)

    @pytest.mark.parametrize(
        ("arrays", "options", "match"),
        [
            ({"Z": X, "y": y}, {}, "has no array 'X'.* It has 'Z', 'y'"),
            ({"X": X, "y": y}, {"label": "Y"}, "no array 'Y'; did you mean 'y'"),
            ({"X": X, "y": y[:3]}, {}, "lengths differ: X has 4, y has 3"),
            ({"X": X, "y": np.eye(4)}, {}, "one label per row is needed. For one-hot rows, give the place of the 1"),
            ({"X": X, "y": 3}, {}, "one label per row"),
            ({"X": X, "y": [0.5, 1, 2, 2]}, {}, "looks like a number to predict"),
            ({"X": X, "y": [np.nan] * 4}, {}, "the label is missing in row 0 .4 missing"),
            ({"X": X, "y": ["a", "", "b"]}, {}, "the label is missing in row 1"),
            ({"X": X[:, 0], "y": y}, {}, r"shape \(4,\); expected numbers"),
            ({"X": X[:0], "y": y[:0]}, {}, "is empty"),
            ({"X": X * [1, np.inf], "y": y}, {}, "infinite values, the first in row 0"),
            ({"X": X, "y": y}, {"drop": ["a", "b"]}, "takes no drop: leave out 'a', 'b'$"),
            ({"X": np.array([[{}]]), "y": y}, {}, "only pickle restores them"),
        ],
    )
    def test_mistakes(self, tmp_path, arrays, options, match):
        with pytest.raises(ValueError, match=match):
            read_table(self.saved(tmp_path, **arrays), **options)


class TestSparse:
    @pytest.fixture
    def words(self, suite):
        """Counts of words in real texts, and their labels."""
        pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")
        from sklearn.feature_extraction.text import CountVectorizer

        frame = pd.read_csv(suite("text/tweet_irony"))
        return CountVectorizer(min_df=5).fit_transform(frame["text"]), frame["label"].to_numpy()

    @pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
    def test_as_scipy_saves_it(self, words, tmp_path, kind):
        X, y = words
        sparse.save_npz(tmp_path / "X.npz", X.asformat(kind))
        np.save(tmp_path / "y.npy", y)
        assert (read_table(tmp_path / "X.npz").X != X).nnz == 0
        table = read_table(tmp_path / "X.npz", str(tmp_path / "y.npy"))
        assert (table.X.format, table.X.dtype) == ("csr", np.float32)
        assert (table.X != X).nnz == 0
        assert table.y.tolist() == y.tolist()
        assert len(table.names) == len(y)

    @pytest.mark.parametrize("prefix", ["", "X_", "x_train_"])
    def test_together_with_its_labels(self, words, tmp_path, prefix):
        X, y = words[0].tocsr(), words[1]
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
        named = {f"{prefix}{name}": values for name, values in parts.items()}
        np.savez(tmp_path / "t.npz", **named, **{"y_train" if "train" in prefix else "y": y})
        table = read_table(tmp_path / "t.npz")
        assert (table.X != X).nnz == 0
        assert table.y.tolist() == y.tolist()

    def test_a_model_takes_it(self, words, tmp_path):
        """As dense rows that are neither centered nor scaled; a model that takes none of it gets dense rows."""
        X, y = words[0][::5].astype(float), words[1][::5]
        model = TableClassifier(MCLDCEClassifierCV(np.eye(2))).fit(X, y)
        plain = MCLDCEClassifierCV(np.eye(2)).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X))
        np.testing.assert_allclose(model.predict_proba(X.toarray()), plain.predict_proba(X))
        model.save(tmp_path / "model")
        sparse.save_npz(tmp_path / "X.npz", X)
        table = read_for(load(tmp_path / "model"), tmp_path / "X.npz")
        np.testing.assert_allclose(predict_table(load(tmp_path / "model"), table, 100)[1], plain.predict_proba(X))
        dense = Preprocessor().fit(X.toarray())
        np.testing.assert_allclose(dense.transform(X), dense.transform(X.toarray()))

    def test_mistakes(self, tmp_path):
        X = sparse.random(20, 6, density=0.3, format="csr", random_state=0)
        path = tmp_path / "t.npz"
        sparse.save_npz(path, X.todia())
        with pytest.raises(ValueError, match=r"in the format 'dia'; save it with save_npz\(path, X.tocsr"):
            read_table(path)
        parts = {"data": X.data, "indices": X.indices + 3, "indptr": X.indptr, "shape": X.shape}
        np.savez(path, **parts)
        with pytest.raises(ValueError, match="damaged sparse matrix"):
            read_table(path)
        np.savez(path, **parts | {"data": X.data * np.inf, "indices": X.indices})
        with pytest.raises(ValueError, match="infinite"):
            read_table(path)
        np.savez(path, **parts | {"indices": X.indices}, y=[0, 1, 1])
        with pytest.raises(ValueError, match="lengths differ: X has 20, y has 3"):
            read_table(path)
        with pytest.raises(FileNotFoundError, match="none.npy does not exist"):
            read_table(path, str(tmp_path / "none.npy"))


class TestClasses:
    X = np.arange(8.0).reshape(4, 2)

    @pytest.mark.parametrize("key", ["classes", "class_names"])
    def test_numbers_of_classes_become_their_names(self, tmp_path, key):
        np.savez(tmp_path / "t.npz", X=self.X, y=[1, 0, 2, 1], **{key: ["pear", "apple", "fig"]})
        table = read_table(tmp_path / "t.npz")
        assert table.y.tolist() == ["apple", "pear", "fig", "apple"]
        assert table.class_names == ("apple", "fig", "pear")

    def test_labels_that_are_classes_stay(self, tmp_path):
        for y, classes in ((["b", "a", "b", "b"], ["a", "b", "c"]), ([5, 7, 5, 5], [5, 7])):
            np.savez(tmp_path / "t.npz", X=self.X, y=y, classes=classes)
            assert read_table(tmp_path / "t.npz").y.tolist() == y

    def test_a_number_without_a_name(self, tmp_path):
        np.savez(tmp_path / "t.npz", X=self.X, y=[1, 0, 2, 1], classes=["a", "b"])
        with pytest.raises(ValueError, match="names 2 classes, so labels are 0 .. 1; got 0 to 2"):
            read_table(tmp_path / "t.npz")
