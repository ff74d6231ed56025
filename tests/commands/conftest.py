"""A table with noisy labels, what was fitted to it, and a folder of images."""

import numpy as np
import pytest

from tests import quick_corrected
from unflip.commands import audit_table, fit_table
from unflip.noise import corrupt, pairflip
from unflip.tables import Table

NAMES = np.array(["<script>", "cat", "dog"])
T = pairflip(3, 0.3)


def make_frame(n=300, seed=0):
    """Three clusters, a town that tells of one, missing numbers, columns of no use; and the clean labels."""
    pd, _ = map(pytest.importorskip, ("pandas", "safetensors"))
    random = np.random.default_rng(seed)
    y = random.integers(3, size=n)
    frame = pd.DataFrame(random.normal(size=(n, 4)) + 4 * np.eye(3, 4)[y], columns=list("abcd"))
    frame.loc[::17, "a"] = np.nan
    frame["town"] = np.where(y == 1, "Ulm", "Bonn")
    frame["id"] = range(n)
    frame["note"] = [f"note {i}" for i in range(n)]
    frame["kind"] = NAMES[corrupt(y, T, random_state=seed)]
    return frame, NAMES[y]


def table_of(frame, label="kind", weights=None):
    X = frame.drop(columns=[label])
    return Table(X, np.array(frame[label].tolist()), weights, np.arange(len(X)), label, tuple(NAMES))


@pytest.fixture
def quick(monkeypatch):
    """The default model without its search, which takes seconds."""
    quick_corrected.register(monkeypatch)


@pytest.fixture(scope="module")
def table():
    return table_of(make_frame()[0])


@pytest.fixture(scope="module")
def fitted(table):
    return fit_table(table, model="mcldce", random_state=0)


@pytest.fixture(scope="module")
def errors(table):
    return audit_table(table, network="linear", folds=3, random_state=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Noughts and ones of the digits as PNG files, a tenth of them in the wrong folder."""
    pytest.importorskip("PIL")
    pytest.importorskip("jinja2")
    from sklearn.datasets import load_digits

    from unflip.page.thumbnails import thumbnail

    top = tmp_path_factory.mktemp("digits")
    X, y = load_digits(n_class=2, return_X_y=True)
    for i in range(80):
        place = top / NAMES[y[i] if i % 10 else 1 - y[i]]
        place.mkdir(exist_ok=True)
        (place / f"{i}.png").write_bytes(thumbnail(X[i].reshape(1, 8, 8), 0, 16))
    return top
