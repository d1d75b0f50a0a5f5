"""The statistics kernel in C++: counts float32 values into histograms of power-of-two range."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from calib8._core import engine as engine
from calib8._core import layouts as layouts
from calib8._core import search as search
from calib8._core import second_order as second_order

class TensorAccumulator:
    """Counts of one tensor; a new one has seen nothing. ``calib8.calibration.statistics`` defines the fields.

    May be used from several Python threads; the counting itself runs without the GIL.
    """

    def __init__(self, bins: bool = True) -> None:
        """``bins=False`` keeps counts and extrema only."""

    def update(self, values: npt.NDArray[np.float32], isa: str | None = None, samples: int = 1) -> str:
        """Counts all values of a C-contiguous array; returns the instruction set that did it.

        Args:
            values: float32, any shape.
            isa: one of ``available_isas()``; None: ``isa()``.
            samples: the values are those of so many samples, one after the other, of the same size.

        Raises:
            TypeError: not a C-contiguous float32 array.
            ValueError: the instruction set is unknown or not available here, or ``samples`` does not divide.
        """

    def merge(self, other: TensorAccumulator) -> None:
        """Adds the counts of another one (or its own once more), exactly.

        Raises:
            ValueError: only one of them has bins.
        """

    def clear(self) -> None:
        """Forgets all counts; who counts into it goes on."""

    @property
    def count(self) -> int: ...
    @property
    def zeros(self) -> int: ...
    @property
    def nans(self) -> int: ...
    @property
    def positive_infs(self) -> int: ...
    @property
    def negative_infs(self) -> int: ...
    @property
    def minimum(self) -> float: ...
    @property
    def maximum(self) -> float: ...
    @property
    def exponent(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def binned(self) -> bool: ...
    @property
    def minima(self) -> npt.NDArray[np.int64]:
        """The exact sum of the samples' smallest values: [254], entry e in units of 2^(e − 149)."""

    @property
    def maxima(self) -> npt.NDArray[np.int64]:
        """Same of the largest values."""

    @property
    def positive(self) -> npt.NDArray[np.int64]:
        """A copy, shape [4096]."""

    @property
    def negative(self) -> npt.NDArray[np.int64]:
        """A copy, shape [4096]."""

def accumulate(
    items: Sequence[tuple[TensorAccumulator, npt.NDArray[np.float32], int]],
    threads: int = 1,
    isa: str | None = None,
) -> str:
    """Counts each array, of so many samples, into its accumulator, without the GIL.

    Uses up to ``threads`` threads (1 … 256); the result does not depend on their number. Returns the
    instruction set that counted. When it raises, nothing has been counted.

    Raises:
        TypeError: an item is not an accumulator, a C-contiguous float32 array and a number.
        ValueError: an accumulator appears twice, a number of samples does not divide its values,
            ``threads`` is out of range, or the instruction set is unknown or not available here.
    """

class Taps:
    """Accumulators that nodes ``Tap`` of domain ``calib8`` count into, found by ``key`` while this lives.

    ONNX Runtime gets the op by ``SessionOptions.register_custom_ops_library`` with the file of this module.
    """

    def __init__(self, accumulators: Sequence[TensorAccumulator], threads: int) -> None:
        """Large tensors are counted in ``threads`` parts (1 … 256).

        Raises:
            ValueError: ``threads`` is out of range, or CALIB8_ISA names something unknown.
        """

    @property
    def key(self) -> int: ...
    @property
    def fired(self) -> int:
        """How many taps have recorded since ``begin``."""

    def begin(self, samples: int, count: bool = True, fingerprints: bool = False) -> None:
        """Tells what the next run is; not while one is running.

        Args:
            samples: how many it holds.
            count: whether its values are counted.
            fingerprints: whether a number is made of the values of every sample.
        """

    def shape(self, index: int) -> list[int]:
        """Shape of a tensor in the latest run; channels in blocks are those of whole blocks."""

    def fingerprints(self, index: int) -> list[int]:
        """One number for each sample of a tensor, from the latest run that made them."""

def isa() -> str:
    """The instruction set that counts: the fastest one, or what the environment variable CALIB8_ISA names.

    The variable is read once, at first use.

    Raises:
        ValueError: CALIB8_ISA names something unknown or not available here.
    """

def processor_features() -> list[str]:
    """What this processor has of all that kernels ask for, as Linux calls it in /proc/cpuinfo."""

def features() -> list[str]:
    """Those of them that this process sees: what the environment variable CALIB8_CPU names, or all.

    The variable is read once, at first use; words that no kernel asks for count for nothing.
    """

def cpu_type(features: Sequence[str] | None = None) -> str:
    """Architecture of this CPU and the widest instruction set that decides the bits of float inference.

    ``x86_64 avx512f``, ``x86_64 avx2``, ``x86_64 avx``, ``x86_64``, ``aarch64`` or ``other``; CALIB8_ISA
    and CALIB8_CPU change nothing of it, for ONNX Runtime does not know them.

    Args:
        features: of another processor of this architecture; None: ``processor_features()``.
    """

def available_isas(features: Sequence[str] | None = None) -> list[str]:
    """What a processor can run, fastest first; the last is always ``reference``.

    Args:
        features: of the processor; None: ``features()``.
    """

def chosen_isa(features: Sequence[str], name: str = "") -> str:
    """The set that counts on a processor with these features where CALIB8_ISA is ``name``, or not set.

    Raises:
        ValueError: ``name`` is unknown or not available there.
    """
