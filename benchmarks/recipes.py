"""Compares recipes of timm, torchvision and Hugging Face with what calib8 makes of them, picture by picture.

    python benchmarks/recipes.py ../shared/data/imagenet
    python benchmarks/recipes.py --record tests/data/foreign_recipes.json

Needs timm, torchvision and transformers beside PyTorch. Prints a table of the largest difference of a value;
with ``--record`` it writes what each recipe says, and its values of generated pictures, for the tests, which
do not have these libraries.
"""

from __future__ import annotations

import argparse
import json
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

# The pictures that values are recorded of are those of the tests.
sys.path.append(str(Path(__file__).parents[1] / "tests"))

Recipe = tuple[str, Preprocess, Callable[[Image.Image], Any], dict[str, Any]]


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
    """Name, ours, theirs, what theirs says of itself."""
    import timm
    import torchvision
    import transformers

    for name in TIMM:
        config = timm.data.resolve_data_config(pretrained_cfg=timm.get_pretrained_cfg(name).to_dict())
        theirs = timm.data.create_transform(**config, is_training=False)
        yield f"timm {name}", preset.from_timm(name), theirs, config
    for name in TORCHVISION:
        family, entry = name.split(".")
        weights = getattr(torchvision.models, family)[entry]
        made = weights.transforms()
        said = {field: getattr(made, field) for field in ("resize_size", "crop_size", "mean", "std")}
        said["interpolation"] = made.interpolation.value
        yield f"torchvision {name}", preset.from_torchvision(weights), made, said
    for name in HUGGING_FACE:
        for ending in ("ImageProcessorPil", "ImageProcessor"):
            processor = getattr(transformers, name + ending)()
            name_of_it = f"transformers {name}{ending}"
            yield name_of_it, preset.from_huggingface(processor), called(processor), processor.to_dict()


def called(processor: Any) -> Callable[[Image.Image], Any]:
    """An image processor as a function of one picture."""
    return lambda image: processor(image, return_tensors="np")["pixel_values"][0]


def pictures(folder: Path) -> list[Image.Image]:
    """The first twelve of a folder, and noise in sizes with odd margins."""
    rng = np.random.default_rng(0)
    noise = [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in ODD_SIZES]
    return [Image.open(folder / name).convert("RGB") for name in image_files(folder)[:12]] + noise


def record(path: Path) -> None:
    """Settings and values of every recipe as JSON, sorted by name."""
    from recorded_recipes import made_up_pictures, values_of

    found = {}
    for name, _, theirs, said in recipes():
        values = [values_of(np.asarray(theirs(image))) for image in made_up_pictures()]
        found[name] = {"settings": said, "values": values}
    lines = [f" {json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}" for name in sorted(found)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pictures", type=Path, nargs="?")
    parser.add_argument("--record", type=Path, metavar="FILE")
    asked = parser.parse_args()
    allow_torchvision()
    if asked.record is not None:
        record(asked.record)
    if asked.pictures is not None:
        compare(pictures(asked.pictures))


def compare(images: list[Image.Image]) -> None:
    """The table of the largest difference of a value."""
    print("| recipe | size | largest difference |\n|---|---|---|")
    for name, ours, theirs, _ in recipes():
        worst = max(
            float(np.abs(apply_preprocess(image, ours) - np.asarray(theirs(image))).max()) for image in images
        )
        if ours.size is None:
            raise UsageError(name, "has no size", "Choose another recipe")
        print(f"| {name} | {ours.size[0]}×{ours.size[1]} | {worst:.1e} |", flush=True)


if __name__ == "__main__":
    main()
