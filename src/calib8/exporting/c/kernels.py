"""The loops of the C code: one text each, in ``loops/``, with what it stands on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "loops"

KERNELS: Final[Mapping[str, tuple[str, ...]]] = {
    "clamped": (),
    "multiply_twice": ("clamped",),
    "scaling": ("multiply_twice",),
    "conv": ("scaling",),
    "conv_by_cmsis_nn": ("conv",),
    "depthwise": ("scaling",),
    "depthwise_by_cmsis_nn": ("depthwise",),
    "dense": ("scaling",),
    "requantize": ("scaling",),
    "pair": (),
    "add": ("multiply_twice", "pair"),
    "add_by_cmsis_nn": ("add",),
    "add_aligned": ("clamped", "pair"),
    "multiply": ("scaling", "pair"),
    "multiply_by_cmsis_nn": ("multiply",),
    "larger": ("pair",),
    "smaller": ("pair",),
    "lookup": (),
    "pool": (),
    "max_pool": ("pool",),
    "average_pool": ("scaling", "pool"),
    "pool_by_cmsis_nn": ("pool",),
    "max_pool_by_cmsis_nn": ("max_pool", "pool_by_cmsis_nn"),
    "average_pool_by_cmsis_nn": ("average_pool", "pool_by_cmsis_nn"),
    "mean": ("scaling",),
    "extreme": (),
    "arg": (),
    "arg_32": ("arg",),
    "arg_64": ("arg",),
    "softmax_fixed": ("clamped",),
    "softmax_fixed_by_cmsis_nn": ("softmax_fixed",),
    "softmax_table": ("clamped",),
    "place": (),
    "gather": (),
    "nearest": (),
    "walk": (),
    "quantize": ("walk",),
    "dequantize": ("walk",),
    "dequantize_sums": ("walk",),
    "flip": (),
}
"""Name of a text → the texts that stand before it; in the order of the file."""


def with_needs(used: Iterable[str]) -> tuple[str, ...]:
    """These kernels and all that they stand on, in the order of the file."""
    wanted, found = list(used), set[str]()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += KERNELS[name]
    return tuple(name for name in KERNELS if name in found)


def text(name: str) -> str:
    """The C code of a kernel."""
    return (FOLDER / f"{name}.c").read_text(encoding="utf-8")
