"""estimate_transition: one call for every estimator."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from unflip import registry
from unflip.transition import AnchorPoints, DualT, VolMin, estimate_transition

X, y = load_iris(return_X_y=True)


@pytest.mark.parametrize(("method", "estimator"), [("volmin", VolMin), ("anchor", AnchorPoints), ("dual-t", DualT)])
def test_names(method, estimator):
    np.testing.assert_array_equal(estimate_transition(X, y, method), estimator().fit(X, y).transition_)


def test_estimator_object_and_parameters():
    given = VolMin()
    T = estimate_transition(X, y, given, alpha=0.1, classes=[0, 1, 2, 3])
    assert T.shape == (4, 4)
    assert given.alpha != 0.1, "the estimator given is cloned"


def test_weights():
    weights = np.arange(150) % 3 + 0.5
    T = estimate_transition(X, y, sample_weight=weights, guard=False)
    np.testing.assert_array_equal(T, VolMin(guard=False).fit(X, y, sample_weight=weights).transition_)
    assert not np.array_equal(T, estimate_transition(X, y, guard=False))


def test_an_estimator_that_takes_no_weights_is_named():
    class Unweighted(BaseEstimator):
        def fit(self, X, y):
            self.transition_ = np.eye(3)
            return self

    np.testing.assert_array_equal(estimate_transition(X, y, Unweighted()), np.eye(3))
    with pytest.raises(ValueError, match="Unweighted takes no sample_weight"):
        estimate_transition(X, y, Unweighted(), sample_weight=np.ones(150))


@pytest.mark.parametrize("method", ["volmn", VolMin, 3])
def test_unknown_method(method):
    with pytest.raises(ValueError, match="volmin, stacked-em, ridge-em, anchor, dual-t"):
        estimate_transition(X, y, method)


def test_estimator_without_transition():
    with pytest.raises(ValueError, match="transition_ after fit"):
        estimate_transition(X, y, LogisticRegression(max_iter=1000))


def test_the_docstring_names_every_registered_estimator():
    for entry in registry.ENTRIES:
        if entry.family == "transition":
            assert f'"{entry.name}"' in estimate_transition.__doc__
            assert f":class:`{entry.cls}`" in estimate_transition.__doc__


def test_frames_with_text_and_missing_labels():
    pytest.importorskip("pandas", reason="unflip[data] is not installed")
    from tests.tables.test_text import sentences

    frame, y = sentences(200)
    labels = np.where(np.arange(200) < 180, y.astype(object), None)
    with pytest.warns(UserWarning, match="20 of 200 rows have no label"):
        T = estimate_transition(frame, labels)
    np.testing.assert_array_equal(T, estimate_transition(frame[:180], y[:180]))
    np.testing.assert_array_equal(
        estimate_transition(frame[["age"]], y), estimate_transition(frame[["age"]].to_numpy(), y)
    )
