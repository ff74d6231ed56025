"""LNSI: low-rank scores, row-sparse errors and a neighbour graph."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from unflip.linear._graph import gaussian_graph, laplacian, nearest_neighbours
from unflip.linear._low_rank import LowRankClassifier, solve_low_rank


class LNSIClassifier(LowRankClassifier):
    """Harnessing side information for label noise (LNSI): wrong labels are the rows that a low-rank model leaves over.

    The noisy one-hot labels Y are low-rank linear scores plus errors of few samples; samples that are near to each
    other have near scores::

        min  |W|_* + alpha |E|_{2,1} + (beta/2) tr(W' A' L A W)    subject to    Y = A W + 1 b' + E

    A are the features, centred and divided by their Frobenius norm; |W|_* is the sum of singular values, |E|_{2,1} the
    sum of the lengths of rows; L is the Laplacian of the k-nearest-neighbour graph with a_ij = exp(-|x_i - x_j|^2 /
    (2 h^2)), h the median distance of neighbours, scaled to a mean degree of one. A large row of E marks a label that
    neither the features nor the neighbours explain.

    The transition matrix appears nowhere: the method takes wrong labels as errors of any kind, so there is no
    ``transition`` to give.

    Parameters
    ----------
    alpha : float, default=10.0
        Weight of the errors. A smaller one gives a lower rank and simpler scores. As A has norm one, a good alpha does
        not depend on the units of X, and little on the number of samples.
    beta : float, default=1.0
        Weight of the graph, per sample as alpha is; 0 leaves the graph out and saves the neighbour search.
    n_neighbors : int, default=10
        Neighbours of a sample in the graph; all other samples where they are fewer.
    tol : float, default=1e-4
        The solver stops when all relative residuals are below.
    max_iter : int, default=1000
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, where the noisy labels lack some.
    random_state : int, RandomState instance or None, default=None
        Not used, the fit is deterministic; there for the sake of code that sets it for every classifier.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
    outlier_score_ : ndarray of shape (n_samples,)
        The length of each row of E: large for a label that is probably wrong, between 0 and about 1.4.
    n_iter_ : int
        Iterations of the solver, counted in steps of ten.
    residuals_ : ndarray of shape (4,)
        Relative residuals at the end: of Y = A W + 1 b' + E, of the copy of W in the nuclear norm, and of the
        optimality conditions of W and of b.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    The decomposition and its norms are those of the paper, as far as its abstract and later descriptions tell; the
    graph term is known from a caption in Luo et al. (2020), "the affinity graph used in LNSI, computed by Gaussian
    kernel"; no code and no hyper-parameters were at hand. Ours are the intercept, the sparse graph, and the scaling of
    A and of the graph.

    Solved by ADMM. Its penalties balance primal and dual residuals (Boyd et al. 2011, section 3.4.1) instead of growing
    by a fixed factor, since a penalty that only grows freezes the iterates before the optimum. An iteration costs two
    products with X; memory is O(n_features^2 + n_samples (n_features + n_classes + n_neighbors)). A dense X is copied
    once to be centred; a sparse one is not. The neighbour search compares all pairs of samples when there are more than
    15 features.

    Like every regression on one-hot labels, this one overlooks a class that lies between two others on a line: its
    score is nowhere the largest. Features of the second order mend that.

    ``fit`` takes no sample weights: a neighbour graph has no place for them.

    References
    ----------
    Wei, Gong, Chen, Liu, Yang, Tao, Harnessing Side Information for Classification Under Label Noise, IEEE TNNLS 31(9),
    2020.
    Boyd, Parikh, Chu, Peleato, Eckstein, Distributed Optimization and Statistical Learning via the Alternating
    Direction Method of Multipliers, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = load_digits(return_X_y=True)
    >>> noisy = corrupt(y, symmetric(10, 0.2), random_state=0)
    >>> LNSIClassifier().fit(X, noisy).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        *,
        alpha: float = 10.0,
        beta: float = 1.0,
        n_neighbors: int = 10,
        tol: float = 1e-4,
        max_iter: int = 1000,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.n_neighbors = n_neighbors
        self.tol = tol
        self.max_iter = max_iter
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, **refused: Any) -> Self:
        """Fit to noisy labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Noisy labels of any kind.
        **refused
            Nothing more is taken; ``sample_weight`` is refused with the reason.
        """
        A, Y, columns = self._problem(X, y, refused)
        if self.beta:
            L = laplacian(gaussian_graph(*nearest_neighbours(A.X, self.n_neighbors)))
            H = A.gram(L)
        else:
            H = np.zeros((self.n_features_in_, self.n_features_in_))
        fit = solve_low_rank(A, Y, H, alpha=self.alpha, beta=self.beta, tol=self.tol, max_iter=self.max_iter)
        self._keep(A, fit, columns)
        self.n_iter_ = fit.n_iter
        return self
