"""Forests and boosted trees as arrays, which can be saved without code and predict what scikit-learn's predict."""

from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from unflip._validation import FloatArray, IntArray
from unflip.models.folder import Savable

PATHS = 2**16  # pairs of a sample and a tree that are followed at once; their arrays stay in the processor's cache


class TreeEnsemble(Savable, ClassifierMixin, BaseEstimator):
    """The trees of a fitted forest or of fitted boosted trees, as arrays; made by :meth:`from_estimator`.

    A sample starts at the root of each tree. At node i it goes to ``children_[i, 0]`` if ``x[feature_[i]] <=
    threshold_[i]`` or the value is missing and ``missing_left_[i]``, else to ``children_[i, 1]``. A child k >= 0 is a
    node, and k < 0 is the leaf ~k. Children have larger numbers than their parent, so that every path ends.

    Parameters
    ----------
    link : {"mean", "softmax"}, default="mean"
        From the values of the leaves to probabilities: their mean over the trees of a forest, or the softmax of
        ``base_`` plus their sum, for boosted trees.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    roots_ : ndarray of shape (n_rounds, n_columns)
        The node or leaf at which each tree starts. Boosting has a column of trees for each class (for two classes, a
        single one, of the second class); a forest has one column.
    children_ : ndarray of shape (n_nodes, 2)
    feature_, threshold_, missing_left_ : ndarray of shape (n_nodes,)
    value_ : ndarray of shape (n_leaves, n_classes) or (n_leaves, 1)
        The shares of the classes, or for boosted trees a number.
    base_ : ndarray of shape (n_columns,)
        Of boosted trees, the scores before the first round.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X, y)
    >>> trees = TreeEnsemble.from_estimator(forest)
    >>> bool(np.allclose(trees.predict_proba(X), forest.predict_proba(X), atol=1e-12, rtol=0))
    True
    """

    n_features_in_: int
    roots_: NDArray[Any]
    children_: NDArray[Any]
    feature_: NDArray[Any]
    threshold_: FloatArray
    missing_left_: NDArray[np.bool_]
    value_: FloatArray
    base_: FloatArray

    def __init__(self, link: Literal["mean", "softmax"] = "mean") -> None:
        self.link = link

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Return the trees of a fitted classifier of scikit-learn: boosted trees, a forest or a single tree."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.ensemble._forest import ForestClassifier
        from sklearn.tree import DecisionTreeClassifier

        if not isinstance(estimator, HistGradientBoostingClassifier | ForestClassifier | DecisionTreeClassifier):
            raise ValueError(
                f"{type(estimator).__name__} is not a HistGradientBoostingClassifier, RandomForestClassifier, "
                "ExtraTreesClassifier or DecisionTreeClassifier of scikit-learn"
            )
        check_is_fitted(estimator)
        if isinstance(estimator, HistGradientBoostingClassifier):
            if estimator.is_categorical_ is not None:
                raise ValueError(
                    "boosted trees that split by sets of categories cannot be stored as arrays; turn the categories "
                    "into numbers first, with unflip.Preprocessor or scikit-learn's OneHotEncoder"
                )
            trees = [[_boosted_tree(tree.nodes) for tree in row] for row in estimator._predictors]
            base, link = np.ravel(estimator._baseline_prediction).astype(np.float64), "softmax"
        else:
            if estimator.n_outputs_ > 1:
                raise ValueError(f"it predicts {estimator.n_outputs_} labels at once; fit one classifier per label")
            forest = [estimator] if isinstance(estimator, DecisionTreeClassifier) else estimator.estimators_
            trees, base, link = [[_forest_tree(tree.tree_)] for tree in forest], np.zeros(1), "mean"
        model = cls(link)  # type: ignore[arg-type]
        model.classes_, model.n_features_in_ = estimator.classes_, int(estimator.n_features_in_)
        if hasattr(estimator, "feature_names_in_"):
            model.feature_names_in_ = estimator.feature_names_in_
        model.base_ = base
        model._join(trees)
        return model

    def _join(self, trees: list[list["_Tree"]]) -> None:
        """Number the nodes and the leaves of all trees, one tree after the other."""
        flat = [tree for row in trees for tree in row]
        nodes = np.cumsum([0, *(len(tree.feature) for tree in flat)])
        leaves = np.cumsum([0, *(len(tree.value) for tree in flat)])
        moved = [
            np.where(tree.children >= 0, tree.children + first, tree.children - leaf)
            for tree, first, leaf in zip(flat, nodes, leaves, strict=False)
        ]
        roots = [first if len(tree.feature) else ~leaf for tree, first, leaf in zip(flat, nodes, leaves, strict=False)]
        self.roots_ = np.array(roots, dtype=np.int32).reshape(len(trees), -1)
        self.children_ = np.concatenate(moved).astype(np.int32)
        self.feature_ = np.concatenate([tree.feature for tree in flat]).astype(np.int32)
        self.threshold_ = np.concatenate([tree.threshold for tree in flat]).astype(np.float64)
        self.missing_left_ = np.concatenate([tree.missing_left for tree in flat]).astype(bool)
        self.value_ = np.concatenate([tree.value for tree in flat]).astype(np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each sample, shape (n_samples,)."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes, shape (n_samples, n_classes)."""
        # As scikit-learn does: forests compare in float32, and boosted trees take infinity as a large number.
        forest = self.link == "mean"
        kind, finite = (np.float32, "allow-nan") if forest else (np.float64, False)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=kind, ensure_all_finite=finite)
        proba = np.empty((X.shape[0], len(self.classes_)))
        rows = max(1, PATHS // self.roots_.size)
        for start in range(0, X.shape[0], rows):
            part = slice(start, start + rows)
            block = X[part].toarray() if issparse(X) else X[part]
            proba[part] = self._block(block)
        return proba

    def _block(self, X: NDArray[Any]) -> FloatArray:
        leaves = self._leaves(X).reshape(*self.roots_.shape, len(X))
        if self.link == "mean":
            total = np.zeros((len(X), self.value_.shape[1]))
            for leaf in leaves[:, 0]:
                total += self.value_[leaf]
            return total / len(leaves)
        scores = self.base_ + self.value_[leaves, 0].sum(axis=0).T
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        proba: FloatArray = softmax(scores, axis=1)
        return proba

    def _leaves(self, X: NDArray[Any]) -> IntArray:
        """Return the leaf that each sample reaches, for all trees, shape (n_trees * n_samples,)."""
        n, d = X.shape
        values, missing = np.ravel(X), bool(np.isnan(X).any())
        place = np.repeat(np.ravel(self.roots_), n)  # tree by tree, so that neighbors look at the same nodes
        start = np.tile(np.arange(n) * d, self.roots_.size)
        children = np.ravel(self.children_)
        on = np.flatnonzero(place >= 0)
        node, start = place[on], start[on]
        while len(on):
            x = values[start + self.feature_[node]]
            right = x > self.threshold_[node]
            if missing:
                right = np.where(np.isnan(x), ~self.missing_left_[node], right)
            node = children[2 * node + right]
            ended = node < 0
            if ended.any():
                place[on[ended]] = node[ended]
                inside = ~ended
                on, node, start = on[inside], node[inside], start[inside]
        return ~place

    def _check_fitted_state(self) -> None:
        """Refuse arrays that do not describe trees: every path must end in a leaf, and every leaf be finite."""
        shapes = {"roots_": 2, "children_": 2, "feature_": 1, "threshold_": 1, "missing_left_": 1}
        kinds = {"threshold_": "f", "missing_left_": "b", "value_": "f", "base_": "f"}
        for name, ndim in {**shapes, "value_": 2, "base_": 1}.items():
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.ndim != ndim or array.dtype.kind not in kinds.get(name, "i"):
                raise ValueError(f"{name} must be an array with {ndim} dimensions; got {array!r:.80}")
        n, (n_leaves, width), c = len(self.feature_), self.value_.shape, len(self.classes_)
        columns = 1 if self.link == "mean" or c == 2 else c
        if self.children_.shape != (n, 2) or self.threshold_.shape != (n,) or self.missing_left_.shape != (n,):
            raise ValueError(f"the arrays of the trees have different lengths; there are {n} nodes")
        if self.roots_.size == 0 or self.roots_.shape[1] != columns or self.base_.shape != (columns,):
            raise ValueError(
                f"{c} classes need {columns} columns of trees; got {self.roots_.shape[1]} of {len(self.roots_)}"
            )
        if width != (c if self.link == "mean" else 1):
            raise ValueError(f"a leaf has {width} values, which does not fit {c} classes")
        if not ((self.feature_ >= 0) & (self.feature_ < self.n_features_in_)).all():
            raise ValueError(f"a node looks at a feature outside the {self.n_features_in_} that there are")
        for name, places in (("roots_", self.roots_), ("children_", self.children_)):
            if not ((places >= -n_leaves) & (places < n)).all():
                raise ValueError(f"{name} names a node or a leaf that does not exist")
        if not ((self.children_ < 0) | (self.children_ > np.arange(n)[:, np.newaxis])).all():
            raise ValueError("a child comes before its parent, so that a path might never end")
        finite = np.isfinite(self.value_).all() and np.isfinite(self.base_).all()
        if not finite or np.isnan(self.threshold_).any():
            raise ValueError("the leaves must be finite and the thresholds must not be NaN")
        if self.link == "mean" and not (
            (self.value_ >= 0).all() and np.allclose(self.value_.sum(axis=1), 1, atol=1e-6, rtol=0)
        ):
            raise ValueError("the shares of the classes in a leaf must be positive and sum to one")
        super()._check_fitted_state()


class _Tree(NamedTuple):
    """One tree; its nodes and its leaves are numbered from 0, and a child k < 0 is the leaf ~k."""

    children: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]
    missing_left: NDArray[Any]
    value: NDArray[Any]


def _boosted_tree(nodes: Any) -> _Tree:
    leaf = nodes["is_leaf"].astype(bool)
    parts = (nodes["left"], nodes["right"], nodes["feature_idx"], nodes["num_threshold"], nodes["missing_go_to_left"])
    return _tree(leaf, *parts, nodes["value"][leaf][:, np.newaxis])


def _forest_tree(tree: Any) -> _Tree:
    leaf = tree.children_left < 0
    missing = tree.__getstate__()["nodes"]["missing_go_to_left"]
    share = tree.value[leaf, 0]
    parts = (tree.children_left, tree.children_right, tree.feature, tree.threshold, missing)
    return _tree(leaf, *parts, share / share.sum(axis=1, keepdims=True))


def _tree(
    leaf: NDArray[np.bool_], left: Any, right: Any, feature: Any, threshold: Any, missing: Any, value: Any
) -> _Tree:
    """Number inner nodes and leaves separately, both in their order."""
    number = np.where(leaf, -leaf.cumsum(), (~leaf).cumsum() - 1)  # the k-th leaf, from 1, is ~(k - 1) = -k
    inner = ~leaf
    children = np.column_stack([number[left[inner].astype(np.intp)], number[right[inner].astype(np.intp)]])
    return _Tree(children, feature[inner], threshold[inner], missing[inner].astype(bool), value)
