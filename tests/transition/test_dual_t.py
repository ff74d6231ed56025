"""DualT: its second factor. What it shares with AnchorPoints is tested there."""

import numpy as np

from unflip.transition.dual_t import noisy_given_predicted


def test_the_second_factor_counts_labels_of_each_predicted_class():
    proba = np.array([[0.9, 0.1, 0], [0.8, 0.2, 0], [0.1, 0.9, 0], [0.6, 0.4, 0]])
    T_spade = noisy_given_predicted(proba, np.array([0, 1, 1, 0]), np.array([1.0, 1.0, 1.0, 2.0]))
    np.testing.assert_allclose(T_spade, [[0.75, 0.25, 0], [0, 1, 0], [0, 0, 1]])
