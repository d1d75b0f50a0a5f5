"""INT8 models of torchvision's and timm's topologies for ``engine.py``: random weights, one image size.

    python benchmarks/torch_networks.py FOLDER [torchvision:mobilenet_v3_large timm:ghostnet_100 …]

Needs torch, torchvision and timm. Each network becomes NAME.int8.onnx in FOLDER (u8 · s8, QDQ, ranges by
minimum and maximum of two random images), which ``engine.py FOLDER --networks NAME`` then takes. What is
there stays as it is. Without names: all of ``NETWORKS``. Segmentation networks give their first output.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from calib8.pipeline import quantize

TORCHVISION = (
    *("alexnet", "vgg16", "squeezenet1_0", "googlenet", "inception_v3", "densenet121"),
    *("resnet18", "resnet34", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "convnext_tiny"),
    *("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "mnasnet1_0", "shufflenet_v2_x1_0"),
    *("efficientnet_b0", "efficientnet_v2_s", "regnet_x_800mf", "regnet_y_400mf", "regnet_y_800mf"),
    *("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50"),
)
TIMM = (
    *("ghostnet_100", "hardcorenas_a", "tinynet_a", "rexnet_100", "mixnet_s", "lcnet_100"),
    *("fbnetc_100", "semnasnet_100", "mobileone_s0", "repvgg_a0", "cspresnet50", "dla34"),
)
NETWORKS = (*(f"torchvision:{name}" for name in TORCHVISION), *(f"timm:{name}" for name in TIMM))
SEGMENTATION = ("deeplabv3", "lraspp", "fcn")
SEGMENTED = 520
"""Rows and columns of the images of segmentation networks."""


def network(source: str, name: str) -> tuple[Any, int]:
    """A module in evaluation mode, and rows and columns of its images."""
    import torch

    torch.manual_seed(0)
    if source == "timm":
        import timm

        module = timm.create_model(name, pretrained=False)
        return module.eval(), int(module.default_cfg["input_size"][-1])
    import torchvision

    plain: dict[str, Any] = {"weights": None}
    if name.startswith(SEGMENTATION):
        plain["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        plain["init_weights"] = False
    module = torchvision.models.get_model(name, **plain).eval()
    if name.startswith(SEGMENTATION):
        return _first_output(module), SEGMENTED
    return module, 299 if name == "inception_v3" else 224


def _first_output(module: Any) -> Any:
    """Segmentation networks give a dict; exporters want a tensor."""
    import torch

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Any) -> Any:
            return self.module(x)["out"]

    return First().eval()


def made(folder: Path, source: str, name: str) -> Path:
    """Path of the INT8 model, made if it is missing."""
    import torch

    path = folder / f"{name}.int8.onnx"
    if path.is_file():
        return path
    module, size = network(source, name)
    rng = np.random.default_rng(1)
    images = [{"input": rng.standard_normal((1, 3, size, size), np.float32)} for _ in range(2)]
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / f"{name}.onnx"
        example = (torch.zeros(1, 3, size, size),)
        torch.onnx.export(module, example, str(model), opset_version=17, dynamo=False, input_names=["input"])
        quantize(model, images, method="minmax", target="onnxruntime", effort="fast").save(path)
    return path


def main() -> None:
    """Makes what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for each in chosen.networks:
        source, _, name = each.partition(":")
        if source not in ("torchvision", "timm") or not name:
            parser.error(f"{each}: name networks as torchvision:NAME or timm:NAME")
        print(made(chosen.folder, source, name), flush=True)


if __name__ == "__main__":
    main()
