"""Labels that a float model does not find: which figures say so."""

from __future__ import annotations

import pytest

from calib8.tasks.label_doubts import is_found, not_found


@pytest.mark.parametrize(
    ("task", "figures", "found"),
    [
        ("detect", {"map": 0.0, "map50": 0.01}, False),
        ("detect", {"map": 0.051}, True),
        ("keypoints", {"map": 0.04, "oks": 0.3}, False),
        ("segment", {"miou": 0.02}, False),
        ("segment", {"miou": 0.4}, True),
        ("embed", {"verification": 0.52}, False),
        ("embed", {"verification": 0.9}, True),
        ("ctc", {"lines": 0.0, "character_error": 1.1}, False),
        ("ctc", {"lines": 0.0, "character_error": 0.3}, True),
        ("ctc", {"lines": 0.02, "character_error": 0.8}, True),
        ("classify", {"top1": 0.0}, True),
        ("detect", {}, True),
        ("judge", {}, True),
    ],
)
def test_what_figures_say(task: str, figures: dict[str, float], found: bool) -> None:
    """Of classes ``calib8.analysis.chance`` says so; what is not told leaves all as it is."""
    assert is_found(task, figures) is found
    assert bool(not_found(task, figures)) is not found


def test_what_is_said() -> None:
    said = not_found("ctc", {"lines": 0.0, "character_error": 1.0})
    assert said.startswith("FP32 itself does not find these labels (character errors 100.00 %)")
    assert "characters of this model" in said
    assert not_found("embed", {"verification": 0.5}, "it").startswith("it does not find these labels")
