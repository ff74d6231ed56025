import numpy as np
import pytest
from scipy import sparse

from unflip.audit.rules import rule_note


def words(n=600, terms=300, seed=0):
    random = np.random.default_rng(seed)
    return sparse.csr_array((random.random((n, terms)) < 0.05).astype(float))


@pytest.mark.parametrize("by_rule", [True, False])
def test_labels_by_a_keyword_are_noticed(by_rule):
    X = words()
    dense, random = X.toarray(), np.random.default_rng(1)
    few, many = dense[:, :5].sum(axis=1) > 0, dense @ random.normal(size=300) > 0
    y = (few if by_rule else many).astype(int)
    note = rule_note(X, y, np.eye(2)[y])
    assert (note is not None) == by_rule
    assert note is None or "rules" in note


def test_without_words_nothing_is_said():
    y = np.arange(600) % 2
    assert rule_note(np.eye(600), y, np.eye(2)[y]) is None
    assert rule_note(-words(), y, np.eye(2)[y]) is None
    assert rule_note(words(), y, np.full((600, 2), 0.5)) is None
