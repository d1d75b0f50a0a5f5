"""Tiny models that ONNX Runtime runs in one fused integer kernel, and random quantized tensors for them."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import NodeProto, helper, numpy_helper

from calib8.program.instructions import Instruction
from calib8.program.program import Port, Program, Slot
from calib8.program.reference.executor import run_program
from calib8.qparams import QParams

Array = npt.NDArray[Any]
MICROSOFT = "com.microsoft"
CASES = 20
"""Random cases per seed; twelve seeds make 240."""
SEEDS = range(12)
TYPES = [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")]
"""Types of activation and weight (or left and right side) that ONNX Runtime has kernels for."""


def onnx_runtime(
    nodes: Sequence[NodeProto],
    feeds: Mapping[str, Array],
    constants: Mapping[str, Array],
    output: str = "y",
    fused: Collection[str] = (),
) -> Array:
    """What ONNX Runtime computes with all graph optimizations, int8 kernels for int8 codes included.

    Checks that it ran the ops ``fused`` and no float ones beside them.
    """
    graph = helper.make_graph(
        list(nodes),
        "kernel",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in feeds.items()
        ],
        [helper.make_empty_tensor_value_info(output)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # x86 would otherwise turn int8 into uint8, or leave it to the float kernels.
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    with tempfile.TemporaryDirectory() as folder:
        optimized = str(Path(folder) / "optimized.onnx")
        if fused:
            options.optimized_model_filepath = optimized
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        if fused:
            ops = {node.op_type for node in onnx.load(optimized).graph.node}
            assert ops - {"Transpose"} == set(fused), f"ONNX Runtime runs {sorted(ops)}"
    return session.run([output], dict(feeds))[0]


def reference(steps: Sequence[Instruction], slots: Sequence[Slot], *arrays: Array) -> Array:
    """What the reference executor computes: the first slots are fed, the last one comes out."""
    ports = tuple(Port(slot.name, number) for number, slot in enumerate(slots))
    program = Program("onnx", tuple(slots), tuple(steps), ports[: len(arrays)], ports[-1:])
    return run_program(program, {slot.name: array for slot, array in zip(slots, arrays, strict=False)})[0]


@dataclass(frozen=True)
class Quantized:
    """Random codes with scale and zero point."""

    name: str
    data: Array
    scale: np.float32
    zero_point: int

    @property
    def qparams(self) -> QParams:
        return QParams(float(self.scale), self.zero_point)

    @property
    def constants(self) -> dict[str, Array]:
        """Scale and zero point, named after the tensor."""
        return {f"{self.name}_scale": self.scale, f"{self.name}_zp": self.data.dtype.type(self.zero_point)}

    @property
    def names(self) -> list[str]:
        """As QLinear ops take them."""
        return [self.name, f"{self.name}_scale", f"{self.name}_zp"]

    def slot(self, shape: Sequence[int] | None = None) -> Slot:
        dtype = self.data.dtype.name
        return Slot(
            self.name, tuple(shape or self.data.shape), dtype, np.float32([self.scale]), self.zero_point
        )

    def dequantize(self) -> NodeProto:
        return helper.make_node("DequantizeLinear", self.names, [f"{self.name}_float"])


def random_codes(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    """All codes, the extremes more often than by chance."""
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max + 1, tuple(shape))
    extremes = rng.choice([info.min, info.max], tuple(shape))
    return np.where(rng.random(tuple(shape)) < 0.15, extremes, values).astype(dtype)


@functools.cache
def sums_pairs_in_16_bits() -> bool:
    """x86 without VNNI adds two products of uint8 and int8 in int16, where 2·255·127 saturates."""
    x = np.full((1, 2), 255, np.uint8)
    constants = {"w": np.full((2, 1), 127, np.int8), "zero": np.uint8(0), "w_zero": np.int8(0)}
    node = helper.make_node("MatMulInteger", ["x", "w", "zero", "w_zero"], ["y"])
    return int(onnx_runtime([node], {"x": x}, constants)[0, 0]) != 2 * 255 * 127


def random_weight(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    """All codes, as far as ONNX Runtime multiplies them exactly on this machine."""
    weight = random_codes(rng, shape, dtype)
    return weight // 2 if dtype == "int8" and sums_pairs_in_16_bits() else weight


def random_scale(rng: np.random.Generator) -> np.float32:
    """Any float32, or a power of two, with which ties are frequent."""
    if rng.random() < 0.3:
        return np.float32(2.0 ** rng.integers(-7, 1))
    return np.float32(10.0 ** rng.uniform(-3, 0))


def quantized(rng: np.random.Generator, name: str, shape: Sequence[int], dtype: str) -> Quantized:
    info = np.iinfo(dtype)
    points = [info.min, 0, info.max, *rng.integers(info.min, info.max + 1, 5)]
    return Quantized(name, random_codes(rng, shape, dtype), random_scale(rng), int(rng.choice(points)))
