"""Names that a shell offers behind an option.

They stand here once more, because the modules that know them take long to import: a shell waits for them at
every press of the key. ``tests/cli/test_cli_completion.py`` compares them with those modules.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

TARGETS: Final = (
    "onnxruntime", "onnxruntime-avx2", "calib8", "openvino", "tflite", "tensorrt", "tengine", "ncnn",
)  # fmt: skip
TABLE_FORMATS: Final = (
    "calib8", "tensorrt", "tensorrt-ranges", "ncnn", "tengine", "tengine-uint8", "mxnet", "onnxruntime",
    "aimet", "aimet-0.6.1",
)  # fmt: skip
TYPES: Final = ("uint8", "int8", "int8-symmetric")
BENCHMARKED: Final = ("calib8", "onnxruntime", "openvino", "litert")
FORMS: Final = ("tflite", "qoperator", "program", "epcontext", "tmfile", "c")
BORDER_TYPES: Final = ("float32", "int8", "uint8")
JUDGES: Final = ("onnxruntime", "calib8")

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "--activations": TYPES,
    "--color": ("rgb", "bgr", "gray"),
    "--dtype": ("float32", "uint8"),
    "--effort": ("fast", "balanced", "best"),
    "--filter": ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos", "opencv-bilinear"),
    "--format": TABLE_FORMATS,
    "--isa": ("amx", "avx512vnni", "avxvnni", "avx2", "neoni8mm", "neondot", "neon", "reference"),
    "--layout": ("NCHW", "NHWC"),
    "--method": (
        "auto", "minmax", "mean-minmax", "percentile", "mse", "mse-behind", "entropy", "aciq", "aciq-tengine",
        "ema", "entropy-mxnet", "entropy-ncnn", "entropy-tengine", "entropy-smooth", "entropy-tensorrt-exact",
    ),
    "--odd-margin": ("after", "even"),
    "--other-format": TABLE_FORMATS,
    "--preprocess": (
        "torchvision", "caffe_bvlc", "mobilenet_caffe", "tf_inception", "tf_vgg", "keras_caffe",
        "efficientnet_lite", "yolo", "ssd_mobilenet_caffe", "cifar10", "mnist",
    ),
    "--profile": ("onnx", "tflite", "single"),
    "--repair": (
        "none", "bn", "constant-channels", "cle", "cle-replace", "absorb", "absorb-analytic",
        "equalize-groups", "equalize-norms", "equalize-through", "equalize-activations",
        "equalize-activations-tight", "equalize-activations-wide", "scales", "eq", "eq-tengine", "round",
        "adaround", "spots", "floats", "bias", "bias-median", "bias-sequential", "bias-analytic",
    ),
    "--resize": ("warp", "short-side", "letterbox", "none"),
    "--runtime": (
        "onnxruntime", "openvino", "calib8", "reference", "litert", "litert-optimized", "litert-reference",
    ),
    "--sort": ("local", "cumulative"),
    "--table-format": TABLE_FORMATS,
    "--target": TARGETS,
    "--spectrum": ("none", "magnitude", "power", "log-power"),
    "--task": ("detect", "segment", "classify", "embed", "ctc", "keypoints", "speech", "enhance"),
    "--type": TYPES,
    "--units": ("0-1", "0-255"),
    "--window": ("hann", "none"),
    "--weights": ("per-channel", "per-tensor"),
    "--recurrent": ("hybrid", "integer"),
}  # fmt: skip
"""Option → the names that it takes, in every command where nothing else is said."""


_ASKED: Final = "_CALIB8_COMPLETE" in os.environ
"""A shell asks, through this environment variable; no other start needs what it asks for."""


def completed(name: str, choices: Sequence[str] = ()) -> Callable[[str], list[str]] | None:
    """``offered`` where a shell asks; None elsewhere, where it would only take time to look at it.

    Args:
        name: of the option.
        choices: its names; empty: those of ``NAMES``.
    """
    return offered(name, choices) if _ASKED else None


def offered(name: str, choices: Sequence[str] = ()) -> Callable[[str], list[str]] | None:
    """What Typer asks for names that begin as the typed one does; None where there are none to offer.

    Behind a comma the names begin anew, as in ``calib8,openvino``.

    Args:
        name: of the option.
        choices: its names; empty: those of ``NAMES``.
    """
    known = tuple(choices) or NAMES.get(name, ())
    if not known:
        return None

    def complete(incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",")
        return [f"{before}{comma}{one}" for one in known if f"{before}{comma}{one}".startswith(incomplete)]

    return complete
