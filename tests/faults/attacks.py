"""The attacks on a command, each with what must be true afterwards; tests try few places, the script many."""

from __future__ import annotations

import ctypes
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from faulty import (
    LIMIT,
    Case,
    Faults,
    check_goes_on,
    check_whole_or_old,
    emptied,
    leftovers,
    make_given,
    old_files,
    one_error,
    preloaded,
    run,
    whole,
)


@dataclass(frozen=True)
class Field:
    """Where commands are attacked.

    Attributes:
        given: folder with what they read.
        out: folder that they write to.
        faults: see ``Faults``.
    """

    given: Path
    out: Path
    faults: Faults

    def wanted(self, case: Case) -> dict[str, bytes]:
        """What an undisturbed run writes."""
        return whole(case, self.given, self.out)

    def calls(self, case: Case) -> int:
        """How often the command changes files."""
        found = self.faults.calls(case.command(self.given, self.out), self.out)
        emptied(self.out)
        return found


def open_field(root: Path) -> Field:
    """A field in an empty folder."""
    given, out = root / "given", root / "out"
    given.mkdir()
    out.mkdir()
    make_given(given)
    return Field(given, out, Faults(preloaded(root), root / "calls"))


def killed_at_a_call(field: Field, case: Case, wanted: Mapping[str, bytes], at: int, before: bool) -> None:
    """SIGKILL before a call that changes a file: old or new files, and the same command goes on."""
    if before:
        old_files(case, field.out)
    done = field.faults.disturbed(case.command(field.given, field.out), field.out, "kill", at)
    assert done.returncode == -signal.SIGKILL, (done.returncode, done.stderr)
    check_whole_or_old(case, field.out, wanted, before and case.replaces)
    check_goes_on(case, field.given, field.out, wanted)
    emptied(field.out)


def killed_after(field: Field, case: Case, wanted: Mapping[str, bytes], seconds: float) -> bool:
    """SIGKILL at a time, wherever the command is then; whether it came before the command had ended."""
    old_files(case, field.out)
    with subprocess.Popen(
        case.command(field.given, field.out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            running.kill()
        killed = running.wait(LIMIT) == -signal.SIGKILL
    check_whole_or_old(case, field.out, wanted, case.replaces)
    check_goes_on(case, field.given, field.out, wanted)
    emptied(field.out)
    return killed


def full_from(field: Field, case: Case, wanted: Mapping[str, bytes], at: int, before: bool) -> None:
    """The disk is full from a call on: one line says so, nothing is half-written or left behind."""
    if before:
        old_files(case, field.out)
    done = field.faults.disturbed(case.command(field.given, field.out), field.out, "full", at)
    if done.returncode == 0:  # what is left needs no space
        assert at > 1
        check_whole_or_old(case, field.out, wanted, False)
    else:
        assert "No space left on device" in one_error(done), done.stderr
        check_whole_or_old(case, field.out, wanted, before and case.replaces)
    assert leftovers(field.out) == []
    check_goes_on(case, field.given, field.out, wanted)
    emptied(field.out)


def ended_at_a_call(
    field: Field, case: Case, wanted: Mapping[str, bytes], number: signal.Signals, at: int
) -> None:
    """A signal that asks to end: the exit code of a shell, one line, no temporary file."""
    old_files(case, field.out)
    command = case.command(field.given, field.out)
    done = field.faults.disturbed(command, field.out, f"signal:{int(number)}", at)
    check_ended(done, number)
    check_whole_or_old(case, field.out, wanted, case.replaces)
    assert leftovers(field.out) == []
    check_goes_on(case, field.given, field.out, wanted)
    emptied(field.out)


def check_ended(
    done: subprocess.CompletedProcess[str], number: signal.Signals, goes_on: bool = False
) -> None:
    """Exit code and line after a signal, which says with what the same command goes on."""
    assert done.returncode == 128 + number, (done.returncode, done.stderr)
    word = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"{word}: no file is left half-written"), done.stderr
    assert not goes_on or "; the same command goes on with what is in" in lines[0], done.stderr


def two_at_once(field: Field, case: Case, wanted: Mapping[str, bytes], refused: str = "") -> int:
    """Two processes write the same files: whole ones in the end; how many ended well.

    Args:
        field, case, wanted: as elsewhere.
        refused: what a process may be told in one line in place of writing; empty: nothing.
    """
    command = case.command(field.given, field.out)
    both = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    well = 0
    for one in both:
        told = one.communicate(timeout=LIMIT)[1]
        if one.returncode == 0:
            well += 1
            continue
        lines = told.splitlines()
        assert refused and len(lines) == 1 and refused in lines[0], told
    assert well, "neither of them ended"
    check_whole_or_old(case, field.out, wanted, False)
    assert leftovers(field.out) == []
    emptied(field.out)
    return well


def into_read_only(field: Field, case: Case) -> str:
    """A folder that cannot be written to: told in one line; the line."""
    field.out.chmod(0o555)
    try:
        done = run(case.command(field.given, field.out), before=_obey_modes)
    finally:
        field.out.chmod(0o755)
    return one_error(done)


def _obey_modes() -> None:
    """The superuser writes where others may not; without this capability it does not."""
    drop_from_bounding_set, dac_override = 24, 1
    ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override, 0, 0, 0)
