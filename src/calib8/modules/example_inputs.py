"""What a user gives as example inputs: checked against the module before anything is exported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from calib8.errors import UnsupportedModelError, UsageError

SUBJECT = "example_inputs"


def checked_inputs(module: nn.Module, example_inputs: object) -> tuple[Tensor, ...]:
    """The inputs as a tuple.

    Args:
        module: what they are for.
        example_inputs: a tensor, or several in the order of forward; axis 0 is the batch.

    Raises:
        UsageError: no tensors, half or double precision, on another device than the module.
        UnsupportedModelError: the module itself is not in float32.
    """
    given = (example_inputs,) if isinstance(example_inputs, Tensor) else example_inputs
    if not isinstance(given, tuple | list):
        problem = f"is of type {type(given).__name__}"
        raise UsageError(SUBJECT, problem, "Give a tensor or a tuple of tensors, as forward takes them")
    if not given:
        raise UsageError(SUBJECT, "is empty", "Give a batch as the module takes it")
    for index, value in enumerate(given):
        _check_tensor(index, value)
    _check_module(module, given)
    return tuple(given)


def given_tensors(example_inputs: object) -> tuple[Tensor, ...]:
    """The inputs as a tuple, empty where they are none that could be checked."""
    given = (example_inputs,) if isinstance(example_inputs, Tensor) else example_inputs
    if not isinstance(given, tuple | list) or not all(isinstance(one, Tensor) for one in given):
        return ()
    return tuple(given)


def _check_tensor(index: int, value: object) -> None:
    if not isinstance(value, Tensor):
        problem = f"number {index} is of type {type(value).__name__}"
        raise UsageError(SUBJECT, problem, "Give a tensor or a tuple of tensors, as forward takes them")
    if value.is_floating_point() and value.dtype != torch.float32:
        raise UsageError(SUBJECT, f"number {index} is {_dtype(value)}", "Call .float() on it")
    if 0 in value.shape:
        problem = f"number {index} has an axis of size 0 ({list(value.shape)})"
        raise UsageError(SUBJECT, problem, "Give a batch with at least one sample")


def _check_module(module: nn.Module, inputs: Sequence[Tensor]) -> None:
    named = [*module.named_parameters(), *module.named_buffers()]
    for name, value in named:
        if value.is_floating_point() and value.dtype != torch.float32:
            problem = f"'{name}' is {_dtype(value)}; codes are made from float32"
            raise UnsupportedModelError(type(module).__name__, problem, "Call .float() on the module")
    devices = {value.device for _, value in named}
    if len(devices) == 1:
        [device] = devices
        other = next((value.device for value in inputs if value.device != device), None)
        if other is not None:
            problem = f"lie on {other}, the module lies on {device}"
            raise UsageError(SUBJECT, problem, "Move both to one device with .to()")


def run_example(module: nn.Module, inputs: Sequence[Tensor]) -> Any:
    """What the module yields for the inputs, without gradients, in the mode that it is in.

    Raises:
        UsageError: the module raises; the message holds what it says.
    """
    try:
        with torch.no_grad():
            return module(*inputs)
    except Exception as error:
        raise refused(module, inputs, error) from error


def refused(module: nn.Module, inputs: Sequence[Tensor], error: Exception) -> UsageError:
    """The error where a module does not take its example inputs."""
    shapes = ", ".join(f"{_dtype(value)}{list(value.shape)}" for value in inputs)
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    problem = f"are refused by {type(module).__name__} ({shapes}: {said})"
    return UsageError(SUBJECT, problem, "Give a batch as the module takes it")


def tensors_in(result: object) -> Iterator[Tensor]:
    """The tensors of a result in order: of tuples, lists, dictionaries and dataclasses in each other."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, tuple | list):
        for part in result:
            yield from tensors_in(part)
    elif isinstance(result, dict):
        for part in result.values():
            yield from tensors_in(part)
    elif is_dataclass(result) and not isinstance(result, type):
        for field in fields(result):
            yield from tensors_in(getattr(result, field.name))


def has_batch(inputs: Sequence[Tensor], value: Tensor) -> bool:
    """Whether axis 0 is the batch: as long as that of the first input."""
    return value.ndim > 0 and inputs[0].ndim > 0 and value.shape[0] == inputs[0].shape[0]


def with_batch(inputs: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
    """Inputs with another number of samples, theirs over and over; what has no batch stays as it is."""
    return tuple(
        value[torch.arange(size, device=value.device) % len(value)] if has_batch(inputs, value) else value
        for value in inputs
    )


def _dtype(value: Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")
