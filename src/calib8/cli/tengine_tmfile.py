"""``calib8 tengine-quant`` of a tmfile: Tengine's model in, Tengine's model in int8 out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from calib8.cli.progress import shown_progress
from calib8.cli.render import say_sizes
from calib8.cli.terminal import Terminal
from calib8.errors import UsageError
from calib8.number_texts import count

if TYPE_CHECKING:
    from calib8.data.reading import Reading
    from calib8.delivery.tmfile import TmfileInt8


def check_tmfiles(model: Path, output: Path, repair: str, algorithm: int, evaluate: int) -> None:
    """Refuses what a tmfile cannot have.

    Raises:
        UsageError: one of the two files alone is a tmfile, or an option that needs an ONNX model.
    """
    from calib8.tmfile.magic import SUFFIX, claims_to_be_tmfile

    if not claims_to_be_tmfile(model):
        problem = f"is the name of a Tengine model, and {model} is none"
        raise UsageError(f"-o {output}", problem, f"Give a float {SUFFIX} with -m, or write an .onnx file")
    if repair != "none":
        problem = "changes the weights, which is done for .onnx files alone"
        raise UsageError(f"-a {algorithm}", problem, "Use -a 0, -a 1 or -a 2, or write an .onnx file")
    if evaluate:
        problem = "compares layers, which is done for .onnx files alone"
        raise UsageError("-z 1", problem, "Leave it out, or write an .onnx file")


def calibrated(terminal: Terminal, model: Path, reading: Reading, method: str) -> TmfileInt8:
    """The model in int8, by the ranges of images."""
    from calib8.delivery.tmfile import quantized_tmfile

    with shown_progress(terminal, "choosing ranges, quantizing") as progress:
        found = quantized_tmfile(model, reading, method, progress)
    tensors = count(len(found.scales), "tensor")
    terminal.say(f"{count(found.samples, 'sample')} calibrated, scales of {tensors} chosen")
    return found


def by_table(terminal: Terminal, model: Path, table: Path) -> TmfileInt8:
    """The model in int8, by a table of scales."""
    from calib8.delivery.tmfile import tmfile_by_table

    with shown_progress(terminal, "quantizing"):
        return tmfile_by_table(model, table)


def side_files(found: TmfileInt8, table: Path | None, weights: Path, biases: Path) -> dict[Path, str]:
    """Path → content."""
    from calib8.exporting.tmfile.scales import bias_text, table_text, weight_text

    layers = found.coded.layers
    first = {} if table is None else {table: table_text(found.scales)}
    return {**first, weights: weight_text(layers), biases: bias_text(layers)}


def save(terminal: Terminal, model: Path, output: Path, found: TmfileInt8) -> None:
    """Writes the model and says what it holds."""
    from calib8.tmfile.write import write_tmfile

    write_tmfile(found.coded.graph, output)
    layers = len(found.coded.layers)
    terminal.say(f"{count(layers, 'layer')} and all {len(found.scales)} tensors in int8")
    say_sizes(terminal, (model, model.stat().st_size), (output, output.stat().st_size))
