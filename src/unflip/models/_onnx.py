"""Saved models as ONNX graphs, for programs that have neither Python nor this package."""

from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unflip import __version__
from unflip._validation import FloatArray, IntArray
from unflip.models.arrays import Blend, LinearScores, Projected, Radial, Scaled, as_arrays
from unflip.models.trees import TreeEnsemble

OPSET, ML_OPSET, IR_VERSION = 18, 3, 8  # of 2022, which runtimes of today read
ML = "ai.onnx.ml"
LEAST, LEAST_CALIBRATED = 1e-12, 1e-9  # as in unflip.core.posterior
# How the scores of a linear classifier become probabilities. A class that is not here is refused.
LINKS = {
    **dict.fromkeys(("VolMin", "ForwardLogisticClassifier"), "softmax"),
    **dict.fromkeys(("ULEClassifier", "MuSGDClassifier"), "logistic"),
    **dict.fromkeys(("CEGEClassifier", "LICSClassifier"), "centered simplex"),
    **dict.fromkeys(("MCLDCEClassifier", "MCLDCEClassifierCV", "LNSIClassifier", "SCDClassifier"), "simplex"),
}
EXPORTED = (
    "linear and logistic models, also with a kernel, boosted trees, forests, blends of them, RankPruningClassifier and "
    "the network mlp"
)


def to_onnx(model: Any) -> Any:
    """Return a fitted classifier as an ``onnx.ModelProto`` that predicts the same.

    Parameters
    ----------
    model : fitted classifier
        A linear classifier of the package, a :class:`~unflip.CorrectedClassifier` or
        :class:`~unflip.NoisyLabelClassifier` with the network "mlp", whatever :func:`unflip.models.as_arrays` makes
        arrays of, or a :class:`~unflip.TableClassifier` of these.

    Returns
    -------
    onnx.ModelProto
        Its outputs are ``label``, shape (n,), and ``probabilities``, shape (n, n_classes), of float64. Its input is
        ``X``, shape (n, n_features), of float64 (for a network, float32, or uint8 if it was trained on bytes). A model
        of a table has one input per column that it uses, shape (n, 1), under the name of the column: float64 with NaN
        for a missing number (a date is the number of days since 1970), or a string that is written as in training,
        empty if it is missing.

    Raises
    ------
    ValueError
        If the model has a part that ONNX cannot express here: columns of free text, networks other than "mlp", and
        models of scikit-learn that cannot be saved either.

    Notes
    -----
    Trees and networks compute in float32 where ONNX has no more, so that probabilities agree to about 1e-6.
    """
    onnx = _onnx()
    graph = _Graph(onnx)
    classifier = getattr(model, "classifier_", model) if hasattr(model, "preprocessor_") else model
    if not hasattr(classifier, "predict_proba") or not hasattr(classifier, "classes_"):
        raise ValueError(f"a {type(model).__name__} is not a fitted classifier and cannot be exported")
    preprocessor = getattr(model, "preprocessor_", None)
    if preprocessor is not None:
        x = _table(graph, preprocessor)
    elif hasattr(classifier, "input_shape_"):
        x = graph.input("X", np.uint8 if classifier.bytes_ else np.float32, classifier.input_shape_)
    else:
        x = graph.input("X", np.float64, (int(classifier.n_features_in_),))
    proba = graph.op("Identity", _proba(graph, classifier, x), name="probabilities")
    classes = np.asarray(classifier.classes_)
    best = graph.op("ArgMax", proba, axis=1, keepdims=0)
    label = graph.op("Gather", graph.constant(_plain(classes)), best, name="label")
    graph.output(label, _plain(classes).dtype, ())
    graph.output(proba, np.float64, (len(classes),))
    return graph.model(f"{type(classifier).__name__} of {len(classes)} classes")


class _Graph:
    """The nodes of a graph as they are added; each is named by its output."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.number = onnx, count()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def op(self, kind: str, *inputs: str, name: str = "", domain: str = "", outputs: int = 1, **attributes: Any) -> Any:
        names = [name or f"{kind}_{next(self.number)}" for _ in range(outputs)]
        node = self.onnx.helper.make_node(kind, inputs, names, domain=domain, **attributes)
        self.nodes.append(node)
        return names[0] if outputs == 1 else names

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = f"constant_{next(self.number)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.array(value, dtype=dtype), name))
        return name

    def input(self, name: str, dtype: Any, shape: tuple[int, ...]) -> str:
        self.inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, name: str, dtype: Any, shape: tuple[int, ...]) -> None:
        self.outputs.append(self._value(name, dtype, shape))

    def cast(self, x: str, dtype: Any) -> str:
        return str(self.op("Cast", x, to=self._type(dtype)))

    def model(self, description: str) -> Any:
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, "unflip", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
        made_by = {"producer_name": "unflip", "producer_version": __version__, "doc_string": description}
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, **made_by)
        self.onnx.checker.check_model(model)
        return model

    def _value(self, name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, self._type(dtype), ["n", *shape])

    def _type(self, dtype: Any) -> int:
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _proba(graph: _Graph, model: Any, x: str) -> str:
    """Add the probabilities of a classifier, of float64; x are its features, of float64 except for a network."""
    kind = type(model).__name__
    if kind in ("CorrectedClassifier", "FilterClassifier"):  # as arrays, or it says why it cannot
        return _proba(graph, model._fitted_state()["estimator_"], x)
    if kind == "NoisyLabelClassifier":
        return _network(graph, model, x)
    if kind == "RankPruningClassifier":
        return _one_vs_rest(graph, model, x)
    if kind in LINKS:
        return _link(graph, _scores(graph, model, x), LINKS[kind], len(model.classes_))
    model = as_arrays(model)
    if isinstance(model, TreeEnsemble):
        return _trees(graph, model, x)
    if isinstance(model, LinearScores):
        return str(graph.op("Softmax", _scores(graph, model, x), axis=1))
    if isinstance(model, Scaled):
        return _proba(graph, model.classifier_, _standardized(graph, x, model.mean_, model.scale_))
    if isinstance(model, Projected):
        return _proba(graph, model.classifier_, graph.op("MatMul", x, graph.constant(model.components_.T)))
    if isinstance(model, Radial):
        return _proba(graph, model.classifier_, _radial(graph, model, x))
    if isinstance(model, Blend):
        return _blend(graph, model, x)
    raise ValueError(f"a {kind} cannot be exported to ONNX; what can are {EXPORTED}")


def _scores(graph: _Graph, model: Any, x: str) -> str:
    product = graph.op("MatMul", x, graph.constant(model.coef_.T, np.float64))
    return str(graph.op("Add", product, graph.constant(model.intercept_, np.float64)))


def _link(graph: _Graph, scores: str, link: str, n_classes: int) -> str:
    if link == "logistic":  # the logarithm of the sigmoid is -softplus(-s)
        scores = graph.op("Neg", graph.op("Softplus", graph.op("Neg", scores)))
    if link in ("softmax", "logistic"):
        return str(graph.op("Softmax", scores, axis=1))
    if link == "centered simplex":
        one, half = graph.constant(1.0), graph.constant(0.5)
        scores = graph.op("Mul", graph.op("Add", scores, one), half)
    return _simplex(graph, scores, n_classes)


def _simplex(graph: _Graph, scores: str, c: int) -> str:
    """Add unflip.core.project_to_simplex: the nearest probabilities, p = max(s - tau, 0)."""
    one, axis = graph.constant(1.0), graph.constant([1])
    ordered, _ = graph.op("TopK", scores, graph.constant([c]), outputs=2, axis=1)
    summed = graph.op("CumSum", ordered, graph.constant(1))
    tau = graph.op("Div", graph.op("Sub", summed, one), graph.constant(np.arange(1.0, c + 1)))
    positive = graph.cast(graph.op("Greater", ordered, tau), np.int64)
    last = graph.op("Sub", graph.op("ReduceSum", positive, axis), graph.constant(1))
    p = graph.op("Relu", graph.op("Sub", scores, graph.op("GatherElements", tau, last, axis=1)))
    return str(graph.op("Div", p, graph.op("ReduceSum", p, axis)))


def _standardized(graph: _Graph, x: str, mean: FloatArray, scale: FloatArray) -> str:
    return str(graph.op("Div", graph.op("Sub", x, graph.constant(mean)), graph.constant(scale)))


def _radial(graph: _Graph, model: Radial, x: str) -> str:
    """Add exp(-gamma |x - center|^2), mixed, where |x - c|^2 = |x|^2 - 2 x'c + |c|^2."""
    C = model.centers_
    squares = graph.op("ReduceSum", graph.op("Mul", x, x), graph.constant([1]))
    products = graph.op("MatMul", x, graph.constant(-2 * C.T))
    distance = graph.op("Add", graph.op("Add", squares, products), graph.constant(np.sum(C**2, axis=1)))
    kernel = graph.op("Exp", graph.op("Mul", graph.op("Relu", distance), graph.constant(-model.gamma_)))
    return str(graph.op("MatMul", kernel, graph.constant(model.mixing_.T)))


def _one_vs_rest(graph: _Graph, model: Any, x: str) -> str:
    """Add the probability of each class against the rest, divided by their sum."""
    columns, axis = [], graph.constant([1])
    for one in model.classifiers_:
        if len(one.classes_) > 1:
            columns.append(graph.op("Gather", _proba(graph, as_arrays(one), x), graph.constant([1]), axis=1))
        else:  # a class that never, or always, occurs
            nothing = graph.op("Mul", graph.op("ReduceSum", x, axis), graph.constant(0.0))
            columns.append(graph.op("Add", nothing, graph.constant(float(one.classes_[0]))))
    p = graph.op("Concat", *columns, axis=1)
    total = graph.op("ReduceSum", p, axis)
    some = graph.op("Greater", total, graph.constant(0.0))
    return str(graph.op("Where", some, graph.op("Div", p, total), graph.constant(1 / len(columns))))


def _blend(graph: _Graph, model: Blend, x: str) -> str:
    """Add softmax(t log p + b), where p is the weighted mean of the members, each at its temperature."""
    c, total = len(model.classes_), ""
    for member, weight, temperature in zip(model.members_, model.weights_, model.temperatures_, strict=True):
        p = _proba(graph, member, x)
        if len(member.classes_) < c:
            p = graph.op("MatMul", p, graph.constant(np.eye(c)[np.searchsorted(model.classes_, member.classes_)]))
        if temperature != 1:
            p = graph.op("Softmax", _times_log(graph, p, temperature, LEAST), axis=1)
        p = graph.op("Mul", p, graph.constant(weight))
        total = graph.op("Add", total, p) if total else p
    t, b = model.calibration_[0], model.calibration_[1:]
    if t == 1 and not b.any():
        return total
    shifted = graph.op("Add", _times_log(graph, total, t, LEAST_CALIBRATED), graph.constant(b))
    return str(graph.op("Softmax", shifted, axis=1))


def _times_log(graph: _Graph, p: str, t: float, least: float) -> str:
    return str(graph.op("Mul", graph.op("Log", graph.op("Max", p, graph.constant(least))), graph.constant(t)))


def _trees(graph: _Graph, model: TreeEnsemble, x: str) -> str:
    """Add all trees as one TreeEnsembleRegressor with a target for each class, or for each column of boosted trees."""
    forest = model.link == "mean"
    if forest:  # as scikit-learn, it compares the features in float32
        x = graph.cast(graph.cast(x, np.float32), np.float64)
    n, n_trees, width, columns = len(model.feature_), model.roots_.size, model.value_.shape[1], model.roots_.shape[1]
    tree = _tree_of(model)
    # Tree by tree; in each, the nodes come before the leaves, and so the root comes first. Both are numbered from 0.
    order = np.lexsort((np.arange(len(tree)), tree))
    tree = tree[order]
    number = np.empty_like(order)
    number[order] = np.arange(len(order)) - np.searchsorted(tree, tree)
    is_leaf = order >= n
    node = np.minimum(order, n)  # leaves are described by the last entry of each array, which is zero

    def padded(array: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([array, np.zeros_like(array, shape=(1, *array.shape[1:]))])[node]

    children = padded(model.children_).astype(np.int64)
    children = np.where(is_leaf[:, None], 0, number[np.where(children >= 0, children, n + ~children)])
    leaves, leaf_tree, leaf_number = order[is_leaf] - n, tree[is_leaf], number[order][is_leaf]
    targets = np.tile(np.arange(width), len(leaves)) if forest else leaf_tree % columns
    make = graph.onnx.numpy_helper.from_array
    scores = graph.op(
        "TreeEnsembleRegressor",
        x,
        domain=ML,
        n_targets=width if forest else columns,
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_treeids=tree.tolist(),
        nodes_nodeids=number[order].tolist(),
        nodes_featureids=padded(model.feature_).tolist(),
        nodes_modes=["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf.tolist()],
        nodes_values_as_tensor=make(padded(model.threshold_), "nodes_values_as_tensor"),
        nodes_truenodeids=children[:, 0].tolist(),
        nodes_falsenodeids=children[:, 1].tolist(),
        nodes_missing_value_tracks_true=padded(model.missing_left_).astype(np.int64).tolist(),
        target_treeids=np.repeat(leaf_tree, width).tolist(),
        target_nodeids=np.repeat(leaf_number, width).tolist(),
        target_ids=targets.tolist(),
        target_weights_as_tensor=make(model.value_[leaves].ravel(), "target_weights_as_tensor"),
    )
    scores = graph.cast(scores, np.float64)
    if forest:
        return str(graph.op("Div", scores, graph.constant(float(n_trees))))
    scores = graph.op("Add", scores, graph.constant(model.base_))
    if columns == 1:
        scores = graph.op("Concat", graph.op("Mul", scores, graph.constant(0.0)), scores, axis=1)
    return str(graph.op("Softmax", scores, axis=1))


def _tree_of(model: TreeEnsemble) -> IntArray:
    """Return the tree of each node, and then of each leaf."""
    n = len(model.feature_)
    tree = np.zeros(n + len(model.value_), dtype=np.int64)
    place = np.ravel(model.roots_).astype(np.int64)
    owner = np.arange(len(place))
    while len(place):  # level by level, all trees at once
        tree[np.where(place >= 0, place, n + ~place)] = owner
        on = place >= 0
        place, owner = model.children_[place[on]].ravel().astype(np.int64), np.repeat(owner[on], 2)
    return tree


def _network(graph: _Graph, model: Any, x: str) -> str:
    """Add the network "mlp"; with two networks, the mean of their probabilities."""
    options, method = model.network_options or {}, model.method_options or {}
    if model.network != "mlp" or method.get("output", "softmax") != "softmax":
        what = model.network if isinstance(model.network, str) else type(model.network).__name__
        raise ValueError(
            f"the network {what} cannot be exported here, only mlp; PyTorch exports any network: "
            "torch.onnx.export(model.methods_[0].networks[0], ...)"
        )
    x = graph.cast(x, np.float32)
    if model.bytes_:
        x = graph.op("Mul", x, graph.constant(1 / 255, np.float32))
    if model.standardize and len(model.input_shape_) == 1:
        x = _standardized(graph, x, model.mean_, model.scale_)
    x = graph.op("Flatten", x, axis=1)
    weights, total = model._fitted_state()["weights"], ""
    n_networks = len({name.split(".")[1] for name in weights if name.startswith("networks.")})
    for k in range(n_networks):
        first, last = sorted(int(n.split(".")[2]) for n in weights if n.startswith(f"networks.{k}.") and "weight" in n)
        hidden = _dense(graph, x, weights, f"networks.{k}.{first}")
        hidden = graph.op("LeakyRelu", hidden, alpha=float(options.get("slope", 0.01)))
        logits = graph.cast(_dense(graph, hidden, weights, f"networks.{k}.{last}"), np.float64)
        p = graph.op("Softmax", logits, axis=1)
        total = graph.op("Add", total, p) if total else p
    return total if n_networks == 1 else str(graph.op("Div", total, graph.constant(float(n_networks))))


def _dense(graph: _Graph, x: str, weights: dict[str, NDArray[Any]], layer: str) -> str:
    parts = (graph.constant(weights[f"{layer}.{name}"]) for name in ("weight", "bias"))
    return str(graph.op("Gemm", x, *parts, transB=1))


def _table(graph: _Graph, preprocessor: Any) -> str:
    """Add the inputs of a table, one per column, and their features."""
    if texts := list(getattr(preprocessor, "texts_", {})):
        raise ValueError(
            f"the column {texts[0]!r} is free text, which cannot be exported to ONNX; in Python, export "
            "model.classifier_, whose input is what model.preprocessor_.transform makes of a table"
        )
    found = len(preprocessor.numbers_) + sum(map(len, preprocessor.categories_.values()))
    if found != (expected := len(preprocessor.get_feature_names_out())):
        raise ValueError(f"{expected - found} features are neither numbers nor categories and cannot be exported")
    parts = []
    if preprocessor.numbers_:
        if hasattr(preprocessor, "feature_names_in_"):
            columns = [graph.input(name, np.float64, (1,)) for name in preprocessor.numbers_]
            x = graph.op("Concat", *columns, axis=1)
        else:
            whole = graph.input("X", np.float64, (int(preprocessor.n_features_in_),))
            x = graph.op("Gather", whole, graph.constant(preprocessor.numbers_, np.int64), axis=1)
        x = graph.op("Where", graph.op("IsNaN", x), graph.constant(preprocessor.median_), x)
        parts.append(_standardized(graph, x, preprocessor.mean_, preprocessor.scale_))
    for name, values in preprocessor.categories_.items():
        column = graph.input(name, object, (1,))
        written = ["" if value is None else value for value in values]
        encoded = graph.op("OneHotEncoder", column, domain=ML, cats_strings=written, zeros=1)
        parts.append(graph.cast(graph.op("Squeeze", encoded, graph.constant([1])), np.float64))
    return str(graph.op("Concat", *parts, axis=1))


def _plain(classes: NDArray[Any]) -> NDArray[Any]:
    """Return the classes as ONNX has them: strings, whole numbers, numbers or truth values."""
    kinds: dict[str, Any] = {"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}
    return classes.astype(kinds.get(classes.dtype.kind, object))


def _onnx() -> Any:
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("exporting to ONNX needs onnx: pip install 'unflip[onnx]'") from error
    return onnx
