"""``python -m calib8``, and where the command ``calib8`` begins: signals count from the first import on.

What the command line is made of takes a while to import, so nothing but the system is imported before.
"""

from __future__ import annotations

import sys

from calib8.signals import ending_word, exit_code, hear_no_more, hear_signals, interruption_in


def main() -> None:
    """Runs the command line and leaves with its exit code."""
    try:
        hear_signals()
        from calib8.cli import main as command_line

        command_line()
    except (KeyboardInterrupt, ImportError) as error:
        interruption = interruption_in(error)
        if interruption is None:
            raise
        exec("")  # see ``calib8.cli.commands``: CPython would end by the signal otherwise
        sys.stderr.write(f"{ending_word(interruption)}: no file is left half-written\n")
        sys.exit(exit_code(interruption))
    finally:
        hear_no_more()


if __name__ == "__main__":
    main()
