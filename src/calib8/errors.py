"""The one tree of errors that calib8 raises on purpose.

    Calib8Error
    ├── UsageError            options that contradict each other or name something unknown     exit code 2
    ├── ModelError            the model cannot be read or run                                 exit code 1
    │   ├── UnsupportedModelError   it can be read, but not quantized
    │   └── CrashError              it ends the process of a foreign runtime
    ├── DataError             images, labels or arrays do not fit                             exit code 1
    ├── CalibrationError      statistics from which no range can be chosen                    exit code 1
    ├── TableError            a table, statistics or checkpoint, broken or of another model   exit code 1
    ├── OutputError           a result cannot be written                                      exit code 1
    │   └── PlaceError              as is told before the work starts                             exit code 2
    └── PromiseError          no model that was tried keeps the promise, on the command line   exit code 3

Every message is one line: ``subject: problem. cure.`` What it says of parameters is written once, see
``calib8.parameters``: the text of an error is in the words of Python, ``on_command_line`` has those of flags.

``NoFormError`` is not of the tree: it carries a reason from where a translation finds it to where the part is
left float, or listed with others in one of the errors above. No user gets it.
"""

from __future__ import annotations

from typing import ClassVar

from calib8.parameters import Text, with_both


class Calib8Error(Exception):
    """Base of all errors of calib8."""

    exit_code: ClassVar[int] = 1

    def __init__(self, subject: str, problem: str, cure: str) -> None:
        """Builds the one-line message, ``text``.

        Args:
            subject: the file, node or tensor concerned.
            problem: what is wrong with it, with the offending value.
            cure: what the user can do about it.
        """
        self.subject = Text(subject)
        self.problem = Text(problem)
        self.cure = Text(cure)
        said, do = with_both(problem).rstrip("."), with_both(cure).rstrip(".")
        self.text = Text(" ".join(f"{with_both(subject)}: {said}. {do}.".split()))
        super().__init__(str(self.text))

    def __reduce__(self) -> tuple[type[Calib8Error], tuple[Text, Text, Text]]:
        """Errors pass from one process to another."""
        return type(self), (self.subject, self.problem, self.cure)


class UsageError(Calib8Error):
    """Options that contradict each other or name something unknown (exit code 2)."""

    exit_code: ClassVar[int] = 2


class ModelError(Calib8Error):
    """The model cannot be read, checked or run."""


class UnsupportedModelError(ModelError):
    """The model is valid but holds something that calib8 cannot quantize."""


class CrashError(ModelError):
    """A foreign runtime, which has a process of its own, was ended by the model."""


class DataError(Calib8Error):
    """Images, labels or arrays are missing, corrupt or do not fit the model."""


class CalibrationError(Calib8Error):
    """Statistics from which no range can be chosen (NaN, Inf, nothing seen)."""


class TableError(Calib8Error):
    """A table, statistics, a checkpoint or a search that cannot be read or is of another model or run."""


class OutputError(Calib8Error):
    """A result cannot be written (permissions, full disk, missing folder)."""


class PlaceError(OutputError):
    """A result has no place where it was wanted, which is told before the work starts (exit code 2)."""

    exit_code: ClassVar[int] = 2


class PromiseError(Calib8Error):
    """No model that was tried keeps the promise (exit code 3); the command line alone raises it."""

    exit_code: ClassVar[int] = 3


class NoFormError(Exception):
    """A node, operator or instruction has no form in what it is translated to; the text says why."""
