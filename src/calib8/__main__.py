"""``python -m calib8``, and where the command ``calib8`` begins: Ctrl-C counts from the first import on.

What the command line is made of takes a while to import, so nothing but the system is imported before.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""As ``calib8.cli.commands`` has it, which is not there yet."""


def main() -> None:
    """Runs the command line and leaves with its exit code."""
    try:
        from calib8.cli import main as command_line

        command_line()
    except (KeyboardInterrupt, ImportError) as error:
        if not _is_interruption(error):
            raise
        exec("")  # see ``calib8.cli.commands``: CPython would end by the signal otherwise
        sys.stderr.write("interrupted: no file is left half-written\n")
        sys.exit(INTERRUPTED)


def _is_interruption(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: an extension that is being loaded makes an ImportError of that."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


if __name__ == "__main__":
    main()
