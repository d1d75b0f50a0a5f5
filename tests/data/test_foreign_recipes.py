"""Recipes of timm, torchvision and Hugging Face against what these libraries compute, written out in Pillow.

``benchmarks/recipes.py`` compares with the libraries, ``test_recorded_recipes.py`` with what they gave.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

import calib8
from calib8.data.preprocess import Preprocess, apply_preprocess
from calib8.data.presets import preset
from calib8.errors import UsageError

F32 = npt.NDArray[np.float32]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZES = [(60, 91), (91, 60), (64, 64), (75, 98), (111, 77)]
BICUBIC, BILINEAR = Image.Resampling.BICUBIC, Image.Resampling.BILINEAR


def pictures() -> list[Image.Image]:
    rng = np.random.default_rng(3)
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in SIZES]


def short_side(image: Image.Image, side: int, how: Image.Resampling) -> Image.Image:
    """Resize(side): the long side is int(side · long / short)."""
    w, h = image.size
    size = (side, int(side * h / w)) if w <= h else (int(side * w / h), side)
    return image if size == image.size else image.resize(size, how)


def centre(image: Image.Image, size: int, *, half: Callable[[float], int]) -> Image.Image:
    left, top = half((image.width - size) / 2), half((image.height - size) / 2)
    return image.crop((left, top, left + size, top + size))


def normalized(image: Image.Image, mean: tuple[float, ...] = MEAN, std: tuple[float, ...] = STD) -> F32:
    """ToTensor and Normalize."""
    unit = np.asarray(image, np.float32) / np.float32(255)
    values = (unit.reshape(*unit.shape[:2], -1) - np.float32(mean)) / np.float32(std)
    return values.transpose(2, 0, 1).astype(np.float32)


def same(p: Preprocess, original: Callable[[Image.Image], F32]) -> None:
    for image in pictures():
        ours = apply_preprocess(image, p)
        np.testing.assert_allclose(ours, original(image), atol=2e-6)


TIMM = {"input_size": (3, 48, 48), "interpolation": "bicubic", "crop_pct": 0.9, "mean": MEAN, "std": STD}
"""⌊48 / 0.9⌋ = 53, where rounding gives 53 too; 0.875 gives 54 and 55."""


@pytest.mark.parametrize(("crop", "side"), [(0.9, 53), (0.875, 54), (0.96, 50), (1.0, 48)])
def test_timm(crop: float, side: int) -> None:
    config = {**TIMM, "crop_pct": crop, "crop_mode": "center"}
    p = preset.from_timm(config)
    same(p, lambda image: normalized(centre(short_side(image, side, BICUBIC), 48, half=round)))
    assert preset.from_timm(SimpleNamespace(pretrained_cfg=config)) == p
    assert preset.from_timm(SimpleNamespace(to_dict=lambda: config)) == p


def test_timm_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    models = SimpleNamespace(get_pretrained_cfg=lambda name: {"net.in1k": TIMM}.get(name))
    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(models=models))
    monkeypatch.setitem(sys.modules, "timm.models", models)
    assert preset.from_timm("net.in1k") == preset.from_timm(TIMM)
    with pytest.raises(UsageError, match="has no model 'other'"):
        preset.from_timm("other")
    monkeypatch.setitem(sys.modules, "timm.models", None)
    with pytest.raises(UsageError, match="is not installed"):
        preset.from_timm("net.in1k")


def test_timm_squashes() -> None:
    p = preset.from_timm({**TIMM, "crop_mode": "squash"})
    same(p, lambda image: normalized(centre(image.resize((53, 53), BICUBIC), 48, half=round)))


def test_timm_of_gray_digits() -> None:
    p = preset.from_timm({"input_size": (1, 28, 28), "mean": (0.1307,), "std": (0.3081,), "crop_pct": 1.0})
    assert p.color == "gray" and p.filter == "bicubic" and p.mean == (255 * 0.1307,)


class Weights:
    """As torchvision's ImageClassification preset, and the enum entry that makes it."""

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)

    @property
    def transforms(self) -> Callable[[], Any]:
        return lambda: SimpleNamespace(**{name: getattr(self, name) for name in self.__dict__})


def test_torchvision_weights() -> None:
    settings = {
        "resize_size": [56],
        "crop_size": [48],
        "interpolation": SimpleNamespace(value="bilinear"),
        "mean": MEAN,
        "std": STD,
    }
    p = preset.from_torchvision(Weights(**settings))
    same(p, lambda image: normalized(centre(short_side(image, 56, BILINEAR), 48, half=round)))
    assert preset.from_torchvision(SimpleNamespace(**settings)) == p
    whole = preset.from_torchvision(SimpleNamespace(**{**settings, "crop_size": None}))
    assert (whole.size, whole.resize, whole.resize_to) == (None, "short-side", 56)


def step(kind: str, **settings: Any) -> Any:
    return type(kind, (), settings)()


def composed(*steps: Any) -> Any:
    return SimpleNamespace(transforms=list(steps))


RESIZE = step("Resize", size=56, interpolation=SimpleNamespace(value="bicubic"), max_size=None)
CROP = step("CenterCrop", size=64)
TO_TENSOR, NORMALIZE = step("ToTensor"), step("Normalize", mean=MEAN, std=STD)


def test_a_compose() -> None:
    p = preset.from_torchvision(composed(RESIZE, step("CenterCrop", size=(48, 48)), TO_TENSOR, NORMALIZE))
    same(p, lambda image: normalized(centre(short_side(image, 56, BICUBIC), 48, half=round)))
    warp = step("Resize", size=[40, 52], interpolation=SimpleNamespace(value="bilinear"))
    p = preset.from_torchvision(composed(warp, TO_TENSOR))
    same(p, lambda image: normalized(image.resize((52, 40), BILINEAR), (0.0,), (1.0,)))
    gray = composed(
        step("Grayscale", num_output_channels=1), warp, TO_TENSOR, step("Normalize", mean=[0.5], std=[0.5])
    )
    assert preset.from_torchvision(gray).color == "gray"
    assert preset.from_torchvision(composed(TO_TENSOR, NORMALIZE)).resize == "none"


VIT = {
    "do_resize": True, "size": {"height": 48, "width": 48}, "resample": 2, "do_rescale": True,
    "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
}  # fmt: skip


def test_huggingface() -> None:
    half = (0.5,) * 3
    same(preset.from_huggingface(VIT), lambda image: normalized(image.resize((48, 48), BILINEAR), half, half))
    clip = {**VIT, "size": {"shortest_edge": 52}, "do_center_crop": True, "crop_size": 48, "resample": 3}
    p = preset.from_huggingface(SimpleNamespace(image_processor=SimpleNamespace(to_dict=lambda: clip)))
    same(p, lambda image: normalized(centre(short_side(image, 52, BICUBIC), 48, half=int), half, half))
    convnext = {**VIT, "size": {"shortest_edge": 48}, "crop_pct": 0.875}
    p = preset.from_huggingface(convnext)
    same(p, lambda image: normalized(centre(short_side(image, 54, BILINEAR), 48, half=int), half, half))
    for sides in ([48, 48], SimpleNamespace(height=48, width=48, shortest_edge=None)):
        assert preset.from_huggingface({**VIT, "size": sides}) == preset.from_huggingface(VIT)
    large = preset.from_huggingface({**convnext, "size": {"shortest_edge": 384}})
    assert (large.size, large.resize) == ((384, 384), "warp")
    top = preset.from_huggingface({**VIT, "include_top": True})
    same(top, lambda image: normalized(image.resize((48, 48), BILINEAR), half, half) / np.float32(0.5))
    bgr = preset.from_huggingface({**VIT, "do_flip_channel_order": True, "do_normalize": False})
    same(bgr, lambda image: normalized(image.resize((48, 48), BILINEAR), (0.0,), (1.0,))[::-1])
    told = {key: value for key, value in VIT.items() if key != "do_normalize"}
    assert preset.from_huggingface({**told, "ensure_multiple_of": 1}) == preset.from_huggingface(VIT)
    raw = preset.from_huggingface({**VIT, "do_rescale": False, "do_normalize": False})
    assert raw.mean == (0.0,) and raw.scale == (1.0,)


def test_levit_resizes_to_more() -> None:
    class LevitImageProcessor:
        def to_dict(self) -> dict[str, Any]:
            return {**VIT, "size": {"shortest_edge": 224}, "do_center_crop": True, "crop_size": 224}

    assert preset.from_huggingface(LevitImageProcessor()).resize_to == 256


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (preset.from_timm, 3, "an int is no recipe of timm"),
        (preset.from_timm, {**TIMM, "input_size": (4, 8, 8)}, "takes 4 channels"),
        (preset.from_timm, {**TIMM, "crop_mode": "border"}, "has the crop_mode 'border'"),
        (preset.from_timm, {**TIMM, "crop_mode": "odd"}, "has the crop_mode 'odd'"),
        (preset.from_timm, {**TIMM, "input_size": (3, 40, 48)}, "has an input of 40×48"),
        (preset.from_timm, {**TIMM, "interpolation": "random"}, "resamples by 'random'"),
        (preset.from_torchvision, object(), "an object is no recipe of torchvision"),
        (preset.from_torchvision, composed(step("RandomCrop")), "has the transform RandomCrop"),
        (preset.from_torchvision, composed(step("Resize", size=8, max_size=9)), "resizes to a max_size"),
        (
            preset.from_torchvision,
            composed(RESIZE, step("CenterCrop", size=64), TO_TENSOR),
            "cuts 64×64 out of",
        ),
        (preset.from_torchvision, composed(step("CenterCrop", size=64), TO_TENSOR), "cuts without a resize"),
        (
            preset.from_torchvision,
            composed(step("CenterCrop", size=64), RESIZE),
            "has Resize behind another step",
        ),
        (preset.from_torchvision, composed(RESIZE, RESIZE), "has Resize behind another step"),
        (
            preset.from_torchvision,
            composed(TO_TENSOR, NORMALIZE, NORMALIZE),
            "has Normalize behind another step",
        ),
        (preset.from_torchvision, composed(RESIZE, step("PILToTensor")), "leaves pixels at 0 … 255"),
        (preset.from_torchvision, composed(RESIZE, step("ToDtype", scale=False)), "leaves pixels at 0 … 255"),
        (
            preset.from_torchvision,
            composed(step("Resize", size=8, antialias=False, max_size=None), TO_TENSOR),
            "resizes without antialiasing",
        ),
        (preset.from_huggingface, {"tokens": 1}, "a dict is no recipe of Hugging Face"),
        (preset.from_huggingface, {**VIT, "do_pad": True}, "has do_pad"),
        (preset.from_huggingface, {**VIT, "rescale_offset": True}, "has rescale_offset"),
        (preset.from_huggingface, {**VIT, "keep_aspect_ratio": True}, "has keep_aspect_ratio"),
        (preset.from_huggingface, {**VIT, "ensure_multiple_of": 14}, "has ensure_multiple_of"),
        (preset.from_huggingface, {**VIT, "size": 224}, "has the size 224, a square or the short side"),
        (preset.from_huggingface, {**VIT, "image_std": None}, "that it does not tell"),
        (preset.from_huggingface, {**VIT, "size": None}, "resizes to a size that it does not tell"),
        (preset, 3, "is an int, not the name of a preset"),
        (
            preset.from_huggingface,
            {**VIT, "size": {"shortest_edge": 800, "longest_edge": 1333}},
            "resizes to shortest_edge 800, longest_edge 1333",
        ),
    ],
)
def test_what_no_setting_says(make: Callable[[Any], Preprocess], given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make(given)


def test_the_public_name() -> None:
    assert calib8.preset.from_timm is preset.from_timm
    assert calib8.preset("yolo").resize == "letterbox"


@pytest.mark.parametrize(
    ("margin", "after", "even"), [(1, 0, 0), (2, 1, 1), (3, 1, 2), (4, 2, 2), (5, 2, 2), (7, 3, 4)]
)
def test_odd_margins(margin: int, after: int, even: int) -> None:
    columns = np.tile(np.arange(8 + margin, dtype=np.uint8)[None, :, None], (8, 1, 3))
    common = {"size": (8, 8), "resize": "short-side", "layout": "NHWC"}
    for odd_margin, first in (("after", after), ("even", even)):
        p = Preprocess(odd_margin=odd_margin, **common)  # type: ignore[arg-type]
        assert apply_preprocess(Image.fromarray(columns), p)[0, 0, 0] == first
        assert Preprocess.from_json(p.to_json()) == p
        assert ("odd_margin" in p.to_json()) == (odd_margin == "even")
    with pytest.raises(UsageError, match="odd_margin"):
        Preprocess(odd_margin="before")  # type: ignore[arg-type]
