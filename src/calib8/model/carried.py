"""A model that can be sent to another process: pickled as the bytes of its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from calib8.model.save import model_bytes


@dataclass(frozen=True, eq=False)
class Carried:
    """Holds a model on its way.

    Attributes:
        model: all its constants inside, up to the 2 GB that protobuf can hold.
    """

    model: ir.Model

    def __reduce__(self) -> tuple[Any, ...]:
        """Its bytes.

        Raises:
            OutputError: larger than protobuf can hold.
        """
        return _again, (model_bytes(self.model),)


def _again(content: bytes) -> Carried:
    return Carried(ir.from_proto(onnx.ModelProto.FromString(content)))
