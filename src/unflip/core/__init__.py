"""The mathematics of loss decomposition and centroid estimation: pure functions on arrays.

:mod:`unflip.core.ldce` has the path in order, and ``docs/theory.md`` tells the story. ``ClassSums`` is all that a
linear model needs to know about the data; ``clean_posterior`` goes back from a fitted model to the single label.
"""

from unflip.core.ldce import (
    DecomposedRisk,
    clean_centroid,
    clean_prior,
    corrected_labels,
    decomposed_risk,
    imputation_matrix,
    linear_risk,
    mixing_matrix,
    project_to_simplex,
)
from unflip.core.posterior import clean_posterior, inverted_posterior
from unflip.core.sums import ClassSums

__all__ = [
    "ClassSums",
    "DecomposedRisk",
    "clean_centroid",
    "clean_posterior",
    "clean_prior",
    "corrected_labels",
    "decomposed_risk",
    "imputation_matrix",
    "inverted_posterior",
    "linear_risk",
    "mixing_matrix",
    "project_to_simplex",
]
