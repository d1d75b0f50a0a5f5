"""Opening what is no plan yet: ONNX, TFLite and Tengine models of any tool, programs and their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeGuard

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

from calib8.engine.plan_file import ANY_MODEL
from calib8.errors import Calib8Error, ModelError, UnsupportedModelError, UsageError
from calib8.files import check_model_file
from calib8.forks import whole_imports
from calib8.model.graph import graph_inputs, graph_outputs
from calib8.model.load import load_model
from calib8.model.states import stored_states
from calib8.model.stored_constants import has_external_data
from calib8.profiles import chosen_profile, onnx_profile
from calib8.program.file import is_program_file, load_program
from calib8.program.instructions import RealFunction, Recurrent
from calib8.program.lower.lower import lower
from calib8.program.program import Program
from calib8.program.rules import Profile
from calib8.program.verify import verify
from calib8.quantization.qdq import holds_codes
from calib8.session.ports import Shapes, program_specs
from calib8.session.prepared import Opened, check_fixed, refuse_outputs
from calib8.tflite.magic import claims_to_be_tflite, is_tflite_bytes
from calib8.tmfile.magic import claims_to_be_tmfile, is_tmfile_bytes
from calib8.type_texts import a_type

Source = str | os.PathLike[str] | onnx.ModelProto | bytes | Program


def opened_source(
    source: Source, profile: str | None, integer_only: bool, outputs: Sequence[str] | None = None
) -> Opened:
    """A model or program with the function that lowers it.

    Raises:
        UsageError: a profile that is unknown or does not fit, outputs of something else than a TFLite model,
            or no kind of source.
        ModelError: it cannot be read, or its quantization is broken.
        UnsupportedModelError: a float model.
    """
    if not _is_source(source):
        cure = "Give a path, a ModelProto, the bytes of a model, a Program or a Plan"
        raise UsageError("model", f"is {a_type(source)}", cure)
    if _is_tflite(source):
        with whole_imports():
            from calib8.session.tflite_models import opened_tflite  # what ONNX models do without

        return opened_tflite(source, profile, integer_only, outputs)
    refuse_outputs(outputs)
    if _is_tmfile(source):
        with whole_imports():
            from calib8.session.tmfile_models import opened_tmfile  # what ONNX models do without

        return opened_tmfile(source, profile, integer_only)
    chosen_profile(profile, integer_only)
    if isinstance(source, Program):
        verify(source)
        return _opened_program(source, source.name or "program", profile, integer_only)
    if isinstance(source, str | os.PathLike) and is_program_file(source):
        return _opened_program(load_program(source), str(source), profile, integer_only)
    return _opened_model(source, onnx_profile(profile, integer_only), integer_only)


def _is_tflite(source: Source) -> TypeGuard[str | os.PathLike[str] | bytes]:
    if isinstance(source, bytes):
        return is_tflite_bytes(source)
    return isinstance(source, str | os.PathLike) and claims_to_be_tflite(source)


def _is_tmfile(source: Source) -> TypeGuard[str | os.PathLike[str] | bytes]:
    if isinstance(source, bytes):
        return is_tmfile_bytes(source)
    return isinstance(source, str | os.PathLike) and claims_to_be_tmfile(source)


def _is_source(source: object) -> bool:
    return isinstance(source, str | os.PathLike | onnx.ModelProto | bytes | Program)


def _opened_program(program: Program, name: str, profile: str | None, integer_only: bool) -> Opened:
    """Lowered for good: nothing of it can be chosen any more."""
    cells = [step.name for step in program.instructions if isinstance(step, Recurrent | RealFunction)]
    floats = [*cells, *(node for step in program.float_instructions for node in step.nodes)]
    check_fixed(name, program.profile, floats, profile, integer_only)
    inputs, outputs = program_specs(program, program.inputs), program_specs(program, program.outputs)
    states = {state.input: state.output for state in program.states}
    return Opened(name, program.profile, inputs, outputs, lambda shapes: program, states=states)


def _opened_model(
    source: str | os.PathLike[str] | onnx.ModelProto | bytes, profile: Profile, integer_only: bool
) -> Opened:
    if isinstance(source, str | os.PathLike):
        check_model_file(source, ANY_MODEL)
    readable = _parsed(source) if isinstance(source, bytes) else source
    model = load_model(readable)
    name = (model.graph.name or "model") if isinstance(readable, onnx.ModelProto) else str(readable)
    if not holds_codes(model):
        if any(node.op_type == "EPContext" for node in model.graph):
            cure = "Give the model that they were made of, or open it in ONNX Runtime"
            raise UnsupportedModelError(name, "holds plans for execution providers of ONNX Runtime", cure)
        raise UnsupportedModelError(
            name, "is a float model: no node reads or makes codes", "Quantize it first"
        )
    lowered: Callable[[Shapes], Program] = partial(_lowered, model, name, profile, integer_only)
    return Opened(
        name,
        profile,
        graph_inputs(model),
        graph_outputs(model),
        lowered,
        self_contained=not has_external_data(model),
        states=stored_states(model, name),
    )


def _parsed(data: bytes) -> onnx.ModelProto:
    if not data:
        raise ModelError("model bytes", "are empty", "Give a serialized ModelProto")
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
