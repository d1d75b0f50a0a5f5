"""Recurrent layers as instructions: what fits what, and what they cost; ``cells`` has the formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.cell_functions import check_float32
from calib8.program.ops.cells import Arrays, Extra, Products, Recurrent, Weights, run_cell
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import F32
from calib8.program.slot import Slot
from calib8.tensors import length_error

FUNCTION_COUNT: Final = {"LSTM": 3, "GRU": 2, "RNN": 1}
"""Functions of one direction: f, g, h of ONNX."""

MOST_PRODUCTS: Final = 1 << 16
"""Products of one sum: 127² times as many stay within int32."""


def recurrent(step: Recurrent, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """States of all steps, then the last ones.

    Raises:
        DataError: a length of a sequence that is longer than the sequence.
    """
    if "lengths" in step.extras:
        _check_lengths(step, operands[1 + step.extras.index("lengths")], len(operands[0].data))
    return computed(step, [operand.data for operand in operands], weights_of(step))


def _check_lengths(step: Recurrent, operand: Operand, steps: int) -> None:
    lengths = operand.data
    wrong = np.flatnonzero((lengths < 0) | (lengths > steps))
    if wrong.size:
        sample = int(wrong[0])
        raise length_error(step.name, operand.slot.name, sample, int(lengths[sample]), steps)


def weights_of(step: Recurrent) -> tuple[Weights, ...]:
    """Codes and scales of every direction."""
    return tuple(
        Weights(step.weight[d], step.weight_scale[d], step.recurrent[d], step.recurrent_scale[d])
        for d in range(len(step.directions))
    )


def computed(step: Recurrent, arrays: Sequence[npt.NDArray[Any]], weights: Sequence[Products]) -> F32:
    """The layer with products of any kind, see ``cells.Products``."""
    x, given = arrays[0], dict(zip(step.extras, arrays[1:], strict=True))
    steps, samples, _ = x.shape
    states = 2 if step.cell == "LSTM" else 1
    result = np.zeros((steps + states, len(step.directions), samples, step.units), np.float32)
    lengths = given.get("lengths", np.full(samples, steps, np.int32))
    for d, direction in enumerate(step.directions):
        h, c = (given[name][d] if name in given else None for name in ("h", "c"))
        run_cell(step, d, Arrays(x, lengths, h, c, direction == "reverse"), weights[d], result[:, d])
    return result


def _shape(step: Step, instruction: Recurrent) -> tuple[Shape, ...]:
    source, count = step.inputs[0], len(instruction.directions)
    if len(step.inputs) != 1 + len(instruction.extras):
        names = ", ".join(("x", *instruction.extras))
        raise step.error(f"reads {len(step.inputs)} slots", f"It reads {names}")
    if len(source.shape) != 3 or source.dtype != "float32":
        raise step.error(
            f"reads {source.dtype} of shape {list(source.shape)}", "Sequences are float32 [T, N, I]"
        )
    steps, samples, inputs = source.shape
    _check_weights(step, instruction, inputs)
    state = (count, samples, instruction.units)
    wanted = {"h": ("float32", state), "c": ("float32", state), "lengths": ("int32", (samples,))}
    for name, slot in zip(instruction.extras, step.inputs[1:], strict=True):
        if (slot.dtype, slot.shape) != wanted[name]:
            dtype, shape = wanted[name]
            problem = f'reads {name} from "{slot.name}", {slot.dtype} of shape {list(slot.shape)}'
            raise step.error(problem, f"It is {dtype} {list(shape)}")
    return ((steps + (2 if instruction.cell == "LSTM" else 1), *state),)


def _check_weights(step: Step, layer: Recurrent, inputs: int) -> None:
    """Refuses arrays that do not fit each other."""
    count = len(layer.directions)
    if layer.recurrent.ndim != 3:
        raise step.error(f"has recurrent weights of shape {list(layer.recurrent.shape)}", "Give [D, G·H, H]")
    rows = layer.gates * layer.units
    inner = (count, layer.units) if layer.reset_after else (0,)
    peephole = ((count, 3 * layer.units), (0,)) if layer.cell == "LSTM" else ((0,),)
    for what, array, shapes in (
        ("weights", layer.weight, ((count, rows, inputs),)),
        ("recurrent weights", layer.recurrent, ((count, rows, layer.units),)),
        ("scales of weights", layer.weight_scale, ((count, rows),)),
        ("scales of recurrent weights", layer.recurrent_scale, ((count, rows),)),
        ("biases", layer.bias, ((count, rows),)),
        ("inner biases", layer.inner_bias, (inner,)),
        ("peepholes", layer.peephole, peephole),
    ):
        if array.shape not in shapes:
            wanted = " or ".join(str(list(shape)) for shape in shapes)
            raise step.error(f"has {what} of shape {list(array.shape)}", f"Give {wanted}")


def _check(step: Step, layer: Recurrent) -> None:
    count, wanted = len(layer.directions), FUNCTION_COUNT[layer.cell]
    if count not in (1, 2):
        raise step.error(f"has {count} directions", "Give one or two")
    if len(layer.functions) != count * wanted:
        raise step.error(f"has {len(layer.functions)} functions", f"Give {count * wanted}")
    if layer.extras != tuple(name for name in ORDER if name in layer.extras):
        raise step.error(f"reads {', '.join(layer.extras)}", "Each once, in the order h, c, lengths")
    for what, there, owner in (
        ("a first c", "c" in layer.extras, "LSTM"),
        ("coupled gates", layer.coupled, "LSTM"),
        ("its reset behind the product", layer.reset_after, "GRU"),
    ):
        if there and layer.cell != owner:
            raise step.error(f"is a {layer.cell} and has {what}", f"Only {owner} has it")
    deepest = max(layer.weight.shape[-1], layer.units)
    if deepest > MOST_PRODUCTS:
        raise step.error(f"adds {deepest} products", f"The limit is {MOST_PRODUCTS}")
    _check_arrays(step, layer)
    _check_numbers(step, layer)


ORDER: Final[tuple[Extra, ...]] = ("h", "c", "lengths")


def _check_arrays(step: Step, layer: Recurrent) -> None:
    """Codes, scales, biases and peepholes."""
    for what, codes in (("weight", layer.weight), ("recurrent weight", layer.recurrent)):
        if codes.min(initial=0) < -127:
            raise step.error(f"has the {what} -128", "Codes are -127 … 127")
    for what, scales in (("weight", layer.weight_scale), ("recurrent weight", layer.recurrent_scale)):
        bad = scales[~(np.isfinite(scales) & (scales > 0))]
        if bad.size:
            raise step.error(f"has the scale {bad[0]} of a {what}", "Scales are finite and above 0")
    for what, array in (("bias", layer.bias), ("bias", layer.inner_bias), ("peephole", layer.peephole)):
        bad = array[~np.isfinite(array)]
        if bad.size:
            raise step.error(f"has the {what} {bad[0]}", "It must be finite")


def _check_numbers(step: Step, layer: Recurrent) -> None:
    """What is applied to single values."""
    numbers = (n for f in layer.functions for n in (f.alpha, f.beta))
    check_float32(step, "Clip, alpha and beta", layer.clip, *numbers)
    if layer.clip < 0:
        raise step.error(f"clips at {layer.clip:.6g}", "Give a bound above 0, or 0 for none")


def _macs(instruction: Recurrent, source: Slot, result: Slot) -> int:
    """Of both products in every step."""
    steps, samples = source.shape[:2]
    return steps * samples * (instruction.weight.size + instruction.recurrent.size)


TRAITS: Final[dict[type[Instruction], Traits]] = {
    Recurrent: Traits(
        Takes((("float32", "int32"),), ("float32",), variadic=True),
        _shape,
        recurrent,
        macs=_macs,
        check=_check,
    )
}
