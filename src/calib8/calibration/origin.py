"""Where statistics were gathered, as far as that decides their bits.

same CPU type, same version of ONNX Runtime   →   float inference gives the same bits
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from calib8 import _core
from calib8.model.runtime import runtime_version


@dataclass(frozen=True, order=True)
class Origin:
    """What ran the float model.

    Attributes:
        cpu: architecture and the widest instruction set that float inference chooses by, such as
            ``x86_64 avx512f``.
        runtime: version of ONNX Runtime.
    """

    cpu: str
    runtime: str

    def __str__(self) -> str:
        """For messages."""
        return f"{self.cpu} with ONNX Runtime {self.runtime}"


def this_origin() -> Origin:
    """That of this machine."""
    return Origin(_core.cpu_type(), runtime_version())


def united(*parts: Iterable[Origin]) -> tuple[Origin, ...]:
    """All of them, each once, in ascending order."""
    return tuple(sorted({origin for part in parts for origin in part}))


def origins_text(origins: Iterable[Origin]) -> str:
    """``a and b``, for messages."""
    return " and ".join(map(str, origins))
