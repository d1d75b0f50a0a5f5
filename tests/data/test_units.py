"""Mean and standard deviation by name: in units of 0 … 1 as training recipes give them, or in pixels."""

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from calib8.data.preprocess import Preprocess, apply_preprocess
from calib8.data.presets import PRESETS
from calib8.data.recipes import odd_recipe
from calib8.errors import UsageError
from calib8.parameters import on_command_line

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)


@pytest.mark.parametrize("units", [None, "0-1"])
def test_numbers_for_0_to_1_are_those_of_torchvision(units) -> None:
    p = Preprocess(resize="none", mean=MEAN, std=STD, units=units)
    found = apply_preprocess(Image.fromarray(PIXELS), p)
    expected = (PIXELS / 255.0 - np.array(MEAN)) / np.array(STD)
    np.testing.assert_allclose(found, expected.transpose(2, 0, 1), atol=1e-5)
    assert p.mean == pytest.approx(PRESETS["torchvision"].mean)
    assert p.scale == pytest.approx(PRESETS["torchvision"].scale)
    assert Preprocess.from_json(p.to_json()) == p == replace(p)


@pytest.mark.parametrize(
    ("mean", "std", "units"),
    [
        ((127.5,), (127.5,), None),
        ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375), None),
        ((104.0, 117.0, 123.0), (1.0,), None),
        ((0.0,), (255.0,), None),
        ((0.0,), (1.0,), "0-255"),
        ((0.5,), (0.5,), "0-255"),
    ],
)
def test_numbers_for_pixels(mean, std, units) -> None:
    p = Preprocess(mean=mean, std=std, units=units)
    assert p.mean == mean and p.scale == tuple(1.0 / value for value in std)


def test_the_same_numbers_in_either_unit() -> None:
    assert Preprocess(std=(1.0,), units="0-1").scale == (1 / 255,)
    assert Preprocess(std=(1.0,), units="0-255").scale == (1.0,)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"std": (1.0,)}, "may be of pixels 0 … 1 or 0 … 255"),
        ({"mean": (0.485,), "std": (58.395,)}, "may be of pixels 0 … 1 or 0 … 255"),
        ({"mean": (123.675,), "std": (0.229,)}, "may be of pixels 0 … 1 or 0 … 255"),
        ({"mean": (123.675,), "std": (0.229,), "units": "0-1"}, "a mean of 123.675 does not lie in 0 … 1"),
        ({"std": (0.0,)}, r"std cannot be \(0.0,\)"),
        ({"std": (-0.5,)}, r"std cannot be \(-0.5,\)"),
        ({"std": 0.5}, "std cannot be 0.5"),
        ({"std": (0.5, 0.5)}, "Give 1 or 3 numbers"),
        ({"std": (0.5,), "scale": (2.0,)}, "std and scale contradict each other"),
        ({"std": (0.5,), "units": "percent"}, "units cannot be 'percent'"),
        ({"units": "0-1"}, "Give std too"),
    ],
)
def test_what_could_be_either_or_is_neither_is_refused(settings, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Preprocess(**settings)


@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_is_odd(name: str) -> None:
    assert odd_recipe(PRESETS[name]) == ""


INVERSE = tuple(1 / value for value in STD)
PUBLISHED = (
    Preprocess(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010)),  # CIFAR-10
    Preprocess(mean=(0.48145466, 0.4578275, 0.40821073), std=(0.26862954, 0.26130258, 0.27577711)),  # CLIP
    Preprocess(color="gray", mean=(0.1307,), std=(0.3081,)),  # MNIST
    Preprocess(mean=(0.5,), std=(0.5,)),
    Preprocess(mean=(128.0,)),
    Preprocess(scale=(1 / 256,)),
    Preprocess(mean=(127.5,), scale=(1 / 255,)),
    Preprocess(dtype="uint8"),
)


@pytest.mark.parametrize("p", PUBLISHED)
def test_no_published_recipe_is_odd(p: Preprocess) -> None:
    assert odd_recipe(p) == ""


@pytest.mark.parametrize(
    ("mean", "scale", "told"),
    [
        (MEAN, INVERSE, "into -2.118 … 1136, .*: for numbers of pixels 0 … 1 give --mean 0.485,0.456,0.406 "
         "--std 0.229,0.224,0.225 --units 0-1$"),
        ((0.0,), STD, "into 0 … 58.4, .*, give --mean 0 --std 0.229,0.224,0.225 --units 0-1$"),
        ((123.675, 116.28, 103.53), STD, "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --units 0-1$"),
        ((123.675,), (58.395,), "into -7222 … 7669, .*, give --mean 123.675 --std 58.395$"),
        ((0.5,), (2.0,), "give --mean 0.5 --std 0.5 --units 0-1$"),
        (MEAN, (1 / 255,), "^a mean of 0.485,0.456,0.406 is next to nothing .* --mean 123.675,116.28,"),
        ((0.0,), (1 / 255 / 255,), "into 0 … 0.003922, .* give a standard deviation with --std"),
        ((300.0,), (1.0,), "a mean of 300 is not a pixel value"),
    ],
)  # fmt: skip
def test_numbers_that_no_recipe_gives(mean, scale, told: str) -> None:
    found = odd_recipe(Preprocess(mean=mean, scale=scale))
    assert re.search(told, on_command_line(found)), found
    assert "--" not in found


def test_a_recipe_is_given_as_python_takes_it() -> None:
    p = Preprocess(mean=MEAN, scale=INVERSE)
    found = odd_recipe(p)
    assert found.endswith("give mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), units='0-1'")
    assert odd_recipe(Preprocess(mean=MEAN, std=(0.229, 0.224, 0.225), units="0-1")) == ""
