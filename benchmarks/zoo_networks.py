"""Networks to measure on: files given on the command line, and topologies that come with the onnx package.

The topologies have no weights of their own. They get He-initialised ones and BatchNormalization statistics
that keep activations alive; their accuracy means nothing, their speed and memory do.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

LIGHT_MODELS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def zoo_topology(name: str, folder: Path, seed: int = 0) -> Path:
    """Writes ``light_<name>`` of the onnx package with weights and a free batch axis; returns its path."""
    path = folder / f"{name}.onnx"
    if path.is_file():
        return path
    model = onnx.load(LIGHT_MODELS / f"light_{name}.onnx")
    shapes = _materialize(model, np.random.default_rng(seed))
    kept = [value for value in model.graph.input if value.name not in shapes]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    _free_reshapes(model)
    model.ir_version = 8  # older ones want every initializer listed as an input
    onnx.save(model, path)
    return path


def _materialize(model: onnx.ModelProto, rng: np.random.Generator) -> set[str]:
    """Replaces the ConstantOfShape nodes by initializers; returns the names of all initializers."""
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    roles = _roles(graph)
    for node in [node for node in graph.node if node.op_type == "ConstantOfShape"]:
        shape = numpy_helper.to_array(stored[node.input[0]])
        array = _values(roles.get(node.output[0], ("", 0)), tuple(int(n) for n in shape), rng)
        graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), node.output[0]))
        graph.node.remove(node)
    return {tensor.name for tensor in graph.initializer}


def _roles(graph: onnx.GraphProto) -> dict[str, tuple[str, int]]:
    """Constant → (op type that reads it, input index)."""
    return {name: (node.op_type, index) for node in graph.node for index, name in enumerate(node.input)}


def _values(role: tuple[str, int], shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    op_type, index = role
    if op_type in ("Conv", "Gemm", "MatMul") and index == 1:
        fan_in = int(np.prod(shape[1:]))
        return rng.standard_normal(shape) * np.sqrt(2.0 / fan_in)
    if op_type == "BatchNormalization":
        # scale, bias, mean, variance: residual sums grow, a variance of 2 keeps them in check
        return [
            rng.uniform(0.5, 1.5, shape),
            rng.normal(0, 0.2, shape),
            rng.normal(0, 0.2, shape),
            np.full(shape, 2.0),
        ][index - 1]
    return rng.normal(0.0, 0.1, shape)


def _free_reshapes(model: onnx.ModelProto) -> None:
    """``Reshape`` to a fixed batch of 1 lets the batch through instead."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "Reshape" or node.input[1] not in stored:
            continue
        tensor = stored[node.input[1]]
        shape = numpy_helper.to_array(tensor).copy()
        if shape.size and shape[0] == 1:
            shape[0] = 0
            tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))
