"""Free text as numbers: TF-IDF against its formula, singular vectors, embeddings, and all of it back from a file."""

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from unflip.models import load
from unflip.models.folder import checksum
from unflip.tables import Preprocessor, TableClassifier, read_table
from unflip.tables.text import PARTS, embedded, fit_tfidf, load_embedding, tfidf

pd = pytest.importorskip("pandas", reason="unflip[data] is not installed")

WORDS = {
    "sea": "ship boat wave harbor sail",
    "food": "bread cheese soup apple rice",
    "sky": "cloud star moon wind rain",
}


def sentences(n=120, seed=0):
    """Texts of three classes, mostly in their own words, with a number and a town that tell little."""
    random = np.random.default_rng(seed)
    y = random.choice(list(WORDS), n)
    all_words = " ".join(WORDS.values()).split()
    texts = [
        " ".join([*random.choice(WORDS[k].split(), 4), random.choice(all_words), f"no{i}"]) for i, k in enumerate(y)
    ]
    return pd.DataFrame({"note": texts, "age": random.normal(size=n), "town": random.choice(["Ulm", "Bonn"], n)}), y


def real_file(name):
    """A text file of the suite in the directory that ``UNFLIP_DATA`` names; the test skips without it."""
    path = Path(os.environ.get("UNFLIP_DATA", "")) / "suite" / "text" / f"{name}.csv.gz"
    if not path.is_file():
        pytest.skip(f"{path} does not exist: UNFLIP_DATA names the directory of the suite")
    return path


def test_tfidf_equals_its_formula():
    texts = ["the cat sat", "the cat ran", "a dog ran off"]
    state = fit_tfidf(texts)
    n = len(texts)
    rows = {}
    for part in PARTS:
        terms = state[part].tolist()

        def count(term, text, part=part):
            if part == "words":
                tokens = text.split()
                return [*tokens, *(f"{a} {b}" for a, b in pairwise(tokens))].count(term)
            padded = (f" {token} " for token in text.split())
            return sum(w[i : i + len(term)] == term for w in padded for i in range(len(w) - len(term) + 1))

        counts = np.array([[count(term, text) for term in terms] for text in texts], dtype=float)
        assert (counts.astype(bool).sum(axis=0) >= 2).all()  # a term of one text is left out
        idf = 1 + np.log((1 + n) / (1 + counts.astype(bool).sum(axis=0)))
        X = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
        rows[part] = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300) / np.sqrt(2)
    assert {"the", "cat", "ran", "the cat"} == set(state["words"])
    np.testing.assert_allclose(tfidf(texts, state).toarray(), np.hstack(list(rows.values())), atol=1e-12)
    assert tfidf(["", "zzz"], state).nnz == 0


def test_singular_vectors_keep_the_products():
    texts = sentences()[0]["note"].tolist()
    X = tfidf(texts, fit_tfidf(texts)).toarray()
    state = fit_tfidf(texts, lsa=True)
    Z, V = tfidf(texts, state), state["components"]
    np.testing.assert_allclose(V @ V.T, np.eye(len(V)), atol=1e-4)
    np.testing.assert_allclose(Z, X @ V.T * np.sqrt(len(V)), atol=1e-4)
    assert np.sum(Z**2) / len(V) > 0.9 * np.sum(X**2)  # of 120 rows, 100 directions hold nearly everything


@pytest.fixture(scope="module")
def embedding():
    pytest.importorskip("tokenizers", reason="unflip[text] is not installed")
    try:
        return load_embedding()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


class TestEmbeddings:
    def test_the_mean_of_the_tokens(self, embedding):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(bytes(embedding["tokenizer"]).decode())
        texts = ["Where is my card?", "", "ship boat ship"]
        found = embedded(texts, embedding)
        for text, row in zip(texts, found, strict=True):
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            mean = embedding["table"][ids].astype(float).mean(axis=0) if ids else np.zeros(256)
            np.testing.assert_allclose(row, 16 * mean / max(np.linalg.norm(mean), 1e-300), atol=1e-9)
        assert embedded([], embedding).shape == (0, 256)

    def test_words_of_one_meaning_are_near(self, embedding):
        a, b, c = embedded(["my card was stolen", "someone took my credit card", "soup with rice"], embedding)
        assert a @ b > 2 * a @ c

    def test_saved_with_the_model_and_without_the_package(self, embedding, tmp_path, monkeypatch):
        frame, _ = sentences(30)
        fitted = Preprocessor(text="wordllama").fit(frame)
        fitted.save(tmp_path / "p")
        monkeypatch.setattr("unflip.tables.text.find_spec", lambda name: None)
        np.testing.assert_array_equal(load(tmp_path / "p").transform(frame), fitted.transform(frame))
        assert fitted.transform(frame).shape == (30, 1 + 2 + 256)
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'unflip\[text\]'"):
            Preprocessor(text="wordllama").fit(frame)


class TestPreprocessor:
    def test_mixed_columns_stand_side_by_side(self):
        frame, _ = sentences()
        fitted = Preprocessor(standardize=False).fit(frame)
        X = fitted.transform(frame, standardize=False)
        assert sparse.issparse(X)
        assert fitted.kinds == {"age": "number", "town": "category", "note": "text"}
        # Next to TF-IDF numbers are standardized in any case, and a row has norm one without its text, too.
        np.testing.assert_allclose(X[:, :1].toarray().std(), np.sqrt(1 / 2))
        np.testing.assert_allclose(X[:, 1:3].toarray().sum(axis=1), np.sqrt(1 / 2))
        np.testing.assert_allclose(sparse.linalg.norm(X[:, 3:], axis=1), 1)
        names = fitted.get_feature_names_out()
        assert len(names) == X.shape[1]
        assert {"age", "town=Ulm", "note: ship", "note: 'shi'"} <= set(names)

    @pytest.mark.parametrize("text", ["tfidf", "lsa"])
    def test_saved_and_loaded(self, text, tmp_path):
        frame, _ = sentences()
        fitted = Preprocessor(text=text).fit(frame)
        fitted.save(tmp_path / "p")
        back = load(tmp_path / "p")
        difference = back.transform(frame[::-1]) - fitted.transform(frame[::-1])
        assert abs(difference).max() == 0
        assert back.kinds == fitted.kinds

    def test_missing_texts_are_empty(self):
        frame, _ = sentences()
        fitted = Preprocessor().fit(frame[["note"]])
        rows = fitted.transform(pd.DataFrame({"note": [None, np.nan, "", "ship ship", 7]}))
        np.testing.assert_array_equal(rows.indptr[1:4], 0)
        assert rows.indptr[4] > 0

    @pytest.mark.parametrize(
        ("values", "use"),
        [
            ([f"see the {k} boats" for k in range(60)], "text"),
            ([f"see the {k} boats" for k in range(60)] * 3, "text"),  # each several times, but more than 50
            ([f"see the {k} boats" for k in range(5)] * 12, "category"),
            ([f"/home/me/pictures/of the/{k}.png" for k in range(60)], "unused"),
            ([f"Anna {k}" for k in "abcdefghijklmnop"], "unused"),
            ([f"私の船は{k}番です" for k in range(60)], "text"),
        ],
    )
    def test_what_counts_as_free_text(self, values, use):
        fitted = Preprocessor().choose(pd.DataFrame({"other": np.arange(len(values)) % 7, "c": values}))
        assert (fitted.kinds.get("c") or "unused") == use

    def test_an_unknown_choice_is_refused(self):
        with pytest.raises(ValueError, match="text must be one of tfidf, lsa, wordllama; got 'bert'"):
            Preprocessor(text="bert").fit(sentences()[0])

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            (lambda state: state["words"]["strings"].append("more"), "inverse document frequency"),
            (lambda state: state["words"]["strings"].__setitem__(0, state["words"]["strings"][1]), "different strings"),
            (lambda state: state.pop("words_idf"), "words and characters|does not have"),
        ],
    )
    def test_edited_terms_are_refused(self, change, match, tmp_path):
        Preprocessor().fit(sentences()[0]).save(tmp_path / "p")
        path = tmp_path / "p" / "model.json"
        document = json.loads(path.read_text())
        change(document["attributes"]["dict"]["texts_"]["dict"]["note"]["dict"])
        document["checksum"] = checksum(document)
        path.write_text(json.dumps(document))
        with pytest.raises(ValueError, match=match):
            load(tmp_path / "p")


class TestTableClassifier:
    def test_text_tells_what_numbers_do_not(self, tmp_path):
        from unflip import VolMin

        frame, y = sentences(300)
        model = TableClassifier(VolMin()).fit(frame[:200], y[:200])
        assert model.score(frame[200:], y[200:]) > 0.9
        model.save(tmp_path / "m")
        np.testing.assert_array_equal(load(tmp_path / "m").predict_proba(frame), model.predict_proba(frame))

    def test_a_model_that_takes_no_sparse_matrix_gets_singular_vectors(self, tmp_path):
        from sklearn.ensemble import HistGradientBoostingClassifier

        from unflip import CorrectedClassifier

        frame, y = sentences(200)
        trees = HistGradientBoostingClassifier(max_iter=5, random_state=0)
        model = TableClassifier(CorrectedClassifier(trees, transition=np.eye(3), cv=2)).fit(frame, y)
        assert model.preprocessor_.text == "lsa"
        model.save(tmp_path / "m")
        np.testing.assert_allclose(load(tmp_path / "m").predict_proba(frame), model.predict_proba(frame))

    def test_numbers_of_other_classifiers_are_standardized(self):
        from unflip import MCLDCEClassifier

        frame, y = sentences(200)
        model = TableClassifier(MCLDCEClassifier(np.eye(3), alpha=1.0))
        raw = model.fit_preprocessor(frame.assign(age=1000 * frame["age"]))
        assert abs(model.standardized(raw) - model.samples(frame.assign(age=1000 * frame["age"]))).max() == 0
        assert model.fit(frame, y).score(frame, y) > 0.9


@pytest.mark.slow
def test_a_real_file_of_texts(tmp_path):
    """Texts of reuters_r8 with a third of the labels flipped, from the file to the saved model."""
    from unflip import VolMin
    from unflip.noise import corrupt, pairflip

    table = read_table(real_file("reuters_r8"), "label", drop=["split"])
    frequent = np.isin(table.y, ["acq", "earn", "crude"])
    frame, y = table.X[frequent][:900], table.y[frequent][:900]
    classes, codes = np.unique(y, return_inverse=True)
    noisy = classes[corrupt(codes, pairflip(3, 0.3), random_state=0)]
    model = TableClassifier(VolMin()).fit(frame[:600], noisy[:600])
    assert model.kinds == {"text": "text"}
    assert model.score(frame[600:], y[600:]) > 0.9
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(frame), model.predict(frame))


@pytest.mark.slow
def test_rare_words_that_tell_much():
    """Tweets whose feelings a few rare words name: at least as accurate as naive Bayes of words alone."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.naive_bayes import ComplementNB

    from unflip import CorrectedClassifier
    from unflip.noise import corrupt, symmetric

    table = read_table(real_file("emotion_tweets"), "label", drop=["split"])
    rows = np.random.default_rng(0).permutation(len(table.y))[:6000]
    frame, (classes, codes) = table.X.iloc[rows], np.unique(table.y[rows], return_inverse=True)
    noisy = classes[corrupt(codes[:3000], symmetric(len(classes), 0.3), random_state=0)]
    model = TableClassifier(CorrectedClassifier(random_state=0)).fit(frame[:3000], noisy)
    words = TfidfVectorizer()
    plain = ComplementNB().fit(words.fit_transform(frame["text"][:3000]), noisy)
    right = classes[codes[3000:]]
    assert model.score(frame[3000:], right) > plain.score(words.transform(frame["text"][3000:]), right) - 0.01
