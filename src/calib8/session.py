"""A quantized model, ready to run: ONNX Runtime's ``run``, ``get_inputs``, ``get_outputs`` over a Program.

.onnx, ModelProto, bytes ──load──► onnx_ir.Model ──lower (per shape)──► Program ──run_program──► arrays
program file, Program ────────────────────────────────────────────────────┘
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

from calib8.errors import Calib8Error, DataError, ModelError, UnsupportedModelError, UsageError
from calib8.model.graph import graph_inputs, graph_outputs
from calib8.model.load import load_model
from calib8.program.file import is_program_file, load_program
from calib8.program.lower.lower import lower
from calib8.program.program import Port, Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify
from calib8.quantization.qdq import holds_codes
from calib8.tensors import TensorSpec

PROGRAM_RUNTIMES: Final = ("reference",)
"""What runs programs."""

CACHED_PROGRAMS: Final = 4
"""Programs of a model with free axes that are kept: those of the shapes fed last."""

Array = npt.NDArray[Any]
Sizes = tuple[int | str | None, ...]
Shapes = Mapping[str, Sequence[int]]
Source = str | os.PathLike[str] | onnx.ModelProto | bytes | Program


@dataclass(frozen=True)
class NodeArg:
    """An input or output, with the attributes of ONNX Runtime's class of this name.

    Attributes:
        name: its name in the model.
        shape: a size, a symbolic name or None (unknown) per axis; empty also where the rank is unknown.
        type: such as ``tensor(float)``.
    """

    name: str
    shape: list[int | str | None]
    type: str


class InferenceSession:
    """Runs a quantized model; the rounding profile defines every bit of the result.

    Attributes:
        name: path or graph name, for messages.
        profile: the rounding profile.
        inputs, outputs: their specs; sizes that are fixed by ``shapes`` are filled in.
    """

    def __init__(
        self,
        model: Source,
        *,
        runtime: str = "reference",
        profile: str | None = None,
        integer_only: bool = False,
        shapes: Shapes | None = None,
    ) -> None:
        """Loads the model, and lowers it unless an axis of an input is free.

        Args:
            model: path of a QDQ or QOperator ``.onnx`` file of any tool or of a saved program, a ModelProto,
                a serialized ModelProto, or a Program.
            runtime: what runs it: ``reference``, the NumPy definition of every instruction.
            profile: how sums become codes: ``onnx``, ``tflite`` or ``single``, see docs/numerics.md. None is
                ``onnx``, with ``integer_only`` it is ``single``; a program keeps the one it has.
            integer_only: refuse a model of which a part has no integer form.
            shapes: input name → sizes; an input that is named takes no others then.

        Raises:
            UsageError: unknown runtime or profile, ``integer_only`` with the profile ``onnx``, another
                profile than that of a program, or shapes that do not fit the inputs.
            ModelError: the model cannot be read, or its quantization is broken.
            UnsupportedModelError: a float model, or nodes that cannot be lowered.
        """
        if runtime not in PROGRAM_RUNTIMES:
            cure = f"Use one of {', '.join(PROGRAM_RUNTIMES)}"
            raise UsageError(f"runtime '{runtime}'", "does not run programs", cure)
        chosen = _chosen_profile(profile, integer_only)
        if isinstance(model, Program):
            verify(model)
            opened = _opened_program(model, model.name or "program", profile, integer_only)
        elif isinstance(model, str | os.PathLike) and is_program_file(model):
            opened = _opened_program(load_program(model), str(model), profile, integer_only)
        else:
            opened = _opened_model(model, chosen, integer_only)
        self.name, self.profile = opened.name, opened.profile
        self.inputs = _with_shapes(opened.inputs, shapes or {}, opened.name)
        self.outputs = opened.outputs
        self._lower = opened.lower
        self._programs: OrderedDict[tuple[object, ...], Program] = OrderedDict()
        if all(_static_sizes(spec.shape) for spec in self.inputs):
            self.outputs = _specs(self.program, self.program.outputs)

    @property
    def program(self) -> Program:
        """The lowered program; with a free batch axis that of one sample.

        Raises:
            ModelError: another axis is free, or what a free axis kept from being lowered so far.
        """
        sizes = {spec.name: _one_sample(spec.shape) for spec in self.inputs}
        return self._program_for({name: known for name, known in sizes.items() if known is not None})

    def get_inputs(self) -> list[NodeArg]:
        """The inputs to be fed, in the model's order."""
        return [_node_arg(spec) for spec in self.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the model's order."""
        return [_node_arg(spec) for spec in self.outputs]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, npt.ArrayLike]) -> list[Array]:
        """Outputs for the arrays fed by input name.

        Args:
            output_names: which outputs, in which order; None or an empty list: all.
            input_feed: one array per input, of its dtype and shape. NaN counts as the lowest code.

        Raises:
            DataError: an unknown output, or names, dtypes or shapes of the inputs that do not fit.
            ModelError: a model with free axes cannot be lowered for these shapes.
        """
        known = [spec.name for spec in self.outputs]
        unknown = [name for name in output_names or () if name not in known]
        if unknown:
            raise DataError(
                self.name, f"has no output '{unknown[0]}'", f"Ask for some of: {', '.join(known)}"
            )
        feeds = self._fitting(input_feed)
        program = self._program_for({name: array.shape for name, array in feeds.items()})
        results = run_program(program, {port.name: feeds[port.name] for port in program.inputs})
        by_name = {port.name: array for port, array in zip(program.outputs, results, strict=True)}
        return [by_name[name] for name in output_names or known]

    def _program_for(self, shapes: Mapping[str, tuple[int, ...]]) -> Program:
        key = tuple(shapes.items())
        program = self._programs.pop(key, None) or self._lower(shapes)
        self._programs[key] = program
        while len(self._programs) > CACHED_PROGRAMS:
            self._programs.popitem(last=False)
        return program

    def _fitting(self, feeds: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """The arrays in the order of the inputs, checked against their specs."""
        takes = ", ".join(str(spec) for spec in self.inputs)
        names = [spec.name for spec in self.inputs]
        if sorted(feeds) != sorted(names):
            got = ", ".join(f"'{name}'" for name in feeds) or "nothing"
            raise DataError(self.name, f"got {got} as inputs", f"The model takes {takes}")
        arrays = {name: np.asarray(feeds[name]) for name in names}
        for spec in self.inputs:
            array = arrays[spec.name]
            if array.dtype != spec.dtype or not _fits(array.shape, spec.shape):
                shape = "×".join(map(str, array.shape)) or "scalar"
                got = f"got {spec.name}: {array.dtype} {shape}"
                raise DataError(self.name, got, f"The model takes {takes}")
        return arrays


def _chosen_profile(profile: str | None, integer_only: bool) -> Profile:
    """The rounding profile that is meant, ``onnx`` or with ``integer_only`` ``single`` where none is given.

    Raises:
        UsageError: unknown, or ``onnx`` with ``integer_only``.
    """
    if profile is None:
        return "single" if integer_only else "onnx"
    known = next((name for name in PROFILES if name == profile), None)
    if known is None:
        cure = f"Use one of {', '.join(PROFILES)}"
        raise UsageError(f"profile '{profile}'", "unknown rounding profile", cure)
    if integer_only and known == "onnx":
        problem = "multiplies by float32 numbers, which is not integer only"
        raise UsageError("profile 'onnx'", problem, "Use single or tflite")
    return known


@dataclass(frozen=True)
class _Opened:
    """What a session needs of a model or a program; ``lower`` gives the program for shapes by input name."""

    name: str
    profile: Profile
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    lower: Callable[[Shapes], Program]


def _opened_program(program: Program, name: str, profile: str | None, integer_only: bool) -> _Opened:
    """Lowered for good: nothing of it can be chosen any more."""
    if profile is not None and profile != program.profile:
        problem = f"{name} was lowered with the profile '{program.profile}', which is fixed"
        raise UsageError(f"profile '{profile}'", problem, "Lower the ONNX model again")
    floats = [node for step in program.float_instructions for node in step.nodes]
    if integer_only and (floats or program.profile == "onnx"):
        what = f"nodes without an integer form: {', '.join(floats)}" if floats else "float32 multipliers"
        cure = "Lower the ONNX model again with integer_only, or run this without"
        raise UnsupportedModelError(name, f"is not integer only, it has {what}", cure)
    inputs, outputs = _specs(program, program.inputs), _specs(program, program.outputs)
    return _Opened(name, program.profile, inputs, outputs, lambda shapes: program)


def _opened_model(
    source: str | os.PathLike[str] | onnx.ModelProto | bytes, profile: Profile, integer_only: bool
) -> _Opened:
    readable = _parsed(source) if isinstance(source, bytes) else source
    model = load_model(readable)
    name = (model.graph.name or "model") if isinstance(readable, onnx.ModelProto) else str(readable)
    if not holds_codes(model):
        raise UnsupportedModelError(
            name, "is a float model: no node reads or makes codes", "Quantize it first"
        )
    lowered = partial(_lowered, model, name, profile, integer_only)
    return _Opened(name, profile, graph_inputs(model), graph_outputs(model), lowered)


def _parsed(data: bytes) -> onnx.ModelProto:
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError("model bytes", "are no ONNX model", "Give a serialized ModelProto") from error
    return proto


def _lowered(model: ir.Model, name: str, profile: Profile, integer_only: bool, shapes: Shapes) -> Program:
    """The program for these shapes; errors name the model."""
    try:
        return lower(model, profile=profile, shapes=shapes, integer_only=integer_only)
    except Calib8Error as error:
        of_model = error.subject in (name, model.graph.name, "model")
        subject = name if of_model else f"{name}: {error.subject}"
        raise type(error)(subject, error.problem, error.cure) from error


def _with_shapes(inputs: Iterable[TensorSpec], shapes: Shapes, name: str) -> tuple[TensorSpec, ...]:
    """The specs with the sizes that are given for them."""
    specs = {spec.name: spec for spec in inputs}
    for wanted, sizes in shapes.items():
        subject, given = f"shape of '{wanted}'", tuple(sizes)
        takes = ", ".join(str(spec) for spec in specs.values())
        if wanted not in specs:
            raise UsageError(subject, f"{name} has no such input", f"The model takes {takes}")
        if not _fits(given, specs[wanted].shape):
            text = "×".join(map(str, given))
            raise UsageError(subject, f"{text} does not fit {name}", f"The model takes {takes}")
        specs[wanted] = replace(specs[wanted], shape=given)
    return tuple(specs.values())


def _fits(shape: tuple[int, ...], sizes: Sizes | None) -> bool:
    """A shape without an empty axis that has the sizes that are fixed."""
    if any(size < 1 for size in shape):
        return False
    if sizes is None:
        return True
    return len(shape) == len(sizes) and all(
        not isinstance(fixed, int) or size == fixed for size, fixed in zip(shape, sizes, strict=True)
    )


def _static_sizes(sizes: Sizes | None) -> bool:
    return sizes is not None and all(isinstance(size, int) for size in sizes)


def _one_sample(sizes: Sizes | None) -> tuple[int, ...] | None:
    """The sizes with a free batch axis as 1; None where another size is free."""
    if sizes is None:
        return None
    filled = (*(1 if isinstance(size, str | None) else size for size in sizes[:1]), *sizes[1:])
    known = tuple(size for size in filled if isinstance(size, int))
    return known if len(known) == len(filled) else None


def _specs(program: Program, ports: Iterable[Port]) -> tuple[TensorSpec, ...]:
    slots = ((port.name, program.slots[port.slot]) for port in ports)
    return tuple(TensorSpec(name, np.dtype(slot.dtype), slot.shape) for name, slot in slots)


def _node_arg(spec: TensorSpec) -> NodeArg:
    names = {"float32": "float", "float64": "double", "object": "string"}
    return NodeArg(
        spec.name, list(spec.shape or ()), f"tensor({names.get(spec.dtype.name, spec.dtype.name)})"
    )
