"""Programs written as TFLite files, and what LiteRT makes of them."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from litert import Kernels, litert_outputs

from calib8.exporting.tflite.export import TfliteExport, to_tflite
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.program.verify import verify
from calib8.tflite.read import parse
from calib8.tflite.write import serialize

CASES: Final = int(os.environ.get("CALIB8_TFLITE_CASES", "12"))
"""Random programs per instruction; scripts/check-full takes more."""

Array = npt.NDArray[Any]


def random_feeds(program: Program, rng: np.random.Generator) -> dict[str, Array]:
    """Codes of the whole type, or normal numbers, per input."""
    feeds: dict[str, Array] = {}
    for port in program.inputs:
        slot = program.slots[port.slot]
        if slot.is_codes:
            limits = np.iinfo(slot.dtype)
            feeds[port.name] = rng.integers(limits.min, limits.max, slot.shape, slot.dtype, endpoint=True)
        else:
            feeds[port.name] = rng.normal(0, 1, slot.shape).astype(slot.dtype)
    return feeds


def as_fed(array: Array, shape: tuple[int, ...]) -> Array:
    """An input of the program as the TFLite model of that input shape wants it."""
    return (
        array if array.ndim != 4 or array.shape == shape else np.ascontiguousarray(np.moveaxis(array, 1, 3))
    )


def as_given(array: Array, shape: tuple[int, ...]) -> Array:
    """An output of the TFLite model in the program's order of axes."""
    return array if array.ndim != 4 or array.shape == shape else np.moveaxis(array, 3, 1)


def litert_gives(exported: TfliteExport, feeds: list[Array], kernels: Kernels = "reference") -> list[Array]:
    """Outputs of the exported model; the file is read back on the way."""
    model = serialize(exported.graph)
    shapes = [exported.graph.tensors[place].shape for place in exported.graph.inputs]
    assert len(parse(model).operators) == len(exported.graph.operators)
    fed = [as_fed(array, shape) for array, shape in zip(feeds, shapes, strict=True)]
    return litert_outputs(model, fed, kernels)


def assert_exported_exactly(program: Program, rng: np.random.Generator, runs: int = 2) -> TfliteExport:
    """LiteRT's reference kernels give what the program gives, bit for bit."""
    verify(program)
    exported = to_tflite(program)
    for _ in range(runs):
        feeds = random_feeds(program, rng)
        wanted = run_program(program, feeds)
        given = litert_gives(exported, [feeds[port.name] for port in program.inputs])
        for port, want, got in zip(program.outputs, wanted, given, strict=True):
            np.testing.assert_array_equal(as_given(got, want.shape), want, err_msg=port.name)
    return exported
