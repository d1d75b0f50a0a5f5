"""Small files that ask for much: sizes that only numbers in the file hold up, written by hand."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.tflite.graph import Graph, Operator, Option, Quantization, Tensor

HUGE: Final = 2_000_000_000
"""Elements of an axis, below the 2^31 that a tensor may have."""

LARGE: Final = 1 << 20
"""Elements that one operator may list; many of them may not."""

MANY: Final = 1024
"""Operators that list them."""


def hostile_graphs() -> dict[str, Graph]:
    """Name → a model of a few bytes, most of them sound in themselves."""
    wide, image = (HUGE,), (1, 1, 1, 1)
    border, sizes, count = _ints((5, 5)), _ints(1, HUGE), _ints(HUGE)
    found = {
        "MIRROR_PAD": _one("MIRROR_PAD", wide, (HUGE + 10,), border, mode="REFLECT"),
        "MIRROR_PAD of floats": _one(
            "MIRROR_PAD", wide, (HUGE + 10,), border, dtype="float32", mode="SYMMETRIC"
        ),
        "PAD": _one("PAD", wide, (HUGE + 10,), border),
        "TILE": _one("TILE", (1,), wide, count),
        "BROADCAST_TO": _one("BROADCAST_TO", (1,), wide, count, version=2),
        "GATHER": _one("GATHER", wide, (1,), _ints(0), axis=0, batch_dims=0),
        "UNPACK": _one("UNPACK", wide, (), num=1, axis=0),
        "many tiles": many_tiles(),
    }
    for op in ("RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"):
        for corners in (False, True):
            options: dict[str, Option] = {"align_corners": corners, "half_pixel_centers": False}
            found[f"{op} {corners}"] = _one(op, image, (1, 1, HUGE, 1), sizes, **options)
    return found


def _ints(*values: Any) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


def _one(
    op: str,
    shape: tuple[int, ...],
    result: tuple[int, ...],
    constant: npt.NDArray[np.int32] | None = None,
    *,
    dtype: str = "int8",
    version: int = 1,
    **options: Option,
) -> Graph:
    """A model of one operator."""
    tensors = [_tensor("x", shape, dtype), _tensor("y", result, dtype)]
    inputs: tuple[int, ...] = (0,)
    if constant is not None:
        tensors.append(Tensor("k", constant.shape, "int32", constant))
        inputs = (0, 2)
    return Graph(tuple(tensors), (Operator(op, inputs, (1,), options, version),), (0,), (1,))


def many_tiles() -> Graph:
    """Tensors of a million elements each, made of one."""
    tensors = [_tensor("x", (1,), "int8"), Tensor("times", (1,), "int32", _ints(LARGE))]
    tensors += [_tensor(f"y{at}", (LARGE,), "int8") for at in range(MANY)]
    outputs = tuple(range(2, MANY + 2))
    return Graph(tuple(tensors), tuple(Operator("TILE", (0, 1), (at,)) for at in outputs), (0,), outputs)


def _tensor(name: str, shape: tuple[int, ...], dtype: str) -> Tensor:
    codes = Quantization(np.array([0.02], np.float32), np.array([3], np.int64))
    return Tensor(name, shape, dtype, None, codes if dtype == "int8" else None)
