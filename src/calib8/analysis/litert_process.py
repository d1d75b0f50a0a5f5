"""LiteRT in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence

from calib8.analysis.foreign_process import ForeignProcess
from calib8.analysis.litert import LiteRtModel, check_installed


class LiteRtProcess(ForeignProcess):
    """A ``LiteRtModel`` in another process."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        runtime: str,
        threads: int,
        inputs: Sequence[str],
        outputs: Sequence[str],
        keeps: bool = False,
    ) -> None:
        """Starts the process and opens the model, with the arguments of ``LiteRtModel``.

        Raises:
            UsageError: LiteRT is not installed.
            ModelError: it cannot load the model, or crashes on it.
        """
        check_installed(runtime)
        name = os.fspath(path)
        arguments = (name, runtime, threads, tuple(inputs), tuple(outputs), keeps)
        super().__init__(name, "LiteRT", runtime, LiteRtModel, arguments)
