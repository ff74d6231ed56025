"""What every classifier shares: the matrix T that it is given, and prediction from linear scores."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from unflip.linear import MCLDCEClassifier
from unflip.noise import corrupt, pairflip

T3 = pairflip(3, 0.3)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(3, 5))[y] * 2 + rng.normal(1, 1, size=(300, 5))
    return X, y, corrupt(y, T3, random_state=0)


def test_a_classifier_is_no_estimator_of_T(problem):
    X, _, noisy = problem
    with pytest.raises(ValueError, match=r"RidgeClassifier does not\. AnchorPoints"):
        MCLDCEClassifier(RidgeClassifier()).fit(X, noisy)


def test_predicts_in_blocks_where_classes_are_many(problem, monkeypatch):
    X, y = problem[:2]
    model = MCLDCEClassifier(T3).fit(X, y)
    whole = model.predict(X)
    monkeypatch.setattr("unflip._base.SCORES", 7 * len(model.classes_))
    np.testing.assert_array_equal(model.predict(X), whole)
