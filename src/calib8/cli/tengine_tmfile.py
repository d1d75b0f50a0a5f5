"""``calib8 tengine-quant`` of a tmfile: Tengine's model in, Tengine's model in int8 or uint8 out.

-a 3   DFQ   weights of neighbouring layers equalized, then min-max
-a 4   EQ    min-max, then scales of weights by the cosine of outputs
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from calib8.cli.progress import shown_progress
from calib8.cli.render import say_sizes
from calib8.cli.terminal import Terminal
from calib8.errors import UsageError
from calib8.number_texts import count

if TYPE_CHECKING:
    import onnx

    from calib8.cli.tengine_options import TengineImages
    from calib8.data.reading import Reading
    from calib8.delivery.tmfile import TmfileCoded, Wanted
    from calib8.tensors import TensorSpec

    Compared = tuple[onnx.ModelProto, Path]

EQUALIZES: Final = "cle"
ZOOMS: Final = "eq-tengine"
"""Repairs of ONNX models that stand for DFQ and EQ."""


def check_tmfiles(model: Path, output: Path) -> None:
    """Refuses a tmfile made of something else.

    Raises:
        ModelError: there is no model.
        UsageError: the output alone is a tmfile.
    """
    from calib8.files import check_model_file
    from calib8.tmfile.magic import SUFFIX, claims_to_be_tmfile, is_tmfile_name

    if is_tmfile_name(model):
        check_model_file(model, f"Give the path of a float {SUFFIX}")
    if not claims_to_be_tmfile(model):
        problem = f"is the name of a Tengine model, and {model} is none"
        cure = f"Give a float {SUFFIX} with -m (calib8 export --to tmfile makes it), or write an .onnx file"
        raise UsageError(f"-o {output}", problem, cure)


def check_uint8(output: Path, algorithm: int, repair: str, evaluate: int) -> None:
    """Refuses what uint8 codes are not made with.

    Raises:
        UsageError: an ONNX model, an algorithm without uint8 codes, or layers to be compared.
    """
    from calib8.tmfile.magic import is_tmfile_name

    if not is_tmfile_name(output):
        raise UsageError("--uint8", "is for tmfiles alone", "Leave it out, or give a .tmfile with -m and -o")
    if evaluate:
        raise UsageError("-z 1", "compares layers in int8 alone", "Leave it out, or --uint8")
    if repair == ZOOMS:
        problem = "does not go with --uint8, and quant_tool_uint8 has no such algorithm"
        raise UsageError(f"-a {algorithm}", problem, "Use -a 0, -a 1, -a 2 or -a 3")


def input_specs(model: Path) -> tuple[TensorSpec, ...]:
    """Inputs of a tmfile, in the order NCHW; sizes that it does not state are missing.

    Raises:
        Calib8Error: a damaged file, or one in an order without a rule.
    """
    from calib8.delivery.tmfile import sized
    from calib8.tmfile.ports import port_specs
    from calib8.tmfile.read import read_tmfile

    graph = sized(read_tmfile(model), str(model), None)
    return port_specs(graph, graph.input_tensors())


def check_batch(model: Path, inputs: Sequence[TensorSpec], images: TengineImages) -> None:
    """Refuses to run images in a model that takes several at once.

    Raises:
        UsageError: it does, and no -g makes it one.
    """
    shape = inputs[0].shape if len(inputs) == 1 else None
    if images.size is not None or shape is None or len(shape) != 4 or shape[0] in (0, 1):
        return
    problem = f"its input '{inputs[0].name}' takes {shape[0]} images at once, and here they come one by one"
    cure = f"Give -g {','.join(map(str, shape[1:]))}, which makes it one image, as in Tengine's tool"
    raise UsageError(f"-m {model}", problem, cure)


def asked(method: str, repair: str, table: Path | None, uint8: bool, shape: tuple[int, ...] | None) -> Wanted:
    """What is made of the model by an algorithm."""
    from calib8.delivery.tmfile import Wanted

    return Wanted(method, uint8, repair == EQUALIZES, repair == ZOOMS, shape, table)


def made(terminal: Terminal, model: Path, reading: Reading | None, wanted: Wanted) -> TmfileCoded:
    """The model in codes, by what images show or a table says; without images by a table alone."""
    from calib8.data.reading import NOTHING_READ
    from calib8.delivery.tmfile import quantized_tmfile

    with shown_progress(terminal, "choosing ranges, quantizing") as progress:
        found = quantized_tmfile(model, reading or NOTHING_READ, wanted, progress)
    if wanted.table is None:
        tensors = count(len(found.scales), "tensor")
        terminal.say(f"{count(found.samples, 'sample')} calibrated, scales of {tensors} chosen")
    for note in found.notes:
        terminal.say(note)
    return found


def compared(found: TmfileCoded, output: Path) -> Compared:
    """The float model as it was put into codes, and the file: what is compared layer by layer.

    Raises:
        UnsupportedModelError: operators without an int8 kernel in Tengine, all of them.
    """
    import onnx_ir as ir

    from calib8.errors import UnsupportedModelError
    from calib8.model.from_tmfile.translate import float_model
    from calib8.program.lower_tmfile.lower import lower_tmfile

    try:
        lower_tmfile(found.coded.graph, str(output))
    except UnsupportedModelError as error:
        cure = "Leave -z 1 out: no figure is that of a file that Tengine's kernels do not run in int8"
        raise UnsupportedModelError(error.subject, error.problem, cure) from error
    return ir.to_proto(float_model(found.floats, "model")), output


def side_files(found: TmfileCoded, table: Path | None, weights: Path, biases: Path) -> dict[Path, str]:
    """Path → content; the tool lists the scales of layers of int8 models alone."""
    from calib8.exporting.tmfile.scales import bias_text, table_text, weight_text

    layers = found.coded.layers
    first = {} if table is None else {table: table_text(found.scales, found.points)}
    return first if found.points else {**first, weights: weight_text(layers), biases: bias_text(layers)}


def save(terminal: Terminal, model: Path, output: Path, found: TmfileCoded) -> None:
    """Writes the model and says what it holds."""
    from calib8.tmfile.write import write_tmfile

    write_tmfile(found.coded.graph, output)
    layers, kind = len(found.coded.layers), "uint8" if found.points else "int8"
    tensors = sum(tensor.role in ("var", "input") for tensor in found.coded.graph.tensors)
    terminal.say(f"{count(layers, 'layer')} and all {tensors} tensors in {kind}")
    say_sizes(terminal, (model, model.stat().st_size), (output, output.stat().st_size))
