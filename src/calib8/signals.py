"""Signals that end the command line from outside: it tidies up after each of them, as after Ctrl-C.

    SIGINT             KeyboardInterrupt, as Python has it
    SIGTERM, SIGHUP    Ended, which is one too

The exit code is 128 + the number of the signal, as a shell has it of a process that a signal ended.
"""

from __future__ import annotations

import signal
import time
from types import FrameType

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

CLOSED_PIPE = 141
"""Exit code where whoever read the output has left: 128 + SIGPIPE."""

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

AGAIN = 1.0
"""Seconds in which a second signal is the first one: ``timeout`` sends it to a process and to its group."""


class Ended(KeyboardInterrupt):
    """A signal asked the process to end.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        """Notes which."""
        super().__init__()
        self.number = number


def hear_signals() -> None:
    """Has the signals raise ``Ended`` in the main thread; those that are ignored (``nohup``) stay ignored."""
    heard = -AGAIN

    def end(number: int, _: FrameType | None) -> None:
        nonlocal heard
        now = time.monotonic()
        if now - heard >= AGAIN:
            heard = now
            raise Ended(number)

    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def hear_no_more() -> None:
    """Signals end the process at once: nothing is being written."""
    for number in ENDING:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


def interruption_in(error: BaseException | None) -> KeyboardInterrupt | None:
    """What interrupted, where that is behind an error: an extension that is being loaded makes such a one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def exit_code(interruption: KeyboardInterrupt) -> int:
    """128 + the number of the signal."""
    return 128 + interruption.number if isinstance(interruption, Ended) else INTERRUPTED


def ending_word(interruption: KeyboardInterrupt) -> str:
    """What happened, such as ``interrupted``."""
    if not isinstance(interruption, Ended):
        return "interrupted"
    return f"ended by {signal.Signals(interruption.number).name}"
