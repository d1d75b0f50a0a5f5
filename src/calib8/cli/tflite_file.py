"""``calib8 quantize … -o M.tflite``: the INT8 model as a TFLite file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from calib8.cli.tflite import TARGET

if TYPE_CHECKING:
    from calib8.data.preprocess import Preprocess
    from calib8.outcomes import Quantization


def is_tflite_name(path: Path) -> bool:
    """The file is to be a TFLite model."""
    return path.suffix.lower() == ".tflite"


def save_quantized(result: Quantization, output: Path) -> tuple[str, ...]:
    """Writes what ``quantize`` made in the form that the suffix asks for; notes on what was not kept.

    Raises:
        Calib8Error: the file cannot be written, or something in the model has no form in TFLite.
    """
    if not is_tflite_name(output):
        result.save(output)
        return ()
    import onnx_ir as ir

    from calib8.exporting.tflite.export import to_tflite
    from calib8.session import InferenceSession
    from calib8.tflite.write import write_tflite

    preprocess = _stored_preprocess(result)
    proto, shapes = ir.to_proto(result.model), _image_shapes(result, preprocess)
    program = InferenceSession(proto, runtime="reference", profile="tflite", shapes=shapes).program
    text = None if preprocess is None else replace(preprocess, layout="NHWC").to_json()
    exported = to_tflite(program, preprocess=text, name=str(output))
    write_tflite(exported.graph, output)
    return (*_of_target(result), *exported.notes)


def _of_target(result: Quantization) -> tuple[str, ...]:
    """What to know where the codes were chosen for another runtime than that of the file."""
    from calib8.model.metadata import stored_entries

    target = stored_entries(result.model).get("target", TARGET)
    if target == TARGET:
        return ()
    return (
        f"codes are those of --target {target}; TFLite may run layers whose sums it leaves uncoded in float, "
        f"which --target {TARGET} does not",
    )


def _stored_preprocess(result: Quantization) -> Preprocess | None:
    from calib8.data.preprocess import Preprocess
    from calib8.model.metadata import stored_entries

    text = stored_entries(result.model).get("preprocess")
    return None if text is None else Preprocess.from_json(text)


def _image_shapes(result: Quantization, preprocess: Preprocess | None) -> dict[str, tuple[int, ...]]:
    """Sizes of images whose rows and columns the model leaves open: those that it was calibrated with."""
    from calib8.model.graph import graph_inputs

    shapes: dict[str, tuple[int, ...]] = {}
    for spec in graph_inputs(result.model):
        if preprocess is None or preprocess.size is None or spec.shape is None or len(spec.shape) != 4:
            continue
        known = [size if isinstance(size, int) else None for size in spec.shape]
        if None in known[1:]:
            wanted = (1, preprocess.channels, *preprocess.size)
            both = zip(known, wanted, strict=True)
            shapes[spec.name] = tuple(other if size is None else size for size, other in both)
    return shapes
