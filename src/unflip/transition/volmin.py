"""T by minimum volume, for a linear model: VolMinNet's objective solved without a network."""

import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing

from unflip._base import LinearClassifier, check_training_data, resolve_transition
from unflip._validation import FloatArray, IntArray
from unflip.core.ldce import well_conditioned
from unflip.transition._cross_fit import (
    Problem,
    choose_scaling,
    cross_fit,
    cross_fit_wide,
    fit_model,
    held_out_posteriors,
    number_of_folds,
    posterior_std,
    prepare,
    rows_in_order,
    start_without_empty,
)
from unflip.transition._evidence import guarded, is_even

LARGEST_POLISH = 250  # parameters; a Newton step takes two gradients per parameter
ROUGH = 1e-4  # gradient below which more iterations hardly change T
FLOOR = 1e-6  # added to the squared singular values of T in the volume


class VolMin(LinearClassifier):
    """Estimate T, and a clean classifier with it, by the transition matrix of minimum volume (linear VolMinNet).

    A multinomial logistic model of the clean class, followed by T, must explain the noisy labels. Among the matrices
    that do, the one of least volume is chosen; it is the true one if the clean classes are spread well enough
    (Li et al. 2021)::

        min  (1/n) sum_i w_i (-log (softmax(W x_i + b) T)[y_i])  +  volume log|det T|  +  (alpha d / 2n) |W|^2

        A = I + sigmoid(V) * (1 - I),    T = A / row sums        the diagonal is the largest entry of its row

    Parameters
    ----------
    transition : array-like of shape (n_classes, n_classes), estimator or None, default=None
        If None, T is estimated. If T is given, or another estimator for it, only the model of the clean class is fitted
        through that T.
    volume : float, default=1e-3
        Weight of log|det T|.
    alpha : float, default=0.004
        Penalty on W, for the d features as scaled. ``alpha * d`` is 1 / C of scikit-learn's ``LogisticRegression``, so
        that the logits may vary equally whatever the number of features.
    scaling : {"each", "common", "auto"}, default="auto"
        "each" scales every feature to unit variance. "common" divides all features by one number, so that their mean
        variance is one. "auto" uses whichever better predicts noisy labels that the model did not see; see Notes.
    rounds : int, default=5
        Largest number of rounds of cross-fitting that refine T after the minimum volume; 0 means none.
    guard : bool, default=True
        Whether T must explain held-out labels clearly better than symmetric noise and no noise do; see Notes. Without
        it, T is that of minimum volume and cross-fitting, whatever the labels say about it.
    max_iter : int, default=1000
        Largest number of L-BFGS iterations.
    tol : float or None, default=None
        The solver stops when no entry of the gradient is larger. If None, it is 1e-10 for small data, which are solved
        in float64, and 1e-4 for data with n_samples x n_features x n_classes beyond a million, solved in float32; there
        is then no warning if small data stop after ``max_iter`` iterations with a gradient below 1e-4.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, if the noisy labels lack some of them; the rows of T follow their order.
    random_state : int, RandomState instance or None, default=None
        Not used, because the fit is deterministic; it is here because all estimators of T take it.

    Attributes
    ----------
    transition_, transition_std_ : ndarray of shape (n_classes, n_classes)
        T[i, j] = P(noisy = j | clean = i), and the standard error of each entry: zero if T was given, and that of the
        estimator if one was given.
    classes_, class_prior_ : ndarray of shape (n_classes,)
        The classes, and the clean class prior: the mean of ``predict_proba`` over the training data.
    scaling_ : {"each", "common"}
        The scaling that was used.
    coef_, intercept_ : ndarray of shape (n_classes, n_features) and (n_classes,)
        The linear scores of the clean classes, for the features as given.
    n_iter_, loss_ : int and float
        Iterations that minimized the volume, and the objective at the solution. Only set if T was estimated.

    Notes
    -----
    *Start and pseudo-counts.* V starts at -log(n_classes), that is T_0 = I/2 + 1/(2 n_classes). Each row of T also
    gets one pseudo-sample with the labels of T_0, ``-(1/n) sum_ij T_0[i, j] log T[i, j]``: it decides where there are
    no data, keeps zeros of T from running to minus infinity in V, and vanishes as n grows.

    *Volume.* log|det T| falls without bound near singular matrices, so ``log det(T T' + 1e-6 I) / 2`` is used, which
    differs only there. A result whose condition number is above 100 is mixed with the identity until it is not.

    *Solver.* Full-batch L-BFGS with analytic gradients: weights equal repetition, and every run gives the same result.
    W is solved in coordinates in which the covariance of X is the identity (up to 1,024 features), V in steps of
    sqrt(n_classes); on 15,000 rows of MNIST pixels this takes 121 iterations instead of 177. Large float32 problems
    stop at tol before the optimum; on the CIFAR-10 features, 30 more iterations moved the error of T by 0.002 or less.

    *Cross-fitting.* A model with many features memorizes noisy labels and explains them without T, so T comes out too
    close to the identity. The T of minimum volume is therefore only the start: the data are split into five folds (two
    if they are large), each fold gets its logits from a logistic model that did not see it, and T, together with one
    temperature of those logits, is fitted to the noisy labels by EM; then the models are fitted again through the new
    T. With pairflip 0.4 this takes the error of T on 1,078 digits from 0.37 to 0.08, and on the first 5,000 CIFAR-10
    features from 0.54 to 0.05; on all 50,000 it fixes pairflip 0.45 (0.091 to 0.012). It costs a little where minimum
    volume is already good: clean labels on 5,000 rows go from 0.013 to 0.027 (``benchmarks/transition.py``, which also
    shows what the guard adds). It is left
    out with fewer than 20 distinct rows per class. The folds follow from the ranks of the values in each row, not from
    the order of the rows nor from the units of the features.

    *Guard.* Where the classes overlap, or are not linear in the features, T takes the errors of the model for noise.
    With ``guard``, that T is only the start of two others, whose shapes :class:`StackedEM` describes: "one target" and
    "learned". Neither has a diagonal below the bounds that StackedEM describes, nor the flips that two classes
    exchange. The model through one of them must explain held-out labels better than the same model does without noise,
    and with one rate for all flips, by 2.5 standard errors; with 3 to 20 classes, both rivals may mix them by
    calibration, which T does, too. If both pass, the likelier one is taken; if none does, T is the symmetric one or the
    identity. Weights count as repetitions, so they should have a mean of about one: a row of weight 20 is evidence of
    twenty rows. A fit takes two to four times as long. The guard needs cross-fitting, and leaves wide sparse data
    alone; ``loss_`` and ``n_iter_`` are those of minimum volume. It does not help where no linear model explains the
    clean labels, and T makes the model more flexible.

    *Wide sparse data.* A sparse X with more than 1,024 features, such as TF-IDF, takes another path if ``rounds`` > 0
    and there are at least five distinct rows per class: all features share one scale, nothing is whitened, and minimum
    volume is left out. The loss through T then has many local minima, so the models start from logistic regression on
    the noisy labels: with the true T and pair noise 0.35, banking77 has 80 % from zero and 89 % from there. T starts
    from the labels of the rows that held-out models are surest of, its rows lean on each other, and the likelihood of
    held-out noisy labels chooses the penalty (``benchmarks/sparse_text.py``). ``volume``, ``alpha``, ``max_iter`` and
    ``tol`` are not used there.

    *Scaling.* The scaling decides which models the penalty considers simple. With the variances v_j of the features as
    given, and W for these features, the penalty is::

        each     (alpha / 2n)  d  sum_kj v_j W_kj^2               the same for features in any units
        common   (alpha / 2n)  (sum_j v_j)  sum_kj W_kj^2         the same for features in any axes

    "each" is right for the columns of a table, whose units mean nothing. In pixels or principal components, a small
    variance means that there is little to see, and "each" makes the noise there count as much as the picture. "auto"
    fits logistic regression to the noisy labels in both scalings, with the folds of cross-fitting, and compares the
    likelihood of the held-out labels, each at its best temperature: it uses "common" if that leads by more than 0.0025
    per label, and "each" otherwise or if there are fewer than 20 distinct rows per class. In large data, 5,000 distinct
    rows decide (more with many features or classes). No clean label is needed, because T is the same for both.

    *Standard errors.* ``transition_std_`` follows from the Fisher information of T given the held-out probabilities, of
    which a temperature and one bias per class are taken as unknown too, and, if the guard left one rate or none, from
    what it took back, whose square is added: labels that do not call for noise do not rule it out, either.

    *Defaults.* On 320 features of CIFAR-10 (50,000 rows, ``scaling="each"``, no guard), ten times the default alpha
    pulls T towards the identity, because the model cannot be sure of the clean class; a quarter of it makes the model
    too sure, so that T mistakes its errors for noise. volume = 5e-3 raises the error of T on pairflip 0.4 from 0.02 to
    0.06; below 1e-3 it trades a smaller error there (0.01) for a larger one on symmetric 0.6 (0.065).

    References
    ----------
    Li et al., Provably End-to-end Label-noise Learning without Anchor Points, ICML 2021.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from unflip.noise import corrupt, pairflip
    >>> X, y = make_blobs(3000, centers=3, random_state=0)
    >>> VolMin().fit(X, corrupt(y, pairflip(3, 0.3), random_state=0)).transition_.round(1) + 0.0
    array([[0.7, 0.3, 0. ], [0. , 0.7, 0.3], [0.3, 0. , 0.7]])
    """

    def __init__(
        self,
        *,
        transition: Any = None,
        volume: float = 1e-3,
        alpha: float = 0.004,
        scaling: str = "auto",
        rounds: int = 5,
        guard: bool = True,
        max_iter: int = 1000,
        tol: float | None = None,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.transition = transition
        self.volume = volume
        self.alpha = alpha
        self.scaling = scaling
        self.rounds = rounds
        self.guard = guard
        self.max_iter = max_iter
        self.tol = tol
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to noisy labels ``y`` of any kind; ``X`` may be sparse."""
        self._fit(X, y, sample_weight)
        return self

    def fit_held_out(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, folds: int | IntArray = 5
    ) -> FloatArray | None:
        """Fit, and return P(clean = k | x) of each row from a model that did not see it, shape (n_samples, n_classes).

        ``folds`` is the number of folds, or the fold of each row. If it is the number of folds in which T is
        cross-fitted, the models are those of the last round. If there are too few rows to hold any out, return None.
        """
        problem, posteriors, rows = self._fit(X, y, sample_weight)
        if posteriors is None:
            return None
        if not isinstance(folds, Integral):
            codes = np.unique(folds, return_inverse=True)[1]
            posteriors = held_out_posteriors(problem, self.transition_, codes[rows])
        elif folds != number_of_folds(problem):
            posteriors = held_out_posteriors(problem, self.transition_, problem.keys % folds)
        # A row of weight zero was not learned from.
        proba = np.empty((len(np.asarray(y)), len(self.classes_)))
        unseen = np.delete(np.arange(len(proba)), rows)
        proba[rows], proba[unseen] = posteriors, self.predict_proba(_safe_indexing(X, unseen)) if len(unseen) else 0
        return proba

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[Problem, FloatArray | None, IntArray]:
        """Fit, and return the problem, the posteriors of its rows that were held out, and which rows of X they are."""
        self._check_parameters()
        X, codes, weights = check_training_data(self, X, y, sample_weight, classes=self.classes)
        c, penalty = len(self.classes_), self.alpha * X.shape[1]
        self.scaling_ = choose_scaling(X, codes, weights, c) if self.scaling == "auto" else self.scaling
        problem, mean, scale = prepare(X, codes, weights, c, self.volume, penalty, self.scaling_)
        if self.transition is None:
            T, W, b, held_out, doubt = self._estimate(problem)
            posteriors = softmax(problem.logits(W, b), axis=0).T.astype(np.float64) if held_out is None else held_out
            self.transition_std_ = np.hypot(posterior_std(posteriors, T, problem.weights * problem.total), doubt)
        else:
            T, estimator = resolve_transition(self.transition, None, X, codes, self.classes_, weights)
            found = cross_fit_wide(problem, T, 1) if problem.is_wide else cross_fit(problem, T, 1, known=True)
            W, b = found[1:3] if found else problem.unpack(fit_model(problem, T, start_without_empty(problem, T)))
            held_out = found[3] if found else None
            self.transition_std_ = getattr(estimator, "transition_std_", np.zeros_like(T))
        self.transition_ = T
        prior = softmax(problem.logits(W, b), axis=0).astype(np.float64) @ problem.weights
        self.class_prior_ = prior / prior.sum()
        self.coef_ = W / scale
        self.intercept_ = b - self.coef_ @ mean
        return problem, held_out, rows_in_order(codes, weights)

    def _estimate(self, problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None, Any]:
        """Return T, W (c, d), b (c,), the posteriors of rows that were held out, if any were, and a doubt about T.

        The doubt is what the guard took back for want of evidence.
        """
        doubt: Any = 0.0
        found = cross_fit_wide(problem, None, self.rounds) if self.rounds and problem.is_wide else None
        if found is None:
            T, W, b = self._minimum_volume(problem)
            found = cross_fit(problem, T, self.rounds) if self.rounds and not problem.is_wide else None
            if found is None:
                return well_conditioned(T), W, b, None, doubt
            if self.guard:
                T = _guarded(problem, found[0])
                doubt = np.abs(T - found[0]) if is_even(T) else 0.0
                found = cross_fit(problem, T, 1, known=True) or found
        T, W, b, posteriors = found
        return well_conditioned(T), W, b, posteriors, doubt

    def _minimum_volume(self, problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return T, W (c, d) and b (c,) that minimize the objective."""
        c, d = len(problem.slices), problem.X.shape[1]
        small = problem.X.dtype == np.float64
        tol = self.tol if self.tol is not None else (1e-10 if small else ROUGH)
        options = {"maxiter": self.max_iter, "maxfun": 10 * self.max_iter, "gtol": tol, "ftol": 0.0, "maxcor": 20}
        start = np.zeros(d * c + c + c * c)
        result = minimize(objective, start, args=(problem,), jac=True, method="L-BFGS-B", options=options)
        theta = result.x
        stopped, gradient = result.nit >= self.max_iter, float(np.abs(result.jac).max())
        if stopped and (self.tol is not None or gradient > ROUGH):
            warnings.warn(
                f"VolMin stopped after max_iter={self.max_iter} iterations with a gradient of {gradient:.1e} "
                f"(tol={tol:.1e}); T is usually good by then. Raise max_iter or tol, or alpha if the classes are "
                "separable",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif not stopped and small and len(theta) <= LARGEST_POLISH:
            theta = _polish(theta, problem)
        self.n_iter_ = max(int(result.nit), 1)
        self.loss_ = float(result.fun)
        W, b, T = unpack(theta, problem)
        return T, W, b

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return P(clean = k | x), shape (n_samples, n_classes)."""
        proba: NDArray[Any] = softmax(self._scores(X), axis=1)
        return proba

    def _check_parameters(self) -> None:
        for name in ("volume", "alpha", "tol"):
            value: Any = getattr(self, name)
            if not (isinstance(value, Real) and 0 <= float(value) < np.inf) and not (name == "tol" and value is None):
                raise ValueError(f"{name} must be a number >= 0; got {value!r}")
        if not isinstance(self.guard, bool | np.bool_):
            raise ValueError(f"guard must be True or False; got {self.guard!r}")
        if not (isinstance(self.scaling, str) and self.scaling in ("each", "common", "auto")):
            raise ValueError(f"scaling must be 'each', 'common' or 'auto'; got {self.scaling!r}")
        for name, least in (("rounds", 0), ("max_iter", 1)):
            value = getattr(self, name)
            if not (isinstance(value, Integral) and int(value) >= least):
                raise ValueError(f"{name} must be a whole number >= {least}; got {value!r}")


def _guarded(problem: Problem, T: FloatArray) -> FloatArray:
    """Return the T that :func:`guarded` makes of T, for the classes that occur; the others keep their labels."""
    classes = np.flatnonzero(problem.present)
    block = np.ix_(classes, classes)
    folds = problem.keys % number_of_folds(problem)

    def embedded(part: FloatArray) -> FloatArray:
        whole = np.eye(len(T))
        whole[block] = part
        return whole

    def held_out(part: FloatArray) -> FloatArray:
        p = held_out_posteriors(problem, embedded(part), folds)[:, classes]
        return p / p.sum(axis=1, keepdims=True)

    w = problem.weights * problem.total
    w = w * max(1.0, len(w) / w.sum())  # less than one label per row would leave everything to priors
    start = T[block] / T[block].sum(axis=1, keepdims=True)
    return embedded(guarded(start, held_out, np.searchsorted(classes, problem.codes), w, folds))


def _unpack(theta: FloatArray, problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return W (c, d), b (c,) and V (c, c)."""
    c = len(problem.slices)
    return *problem.unpack(theta[: -c * c]), -np.log(c) + np.sqrt(c) * theta[-c * c :].reshape(c, c)


def unpack(theta: FloatArray, problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return W (c, d), b (c,) and T (c, c)."""
    W, b, V = _unpack(theta, problem)
    return W, b, _transition(V)[0]


def to_parameters(problem: Problem, W: FloatArray, b: FloatArray, T: FloatArray) -> FloatArray:
    """Return theta = (U, b, V) with these W, b and T, as far as the diagonal of T is the largest entry of its row."""
    c = len(T)
    U = W if problem.whitening is None else solve_triangular(problem.whitening.T, W.T).T  # W = U P
    V = logit(np.clip(T / np.maximum(T.diagonal()[:, np.newaxis], 1e-12), 1e-6, 1 - 1e-6))
    return np.concatenate([U.ravel(), b, ((V + np.log(c)) / np.sqrt(c)).ravel()])


def _transition(V: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return T, sigmoid(V) and the row sums of A = I + sigmoid(V) * (1 - I), with T = A / row sums."""
    s = np.maximum(expit(V), 1e-12)
    A = np.where(np.eye(len(V), dtype=bool), 1, s)
    sums = A.sum(axis=1, keepdims=True)
    return A / sums, s, sums


def _polish(theta: FloatArray, problem: Problem, steps: int = 4) -> FloatArray:
    """Return theta after Newton steps, with the Hessian by central differences of the gradient.

    A line search on values stops where they differ by rounding, that is at about 1e-8 in theta. Newton steps need only
    the gradient and continue to rounding in theta, so that equal problems (rows repeated, rows weighted) give equal T.
    """
    _, g = objective(theta, problem)
    for _ in range(steps):
        shifts = 1e-5 * np.eye(len(theta))
        H = np.stack([objective(theta + e, problem)[1] - objective(theta - e, problem)[1] for e in shifts]) / 2e-5
        # Adding a constant to b, and the diagonal of V, change nothing: lstsq leaves these directions alone.
        try:
            step = np.linalg.lstsq((H + H.T) / 2, g, rcond=1e-9)[0]
        except np.linalg.LinAlgError:  # features that do not vary leave nothing to solve for
            break
        _, g_next = objective(theta - step, problem)
        if not np.abs(g_next).max() < 0.5 * np.abs(g).max():
            break
        theta, g = theta - step, g_next
    return theta


def objective(theta: FloatArray, problem: Problem) -> tuple[float, FloatArray]:
    """Return the penalized loss and its gradient in theta = (U, b, V)."""
    c, total, volume = len(problem.slices), problem.total, problem.volume
    W, b, V = _unpack(theta, problem)
    T, s, sums = _transition(V)
    T_0 = np.eye(c) / 2 + 1 / (2 * c)  # where T starts, and the labels of its pseudo-samples
    loss, g_U, g_b, counts = problem.loss(W, b, T)
    inner = T @ T.T + FLOOR * np.eye(c)
    value = loss + volume * np.linalg.slogdet(inner)[1] / 2 - np.sum(T_0 * np.log(T)) / total
    g_T = volume * np.linalg.solve(inner, T) - (counts + T_0 / total) / T
    g_A = (g_T - np.sum(g_T * T, axis=1, keepdims=True)) / sums
    g_V = np.sqrt(c) * g_A * s * (1 - s)
    np.fill_diagonal(g_V, 0)  # the diagonal of A is one
    return float(value), np.concatenate([g_U.ravel(), g_b, g_V.ravel()])
