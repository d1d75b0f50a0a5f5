"""Random recurrent layers: as an instruction, as an ONNX model, and with exact products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from example_programs import plain, single
from onnx import TensorProto, helper

from calib8.program import instructions as op
from calib8.program.ops.cells import GATES, Cell, Extra
from calib8.program.ops.recurrent import FUNCTION_COUNT
from calib8.program.program import Program, Slot
from calib8.program.rules import CellFunction

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]

USUAL: Final = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
BOUNDED: Final = ("Sigmoid", "Tanh", "HardSigmoid", "Softsign", "ScaledTanh")


@dataclass(frozen=True, eq=False)
class Floats:
    """What an ONNX node holds of one layer: float32 W [D, G·H, I], R [D, G·H, H], B [D, 2·G·H]."""

    w: F32
    r: F32
    b: F32


@dataclass(frozen=True, eq=False)
class ExactWeights:
    """Products of float32 numbers in place of codes."""

    w: F32
    r: F32

    def of_inputs(self, rows: F32) -> F32:
        return rows @ self.w.T

    def of_states(self, rows: F32, first: int = 0) -> F32:
        return rows @ self.r[first:].T


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer in all its forms."""

    program: Program
    floats: Floats

    @property
    def step(self) -> op.Recurrent:
        step = self.program.instructions[0]
        assert isinstance(step, op.Recurrent)
        return step

    @property
    def exact(self) -> list[ExactWeights]:
        return [ExactWeights(w, r) for w, r in zip(self.floats.w, self.floats.r, strict=True)]


def pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def coded(weight: F32) -> tuple[npt.NDArray[np.int8], F32]:
    """Codes and a scale for every row."""
    scale = (np.abs(weight).max(axis=-1) / 127).astype(np.float32)
    scale = np.where(scale > 0, scale, np.float32(1)).astype(np.float32)
    return np.clip(np.rint(weight / scale[..., None]), -127, 127).astype(np.int8), scale


def random_function(rng: np.random.Generator, names: Sequence[str]) -> CellFunction:
    name = pick(rng, names)
    numbers = {"HardSigmoid": (0.2, 0.5), "ScaledTanh": (1.2, 0.7), "Affine": (0.4, 0.1)}.get(name, (0, 0))
    return CellFunction(name, *(float(np.float32(number)) for number in numbers))


def random_layer(
    rng: np.random.Generator,
    cell: Cell,
    sizes: tuple[int, int, int, int],
    *,
    extras: Sequence[Extra] | None = None,
    usual: bool = False,
    functions: Sequence[str] = BOUNDED,
) -> Layer:
    """A layer of sizes T, N, I, H; everything that an ONNX node may say is drawn, or nothing of it."""
    steps, samples, inputs, units = sizes
    any_of = (lambda: False) if usual else (lambda: bool(rng.random() < 0.5))
    directions = pick(rng, [("forward",), ("reverse",), ("forward", "reverse")])
    count, rows = len(directions), GATES[cell] * units
    names = USUAL[cell] if any_of() or usual else None
    w = rng.normal(0, 1 / np.sqrt(inputs), (count, rows, inputs)).astype(np.float32)
    r = rng.normal(0, 1 / np.sqrt(units), (count, rows, units)).astype(np.float32)
    b = rng.normal(0, 0.3, (count, 2 * rows)).astype(np.float32)
    late = cell == "GRU" and any_of()
    bias = b[:, :rows] + b[:, rows:]
    if late:
        bias[:, 2 * units :] = b[:, 2 * units : rows]
    if extras is None:
        options: list[Extra] = ["h", "c", "lengths"] if cell == "LSTM" else ["h", "lengths"]
        extras = [name for name in options if any_of()]
    peephole = cell == "LSTM" and any_of()
    state = (count, samples, units)
    slots = {
        "h": plain("h", *state),
        "c": plain("c", *state),
        "lengths": plain("lengths", samples, dtype="int32"),
    }
    (w8, ws), (r8, rs) = coded(w), coded(r)
    program = single(
        op.Recurrent,
        [plain("x", steps, samples, inputs), *(slots[name] for name in extras)],
        Slot("y", (steps + (2 if cell == "LSTM" else 1), *state), "float32"),
        cell=cell,
        directions=directions,
        weight=w8,
        weight_scale=ws,
        recurrent=r8,
        recurrent_scale=rs,
        bias=bias.astype(np.float32),
        inner_bias=b[:, rows + 2 * units :].copy() if late else np.zeros(0, np.float32),
        peephole=rng.normal(0, 0.5, (count, 3 * units)).astype(np.float32)
        if peephole
        else np.zeros(0, np.float32),
        functions=tuple(
            random_function(rng, [names[place]] if names else functions)
            for _ in directions
            for place in range(FUNCTION_COUNT[cell])
        ),
        clip=float(np.float32(pick(rng, [0.2, 0.9, 5]))) if any_of() else 0.0,
        coupled=cell == "LSTM" and any_of(),
        reset_after=late,
        extras=tuple(extras),
    )
    return Layer(program, Floats(w, r, b))


def random_sequences(program: Program, rng: np.random.Generator) -> dict[str, Array]:
    """Feeds; all lengths from 0 to T occur."""
    steps = program.slots[0].shape[0]
    feeds: dict[str, Array] = {}
    for port in program.inputs:
        slot = program.slots[port.slot]
        if slot.dtype == "int32":
            feeds[port.name] = rng.integers(0, steps + 1, slot.shape).astype(np.int32)
        else:
            feeds[port.name] = rng.normal(0, 1, slot.shape).astype(np.float32)
    return feeds


def onnx_model(layer: Layer) -> onnx.ModelProto:
    """One ONNX node with the layer's float weights."""
    step, floats = layer.step, layer.floats
    given = step.extras
    names = ["x", "W", "R", "B", *(name if name in given else "" for name in ("lengths", "h"))]
    arrays = {"W": floats.w, "R": floats.r, "B": floats.b}
    if step.cell == "LSTM":
        names += ["c" if "c" in given else "", "P" if step.peephole.size else ""]
        if step.peephole.size:
            arrays["P"] = step.peephole
    outputs = ["Y", "Y_h", *(["Y_c"] if step.cell == "LSTM" else [])]
    direction = "bidirectional" if len(step.directions) == 2 else step.directions[0]
    attributes: dict[str, Any] = {"hidden_size": step.units, "direction": direction}
    attributes["activations"] = [function.name for function in step.functions]
    given_numbers = [f for f in step.functions if f.name in WITH_NUMBERS]
    if given_numbers:
        attributes["activation_alpha"] = [f.alpha for f in given_numbers]
        attributes["activation_beta"] = [f.beta for f in given_numbers]
    if step.clip:
        attributes["clip"] = step.clip
    if step.coupled:
        attributes["input_forget"] = 1
    if step.reset_after:
        attributes["linear_before_reset"] = 1
    node = helper.make_node(step.cell, names, outputs, step.cell.lower(), **attributes)
    ports = [
        helper.make_tensor_value_info(
            port.name,
            TensorProto.INT32 if port.name == "lengths" else TensorProto.FLOAT,
            layer.program.slots[port.slot].shape,
        )
        for port in layer.program.inputs
    ]
    graph = helper.make_graph(
        [node],
        step.cell,
        ports,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


WITH_NUMBERS: Final = ("HardSigmoid", "ScaledTanh", "Affine")
