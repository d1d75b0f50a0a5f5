"""Which nodes the file that ``tune`` writes cannot hold in float: those are never tried so.

An ONNX model holds any node in float. A TFLite file holds those that ``calib8.exporting`` has operators for,
one of Tengine none, so that there would be nothing to search.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from calib8.errors import UsageError
from calib8.files import check_written_model
from calib8.parameters import parameter
from calib8.passes.prepare import PreparedModel
from calib8.tflite.magic import is_tflite_name
from calib8.tmfile.magic import is_tmfile_name


def never_float(prepared: PreparedModel, output: Path, wanted: Collection[str]) -> dict[str, str]:
    """Name of a node that must stay in int8 → its op, in graph order.

    Args:
        prepared: the float graph.
        output: the file to be written.
        wanted: names in the graph of the nodes that the user wants in float.

    Raises:
        UsageError: one of these is among them.
    """
    if not is_tflite_name(output):
        return {}
    from calib8.exporting.tflite.float_graphs import has_operator

    found = {node.name or "": node.op_type for node in prepared.model.graph if not has_operator(node.op_type)}
    refused = next((name for name in wanted if name in found), None)
    if refused is not None:
        problem = f"a .tflite file has no float operator for '{refused}' ({found[refused]})"
        cure = f"Leave it out, or write an .onnx file with {parameter('output')}"
        raise UsageError(parameter("keep_float"), problem, cure)
    return found


def why_int8(kinds: Collection[str]) -> str:
    """What to know where nodes of these ops are not tried in float."""
    return f"a .tflite file has no float operator for {', '.join(sorted(set(kinds)))}: they stay in int8"


def check_tuned_model(path: str | os.PathLike[str], subject: str) -> None:
    """Refuses what ``check_written_model`` refuses, and tmfiles: they hold no float node.

    Raises:
        UsageError: it is such a name; ``subject`` gives it, for the message.
    """
    if is_tmfile_name(path):
        problem = "a Tengine model has no layers in float, and layers in float are what tune tries"
        cure = (
            f"Quantize with {parameter('effort', 'best')} and this output, which tries ranges and repairs, "
            f"or give a name such as {Path(path).with_suffix('.onnx').name}"
        )
        raise UsageError(subject, problem, cure)
    check_written_model(path, subject)
