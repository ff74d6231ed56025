"""What LICS and CEGE share: a penalised squared loss on a centroid of labels +1 and -1, class k against the rest."""

from typing import Any

from unflip._validation import FloatArray
from unflip.core import project_to_simplex
from unflip.linear._with_transition import OneVsRestCorrection


class BinaryCentroid(OneVsRestCorrection):
    """Scores z_k = w_k.x + b_k that estimate P(class k | x) - P(rest | x)."""

    def predict_proba(self, X: Any) -> FloatArray:
        """Return P(clean class | x), shape (n_samples, n_classes): (1 + scores) / 2, projected to the simplex.

        Squared-loss scores estimate these probabilities, but roughly at the edges; ``CalibratedClassifierCV`` refines
        them (against the noisy labels it is given).
        """
        return project_to_simplex((1 + self._scores(X)) / 2)
