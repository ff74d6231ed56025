"""A page that contradicts itself is refused."""

import re

import numpy as np
import pytest

pytest.importorskip("jinja2")
from tests.page.conftest import make
from unflip.page import ComparedClassifier, Suspect, write_page


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ("cat", "dog", "cat")}, "every class needs a name of its own"),
        ({"classes": ("cat", "dog", 3)}, "classes must be text; got 3"),
        ({"transition": np.eye(2)}, "2 x 2 but there are 3 classes"),
        ({"transition": np.eye(3) * 0.5}, "sums to 0.5"),
        ({"noisy_counts": [1, 2]}, "noisy_counts must be one number >= 0 for each of the 3 classes"),
        ({"clean_counts": [1, 2, np.nan]}, "clean_counts must be one number"),
        ({"clean_counts": [0, 0, 0]}, "clean_counts is zero for every class"),
        ({"noise_rates": [0.1, 0.2, 30]}, "must be fractions"),
        ({"n_suspects_total": 1}, "2 suspects are listed, n_suspects_total=1"),
        ({"n_samples": 3}, "n_suspects_total=7 and n_samples=3"),
        (
            {"classifiers": [ComparedClassifier("A", 0.9, 0.1, 0.8)]},
            "the estimate of 'A', 0.9, must be inside its interval",
        ),
        ({"classifiers": [ComparedClassifier("A", float("nan"), 0.1, 0.8)]}, "of 'A' must be finite"),
        ({"classifiers": [ComparedClassifier("A", 0.5, 0.1, 0.8, float("nan"))]}, "of 'A' must be finite"),
        ({"curves": {"loss": []}}, "curve 'loss' must be a list with at least one finite number"),
        ({"suspects": [Suspect(7, "cat", "dog", 0.5)]}, "7 must be text; write '7'"),
        ({"suspects": [Suspect("7", "cat", "cow", 0.5)]}, "suspect '7' has the label 'cow', which is not one"),
        ({"suspects": [Suspect("7", "cat", "dog", float("nan"))]}, "probability nan"),
        ({"suspects": [Suspect("7", "cat", "dog", 0.5, b"GIF89a")]}, "is not a PNG; it begins b'GIF89a'"),
        ({"suspects": [Suspect("\udcff.png", "cat", "dog", 0.5)]}, "is not valid text; rename it"),
        ({"suspects": [Suspect("7", "cat", "dog", 0.5, cells=["1"])]}, "has 1 cells, but the page has 0 columns"),
        ({"suspects": [Suspect("7", "cat", "dog", 0.5, first=[0])]}, "names columns [0] of 0"),
        ({"suspects": [Suspect("7", "cat", "dog", 0.5, alike=[2])]}, "names examples [2] of 0"),
        ({"title": "\udcff"}, "not a character; decode it as text"),
    ],
)
def test_a_page_that_contradicts_itself_is_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        write_page(make(**changes), tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
