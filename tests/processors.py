"""Processors, what they have, and what runs on them: choices are tested for each of them on any machine.

As a script it prints those that this one can stand for, one for each choice but its own, a line each, as
CALIB8_CPU takes them: ``NAME FEATURE …``. With ``--sets`` it prints the sets that none of them, nor this one,
takes by itself, which CALIB8_ISA has to ask for.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NAMES: Final = (
    "amx",
    "avx512vnni",
    "avxvnni",
    "avx512",
    "avx2",
    "neoni8mm",
    "neondot",
    "neon",
    "reference",
    "sse9",
)
"""All that CALIB8_ISA may name, and one that does not exist."""

_PLAIN: Final = {"reference": ("reference", "reference")}
_AVX2: Final = {"avx2": ("avx2", "avx2"), **_PLAIN}
_AVX512: Final = {"avx512vnni": ("avx512vnni", "avx512"), "avx512": ("avx512vnni", "avx512")}
_AVX_VNNI: Final = {"avxvnni": ("avxvnni", "avx2"), **_AVX2}


@dataclass(frozen=True)
class Processor:
    """A kind of processor.

    Attributes:
        name: of the first of its kind.
        cpuinfo: the words of /proc/cpuinfo that matter, and some that do not.
        engine, counting: its sets, fastest first.
        forced: name in CALIB8_ISA → the sets of the engine and of the statistics; all others are refused.
        cpu_type: what decides the bits of float inference.
    """

    name: str
    cpuinfo: str
    engine: tuple[str, ...]
    counting: tuple[str, ...]
    forced: Mapping[str, tuple[str, str]]
    cpu_type: str

    @property
    def features(self) -> list[str]:
        """Those that kernels ask for."""
        return [word for word in self.cpuinfo.split() if word not in _OTHERS]


_OTHERS: Final = {"sse4_2", "avx512cd", "amx_bf16", "none"}
_HASWELL: Final = "sse4_2 popcnt avx avx2 fma"
_SKYLAKE: Final = f"{_HASWELL} avx512f avx512cd avx512bw avx512dq avx512vl"
_ICE_LAKE: Final = f"{_SKYLAKE} avx512_vnni avx512vbmi avx512_vbmi2"

_X86: Final = (
    Processor("nehalem", "sse4_2 popcnt", ("reference",), ("reference",), _PLAIN, "x86_64"),
    Processor("sandy-bridge", "sse4_2 popcnt avx", ("reference",), ("reference",), _PLAIN, "x86_64 avx"),
    Processor("haswell", _HASWELL, ("avx2", "reference"), ("avx2", "reference"), _AVX2, "x86_64 avx2"),
    Processor(
        *("alder-lake", f"{_HASWELL} avx_vnni"),
        *(("avxvnni", "avx2", "reference"), ("avx2", "reference")),
        *(_AVX_VNNI, "x86_64 avx2"),
    ),
    Processor("skylake-x", _SKYLAKE, ("avx2", "reference"), ("avx2", "reference"), _AVX2, "x86_64 avx512f"),
    Processor(
        *("cascade-lake", f"{_SKYLAKE} avx512_vnni"),
        *(("avx512vnni", "avx2", "reference"), ("avx2", "reference")),
        *({"avx512vnni": ("avx512vnni", "avx2"), **_AVX2}, "x86_64 avx512f"),
    ),
    Processor(
        *("ice-lake", _ICE_LAKE),
        *(("avx512vnni", "avx2", "reference"), ("avx512", "avx2", "reference")),
        {**_AVX512, **_AVX2},
        "x86_64 avx512f",
    ),
    Processor(
        *("zen-5", f"{_ICE_LAKE} avx_vnni"),
        *(("avx512vnni", "avxvnni", "avx2", "reference"), ("avx512", "avx2", "reference")),
        {**_AVX512, **_AVX_VNNI},
        "x86_64 avx512f",
    ),
    Processor(
        *("sapphire-rapids", f"{_ICE_LAKE} avx_vnni amx_bf16 amx_tile amx_int8"),
        *(("amx", "avx512vnni", "avxvnni", "avx2", "reference"), ("avx512", "avx2", "reference")),
        *({"amx": ("amx", "avx512"), **_AVX512, **_AVX_VNNI}, "x86_64 avx512f"),
    ),
)

_NEON: Final = {"neon": ("neon", "reference"), **_PLAIN}
_NEON_DOT: Final = {"neondot": ("neondot", "reference"), **_NEON}

_ARM: Final = (
    Processor("cortex-a53", "asimd", ("neon", "reference"), ("reference",), _NEON, "aarch64"),
    Processor(
        *("cortex-a76", "asimd asimddp", ("neondot", "neon", "reference"), ("reference",)),
        *(_NEON_DOT, "aarch64"),
    ),
    Processor(
        *("cortex-a710", "asimd asimddp i8mm", ("neoni8mm", "neondot", "neon", "reference")),
        *(("reference",), {"neoni8mm": ("neoni8mm", "reference"), **_NEON_DOT}, "aarch64"),
    ),
)

_OTHER: Final = (Processor("other", "none", ("reference",), ("reference",), _PLAIN, "other"),)

PROCESSORS: Final[tuple[Processor, ...]] = {
    **dict.fromkeys(("x86_64", "AMD64"), _X86),
    **dict.fromkeys(("aarch64", "arm64"), _ARM),
}.get(platform.machine(), _OTHER)
"""Those of this architecture."""


def _stood_for() -> list[Processor]:
    """Processors with fewer sets than this one, one for each choice."""
    from calib8 import _core

    here = set(_core.processor_features())
    seen = {(tuple(_core.engine.available_isas()), tuple(_core.available_isas()))}
    found = []
    for processor in PROCESSORS:
        sets = processor.engine, processor.counting
        if here.issuperset(processor.features) and sets not in seen:
            found.append(processor)
            seen.add(sets)
    return found


def _main() -> None:
    from calib8 import _core

    processors, [own, *others] = _stood_for(), _core.engine.available_isas()
    if sys.argv[1:] == ["--sets"]:
        taken = {own, *(processor.engine[0] for processor in processors)}
        print(*(name for name in others if name not in taken))
        return
    for processor in processors:
        print(processor.name, processor.cpuinfo)


if __name__ == "__main__":
    _main()
