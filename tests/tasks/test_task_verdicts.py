"""What judges say of a few samples: counted in loops, with the words at their limits."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from typing import Any

import numpy as np
import pytest

from calib8.tasks.branches import Branch, Meaning, Piece, Sureness
from calib8.tasks.judges.boxes import overlaps
from calib8.tasks.kinds import Kind
from calib8.tasks.limits import FEWEST, FIGURE_LIMITS, LIMITS, SIGNAL_LIMITS, state_by
from calib8.tasks.task_verdicts import LARGE_ENOUGH, TaskVerdict, task_verdicts
from calib8.tasks.verdict import Verdict, verdict_of

RNG = np.random.default_rng(11)
FED = {"x": np.zeros((1, 3, 64, 64), np.float32)}
CENTRES = [(x, y) for x in (12.0, 32.0, 52.0) for y in (12.0, 32.0, 52.0)]


def branch(kind: Kind, piece: Piece | None = None, sureness: Sureness = "sure") -> Branch:
    return Branch(kind if piece is None else str(piece), kind, (piece or Piece("y", 0),), sureness, "")


DETECTOR = Meaning(
    (branch("boxes", Piece("y", 0, 1, 0, 4)), branch("scores", Piece("y", 0, 1, 4, 7))), "detect"
)


def picture(objects: list[tuple[int, float, float]]) -> Any:
    """[1, 4 + 3, 84]: objects as class, score and how far the box is moved, each at a place of its own."""
    rows = np.zeros((84, 7), np.float32)
    rows[:, :4] = (32.0, 32.0, 3.0, 3.0)
    for place, (number, score, moved) in enumerate(objects):
        rows[place, :4] = (CENTRES[place][0] + moved, CENTRES[place][1], 16.0, 16.0)
        rows[place, 4 + number] = score
    return rows.T[None]


def apart(samples: list[Any]) -> list[Any]:
    """Samples that differ: the middle of a box without an object lies elsewhere in each."""
    found = [one.copy() for one in samples]
    for index, one in enumerate(found):
        one[0, 0, -1] += index / 8
    return found


def judged(expected: list[Any], found: list[Any], meaning: Meaning = DETECTOR) -> TaskVerdict:
    [told] = task_verdicts(
        meaning, ["y"], [[one] for one in expected], [[one] for one in found], [FED] * len(expected)
    )
    return told


def detected(lost: int, pictures: int = 20, moved: float = 0.0, new: int = 0) -> TaskVerdict:
    """Five objects a picture, of three classes; so many lost, and so many that FP32 has not."""
    real = [[(k % 3, 0.9 - 0.1 * k, 0.0) for k in range(5)] for _ in range(pictures)]
    coded = [[(number, score, moved) for number, score, _ in objects] for objects in real]
    for index in range(lost):
        number, _, _ = coded[index % pictures][4]
        coded[index % pictures][4] = (number, 0.1, moved)
    for index in range(new):
        coded[index % pictures].append((1, 0.3, 0.0))
    return judged(apart([picture(one) for one in real]), apart([picture(one) for one in coded]))


@pytest.mark.parametrize(
    ("lost", "new", "word"),
    [(0, 0, "kept"), (3, 0, "kept"), (4, 0, "damaged"), (0, 3, "kept"), (0, 4, "damaged")],
)
def test_objects_are_counted_on_both_sides(lost: int, new: int, word: str) -> None:
    told = detected(lost, new=new)
    assert (told.state, told.counted, told.branches) == (word, 100, DETECTOR_NAMES)
    assert told.figures["recall"] == pytest.approx((100 - lost) / 100)
    assert told.figures["precision"] == pytest.approx((100 - lost) / (100 - lost + new))
    assert f"{100 - lost:.1f} % of FP32's 100 objects with scores above 0.25 are found again" in told.text
    assert f"{100 * new / (100 - lost + new):.1f} % of INT8's {100 - lost + new} are new" in told.text
    assert told.decided_by == ("recall" if lost > 3 else "precision" if new > 3 else "recall")


DETECTOR_NAMES = ("y[:,0:4]", "y[:,4:7]")


def test_one_object_of_a_few_is_chance_and_one_in_five_is_ruin() -> None:
    states = [detected(lost, pictures=5).state for lost in range(4)]
    assert states == ["kept", "kept", "damaged", "damaged"]
    assert [detected(0, pictures=5, new=new).state for new in (1, 2)] == ["kept", "damaged"]
    assert detected(20).figures["recall"] == pytest.approx(0.8) and detected(20).state != "kept"
    gone = judged([picture([(0, 0.9, 0.0)] * 5)] * 10, [picture([(0, 0.9, 0.0)] * 3)] * 10)
    assert gone.figures["recall"] == pytest.approx(0.6) and gone.state == "ruined"
    nothing = judged([picture([(0, 0.9, 0.0)] * 5)] * 10, [picture([])] * 10)
    assert (nothing.state, nothing.figures["recall"], "precision" in nothing.figures) == (
        "ruined",
        0.0,
        False,
    )


def test_boxes_that_moved_are_found_and_yet_damaged() -> None:
    """IoU of 16 × 16 boxes moved by 2: 14/18, which six of ten measures of overlap take."""
    real = np.array([[0.0, 0.0, 16.0, 16.0]])
    passed = sum(
        overlaps(real + np.array([2.0, 0.0, 2.0, 0.0]), real)[0, 0] >= t for t in np.arange(0.5, 0.96, 0.05)
    )
    told = detected(0, moved=2.0)
    assert told.figures["recall"] == 1.0 and told.figures["map50"] == pytest.approx(1.0)
    assert told.figures["map"] == pytest.approx(passed / 10) and told.decided_by == "map"
    assert told.state == "damaged" and "mAP@[.5:.95] 60.0 %" in told.text


def test_too_few_objects_leave_the_word_to_the_signal() -> None:
    real, coded = (
        [[one] for one in apart([picture([(0, score, 0.0), (1, score, 0.0)])] * 10)] for score in (0.8, 0.7)
    )
    tasks = task_verdicts(DETECTOR, ["y"], real, coded, [FED] * 10)
    assert [(one.state, one.counted, dict(one.figures)) for one in tasks] == [("unknown", 20, {})]
    verdict = verdict_of(DETECTOR, real, coded, tasks)
    scores = 20 * np.log10(0.8 / 0.1)
    assert verdict.state == "damaged" and verdict.text.endswith(
        f"y[:,4:7]: {scores:.1f} dB; y[:,0:4] kept: 120.0 dB; 20 of FP32's objects are too few to count"
        " (22 are needed); on 10 samples held back"
    )
    assert verdict.text.startswith("probably visibly damaged: ") and verdict.unsure
    assert verdict.samples_needed == 11, "2 objects a sample, 22 are needed"
    enough = verdict_of(
        DETECTOR, real * 2, coded * 2, task_verdicts(DETECTOR, ["y"], real * 2, coded * 2, [FED] * 20)
    )
    assert enough.text.startswith(
        "kept: 100.0 % of FP32's 40 objects with scores above 0.25 are found again, "
    )
    assert not enough.unsure and enough.samples_needed is None
    assert enough.text.endswith("; on 20 samples held back") and len(enough.branches) == 2


@pytest.mark.parametrize(
    ("objects", "lost", "state"),
    [
        (8, 0, "kept"), (8, 1, "kept"), (8, 2, "damaged"), (8, 3, "ruined"),
        (100, 3, "kept"), (100, 4, "damaged"), (100, 20, "damaged"), (100, 21, "ruined"),
    ],
)  # fmt: skip
def test_one_object_decides_nothing_and_two_ruin_nothing(objects: int, lost: int, state: str) -> None:
    assert state_by((0.97, 0.8), 1 - lost / objects, 1 / objects) == state


def test_so_few_objects_tell_nothing() -> None:
    """A model that loses one in five must not pass for kept."""

    def passes(count: int) -> float:
        allowed = [
            lost for lost in range(count + 1) if state_by((0.97, 0.8), 1 - lost / count, 1 / count) == "kept"
        ]
        return sum(comb(count, lost) * 0.2**lost * 0.8 ** (count - lost) for lost in allowed)

    assert passes(FEWEST) < 0.05 <= passes(FEWEST - 1)
    assert all(passes(count) < 0.05 for count in range(FEWEST, 300))
    for enough, least in (*LIMITS.values(), *SIGNAL_LIMITS.values(), *FIGURE_LIMITS.values()):
        assert enough > least


def lines(texts: list[str]) -> list[Any]:
    found = []
    for text in texts:
        scores = np.zeros((1, 8, 5), np.float32)
        for step in range(8):
            scores[
                0, step, " abcd".index(text[step // 2]) if step % 2 == 0 and step // 2 < len(text) else 0
            ] = 1.0
        found.append(scores)
    return found


def test_lines_classes_and_vectors_by_their_judges() -> None:
    texts = ["abc", "dab", "ccb", "a"] * 8
    coded = ["abd", "b", *texts[2:]]
    told = judged(lines(texts), lines(coded), Meaning((branch("ctc"),), "ctc"))
    assert (told.task, told.state, told.counted) == ("ctc", "damaged", 32)
    assert told.figures["lines"] == 30 / 32 and told.figures["character_error"] == pytest.approx(3 / 80)
    assert (
        told.text
        == "93.8 % (30 of 32) of the lines are read as FP32 reads them, 3.8 % of the characters differ"
    )
    few = judged(lines(["abc"] * 21 + [""] * 20), lines(["abc"] * 21 + [""] * 20), Meaning((branch("ctc"),)))
    assert few.state == "unknown" and few.text == "21 of FP32's lines are too few to count (22 are needed)"
    real = [np.eye(4)[[k % 4]] for k in range(40)]
    for wrong, word in ((2, "kept"), (3, "damaged"), (9, "ruined")):
        classes = judged(real, [np.eye(4)[[3 - k % 4]] if k < wrong else real[k] for k in range(40)], CLASSES)
        assert (classes.state, classes.figures["agreement"]) == (word, (40 - wrong) / 40)
    vectors = [RNG.normal(size=(1, 64)) for _ in range(9)]
    noisy = [one + 0.1 * RNG.normal(size=one.shape) for one in vectors]
    cosines = [
        float((a @ b.T)[0, 0] / np.sqrt((a @ a.T) * (b @ b.T))[0, 0])
        for a, b in zip(vectors, noisy, strict=True)
    ]
    told = judged(vectors, noisy, Meaning((branch("embedding"),), "embed"))
    assert told.figures["cosine"] == pytest.approx(np.mean(cosines)) and told.state == "damaged"
    assert told.figures["least_cosine"] == pytest.approx(min(cosines)) and told.counted == 9
    for count, sure in ((9, False), (FEWEST - 1, False), (FEWEST, True)):
        few = Verdict("damaged", (), count, tasks=(replace(told, counted=count),))
        assert few.word == ("visibly damaged" if sure else "probably visibly damaged")
        assert few.samples_needed == (None if sure else FEWEST)


CLASSES = Meaning((branch("logits"),), "classify")


def test_one_object_of_a_rare_class_excuses_nothing() -> None:
    """24 boxes of class 0 moved to an IoU of 0.6, one of class 1 where it was: mAP (0.3 + 1) / 2."""
    real = [[(0, 0.9, 0.0)] for _ in range(24)]
    real[0].append((1, 0.8, 0.0))
    coded = [[(number, score, 4.0 if number == 0 else 0.0) for number, score, _ in one] for one in real]
    told = judged([picture(one) for one in real], [picture(one) for one in coded])
    assert told.figures["recall"] == told.figures["precision"] == 1.0
    assert told.figures["map"] == pytest.approx(0.65) and told.state == "damaged"


def test_regions_of_few_points_do_not_count() -> None:
    """Class 1 has 1200 points, of which INT8 gives 30 to class 2, which FP32 has nowhere."""
    real, coded = np.zeros((1, 3, 60, 60)), np.zeros((1, 3, 60, 60))
    for array in (real, coded):
        array[0, 0, 20:], array[0, 1, :20] = 1.0, 1.0
    coded[0, 1, 0, :30], coded[0, 2, 0, :30] = 0.0, 1.0
    told = judged([real], [coded], Meaning((branch("map"),), "segment"))
    assert told.figures["miou"] == pytest.approx((1.0 + 1170 / 1200) / 2) and told.state == "kept"
    assert told.text == "IoU 0.988 with FP32's regions of 2 classes, 3600 points"
    unsure = Meaning((branch("map", sureness="likely"),), "segment")
    read = "read as a map of classes; task='keypoints' reads its channels as points"
    assert judged([10 * real], [10 * coded], unsure).text == f"{told.text} ({read})"
    shares = [one + (1.0 - one.sum(axis=1, keepdims=True)) / 3 for one in (real, coded)]
    for meaning, scale in ((unsure, 1), (replace(unsure, named=True), 10)):
        clear = judged([scale * shares[0]], [scale * shares[1]], meaning)
        assert clear.text == told.text, "shares of classes, and what the user named, are no points"
    chance = np.zeros((1, 1, 64, 64))
    chance[..., :10, :50] = 0.9
    assert (chance > 0.5).sum() < LARGE_ENOUGH
    few = judged([chance], [chance], Meaning((branch("map"),), "segment"))
    assert (few.state, few.counted) == ("unknown", 500) and "500 points of FP32's largest region" in few.text
    moved = np.roll(chance, 2, axis=2)
    told = judged([chance] * 3, [moved] * 3, Meaning((branch("map"),), "segment"))
    assert told.figures["miou"] == pytest.approx(8 / 12) and told.state == "ruined"


def test_points_by_their_similarity() -> None:
    """Points of a face moved by σ·√A·d: exp(−d²/8)."""
    face = RNG.uniform(10.0, 50.0, (68, 2))
    area = 0.53 * np.prod(face.max(axis=0) - face.min(axis=0))
    meaning = Meaning((branch("keypoints"),), "keypoints")
    for d, word in ((0.4, "kept"), (1.0, "damaged"), (2.1, "ruined")):
        moved = face + np.array([0.026 * np.sqrt(area) * d, 0.0])
        faces = [[one.reshape(1, 136) + k for k in range(3)] for one in (face, moved)]
        told = judged(*faces, meaning)
        assert told.figures["oks"] == pytest.approx(np.exp(-(d**2) / 8.0)) and told.state == word
        assert told.counted == 3


def test_every_head_is_judged_alone_and_what_is_guessed_not_at_all() -> None:
    heads = (branch("logits", Piece("a", 0)), branch("logits", Piece("b", 1)), branch("other", Piece("c", 2)))
    real = [[np.eye(5)[[k % 5]], np.eye(3)[[k % 3]], np.ones((1, 2)) + k] for k in range(30)]
    coded = [[one[0], np.eye(3)[[0]], one[2]] for one in real]
    told = task_verdicts(Meaning(heads, "classify"), ["a", "b", "c"], real, coded, [FED] * 30)
    assert [(one.name, one.state) for one in told] == [("a", "kept"), ("b", "ruined")]
    verdict = verdict_of(Meaning(heads, "classify"), real, coded, told)
    assert verdict.state == "ruined" and verdict.text.startswith(
        "ruined: b: 33.3 % (10 of 30) of the samples keep their class; "
    )
    assert "a kept: 100.0 %" in verdict.text and "c kept: 120.0 dB" in verdict.text
    guessed = Meaning((branch("keypoints", sureness="guessed"),), "keypoints")
    points = [[RNG.normal(size=(1, 136))]] * 3
    assert task_verdicts(guessed, ["y"], points, points, [FED] * 3) == ()
    broken = [[one[0] * np.nan, *one[1:]] for one in real]
    told = task_verdicts(Meaning(heads, "classify"), ["a", "b", "c"], real, broken, [FED] * 30)
    assert [one.name for one in told] == ["b"]
    assert verdict_of(Meaning(heads, "classify"), real, broken, told).state == "ruined"
