"""SCD: a low-rank classifier and a graph with one component per class, learned in turn."""

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from unflip.linear._graph import gaussian_graph, graph_of_components, laplacian, nearest_neighbours
from unflip.linear._low_rank import LowRankClassifier, solve_low_rank

CANDIDATES = 3  # times n_neighbors: among so many neighbours in X the learned graph chooses


class SCDClassifier(LowRankClassifier):
    """SCD: a robust low-rank classifier and an affinity graph of exactly n_classes components, learned in turn.

    **A reconstruction from the abstract.** Known are: two stages that alternate; a learning stage that fits a robust
    classifier by a low-rank approximation of the true label matrix, with a matrix factorisation and a graph Laplacian;
    a clustering stage that learns an ideal affinity graph, of exactly as many connected components as there are
    classes. Not known are the objective as printed, its weights, its solver and its hyper-parameters; no code was at
    hand. The accuracy of this class is therefore no evidence about the paper's.

    Learning stage, on the graph S with Laplacian L_S; A are the features, centred and divided by their Frobenius norm::

        min  (|U|^2 + |V|^2)/2 + alpha |E|_{2,1} + (beta/2) tr(W' A' L_S A W)
        subject to    Y = A W + 1 b' + E,    W = U V'

    The minimum of the first term over U and V, with as many columns as the best W needs or more, is the nuclear norm
    |W|_* (Srebro et al. 2004): the problem of :class:`~unflip.linear.LNSIClassifier`, solved by the same method, which
    starts where the last round ended. Before the first round there is LNSI's Gaussian graph.

    Clustering stage, on the scores F = A W + 1 b' (Nie et al. 2014, 2016)::

        min  sum_ij |f_i - f_j|^2 s_ij + gamma_i s_ij^2 + 2 eta tr(Q' L_S Q)    subject to    s_ij >= 0, sum_j s_ij = 1

    The rows s_i have a closed form, Q are eigenvectors of the graph, and eta is doubled or halved while the graph has
    too few or too many components. See Notes for how exactly n_classes are reached.

    The transition matrix appears nowhere: the method takes wrong labels as errors of any kind, so there is no
    ``transition`` to give.

    Parameters
    ----------
    alpha : float, default=10.0
        Weight of the errors, see :class:`~unflip.linear.LNSIClassifier`.
    beta : float, default=1.0
        Weight of the graph. Each graph is scaled to a mean degree of one.
    n_neighbors : int, default=10
        Neighbours of a sample in either graph; fewer where there are not so many samples.
    rank : int, default=None
        The number of columns of U and V; None is n_classes, which never binds. With a smaller one V is kept as the
        leading right singular vectors of the solution without a bound: over both the problem would not be convex.
    n_rounds : int, default=3
        Clustering stages, each followed by a learning stage; fewer once no prediction for the training data changes.
    tol : float, default=1e-4
        The solver of the learning stage stops when all relative residuals are below.
    max_iter : int, default=1000
        Iterations of one learning stage.
    classes : array-like of shape (n_classes,), default=None
        All classes, sorted, where the noisy labels lack some.
    random_state : int, RandomState instance or None, default=None
        Seeds the start vector of Lanczos, which hundreds of samples or fewer do without.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
    outlier_score_ : ndarray of shape (n_samples,)
        The length of each row of E: large for a label that is probably wrong, between 0 and about 1.4.
    component_ : ndarray of shape (n_samples,)
        The connected component of each sample in the last graph, as an index into ``classes_``: component j began as
        the samples that were predicted as ``classes_[j]``.
    n_rounds_ : int
        Clustering stages that were made.
    n_iter_ : int
        Iterations of the solver, over all rounds.
    residuals_ : ndarray of shape (4,)
        Of the last learning stage, see :class:`~unflip.linear.LNSIClassifier`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    These parts of the clustering stage are ours. A sample chooses its neighbours among the 3 n_neighbors nearest in X,
    so that the graph is sparse and the neighbour search is made once. Islands of less than a fifth of the mean class
    are joined to what is nearest before the eigenvectors are taken. The spectral cluster of a sample is the class whose
    mean direction in Q is nearest. The search for eta also ends when the weight between the clusters no longer falls,
    since on real data it seldom vanishes. Then the edges between clusters are cut, and what is apart from the largest
    piece of its cluster is joined, by one edge, to the piece whose scores are nearest: the graph has exactly n_classes
    components (n_samples, if those are fewer).

    ``fit`` takes no sample weights: a neighbour graph has no place for them.

    References
    ----------
    Luo, Han, Gong, A Bi-level Formulation for Label Noise Learning with Spectral Cluster Discovery, IJCAI 2020.
    Srebro, Rennie, Jaakkola, Maximum-Margin Matrix Factorization, NIPS 2004.
    Nie, Wang, Huang, Clustering and Projected Clustering with Adaptive Neighbors, KDD 2014.
    Nie, Wang, Jordan, Huang, The Constrained Laplacian Rank Algorithm for Graph-Based Clustering, AAAI 2016.
    Zhang, Rohe, Understanding Regularized Spectral Clustering via Graph Conductance, NeurIPS 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unflip.noise import corrupt, symmetric
    >>> X, y = load_digits(return_X_y=True)
    >>> noisy = corrupt(y, symmetric(10, 0.2), random_state=0)
    >>> SCDClassifier(random_state=0).fit(X, noisy).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        *,
        alpha: float = 10.0,
        beta: float = 1.0,
        n_neighbors: int = 10,
        rank: int | None = None,
        n_rounds: int = 3,
        tol: float = 1e-4,
        max_iter: int = 1000,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.n_neighbors = n_neighbors
        self.rank = rank
        self.n_rounds = n_rounds
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
        rng = check_random_state(self.random_state)
        solve = partial(solve_low_rank, A, Y, alpha=self.alpha, beta=self.beta, tol=self.tol, max_iter=self.max_iter)
        k = self.n_neighbors
        distances, candidates = nearest_neighbours(A.X, CANDIDATES * k)
        H = A.gram(laplacian(gaussian_graph(distances[:, :k], candidates[:, :k])))
        fit = solve(H)
        self.n_iter_, self.n_rounds_ = fit.n_iter, 0
        if self.rank is not None and self.rank < len(columns):
            solve = partial(solve, basis=np.linalg.svd(fit.W, full_matrices=False)[2][: self.rank].T)
            fit = solve(H, start=fit)
            self.n_iter_ += fit.n_iter
        F, changed = A.times(fit.W) + fit.b, True
        while changed and self.n_rounds_ < self.n_rounds:
            graph, component = graph_of_components(F, candidates, len(columns), k, rng)
            fit = solve(A.gram(laplacian(graph)), start=fit)
            before, F = F, A.times(fit.W) + fit.b
            changed = bool(np.any(F.argmax(axis=1) != before.argmax(axis=1)))
            self.n_iter_, self.n_rounds_ = self.n_iter_ + fit.n_iter, self.n_rounds_ + 1
        self._keep(A, fit, columns)
        self.component_ = columns[component]
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_counts("n_rounds", *(() if self.rank is None else ("rank",)))
