"""The files of a model on disk, and how many bytes they have."""

from __future__ import annotations

from pathlib import Path


def model_bytes_on_disk(path: Path) -> int:
    """Size in bytes of an .onnx file and its external data, or of any other file that runs."""
    return sum(file.stat().st_size for file in files_of_model(path))


def files_of_model(path: Path) -> tuple[Path, ...]:
    """An .onnx file and those of its external data, or any other file that runs."""
    from calib8.engine.plan_file import claims_to_be_plan
    from calib8.program.magic import is_program_file
    from calib8.tflite.magic import claims_to_be_tflite
    from calib8.tmfile.magic import claims_to_be_tmfile

    alone = (is_program_file, claims_to_be_plan, claims_to_be_tflite, claims_to_be_tmfile)
    if any(is_one(path) for is_one in alone):
        return (path,)
    import onnx

    path = path.resolve()  # constants lie beside the file that a link leads to
    graph = onnx.load(path, load_external_data=False).graph
    locations = {
        entry.value
        for tensor in graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return (path, *(path.parent / location for location in sorted(locations)))
