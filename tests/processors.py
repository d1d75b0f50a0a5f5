"""Processors, what they have, and what runs on them: choices are tested for each of them on any machine.

As a script it prints those that this one can stand for, one for each choice but its own, a line each, as
CALIB8_CPU takes them: ``NAME FEATURE …``; with the argument ``kernels`` only those on which kernels that run
here take another way.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

NAMES: Final = ("avx512vnni", "avxvnni", "avx512", "avx2", "neondot", "reference", "sse9")
"""All that CALIB8_ISA may name, and one that does not exist."""

_PLAIN: Final = {"reference": ("reference", "reference")}
_AVX2: Final = {"avx2": ("avx2", "avx2"), **_PLAIN}
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


_OTHERS: Final = {"sse4_2", "avx512cd", "asimd", "none"}
_HASWELL: Final = "sse4_2 popcnt avx avx2 fma"
_SKYLAKE: Final = f"{_HASWELL} avx512f avx512cd avx512bw avx512dq avx512vl"
_ICE_LAKE: Final = f"{_SKYLAKE} avx512_vnni avx512vbmi avx512_vbmi2"

X86: Final = (
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
        {"avx512vnni": ("avx512vnni", "avx512"), "avx512": ("avx512vnni", "avx512"), **_AVX2},
        "x86_64 avx512f",
    ),
    Processor(
        *("zen-5", f"{_ICE_LAKE} avx_vnni"),
        *(("avx512vnni", "avxvnni", "avx2", "reference"), ("avx512", "avx2", "reference")),
        {"avx512vnni": ("avx512vnni", "avx512"), "avx512": ("avx512vnni", "avx512"), **_AVX_VNNI},
        "x86_64 avx512f",
    ),
)

ARM: Final = (
    Processor("cortex-a53", "asimd", ("reference",), ("reference",), _PLAIN, "aarch64"),
    Processor(
        *("cortex-a76", "asimd asimddp", ("neondot", "reference"), ("reference",)),
        *({"neondot": ("neondot", "reference"), **_PLAIN}, "aarch64"),
    ),
)

_OTHER: Final = (Processor("other", "none", ("reference",), ("reference",), _PLAIN, "other"),)

PROCESSORS: Final[tuple[Processor, ...]] = {
    **dict.fromkeys(("x86_64", "AMD64"), X86),
    **dict.fromkeys(("aarch64", "arm64"), ARM),
}.get(platform.machine(), _OTHER)
"""Those of this architecture."""


ASKED: Final[Mapping[str, frozenset[str]]] = {"avx512vnni": frozenset({"avx512vbmi"})}
"""Set of the engine → what its kernels ask for besides what the set needs: with it they take another way."""


@dataclass(frozen=True)
class Choice:
    """What runs on a processor unless a set is named.

    Attributes:
        engine, counting: the sets.
        ways: those of ``ASKED`` that it has.
    """

    engine: str
    counting: str
    ways: frozenset[str]


def choice(processor: Processor) -> Choice:
    """As the table of processors has it."""
    engine = processor.engine[0]
    ways = ASKED.get(engine, frozenset()) & set(processor.features)
    return Choice(engine, processor.counting[0], ways)


def others(processors: Iterable[Processor], features: Iterable[str], own: Choice) -> list[Processor]:
    """Those that a processor with these features can stand for: one for each choice but its own."""
    here, seen, found = set(features), {own}, []
    for processor in processors:
        if here.issuperset(processor.features) and choice(processor) not in seen:
            found.append(processor)
            seen.add(choice(processor))
    return found


def other_ways(processors: Iterable[Processor], own: Choice) -> list[Processor]:
    """Those with the own set of the engine whose kernels take another way than the own ones."""
    found = {choice(one).ways: one for one in processors if choice(one).engine == own.engine}
    return [one for ways, one in found.items() if ways != own.ways]


def _main() -> None:
    from calib8 import _core

    features = _core.processor_features()
    engine = _core.engine.chosen_isa(features, "")
    own = Choice(
        engine, _core.chosen_isa(features, ""), ASKED.get(engine, frozenset()).intersection(features)
    )
    found = others(PROCESSORS, features, own)
    for processor in other_ways(found, own) if sys.argv[1:] == ["kernels"] else found:
        print(processor.name, processor.cpuinfo)


if __name__ == "__main__":
    _main()
