"""Writes a finished model to the folder of test files, saying who made it."""

from __future__ import annotations

from pathlib import Path

import onnx

FOLDER = Path(__file__).parents[2] / "tests" / "foreign"
LARGEST = 60_000  # bytes: these files are kept in the repository


def keep(name: str, model: onnx.ModelProto, made_by: str) -> None:
    """Checks and writes ``tests/foreign/<name>.onnx`` with the metadata property ``made_by``.

    Raises:
        ValueError: the file would be too large.
    """
    onnx.checker.check_model(model)
    onnx.helper.set_model_props(model, {"made_by": made_by})
    for node in model.graph.node:
        node.doc_string = ""  # exporters write the stack of the tracer there, with the folders of the machine
        del node.metadata_props[:]
    for value in model.graph.value_info:
        del value.metadata_props[:]
    data = model.SerializeToString(deterministic=True)
    if len(data) > LARGEST:
        raise ValueError(f"{name}: {len(data)} bytes, at most {LARGEST} are kept")
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.onnx").write_bytes(data)
    print(f"{name:32} {len(data):6} bytes  {made_by}")
