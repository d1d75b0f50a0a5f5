"""``export`` to an ONNX file of plans: compiled, held against other batches, and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from calib8.delivery.any_batch import Opened, any_batch
from calib8.engine.compile import compile_program
from calib8.engine.plan import Plan
from calib8.engine.plan_file import SUFFIX, plan_pieces
from calib8.errors import OutputError
from calib8.exporting.epcontext.graph import PlanPart, plans_as_onnx
from calib8.exporting.epcontext.split import FloatPart, Split
from calib8.files import atomic_output, output_file
from calib8.model.metadata import PREFIX, read_metadata
from calib8.model.save import PROTOBUF_LIMIT
from calib8.parameters import parameter
from calib8.program.listing import summary
from calib8.program.magic import is_program_file
from calib8.program.program import Port, Program, State
from calib8.program.verify import verify
from calib8.session import InferenceSession
from calib8.session.ports import program_specs
from calib8.session.stored_preprocess import stored_preprocess
from calib8.tensors import TensorSpec
from calib8.tflite.magic import claims_to_be_tflite
from calib8.tmfile.magic import claims_to_be_tmfile

PREPROCESS: Final = PREFIX + "preprocess"


@dataclass(frozen=True)
class EpContextExport:
    """What an ONNX file of plans holds.

    Attributes:
        inputs, outputs: of the model.
        plans: names of the nodes that hold a plan.
        files: of the plans beside the model; none where they lie in it.
        plan_bytes: of all plans.
        instructions: how many of them the plans have, and the parts in float between them.
        float_nodes: nodes that ONNX Runtime computes.
        free_batch: any number of samples may be fed.
        notes: what differs from the model.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    plans: tuple[str, ...]
    files: tuple[Path, ...]
    plan_bytes: int
    instructions: Mapping[str, int]
    float_nodes: tuple[str, ...]
    free_batch: bool
    notes: tuple[str, ...]


def write_epcontext(
    model: Path, output: Path, opened: Opened, states: Sequence[State], beside: bool
) -> EpContextExport:
    """Writes the file, and says what is in it.

    Args:
        model: path of the model, which may say how its images are prepared.
        output: the .onnx file.
        opened: gives a session of the model for some shapes; it carries no states.
        states: what a session of the model carries.
        beside: write plans into files beside the model.

    Raises:
        ModelError: sizes other than the batch are free.
        OutputError: a file cannot be written, or the model would be over 2 GB.
    """
    session, target = opened({}), output_file(output)
    program = session.program
    batch, parted, reason = any_batch(session, opened)
    plans = _plans(parted, session)
    size = sum(map(len, plans.values()))
    if not beside and size > PROTOBUF_LIMIT:
        problem = f"would hold {size:,} bytes of plans, more than an .onnx file can"
        raise OutputError(str(output), problem, f"Use {parameter('plan_beside', True)}")
    files = _files(target, list(plans)) if beside else {}
    inputs, outputs = (_ports(program, ports, batch) for ports in (program.inputs, program.outputs))
    parts = [
        part if isinstance(part, FloatPart) else _plan_part(part, name, files.get(name, plans[name]), batch)
        for name, part in _node_names(parted)
    ]
    name, metadata = program.name or model.stem, _metadata(model)
    proto = plans_as_onnx(name, parts, inputs, outputs, parted.copies, metadata)
    for node, file in files.items():
        _write(target.with_name(file), plans[node])
    _write(target, proto.SerializeToString(deterministic=True))
    notes = [f"the batch is fixed at 1: {reason}"] if reason else []
    return EpContextExport(
        inputs=inputs,
        outputs=outputs,
        plans=tuple(plans),
        files=tuple(map(target.with_name, files.values())),
        plan_bytes=size,
        instructions=summary(program).instructions,
        float_nodes=tuple(node for step in program.float_instructions for node in step.nodes),
        free_batch=batch is not None,
        notes=(*notes, *_on_states(states)),
    )


def _write(path: Path, content: bytes) -> None:
    with atomic_output(path) as temporary:
        temporary.write_bytes(content)


def _ports(program: Program, ports: Sequence[Port], batch: str | None) -> tuple[TensorSpec, ...]:
    """Inputs or outputs of the model; with the name of a batch, where it is free."""
    specs = program_specs(program, ports)
    return specs if batch is None else tuple(_of_batch(spec, batch) for spec in specs)


def _of_batch(spec: TensorSpec, batch: str) -> TensorSpec:
    return replace(spec, shape=(batch, *(spec.shape or ())[1:]))


def _node_names(parted: Split) -> list[tuple[str, Program | FloatPart]]:
    """Every part with the name of its node; that of float parts is their own."""
    one = len(parted.parts) == 1
    return [
        (part.step.name if isinstance(part, FloatPart) else "calib8" if one else f"calib8_{number}", part)
        for number, part in enumerate(parted.parts)
    ]


def _plans(parted: Split, session: InferenceSession) -> dict[str, bytes]:
    """Name of a node → the bytes of its plan."""
    plans: dict[str, bytes] = {}
    for name, part in _node_names(parted):
        if isinstance(part, FloatPart):
            continue
        plan = session.plan if len(parted.parts) == 1 else _compiled(part)
        plans[name] = b"".join(plan_pieces(replace(plan, isa="")))
    return plans


def _compiled(part: Program) -> Plan:
    verify(part)
    return compile_program(part)


def _files(target: Path, names: Sequence[str]) -> dict[str, str]:
    """Name of a node → of the file of its plan."""
    if len(names) == 1:
        return {names[0]: target.stem + SUFFIX}
    return {name: f"{target.stem}.{number}{SUFFIX}" for number, name in enumerate(names)}


def _plan_part(program: Program, name: str, content: bytes | str, batch: str | None) -> PlanPart:
    inputs, outputs = (_ports(program, ports, batch) for ports in (program.inputs, program.outputs))
    return PlanPart(name, content, inputs, outputs)


def _on_states(states: Sequence[State]) -> list[str]:
    if not states:
        return []
    pairs = ", ".join(f"'{one.input}' what '{one.output}' was in the run before" for one in states)
    return [f"states are inputs and outputs of the file: feed {pairs}, 0 at first"]


def _metadata(model: Path) -> dict[str, str]:
    """What the file says of itself, as the model does."""
    if is_program_file(model) or claims_to_be_tmfile(model):
        return {}
    if claims_to_be_tflite(model):
        stored = stored_preprocess([model])
        return {} if stored is None else {PREPROCESS: stored.to_json()}
    return {PREFIX + key: value for key, value in read_metadata(model).items()}
