"""Data, networks and loop that the benchmarks of training share."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image

import qat_data
from qat_data import Images, augmented, normalized, training_batches, training_images
from qat_loop import Recipe, percent_equal, predictions, train
from qat_networks import BasicBlock, MobileNetV2, ResNet20, put_back_batch_norm, trained_resnet20


def some_images(count: int) -> Images:
    random = torch.Generator().manual_seed(7)
    pixels = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=random)
    return Images(pixels, torch.randint(0, 10, (count,), generator=random))


def test_training_images_are_rows_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qat_data, "PER_FILE", 4)
    made = np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3), np.uint8)
    for number in (1, 2):
        rows = made[4 * number - 4 : 4 * number].reshape(4, 1024, 3)
        Image.fromarray(rows).save(tmp_path / f"data_batch_{number}.png")
    (tmp_path / "train_lables.json").write_text(json.dumps(list(range(8))))
    found = training_images(tmp_path, 6)
    assert np.array_equal(found.pixels.permute(0, 2, 3, 1).numpy(), made[:6])
    assert found.labels.tolist() == list(range(6))


def test_an_augmented_image_is_a_part_of_the_padded_one() -> None:
    pixels = some_images(20).pixels
    padded = torch.nn.functional.pad(pixels, (4,) * 4)
    mirrored = 0
    for one, whole in zip(augmented(pixels, torch.Generator().manual_seed(1)), padded, strict=True):
        parts = [whole[:, y : y + 32, x : x + 32] for y in range(9) for x in range(9)]
        plain = any(torch.equal(one, part) for part in parts)
        assert plain or any(torch.equal(one, part.flip(2)) for part in parts)
        mirrored += not plain
    assert 3 <= mirrored <= 17


def test_an_epoch_shows_every_image_once() -> None:
    images = some_images(10)
    images = replace(images, labels=torch.arange(10))
    drawn = [labels for _, labels in training_batches(images, 5, torch.Generator().manual_seed(0))]
    assert sorted(torch.cat(drawn).tolist()) == list(range(10))
    assert torch.cat(drawn).tolist() != list(range(10))


def test_batch_norm_put_back_changes_no_output_and_fits_the_images() -> None:
    torch.manual_seed(0)
    images = some_images(16)
    block = BasicBlock(3, 3).eval()
    norms = [block.bn1, block.bn2]
    with torch.no_grad():
        for norm in norms:
            norm.weight.copy_((norm.running_var + norm.eps).sqrt())
            norm.bias.normal_()
        inputs = normalized(images.pixels)
        before = block(inputs)
        put_back_batch_norm(block, [block.conv1, block.conv2], norms, images)
        assert torch.allclose(block(inputs), before, atol=1e-5)
        assert float(norms[0].running_var.min()) != 1.0
        assert torch.allclose(block.train()(inputs), before, atol=1e-4)


def test_the_trained_network_is_that_of_the_file(shared_data: Path) -> None:
    file = shared_data / "models" / "resnet20_cifar10.onnx"
    inputs = normalized(some_images(8).pixels)
    with torch.no_grad():
        found = trained_resnet20(file, some_images(8))(inputs).numpy()
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert np.abs(found - session.run(None, {"input": inputs.numpy()})[0]).max() < 1e-3


def test_sizes_are_the_published_ones() -> None:
    def parameters(network: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in network.parameters())

    assert parameters(ResNet20()) == 269_722
    assert parameters(MobileNetV2(1000, 1.0)) == 3_504_872


def test_training_repeats_itself_and_freezes_once() -> None:
    images, frozen = some_images(12), []
    recipe = Recipe(epochs=3, batch=4)

    def trained(seed: int) -> list[float]:
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
        return train(network, images, recipe, seed, frozen.append)

    first = trained(1)
    assert first == trained(1) != trained(2)
    assert len(first) == 3 and first[-1] < first[0]
    assert len(frozen) == 3


def test_the_rate_falls_to_a_hundredth() -> None:
    recipe = Recipe(rate=0.5)
    assert recipe.rate_at(0.0) == 0.5
    assert recipe.rate_at(1.0) == pytest.approx(0.005)


def test_predictions_are_classes_in_order() -> None:
    images = some_images(7)

    def run(inputs: torch.Tensor) -> torch.Tensor:
        return inputs.mean((2, 3))

    found = predictions(run, images, batch=3)
    assert found.tolist() == normalized(images.pixels).mean((2, 3)).argmax(1).tolist()
    assert percent_equal(found, found) == 100.0
