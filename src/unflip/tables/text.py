"""Free text as numbers: TF-IDF of words and character n-grams, its singular vectors, or static embeddings."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from unflip._validation import FloatArray

Text = Literal["tfidf", "lsa", "wordllama"]
CHOICES = ("tfidf", "lsa", "wordllama")
PARTS: dict[str, dict[str, Any]] = {
    "words": {"ngram_range": (1, 2), "token_pattern": r"\b\w+\b", "max_features": 20_000},
    "characters": {"ngram_range": (3, 4), "analyzer": "char_wb", "max_features": 20_000},
}
SINGULAR_VECTORS = 100
TABLE, TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"


def as_texts(column: Any) -> list[str]:
    """Return a column as strings, empty where a value is missing."""
    return ["" if lost else str(value) for value, lost in zip(column, column.isna(), strict=True)]


def fit_tfidf(texts: Sequence[str], *, lsa: bool = False) -> dict[str, Any]:
    """Return the terms of each part and their inverse document frequencies; and singular vectors if ``lsa``.

    A term must occur in two texts, unless none does.
    """
    state: dict[str, Any] = {}
    for part in PARTS:
        try:
            fitted = _vectorizer(part, min_df=2).fit(texts)
        except ValueError:  # no term is left
            fitted = _vectorizer(part, min_df=1).fit(texts)
        state[part] = fitted.get_feature_names_out()
        state[f"{part}_idf"] = fitted.idf_.astype(np.float64)
    if lsa:
        X = tfidf(texts, state)
        svd = TruncatedSVD(max(1, min(SINGULAR_VECTORS, *(size - 1 for size in X.shape))), random_state=0).fit(X)
        state["components"] = svd.components_.astype(np.float32)
    return state


def tfidf(texts: Sequence[str], state: dict[str, Any]) -> Any:
    """Return what :func:`fit_tfidf` learned to make of texts: a CSR matrix or, with singular vectors, an array.

    ::

        (1 + log count) (1 + log (1 + n) / (1 + n_texts_with_the_term)),    each part with norm sqrt(1/2)

    Singular vectors are multiplied by the root of their number, so that their entries are about as large as
    standardized numbers.
    """
    parts = []
    for part in PARTS:
        vectorizer = _vectorizer(part, vocabulary=state[part])
        vectorizer.idf_ = state[f"{part}_idf"]
        parts.append(vectorizer.transform(texts) * np.sqrt(1 / len(PARTS)))
    X = sparse.csr_array(sparse.hstack(parts, format="csr"))
    V = state.get("components")
    return X if V is None else X @ V.T.astype(np.float64) * np.sqrt(len(V))


def _vectorizer(part: str, **options: Any) -> TfidfVectorizer:
    return TfidfVectorizer(sublinear_tf=True, **(PARTS[part] | options))


def tfidf_names(state: dict[str, Any]) -> list[str]:
    """Return a name for each column of :func:`tfidf`; n-grams of characters are in quotes."""
    if "components" in state:
        return [str(k) for k in range(len(state["components"]))]
    return [*state["words"].tolist(), *map(repr, state["characters"].tolist())]


def check_tfidf(state: Any) -> None:
    """Refuse a state that :func:`fit_tfidf` cannot have returned."""
    arrays = {name for part in PARTS for name in (part, f"{part}_idf")}
    if not isinstance(state, dict) or not arrays <= state.keys() <= {*arrays, "components"}:
        raise ValueError("the terms of a text must be those of words and characters, with their frequencies")
    for part in PARTS:
        terms, idf = state[part], state[f"{part}_idf"]
        if not isinstance(terms, np.ndarray) or len(set(terms.tolist())) != len(terms) or not len(terms):
            raise ValueError("the terms of a text must be different strings")
        if getattr(idf, "shape", None) != terms.shape or idf.dtype != np.float64 or not np.isfinite(idf).all():
            raise ValueError("each term of a text must have a finite inverse document frequency")
    V = state.get("components", np.zeros((1, sum(len(state[part]) for part in PARTS)), dtype=np.float32))
    if V.ndim != 2 or V.shape[1] != sum(len(state[part]) for part in PARTS) or not np.isfinite(V).all():
        raise ValueError("the singular vectors of a text must have a finite entry for each term")


# Static embeddings ----------------------------------------------------------------------------------------------------


def load_embedding() -> dict[str, Any]:
    """Return the vectors of the tokens and the tokenizer, as bytes of JSON, from the files of the package WordLlama.

    The package itself is not imported: its own loader would look for the tokenizer on the network.
    """
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("text as wordllama needs WordLlama: pip install 'unflip[text]'")
    from safetensors.numpy import load_file

    folder = Path(next(iter(found.submodule_search_locations)))
    (table,) = load_file(folder / TABLE).values()
    return {"table": table, "tokenizer": np.frombuffer((folder / TOKENIZER).read_bytes(), dtype=np.uint8)}


def embedded(texts: Sequence[str], embedding: dict[str, Any]) -> FloatArray:
    """Return the mean vector of the tokens of each text, shape (n, 256), with norm 16; zero for an empty text.

    So the entries are about as large as standardized numbers.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("text as wordllama needs a tokenizer: pip install 'unflip[text]'") from error
    tokenizer, table = Tokenizer.from_str(bytes(embedding["tokenizer"]).decode()), embedding["table"]
    tokenizer.no_padding()
    ids = [encoding.ids for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    ends = np.cumsum([0, *map(len, ids)])
    tokens = np.concatenate([*ids, []]).astype(np.int64)
    counts = sparse.csr_array((np.ones(len(tokens)), tokens, ends), shape=(len(ids), len(table)))
    counts.check_format(full_check=True)  # the tokenizer of an edited file might name a token outside the table
    summed = counts @ table.astype(np.float64)
    return normalize(summed) * np.sqrt(table.shape[1]) if len(ids) else summed


def check_embedding(embedding: Any) -> None:
    """Refuse an embedding that :func:`load_embedding` cannot have returned."""
    if not isinstance(embedding, dict) or embedding.keys() != {"table", "tokenizer"}:
        raise ValueError("embedding_ must have a table and a tokenizer, and nothing else")
    table, tokenizer = embedding["table"], embedding["tokenizer"]
    if getattr(table, "ndim", 0) != 2 or table.dtype.kind != "f" or not np.isfinite(table).all():
        raise ValueError("the table of embedding_ must be a matrix of finite numbers")
    if getattr(tokenizer, "dtype", None) != np.uint8:
        raise ValueError("the tokenizer of embedding_ must be JSON as bytes")
