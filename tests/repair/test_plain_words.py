"""Every repair has words that a newcomer knows, and stages of work have no words of our own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import calib8
from calib8.demo import CALIBRATION_PATH, MODEL_PATH
from calib8.repair.plain_words import PLAIN_WORDS, in_plain_words
from calib8.repair.repairs import REPAIRS

JARGON = re.compile(r"\b(auto|refit\w*|spots?|moments|scor\w+|taps?|judg\w+|units|cle|eq)\b")
DIGITS = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")
SOURCES = Path(calib8.__file__).parent


def test_every_repair_has_its_words() -> None:
    assert set(PLAIN_WORDS) == set(REPAIRS)
    assert not [words for words in PLAIN_WORDS.values() if JARGON.search(words)]
    assert in_plain_words(("round", "ranges mse")) == "round (weights rounded by their effect), ranges mse"


@pytest.mark.slow
def test_stages_of_quantize_are_plain() -> None:
    told = dict[str, None]()
    calib8.quantize(
        MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, target="calib8", effort="best",
        progress=lambda stage, done, total: told.update({stage: None}),
    )  # fmt: skip
    assert {"calibrating", "comparing ranges", "checking the model", "correcting biases"} <= set(told)
    assert not [stage for stage in told if JARGON.search(stage)]


def test_no_counter_names_a_stage_otherwise() -> None:
    named = [
        stage
        for path in sorted((SOURCES / "repair").rglob("*.py")) + sorted((SOURCES / "autorange").rglob("*.py"))
        for stage in re.findall(r'ounter\(\s*"([^"]+)"', path.read_text(encoding="utf-8"))
    ]
    assert len(named) > 10
    assert not [stage for stage in named if JARGON.search(stage)]
