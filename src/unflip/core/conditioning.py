"""The last step of every estimator: a matrix whose inverse can be used."""

import numpy as np

from unflip._validation import FloatArray

LARGEST_CONDITION = 100.0  # T^-1 multiplies sampling noise by up to this; symmetric 0.6 has 3, pairflip 0.45 has 10


def well_conditioned(T: FloatArray, limit: float = LARGEST_CONDITION) -> FloatArray:
    """Return T, or the mixture of T with the identity that is nearest to T and not worse conditioned than ``limit``::

        (1 - t) T + t I,    t in [0, 1] as small as can be (to 1 %)

    The identity says "the labels are what they are": with too little data that is the safe answer.
    """
    I = np.eye(len(T))
    T = np.maximum(T, 0)
    T = T / T.sum(axis=1, keepdims=True)
    for t in np.linspace(0, 1, 101):
        mixed = (1 - t) * T + t * I
        if np.linalg.cond(mixed) <= limit:
            return mixed
    return I
