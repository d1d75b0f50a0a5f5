"""Random models of one operator, and what each runtime makes of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from litert import litert_outputs

from calib8.program.lower_tflite.lower import lower_tflite
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph, Operator, Option, Quantization, Tensor
from calib8.tflite.read import parse
from calib8.tflite.write import serialize

CASES = int(os.environ.get("CALIB8_TFLITE_CASES", "6"))
"""Random models per operator and type; scripts/check-full takes more."""


@dataclass
class Net:
    """A model of one operator while it is put together.

    Attributes:
        tensors, inputs: of the model so far.
        powers: scales are powers of two, so that many results are ties.
    """

    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    powers: bool = False

    def scale(self, rng: np.random.Generator, low: float = 1e-3, high: float = 0.5) -> float:
        """A random scale."""
        scale = random_scale(rng, low, high)
        return float(2.0 ** np.round(np.log2(scale))) if self.powers else scale

    def codes(self, shape: Sequence[int], dtype: str, scale: float, zero_point: int) -> int:
        """An input of codes."""
        self.inputs.append(self._add(Tensor("x", tuple(shape), dtype, None, quantized(scale, zero_point))))
        return self.inputs[-1]

    def plain(self, shape: Sequence[int], dtype: str) -> int:
        """An input of plain numbers."""
        self.inputs.append(self._add(Tensor("x", tuple(shape), dtype)))
        return self.inputs[-1]

    def constant(self, data: npt.NDArray[Any], quantization: Quantization | None = None) -> int:
        """A constant."""
        return self._add(Tensor("k", data.shape, data.dtype.name, data, quantization))

    def output(self, shape: Sequence[int], dtype: str, quantization: Quantization | None = None) -> int:
        """A tensor that the operator writes."""
        return self._add(Tensor("y", tuple(shape), dtype, None, quantization))

    def graph(
        self, op: str, inputs: Sequence[int], outputs: Sequence[int], version: int = 1, **options: Option
    ) -> Graph:
        """The model; every output of the operator is one of the model."""
        operator = Operator(op, tuple(inputs), tuple(outputs), options, version)
        return Graph(tuple(self.tensors), (operator,), tuple(self.inputs), tuple(outputs), "net")

    def _add(self, tensor: Tensor) -> int:
        self.tensors.append(Tensor(**{**vars(tensor), "name": f"{tensor.name}{len(self.tensors)}"}))
        return len(self.tensors) - 1


def quantized(scale: float, zero_point: int) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([zero_point], np.int64))


def random_scale(rng: np.random.Generator, low: float = 1e-3, high: float = 0.5) -> float:
    return float(np.float32(np.exp(rng.uniform(np.log(low), np.log(high)))))


def random_zero_point(rng: np.random.Generator, dtype: str) -> int:
    limits = np.iinfo(dtype)
    return int(rng.integers(limits.min, limits.max, endpoint=True))


def random_codes(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> npt.NDArray[Any]:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, tuple(shape), dtype=dtype, endpoint=True)


def feeds(rng: np.random.Generator, graph: Graph) -> list[npt.NDArray[Any]]:
    """Random elements for every input."""
    tensors = [graph.tensors[place] for place in graph.inputs]
    return [
        _random_reals(rng, tensor.shape, graph)
        if tensor.dtype == "float32"
        else random_codes(rng, tensor.shape, tensor.dtype)
        for tensor in tensors
    ]


def _random_reals(rng: np.random.Generator, shape: Sequence[int], graph: Graph) -> npt.NDArray[np.float32]:
    """Half of them at or beside a tie between two codes of the output; some beyond all codes."""
    kind = graph.tensors[graph.outputs[0]].quantization
    scale = np.float32(1.0) if kind is None else kind.scales[0]
    steps = rng.uniform(-400.0, 400.0, tuple(shape))
    ties = np.floor(steps) + 0.5
    return (np.where(rng.random(tuple(shape)) < 0.5, ties, steps) * scale).astype(np.float32)


def assert_same_bits(
    rng: np.random.Generator,
    graph: Graph,
    runs: int = 2,
    definition: Graph | None = None,
    inputs: Sequence[npt.NDArray[Any]] = (),
) -> None:
    """LiteRT's reference kernels, the reference and the native engine give the same bits.

    Args:
        rng: of the inputs.
        graph: the model.
        runs: with new inputs each.
        definition: what LiteRT runs instead: a model of uint8 codes that lie 128 above those of the model.
        inputs: instead of random ones.
    """
    model = serialize(graph)
    program = lower_tflite(parse(model))
    sessions = {name: InferenceSession(program, runtime=name) for name in ("reference", "calib8")}
    for _ in range(runs):
        fed = inputs or feeds(rng, graph)
        if definition is None:
            expected = litert_outputs(model, fed)
        else:
            moved = litert_outputs(serialize(definition), [x.view(np.uint8) ^ 128 for x in fed])
            expected = [(y ^ 128).view(np.int8) for y in moved]
        named = {port.name: array for port, array in zip(program.inputs, fed, strict=True)}
        for name, session in sessions.items():
            for got, wanted in zip(session.run(None, named), expected, strict=True):
                np.testing.assert_array_equal(got, wanted, err_msg=f"{name}: {graph.operators[0]}")


def moved_to_uint8(graph: Graph) -> Graph:
    """The same model with codes and zero points of int8 moved up by 128."""
    return replace(graph, tensors=tuple(_moved(tensor) for tensor in graph.tensors))


def _moved(tensor: Tensor) -> Tensor:
    if tensor.dtype != "int8" or tensor.quantization is None:
        return tensor
    kind = replace(tensor.quantization, zero_points=tensor.quantization.zero_points + 128)
    data = None if tensor.data is None else tensor.data.view(np.uint8) ^ 128
    return replace(tensor, dtype="uint8", data=data, quantization=kind)
