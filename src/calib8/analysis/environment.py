"""What there is to know of a machine and an installation: the values, and all of it as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from calib8.analysis.cpu_limits import Processor
from calib8.analysis.plan_cache import PlanCache
from calib8.analysis.required_packages import Extra, Package
from calib8.parameters import Text

_UNKNOWN: Final = "not known"
_MEGABYTE: Final = 1e6


@dataclass(frozen=True)
class Kernels:
    """Instruction sets for one purpose.

    Attributes:
        available: that run here, fastest first; empty where it cannot be told.
        used: the one that is used, empty where none is.
        why: it is that one.
        problem: why none is used, empty where one is.
    """

    available: tuple[str, ...]
    used: str
    why: str
    problem: Text


@dataclass(frozen=True)
class Runtime:
    """ONNX Runtime as it is imported.

    Attributes:
        version: of the module; empty where it cannot be imported.
        providers: what it can run models on; calib8 uses the CPU.
        packages: those installed that bring the module.
        saturates: products of 8 bits, summed in pairs, come out too small with its defaults on this CPU; None
            where it cannot be told.
    """

    version: str
    providers: tuple[str, ...]
    packages: tuple[str, ...]
    saturates: bool | None


@dataclass(frozen=True)
class Finding:
    """Something that is wrong or slow, and its cure.

    Attributes:
        subject: what it is about.
        problem: what is wrong with it.
        cure: what to do.
    """

    subject: Text
    problem: Text
    cure: Text

    @property
    def text(self) -> Text:
        """All of it in one line, as errors are."""
        return Text(f"{self.subject.both}: {self.problem.both}. {self.cure.both}.")


@dataclass(frozen=True)
class Environment:
    """What there is to know of a machine and an installation before asking for help.

    Attributes:
        calib8: its version; None where it was never installed.
        python: its version.
        executable: where Python lies.
        system: the operating system.
        processor: and what of it may be used.
        engine: instruction sets of the integer engine.
        counting: those that count values while calibrating.
        runtime: ONNX Runtime.
        packages: that are always needed.
        extras: what can be installed in addition.
        cache: plans that are kept.
        variables: environment variables of calib8 that are set.
        broken: package → why it cannot be imported.
        findings: what is wrong, with cures.
    """

    calib8: str | None
    python: str
    executable: str
    system: str
    processor: Processor
    engine: Kernels
    counting: Kernels
    runtime: Runtime
    packages: tuple[Package, ...]
    extras: tuple[Extra, ...]
    cache: PlanCache
    variables: dict[str, str]
    broken: dict[str, Text]
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """One line: versions, instruction set, cores and the number of findings."""
        found = len(self.findings)
        return (
            f"<Environment: calib8 {self.calib8}, Python {self.python}, engine "
            f"{self.engine.used or 'without kernels'}, {self.processor.usable} cores, {found} "
            f"finding{'' if found == 1 else 's'}>"
        )

    def summary(self) -> Text:
        """All of it as lines of text, the findings last."""
        return _text(self)


def _text(found: Environment) -> Text:
    """Columns aligned; findings in the words of Python and of the command line, see ``Text``."""
    facts = _columns([*_facts(found)])
    packages = _columns([("package", "installed", "needed"), *map(_package, found.packages)])
    extras = _columns([("extra", "adds", "installed"), *map(_extra, found.extras)])
    number = len(found.findings)
    head = f"{number} finding{'' if number == 1 else 's'}:" if number else "nothing wrong was found"
    findings = [head, *(f"- {finding.text.both}" for finding in found.findings)]
    return Text("\n".join([*facts, "", *packages, "", *extras, "", *findings]))


def _facts(found: Environment) -> Iterator[tuple[str, str]]:
    yield "calib8", found.calib8 or _UNKNOWN
    yield "Python", f"{found.python}, {found.executable or _UNKNOWN}"
    yield "system", found.system
    yield "processor", f"{found.processor.name} ({found.processor.architecture})"
    yield "cores", _cores(found)
    yield "engine", _kernels(found.engine)
    yield "counting", _kernels(found.counting)
    yield "ONNX Runtime", _runtime(found)
    yield "plan cache", _cache(found)
    yield "variables", " ".join(f"{name}={value}" for name, value in found.variables.items()) or "none set"


def _cores(found: Environment) -> str:
    processor = found.processor
    told = f"{processor.usable} of {processor.cores} may be used"
    if processor.quota is not None:
        told += f", {processor.quota:g} cores' worth of time"
    return f"{told}; limited by {' and '.join(processor.limits)}" if processor.limits else told


def _kernels(kernels: Kernels) -> str:
    if not kernels.used:
        return "none can be used"
    return f"{kernels.used}, {kernels.why}; there are {', '.join(kernels.available)}"


def _runtime(found: Environment) -> str:
    runtime = found.runtime
    if not runtime.version:
        return "cannot be imported"
    return f"{runtime.version} with {', '.join(runtime.providers)}; calib8 uses the CPU"


def _cache(found: Environment) -> str:
    cache = found.cache
    if cache.folder is None:
        return f"none: {cache.off}"
    most = _UNKNOWN if cache.most_bytes is None else f"{cache.most_bytes / _MEGABYTE:.0f}"
    files = f"{cache.files} file{'' if cache.files == 1 else 's'}"
    return f"{cache.folder}, {files}, {cache.bytes / _MEGABYTE:.1f} of at most {most} MB"


def _package(package: Package) -> tuple[str, str, str]:
    return package.name, package.version or "–", package.needed or "any"


def _extra(extra: Extra) -> tuple[str, str, str]:
    there = ", ".join(f"{one.name} {one.version}" for one in extra.packages if one.version is not None)
    missing = ", ".join(one.name for one in extra.packages if one.version is None)
    if not missing:
        return extra.name, extra.adds, there
    told = f"{there}; without {missing}" if there else f"without {missing}"
    return extra.name, extra.adds, f"{told}: {extra.command}"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines in which every column but the last is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ((*map(str.ljust, row[:-1], widths), row[-1]) for row in rows)
    return ["  ".join(cells).rstrip() for cells in padded]
