"""Plans run natively; ``calib8.engine.run`` is what uses it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

class Context:
    """Memory of one run at a time, borrowed from an engine until it is dropped."""

    def __init__(self, engine: Engine) -> None: ...
    def arena(self) -> npt.NDArray[np.uint8]:
        """The arena itself, not a copy."""

class LengthError(Exception):
    """A sequence is shorter than it is said to be.

    Its ``args``: number of the step, buffer of the lengths, sample, length, steps of the sequence.
    """

class Engine:
    """A plan with its kernels chosen and its threads ready."""

    def __init__(
        self,
        steps: Sequence[tuple[str, npt.NDArray[np.int64]]],
        constants: npt.NDArray[np.uint8],
        arena_bytes: int,
        port_bytes: Sequence[int],
        inputs: int,
        isa: str | None = None,
        threads: int = 1,
        pin: bool = False,
    ) -> None:
        """Decodes the steps.

        Args:
            steps: kind and numbers of each, see ``calib8.engine.codec``.
            constants: aligned to 64 bytes; kept alive.
            arena_bytes: memory of one run.
            port_bytes: of the inputs, then of the outputs.
            inputs: how many of the ports are inputs, which no step may write.
            isa: one of ``available_isas()``; None: ``isa()``.
            threads: 1 … 256.
            pin: keep the threads of the pool on one processor each.

        Raises:
            ValueError: a step that does not exist or has another number of fields, an instruction set that
                is unknown or not available here, ``threads`` out of range, a place
                beyond its buffer, or more memory than the machine has.
        """

    @property
    def isa(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def scratch_bytes(self) -> int:
        """Memory that each thread of a run needs beside the arena, the same for every instruction set."""

    @property
    def shared(self) -> list[bool]:
        """Of every step: whether the threads share it, or it is too small for that.

        All of them are shared where the environment has CALIB8_SHARE_ALL, as in tests.
        """

    @property
    def pair_sums(self) -> list[bool]:
        """Of every step: whether its kernel adds two products in 16 bits; only AVX2 has such kernels."""

    @property
    def filled(self) -> list[bool]:
        """Of every port: whether the steps write as many bytes into it as it has."""

    @property
    def contexts(self) -> int:
        """How many there are: as many as runs were under way at the same time."""

    def run(
        self,
        context: Context,
        first: int,
        last: int,
        inputs: Sequence[npt.NDArray[Any]],
        outputs: Sequence[npt.NDArray[Any]],
        nanoseconds: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Steps first … last − 1, without the GIL.

        Raises:
            ValueError: there are no such steps, or number or bytes of the arrays do not fit.
            LengthError: a layer reads a length beyond its sequence.
        """

    def run_all(self, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]) -> None:
        """All steps in memory that is idle, without the GIL.

        Raises:
            ValueError: number or bytes of the arrays do not fit.
        """

class Bound:
    """A run with arrays that are known beforehand, in memory of its own."""

    def __init__(
        self, engine: Engine, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]
    ) -> None:
        """Keeps the arrays alive.

        Raises:
            ValueError: their number or bytes do not fit.
        """

    def run(self) -> None:
        """All steps, without the GIL.

        Raises:
            ValueError: another thread runs it now.
        """

def isa() -> str:
    """The fastest instruction set of this CPU, or what the environment variable CALIB8_ISA names.

    Raises:
        ValueError: CALIB8_ISA names something unknown or not available here.
    """

def available_isas(features: Sequence[str] | None = None) -> list[str]:
    """What a processor can run, fastest first; the last is always ``reference``.

    Args:
        features: of the processor; None: ``calib8._core.features()``.
    """

def chosen_isa(features: Sequence[str], name: str = "") -> str:
    """The set that runs on a processor with these features where CALIB8_ISA is ``name``, or not set.

    Raises:
        ValueError: ``name`` is unknown or not available there.
    """

def schemas() -> dict[str, list[str]]:
    """Kind of step → names of its numbers in order, those of floats with a ``~`` in front."""

def structs() -> dict[str, tuple[list[tuple[str, str]], dict[str, int]]]:
    """Name of every step, and of every struct inside of steps → its fields, and its kinds.

    A field is its name and its type: ``int``, ``float``, ``axes`` (``AXES`` numbers) or the name of a struct.
    Kinds are what its enumeration calls its values; empty without one.
    """

ARENA: int
CONSTANTS: int
FIRST_PORT: int
"""Buffers of a run, by number; ports follow from ``FIRST_PORT`` on."""

AXES: int
"""Numbers of a field that holds one per axis."""

REPEATED: int
PADDED: int
"""Entries that arrays of parameters per channel have at least, and what their number is a multiple of."""

def checksum(pieces: Sequence[npt.NDArray[np.uint8]]) -> int:
    """64 bits of C-contiguous arrays one after the other, see ``csrc/engine/checksum.h``."""

def peak_products(isa: str) -> int:
    """Multiply-accumulates of one round of the loop that measures an instruction set.

    Raises:
        ValueError: the instruction set is unknown or not available here.
    """

def peak_gmacs(isa: str, threads: int = 1) -> float:
    """Products of 8-bit codes per second, in 10⁹, that so many threads add up together; takes about 50 ms.

    Raises:
        ValueError: the instruction set is unknown or not available here, or ``threads`` is out of range.
    """
