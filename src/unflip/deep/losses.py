"""Losses for noisy labels as modules: logits and noisy labels in, one number out. A training loop needs nothing else.

Shapes: ``logits`` (b, c) float, ``y`` (b,) int64 class codes. ``reduction="none"`` gives the loss of each sample, shape
(b,), to which a training loop can apply its own weights.
"""

from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from unflip._validation import check_transition
from unflip.core import corrected_labels, mixing_matrix
from unflip.core.ldce import Operator

Reduction = Literal["mean", "sum", "none"]
Output = Literal["softmax", "raw"]
Metric = Literal["clean", "noisy"]

NEVER = -1e30  # the logarithm of T[i, j] = 0, finite so that a saved model has only numbers
_IGNORE_NO_LABEL = torch.iinfo(torch.int64).min  # F.cross_entropy's own default silently ignores the label -100


class NoisyLabelLoss(nn.Module):
    """Shared checks and reduction; a subclass defines ``sample_losses(logits, y)``, shape (b,)."""

    shown: ClassVar[tuple[str, ...]] = ()  # the settings that repr names

    def __init__(self, reduction: Reduction = "mean", n_classes: int | None = None) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none'; got {reduction!r}")
        self.reduction = reduction
        self.n_classes = n_classes

    def sample_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each sample, shape (b,)."""
        raise NotImplementedError

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the reduced loss of ``logits`` (b, c) for the noisy labels ``y`` (b,)."""
        if logits.ndim != 2 or y.shape != logits.shape[:1]:
            got = f"got {tuple(logits.shape)} and {tuple(y.shape)}"
            raise ValueError(f"one row of logits and one label per sample are needed, shapes (b, c) and (b,); {got}")
        if self.n_classes is not None and logits.shape[1] != self.n_classes:
            raise ValueError(f"transition has {self.n_classes} classes, but logits have {logits.shape[1]} columns")
        try:
            losses = self.sample_losses(logits, y)
        except (IndexError, RuntimeError, TypeError):
            # Only now, because looking at the labels would make a GPU wait in every step.
            _check_labels(y, logits.shape[1])
            raise
        return losses if self.reduction == "none" else getattr(losses, self.reduction)()

    def extra_repr(self) -> str:
        names = self.shown if self.reduction == "mean" else (*self.shown, "reduction")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


class MCLDCELoss(NoisyLabelLoss):
    """The decomposed squared loss with the corrected label term, for a mini-batch; the paper's Eq. (final_loss).

    ::

        metric="noisy"    loss = 1 + |M'h|^2 - 2 <e_y, M'h>   = |M'h - e_y|^2
        metric="clean"    loss = 1 + |h|^2  - 2 <t, h>        t = row y of M^+
        h = softmax(logits) or the raw logits

    Only the last part reads the label. With M = T, the mean of the second form over the noise is the squared loss
    |h - e_clean|^2 of the clean label, and it equals the backward correction of the squared loss,
    sum_j (T^-1)[y, j] |h - e_j|^2.

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    operator : {"exact", "published"}, default="exact"
        M = T, or the paper's M (:func:`unflip.core.mixing_matrix`).
    output : {"softmax", "raw"}, default="softmax"
        What h is. The paper derives the loss for raw linear scores and does not say which its networks used. Raw scores
        can interpolate the corrected labels, so that a large network memorizes the noise; the softmax is bounded.
    metric : {"noisy", "clean"} or None, default=None
        The space in which the error of h is squared: |M'(h - t)|^2, or |h - t|^2 as in the paper. If None, "noisy" is
        used for the exact operator and "clean" for the published one. See Notes.
    prior : array-like of shape (n_classes,), default=None
        The clean class prior, which only the published operator reads. If None, it is uniform.
    reduction : {"mean", "sum", "none"}, default="mean"

    Notes
    -----
    With the clean metric the loss is bounded below by 1 - |t|^2, which is negative: a negative value is not an error.

    The decomposition holds for the squared error in any metric W, h'W h - 2 <W t, h>, and for M = T every W has the
    same minimum over all functions, the clean posterior. W decides what the noise costs: the variance of the label
    term is that of W t. With W = I the labels are multiplied by T^-1, whose largest singular value is 5 for pair noise
    of 40 % and 10 classes; with W = M M' ("noisy") nothing is inverted. For symmetric noise and the softmax both are
    the same loss up to a factor and a constant, since M M' = a I + b J and the entries of h sum to 1.

    Examples
    --------
    >>> logits, y = torch.tensor([[4.0, 0.0]]), torch.tensor([0])
    >>> T = [[0.8, 0.2], [0.2, 0.8]]
    >>> round(MCLDCELoss(T)(logits, y).item(), 3), round(MCLDCELoss(T, metric="clean")(logits, y).item(), 3)
    (0.089, -0.642)
    """

    shown = ("n_classes", "operator", "output", "metric")
    mixing: Tensor | None  # M of the noisy metric, (c, c)
    rows: Tensor  # row y stands for the label y, (c, c): M^+ for the clean metric, the identity for the noisy one

    def __init__(
        self,
        transition: ArrayLike,
        operator: Operator = "exact",
        output: Output = "softmax",
        metric: Metric | None = None,
        *,
        prior: ArrayLike | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        M = mixing_matrix(transition, prior, operator)
        super().__init__(reduction, len(M))
        if output not in ("softmax", "raw"):
            raise ValueError(f"output must be 'softmax' or 'raw' (the logits themselves); got {output!r}")
        if metric not in ("noisy", "clean", None):
            raise ValueError(f"metric must be 'noisy', |M'(h - t)|^2, 'clean', |h - t|^2, or None; got {metric!r}")
        self.operator = operator
        self.output = output
        self.metric: Metric = metric or ("noisy" if operator == "exact" else "clean")
        noisy = self.metric == "noisy"
        self.register_buffer("mixing", _buffer(M) if noisy else None)
        self.register_buffer("rows", _buffer(np.eye(len(M)) if noisy else np.linalg.pinv(M)))

    def sample_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        h = logits.softmax(1) if self.output == "softmax" else logits
        h = h if self.mixing is None else h @ self.mixing
        t = self.rows.index_select(0, y)
        return (h * h.sub(t, alpha=2)).sum(1) + 1  # |h|^2 - 2 <t, h> = <h, h - 2 t>


class ProperLoss(NoisyLabelLoss):
    """A proper score of the noisy label under T'h: one family, from forward correction to MC-LDCE in the noisy metric.

    ::

        u = T'h,  h = softmax(logits),  b = power
        loss = sum_j u_j^(1 + b)  -  (1 + 1/b) u_y^b  +  1/b

        b = 1    |u|^2 - 2 u_y + 1 = |u - e_y|^2    MCLDCELoss(T, metric="noisy")
        b -> 0   -log u_y                           ForwardLoss(T)

    As in the paper's decomposition, only one part reads the label, and it is linear in e_y: noise changes nothing but
    the mean of that part. For every b > 0 and b -> 0 the mean over the noisy labels is smallest where u is their
    posterior, so h is the clean one if T is invertible. A label that u finds unlikely pulls on the network with the
    force u_y^b: the logarithm listens to it in full, the square hardly.

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    power : float in [0, 1], default=0.5
        b. With 0 it is the limit, forward correction.
    reduction : {"mean", "sum", "none"}, default="mean"

    Notes
    -----
    :class:`GCELoss` has the label's part alone, (1 - p_y^q) / q. Without the first part the score is not proper: its
    minimum is p ~ r^(1/(1 - q)) for a noisy posterior r, which is sharper than r, and this is what makes it withstand
    symmetric noise without T, and fail when one-sided noise makes the wrong class as likely as the right one.

    References
    ----------
    Basu, Harris, Hjort and Jones, Robust and Efficient Estimation by Minimising a Density Power Divergence, Biometrika
    1998; the scores are those of Tsallis' entropies.

    Examples
    --------
    >>> logits, y, T = torch.tensor([[4.0, 0.0]]), torch.tensor([0]), [[0.8, 0.2], [0.2, 0.8]]
    >>> [round(ProperLoss(T, power)(logits, y).item(), 3) for power in (0, 0.5, 1)]
    [0.237, 0.133, 0.089]
    """

    shown = ("n_classes", "power")
    mixing: Tensor  # T, (c, c)
    log_columns: Tensor  # row j is log T[:, j], (c, c)

    def __init__(self, transition: ArrayLike, power: float = 0.5, reduction: Reduction = "mean") -> None:
        T = check_transition(transition, invertible=False)
        super().__init__(reduction, len(T))
        if not 0 <= power <= 1:
            raise ValueError(f"power must lie between 0 (logarithmic) and 1 (squared); got {power!r}")
        self.power = power
        self.register_buffer("mixing", _buffer(T))
        self.register_buffer("log_columns", _log_columns(T))

    def sample_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        losses = forward_losses(logits, y, self.log_columns)  # -log u_y
        if not self.power:
            return losses
        b = self.power
        # expm1 keeps small b exact: -(1 + 1/b) u^b + 1/b = -(1 + 1/b) (u^b - 1) - 1.
        label = losses.mul(-b).expm1().mul(-(1 + 1 / b))
        return (logits.softmax(1) @ self.mixing).pow(1 + b).sum(1) + label - 1


class GCELoss(NoisyLabelLoss):
    """Generalized cross-entropy, between cross-entropy (q -> 0) and the mean absolute error (q = 1).

    ::

        L_q = (1 - p_y^q) / q,    p = softmax(logits)

    Parameters
    ----------
    q : float in [0, 1], default=0.7
        0 gives cross-entropy itself; 1 gives 1 - p_y, half of :class:`MAELoss`.
    reduction : {"mean", "sum", "none"}, default="mean"

    References
    ----------
    Zhang and Sabuncu, Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels, NeurIPS 2018.

    Examples
    --------
    >>> round(GCELoss(q=1)(torch.tensor([[0.0, 0.0]]), torch.tensor([1])).item(), 3)
    0.5
    """

    shown: ClassVar[tuple[str, ...]] = ("q",)

    def __init__(self, q: float = 0.7, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        if not 0 <= q <= 1:
            raise ValueError(f"q must lie between 0 (cross-entropy) and 1 (mean absolute error); got {q!r}")
        self.q = q

    def sample_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        losses = cross_entropy(logits, y)
        # p^q = exp(-q CE). expm1 keeps small q exact, and nothing is divided by a small p.
        return losses.mul(-self.q).expm1().mul(-1 / self.q) if self.q else losses


class TruncatedGCELoss(GCELoss):
    """Generalized cross-entropy that is flat where the network finds the label unlikely.

    ::

        loss = L_q(k)  where p_y <= k,    L_q(p_y)  elsewhere;    L_q(p) = (1 - p^q) / q

    Parameters
    ----------
    q, reduction
        As in :class:`GCELoss`.
    k : float in (0, 1), default=0.5
        The probability below which a label is assumed to be wrong and has no gradient.

    Notes
    -----
    An untrained network gives every label a probability near 1 / n_classes, below k, so it would never learn. Train
    with :class:`GCELoss` first (40 epochs in the paper).

    The paper prunes outside the loss: it minimizes the sum of w_i (L_q(p_i) - L_q(k)), w_i = 1 where p_i > k, and
    refreshes w every ten epochs with the best network so far. That objective is this one minus the constant L_q(k) (and
    therefore negative), with the w of an earlier network; here w is that of the network itself. The known public code
    chooses the best network on the test set.

    References
    ----------
    Zhang and Sabuncu, NeurIPS 2018, section 3.3.
    """

    shown = ("q", "k")

    def __init__(self, q: float = 0.7, k: float = 0.5, reduction: Reduction = "mean") -> None:
        super().__init__(q, reduction)
        if not 0 < k < 1:
            raise ValueError(f"k must be a probability between 0 and 1, both excluded; got {k!r}")
        self.k = k
        self.largest = -float(np.log(k)) if q == 0 else (1 - k**q) / q  # L_q(k)

    def sample_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        return super().sample_losses(logits, y).clamp(max=self.largest)  # L_q falls in p


class ForwardLoss(NoisyLabelLoss):
    """Forward correction: the cross-entropy of the noisy label under the network's clean probabilities times T.

    ::

        loss = -log (softmax(logits) T)[y] = -log sum_i p_i T[i, y]

    Its minimum over all functions is the clean posterior, for every invertible T.

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i).
    reduction : {"mean", "sum", "none"}, default="mean"
    trust : float in (0, 1], default=1
        How far the labels are trusted. Below one, T is replaced by a T with more noise of the same kind::

            T[i, j]^trust / sum_k T[i, k]^trust

    Notes
    -----
    *Trust.* The gradient with respect to the logits is p - r, where r is the posterior of the clean class given the
    label, r_i ~ p_i T[i, y]. T says how strong the evidence of a label is for a network that has not seen it. A network
    that has trained on the label for many epochs has seen it, and p already leans towards it. Counting the label in
    full every time counts it more than once, and the noise is memorized. Less trust weakens each pull: it does not
    prevent memorization, but delays it beyond the end of the training. Where T is zero, a flip stays impossible.

    References
    ----------
    Patrini, Rozza, Menon, Nock and Qu, Making Deep Neural Networks Robust to Label Noise, CVPR 2017, theorem 2.

    Miller and Dunson, Robust Bayesian Inference via Coarsening, JASA 2019, for powers of a likelihood.

    Examples
    --------
    >>> logits, y = torch.tensor([[0.0, 2.0]]), torch.tensor([0])
    >>> T = [[0.8, 0.2], [0.2, 0.8]]
    >>> round(ForwardLoss(T)(logits, y).item(), 3), round(ForwardLoss(T, trust=0.5)(logits, y).item(), 3)
    (1.304, 0.986)
    """

    shown = ("n_classes", "trust")
    log_columns: Tensor  # row j is log T[:, j], (c, c)

    def __init__(self, transition: ArrayLike, reduction: Reduction = "mean", *, trust: float = 1) -> None:
        T = check_transition(transition, invertible=False)
        super().__init__(reduction, len(T))
        if not 0 < trust <= 1:
            raise ValueError(f"trust must be above 0 and at most 1 (forward correction as published); got {trust!r}")
        self.trust = trust
        T = T**trust
        self.register_buffer("log_columns", _log_columns(T / T.sum(axis=1, keepdims=True)))

    def sample_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        return forward_losses(logits, y, self.log_columns)


class BackwardLoss(NoisyLabelLoss):
    """Backward correction: cross-entropy with the label replaced by the row of T^-1 that is unbiased for the clean one.

    ::

        loss = sum_j (T^-1)[y, j] (-log p_j),    p = softmax(logits);    E[loss | clean] = -log p_clean

    The parameters are those of :class:`MCLDCELoss`. Unbiased, but unbounded below: T^-1 has negative entries, and a
    network that makes p_j small there lowers the loss without limit. Small networks, early stopping or
    :class:`MCLDCELoss`, which is bounded, avoid that.

    References
    ----------
    Patrini et al., CVPR 2017, theorem 1.
    """

    shown = ("n_classes",)
    rows: Tensor  # T^-1, (c, c)

    def __init__(self, transition: ArrayLike, reduction: Reduction = "mean") -> None:
        rows = corrected_labels(transition)
        super().__init__(reduction, len(rows))
        self.register_buffer("rows", _buffer(rows))

    def sample_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        return -(self.rows.index_select(0, y) * logits.log_softmax(1)).sum(1)


class UnhingedLoss(NoisyLabelLoss):
    """The hinge loss without its hinge, linear in the scores.

    ::

        loss = 1 - (z_y - mean of the other z),    z = logits

    For two classes this is 1 - margin. Over all labels of a sample it sums to the constant c, so symmetric noise only
    scales it and leaves its minimum in place. It is unbounded below: the scores need a bound, such as weight decay or a
    normalized last layer. Its only parameter is ``reduction``.

    References
    ----------
    van Rooyen, Menon and Williamson, Learning with Symmetric Label Noise: The Importance of Being Unhinged, NIPS 2015.
    """

    def sample_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        c, z_y = logits.shape[1], logits.gather(1, y.unsqueeze(1)).squeeze(1)
        # z_y - (sum z - z_y) / (c - 1) = (c z_y - sum z) / (c - 1)
        return 1 + (logits.sum(1) - c * z_y) / (c - 1)


class MAELoss(NoisyLabelLoss):
    """The mean absolute error between probabilities and the one-hot label; symmetric noise leaves its minimum in place.

    ::

        loss = sum_j |p_j - e_y[j]| = 2 (1 - p_y),    p = softmax(logits)

    Its only parameter is ``reduction``.

    References
    ----------
    Ghosh, Kumar and Sastry, Robust Loss Functions under Label Noise for Deep Neural Networks, AAAI 2017.
    """

    def sample_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(logits, y).neg().expm1().mul(-2)  # p_y = exp(-CE)


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return -log softmax(logits)[y] of each sample, shape (b,); no label is ignored."""
    return F.cross_entropy(logits, y, reduction="none", ignore_index=_IGNORE_NO_LABEL)


def forward_losses(logits: Tensor, y: Tensor, log_columns: Tensor) -> Tensor:
    """Return -log (softmax(logits) T)[y] of each sample, shape (b,), where row j of ``log_columns`` is log T[:, j]."""
    # In log space, because the product p T would underflow for a confident network.
    return -(logits.log_softmax(1) + log_columns.index_select(0, y)).logsumexp(1)


def _check_labels(y: Tensor, n_classes: int) -> None:
    if y.dtype != torch.int64:
        raise ValueError(f"y must be class codes of dtype torch.int64; got {y.dtype}: use y.long()")
    if y.numel() and not 0 <= int(y.min()) <= int(y.max()) < n_classes:
        raise ValueError(f"class codes must lie in 0 .. {n_classes - 1}; got {int(y.min())} .. {int(y.max())}")


def _log_columns(T: np.ndarray) -> Tensor:
    """Return log T transposed, for :func:`forward_losses`."""
    T = np.where(T.any(axis=0), T, 1)  # a label that T never produces is uninformative: a constant loss, not NaN
    with np.errstate(divide="ignore"):
        return _buffer(np.maximum(np.log(T), NEVER).T)


def _buffer(array: np.ndarray) -> Tensor:
    """Return the result of float64 algebra in torch's default precision; other logits promote as usual."""
    return torch.as_tensor(array, dtype=torch.get_default_dtype()).contiguous()
