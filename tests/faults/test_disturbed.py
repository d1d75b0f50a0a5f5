"""Commands that are killed, told to end, or find the disk full: nothing is lost, nothing half-written.

``scripts/faults.py`` does the same at every place.
"""

from __future__ import annotations

import signal

import pytest
from attacks import Field, check_ended, ended_at_a_call, full_from, killed_at_a_call, open_field
from faulty import CASES, check_goes_on, check_whole_or_old, emptied, leftovers, old_files, one_error

from needed import needed_program
from slow_cases import slow_but


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Field:
    """A folder with what the commands read, and one that they write to."""
    needed_program("cc", "gcc")
    return open_field(tmp_path_factory.mktemp("field").resolve())


@pytest.mark.parametrize("name", slow_but(["compile", "stats merge"], CASES))
def test_disturbed_again_and_again(field: Field, name: str) -> None:
    """Killed twice, once out of space, once told to end, each with what the last left; then undisturbed."""
    case, out = CASES[name], field.out
    emptied(out)
    command = case.command(field.given, out)
    calls = field.calls(case)
    wanted = field.wanted(case)
    old_files(case, out)
    for kind, at in (("kill", calls // 2), ("kill", 3), ("full", 3), ("signal:15", 3)):
        done = field.faults.disturbed(command, out, kind, at)
        if kind == "kill":
            assert done.returncode == -signal.SIGKILL, done.stderr
        elif kind == "full":
            assert "No space left on device" in one_error(done)
        else:
            check_ended(done, signal.SIGTERM, goes_on=name in ("calibrate", "tune"))
        check_whole_or_old(case, out, wanted, case.replaces)
        assert kind == "kill" or leftovers(out) == [], "those of killed runs go too"
    check_goes_on(case, field.given, out, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_disturbed_at_every_tenth_of_the_way(field: Field, name: str) -> None:
    case = CASES[name]
    emptied(field.out)
    wanted, calls = field.wanted(case), field.calls(case)
    for at in sorted({1 + (calls - 1) * tenth // 10 for tenth in range(11)}):
        killed_at_a_call(field, case, wanted, at, before=at % 2 == 0)
        full_from(field, case, wanted, at, before=at % 2 == 0)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_other_signals(field: Field, number: signal.Signals) -> None:
    emptied(field.out)
    case = CASES["compile"]
    ended_at_a_call(field, case, field.wanted(case), number, 3)
