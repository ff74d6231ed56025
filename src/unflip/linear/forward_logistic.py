"""Logistic regression through T, with T known or estimated together with the model; from data of any size."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.sparsefuncs import inplace_column_scale

from unflip._validation import FloatArray, check_classes
from unflip.core.ldce import well_conditioned
from unflip.linear.class_sums import class_sums
from unflip.tables.blocks import Block, Engine, Source, reduce_blocks
from unflip.tables.read import as_labels
from unflip.tables.sources import ROWS, check_has_labels, find_classes, labeled_like, open_source
from unflip.transition._cross_fit import ALPHA, SMALL, Problem, scale_of, slices_of
from unflip.transition._evidence import is_even
from unflip.transition._lbfgs import lbfgs
from unflip.transition.sample import sample_rows
from unflip.transition.volmin import VolMin, objective, to_parameters, unpack

NO_KEYS = np.zeros(0, np.uint32)  # there are no folds
MOST_PASSES = 60  # iterations over all rows; from the start that a sample gives, 10 to 20 are enough


class ForwardLogisticClassifier(VolMin):
    """Logistic regression on noisy labels that explains them through T, and so predicts the clean class.

    If T is given, only the model is fitted (forward correction, Patrini et al. 2017); if not, T is estimated first,
    as in :class:`unflip.transition.VolMin`, which has the same solver, parameters and attributes::

        min  (1/n) sum_i w_i (-log (softmax(W x_i + b) T)[y_i])  +  (penalty / 2n) |W|^2

    With T = I this is multinomial logistic regression. ``fit`` takes arrays and sparse matrices, :meth:`fit_source`
    data of any size.

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes), estimator or None, default=None
        T[i, j] = P(noisy = j | clean = i), or an estimator with ``fit(X, y)`` and ``transition_``. If None, T is
        estimated.
    volume, alpha, scaling, rounds, guard, max_iter, tol, classes, random_state
        As in :class:`unflip.transition.VolMin`; ``random_state`` also seeds the sample of :meth:`fit_source`,
        whose passes end at ``tol`` (1e-4 if None).

    Attributes
    ----------
    transition_ : ndarray of shape (n_classes, n_classes)
    classes_, class_prior_ : ndarray of shape (n_classes,)
        The classes, and the clean class prior.
    coef_, intercept_ : ndarray of shape (n_classes, n_features) and (n_classes,)
        The linear scores of the clean classes, for the features as given.
    scaling_ : {"each", "common"}
        The scaling that was used.
    n_passes_ : int
        How often :meth:`fit_source` read all rows to fit the model. Only set by it.

    Notes
    -----
    *Penalty.* The models of cross-fitting have a penalty of 0.25 n_features for features of unit variance, and the
    final one is made as sure as the held-out noisy labels want it by one temperature.

    *Sparse X.* A sparse X with more than 1,024 features, such as TF-IDF, is not whitened, and all its features share
    one scale. The loss through T then has many local minima, so every model starts from logistic regression on the
    noisy labels; T starts from the labels of the rows that these models are surest of, and its rows lean on each other.
    The penalty is chosen by the likelihood of held-out noisy labels through T (``benchmarks/sparse_text.py``).

    References
    ----------
    Patrini et al., Making Deep Neural Networks Robust to Label Noise: a Loss Correction Approach, CVPR 2017.

    Li et al., Provably End-to-end Label-noise Learning without Anchor Points, ICML 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = load_digits(return_X_y=True)
    >>> noisy = corrupt(y, pairflip(10, 0.3), random_state=0)
    >>> ForwardLogisticClassifier().fit(X, noisy).score(X, y) > 0.9
    True
    """

    def fit_source(
        self,
        source: Any,
        y: Any = None,
        *,
        label: str | None = None,
        weights: Any = None,
        columns: Sequence[Any] | None = None,
        sample_size: int = 100_000,
        rows: int = ROWS,
        threads: int | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """Fit to data that may not fit into memory, or onto one machine: loss and gradient are sums over blocks.

        One pass sums up the features, one draws a sample. T and a first model are estimated from the sample as ``fit``
        does, and then L-BFGS minimizes the loss of all rows from there, one pass per iteration. If T is not given, it
        is fitted in the same passes, unless the guard found that the sample does not call for several rates: then T
        stays that of the sample. If the sample holds all rows, the answer is that of ``fit``.

        Parameters
        ----------
        source, y, label, weights, columns, rows, threads, engine
            As in :func:`unflip.linear.class_sums`. The source is read many times, so a generator is refused; give a
            function that returns one.
        sample_size : int, default=100_000
            Rows, all in memory, that the fit starts from.

        Notes
        -----
        Memory is that of the sample and of :func:`class_sums`. The penalty is that of ``fit``, but there is no
        temperature: with more rows than fit into memory, a penalty of a few rows changes nothing.
        """
        self._check_parameters()
        how: dict[str, Any] = {"threads": threads, "engine": engine}
        opened = open_source(source, y, label=label, weights=weights, columns=columns, rows=rows)
        if not opened.rereadable:
            raise ValueError("iterators can be read only once, and a fit takes many passes; give a function, or files")
        check_has_labels(opened)
        given = self.classes if self.classes is not None else find_classes(opened, **how)
        classes = check_classes(as_labels(given))
        opened = labeled_like(opened, classes)
        seed = 0 if self.random_state is None else self.random_state
        sample = sample_rows(opened, sample_size, random_state=seed, **how)
        first = clone(self).set_params(classes=classes).fit(sample.X, sample.y, sample.weights)
        for name, value in vars(first).items():
            if name.endswith("_"):
                setattr(self, name, value)
        self.n_passes_ = 0
        if opened.feature_names is not None:
            self.feature_names_in_ = np.asarray(opened.feature_names, dtype=object)
        if sample.n_rows > sample_size:
            self._fit_passes(opened, how)
        return self

    def _fit_passes(self, source: Source, how: dict[str, Any]) -> None:
        """Continue from the model of the sample with all rows."""
        sums = class_sums(source, classes=self.classes_, **how)
        d, c, total = sums.n_features, sums.n_classes, sums.weight
        scale = scale_of(sums.mean, np.diag(sums.scatter) / total, self.scaling_)
        precision = np.float64 if total * d * c <= SMALL else np.float32
        data = _Rows(source, self.classes_, sums.mean, scale, precision, how)
        covariance = sums.scatter / total / scale / scale[:, np.newaxis]
        empty = [slice(0, 0)] * c
        bare = _SourceProblem(
            data, np.zeros(d), np.ones(0), empty, np.zeros(0, np.uint32), total, covariance, None, 0, 0
        )
        problem = bare.with_penalty(ALPHA * d)

        T = self.transition_
        stop: dict[str, Any] = {"gtol": 1e-4 if self.tol is None else self.tol, "maxiter": MOST_PASSES}
        start = to_parameters(problem, self.coef_ * scale, self.intercept_ + self.coef_ @ sums.mean, T)
        if self.transition is not None or (self.guard and is_even(T)):

            def loss(theta: FloatArray) -> tuple[float, FloatArray]:
                value, g_U, g_b, _ = problem.loss(*problem.unpack(theta), T)
                return value, np.concatenate([g_U.ravel(), g_b])

            theta, self.n_passes_ = lbfgs(loss, start[: -c * c], **stop)
            W, b = problem.unpack(theta)
        else:
            theta, self.n_passes_ = lbfgs(lambda x: objective(x, problem), start, **stop)
            W, b, T = unpack(theta, problem)
            self.transition_ = well_conditioned(T)
        prior = problem.loss(W, b, T)[-1].sum(axis=1)  # of the posteriors, whose mean is that of the probabilities
        self.class_prior_ = prior / prior.sum()
        self.coef_ = W / scale
        self.intercept_ = b - self.coef_ @ sums.mean


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows that are read again for each loss, and how they are scaled."""

    source: Source
    classes: NDArray[Any]
    mean: FloatArray
    scale: FloatArray
    precision: Any
    how: dict[str, Any]


class _SourceProblem(Problem):
    """The problem of rows that are not in memory; X is :class:`_Rows`."""

    def loss(self, W: FloatArray, b: FloatArray, T: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        data: _Rows = self.X
        function = LossOf(data.classes, data.mean, data.scale, data.precision, W, b, T)
        sums: LossSums = reduce_blocks(data.source, function, **data.how)
        shrinkage = self.penalty / self.total
        g_W = sums.g_W / self.total + shrinkage * W
        value = sums.loss / self.total + shrinkage / 2 * float(np.sum(W**2))
        return (
            value,
            g_W if self.whitening is None else g_W @ self.whitening.T,
            sums.g_b / self.total,
            (sums.counts / self.total),
        )


@dataclass(frozen=True, eq=False)
class LossSums:
    """The loss of some rows, its gradients in W (c, d) and b (c,), and counts (c, c) of clean and noisy; they add."""

    loss: float
    g_W: FloatArray
    g_b: FloatArray
    counts: FloatArray

    def __add__(self, other: "LossSums") -> "LossSums":
        sums = (self.loss + other.loss, self.g_W + other.g_W, self.g_b + other.g_b, self.counts + other.counts)
        return LossSums(*sums)


@dataclass(frozen=True, eq=False)
class LossOf:
    """The function that turns a block into its part of the loss."""

    classes: NDArray[Any]
    mean: FloatArray
    scale: FloatArray
    precision: Any
    W: FloatArray
    b: FloatArray
    T: FloatArray

    def __call__(self, block: Block) -> LossSums:
        codes, c = block.codes(self.classes), len(self.classes)
        order = np.argsort(codes, kind="stable")
        X, center = block.X[order], np.zeros(len(self.mean))
        if sparse.issparse(X):
            X, center = X.astype(self.precision), self.mean / self.scale
            inplace_column_scale(X, (1 / self.scale).astype(self.precision))
        else:
            X -= self.mean.astype(X.dtype)
            X /= self.scale.astype(X.dtype)
            X = X.astype(self.precision, copy=False)
        weights = np.ones(len(codes)) if block.weights is None else block.weights[order]
        part = Problem(X, center, weights, slices_of(codes[order], c), NO_KEYS, 1.0, None, None, 0.0, 0.0)
        return LossSums(*part.loss(self.W, self.b, self.T))
