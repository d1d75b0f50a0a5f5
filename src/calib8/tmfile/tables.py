"""The tables of a tmfile, as ``struct`` reads and writes them; words without a meaning are padding.

Where a name ends in ``_at`` the word is an offset from the start of the file, 0 for what is left out.
"""

from __future__ import annotations

import struct
from typing import Final

HEADER: Final = struct.Struct("<HHH2xI")
"""Main version, sub-version, version of the compiler, root_at."""

MODEL: Final = struct.Struct("<i4xII")
"""made_from, (format of an accelerator), subgraphs_at, name_at."""

SUBGRAPH: Final = struct.Struct("<4xiiIIIIII4x")
"""(number), graph_layout, model_layout, inputs_at, outputs_at, nodes_at, tensors_at, buffers_at, name_at,
(parts for several devices, which Tengine's writer leaves undefined)."""

NODE: Final = struct.Struct("<IIIII4xB3x")
"""number, inputs_at, outputs_at, operator_at, name_at, (attributes), dynamic_shape."""

OPERATOR: Final = struct.Struct("<III")
"""version, code, options_at."""

TENSOR: Final = struct.Struct("<IIIIIiii")
"""number, buffer, shape_at, name_at, quantization_at, layout, role, dtype."""

QUANTIZATION: Final = struct.Struct("<if4x")
"""zero_point, scale, (width, which Tengine's writer leaves undefined)."""

EXTENT: Final = struct.Struct("<II")
"""size in bytes, bytes_at: of a text with the zero byte at its end, or of a buffer of weights."""

COUNT: Final = struct.Struct("<I")
"""Length of a list, which its elements follow."""
