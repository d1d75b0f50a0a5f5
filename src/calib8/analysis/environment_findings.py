"""What is wrong with an installation or a machine, each with a cure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from calib8.analysis.environment import Environment, Finding
from calib8.number_texts import count
from calib8.parameters import Text, one_of, parameter

PLAIN: Final = "reference"
"""The set of plain loops, which every processor runs."""

VARIABLES: Final = (
    "CALIB8_CACHE", "CALIB8_CACHE_MB", "CALIB8_CHECK_LOWERING", "CALIB8_CPU", "CALIB8_ISA",
    "CALIB8_SHARE_ALL", "CALIB8_TRACEBACK",
)  # fmt: skip
"""Environment variables that calib8 reads."""

TEST_VARIABLES: Final = ("CALIB8_KERNEL_CASES", "CALIB8_RECORD", "CALIB8_SHARED_DATA", "CALIB8_TFLITE_CASES")
"""Those that its tests read."""


def findings_of(found: Environment) -> tuple[Finding, ...]:
    """What is worth a cure, gravest first; empty where all is well."""
    return (
        *_packages(found),
        *_runtimes(found),
        *_kernels(found),
        *_processor(found),
        *_saturation(found),
        *_cache(found),
        *_variables(found),
    )


def _finding(subject: str, problem: str, cure: str) -> Finding:
    return Finding(Text(subject), Text(problem), Text(cure))


def _packages(found: Environment) -> Iterator[Finding]:
    if found.calib8 is None:
        cure = "Install it with pip in place of running it from its folder"
        yield _finding("calib8", "has no package metadata, so nothing is known of what it needs", cure)
    elif not found.packages:
        incomplete = "its package metadata list nothing that it needs, so they are incomplete"
        yield _finding("calib8", incomplete, "Uninstall it, and install it anew with pip")
    for package in found.packages:
        wanted = f'"{package.name}{package.needed}"'
        problem = found.broken.get(package.name)
        if package.version is None and problem is not None and "ModuleNotFoundError" in problem:
            yield _finding(package.name, "is not installed", f"Run pip install {wanted}")
        elif problem is not None:
            cure = f"Run pip uninstall {package.name}, then pip install {wanted}"
            yield _finding(package.name, f"cannot be imported: {problem.both}", cure)
        elif package.version is None:
            cure = f"Run pip install {wanted}"
            yield _finding(package.name, "can be imported, but nothing says which version it is", cure)
        elif package.older:
            yield _old(package.name, package.version, package.needed, wanted)
    for extra in found.extras:
        for package in extra.packages:
            if package.older:
                wanted = f'"{package.name}{package.needed}"'
                yield _old(package.name, package.version, f"{package.needed}, for {extra.name}", wanted)


def _old(name: str, version: str | None, needed: str, wanted: str) -> Finding:
    problem = f"version {version} is older than calib8 needs ({needed})"
    return _finding(name, problem, f"Run pip install -U {wanted}")


def _runtimes(found: Environment) -> Iterator[Finding]:
    several = found.runtime.packages
    if len(several) > 1:
        problem = "are installed into one folder, where each overwrites files of the other"
        cure = f"Run pip uninstall {' '.join(several)}, then pip install onnxruntime"
        yield _finding(" and ".join(several), problem, cure)


def _kernels(found: Environment) -> Iterator[Finding]:
    forced = [name for name in ("CALIB8_ISA", "CALIB8_CPU") if found.variables.get(name)]
    for purpose, kernels in (("engine", found.engine), ("counting", found.counting)):
        if kernels.problem and not found.broken:
            cure = f"Unset {' or '.join(forced)}" if forced else "Install calib8 anew"
            yield _finding(purpose, f"no kernels can be used: {kernels.problem.both.rstrip('.')}", cure)
        elif kernels.used == PLAIN and not forced:
            problem = "there are only plain loops for this processor, which are slow"
            cure = "Use x86-64 with AVX2 or newer sets, or aarch64 with dot products"
            yield _finding(purpose, problem, cure)
        elif kernels.used and (kernels.used != kernels.available[0] or "CALIB8_CPU" in forced):
            problem = f"runs with {kernels.used}, because {' and '.join(forced)} is set"
            yield _finding(purpose, problem, "Unset it if speed matters: all sets give the same results")


def _processor(found: Environment) -> Iterator[Finding]:
    quota, threads = found.processor.quota, found.processor.threads
    if quota is not None and quota < threads:
        fitting = max(1, int(quota))
        time = f"{quota:g} cores' worth of time for {count(threads, 'thread')}"
        problem = f"there are {time}: a run stops whenever it is used up"
        fewer = f"Give {parameter('threads', fitting)}, or raise" if fitting < threads else "Raise"
        cure = f"{fewer} the limit of the container or service"
        yield _finding("CPU quota", problem, cure)


def _saturation(found: Environment) -> Iterator[Finding]:
    if found.runtime.saturates:
        from calib8.analysis.saturation_here import CURES  # with packages that may be broken elsewhere

        problem = (
            "this CPU has no VNNI: by default sums of 8-bit products may saturate, and INT8 models be less "
            "accurate than on other CPUs"
        )
        yield _finding("ONNX Runtime", problem, CURES["onnxruntime"])


def _cache(found: Environment) -> Iterator[Finding]:
    if found.cache.problem:
        cure = (
            "Set CALIB8_CACHE to a folder that can be written to, or to off, and CALIB8_CACHE_MB to a number"
        )
        yield _finding("plan cache", f"{found.cache.problem}, so models are compiled anew", cure)


def _variables(found: Environment) -> Iterator[Finding]:
    for name in found.variables:
        if name not in VARIABLES and name not in TEST_VARIABLES:
            yield _finding(name, "is no variable that calib8 reads", one_of(name, VARIABLES, "There are"))
