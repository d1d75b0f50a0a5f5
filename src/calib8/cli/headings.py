"""The headings under which the help lists options, their order, and how an option is put under one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import typer

from calib8.cli.choices import completed

DATA: Final = "Data"
PREPROCESSING: Final = "Preprocessing of images: value = (pixel 0 … 255 − mean) · scale"
SOUND: Final = "Sound: WAV files become frames"
RANGES: Final = "Ranges"
REPAIR: Final = "Repair"
STATISTICS: Final = "Statistics"
CLUSTER: Final = "Cluster"
RUNTIME: Final = "Runtime"
PROGRAM: Final = "Integer program"
COMPILING: Final = "Compiling"
EXPORTING: Final = "Exporting"
MEANING: Final = "Meaning of outputs"
TARGET: Final = "Target"
TABLES: Final = "Tables"
PROMISE: Final = "Promise (one of them)"
SEARCH: Final = "Search"
RESULTS: Final = "Results"

ORDER: Final = (
    PROMISE, DATA, PREPROCESSING, SOUND, RUNTIME, TABLES, RANGES, STATISTICS, CLUSTER, REPAIR, MEANING,
    TARGET, SEARCH, PROGRAM, COMPILING, EXPORTING, RESULTS,
)  # fmt: skip
"""What comes first is needed first: what goes in, what is done with it, where it goes."""


def option(heading: str, name: str, metavar: str | None, text: str, choices: Sequence[str] = ()) -> Any:
    """A named option; its default stands in the text, where None would say nothing.

    Args:
        heading: of the help.
        name: such as ``--data``; of a switch both sides.
        metavar: what stands for its value in the help; None: a switch.
        text: of the help.
        choices: values that a shell offers; of options in ``NAMES`` those.
    """
    return typer.Option(
        name, metavar=metavar, help=text, rich_help_panel=heading, show_default=False,
        autocompletion=completed(name, choices),
    )  # fmt: skip
