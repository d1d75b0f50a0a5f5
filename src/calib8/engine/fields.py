"""What several steps of a plan have in common: the structs of ``csrc/engine``, which say what they mean."""

from __future__ import annotations

from typing import Final

from calib8.engine.buffers import ARENA as ARENA
from calib8.engine.buffers import CONSTANTS as CONSTANTS
from calib8.engine.buffers import FIRST_PORT as FIRST_PORT
from calib8.engine.structs import Axes as Axes
from calib8.engine.structs import Struct

NONE: Final = -1
"""In place of the byte offset of a constant."""


class View(Struct):
    """A tensor [images, rows, columns, channels]; offset in bytes, strides in elements."""


class Rescale(Struct):
    """How sums become codes; arrays per channel are constants."""


class Activation(Struct):
    """A function behind a layer, computed from its sums."""


class SumRule(Struct):
    """How two codes are added."""


class Single(Struct):
    """Input and output of an elementwise step; offsets in bytes, strides in elements."""


class Pair(Struct):
    """Operands and output of an elementwise step."""


class Window(Struct):
    """Geometry of a pooling window."""


NO_VIEW: Final = View.zeros()
