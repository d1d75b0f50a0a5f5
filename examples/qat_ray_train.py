"""Quantization-aware training by several processes under Ray Train, on the digits that come with calib8.

    pip install "calib8[qat,ray]"
    python examples/qat_ray_train.py --output digits.int8.onnx

Every process trains ``calib8.training.prepare(model)`` in PyTorch's DistributedDataParallel on its share of
the images; their quantizers have the same ranges. The process of rank 0 converts the model to the INT8 file
that one process would make of these weights, and reports it as a checkpoint, from which the driver takes it.
On a cluster give ``--address auto``, ``--storage`` a place that all machines see, and ``--gpus`` where they
have some.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray
import ray.train
import torch
import torch.nn.functional as F
from ray.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import calib8
import calib8.training
from calib8 import demo

FILE = "model.int8.onnx"


def network() -> nn.Module:
    """A small one for pictures of one channel and ten classes."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def digits(path: Path) -> TensorDataset:
    """Images as the network takes them, and their labels."""
    file = np.load(path)
    images = (file["images"].transpose(0, 3, 1, 2) - demo.PIXEL_MEAN) * demo.PIXEL_SCALE
    return TensorDataset(torch.from_numpy(images.astype(np.float32)), torch.from_numpy(file["labels"]))


def train(settings: dict[str, Any]) -> None:
    """What every process does."""
    torch.manual_seed(0)  # the same weights everywhere, which DistributedDataParallel sees to as well
    data = digits(demo.HELDOUT_PATH)
    simulated = calib8.training.prepare(network(), data[:8][0])
    model = prepare_model(simulated)
    loader = prepare_data_loader(DataLoader(data, batch_size=32, shuffle=True, drop_last=True))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for epoch in range(settings["epochs"]):
        if epoch >= settings["epochs"] * 2 // 3:
            calib8.training.freeze(model)  # in every process
        model.train()
        if isinstance(loader.sampler, DistributedSampler):  # not where one process trains alone
            loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch + 1 < settings["epochs"]:
            ray.train.report({"loss": loss.item()})
    finish(model, loss)


def finish(model: nn.Module, loss: Tensor) -> None:
    """Converts the model in one process, and reports it."""
    if ray.train.get_context().get_world_rank() != 0:
        ray.train.report({"loss": loss.item()})
        return
    with tempfile.TemporaryDirectory() as folder:
        calib8.training.convert(model.eval()).save(Path(folder) / FILE)
        held = digits(demo.CALIBRATION_PATH)
        session = calib8.InferenceSession(Path(folder) / FILE)
        [scores] = session.run(None, {session.get_inputs()[0].name: held.tensors[0].numpy()})
        right = float(np.mean(scores.argmax(1) == held.tensors[1].numpy()))
        checkpoint = ray.train.Checkpoint.from_directory(folder)
        ray.train.report({"loss": loss.item(), "top1": right}, checkpoint=checkpoint)


def trained(options: argparse.Namespace, storage: str) -> tuple[float, int]:
    """Trains, and writes the INT8 file; returns its top-1 accuracy and its bytes."""
    trainer = TorchTrainer(
        train,
        train_loop_config={"epochs": options.epochs},
        torch_config=TorchConfig(backend="nccl" if options.gpus else "gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=options.workers, use_gpu=options.gpus),
        run_config=ray.train.RunConfig(storage_path=storage, name="digits"),
    )
    result = trainer.fit()
    with result.checkpoint.as_directory() as folder:
        shutil.copyfile(Path(folder) / FILE, options.output)
    return result.metrics["top1"], Path(options.output).stat().st_size


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the options and runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", default="digits.int8.onnx", help="the INT8 file")
    parser.add_argument("--workers", type=int, default=2, help="processes that train")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--gpus", action="store_true", help="one for every process")
    parser.add_argument("--address", default="local", help="of a Ray cluster: auto, HOST:PORT")
    parser.add_argument("--storage", help="where Ray Train keeps checkpoints; without it a temporary folder")
    options = parser.parse_args(arguments)
    ray.init(address=options.address, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        right, size = trained(options, options.storage or folder)
    ray.shutdown()
    print(f"{options.output}: {size:,} bytes, top-1 {right:.0%}")


if __name__ == "__main__":
    main()
