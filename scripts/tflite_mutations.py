"""Changes of .tflite files for the fuzzer: of their bytes, and of the graph before it is written again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
from flatbuffers.builder import BuilderSizeError

from calib8.errors import NoFormError, UnsupportedModelError
from calib8.tflite.custom import DETECTIONS, detections, detections_bytes, is_custom
from calib8.tflite.graph import Graph, Operator, Quantization, Tensor
from calib8.tflite.read import defaults
from calib8.tflite.schema import OPERATOR_CODES, OPTIONS, TYPE_CODES, member_names
from calib8.tflite.write import serialize

Rng = np.random.Generator

NUMBERS: Final = (
    0, 1, -1, 2, -2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 127, 128, 255, 256, 1000, 65535, 65536, 1 << 20,
    (1 << 31) - 1, -(1 << 31), (1 << 24) + 1,
)  # fmt: skip
SCALES: Final = (
    0.0,
    -0.5,
    float("nan"),
    float("inf"),
    1e-45,
    1e-38,
    1e-12,
    1e-3,
    1 / 256,
    1 / 128,
    1.0,
    1e6,
    3e38,
)
NEAR: Final = (1, -1, 2, -2, 4)
FAILED: Final = (
    ArithmeticError, BuilderSizeError, LookupError, MemoryError, TypeError, UnsupportedModelError, ValueError,
)  # fmt: skip
"""What a graph that no file can hold ends in."""


def mutated_bytes(data: bytes, other: bytes, rng: Rng) -> bytes:
    """A file with one to four changes of its bytes; ``other`` is what is spliced in."""
    for _ in range(int(rng.choice([1, 1, 2, 4]))):
        if len(data) < 16:
            break
        change = BYTE_CHANGES[int(rng.integers(len(BYTE_CHANGES)))]
        data = change(bytearray(data), other, rng)
    keep = rng.random() < 0.9 and len(data) >= 8  # most files still claim to be what they are
    return data[:4] + b"TFL3" + data[8:] if keep else data


def _flip_bits(data: bytearray, other: bytes, rng: Rng) -> bytes:
    for place in rng.integers(len(data), size=int(rng.integers(1, 9))):
        data[place] ^= 1 << int(rng.integers(8))
    return bytes(data)


def _overwrite(data: bytearray, other: bytes, rng: Rng) -> bytes:
    start, size = int(rng.integers(len(data))), int(rng.integers(1, 17))
    size = min(size, len(data) - start)
    fill = [bytes(size), b"\xff" * size, rng.bytes(size)][int(rng.integers(3))]
    data[start : start + size] = fill
    return bytes(data)


def _truncate(data: bytearray, other: bytes, rng: Rng) -> bytes:
    return bytes(data[: int(rng.integers(8, len(data)))])


def _splice(data: bytearray, other: bytes, rng: Rng) -> bytes:
    size = int(rng.integers(1, max(2, min(len(other), 200))))
    source, target = int(rng.integers(len(other))), int(rng.integers(len(data)))
    piece = other[source : source + size]
    data[target : target + (len(piece) if rng.random() < 0.7 else 0)] = piece
    return bytes(data)


def _swap_words(data: bytearray, other: bytes, rng: Rng) -> bytes:
    a, b = (4 * int(place) for place in rng.integers(len(data) // 4, size=2))
    data[a : a + 4], data[b : b + 4] = data[b : b + 4], data[a : a + 4]
    return bytes(data)


def _set_word(data: bytearray, other: bytes, rng: Rng) -> bytes:
    width = int(rng.choice([2, 4, 4, 8]))
    place = width * int(rng.integers(len(data) // width))
    old = int.from_bytes(data[place : place + width], "little")
    value = (
        old + int(rng.choice(NEAR)) if rng.random() < 0.5 else _number(rng) + len(data) * int(rng.integers(2))
    )
    data[place : place + width] = (value % (1 << (8 * width))).to_bytes(width, "little")
    return bytes(data)


BYTE_CHANGES: Final = (_flip_bits, _overwrite, _truncate, _splice, _swap_words, _set_word, _set_word)


def mutated_graph(graph: Graph, rng: Rng) -> bytes:
    """The file of a graph of which one to three fields are changed."""
    for _ in range(20):
        changed = graph
        try:
            for _ in range(int(rng.choice([1, 1, 2, 3]))):
                changed = GRAPH_CHANGES[int(rng.integers(len(GRAPH_CHANGES)))](changed, rng)
            return serialize(changed)
        except FAILED:
            continue
    return serialize(graph)


def _number(rng: Rng) -> int:
    return int(rng.choice(NUMBERS)) if rng.random() < 0.7 else int(rng.integers(-10, 40))


def _near(value: int, rng: Rng) -> int:
    return value + int(rng.choice(NEAR)) if rng.random() < 0.6 else _number(rng)


def _changed_ints(values: tuple[int, ...], rng: Rng) -> tuple[int, ...]:
    """One entry other, added, dropped or moved."""
    out, kind = list(values), rng.random()
    if not out or kind < 0.15:
        out.insert(int(rng.integers(len(out) + 1)), _number(rng))
    elif kind < 0.3:
        out.pop(int(rng.integers(len(out))))
    elif kind < 0.45:
        rng.shuffle(out)
    else:
        place = int(rng.integers(len(out)))
        out[place] = _near(out[place], rng)
    return tuple(int(value) for value in out)


def _with_tensor(graph: Graph, change: Callable[[Tensor, Rng], Tensor], rng: Rng) -> Graph:
    place = int(rng.integers(len(graph.tensors)))
    tensors = list(graph.tensors)
    tensors[place] = change(tensors[place], rng)
    return replace(graph, tensors=tuple(tensors))


def _shape(tensor: Tensor, rng: Rng) -> Tensor:
    return replace(tensor, shape=_changed_ints(tensor.shape, rng))


def _dtype(tensor: Tensor, rng: Rng) -> Tensor:
    return replace(tensor, dtype=str(rng.choice(sorted(TYPE_CODES))))


def _signature(tensor: Tensor, rng: Rng) -> Tensor:
    return replace(tensor, signature=_changed_ints(tensor.shape, rng), is_variable=bool(rng.random() < 0.3))


def _scale(tensor: Tensor, rng: Rng) -> Tensor:
    old = tensor.quantization
    if old is None or rng.random() < 0.1:
        return replace(
            tensor, quantization=None if old else Quantization(np.ones(1, np.float32), np.zeros(1, int))
        )
    scales, points, axis = old.scales.copy(), old.zero_points.copy(), old.axis
    place, kind = int(rng.integers(scales.size)), rng.random()
    if kind < 0.3:
        scales[place] *= float(np.exp(rng.uniform(-8, 8)))
    elif kind < 0.5:
        scales[place] = float(rng.choice(SCALES))
    elif kind < 0.8:
        points[place] = _near(int(points[place]), rng)
    elif kind < 0.9:
        axis = _near(axis, rng)
    else:
        scales, points = np.repeat(scales, 2), np.repeat(points, int(rng.integers(1, 3)))
    return replace(tensor, quantization=Quantization(scales, points, axis))


def _data(tensor: Tensor, rng: Rng) -> Tensor:
    if tensor.data is None or not tensor.data.size or rng.random() < 0.1:
        return replace(tensor, data=None if tensor.data is not None else np.zeros(tensor.shape[:1], np.int8))
    data, kind = tensor.data.copy(), rng.random()
    flat = data.reshape(-1)
    if kind < 0.15:
        return replace(tensor, data=flat[: int(rng.integers(flat.size))])
    if data.dtype.kind == "f":
        flat[int(rng.integers(flat.size))] = float(rng.choice(SCALES))
        return replace(tensor, data=data)
    limits = np.iinfo(data.dtype) if data.dtype.kind in "iu" else np.iinfo(np.int8)
    for place in rng.integers(flat.size, size=int(rng.integers(1, 4))):
        value = (
            _near(int(flat[place]), rng) if rng.random() < 0.8 else int(rng.choice([limits.min, limits.max]))
        )
        flat[place] = max(int(limits.min), min(int(limits.max), value))
    return replace(tensor, data=data)


TENSOR_CHANGES: Final = (_shape, _shape, _dtype, _signature, _scale, _scale, _scale, _data, _data, _data)


def _tensor(graph: Graph, rng: Rng) -> Graph:
    return _with_tensor(graph, TENSOR_CHANGES[int(rng.integers(len(TENSOR_CHANGES)))], rng)


def _with_operator(graph: Graph, change: Callable[[Operator, Graph, Rng], Operator], rng: Rng) -> Graph:
    if not graph.operators:
        return graph
    place = int(rng.integers(len(graph.operators)))
    operators = list(graph.operators)
    operators[place] = change(operators[place], graph, rng)
    return replace(graph, operators=tuple(operators))


def _places(values: tuple[int, ...], graph: Graph, rng: Rng) -> tuple[int, ...]:
    if values and rng.random() < 0.6:
        out = list(values)
        out[int(rng.integers(len(out)))] = int(rng.integers(-1, len(graph.tensors)))
        return tuple(out)
    return _changed_ints(values, rng)


def _inputs(operator: Operator, graph: Graph, rng: Rng) -> Operator:
    return replace(operator, inputs=_places(operator.inputs, graph, rng))


def _outputs(operator: Operator, graph: Graph, rng: Rng) -> Operator:
    return replace(operator, outputs=_places(operator.outputs, graph, rng))


def _other_op(operator: Operator, graph: Graph, rng: Rng) -> Operator:
    known = sorted(OPTIONS) if rng.random() < 0.9 else sorted(OPERATOR_CODES)
    op = str(rng.choice(known))
    return replace(operator, op=op, options=defaults(op), version=int(rng.integers(1, 6)))


def _option(operator: Operator, graph: Graph, rng: Rng) -> Operator:
    if operator.custom_options:
        return replace(operator, custom_options=_own_options(operator, rng))
    fields = OPTIONS[operator.op].fields if operator.op in OPTIONS else {}
    if not fields:
        return operator
    name = str(rng.choice(sorted(fields)))
    old: Any = operator.options.get(name, defaults(operator.op)[name])
    return replace(operator, options={**operator.options, name: _value(fields[name], old, rng)})


def _own_options(operator: Operator, rng: Rng) -> bytes:
    """Other numbers where they are known, else other bytes."""
    try:
        known = detections(operator) if is_custom(operator, DETECTIONS) else None
    except NoFormError:
        known = None
    if known is None or rng.random() < 0.3:
        change = (_flip_bits, _overwrite, _truncate, _set_word)[int(rng.integers(4))]
        room = operator.custom_options.ljust(16, b"\0")
        return change(bytearray(room), room, rng)
    name = str(rng.choice(sorted(vars(known))))
    return detections_bytes(replace(known, **{name: _value("value", getattr(known, name), rng)}))


def _value(kind: str, old: Any, rng: Rng) -> Any:
    if kind == "ints":
        return _changed_ints(tuple(old), rng)
    if kind == "text":
        return str(old)[int(rng.integers(len(str(old)) + 1)) :]
    if kind != "value":
        return str(rng.choice(sorted(member_names(kind))))
    if isinstance(old, bool):
        return not old
    if isinstance(old, float):
        return float(rng.choice(SCALES)) if rng.random() < 0.5 else float(rng.normal())
    return _near(int(old), rng)


OPERATOR_CHANGES: Final = (_inputs, _outputs, _other_op, _option, _option, _option)


def _operator(graph: Graph, rng: Rng) -> Graph:
    return _with_operator(graph, OPERATOR_CHANGES[int(rng.integers(len(OPERATOR_CHANGES)))], rng)


def _order(graph: Graph, rng: Rng) -> Graph:
    operators, kind = list(graph.operators), rng.random()
    if kind < 0.3 and operators:
        operators.append(operators[int(rng.integers(len(operators)))])
    elif kind < 0.5 and operators:
        operators.pop(int(rng.integers(len(operators))))
    elif kind < 0.7:
        rng.shuffle(operators)  # type: ignore[arg-type]
    elif kind < 0.85:
        return replace(graph, inputs=_places(graph.inputs, graph, rng))
    else:
        return replace(graph, outputs=_places(graph.outputs, graph, rng))
    return replace(graph, operators=tuple(operators))


GRAPH_CHANGES: Final = (_tensor, _tensor, _tensor, _tensor, _operator, _operator, _operator, _order)
