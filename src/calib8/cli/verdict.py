"""The last line of ``calib8 quantize``: what became of the model, and the command to go on with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calib8.cli.documents import finite
from calib8.cli.terminal import Terminal

if TYPE_CHECKING:
    from calib8.tasks.branches import Meaning
    from calib8.tasks.kinds import Kind
    from calib8.tasks.verdict import State, Verdict

_STYLES: Final[dict[State, str]] = {"damaged": "yellow", "ruined": "red"}

_PROMISES: Final[dict[Kind, tuple[str, str]]] = {
    "logits": ("--min-agreement", "99"),
    "probabilities": ("--min-agreement", "99"),
}
_OTHER_PROMISE: Final = ("--min-sqnr", "25")
"""Kind of the worst branch → what to promise."""


def say_verdict(terminal: Terminal, verdict: Verdict, command: list[str]) -> None:
    """The verdict and the next command."""
    terminal.say(f"verdict: {verdict.text}", style=_STYLES.get(verdict.state))
    terminal.say(f"next: {shlex.join(command)}")


def say_meaning(terminal: Terminal, meaning: Meaning | None) -> None:
    """What the outputs were taken for, where there are several branches or it was guessed."""
    if meaning is None or not (meaning.several or any(one.sureness == "guessed" for one in meaning.branches)):
        return
    each = (f"{one.kind} {one.places} ({one.sureness})" for one in meaning.branches)
    guessed = any(one.sureness == "guessed" for one in meaning.branches)
    terminal.say(f"outputs: {', '.join(each)}{'; --branch says what they are' if guessed else ''}")


def meaning_document(meaning: Meaning | None) -> list[dict[str, Any]]:
    """One entry per branch of the outputs."""
    return [
        {"name": one.name, "kind": one.kind, "where": one.places, "sureness": one.sureness, "why": one.why}
        for one in (() if meaning is None else meaning.branches)
    ]


def next_command(
    verdict: Verdict, model: Path, output: Path, data: Path | None, flags: list[str], effort: str
) -> list[str]:
    """What to do after a verdict.

    Args:
        verdict: of the model.
        model, output: float and INT8.
        data: what calibrated, None where nothing did.
        flags: how the data are read, and what the outputs mean, as options.
        effort: that was made, empty where repairs were named, or none was made.
    """
    if data is None or verdict.state in ("kept", "unknown"):
        return ["calib8", "evaluate", str(model), str(output), "--data", "OTHER_IMAGES", *flags]
    given = ["--data", str(data), *flags]
    if verdict.state == "ruined":
        return ["calib8", "diagnose", str(model), str(output), *given]
    if effort != "best":
        return ["calib8", "quantize", str(model), *given, "--effort", "best", "-o", str(output)]
    promise = _PROMISES.get(verdict.branches[0].kind, _OTHER_PROMISE)
    return ["calib8", "tune", str(model), *given, *promise, "-o", str(output)]


def verdict_document(verdict: Verdict | None, command: list[str]) -> dict[str, Any] | None:
    """The verdict for machines."""
    if verdict is None:
        return None
    return {
        "state": verdict.state,
        "text": verdict.text,
        "samples": verdict.samples,
        "shared": verdict.shared,
        "branches": [
            {"name": one.name, "kind": one.kind, "state": one.state, "value": finite(one.value),
             "text": one.text}
            for one in verdict.branches
        ],
        "next": shlex.join(command),
    }  # fmt: skip
