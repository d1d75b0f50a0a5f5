"""What a session takes and gives: names, types and shapes, and arrays held against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calib8.errors import DataError, ModelError, UsageError
from calib8.tensors import MOST_ELEMENTS, TensorSpec, checked_sizes, is_too_large

if TYPE_CHECKING:  # a plan is opened without the classes of programs
    from calib8.engine.plan import Plan, PlanPort
    from calib8.program.program import Port, Program

Array = npt.NDArray[Any]
Sizes = tuple[int | str | None, ...]
Shapes = Mapping[str, Sequence[int]]


class NodeArg(NamedTuple):
    """An input or output, with the attributes of ONNX Runtime's class of this name.

    Attributes:
        name: its name in the model.
        shape: a size, a symbolic name or None (unknown) per axis; empty also where the rank is unknown.
        type: such as ``tensor(float)``.
    """

    name: str
    shape: list[int | str | None]
    type: str


def node_arg(spec: TensorSpec) -> NodeArg:
    """A spec as ONNX Runtime shows it."""
    names = {"float32": "float", "float64": "double", "object": "string"}
    return NodeArg(
        spec.name, list(spec.shape or ()), f"tensor({names.get(spec.dtype.name, spec.dtype.name)})"
    )


def program_specs(program: Program, ports: Iterable[Port]) -> tuple[TensorSpec, ...]:
    """Specs of a program's inputs or outputs."""
    slots = ((port.name, program.slots[port.slot]) for port in ports)
    return tuple(TensorSpec(name, np.dtype(slot.dtype), slot.shape) for name, slot in slots)


def plan_specs(ports: Iterable[PlanPort]) -> tuple[TensorSpec, ...]:
    """Specs of a plan's inputs or outputs."""
    return tuple(TensorSpec(port.name, np.dtype(port.dtype), port.shape, port.counted) for port in ports)


def with_axes_of_samples(plan: Plan, inputs: Iterable[TensorSpec]) -> Plan:
    """The plan, whose inputs say which axis counts samples where their sizes alone would not tell it.

    Args:
        plan: its sizes are fixed, and its axes have no names.
        inputs: those of its model.
    """
    axes = {spec.name: spec.batch_axis for spec in inputs}

    def told(port: PlanPort) -> PlanPort:
        axis = axes.get(port.name, 0)
        plain = TensorSpec(port.name, np.dtype(port.dtype), port.shape)
        return port._replace(counted=None if axis == plain.batch_axis else axis)

    return replace(plan, inputs=tuple(map(told, plan.inputs)))


def with_shapes(inputs: Iterable[TensorSpec], shapes: Shapes, name: str) -> tuple[TensorSpec, ...]:
    """The specs with the sizes that are given for them.

    Raises:
        UsageError: an input of another name, or sizes that do not fit; ``name`` is that of the model.
        ModelError: an input is too large as it is.
    """
    wanted_sizes = checked_sizes(shapes)
    specs = {spec.name: spec for spec in inputs}
    for spec in specs.values():
        if is_too_large(spec.shape or ()):
            problem = f"its input '{spec}' has more than {MOST_ELEMENTS:,} elements"
            raise ModelError(name, problem, "Export it with smaller sizes")
    for wanted, given in wanted_sizes.items():
        subject, takes = f"shape of '{wanted}'", _listed(specs.values())
        if wanted not in specs:
            raise UsageError(subject, f"{name} has no such input", f"The model takes {takes}")
        if not _fits(given, specs[wanted].shape):
            text = "×".join(map(str, given))
            raise UsageError(subject, f"{text} does not fit {name}", f"The model takes {takes}")
        specs[wanted] = replace(specs[wanted], shape=given)
    return tuple(specs.values())


def is_static(spec: TensorSpec) -> bool:
    """All sizes are known."""
    return spec.shape is not None and all(isinstance(size, int) for size in spec.shape)


def one_sample(spec: TensorSpec) -> tuple[int, ...] | None:
    """The sizes with a free batch axis as 1; None where another size is free."""
    if spec.shape is None:
        return None
    first, rest = spec.shape[:1], spec.shape[1:]
    filled = (*(1 if isinstance(size, str | None) else size for size in first), *rest)
    known = tuple(size for size in filled if isinstance(size, int))
    return known if len(known) == len(filled) else None


def fitting_feeds(
    name: str, specs: Sequence[TensorSpec], feeds: Mapping[str, npt.ArrayLike]
) -> dict[str, Array]:
    """The arrays in the order of the inputs; lists and the like become arrays of the input's type.

    Raises:
        DataError: names, types or shapes are not those of the model called ``name``, more elements than an
            input may have, or a list with a value that the input's type does not hold.
    """
    if not _is_dict(feeds):
        problem, cure = (
            f"got a {_kind(feeds)} as inputs",
            f"Give a dict: input name → array, {_listed(specs)}",
        )
        raise DataError(name, problem, cure)
    if len(feeds) != len(specs) or any(spec.name not in feeds for spec in specs):
        got = ", ".join(f"'{fed}'" for fed in feeds) or "nothing"
        raise DataError(name, f"got {got} as inputs", f"The model takes {_listed(specs)}")
    arrays = {}
    for spec in specs:
        fed = feeds[spec.name]
        if type(fed) is np.ndarray and fed.dtype == spec.dtype and fed.shape == spec.shape and fed.size:
            arrays[spec.name] = fed  # nothing is free, so nothing is too large
            continue
        array = _as_array(name, spec, fed)
        if array.dtype != spec.dtype or not _fits(array.shape, spec.shape):
            raise DataError(name, f"got {_described(spec, array)}", f"The model takes {_listed(specs)}")
        if array.size > MOST_ELEMENTS:
            problem = f"got {_described(spec, array)}, more than {MOST_ELEMENTS:,} elements"
            raise DataError(name, problem, "Run fewer samples at a time")
        arrays[spec.name] = array
    return arrays


def fitting_state(
    name: str, specs: Sequence[TensorSpec], state: Mapping[str, npt.ArrayLike]
) -> dict[str, Array]:
    """The arrays of a state that a stream may go on from, in the order of the inputs that are states.

    Raises:
        DataError: as ``fitting_feeds``; a value that is NaN or infinite, which no later frame would lose.
    """
    arrays = fitting_feeds(f"the state of {name}", specs, state)
    for key, array in arrays.items():
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            cure = "Give the state that get_state() gave, or reset() for another stream"
            raise DataError(f"the state of {name}", f"'{key}' holds NaN or infinite values", cure)
    return arrays


def _as_array(name: str, spec: TensorSpec, fed: npt.ArrayLike) -> Array:
    """What is an array stays as it is; anything else of the right shape gets the input's type.

    Raises:
        DataError: it is no array of numbers, or a value would change.
    """
    if isinstance(fed, np.ndarray):
        return fed
    try:
        array = np.asarray(fed)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of unequal length, tensors of other tools
        problem = f"what is fed to '{spec.name}' is a {_kind(fed)} that NumPy makes no array of"
        raise DataError(name, problem, f"Give an array, {spec}") from error
    if array.dtype == spec.dtype or array.dtype.kind not in "biuf" or not _fits(array.shape, spec.shape):
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(spec.dtype)
        kept = np.array_equal(converted.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
    if not kept:
        problem = f"what is fed to '{spec.name}' has values that {spec.dtype} does not hold"
        raise DataError(name, problem, f"Give an array, {spec}")
    return converted


def fitting_results(
    name: str,
    specs: Sequence[TensorSpec],
    results: Mapping[str, Array] | Sequence[Array],
    feeds: Mapping[str, Array],
) -> list[Array]:
    """The caller's arrays for all outputs, in their order.

    Args:
        name: of the model, for messages.
        specs: of the outputs, all sizes known.
        results: arrays by name, or in the order of the outputs.
        feeds: the inputs, which no output may overlap.

    Raises:
        DataError: names, number, types or shapes do not fit, or an array cannot be written in one piece.
    """
    known = [spec.name for spec in specs]
    if isinstance(results, Mapping):
        if set(results) != set(known):
            got = ", ".join(f"'{given}'" for given in results) or "nothing"
            raise DataError(name, f"got arrays for {got}", f"Give one for each of {', '.join(known)}")
        arrays = [results[output] for output in known]
    elif not _is_list(results):
        problem = f"got a {_kind(results)} for results"
        raise DataError(name, problem, f"Give a list or dict with an array for each of {_listed(specs)}")
    else:
        arrays = list(results)
    if len(arrays) != len(specs):
        raise DataError(
            name, f"got {len(arrays)} arrays for results", f"Give one for each of {_listed(specs)}"
        )
    for place, (spec, array) in enumerate(zip(specs, arrays, strict=True)):
        _check_result(name, spec, array)
        for other in (*feeds.values(), *arrays[:place]):
            if np.may_share_memory(array, other):
                problem = f"the array for '{spec.name}' overlaps another one that is read or written"
                raise DataError(name, problem, "Give arrays of their own")
    return arrays


def _check_result(name: str, spec: TensorSpec, array: object) -> None:
    subject = f"the array for '{spec.name}'"
    if not isinstance(array, np.ndarray):
        raise DataError(name, f"{subject} is a {_kind(array)}", f"Give a NumPy array, {spec}")
    if array.dtype != spec.dtype or array.shape != spec.shape:
        raise DataError(name, f"{subject} is {_described(spec, array)}", f"Give one of {spec}")
    flags = array.flags
    if not flags.writeable:
        raise DataError(name, f"{subject} is read-only", "Give a writeable array")
    if not (flags.c_contiguous and flags.aligned):
        problem = f"{subject} cannot be written in one piece"
        raise DataError(name, problem, "Give an aligned, C-contiguous array")


def _fits(shape: tuple[int, ...], sizes: Sizes | None) -> bool:
    """A shape without an empty axis that has the sizes that are fixed."""
    if shape == sizes and 0 not in shape:
        return True
    if any(size < 1 for size in shape):
        return False
    if sizes is None:
        return True
    return len(shape) == len(sizes) and all(
        not isinstance(fixed, int) or size == fixed for size, fixed in zip(shape, sizes, strict=True)
    )


def _listed(specs: Iterable[TensorSpec]) -> str:
    return ", ".join(str(spec) for spec in specs)


def _described(spec: TensorSpec, array: Array) -> str:
    shape = "×".join(map(str, array.shape)) or "scalar"
    if array.dtype != spec.dtype and array.dtype.newbyteorder("=") == spec.dtype:
        return f"{spec.name}: {spec.dtype} {shape} in the byte order of other machines"
    return f"{spec.name}: {array.dtype} {shape}"


def _is_dict(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: object) -> bool:
    """Of arrays: one array alone is none, although it could be taken apart."""
    return isinstance(value, Iterable) and not isinstance(value, np.ndarray)


def _kind(value: object) -> str:
    return type(value).__name__
