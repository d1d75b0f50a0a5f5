"""Training with simulated quantization beside peers: time of a step, and accuracy after the same steps.

    python benchmarks/qat_peers.py DATA CIFAR [--networks resnet20,mobilenet_v2] [--rounds 30] [--warm-up 3]
                                   [--batch 128] [--layouts channels-first,channels-last] [--threads 2]
                                   [--seeds 0] [--images 10000] [--epochs 1] [--rate 1e-4] [--judged N]
                                   [--peers torchao,brevitas] [--json FILE]

Float training, calib8, torchao (PT2E) and Brevitas train the same network from the same weights on the same
batches with the same loop. Every round takes one step of each, in turns; the table has medians, and the ratio
to float training. ``--seeds`` trains all of them for ``--epochs`` of ``--images`` images and judges what they
convert to: calib8's INT8 model in its integer engine, the peers' converted models in PyTorch. Without seeds
only time is measured. DATA and CIFAR are those of ``qat_accuracy.py``; peers come with the extra ``bench``.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import nn

from engine import counts, names, write
from qat_accuracy import EVALUATION, MODEL
from qat_data import Images, normalized, stored_images, training_batches, training_images
from qat_loop import Recipe, optimizer, options, percent_equal, predictions, step, train
from qat_networks import MobileNetV2, trained_resnet20
from qat_tables import OURS, peer_rows
from results import machine, package_version

FLOAT = "float"
PEERS = ("torchao", "brevitas")
EPOCH = 50_000
LAYOUTS = {"channels-first": torch.contiguous_format, "channels-last": torch.channels_last}
MOBILE_SIDE = 96


class Training(NamedTuple):
    """One way to train: the network ready for it, when its ranges are known for good, what it becomes."""

    prepared: Callable[[nn.Module, torch.Tensor], nn.Module]
    freeze: Callable[[nn.Module], object] | None
    converted: Callable[[nn.Module], Callable[[torch.Tensor], torch.Tensor]]


def trainings(peers: Sequence[str]) -> dict[str, Training]:
    """Float, calib8 and the peers by name."""
    found = {FLOAT: Training(lambda network, _: network.train(), None, lambda network: network.eval())}
    for name in (OURS, *peers):
        module = importlib.import_module(f"qat_{name}")
        found[name] = Training(module.prepared, module.freeze, module.converted)
    return found


def timed(
    network: nn.Module,
    drawn: Sequence[tuple[torch.Tensor, torch.Tensor]],
    ways: Mapping[str, Training],
    warm_up: int,
) -> dict[str, list[float]]:
    """Milliseconds of the steps of each way, one per batch, without those of the warm-up."""
    example = drawn[0][0]
    simulated = {name: way.prepared(copy.deepcopy(network), example) for name, way in ways.items()}
    optimizers = {name: optimizer(one, Recipe()) for name, one in simulated.items()}
    found: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways)
    gc.disable()
    for inputs, labels in drawn:
        order = order[1:] + order[:1]
        for name in order:
            start = time.perf_counter()
            step(simulated[name], optimizers[name], inputs, labels)
            found[name].append(1000 * (time.perf_counter() - start))
        gc.collect()
    gc.enable()
    return {name: values[warm_up:] for name, values in found.items()}


def time_records(found: Mapping[str, Sequence[float]], where: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Medians, and the median of the ratios to the float step of the same round."""
    per_round = {
        name: [one / plain for one, plain in zip(values, found[FLOAT], strict=True)]
        for name, values in found.items()
    }
    return [
        {**where, "training": name, "rounds": len(values), "median_ms": median(values), "min_ms": min(values),
         "epoch_s": median(values) / 1000 * EPOCH / where["batch"], "ratio": median(per_round[name])}
        for name, values in found.items()
    ]  # fmt: skip


def batches_for(name: str, images: Images, batch: int, count: int, layout: str) -> list[Any]:
    """So many batches in the size that the network takes, laid out for it."""
    random = torch.Generator().manual_seed(0)
    found: list[Any] = []
    while len(found) < count:
        for inputs, labels in training_batches(images, batch, random):
            if name != "resnet20":
                inputs = nn.functional.interpolate(inputs, MOBILE_SIDE, mode="bilinear", align_corners=False)
            found.append((inputs.contiguous(memory_format=LAYOUTS[layout]), labels))
    return found[:count]


def measured_times(
    chosen: argparse.Namespace, networks: Mapping[str, nn.Module], images: Images
) -> list[dict[str, Any]]:
    ways = trainings(chosen.peers)
    found: list[dict[str, Any]] = []
    for name in chosen.networks:
        for layout in chosen.layouts:
            drawn = batches_for(name, images, chosen.batch, chosen.rounds + chosen.warm_up, layout)
            network = networks[name].to(memory_format=LAYOUTS[layout])
            where = {"network": name, "layout": layout, "batch": chosen.batch, "threads": chosen.threads}
            found += time_records(timed(network, drawn, ways, chosen.warm_up), where)
    return found


def measured_accuracy(
    chosen: argparse.Namespace, network: nn.Module, images: Images, way: Training, seed: int
) -> dict[str, float]:
    """Top-1 in percent of what the network becomes after the steps, and the mean loss of the last epoch."""
    evaluation = stored_images(chosen.data / EVALUATION, chosen.judged)
    example = normalized(images.pixels[: chosen.batch])
    simulated = way.prepared(copy.deepcopy(network), example)
    recipe = Recipe(epochs=chosen.epochs, batch=chosen.batch, rate=chosen.rate)
    losses = train(simulated, images, recipe, seed, way.freeze)
    classes = predictions(way.converted(simulated), evaluation)
    return {"top1": percent_equal(classes, evaluation.labels), "loss": losses[-1]}


def run(chosen: argparse.Namespace) -> dict[str, Any]:
    """The document; accuracy that its file holds already is not measured again."""
    used = machine([1])
    used["versions"] |= {name: text for name in ("torch", *PEERS) if (text := package_version(name))}
    document: dict[str, Any] = {"machine": used, "results": [], "qat_times": [], "qat_peers": []}
    if chosen.json and chosen.json.is_file():
        document["qat_peers"] = json.loads(chosen.json.read_text())["qat_peers"]
    images = training_images(chosen.cifar, chosen.images)
    resnet20 = trained_resnet20(chosen.data / MODEL, images)
    torch.manual_seed(0)
    networks = {"resnet20": resnet20, "mobilenet_v2": MobileNetV2()}
    if chosen.rounds:
        document["qat_times"] = measured_times(chosen, networks, images)
        write(document, chosen.json)
    resnet20 = resnet20.to(memory_format=torch.contiguous_format)
    for seed in chosen.seeds:
        for name, way in trainings(chosen.peers).items():
            wanted = {"training": name, "seed": seed, "images": len(images), "epochs": chosen.epochs,
                      "batch": chosen.batch, "rate": chosen.rate, "judged": chosen.judged}  # fmt: skip
            if any(wanted.items() <= record.items() for record in document["qat_peers"]):
                continue
            found = measured_accuracy(chosen, resnet20, images, way, seed)
            document["qat_peers"].append({**wanted, **found})
            write(document, chosen.json)
            print(json.dumps(document["qat_peers"][-1]), flush=True)
    return document


def arguments(texts: Sequence[str] | None = None) -> argparse.Namespace:
    parser = options(__doc__ or "")
    parser.add_argument("--networks", type=names, default=["resnet20", "mobilenet_v2"])
    parser.add_argument("--layouts", type=names, default=["channels-first"])
    parser.add_argument("--peers", type=names, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=30, help="steps of each that count; 0: no times")
    parser.add_argument("--warm-up", type=int, default=3, help="steps of each before them")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seeds", type=counts, default=[], help="train and judge with these")
    parser.add_argument("--epochs", type=int, default=1)
    chosen = parser.parse_args(texts)
    known = (("network", chosen.networks, ("resnet20", "mobilenet_v2")), ("peer", chosen.peers, PEERS),
             ("layout", chosen.layouts, tuple(LAYOUTS)))  # fmt: skip
    for what, given, there in known:
        unknown = [name for name in given if name not in there]
        if unknown:
            parser.error(f"unknown {what} {unknown[0]}: there are {', '.join(there)}")
    return chosen


def main() -> None:
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    document = run(chosen)
    print("\n".join(peer_rows(document["qat_times"], document["qat_peers"])))


if __name__ == "__main__":
    main()
