"""``calib8 doctor``: what there is to know of a machine and an installation before asking for help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from calib8.cli.options import ReportOptions
from calib8.cli.outputs import check_outputs, write_json
from calib8.cli.terminal import open_terminal
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.analysis.environment import Environment
    from calib8.analysis.required_packages import Package


def doctor(*, report: ReportOptions) -> None:
    """Look at this machine and installation.

    Shows versions, processor, instruction sets, packages and the plan cache, and what is wrong with them.
    """
    terminal = open_terminal(report.quiet)
    check_outputs({"--json": report.json}, [])

    from calib8.analysis.doctor import doctor as look

    found = look()
    terminal.say_lines(on_command_line(found.summary()))
    if report.json is not None:
        write_json(report.json, environment_document(found))


def environment_document(found: Environment) -> dict[str, Any]:
    """All of it for machines."""
    return {
        "calib8": found.calib8,
        "python": found.python,
        "executable": found.executable,
        "system": found.system,
        "processor": {**asdict(found.processor), "limits": list(found.processor.limits)},
        "engine": asdict(found.engine),
        "counting": asdict(found.counting),
        "onnxruntime": asdict(found.runtime),
        "packages": [_package(package, found) for package in found.packages],
        "extras": [
            {"name": extra.name, "adds": extra.adds, "installed": extra.installed, "command": extra.command,
             "packages": _versions(extra.packages)}
            for extra in found.extras
        ],
        "cache": asdict(found.cache),
        "variables": dict(found.variables),
        "findings": [
            {"subject": one.subject, "problem": one.problem, "cure": one.cure, "text": one.text}
            for one in found.findings
        ],
    }  # fmt: skip


def _package(package: Package, found: Environment) -> dict[str, Any]:
    broken = found.broken.get(package.name)
    return {"name": package.name, "needed": package.needed, "version": package.version,
            "older": package.older, "broken": broken}  # fmt: skip


def _versions(packages: Sequence[Package]) -> dict[str, str | None]:
    return {package.name: package.version for package in packages}
