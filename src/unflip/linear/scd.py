"""SCD: a low-rank classifier and a graph with one component per class, learned in turn."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.utils import check_random_state

from unflip._validation import FloatArray, IntArray
from unflip.linear import lnsi
from unflip.linear._base import check_count
from unflip.linear.lnsi import LNSIClassifier, LowRankFit, ScaledFeatures

CANDIDATES = 3  # times n_neighbors: the learned graph chooses among so many neighbors in X
SMALL = 300  # samples; up to here all eigenvectors cost less than Lanczos
LANCZOS_TOLERANCE = 1e-4
ISLAND = 0.2  # of the mean size of a component; a smaller piece that lies apart is not a class


@dataclass(eq=False, repr=False, kw_only=True)
class SCDClassifier(LNSIClassifier):
    """SCD: a robust low-rank classifier and an affinity graph of exactly n_classes components, learned in turn.

    **A reconstruction from the abstract.** Known are: two stages that alternate; a learning stage that fits a robust
    classifier by a low-rank approximation of the true label matrix, with a matrix factorization and a graph Laplacian;
    a clustering stage that learns an ideal affinity graph, with exactly as many connected components as there are
    classes. Not known are the objective as printed, its weights, its solver and its hyperparameters; no code was
    available. The accuracy of this class is therefore no evidence about the paper's.

    Learning stage, on the graph S with Laplacian L_S; A is the feature matrix, centered and divided by its Frobenius
    norm::

        min  (|U|^2 + |V|^2)/2 + alpha |E|_{2,1} + (beta/2) tr(W' A' L_S A W)
        subject to    Y = A W + 1 b' + E,    W = U V'

    The minimum of the first term over U and V, with at least as many columns as the best W needs, is the nuclear norm
    |W|_* (Srebro et al. 2004). This is the problem of :class:`~unflip.linear.LNSIClassifier`, solved by the same
    method, which starts where the last round ended. The first round uses LNSI's Gaussian graph.

    Clustering stage, on the scores F = A W + 1 b' (Nie et al. 2014, 2016)::

        min  sum_ij |f_i - f_j|^2 s_ij + gamma_i s_ij^2 + 2 eta tr(Q' L_S Q)    subject to    s_ij >= 0, sum_j s_ij = 1

    The rows s_i have a closed form, Q are eigenvectors of the graph, and eta is doubled or halved while the graph has
    too few or too many components. See Notes for how exactly n_classes are reached.

    Parameters
    ----------
    alpha, beta, n_neighbors, tol, max_iter, classes
        As in :class:`~unflip.linear.LNSIClassifier`, for both graphs and for each learning stage.
    rank : int, default=None
        The number of columns of U and V. If None, n_classes is used, which never binds. With a smaller rank, V is fixed
        to the leading right singular vectors of the solution without a bound: over both, the problem would not be
        convex.
    n_rounds : int, default=3
        Clustering stages, each followed by a learning stage; it stops earlier once no prediction for the training data
        changes.
    random_state : int, RandomState instance or None, default=None
        Seed of the start vector of Lanczos, which is not needed up to a few hundred samples.

    Attributes
    ----------
    classes_, coef_, intercept_, outlier_score_, residuals_, n_features_in_, feature_names_in_
        As in :class:`~unflip.linear.LNSIClassifier`, from the last learning stage.
    component_ : ndarray of shape (n_samples,)
        The connected component of each sample in the last graph, as an index into ``classes_``: component j began as
        the samples that were predicted as ``classes_[j]``.
    n_rounds_, n_iter_ : int
        Clustering stages that were made, and iterations of the solver over all rounds.

    Notes
    -----
    These parts of the clustering stage are ours. A sample chooses its neighbors among the 3 n_neighbors nearest in X,
    so that the graph is sparse and the neighbor search is done once. Islands smaller than a fifth of the mean class are
    joined to the nearest piece before the eigenvectors are computed. The spectral cluster of a sample is the class
    whose mean direction in Q is nearest. The search for eta also stops when the weight between the clusters no longer
    falls, since on real data it seldom vanishes. Then the edges between clusters are cut, and each part that is
    separate from the largest piece of its cluster is joined, by one edge, to the piece whose scores are nearest: the
    graph has exactly n_classes components (or n_samples, if that is less).

    ``predict_proba`` and sample weights are as in :class:`~unflip.linear.LNSIClassifier`.

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
    >>> SCDClassifier(random_state=0).fit(X, corrupt(y, symmetric(10, 0.2), random_state=0)).score(X, y) > 0.9
    True
    """

    rank: int | None = None
    n_rounds: int = 3

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count(self, "n_rounds")
        if self.rank is not None:
            check_count(self, "rank")

    def _solve(self, A: ScaledFeatures, Y: NDArray[Any], columns: IntArray) -> LowRankFit:
        rng = check_random_state(self.random_state)
        solve = partial(
            lnsi.solve_low_rank, A, Y, alpha=self.alpha, beta=self.beta, tol=self.tol, max_iter=self.max_iter
        )
        k = self.n_neighbors
        distances, candidates = lnsi.nearest_neighbors(A.X, CANDIDATES * k)
        H = A.gram(lnsi.gaussian_graph(distances[:, :k], candidates[:, :k]))
        fit = solve(H)
        self.n_iter_, self.n_rounds_ = fit.n_iter, 0
        if self.rank is not None and self.rank < len(columns):
            solve = partial(solve, basis=np.linalg.svd(fit.W, full_matrices=False)[2][: self.rank].T)
            fit = solve(H, start=fit)
            self.n_iter_ += fit.n_iter
        F, changed = A.times(fit.W) + fit.b, True
        while changed and self.n_rounds_ < self.n_rounds:
            graph, component = graph_of_components(F, candidates, len(columns), k, rng)
            fit = solve(A.gram(graph), start=fit)
            before, F = F, A.times(fit.W) + fit.b
            changed = bool(np.any(F.argmax(axis=1) != before.argmax(axis=1)))
            self.n_iter_, self.n_rounds_ = self.n_iter_ + fit.n_iter, self.n_rounds_ + 1
        self.component_ = columns[component]
        return fit


def graph_of_components(
    F: FloatArray, indices: IntArray, n_components: int, k: int, rng: np.random.RandomState
) -> tuple[Any, IntArray]:
    """Return a symmetric graph of exactly ``n_components`` components and the component of each sample.

    The affinities of Nie et al. to candidate neighbors, at distances that draw together what the eigenvectors q of the
    previous graph hold together::

        d_ij = |f_i - f_j|^2 + eta |q_i - q_j|^2

    Changing eta alone seldom works: a graph hangs together by a few edges, has small islands, and a large eta forgets
    f. Hence the other steps, see the Notes of :class:`SCDClassifier`; islands take the q of the piece that they join.
    ``F`` are the scores, (n_samples, n_scores); ``indices`` the candidate neighbors of each sample, of which k count.
    """
    by_scores = _distances_to(F, indices)
    by_scores /= by_scores.mean() or 1.0  # on the scale of q
    n_components = min(n_components, len(F))
    distances, eta, least = by_scores, 1.0, np.inf
    for _ in range(10):
        candidate = lnsi.sparse_rows(simplex_affinities(distances, k), indices)
        candidate = (candidate + candidate.T) / 2
        pieces = connected_components(candidate, directed=False)[1]
        sizes = np.bincount(pieces)
        main = sizes[pieces] >= min(ISLAND * len(F) / n_components, sizes.max())
        i, j = nearest_to(main, pieces, F)
        Q = np.empty((len(F), n_components))
        Q[main] = spectral_embedding(candidate[main][:, main], n_components, rng)
        Q[~main] = Q[j[np.searchsorted(pieces[i], pieces[~main])]]
        candidate = _with_edges(candidate, i, j, 1 / k).tocoo()
        clusters = spectral_clusters(Q, F.argmax(axis=1), n_components)
        within = clusters[candidate.row] == clusters[candidate.col]
        cut = candidate.data[~within].sum()
        if cut >= least:
            break
        least, parts = cut, clusters
        edges = candidate.data[within], (candidate.row[within], candidate.col[within])
        graph = sparse.csr_array(edges, shape=candidate.shape)
        found = connected_components(candidate, directed=False)[0]
        if found == n_components:
            break
        distances = by_scores + eta * _distances_to(Q, indices)
        eta *= 2 if found < n_components else 0.5
    graph, component = join_islands(graph, parts, F, 1 / k)
    return lnsi.unit_mean_degree(graph), component


def simplex_affinities(distances: FloatArray, k: int) -> FloatArray:
    """Return the affinities s_ij of sample i to its neighbors, shape of ``distances``; k per row are positive.

    ::

        s_ij = (d_i,k+1 - d_ij) / (k d_i,k+1 - d_i1 - ... - d_ik)    with d_i1 <= d_i2 <= ...

    which minimizes sum_j d_ij s_ij + gamma_i s_ij^2 over the simplex, gamma_i being the weight that leaves k positive
    (Nie et al. 2014). With k neighbors or fewer, all but the last count; if all are equally far, k share equally.
    """
    if distances.shape[1] == 1:
        return np.ones_like(distances)
    k = min(k, distances.shape[1] - 1)
    order = np.argpartition(distances, k, axis=1)
    nearest = order[:, :k]
    gaps = np.take_along_axis(distances, order[:, k : k + 1], axis=1) - np.take_along_axis(distances, nearest, axis=1)
    total = gaps.sum(axis=1, keepdims=True)
    S = np.zeros_like(distances)
    np.put_along_axis(S, nearest, np.where(total > 0, gaps / np.where(total > 0, total, 1), 1 / k), axis=1)
    return S


def spectral_embedding(graph: Any, n_columns: int, rng: np.random.RandomState) -> FloatArray:
    """Return the leading eigenvectors of (D + I)^-1/2 (A + 11'/n) (D + I)^-1/2, with rows of mean square one.

    A is a graph of degrees about one. The faint edge 1/n between all pairs keeps thin tails of low degree from taking
    the leading eigenvectors for themselves (regularized spectral clustering, Zhang and Rohe 2018), and separates their
    eigenvalues from the bulk, which Lanczos needs. Columns that Lanczos does not find are zero.
    """
    n = graph.shape[0]
    root = 1 / np.sqrt(graph.sum(axis=1) + 1)

    def times(v: FloatArray) -> FloatArray:
        u = root * v.ravel()
        return root * (graph @ u + u.sum() / n)

    if n <= max(SMALL, 8 * n_columns):
        Q = np.linalg.eigh(root[:, np.newaxis] * (graph.toarray() + 1 / n) * root)[1][:, -n_columns:]
    else:
        Q = _lanczos(LinearOperator((n, n), matvec=times, dtype=np.float64), n_columns, rng.uniform(-1, 1, n))
    padded = np.zeros((n, n_columns))
    padded[:, : Q.shape[1]] = Q * np.sqrt(n / max(Q.shape[1], 1))
    return padded


def _lanczos(operator: Any, n_columns: int, start: FloatArray) -> FloatArray:
    """Return as many of the leading eigenvectors as are found; it never fails."""
    for n_vectors in (max(4 * n_columns, 40), max(8 * n_columns, 80)):
        options = {"which": "LA", "v0": start, "ncv": min(n_vectors, len(start)), "tol": LANCZOS_TOLERANCE}
        try:
            return np.asarray(eigsh(operator, n_columns, maxiter=200, **options)[1])
        except ArpackNoConvergence as error:
            found = error.eigenvectors
    return np.asarray(found)  # some directions of the wanted space; the clusters are then found in those


def spectral_clusters(Q: FloatArray, start: IntArray, n_clusters: int) -> IntArray:
    """Return the nearest of n_clusters directions for each row of Q: the mean ones of ``start``. No cluster is empty.

    A cluster that is absent from ``start`` begins at the row that is farthest from the other directions. This is the
    first step of k-means; more steps would leave the classes behind for what splits the graph best.
    """
    # Rows have mean square one; the direction of a row that is nearly zero is what Lanczos left of rounding.
    U = Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), 10 * LANCZOS_TOLERANCE)
    start = np.minimum(start, n_clusters - 1)
    counts = np.bincount(start, minlength=n_clusters)
    sums = np.stack([np.bincount(start, column, minlength=n_clusters) for column in U.T], axis=1)
    centers = sums / np.maximum(counts, 1)[:, np.newaxis]
    known = counts > 0
    for absent in np.flatnonzero(~known):
        centers[absent] = U[cdist(U, centers[known]).min(axis=1).argmax()]
        known[absent] = True
    distances = cdist(U, centers)
    clusters = distances.argmin(axis=1)
    for empty in np.flatnonzero(np.bincount(clusters, minlength=n_clusters) == 0):
        to_own = distances[np.arange(len(U)), clusters]
        to_own[np.bincount(clusters, minlength=n_clusters)[clusters] == 1] = -1  # the last one stays
        clusters[to_own.argmax()] = empty
    return clusters


def join_islands(graph: Any, parts: IntArray, F: FloatArray, weight: float) -> tuple[Any, IntArray]:
    """Return the graph with more edges of ``weight``, one component per part, and the component of each sample.

    The largest connected piece of each part represents it; every other piece joins the nearest of these, by the rows of
    F. No edge of ``graph`` may lead from one part to another.
    """
    pieces = connected_components(graph, directed=False)[1]
    by_size = np.lexsort((pieces, -np.bincount(pieces)[pieces], parts))
    largest = pieces[by_size[np.unique(parts[by_size], return_index=True)[1]]]
    main = np.isin(pieces, largest)
    i, j = nearest_to(main, pieces, F)
    component = parts.copy()
    component[~main] = parts[j[np.searchsorted(pieces[i], pieces[~main])]]
    return _with_edges(graph, i, j, weight), component


def nearest_to(main: NDArray[np.bool_], pieces: IntArray, F: FloatArray) -> tuple[IntArray, IntArray]:
    """Return for each piece outside ``main``, in order, its sample nearest to main and that sample's neighbor there."""
    outside, inside = np.flatnonzero(~main), np.flatnonzero(main)
    if len(outside) == 0:
        return outside, outside
    nearest, distance = pairwise_distances_argmin_min(F[outside], F[inside])
    order = np.argsort(distance, kind="stable")
    first = order[np.unique(pieces[outside[order]], return_index=True)[1]]
    return outside[first], inside[nearest[first]]


def _with_edges(graph: Any, i: IntArray, j: IntArray, weight: float) -> Any:
    bridges = sparse.csr_array((np.full(len(i), weight), (i, j)), shape=graph.shape)
    return graph + bridges + bridges.T


def _distances_to(F: FloatArray, indices: IntArray) -> FloatArray:
    """Return |f_i - f_j|^2 for the candidates j of each i; by column, since n_samples x n_candidates x c is large."""
    return np.stack([np.sum((F - F[column]) ** 2, axis=1) for column in indices.T], axis=1)
