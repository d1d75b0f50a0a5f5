"""``doctor``: looks at this machine and this installation.

Nothing that is broken ends it: what cannot be found out is told.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import replace
from typing import Final

from calib8.analysis.asked_apart import (
    CACHE,
    COUNTING,
    ENGINE,
    IMPORT,
    PROVIDERS,
    SATURATES,
    Answer,
    ask,
)
from calib8.analysis.cpu_limits import processor_here
from calib8.analysis.environment import Environment, Kernels, Runtime
from calib8.analysis.environment_findings import findings_of
from calib8.analysis.plan_cache import PlanCache
from calib8.analysis.required_packages import (
    OWN,
    Package,
    installed_runtimes,
    installed_version,
    required_packages,
)
from calib8.parameters import Text

PREFIX: Final = "CALIB8_"
"""Of the environment variables that are calib8's."""


def doctor() -> Environment:
    """Looks at this machine and installation: versions, processor, packages, cache, and what is wrong.

    Packages are imported in a process of their own, so that a broken one is a finding. It takes seconds.
    """
    always, extras = required_packages()
    imports = [f"{IMPORT}{package.module}" for package in always]
    answers = ask([*imports, ENGINE, COUNTING, PROVIDERS, SATURATES, CACHE])
    imported = {package.name: answers[f"{IMPORT}{package.module}"] for package in always}
    found = Environment(
        calib8=installed_version(OWN),
        python=platform.python_version(),
        executable=sys.executable or "",
        system=platform.platform(),
        processor=processor_here(),
        engine=_kernels(answers[ENGINE]),
        counting=_kernels(answers[COUNTING]),
        runtime=_runtime(answers),
        packages=tuple(_with_version(package, imported[package.name]) for package in always),
        extras=extras,
        cache=_cache(answers[CACHE]),
        variables={name: os.environ[name] for name in sorted(os.environ) if name.startswith(PREFIX)},
        broken={name: answer.problem for name, answer in imported.items() if answer.problem},
    )
    return replace(found, findings=findings_of(found))


def _with_version(package: Package, answer: Answer) -> Package:
    """A module that another package brings says itself which version it is."""
    if package.version is None and answer.value is not None:
        return Package(package.name, package.needed, answer.value)
    return package


def _kernels(answer: Answer) -> Kernels:
    if answer.value is None:
        return Kernels((), "", "", answer.problem)
    available, used = answer.value
    named, limited = os.environ.get("CALIB8_ISA", ""), os.environ.get("CALIB8_CPU", "")
    if named:
        why = f"CALIB8_ISA is {named}"
    elif limited:
        why = "the fastest of what CALIB8_CPU leaves"
    else:
        why = "the fastest that the processor has"
    return Kernels(tuple(available), used, why, Text(""))


def _cache(answer: Answer) -> PlanCache:
    if answer.value is None:
        return PlanCache(None, "it cannot be told", 0, 0, None, "")
    return PlanCache(**answer.value)


def _runtime(answers: dict[str, Answer]) -> Runtime:
    version, providers = answers[PROVIDERS].value or ("", [])
    return Runtime(version, tuple(providers), installed_runtimes(), answers[SATURATES].value)
