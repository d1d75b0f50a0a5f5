"""How many bytes a model has on disk."""

from __future__ import annotations

from pathlib import Path


def model_bytes_on_disk(path: Path) -> int:
    """Size in bytes of an .onnx file and its external data, or of any other file that runs."""
    from calib8.engine.plan_file import claims_to_be_plan
    from calib8.program.magic import is_program_file
    from calib8.tflite.magic import claims_to_be_tflite

    if is_program_file(path) or claims_to_be_plan(path) or claims_to_be_tflite(path):
        return path.stat().st_size
    import onnx

    path = path.resolve()  # constants lie beside the file that a link leads to
    graph = onnx.load(path, load_external_data=False).graph
    locations = {
        entry.value
        for tensor in graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return sum(file.stat().st_size for file in (path, *(path.parent / location for location in locations)))
