"""Cross-fitting for VolMin: T from posteriors of models that did not see the sample."""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from unflip._validation import FloatArray, IntArray
from unflip.core.em import em_transition
from unflip.transition._forward_logistic import Problem, codes_of, label_loss, logits, take, with_penalty

ALPHA = 0.25  # penalty of the models per feature; the temperature makes up for it, 0.06 and 1 give nearly the same T
LEAST_ROWS = 20  # distinct rows per class; with fewer the models of the folds know too little
LARGE = 10_000_000  # n_samples x n_features x n_classes: from here on two folds instead of five
LIFT = 0.01  # EM cannot leave a zero: the start is mixed with so much of the uniform matrix
EM_STEPS = 30
SETTLED = 0.005  # mean change of a row of T, summed over its entries, at which the rounds end


def cross_fit(problem: Problem, X: Any, T: FloatArray, rounds: int) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return T refined, and W (c, d) and b (c,) of the clean model that goes with it; None if there are too few rows.

    A model that saw a label explains it by itself, and leaves T too near to the identity. So each fold gets the logits
    z of a model that did not see it, fitted through the current T; then T and one temperature t are fitted to the noisy
    labels of all folds, and the round begins anew::

        max over t, T   sum_i w_i log (softmax(t z_i) T)[y_i]

    T by EM. The temperature matters: penalised models are less sure than they should be, and T would have to make up
    for it. The rounds end early when T hardly moves.
    """
    c, d = len(problem.slices), problem.X.shape[1]
    problem, keys, folds = _in_folds(problem, X)
    if not folds:
        return None
    codes = codes_of(problem)
    seen = [take(problem, keys % folds != k) for k in range(folds)]
    unseen = [np.flatnonzero(keys % folds == k) for k in range(folds)]
    models = [np.zeros(c * d + c) for _ in range(folds)]

    T = (1 - LIFT) * T + LIFT / c
    z = np.empty((c, len(keys)))
    temperature = 1.0
    for _ in range(rounds):
        for k in range(folds):
            models[k] = _fit_model(seen[k], T, models[k])
            held_out = problem._replace(X=problem.X[unseen[k]])
            z[:, unseen[k]] = logits(*_unpack(models[k], problem), held_out)
        temperature, _ = _temperature(z, codes, T, problem.weights)
        posteriors = softmax(temperature * z, axis=0).T
        before, T = T, em_transition(posteriors, codes, T, steps=EM_STEPS, sample_weight=problem.weights)
        if np.abs(T - before).sum() < SETTLED * c:
            break
    W, b = _unpack(_fit_model(problem, T, np.mean(models, axis=0)), problem)
    return T, temperature * W, temperature * b


def held_out_losses(problem: Problem, X: Any) -> FloatArray | None:
    """Return how badly a logistic model predicts the noisy labels that it did not see, shape (n,); None: too few rows.

    ::

        -log softmax(t z_i)[y_i]        z_i of the model that saw the other folds, t with the least sum
    """
    c, d = len(problem.slices), problem.X.shape[1]
    problem, keys, folds = _in_folds(problem, X)
    if not folds:
        return None
    z = np.empty((c, len(keys)))
    for k in range(folds):
        unseen = keys % folds == k
        model = _fit_model(take(problem, ~unseen), np.eye(c), np.zeros(c * d + c))
        z[:, unseen] = logits(*_unpack(model, problem), problem._replace(X=problem.X[unseen]))
    codes = codes_of(problem)
    t, _ = _temperature(z, codes, np.eye(c), problem.weights)
    losses: FloatArray = -log_softmax(t * z, axis=0)[codes, np.arange(len(codes))]
    return losses


def row_keys(X: Any) -> NDArray[np.uint32]:
    """Return a number for each row that depends on its values alone, shape (n,).

    Folds by these numbers put equal rows into one fold, in any order and with any weights: a sample that is there twice
    cannot be seen and unseen, and weights equal repetition.
    """
    keys = np.empty(X.shape[0], dtype=np.uint32)
    step = max(1, 1_000_000 // X.shape[1])
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        block = block.toarray() if sparse.issparse(block) else block
        block = np.ascontiguousarray(block, dtype=np.float64) + 0.0  # no -0.0
        keys[start : start + step] = [zlib.crc32(row) for row in block]
    return keys


def _in_folds(problem: Problem, X: Any) -> tuple[Problem, NDArray[np.uint32], int]:
    """The problem with the penalty of a fold's model, the keys of its rows, and the number of folds."""
    keys = row_keys(X)[problem.rows]
    return with_penalty(problem, ALPHA * problem.X.shape[1]), keys, _number_of_folds(keys, problem)


def _number_of_folds(keys: NDArray[np.uint32], problem: Problem) -> int:
    """Five, two for large data, none for data with too few different rows."""
    c, d = len(problem.slices), problem.X.shape[1]
    if min(len(np.unique(keys)), problem.total) < LEAST_ROWS * c:
        return 0
    return 2 if len(keys) * d * c > LARGE else 5


def _fit_model(problem: Problem, T: FloatArray, start: FloatArray) -> FloatArray:
    """Return (U, b) that explain the noisy labels through a fixed T."""

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        loss, g_U, g_b, _ = label_loss(*_unpack(theta, problem), T, problem)
        return loss, np.concatenate([g_U.ravel(), g_b])

    options = {"maxiter": 200, "gtol": 1e-4, "ftol": 0.0, "maxcor": 20}
    solution: FloatArray = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    return solution


def _unpack(theta: FloatArray, problem: Problem) -> tuple[FloatArray, FloatArray]:
    """Return W (c, d) and b (c,)."""
    c = len(problem.slices)
    U, b = theta[:-c].reshape(c, -1), theta[-c:]
    return (U if problem.whitening is None else U @ problem.whitening), b


def _temperature(z: FloatArray, codes: IntArray, T: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return t with the most likely noisy labels under softmax(t z) T, and the loss with it."""
    columns = T[:, codes]  # (c, n)

    def loss(log_t: float) -> float:
        p = np.sum(softmax(np.exp(log_t) * z, axis=0) * columns, axis=0)
        return -float(weights @ np.log(np.maximum(p, 1e-30)))

    found = minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x)), float(found.fun)
