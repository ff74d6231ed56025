"""Cross-entropy on the noisy labels: the baseline of every comparison."""

from unflip.deep.losses import cross_entropy
from unflip.deep.methods._base import Method


class CrossEntropy(Method):
    """Cross-entropy on the noisy labels, as if they were clean: T and the prior are not used."""

    name = "ce"
    loss = staticmethod(cross_entropy)
