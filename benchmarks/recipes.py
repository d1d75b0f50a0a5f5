"""Compares recipes of timm, torchvision and Hugging Face with what calib8 makes of them, picture by picture.

    python benchmarks/recipes.py ../shared/data/imagenet

Needs timm, torchvision and transformers beside PyTorch. Prints a table of the largest difference of a value.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from PIL import Image

from calib8.data.images import image_files
from calib8.data.preprocess import Preprocess, apply_preprocess
from calib8.data.presets import preset
from calib8.errors import UsageError

TIMM: Final = (
    "resnet50.a1_in1k",
    "mobilenetv3_large_100.ra_in1k",
    "efficientnet_b0.ra_in1k",
    "tf_efficientnet_b4.ns_jft_in1k",
    "vit_base_patch16_224.augreg_in21k_ft_in1k",
    "convnext_tiny.fb_in1k",
    "swin_tiny_patch4_window7_224.ms_in1k",
    "ghostnet_100.in1k",
    "regnety_008.pycls_in1k",
    "mobilevit_s.cvnets_in1k",
    "inception_v3.tv_in1k",
    "vit_base_patch16_siglip_224.webli",
)
TORCHVISION: Final = (
    "ResNet50_Weights.IMAGENET1K_V1",
    "ResNet50_Weights.IMAGENET1K_V2",
    "EfficientNet_B3_Weights.IMAGENET1K_V1",
    "ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1",
    "Inception_V3_Weights.IMAGENET1K_V1",
)
HUGGING_FACE: Final = ("ViT", "ConvNext", "CLIP", "MobileNetV2", "Beit", "EfficientNet", "Levit", "Siglip")
ODD_SIZES: Final = ((301, 411), (411, 301), (333, 500), (375, 500), (500, 357), (640, 427))

# transformers imports a package 'kernels' if there is one, which must not be the file beside this one.
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]

Recipe = tuple[str, Preprocess, Callable[[Image.Image], Any]]


def allow_torchvision() -> None:
    """torchvision asks for operators of its own library, which a PyTorch of another build does not load."""
    probe = [sys.executable, "-c", "import torchvision"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        KEPT.append(library)


KEPT: Final[list[Any]] = []
"""A library of operators lives as long as its object."""


def recipes() -> Iterator[Recipe]:
    """Name, ours, theirs."""
    import timm
    import torchvision
    import transformers

    for name in TIMM:
        config = timm.data.resolve_data_config(pretrained_cfg=timm.get_pretrained_cfg(name).to_dict())
        yield f"timm {name}", preset.from_timm(name), timm.data.create_transform(**config, is_training=False)
    for name in TORCHVISION:
        family, entry = name.split(".")
        weights = getattr(torchvision.models, family)[entry]
        yield f"torchvision {name}", preset.from_torchvision(weights), weights.transforms()
    for name in HUGGING_FACE:
        for ending in ("ImageProcessorPil", "ImageProcessor"):
            processor = getattr(transformers, name + ending)()
            yield f"transformers {name}{ending}", preset.from_huggingface(processor), called(processor)


def called(processor: Any) -> Callable[[Image.Image], Any]:
    """An image processor as a function of one picture."""
    return lambda image: processor(image, return_tensors="np")["pixel_values"][0]


def pictures(folder: Path) -> list[Image.Image]:
    """The first twelve of a folder, and noise in sizes with odd margins."""
    rng = np.random.default_rng(0)
    noise = [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in ODD_SIZES]
    return [Image.open(folder / name).convert("RGB") for name in image_files(folder)[:12]] + noise


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pictures", type=Path)
    images = pictures(parser.parse_args().pictures)
    allow_torchvision()
    print("| recipe | size | largest difference |\n|---|---|---|")
    for name, ours, theirs in recipes():
        worst = max(
            float(np.abs(apply_preprocess(image, ours) - np.asarray(theirs(image))).max()) for image in images
        )
        if ours.size is None:
            raise UsageError(name, "has no size", "Choose another recipe")
        print(f"| {name} | {ours.size[0]}×{ours.size[1]} | {worst:.1e} |", flush=True)


if __name__ == "__main__":
    main()
