"""Integer programs of real networks: every rounding profile against ONNX Runtime and the float model.

    python benchmarks/programs.py DATA [--models resnet20,…] [--samples N] [--json FILE]

DATA holds the models and images that ``models.json`` names. Per network and profile: agreement with the
float model, of ONNX Runtime's int8 run as well; the share of equal codes over all quantized tensors and of
equal output values, the largest difference, and milliseconds per image in the reference executor. A second
table has the share of differing codes per instruction, each given the codes of profile ``onnx``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx

from accuracy import load_preprocess
from calib8.analysis.evaluate import best_classes, class_scores
from calib8.data.batches import batches
from calib8.data.opening import open_dataset
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.pipeline import quantize
from calib8.program.instructions import TRAITS
from calib8.program.lower.lower import lower
from calib8.program.ops.operand import Operand
from calib8.program.program import Program, Slot
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES

HERE = Path(__file__).parent
LOCAL_IMAGES = 5


@dataclass
class Tally:
    """Running sums of one network under one profile."""

    model: str
    profile: str
    images: int = 0
    float_nodes: int = 0
    codes: int = 0
    equal_codes: int = 0
    largest_code_difference: int = 0
    values: int = 0
    equal_values: int = 0
    largest_difference: float = 0.0
    classified: int = 0
    agreement: int = 0
    agreement_onnxruntime: int = 0
    seconds: float = 0.0


def tapped(path: Path) -> tuple[onnx.ModelProto, dict[str, float]]:
    """The quantized model with all codes of activations as outputs, which keeps its fusions; their scales."""
    model = onnx.load(path)
    present = {value.name for value in model.graph.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    codes = {}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.output[0] not in present:
            codes[node.output[0]] = float(onnx.numpy_helper.to_array(constants[node.input[1]]))
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(node.output[0]))
    return model, codes


def slot_of(program: Program, code: str, scale: float) -> int | None:
    """The slot that holds the codes of a QuantizeLinear; a profile may have others on the way to them."""
    name = code.removesuffix("/quantized")
    for number, slot in enumerate(program.slots):
        if slot.is_codes and slot.name == name and slot.scale == scale:
            return number
    return None


def count_local(local: dict, program: Program, reference: Program, feeds: dict) -> None:
    """Differing codes and all codes per type of instruction, fed with the codes of the reference program."""
    known: dict[tuple, np.ndarray] = {}

    def key(slot: Slot) -> tuple:
        return slot.name, slot.dtype, *slot.scales.tolist()

    run_program(
        reference, feeds, lambda number, array: known.__setitem__(key(reference.slots[number]), array)
    )
    known.update({key(reference.slots[port.slot]): feeds[port.name] for port in reference.inputs})
    for step in program.instructions:
        output = program.slots[step.outputs[0]]
        slots = [program.slots[number] for number in step.inputs]
        if not output.is_codes or not {key(output), *map(key, slots)} <= known.keys():
            continue
        made = TRAITS[type(step)].compute(step, [Operand(slot, known[key(slot)]) for slot in slots], output)
        found = local.setdefault((type(step).__name__, program.profile), [0, 0, 0])
        difference = np.abs(made.astype(np.int32) - known[key(output)])
        found[0] += int(np.sum(difference > 0))
        found[1] += difference.size
        found[2] = max(found[2], int(difference.max()))


def count_codes(tally: Tally, ours: np.ndarray, theirs: np.ndarray) -> None:
    theirs = np.moveaxis(theirs, 1, -1) if theirs.ndim == 4 else theirs
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return
    difference = np.abs(ours.astype(np.int32) - theirs)
    tally.codes += difference.size
    tally.equal_codes += int(np.sum(difference == 0))
    tally.largest_code_difference = max(tally.largest_code_difference, int(difference.max()))


def count_outputs(tally: Tally, ours: list, theirs: list, expected: list) -> None:
    for left, right in zip(ours, theirs, strict=True):
        tally.values += left.size
        tally.equal_values += int(np.sum(left == right))
        tally.largest_difference = max(tally.largest_difference, float(np.abs(left - right).max()))
    scores = [class_scores(outputs[0]) for outputs in (ours, theirs, expected)]
    if any(score is None for score in scores):
        return
    own, other, best = (best_classes(score, 1) for score in scores)
    tally.classified += len(best)
    tally.agreement += int(np.sum(own == best))
    tally.agreement_onnxruntime += int(np.sum(other == best))


def measure(name: str, float_path: Path, path: Path, pieces: list, local: dict) -> list[Tally]:
    taps, codes = tapped(path)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(taps, Path(folder) / "taps.onnx")
        tapping = open_session(Path(folder) / "taps.onnx", threads=2)
    plain, original = open_session(path, threads=2), open_session(float_path, threads=2)
    shapes = {key: array.shape for key, array in pieces[0].inputs.items()}
    programs = {profile: lower(load_model(path), profile=profile, shapes=shapes) for profile in PROFILES}
    tallies = {profile: Tally(name, profile) for profile in PROFILES}
    for piece in pieces[:LOCAL_IMAGES]:
        for program in programs.values():
            count_local(local, program, programs["onnx"], dict(piece.inputs))
    for piece in pieces:
        theirs, expected = plain.run(piece.inputs), original.run(piece.inputs)
        known = dict(zip(codes, tapping.run(piece.inputs, list(codes)), strict=True))
        for profile, program in programs.items():
            tally = tallies[profile]
            found = {slot_of(program, code, scale): code for code, scale in codes.items()}
            start = time.perf_counter()
            seen: dict[int, np.ndarray] = {}
            ours = run_program(program, piece.inputs, seen.__setitem__)
            tally.seconds += time.perf_counter() - start
            for number, code in found.items():
                if number is not None and number in seen:
                    count_codes(tally, seen[number], known[code])
            count_outputs(tally, ours, theirs, expected)
            tally.images += len(piece.names)
            tally.float_nodes = sum(len(step.nodes) for step in program.float_instructions)
    return list(tallies.values())


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.4g}" if whole else "–"


def row(t: Tally) -> str:
    return (
        f"| {t.model} | {t.profile} | {t.float_nodes} | {percent(t.agreement, t.classified)} | "
        f"{percent(t.agreement_onnxruntime, t.classified)} | {percent(t.equal_codes, t.codes)} | "
        f"{t.largest_code_difference} | {percent(t.equal_values, t.values)} | {t.largest_difference:.3g} | "
        f"{1000 * t.seconds / t.images:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", help="names of models.json, comma-separated")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    recipes = json.loads((HERE / "models.json").read_text())
    chosen = arguments.models.split(",") if arguments.models else list(recipes)
    print("| model | profile | Float nodes | agreement | ONNX Runtime's | equal codes % | largest | "
          "equal outputs % | largest | ms/image |\n|---|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    results, local = [], {}
    for name in chosen:
        recipe = recipes[name]
        preprocess = load_preprocess(recipe["preprocess"])
        path = arguments.data / recipe["file"]
        with tempfile.TemporaryDirectory() as folder:
            int8 = Path(folder) / "int8.onnx"
            quantize(path, arguments.data / recipe["calibration"], preprocess=preprocess).save(int8)
            dataset = open_dataset(
                arguments.data / recipe["evaluation"],
                graph_inputs(load_model(path)),
                preprocess,
                samples=arguments.samples,
            )
            pieces = list(batches(dataset, 1, 2))
            for tally in measure(name, path, int8, pieces, local):
                print(row(tally), flush=True)
                results.append(asdict(tally))
    print("\n| instruction | profile | codes that differ % | largest |\n|---|---|---|---|")
    for (instruction, profile), (differing, codes, largest) in sorted(local.items()):
        print(f"| {instruction} | {profile} | {100 * differing / codes:.3g} | {largest} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
