"""Networks of timm and torchvision as ONNX files: random weights, activations that stay alive.

A name is timm's (``resnet18``), or that of another package behind its own: ``torchvision:densenet121``,
``ultralytics:yolo11n``.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from calib8.files import atomic_output

NETWORKS: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        (
            "resnet18",
            "resnetv2_50",
            "regnetx_002",
            "regnety_002",
            "torchvision:densenet121",
            "torchvision:inception_v3",
            "torchvision:googlenet",
            "torchvision:alexnet",
            "torchvision:squeezenet1_1",
            "torchvision:shufflenet_v2_x1_0",
            "torchvision:mnasnet0_5",
            "torchvision:mobilenet_v2",
            "mobilenetv1_100",
            "mobilenetv3_small_100",
            "mobilenetv4_conv_small",
            "efficientnet_b0",
            "ghostnet_100",
            "hrnet_w18_small",
            "dla34",
            "repvgg_a0",
            "hgnetv2_b0",
            "lcnet_050",
            "tinynet_e",
            "mobileone_s0",
            "efficientformer_l1",
            "fastvit_t8",
            "mobilevit_xxs",
            "visformer_tiny",
            "visformer_small",
            "nf_regnet_b0",
            "ese_vovnet19b_dw",
            "cspresnet50",
            "darknet53",
            "res2net50_14w_8s",
            "seresnet18",
            "ecaresnet26t",
            "skresnet18",
            "resnest14d",
            "levit_conv_128s",
            "selecsls42b",
            "xception41",
            "convnext_atto",
            "rexnet_100",
            "mixnet_s",
            "starnet_s1",
            "convnextv2_atto",
            "convnext_tiny",
            "efficientvit_b0",
            "mobilevitv2_050",
            "efficientformerv2_s0",
            "edgenext_xx_small",
            "repvit_m0_9",
            "coat_lite_tiny",
            "cait_xxs24_224",
            "poolformer_s12",
            "inception_next_atto",
            "caformer_s18",
            "fasternet_t0",
            "rdnet_tiny",
            "mambaout_femto",
            "regnetz_005",
            "ghostnetv2_100",
            "mobilenetv4_hybrid_medium",
            "convmixer_768_32",
        ),
        96,
    ),
    "torchvision:inception_v3": 139,
    "torchvision:alexnet": 224,
    "efficientformer_l1": 224,
    "visformer_small": 224,
    "levit_conv_128s": 224,
    "coat_lite_tiny": 224,
    "cait_xxs24_224": 224,
    "vit_tiny_patch16_224": 224,
    "deit_tiny_patch16_224": 224,
    "swin_tiny_patch4_window7_224": 224,
    "vit_small_patch16_224": 224,
    "deit_small_patch16_224": 224,
    "mobilevit_s": 128,
    "efficientvit_m0": 224,
    "swinv2_tiny_window8_256": 256,
    "mixer_s32_224": 224,
    "resmlp_12_224": 224,
    "pvt_v2_b0": 224,
    "xcit_nano_12_p16_224": 224,
    "tiny_vit_5m_224": 224,
    "pit_ti_224": 224,
    "crossvit_tiny_240": 240,
    "twins_svt_small": 224,
    "shvit_s1": 224,
    "swiftformer_xs": 224,
    "mvitv2_tiny": 224,
    "ultralytics:yolo11n": 256,
    "ultralytics:yolo12n": 256,
    "ultralytics:rtdetr-l": 256,
}
"""Name → rows and columns of the images."""

TORCHVISION: Final = "torchvision:"
ULTRALYTICS: Final = "ultralytics:"
EXPORTERS: Final = {"torchscript": False, "dynamo": True}
"""Name of an exporter of PyTorch → the argument ``dynamo`` of ``torch.onnx.export``."""

WARM: Final = 8
"""Images that the BatchNorms take their statistics from."""

_NORMS: Final = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)


def smooth_images(count: int, size: int, seed: int) -> npt.NDArray[np.float32]:
    """Images [count, 3, size, size] with large and small shapes, mean 0, deviation about 1."""
    rng = np.random.default_rng(seed)
    total = np.zeros((count, 3, size, size), np.float32)
    for cells in (3, 7, 15, size):
        coarse = torch.from_numpy(rng.standard_normal((count, 3, cells, cells)).astype(np.float32))
        total += torch.nn.functional.interpolate(coarse, (size, size), mode="bilinear").numpy()
    return (total / total.std()).astype(np.float32)


def network(name: str, size: int) -> torch.nn.Module:
    """A network in evaluation mode, the same weights every time.

    Args:
        name: of timm, or of another package behind its own.
        size: rows and columns of its images.
    """
    torch.manual_seed(zlib.crc32(name.encode()))
    made = _made(name, size)
    rng = torch.Generator().manual_seed(1)
    norms = [layer for layer in made.modules() if isinstance(layer, _NORMS)]
    for layer in norms:
        layer.momentum = 1.0  # the statistics of this one batch
        if layer.affine:  # some are built with factors of 0, which would leave their branch dead
            layer.weight.data.uniform_(0.5, 1.5, generator=rng)
            layer.bias.data.normal_(0, 0.2, generator=rng)
    made.eval()
    for layer in norms:
        layer.train()
    with torch.no_grad():
        made(torch.from_numpy(smooth_images(WARM, size, 0)))
    return made.eval()


def _made(name: str, size: int) -> torch.nn.Module:
    _declare_operators()
    if name.startswith(TORCHVISION):
        import torchvision

        kind = name.removeprefix(TORCHVISION)
        more: dict[str, Any] = {"aux_logits": False} if kind in ("googlenet", "inception_v3") else {}
        return torchvision.models.get_model(kind, weights=None, **more)
    if name.startswith(ULTRALYTICS):
        return _detector(name.removeprefix(ULTRALYTICS))
    import timm

    with contextlib.suppress(TypeError):  # most take images of any size, and no argument for it
        return timm.create_model(name, pretrained=False, img_size=size)
    return timm.create_model(name, pretrained=False)


def _detector(name: str) -> torch.nn.Module:
    """A detector of ultralytics, in the form that it exports: one output with boxes and scores."""
    from ultralytics.nn import tasks

    kind = tasks.RTDETRDetectionModel if name.startswith("rtdetr") else tasks.DetectionModel
    made: torch.nn.Module = kind(f"{name}.yaml", verbose=False)
    for layer in made.modules():
        if hasattr(layer, "export"):
            layer.export, layer.format = True, "onnx"
    return made


def _declare_operators() -> None:
    """Lets torchvision load where its compiled operators, which no classifier needs, do not fit PyTorch."""
    with contextlib.suppress(RuntimeError):  # an operator that torchvision describes is not there
        importlib.import_module("torchvision")
        return
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(
                f"torchvision::{name}", "(Tensor boxes, Tensor scores, float limit) -> Tensor"
            )


def export(name: str, exporter: str, size: int, path: Path) -> None:
    """Writes the ONNX file of a network with a batch of 1; ``exporter`` is a key of ``EXPORTERS``."""
    made, image = network(name, size), torch.from_numpy(smooth_images(1, size, 2))
    names = {"input_names": ["image"], "output_names": ["scores"]}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), atomic_output(path) as file:
        warnings.simplefilter("ignore")
        torch.onnx.export(made, (image,), str(file), dynamo=EXPORTERS[exporter], external_data=False, **names)
