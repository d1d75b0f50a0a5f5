"""How near a simulation is to the integers: every instruction of the int8 program, given the same codes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from calib8.errors import UsageError
from calib8.modules.modes import in_mode
from calib8.outcomes import Quantization
from calib8.program.instructions import TRAITS, Float, Instruction, Quantize
from calib8.program.lower.lower import lower
from calib8.program.ops.operand import Operand
from calib8.program.program import Program
from calib8.training.conversion import unwrapped
from calib8.training.simulated_model import SimulatedModel

Codes = npt.NDArray[Any]

MOST_LAYOUTS: Final = 4
"""Orders of axes that a tensor is tried in, where axes are equally long."""


@dataclass(frozen=True)
class StepAgreement:
    """One instruction of the integer program, given the codes that the simulation has.

    Attributes:
        name: of the instruction.
        tensor: what it yields.
        values: how many codes.
        equal: share of them that the simulation has as well, 0 … 1.
        largest: largest difference in codes.
    """

    name: str
    tensor: str
    values: int
    equal: float
    largest: int


@dataclass(frozen=True)
class Agreement:
    """A simulation beside the integer program.

    Attributes:
        steps: per instruction whose inputs and result the simulation has.
        unseen: names of the other instructions on codes.
    """

    steps: tuple[StepAgreement, ...]
    unseen: tuple[str, ...]

    @property
    def equal(self) -> float:
        """Share of equal codes over all steps, 0 … 1; NaN where nothing could be compared."""
        total = sum(step.values for step in self.steps)
        return sum(step.equal * step.values for step in self.steps) / total if total else math.nan

    @property
    def largest(self) -> int:
        """Largest difference in codes."""
        return max((step.largest for step in self.steps), default=0)


def agreement(model: nn.Module, int8: Quantization, inputs: Tensor | Sequence[Tensor]) -> Agreement:
    """Runs a frozen simulation once, and every integer instruction on the codes that it had there.

    The integer side is the reference executor with the rounding profile ``onnx``.

    Args:
        model: what ``prepare`` gave, frozen.
        int8: what ``convert`` made of it.
        inputs: what the model is called with.

    Raises:
        UsageError: the model is not frozen.
    """
    simulated = unwrapped(model)
    if not simulated.calib8.frozen:
        raise UsageError("model", "is not frozen: its ranges still move", "Call calib8.training.freeze first")
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    codes = _simulated_codes(simulated, given)
    names = [value.name or "" for value in int8.prepared.model.graph.inputs]
    program = lower(
        int8.model, shapes={name: tuple(one.shape) for name, one in zip(names, given, strict=True)}
    )
    return _compared(program, codes)


def _simulated_codes(model: SimulatedModel, inputs: tuple[Tensor, ...]) -> dict[str, Codes]:
    """Tensor → its codes as the simulation has them."""
    found: dict[str, Codes] = {}
    handles = []
    for name, quantizer in model.calib8.all_quantizers():

        def note(module: Any, _: Any, result: Tensor, name: str = name) -> None:
            steps = torch.round(result.double() / module.scale.double()) + module.zero_point
            found[name] = steps.cpu().numpy().astype(np.int32)

        if quantizer.active:
            handles.append(quantizer.register_forward_hook(note))
    try:
        with torch.no_grad(), in_mode(model, training=False):
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    for name, other in model.calib8.plan.aliases.items():
        if other in found:
            found[name] = found[other]
    return found


def _compared(program: Program, codes: Mapping[str, Codes]) -> Agreement:
    """Runs each instruction by itself."""
    steps: list[StepAgreement] = []
    unseen: list[str] = []
    for step in program.instructions:
        if isinstance(step, (Float, Quantize)) or len(step.outputs) != 1:
            continue
        known = [_layouts(program, number, codes) for number in (*step.inputs, *step.outputs)]
        if not all(known):
            unseen.append(step.name)
            continue
        # several layouts fit where axes are equally long: the program has the one that agrees
        distances = [_distance(program, step, arrays) for arrays in itertools.product(*known)]
        distance = min(distances, key=lambda one: int(np.count_nonzero(one)))
        steps.append(
            StepAgreement(
                step.name,
                program.slots[step.outputs[0]].name,
                distance.size,
                float(np.mean(distance == 0)),
                int(np.max(distance, initial=0)),
            )
        )
    return Agreement(tuple(steps), tuple(unseen))


def _distance(program: Program, step: Instruction, arrays: Sequence[Codes]) -> Codes:
    """How far the codes that an instruction computes lie from the simulation's, the last of ``arrays``."""
    *sources, wanted = arrays
    operands = [
        Operand(program.slots[number], source) for number, source in zip(step.inputs, sources, strict=True)
    ]
    result = TRAITS[type(step)].compute(step, operands, program.slots[step.outputs[0]])
    return np.abs(result.astype(np.int32) - wanted.astype(np.int32))


def _layouts(program: Program, number: int, codes: Mapping[str, Codes]) -> list[Codes]:
    """The simulated codes of a slot in the layouts with its sizes: channels last, as they are, others."""
    slot = program.slots[number]
    name = slot.name.removesuffix("/codes")
    if name not in codes or slot.dtype not in ("uint8", "int8"):
        return []
    found = codes[name].squeeze()
    axes = [axis for axis, size in enumerate(codes[name].shape) if size > 1]
    channels_last = sorted(range(found.ndim), key=lambda index: axes[index] == 1)
    orders = dict.fromkeys([tuple(channels_last), *itertools.permutations(range(found.ndim))])
    wanted = _axes(slot.shape)
    fitting = (order for order in orders if [found.shape[axis] for axis in order] == wanted)
    return [
        np.ascontiguousarray(found.transpose(order).astype(slot.dtype).reshape(slot.shape))
        for order in itertools.islice(fitting, MOST_LAYOUTS)
    ]


def _axes(shape: tuple[int, ...]) -> list[int]:
    """Sizes but those of 1, which a program adds and leaves out."""
    return [size for size in shape if size > 1]
