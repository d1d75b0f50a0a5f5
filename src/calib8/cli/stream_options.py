"""Options about inputs that no data bring: values that stay, and states of streaming models."""

from __future__ import annotations

from typing import Annotated, Final

from calib8.cli.headings import DATA, option

_FIX_HELP: Final = (
    "Value that an input of the float model always has, such as sr=16000; the model has no such input any "
    "more. May be given several times."
)
_STATE_HELP: Final = (
    "Of a streaming model: input that reads in the next frame what OUTPUT gave in this one; may be given "
    "several times. none: there are none. Default: told by names and layers."
)
StateOption = Annotated[list[str] | None, option(DATA, "--state", "INPUT=OUTPUT", _STATE_HELP)]
_FIX_MODEL_HELP: Final = (
    "Value that an input of an ONNX model always has, such as sr=16000; the result has no such input. May be "
    "given several times."
)
FixModelOption = Annotated[list[str] | None, option(DATA, "--fix", "INPUT=VALUE", _FIX_MODEL_HELP)]
FixOption = Annotated[list[str] | None, option(DATA, "--fix", "INPUT=VALUE", _FIX_HELP)]
