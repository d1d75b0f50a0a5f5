"""What the system refuses is told as what it is, with what to do, and is no bug of calib8."""

from __future__ import annotations

import errno
import signal

import pytest

from calib8.cli.system_errors import refused_by_system
from calib8.signals import Ended, ending_word, exit_code, interruption_in

MEMORY = "memory: there is not enough of it. Free some"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), MEMORY),
        (RuntimeError("std::bad_alloc"), MEMORY),
        (ImportError("libx.so: failed to map segment from shared object"), MEMORY),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), MEMORY),
        (OSError(errno.EMFILE, "Too many", "a.onnx"), "a.onnx: too many files are open. Raise the limit"),
        (OSError(errno.ENFILE, "Too many"), "files: too many files are open. Raise the limit"),
        (OSError(errno.ENOSPC, "No space left", "a"), "a: cannot be written (No space left). Choose"),
        (OSError(errno.EDQUOT, "Quota", b"a\xff"), "a\udcff: cannot be written (Quota). Choose"),
        (OSError(errno.ENOSPC, "No space left"), "standard output: cannot be written (No space left)."),
        (RuntimeError("can't start new thread"), "threads: the system starts no more of them. Raise"),
    ],
)
def test_refusals_are_one_line(error: Exception, told: str) -> None:
    found = refused_by_system(error)
    assert found is not None and str(found).startswith(told) and "\n" not in str(found)
    assert found.exit_code == 1


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.ENAMETOOLONG, "File name too long"), (errno.ELOOP, "Too many links")]
)
def test_names_of_no_file(number: int, reason: str) -> None:
    found = refused_by_system(OSError(number, reason, "n" * 300))
    assert found is not None and found.exit_code == 2
    assert str(found) == f"{'n' * 300}: is the name of no file ({reason}). Give another path."


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        RuntimeError("x"),
        OSError("x"),
        OSError(errno.ENOENT, "No such file", "a"),
        KeyError(1),
    ],
)
def test_other_errors_are_not(error: Exception) -> None:
    assert refused_by_system(error) is None


def test_signals_have_the_exit_codes_of_shells() -> None:
    assert exit_code(KeyboardInterrupt()) == 128 + signal.SIGINT
    assert exit_code(Ended(signal.SIGTERM)) == 128 + signal.SIGTERM
    assert ending_word(KeyboardInterrupt()) == "interrupted"
    assert ending_word(Ended(signal.SIGHUP)) == "ended by SIGHUP"


def test_what_interrupted_is_found_behind_other_errors() -> None:
    end = Ended(signal.SIGTERM)
    error = ImportError("initialization failed")
    error.__cause__ = end
    assert interruption_in(error) is end and interruption_in(end) is end
    assert interruption_in(ValueError("x")) is None and interruption_in(None) is None
