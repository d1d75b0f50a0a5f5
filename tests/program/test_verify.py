"""Every example is sound, and every planted fault is found and named."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from example_programs import EXAMPLES, chain, floats, with_slot, with_step
from planting import Fault, with_classes

from calib8.errors import ModelError
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify
from faults import FAULTS, NAMES


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", NAMES)
def test_sound_programs_pass(name: str, profile: Profile) -> None:
    verify(EXAMPLES[name, profile])


@pytest.mark.parametrize("profile", PROFILES)
def test_a_chain_passes(profile: Profile) -> None:
    verify(chain(profile))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("Add", {"rule": rules.FloatSum(0.5, 0.0, -7.5)}),
        ("Conv", {"rescale": rules.FloatRescale(floats(0))}),
        ("Conv", {"low": 7, "high": 7}),
        ("Pad", {"value": 255}),
        ("Pad", {"value": 0}),
        ("Softmax", {"rule": rules.TableSoftmax(np.linspace(0, 1, 256, dtype=np.float32), 0.0)}),
        ("Float", {"reasons": ()}),
        ("FullyConnected to sums", {"low": 9, "high": 8}),  # meaningless there
    ],
)
def test_what_lies_on_a_limit_passes(name: str, changes: dict[str, Any]) -> None:
    verify(with_step(EXAMPLES[name, "onnx"], **changes))


@pytest.mark.parametrize("shape", [(24, *[1] * 31), (24,), ()])
def test_ranks_within_the_limit_pass(shape: tuple[int, ...]) -> None:
    reshape = EXAMPLES["Reshape", "onnx"]
    verify(with_slot(with_slot(reshape, 0, shape=shape or (1,)), 1, shape=shape))


def test_the_largest_tensor_passes() -> None:
    largest = {"shape": ((1 << 31) - 1,)}
    verify(with_slot(with_slot(EXAMPLES["Reshape", "onnx"], 0, **largest), 1, **largest))


def test_the_first_axis_is_an_axis() -> None:
    first = with_slot(EXAMPLES["Concat", "onnx"], 1, shape=(1, 3, 4))
    verify(with_slot(with_step(first, axis=0), 2, shape=(3, 3, 4)))
    verify(with_slot(with_step(EXAMPLES["ReduceMin", "onnx"], axes=(0,)), 1, shape=(1, 7, 6, 4)))


def test_many_classes_pass() -> None:
    verify(with_classes(1 << 20)(EXAMPLES["Softmax", "single"]))


def test_the_longest_rows_pass() -> None:
    channels = 1 << 16
    ones, none = np.ones(channels, np.int32), np.zeros(channels, np.int32)
    rule = rules.FixedNorm(ones * ((1 << 31) - 1), none, ones * 62, 1 << 62)
    verify(with_step(with_classes(channels)(EXAMPLES["LayerNorm", "single"]), rule=rule))


def test_the_largest_groups_pass() -> None:
    ones, none = np.ones(1, np.int32), np.zeros(1, np.int32)
    rule = rules.FixedGroupNorm(ones * ((1 << 31) - 1), ones, none, ones * 126, 1 << 62)
    large = with_slot(with_slot(EXAMPLES["GroupNorm", "single"], 0, shape=(1, 2048, 4096, 1)), 1,
                      shape=(1, 2048, 4096, 1))  # fmt: skip
    verify(with_step(large, groups=1, rule=rule))


def parts(value: object) -> set[type]:
    """The types of a dataclass and of all dataclasses inside."""
    if isinstance(value, tuple):
        return set().union(*(parts(item) for item in value))
    if not is_dataclass(value):
        return set()
    inside = (parts(getattr(value, field.name)) for field in fields(value))
    return {type(value)}.union(*inside)


RULES = {kind for kind in vars(rules).values() if isinstance(kind, type) and is_dataclass(kind)}


@pytest.mark.parametrize("known", [{*op.TRAITS, op.Float}, RULES])
def test_the_examples_hold_every_instruction_and_every_rule(known: set[type]) -> None:
    seen = set().union(*(parts(program) for program in EXAMPLES.values()))
    assert known <= seen


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", NAMES)
def test_what_passes_runs_and_gives_the_shape_of_its_slot(name: str, profile: Profile) -> None:
    program, rng = EXAMPLES[name, profile], np.random.default_rng(0)
    feeds = {}
    for port in program.inputs:
        slot = program.slots[port.slot]
        most = 3 if port.name == "lengths" else 99  # a sequence has three steps, and no longer length
        feeds[port.name] = rng.integers(0, most + 1, slot.shape).astype(slot.dtype)
    for result, port in zip(run_program(program, feeds), program.outputs, strict=True):
        output = program.slots[port.slot]
        assert (result.shape, result.dtype) == (output.shape, np.dtype(output.dtype))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.name}-{fault.problem[:40]}")
def test_planted_faults_are_found(fault: Fault) -> None:
    whole = chain(fault.profile) if fault.name == "chain" else EXAMPLES[fault.name, fault.profile]
    with pytest.raises(ModelError, match=fault.problem) as caught:
        verify(fault.plant(whole))
    assert str(caught.value).startswith(f'program "{whole.name}"')
