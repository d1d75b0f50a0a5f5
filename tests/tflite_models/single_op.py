"""Random models of one operator, and what each runtime makes of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from litert import litert_outputs

from calib8.program.lower_tflite.lower import lower_tflite
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph, Operator, Option, Quantization, Tensor
from calib8.tflite.read import parse
from calib8.tflite.write import serialize

CASES = int(os.environ.get("CALIB8_TFLITE_CASES", "12"))
"""Random models per operator and type; scripts/check-full takes more."""


@dataclass
class Net:
    """A model of one operator while it is put together."""

    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)

    def codes(self, shape: Sequence[int], dtype: str, scale: float, zero_point: int) -> int:
        """An input of codes."""
        self.inputs.append(self._add(Tensor("x", tuple(shape), dtype, None, quantized(scale, zero_point))))
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
    """Random codes for every input."""
    tensors = [graph.tensors[place] for place in graph.inputs]
    return [random_codes(rng, tensor.shape, tensor.dtype) for tensor in tensors]


def assert_same_bits(rng: np.random.Generator, graph: Graph, runs: int = 2) -> None:
    """LiteRT's reference kernels, the reference and the native engine give the same codes."""
    model = serialize(graph)
    program = lower_tflite(parse(model))
    sessions = {name: InferenceSession(program, runtime=name) for name in ("reference", "calib8")}
    for _ in range(runs):
        inputs = feeds(rng, graph)
        expected = litert_outputs(model, inputs)
        named = {port.name: array for port, array in zip(program.inputs, inputs, strict=True)}
        for name, session in sessions.items():
            for got, wanted in zip(session.run(None, named), expected, strict=True):
                np.testing.assert_array_equal(got, wanted, err_msg=f"{name}: {graph.operators[0]}")
