"""A saved model as a file for other programs."""

import os
from pathlib import Path
from typing import Any

from unflip._output import check_place, write_whole
from unflip.models import load

SUFFIX = ".onnx"
KINDS = {1: "float32", 2: "uint8", 7: "int64", 8: "string", 9: "bool", 11: "float64"}  # TensorProto.DataType


def export_model(folder: str | os.PathLike[str], onnx: str | os.PathLike[str]) -> dict[str, Any]:
    """Write the model in a folder as an ONNX file, and return its inputs and outputs by name.

    :func:`unflip.models.to_onnx` says what they mean, and which models can be exported.
    """
    from unflip.models import to_onnx  # few commands need it

    target = Path(onnx)
    if target.suffix.lower() != SUFFIX:
        raise ValueError(f"{target} must end in {SUFFIX}")
    check_place(target)
    model = to_onnx(load(folder))
    write_whole(target, model.SerializeToString())
    return {"inputs": _described(model.graph.input), "outputs": _described(model.graph.output)}


def _described(values: Any) -> dict[str, str]:
    """Return the kind and the shape of each value, such as "float64, n x 4"."""
    found = {}
    for value in values:
        tensor = value.type.tensor_type
        shape = " x ".join(size.dim_param or str(size.dim_value) for size in tensor.shape.dim)
        found[value.name] = f"{KINDS[tensor.elem_type]}, {shape}"
    return found
