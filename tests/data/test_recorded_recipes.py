"""Recipes against values that timm, torchvision and Hugging Face themselves gave, recorded in a file.

``benchmarks/recipes.py --record`` writes the file anew where the libraries are installed.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from calib8.data.preprocess import Preprocess, apply_preprocess
from calib8.data.presets import preset
from recorded_recipes import made_up_pictures, values_of

RECORDED: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "foreign_recipes.json").read_text(encoding="utf-8")
)

ROUNDED: Final = 2e-6
"""Of values as they are recorded, beside float32."""

ON_TENSORS: Final = (7.01, 0.05)
"""Levels of 255, of a value and of the mean of a channel, where the library resizes tensors otherwise:
one level where its filter is bilinear, more at edges where it is bicubic."""


def ours(name: str, settings: Any) -> Preprocess:
    library = name.split()[0]
    if library == "timm":
        return preset.from_timm(settings)
    if library == "torchvision":
        return preset.from_torchvision(SimpleNamespace(**settings))
    return preset.from_huggingface(settings)


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_recipe_gives_the_values_of_its_library(name: str) -> None:
    recipe = ours(name, RECORDED[name]["settings"])
    on_tensors = name.startswith("transformers") and not name.endswith("Pil")
    level = max(np.abs(np.atleast_1d(recipe.scale)))  # what one of 255 levels is worth
    one, mean = (levels * level if on_tensors else ROUNDED for levels in ON_TENSORS)
    for image, recorded in zip(made_up_pictures(), RECORDED[name]["values"], strict=True):
        values = values_of(apply_preprocess(image, recipe))
        assert values["shape"] == recorded["shape"]
        np.testing.assert_allclose(values["some"], recorded["some"], rtol=0, atol=one)
        np.testing.assert_allclose(values["means"], recorded["means"], rtol=0, atol=mean)


def test_enough_recipes_are_recorded() -> None:
    counted = {kind: sum(name.startswith(kind) for name in RECORDED) for kind in ("timm", "torchv", "transf")}
    assert counted == {"timm": 12, "torchv": 5, "transf": 16}
