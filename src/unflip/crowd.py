"""CROWD: several labels per row, from people or from rules: the consensus, and how good each annotator is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import digamma, expit, logit, softmax
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from unflip._validation import FloatArray, IntArray, check_labels, check_same_length

UNGIVEN = 0.1  # how much less likely a class is that none of a row's annotators gave, unless a classifier knows better
STRENGTH = (0.1, 1e3)  # limits of the learned strength of the prior, in labels
USUAL, CERTAINTY = 5.0, 10.0  # mode and shape of the gamma prior of the strength, for when few labels tell nothing
SPREAD = (0.01, 25.0)  # limits of the variance of the abilities, on the logit scale
RULE_STEPS = 2  # of EM from the majority vote for rules: they depend on each other, and more steps trust that
ONE_SIDED = 0.5  # share of labels from annotators with a single class from which on they are rules that abstain
FEWEST_SHARED = 20  # rows that two annotators must share for a test of their dependence
MOST_PAIRS = 5_000  # of annotators that are tested, those with the most rows in common
LARGEST = 2 * 10**8  # annotators x classes x classes, beyond which the confusion matrices would fill the memory
TINY = 1e-12


class Annotations(NamedTuple):
    """Labels in long form: ``codes[j]`` is what ``annotators[j]`` said about ``rows[j]``."""

    rows: IntArray
    annotators: IntArray
    codes: IntArray
    n_rows: int
    names: NDArray[Any]  # of the annotators
    classes: NDArray[Any]

    @property
    def counts(self) -> FloatArray:
        """How many annotators gave each class, shape (n_rows, n_classes)."""
        c = len(self.classes)
        flat = np.bincount(self.rows * c + self.codes, minlength=self.n_rows * c)
        return flat.reshape(self.n_rows, c).astype(np.float64)

    def take(self, rows: IntArray) -> "Annotations":
        """Return the labels of some rows, numbered in their order, and sorted by row, annotator and label."""
        place = np.full(self.n_rows, -1)
        place[rows] = np.arange(len(rows))
        order = np.lexsort([self.codes, self.annotators, place[self.rows]])
        order = order[place[self.rows[order]] >= 0]
        return self._replace(
            rows=place[self.rows[order]], annotators=self.annotators[order], codes=self.codes[order], n_rows=len(rows)
        )

    @property
    def by_column(self) -> sparse.csr_array:
        """How often each annotator gave each class, shape (n_rows, n_annotators * n_classes)."""
        c = len(self.classes)
        columns = self.annotators * c + self.codes
        return sparse.csr_array((np.ones(len(columns)), (self.rows, columns)), shape=(self.n_rows, len(self.names) * c))

    @property
    def majority(self) -> IntArray:
        """The code that most annotators gave each row; the first of those that are equally frequent."""
        return self.counts.argmax(axis=1)


class Fit(NamedTuple):
    """What :func:`fit_annotators` found."""

    posterior: FloatArray  # P(class | all labels of the row), (n_rows, n_classes)
    transitions: FloatArray  # (n_annotators, n_classes, n_outcomes); the last outcome of rules is to abstain
    pool: FloatArray  # T of all annotators together, (n_classes, n_classes)
    prior: FloatArray  # (n_classes,)
    strength: FloatArray  # labels that the prior of each row of an annotator's T counts for, (n_classes,)
    guesses: FloatArray  # the chance that an annotator of a row cannot see the class, (n_rows,)
    guessed: FloatArray  # and which label it is then, (n_classes, n_classes)
    n_iter: int
    ungiven: float  # how much less likely classes were that nobody gave


def is_matrix(y: Any) -> bool:
    """Return whether labels are those of several annotators: :class:`Annotations`, or a matrix with > 1 column."""
    if isinstance(y, Annotations):
        return True
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, Sequence) and len(y) and isinstance(y[0], list | tuple):
        shape = np.shape(np.array(y, dtype=object))
    return shape is not None and len(shape) == 2 and shape[1] > 1


def annotations_of(Y: Any, classes: ArrayLike | None = None) -> Annotations:
    """Return the labels of a matrix (rows x annotators) in long form.

    Missing are None, NaN, an empty string, and in an array of integers every negative number.
    """
    if isinstance(Y, Annotations):
        return Y
    names = np.asarray(list(Y.columns)) if hasattr(Y, "columns") else None
    cells: Any = Y.to_numpy() if hasattr(Y, "to_numpy") else Y
    if np.ma.isMaskedArray(cells):
        hidden, cells = np.ma.getmaskarray(cells), cells.data.astype(object)
        cells[hidden] = None
    if not isinstance(cells, np.ndarray):
        objects = np.array(cells, dtype=object)
        kinds = {type(cell) for cell in objects.ravel()}
        cells = np.array(cells) if kinds <= {int} else objects
    if cells.ndim != 2:
        raise ValueError(
            f"Y must be a matrix, one row per sample and one column per annotator; got shape {cells.shape}"
        )
    if cells.dtype.kind in "iu":
        missing = cells < 0
    elif cells.dtype.kind == "f":
        missing = np.isnan(cells)
        infinite = int(np.isinf(cells).sum())
        if infinite:
            raise ValueError(f"Y has {infinite} infinite labels; leave missing ones as NaN")
    else:
        missing = np.array([_is_missing(cell) for cell in cells.ravel().tolist()], dtype=bool).reshape(cells.shape)
    rows, annotators = np.nonzero(~missing.astype(bool))
    if len(rows) == 0:
        raise ValueError("Y has no labels; every entry is missing")
    names = np.arange(cells.shape[1]) if names is None else names
    return _encoded(rows, annotators, cells[rows, annotators], len(cells), names, classes)


def _is_missing(cell: Any) -> bool:
    return cell is None or type(cell).__name__ == "NAType" or bool(cell != cell) or cell == ""


def long_annotations(
    items: ArrayLike, annotators: ArrayLike, labels: ArrayLike, classes: ArrayLike | None = None
) -> tuple[NDArray[Any], Annotations]:
    """Return the items in the order of their first label, and their labels; each entry is one label of one item."""
    given = {"items": np.asarray(items), "annotators": np.asarray(annotators), "labels": np.asarray(labels)}
    check_same_length(**given)
    for name, values in given.items():
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"{name} must have one entry per label, shape (n_labels,); got shape {values.shape}")
    found, first, rows = np.unique(given["items"], return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    names, who = np.unique(given["annotators"], return_inverse=True)
    return found[order], _encoded(place[rows], who, given["labels"], len(found), names, classes)


def _encoded(rows: Any, annotators: Any, labels: Any, n: int, names: Any, classes: Any) -> Annotations:
    if labels.dtype.kind == "O":
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f" and np.all(labels == np.round(labels)):  # integers that missing ones made floats
        labels = labels.astype(np.int64)
    known, codes = check_labels(labels, classes)
    if len(names) * len(known) ** 2 > LARGEST:
        raise ValueError(
            f"{len(names):,} annotators and {len(known):,} classes need {len(names) * len(known) ** 2:,} rates, more "
            f"than {LARGEST:,}; merge rare classes, or leave out annotators with few labels"
        )
    return Annotations(np.asarray(rows, dtype=np.intp), np.asarray(annotators, dtype=np.intp), codes, n, names, known)


def fit_annotators(
    a: Annotations,
    *,
    abstain: bool = False,
    proba: FloatArray | None = None,
    strength: float | None = None,
    ability: bool = True,
    hard_rows: bool = True,
    ungiven: float = UNGIVEN,
    max_iter: int = 100,
    tol: float = 1e-3,
) -> Fit:
    """Fit T of each annotator and the class of each row by EM; see :class:`AnnotatorModel` for the model.

    ``proba`` are P(class | x) from a classifier, which replace the class prior of each row. A ``strength`` of 0 is the
    model of Dawid and Skene, and an infinite one gives all annotators the T of the pool (with ``ability``, only the
    pattern of their errors is shared).
    """
    n, m, c = a.n_rows, len(a.names), len(a.classes)
    votes = a.counts
    S = a.by_column
    start = np.maximum(votes.sum(axis=0), TINY) / votes.sum()
    q = np.where(votes.sum(axis=1, keepdims=True) > 0, votes, start if proba is None else proba)
    q = np.maximum(q, TINY) / q.sum(axis=1, keepdims=True)
    unlikely = np.zeros((n, c))
    if proba is None and ungiven < 1:
        unlikely[(votes == 0) & (votes.sum(axis=1, keepdims=True) > 0)] = np.log(ungiven)
    levels = 2 if hard_rows and not abstain else 1
    state: Any = _Rules(a, strength) if abstain else _People(a, strength, ability, levels)
    q = np.repeat(q[..., np.newaxis] / levels, levels, axis=2)  # (n, class, level)
    n_iter = 0
    most = min(max_iter, RULE_STEPS) if abstain else max_iter
    while n_iter < most:
        n_iter += 1
        M = (S.T @ q.reshape(n, -1)).reshape(m, c, c, levels)  # annotator, label, class, level
        totals = q.sum(axis=0)  # class, level
        state.update(M, totals)
        pi = (totals + 1 / levels) / (totals + 1 / levels).sum()
        # How often the rules of a class fire does not tell how frequent the class is.
        prior = (np.zeros_like(pi) if abstain else np.log(pi))[np.newaxis]
        if proba is not None:
            prior = np.log(np.maximum(proba, 1e-9))[..., np.newaxis] + np.log(pi / pi.sum(axis=1, keepdims=True))
        joint = unlikely[..., np.newaxis] + prior + (S @ state.scores().reshape(m * c, -1)).reshape(n, c, levels)
        new = softmax(joint.reshape(n, -1), axis=1).reshape(q.shape)
        change, q = float(np.abs(new - q).max()), new
        if change < tol:
            break
    posterior = q.sum(axis=2)
    guesses = q.sum(axis=1) @ state.h
    pool = (S.T @ posterior).reshape(m, c, c).sum(axis=0).T + 0.1 * (np.eye(c) + 1 / c)
    pool /= pool.sum(axis=1, keepdims=True)
    prior = pi.sum(axis=1) if proba is None else posterior.mean(axis=0)
    return Fit(
        posterior, state.said(pi), pool, prior, state.s, guesses, state.G, n_iter, ungiven if proba is None else 1.0
    )


class _People:
    """The M-step of annotators whose missing labels say nothing."""

    def __init__(self, a: Annotations, strength: float | None, ability: bool, levels: int) -> None:
        m, c = len(a.names), len(a.classes)
        self.strength, self.ability = strength, ability
        self.h = np.array([0.0, 0.5])[:levels]
        self.marginal = np.bincount(a.codes, minlength=c) / len(a.codes)
        self.G = np.tile(self.marginal, (c, 1))
        self.seeing = np.broadcast_to(1 - self.h, (m, c, c, levels))  # share of labels that are not guesses
        self.s = np.full(c, float(c) if strength is None else strength)
        self.b, self.spread = np.zeros(m), 1.0
        self.first = True

    def update(self, M: FloatArray, totals: FloatArray) -> None:
        first, self.first = self.first, False
        N = (M * self.seeing).sum(axis=3).transpose(0, 2, 1)  # annotator, class, label
        if len(self.h) > 1 and not first:
            guessed = M * (1 - self.seeing)
            self.h = guessed.sum(axis=(0, 1, 2)) / np.maximum(M.sum(axis=(0, 1, 2)), TINY)
            self.G = dominant(guessed.sum(axis=(0, 3)).T + self.marginal)
        self.seen = N.sum(axis=2)
        self.center = self._center(N, first)
        if self.strength is None:
            self.s = _strength(N, self.center, self.s)
        self.transitions = _shrunk(N, self.s, self.center)
        sees = (1 - self.h) * self.transitions.transpose(0, 2, 1)[..., np.newaxis]
        self.mixed = np.maximum(sees + self.h * self.G.T[..., np.newaxis], TINY)
        self.seeing = sees / self.mixed

    def said(self, pi: FloatArray) -> FloatArray:
        """Return P(label | class) of each annotator over easy and hard rows, guesses included."""
        share = pi / pi.sum(axis=1, keepdims=True)
        said: FloatArray = (self.mixed * share).sum(axis=3).transpose(0, 2, 1)
        return said / said.sum(axis=2, keepdims=True)

    def scores(self) -> FloatArray:
        return np.log(self.mixed)

    def _center(self, N: FloatArray, first: bool) -> FloatArray:
        """Return the mean of the prior of each annotator's T: the pool's, or the pool's moved by their ability."""
        c = N.shape[1]
        pool = N.sum(axis=0) + 1 / c
        pool /= pool.sum(axis=1, keepdims=True)
        if not self.ability:
            return np.broadcast_to(pool, N.shape)
        off = np.where(np.eye(c, dtype=bool), 0, pool)
        off /= off.sum(axis=1, keepdims=True)
        # A class goes by its own name more often than by any other. Otherwise EM takes a rare one for the hard rows.
        theta = np.maximum(logit(np.clip(np.diag(pool), 1e-4, 1 - 1e-4)), np.log(np.maximum(off.max(axis=1), TINY)))
        right, total = np.einsum("akk->ak", N), self.seen
        # Rows of T scatter around their center, so that many labels of an annotator tell less about the ability.
        s = np.minimum(self.s, STRENGTH[1])
        fewer = (s + 1) / (s + np.maximum(total, 1))
        right, total = right * fewer, total * fewer
        for _ in range(10 if first else 3):
            p = expit(theta + self.b[:, np.newaxis])
            curvature = (total * p * (1 - p)).sum(axis=1) + 1 / self.spread
            self.b = self.b + np.clip(((right - total * p).sum(axis=1) - self.b / self.spread) / curvature, -1, 1)
        present = total.sum(axis=1) > 0
        self.spread = float(np.clip(np.mean((self.b**2 + 1 / curvature)[present]), *SPREAD))
        p = np.clip(expit(theta + self.b[:, np.newaxis]), 1e-4, 1 - 1e-4)
        return (1 - p)[..., np.newaxis] * off + p[..., np.newaxis] * np.eye(c)


class _Rules:
    """The M-step of labeling functions, for which to abstain is an outcome as well."""

    def __init__(self, a: Annotations, strength: float | None) -> None:
        m, c = len(a.names), len(a.classes)
        self.n, self.h, self.G = a.n_rows, np.zeros(1), np.eye(c)
        counts = np.bincount(a.annotators * c + a.codes, minlength=m * c).reshape(m, c)
        self.coverage = counts / a.n_rows
        self.strength, self.s = strength, np.full(c, 10.0 if strength is None else strength)

    def update(self, M: FloatArray, totals: FloatArray) -> None:
        fired = M[..., 0].transpose(0, 2, 1)  # annotator, class, label
        size = np.maximum(totals[:, 0], TINY)
        N = np.concatenate([fired, np.maximum(size[:, np.newaxis] - fired.sum(axis=2, keepdims=True), 0)], axis=2)
        # P(label | class) = P(label) P(class | label) / P(class), with the P(class | label) of all rules.
        given = dominant((fired.sum(axis=0) + np.eye(len(size))).T).T  # columns: P(class | label)
        lift = given / (size / size.sum())[:, np.newaxis]
        center = self.coverage[:, np.newaxis, :] * lift
        center = np.clip(center, TINY, None) * np.minimum(1, 0.95 / np.maximum(center.sum(axis=2, keepdims=True), TINY))
        self.center = np.concatenate([center, 1 - center.sum(axis=2, keepdims=True)], axis=2)
        if self.strength is None:
            self.s = _strength(N, self.center, self.s)
        self.transitions = _shrunk(N, self.s, self.center)

    def said(self, pi: FloatArray) -> FloatArray:
        return self.transitions

    def scores(self) -> FloatArray:
        # Rules share blind spots, so that their silences are not independent, and together would outweigh the labels.
        return np.log(np.maximum(self.transitions[:, :, :-1], TINY)).transpose(0, 2, 1)[..., np.newaxis]


def _shrunk(N: FloatArray, s: FloatArray, center: FloatArray) -> FloatArray:
    """Return T of each annotator: counts with s labels of the center added, or the center if s is infinite."""
    if np.isinf(s).any():
        return center
    T: FloatArray = N + np.maximum(s[:, np.newaxis], TINY) * center
    return T / T.sum(axis=2, keepdims=True)


def _strength(N: FloatArray, center: FloatArray, s: FloatArray, steps: int = 3) -> FloatArray:
    """Return the strengths that make the counts likelier: fixed-point steps of the Dirichlet-multinomial (Minka).

    A gamma prior keeps a strength from growing without limit where the counts hardly depend on it.
    """
    mean = np.maximum(center, 1e-5)
    for _ in range(steps):
        alpha = mean * s[:, np.newaxis]
        above = (mean * (digamma(N + alpha) - digamma(alpha))).sum(axis=(0, 2))
        below = (digamma(N.sum(axis=2) + s) - digamma(s)).sum(axis=0)
        s = np.clip(s * (above + CERTAINTY / s) / (below + CERTAINTY / USUAL), *STRENGTH)
    return s


def dominant(T: FloatArray) -> FloatArray:
    """Return the matrix with rows that sum to one and have their largest entry on the diagonal.

    Entries above the diagonal's share their mean with it, which is the likeliest such row for counts.
    """
    T = T / T.sum(axis=1, keepdims=True)
    for k, row in enumerate(T):
        above = [k]
        for j in np.argsort(-row, kind="stable"):
            if j != k and row[j] > row[above].mean():
                above.append(int(j))
        row[above] = row[above].mean()
    return T


def temperature(a: Annotations, fit: Fit) -> float:
    """Return the power t <= 1 of the posteriors that best predicts each label from the other labels of its row.

    ::

        max_t  sum log sum_k r_k T_a[k, y_ia],     r_k ~ (q_k / T_a[k, y_ia])^t

    Annotators who share errors make q too sure, and then t < 1 predicts their labels better.
    """
    counts = a.counts
    several = np.flatnonzero(counts.sum(axis=1)[a.rows] > 1)
    if len(several) == 0:
        return 1.0
    who, rows, codes = a.annotators[several], a.rows[several], a.codes[several]
    p = np.maximum(fit.transitions[who, :, codes], TINY)
    # That nobody gave a class was known from the label itself, which is to be predicted.
    others = np.log(np.maximum(fit.posterior[rows], TINY)) - np.log(p) - np.log(fit.ungiven) * (counts[rows] == 0)

    def loss(log_t: float) -> float:
        r = softmax(np.exp(log_t) * others, axis=1)
        return -float(np.mean(np.log(np.maximum((r * p).sum(axis=1), TINY))))

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 0), method="bounded").x))


def krippendorff_alpha(counts: FloatArray) -> float:
    """Return Krippendorff's alpha for nominal labels: 1 is perfect agreement, 0 that of chance.

    ``counts`` has the number of annotators that gave each class, shape (n_rows, n_classes); rows with one label do not
    count. With o the share of pairs within rows that disagree, and e that of all pairs, alpha = 1 - o / e.
    """
    N = counts[counts.sum(axis=1) > 1]
    if len(N) == 0:
        return float("nan")
    size, total = N.sum(axis=1), N.sum(axis=0)
    observed = ((size**2 - (N**2).sum(axis=1)) / (size - 1)).sum() / size.sum()
    expected = (total.sum() ** 2 - (total**2).sum()) / (total.sum() * (total.sum() - 1))
    return 1.0 if expected == 0 else float(1 - observed / expected)


def next_label_value(fit: Fit) -> FloatArray:
    """Return the expected information of one more label for each row, in nats, shape (n_rows,).

    It is the mutual information of the row's class and the label of an average annotator::

        H(label) - sum_k q_k H(label | class = k),     P(label | class = k) = (1 - g) T[k] + g G[k]

    with the chance g that the annotator cannot see the class. So neither sure rows nor hopeless ones come first.
    """
    value = np.empty(len(fit.posterior))
    for start in range(0, len(value), 10_000):
        q, g = fit.posterior[start : start + 10_000], fit.guesses[start : start + 10_000, np.newaxis]
        label, inner = np.zeros_like(q), np.zeros(len(q))
        for k in range(q.shape[1]):
            p = (1 - g) * fit.pool[k] + g * fit.guessed[k]
            label += q[:, [k]] * p
            inner += q[:, k] * _entropy(p)
        value[start : start + 10_000] = _entropy(label) - inner
    return np.maximum(value, 0)


def _entropy(p: FloatArray) -> FloatArray:
    value: FloatArray = -(p * np.log(np.maximum(p, TINY))).sum(axis=1)
    return value


@dataclass(frozen=True)
class Dependence:
    """Two annotators, and whether they agree more often than their accuracies explain.

    Attributes
    ----------
    first, second : object
        Their names.
    n_rows : int
        The rows that both labeled.
    agreement, expected : float
        How often they gave the same label, and how often independent annotators with their confusions would have.
    z : float
        The difference in standard errors.
    p_value : float
        Two-sided, adjusted for the number of pairs (Holm).
    """

    first: Any
    second: Any
    n_rows: int
    agreement: float
    expected: float
    z: float
    p_value: float


def dependences(a: Annotations, fit: Fit, abstain: bool) -> list[Dependence]:
    """Return the pairs of annotators by rising p-value; see :class:`Dependence`.

    Given the class, the labels of independent annotators are independent. For rows that both labeled, with the class
    probabilities q of each row from the labels of all others::

        z  =  sum (agree - P(agree)) / sqrt(sum P(agree) (1 - P(agree)))
        P(agree)  =  sum_k q_k sum_l T_a[k, l] T_b[k, l]

    For rules the sum is over all rows, and to agree is to give the same label, since what they abstain from says
    something as well.
    """
    n, m, c = a.n_rows, len(a.names), len(a.classes)
    _, once = np.unique(a.rows.astype(np.int64) * m + a.annotators, return_index=True)  # of who labeled a row twice
    A = sparse.csc_array((a.codes[once] + 1, (a.rows[once], a.annotators[once])), shape=(n, m))
    shared = sparse.triu((A > 0).astype(np.int64).T @ (A > 0).astype(np.int64), k=1).tocoo()
    enough = np.flatnonzero(shared.data >= (1 if abstain else FEWEST_SHARED))
    enough = enough[np.argsort(-shared.data[enough], kind="stable")[:MOST_PAIRS]]
    logs, logq = np.log(np.maximum(fit.transitions, TINY)), np.log(np.maximum(fit.posterior, TINY))
    found = []
    for j in enough:
        one, two = int(shared.row[j]), int(shared.col[j])
        first, second = (A[:, [k]].toarray().ravel().astype(np.intp) - 1 for k in (one, two))
        if not abstain:
            both = np.flatnonzero((first >= 0) & (second >= 0))
            first, second = first[both], second[both]
        others = logq if abstain else logq[both]
        # -1, no label, is the last outcome of rules: to abstain.
        q = softmax(others - logs[one][:, first].T - logs[two][:, second].T, axis=1)
        p = q @ (fit.transitions[one, :, :c] * fit.transitions[two, :, :c]).sum(axis=1)
        agree = (first == second) & (first >= 0)
        z = (agree.sum() - p.sum()) / np.sqrt(max((p * (1 - p)).sum(), TINY))
        found.append((one, two, int(shared.data[j]), float(agree.mean()), float(p.mean()), float(z)))
    found.sort(key=lambda one: -abs(one[-1]))
    result, least = [], 0.0
    for rank, (one, two, size, agreement, expected, z) in enumerate(found):
        least = max(least, min(1.0, (len(found) - rank) * 2 * float(norm.sf(abs(z)))))
        result.append(Dependence(a.names[one], a.names[two], size, agreement, expected, z, least))
    return result


class AnnotatorModel(BaseEstimator):
    r"""The class of each row and the quality of each annotator, from the labels of several annotators.

    Annotator a has a transition matrix of their own, T_a[k, l] = P(a says l | class k), and EM joins the annotators::

        q_i(k)  ~  pi_k prod_a T_a[k, y_ia]                     the class of row i
        T_a[k]  =  (N_a[k] + s_k M_a[k]) / (n_ak + s_k)         N_a[k, l] = sum of q_i(k) over the rows that a called l

    Few labels say little, so each row of T_a is drawn to a center M_a[k] by as many labels, s_k, as make the counts of
    all annotators likeliest (a Dirichlet prior whose strength is learned). The center has the annotator's own ability
    b_a, and the errors of the pool::

        M_a[k, k]  =  sigmoid(theta_k + b_a),    b_a ~ N(0, sigma^2),    the rest in the proportions of all annotators

    With s = 0 it is the model of Dawid and Skene (1979).

    *Hard rows.* Some rows are hard for everybody, and annotators then agree less than their quality explains. Each row
    is easy or hard; in a hard one, a label is with probability h a guess, drawn from G[k], which all annotators share.

    *Class names.* Nothing in the likelihood says that class k is what annotators call k, and EM may use a rare class
    for the hard rows. So the center and G have their largest entry on the diagonal, and a class that none of a row's
    annotators gave is a tenth as likely a priori.

    *Rules.* Labeling functions often give one class or nothing, and then what they give says nothing unless it is
    asked how often they fire in each class: to abstain is one more outcome, T_a has a column for it, and its center
    fires as often as the rule does, and is right as often as all rules are. The labels that were given are the evidence
    about a row; silences are not, because rules share blind spots. For the same reason EM stops after two steps from
    the majority vote: rules that agree because they are alike would be trusted more with every step. All classes are
    equally likely beforehand, since how often the rules of a class fire does not tell how frequent it is: of two rules
    that disagree, the one that fires rarely wins, as it says more.

    Parameters
    ----------
    abstain : bool or "auto", default="auto"
        Whether a missing label is a decision of the annotator, as it is for rules. If "auto", it is if most labels come
        from annotators that give one class only.
    strength : float, default=None
        s, in labels. If None, it is learned for each class.
    hard_rows : bool, default=True
        Whether rows may be hard. Rules have none.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, if the labels lack some of them.

    Attributes
    ----------
    classes_, annotators_ : ndarray
        The classes, and the names of the annotators: the columns of a data frame, or their numbers.
    posterior_ : ndarray of shape (n_rows, n_classes)
        P(class | labels of the row).
    consensus_, confidence_ : ndarray of shape (n_rows,)
        The most probable class and its probability.
    transitions_ : ndarray of shape (n_annotators, n_classes, n_classes)
        T_a; if annotators abstain, given that they do not.
    transition_ : ndarray of shape (n_classes, n_classes)
        T of all labels together.
    quality_ : ndarray of shape (n_annotators,)
        The expected share of an annotator's labels that are right, drawn to the pool as T_a is.
    n_labels_ : ndarray of shape (n_annotators,)
    coverage_ : ndarray of shape (n_annotators, n_classes)
        The share of the rows of each class that the annotator labeled.
    class_prior_ : ndarray of shape (n_classes,)
    agreement_ : float
        Krippendorff's alpha: 1 is perfect agreement, 0 that of chance.
    next_label_value_ : ndarray of shape (n_rows,)
        The expected information of one more label of the row, in nats; :meth:`next_rows` ranks by it.
    items_ : ndarray of shape (n_rows,)
        The names of the rows, if they were given in long form.
    temperature_ : float
        The power of the posteriors, at most one, that best predicts each label from the others of its row; 1 for rules.
        See Notes on how it is used.
    abstain_ : bool

    Notes
    -----
    *How sure.* The product over annotators takes their errors as independent, which they never are: what misleads one
    annotator misleads others. Labels show a part of this, by ``temperature_``, and errors that all annotators share do
    not show in labels at all. So n labels of a row count as sqrt(n) independent ones do::

        posterior_  ~  q^t,    t = min(temperature_, n^-1/2)

    The consensus stays the same. On ten sets with known truth this lowers the log loss from 0.81 (``temperature_``
    alone) to 0.45 on average, and the mean distance of ``confidence_`` from the accuracy from 10 to 5 points; the
    confidence is still up to 12 points too high where annotators share most errors, and 4 too low at the other end
    (``benchmarks/crowd.py``). A few rows that an expert labels can tell. If annotators really are independent, as in
    simulations, ``posterior_at()`` is calibrated, and ``posterior_`` is not sure enough. Probabilities from a
    classifier, ``proba``, are part of q, and so of what is discounted.

    References
    ----------
    Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm", 1979. Whitehill et
    al., "Whose vote should count more" (GLAD), NeurIPS 2009. Kim and Ghahramani, "Bayesian classifier combination",
    AISTATS 2012.

    Examples
    --------
    >>> Y = [["cat", "cat", "dog"], ["dog", "dog", None], ["cat", "cat", "cat"], ["dog", None, "dog"]] * 10
    >>> model = AnnotatorModel().fit(Y)
    >>> model.consensus_[:4].tolist()
    ['cat', 'dog', 'cat', 'dog']
    >>> int(model.quality_.argmin())
    2
    """

    def __init__(
        self,
        *,
        abstain: Any = "auto",
        strength: float | None = None,
        hard_rows: bool = True,
        classes: ArrayLike | None = None,
    ) -> None:
        self.abstain = abstain
        self.strength = strength
        self.hard_rows = hard_rows
        self.classes = classes

    def fit(self, Y: Any, y: Any = None, *, proba: ArrayLike | None = None) -> Self:
        """Fit to a matrix of labels, rows x annotators; missing are None, NaN, "" and negative integers.

        ``proba``, shape (n_rows, n_classes), are P(class | x) from a classifier that did not see the labels of the row:
        one more witness, in place of the class prior.
        """
        return self._fit(annotations_of(Y, self.classes), proba)

    def fit_long(self, items: ArrayLike, annotators: ArrayLike, labels: ArrayLike) -> Self:
        """Fit to labels in long form: three arrays with one entry per label."""
        found, a = long_annotations(items, annotators, labels, self.classes)
        self._fit(a, None)
        self.items_ = found
        return self

    def _fit(self, a: Annotations, proba: Any) -> Self:
        if self.abstain not in (True, False, "auto"):
            raise ValueError(f'abstain must be True, False or "auto"; got {self.abstain!r}')
        if self.strength is not None and not self.strength >= 0:
            raise ValueError(f"strength must be a number of labels >= 0, or None to learn it; got {self.strength!r}")
        n, m, c = a.n_rows, len(a.names), len(a.classes)
        if proba is not None:
            proba = np.asarray(proba, dtype=np.float64)
            if proba.shape != (n, c) or not np.isfinite(proba).all() or proba.min() < 0:
                raise ValueError(
                    f"proba must be probabilities of {n} rows and {c} classes, shape ({n}, {c}); got shape "
                    f"{proba.shape}, or numbers that are negative or not finite"
                )
        counts = np.bincount(a.annotators * c + a.codes, minlength=m * c).reshape(m, c)
        self.n_labels_ = counts.sum(axis=1)
        if self.abstain == "auto":
            one_sided = (counts > 0).sum(axis=1) == 1
            self.abstain_ = bool(self.n_labels_[one_sided].sum() > ONE_SIDED * len(a.codes))
        else:
            self.abstain_ = bool(self.abstain)
        self.fit_ = fit_annotators(
            a, abstain=self.abstain_, proba=proba, strength=self.strength, hard_rows=self.hard_rows
        )
        self.annotations_, self.classes_, self.annotators_ = a, a.classes, a.names
        # Whether a rule fires is part of its T, so that labels given by others do not predict it.
        self.temperature_ = 1.0 if self.abstain_ else temperature(a, self.fit_)
        self.posterior_, self.class_prior_ = self._less_sure(a), self.fit_.prior
        self.consensus_ = a.classes[self.posterior_.argmax(axis=1)]
        self.confidence_ = self.posterior_.max(axis=1)
        said = self.fit_.transitions[:, :, :c]
        often = said.sum(axis=2, keepdims=True)  # of rules, which may be silent about a class
        self.transitions_ = np.where(often > 0, said / np.where(often > 0, often, 1), 1 / c)
        self.transition_ = self.fit_.pool
        q = sparse.csr_array((np.ones(len(a.rows)), (a.annotators, a.rows)), shape=(m, n)) @ self.fit_.posterior
        self.coverage_ = np.minimum(q / np.maximum(self.fit_.posterior.sum(axis=0), TINY), 1)
        if self.abstain_:  # of the labels that it gave
            joint = said * self.class_prior_[:, np.newaxis]
            self.quality_ = np.einsum("akk->a", joint) / np.maximum(joint.sum(axis=(1, 2)), TINY)
        else:
            self.quality_ = np.einsum("akk->ak", said) @ self.class_prior_
        self.agreement_ = krippendorff_alpha(a.counts)
        self.next_label_value_ = next_label_value(self.fit_._replace(posterior=self.posterior_))
        self.items_ = np.arange(n)
        return self

    def _less_sure(self, a: Annotations) -> FloatArray:
        """Return the posteriors with the evidence of n labels counted as that of sqrt(n); see Notes."""
        power = np.minimum(self.temperature_, np.maximum(a.counts.sum(axis=1), 1) ** -0.5)[:, np.newaxis]
        # The prior, or the classifier's word, is discounted as well, so that the consensus stays the likeliest class.
        posterior: FloatArray = softmax(power * np.log(np.maximum(self.fit_.posterior, TINY)), axis=1)
        return posterior

    def posterior_at(self, power: ArrayLike = 1.0) -> FloatArray:
        """Return q_k^power / sum_l q_l^power, shape (n_rows, n_classes), by which wrong labels can be counted.

        The power is a number, or one per row: 1 counts n labels of a row as independent, 1 / n counts them as one. In
        this q, a class that nobody gave the row is as likely beforehand as any other. In ``posterior_`` it is less
        likely, which helps the consensus but would make the count too low.
        """
        check_is_fitted(self)
        counts = self.annotations_.counts
        logs = np.log(np.maximum(self.fit_.posterior, TINY))
        logs[(counts == 0) & (counts.sum(axis=1, keepdims=True) > 0)] -= np.log(self.fit_.ungiven)
        posterior: FloatArray = softmax(np.asarray(power).reshape(-1, 1) * logs, axis=1)
        return posterior

    def _restore(self, a: Annotations, place: IntArray) -> None:
        """Put what is known about each row into another order, after a fit to the rows ``place`` of ``a``."""
        back = np.argsort(place)
        fit, self.annotations_ = self.fit_, a
        self.fit_ = fit._replace(posterior=fit.posterior[back], guesses=fit.guesses[back])
        for name in ("posterior_", "consensus_", "confidence_", "next_label_value_"):
            setattr(self, name, getattr(self, name)[back])

    def next_rows(self, n: int | None = None) -> IntArray:
        """Return the rows for which one more label is expected to tell most, the first ones first."""
        check_is_fitted(self)
        return np.argsort(-self.next_label_value_, kind="stable")[:n]

    def label_quality(self) -> FloatArray:
        """Return the probability that each label is right, in the order of ``annotations_``, shape (n_labels,)."""
        check_is_fitted(self)
        return self.posterior_[self.annotations_.rows, self.annotations_.codes]

    def dependence(self) -> list[Dependence]:
        """Return pairs of annotators with at least 20 rows in common, those that depend on each other first."""
        check_is_fitted(self)
        return dependences(self.annotations_, self.fit_, self.abstain_)
