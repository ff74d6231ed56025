"""Sparse neighbour graphs: the Gaussian one of LNSI and the one with a given number of components of SCD."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.neighbors import NearestNeighbors

from unflip._validation import FloatArray, IntArray

SMALL = 300  # samples; up to here all eigenvectors cost less than Lanczos
LANCZOS_TOLERANCE = 1e-4
ETA_STEPS = 10
ISLAND = 0.2  # of the mean size of a component; what lies apart and is smaller is no class


def nearest_neighbours(X: Any, k: int) -> tuple[NDArray[Any], IntArray]:
    """Distances and indices of the k nearest other samples, nearest first; of all others where they are fewer."""
    if X.shape[0] < 2:
        raise ValueError("a neighbour graph needs at least two samples; got one. Give more rows of X")
    distances, indices = NearestNeighbors(n_neighbors=min(k, X.shape[0] - 1)).fit(X).kneighbors()
    return distances, indices


def gaussian_graph(distances: NDArray[Any], indices: IntArray) -> Any:
    """Return the symmetric graph a_ij = exp(-|x_i - x_j|^2 / (2 h^2)) of neighbours, scaled to a mean degree of one.

    Two samples are joined if either is a neighbour of the other; h is the median distance of neighbours that lie apart.
    """
    apart = distances[distances > 0]  # repeated rows say nothing of the scale
    h = float(np.median(apart)) if len(apart) else 1.0
    graph = _sparse_rows(np.exp(-0.5 * (distances.astype(np.float64) / h) ** 2), indices)
    return _unit_mean_degree(graph.maximum(graph.T).tocsr())


def laplacian(graph: Any) -> Any:
    """Return L = D - A, so that tr(F' L F) = sum_ij a_ij |f_i - f_j|^2 / 2."""
    return (sparse.diags_array(graph.sum(axis=1)) - graph).tocsr()


def simplex_affinities(distances: FloatArray, k: int) -> FloatArray:
    """Return the affinities s_ij of sample i to its neighbours, shape of ``distances``; k of a row are positive.

    ::

        s_ij = (d_i,k+1 - d_ij) / (k d_i,k+1 - d_i1 - ... - d_ik)    with d_i1 <= d_i2 <= ...

    which minimises sum_j d_ij s_ij + gamma_i s_ij^2 over the simplex, gamma_i being the weight that leaves k positive
    (Nie et al. 2014). With k neighbours or fewer all but the last count; if all are equally far, k share alike.
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
    """Return the leading eigenvectors of (D + I)^-1/2 (A + 11'/n) (D + I)^-1/2, their rows of mean square one.

    A is a graph of degrees about one. The faint edge 1/n between all pairs keeps thin tails of low degree from taking
    the leading eigenvectors for themselves (regularised spectral clustering, Zhang and Rohe 2018), and separates their
    eigenvalues from the bulk, which Lanczos needs. Columns that Lanczos does not find are zero.
    """
    n = graph.shape[0]
    root = 1 / np.sqrt(graph.sum(axis=1) + 1)
    if n <= max(SMALL, 8 * n_columns):
        Q = np.linalg.eigh(root[:, np.newaxis] * (graph.toarray() + 1 / n) * root)[1][:, -n_columns:]
    else:

        def times(v: FloatArray) -> FloatArray:
            u = root * v.ravel()
            return root * (graph @ u + u.sum() / n)

        Q = _lanczos(LinearOperator((n, n), matvec=times, dtype=np.float64), n_columns, rng.uniform(-1, 1, n))
    padded = np.zeros((n, n_columns))
    padded[:, : Q.shape[1]] = Q * np.sqrt(n / max(Q.shape[1], 1))
    return padded


def graph_of_components(
    F: FloatArray, indices: IntArray, n_components: int, k: int, rng: np.random.RandomState
) -> tuple[Any, IntArray]:
    """Return a symmetric graph of exactly ``n_components`` components and the component of each sample.

    The affinities of Nie et al. to candidate neighbours, at distances that draw together what the eigenvectors q of
    the previous graph hold together::

        d_ij = |f_i - f_j|^2 + eta |q_i - q_j|^2

    eta is doubled (halved) while the graph has too few (many) components. On real data that alone seldom arrives: a
    graph hangs together by few edges, has small islands, and a large eta forgets f. So small islands are first joined
    to what is nearest and take its q, lest they count as classes; and the search also ends when the weight between the
    spectral clusters no longer falls. Then those edges are cut, and what is apart from the largest piece of its cluster
    is joined to the nearest of these pieces. Component j begins as the samples whose largest score is f_j.

    Parameters
    ----------
    F : ndarray of shape (n_samples, n_scores)
    indices : ndarray of shape (n_samples, n_candidates)
        Candidate neighbours of each sample.
    n_components : int
        At most n_samples; at most n_samples components are made.
    k : int
        Neighbours that count.
    """
    by_scores = _distances_to(F, indices)
    by_scores /= by_scores.mean() or 1.0  # on the scale of q
    n_components = min(n_components, len(F))
    distances, eta, least = by_scores, 1.0, np.inf
    for _ in range(ETA_STEPS):
        candidate = _sparse_rows(simplex_affinities(distances, k), indices)
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
        between = clusters[candidate.row] != clusters[candidate.col]
        cut = candidate.data[between].sum()
        if cut >= least:
            break
        least, parts = cut, clusters
        graph = sparse.csr_array(
            (candidate.data[~between], (candidate.row[~between], candidate.col[~between])), shape=candidate.shape
        )
        found = connected_components(candidate, directed=False)[0]
        if found == n_components:
            break
        distances = by_scores + eta * _distances_to(Q, indices)
        eta *= 2 if found < n_components else 0.5
    graph, component = join_islands(graph, parts, F, 1 / k)
    return _unit_mean_degree(graph), component


def spectral_clusters(Q: FloatArray, start: IntArray, n_clusters: int) -> IntArray:
    """Return the nearest of n_clusters directions for each row of Q: the mean ones of ``start``. No cluster is empty.

    A ``start`` that nobody has begins at the row that is farthest from the other directions. This is the first step of
    k-means; more of them leave the classes behind for what splits the graph best.
    """
    # Rows have mean square one; the direction of one that is nearly zero is what Lanczos left of rounding.
    U = Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), 10 * LANCZOS_TOLERANCE)
    start = np.minimum(start, n_clusters - 1)
    counts = np.bincount(start, minlength=n_clusters)
    sums = np.stack([np.bincount(start, column, minlength=n_clusters) for column in U.T], axis=1)
    centres = sums / np.maximum(counts, 1)[:, np.newaxis]
    known = counts > 0
    for absent in np.flatnonzero(~known):
        centres[absent] = U[_squared_distances(U, centres[known]).min(axis=1).argmax()]
        known[absent] = True
    distances = _squared_distances(U, centres)
    clusters = distances.argmin(axis=1)
    for empty in np.flatnonzero(np.bincount(clusters, minlength=n_clusters) == 0):
        to_own = distances[np.arange(len(U)), clusters]
        to_own[np.bincount(clusters, minlength=n_clusters)[clusters] == 1] = -1  # the last one stays
        clusters[to_own.argmax()] = empty
    return clusters


def join_islands(graph: Any, parts: IntArray, F: FloatArray, weight: float) -> tuple[Any, IntArray]:
    """Return the graph with edges of ``weight`` more, one component for each part, and the component of each sample.

    The largest connected piece of each part stands for it; every other piece joins the one of these to which it comes
    nearest, by the rows of F. No edge of ``graph`` may lead from part to part.
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
    """Return for each piece outside ``main``, in their order, its nearest sample to main and the sample there."""
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
    """|f_i - f_j|^2 for the candidates j of each i; column by column, since n_samples x n_candidates x c is large."""
    return np.stack([np.sum((F - F[column]) ** 2, axis=1) for column in indices.T], axis=1)


def _squared_distances(U: FloatArray, centres: FloatArray) -> FloatArray:
    return np.stack([np.sum((U - centre) ** 2, axis=1) for centre in centres], axis=1)


def _unit_mean_degree(graph: Any) -> Any:
    return graph * (graph.shape[0] / (graph.sum() or 1.0))


def _lanczos(operator: Any, n_columns: int, start: FloatArray) -> FloatArray:
    """The leading eigenvectors as far as they are found: never an error."""
    for n_vectors in (max(4 * n_columns, 40), max(8 * n_columns, 80)):
        n_vectors = min(n_vectors, operator.shape[0])
        try:
            return np.asarray(
                eigsh(operator, n_columns, which="LA", v0=start, ncv=n_vectors, tol=LANCZOS_TOLERANCE, maxiter=200)[1]
            )
        except ArpackNoConvergence as error:
            found = error.eigenvectors
    return np.asarray(found)  # some directions of the wanted space: the clusters are then found in those


def _sparse_rows(values: NDArray[Any], indices: IntArray) -> Any:
    n, k = indices.shape
    # A copy: what follows works in place, and the candidates are needed again.
    graph = sparse.csr_array((values.ravel(), indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n), copy=True)
    graph.eliminate_zeros()  # a stored zero would count as an edge
    graph.sort_indices()
    return graph
