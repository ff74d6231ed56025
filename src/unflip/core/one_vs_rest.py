"""Class-conditional noise among c classes, seen from the c binary problems of class k against the rest."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unflip._validation import FloatArray


class BinaryRates(NamedTuple):
    """Noise rates of the c binary problems, each of shape (n_classes,)."""

    lost: FloatArray  # rho+ = P(noisy != k | clean = k)
    gained: FloatArray  # rho- = P(noisy = k | clean != k)


def binary_rates(T: FloatArray, prior: FloatArray) -> BinaryRates:
    """Return the rates at which class k loses labels to the rest and gains labels from it.

    ::

        rho+_k = 1 - T_kk
        rho-_k = (noisy_prior_k - T_kk prior_k) / (1 - prior_k)

    T, shape (n_classes, n_classes), and the clean class prior, shape (n_classes,), must have been checked.

    The rest is a mixture, so the second rate depends on the prior. Within the rest the noise depends on the class, and
    hence on x: the binary problem has class-conditional noise only if all T_ik with i != k are equal, as in symmetric
    noise. Otherwise every correction by these two rates is an approximation, which M = T does not need.
    """
    stay = np.diag(T)
    others = prior @ T - stay * prior
    rest = 1 - prior
    # If there is only one class, the others share a weight of zero: they count equally.
    equally = (T.sum(axis=0) - stay) / (len(T) - 1)
    gained = np.divide(others, rest, out=equally, where=rest > 0)
    return BinaryRates(1 - stay, np.clip(gained, 0, 1))


def binary_labels(T: FloatArray, prior: FloatArray, classes: ArrayLike | None = None) -> FloatArray:
    """Return G, where G[j, k] replaces the label +1 (class k) or -1 (the rest) of a sample with noisy label j.

    ::

        G[j, k] = (s - (rho-_k - rho+_k)) / (1 - rho+_k - rho-_k),    s = +1 if j = k else -1

    so that E[G[noisy, k] | clean] = +1 for class k and -1 for the rest, under the rates of :func:`binary_rates`. This
    is the unbiased label of Natarajan et al. (2013, Lemma 1) for every loss whose odd part is linear, and the edge of
    Patrini et al. (2016). ``classes`` are names for the error message.
    """
    rates = binary_rates(T, prior)
    check_informative(rates, classes)
    sign = 2 * np.eye(len(T)) - 1
    return (sign - (rates.gained - rates.lost)) / (1 - rates.lost - rates.gained)


def check_informative(rates: BinaryRates, classes: ArrayLike | None = None) -> None:
    """Refuse a class whose label is as frequent in the class as in the rest: nothing can be learned from it."""
    left = np.abs(1 - rates.lost - rates.gained)
    k = int(left.argmin())
    if left[k] < 1e-6:
        name = k if classes is None else np.asarray(classes)[k]
        raise ValueError(
            f"class {name} against the rest keeps no information: it loses its label at rate {rates.lost[k]:.3f} and "
            f"others gain it at rate {rates.gained[k]:.3f}, which add up to 1. Use MCLDCEClassifier, which corrects "
            "all classes at once"
        )
