"""Masks, embeddings, lines, classes and judges of the user: figures against loops and known answers."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calib8.errors import DataError, UsageError
from calib8.tasks.judges.classes import ClassJudge, ClassTruth, find_class_judge
from calib8.tasks.judges.ctc import CtcJudge, edit_distance, find_ctc, greedy_line
from calib8.tasks.judges.decode_points import PointHead
from calib8.tasks.judges.detections import DetectionJudge
from calib8.tasks.judges.embeddings import EmbeddingJudge, find_embedding
from calib8.tasks.judges.find import find_judge
from calib8.tasks.judges.interface import split_samples
from calib8.tasks.judges.keypoints import KeypointJudge
from calib8.tasks.judges.masks import MaskHead, MaskJudge, MaskTruth, find_mask_head
from calib8.tasks.judges.own import check_own_judge, own_figures, own_score
from calib8.tasks.purpose import Purpose


def random(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# --- masks


def slow_mask_figures(pairs: list[tuple[Any, Any]], classes: int) -> tuple[float, float, float]:
    ious, dices, right, pixels = [], [], 0, 0
    for number in range(classes):
        both = own = others = 0
        for left, right_ in pairs:
            for a, b in zip(left.flat, right_.flat, strict=True):
                both += a == b == number
                own += a == number
                others += b == number
        if own + others:
            ious.append(both / (own + others - both))
            dices.append(2 * both / (own + others))
    for left, right_ in pairs:
        right += int((left == right_).sum())
        pixels += left.size
    return sum(ious) / len(ious), sum(dices) / len(dices), right / pixels


def test_maps_of_classes_as_in_loops() -> None:
    judge = MaskJudge(find_mask_head(["scores"], [random(0, 1, 6, 9, 11)]))
    floats = [judge.read([random(seed, 1, 6, 9, 11)], "a") for seed in range(4)]
    others = [
        judge.read([random(seed, 1, 6, 9, 11) + random(seed + 9, 1, 6, 9, 11)], "a") for seed in range(4)
    ]
    records = [judge.compare(own, judge.as_truth(truth)) for own, truth in zip(others, floats, strict=True)]
    figures = judge.figures(records)
    expected = slow_mask_figures(list(zip(others, floats, strict=True)), 6)
    assert [figures[name] for name in ("miou", "dice", "pixels")] == pytest.approx(expected, abs=1e-15)
    assert judge.figures(records[::-1]) == figures


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 3, 8, 10), 0), ((1, 8, 10, 3), 2), ((1, 21, 16, 16), 0), ((1, 64, 64, 19), 2)]
)
def test_channels_are_found(shape: tuple[int, ...], axis: int) -> None:
    array = random(1, *shape)
    head = find_mask_head(["m"], [array])
    assert head == MaskHead(0, axis, None, shape[axis + 1])
    expected = np.argmax(array[0], axis=axis)
    assert (MaskJudge(head).read([array], "a") == expected).all()


@pytest.mark.parametrize("shape", [(1, 8, 10), (1, 1, 8, 10), (1, 8, 10, 1)])
def test_numbers_of_classes_stay_what_they_are(shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(1).integers(0, 9, (8, 10))
    head = find_mask_head(["m"], [numbers.reshape(shape)])
    assert (MaskJudge(head).read([numbers.reshape(shape)], "a") == numbers).all()
    with pytest.raises(DataError, match="which are not numbers of classes"):
        MaskJudge(head).read([numbers.reshape(shape) - 5], "a")


def test_one_score_per_pixel_has_a_threshold_and_no_background() -> None:
    chance = np.zeros((1, 1, 4, 4), np.float32)
    chance[0, 0, :2] = 0.8
    head = find_mask_head(["m"], [chance])
    assert head.threshold == 0.5
    judge, other = MaskJudge(head), chance.copy()
    other[0, 0, 1] = 0.4
    record = judge.compare(judge.read([other], "a"), judge.as_truth(judge.read([chance], "a")))
    assert judge.figures([record])["miou"] == 0.5  # 4 of 8 pixels, whatever the background
    assert find_mask_head(["m"], [chance * 9 - 4]).threshold == 0.0


def test_pixels_that_labels_leave_out_and_labels_of_another_size() -> None:
    judge = MaskJudge(MaskHead())
    map_ = np.array([[0, 1], [1, 1]])
    truth = MaskTruth(np.repeat(np.repeat(np.array([[0, -1], [2, 1]]), 3, axis=0), 3, axis=1))
    figures = judge.figures([judge.compare(map_, truth)])
    assert figures["pixels"] == pytest.approx(2 / 3) and figures["miou"] == pytest.approx((1 + 1 / 2 + 0) / 3)


def test_two_empty_maps_tell_nothing_of_classes() -> None:
    judge = MaskJudge(MaskHead(threshold=0.5))
    nothing = np.zeros((3, 3), np.int64)
    assert judge.figures([judge.compare(nothing, judge.as_truth(nothing))]) == {"pixels": 1.0}
    assert judge.figures([]) == {}


# --- embeddings


def test_cosines_as_in_loops() -> None:
    judge = find_embedding(["e"], [random(0, 1, 32)])
    pairs = [(random(seed, 1, 32), random(seed, 1, 32) + 0.1 * random(seed + 50, 1, 32)) for seed in range(7)]
    records = [judge.compare(judge.read([b], "x"), judge.as_truth(judge.read([a], "x"))) for a, b in pairs]
    slow = [
        sum(float(x) * float(y) for x, y in zip(a[0], b[0], strict=True))
        / (sum(float(x) ** 2 for x in a[0]) * sum(float(y) ** 2 for y in b[0])) ** 0.5
        for a, b in pairs
    ]
    figures = judge.figures(records)
    assert figures == {"cosine": pytest.approx(sum(slow) / 7), "least_cosine": pytest.approx(min(slow))}
    for order in itertools.islice(itertools.permutations(records), 1, 5):
        assert judge.figures(order) == figures  # exact


@pytest.mark.parametrize("threshold", [0.3, None])
def test_verification_as_over_all_pairs(threshold: float | None) -> None:
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(3, 8))
    labels = [0, 0, 0, 1, 1, 2, 2, 2]
    vectors = [centres[label] + 0.8 * rng.normal(size=8) for label in labels]
    judge = EmbeddingJudge(threshold=threshold)
    records = [
        judge.compare(judge.read([v[None]], "x"), label) for v, label in zip(vectors, labels, strict=True)
    ]
    unit = [v / np.linalg.norm(v) for v in vectors]

    def share(level: float) -> float:
        same, other = [], []
        for i, j in itertools.combinations(range(len(labels)), 2):
            (same if labels[i] == labels[j] else other).append(float(unit[i] @ unit[j]) >= level)
        return (sum(same) / len(same) + 1 - sum(other) / len(other)) / 2

    levels = np.linspace(-1, 1, 4001) if threshold is None else [threshold]
    assert judge.figures(records)["verification"] == pytest.approx(max(map(share, levels)), abs=1e-15)


def test_embeddings_of_nothing_and_of_one_person() -> None:
    judge = EmbeddingJudge()
    dead = judge.read([np.full((1, 4), np.nan)], "x")
    assert judge.compare(dead, judge.read([np.ones((1, 4))], "x")).cosine == 0.0
    blank = judge.read([np.zeros((1, 4))], "x")
    records = [judge.compare(blank, blank), judge.compare(alike := judge.read([np.ones((1, 4))], "x"), alike)]
    assert judge.figures(records)["cosine"] == pytest.approx(1.0), "what is zero in both tells nothing"
    assert judge.figures(records[:1]) == {}
    alone = [judge.compare(judge.read([random(seed, 1, 4)], "x"), 0) for seed in range(3)]
    assert judge.figures(alone) == {}


# --- lines


def test_greedy_lines() -> None:
    steps = np.eye(4, dtype=np.float32)
    said = steps[[0, 1, 1, 0, 1, 2, 2, 3, 0]]
    assert greedy_line(said, 0) == (1, 1, 2, 3)
    assert greedy_line(said, -1) == (0, 1, 0, 1, 2, 0)


@pytest.mark.parametrize("shape", [(1, 12, 7), (12, 1, 7), (1, 1, 12, 7)])
def test_any_order_of_axes_and_the_blank_is_found(shape: tuple[int, ...]) -> None:
    best = np.array([6, 6, 6, 2, 6, 6, 3, 3, 6, 6, 6, 1])
    scores = np.full((12, 7), -5.0, np.float32)
    scores[np.arange(12), best] = 3.0
    judge = find_ctc(["text"], [scores.reshape(shape)])
    assert judge.blank == -1
    assert judge.read([scores.reshape(shape)], "a") == (2, 3, 1)


def test_the_blank_is_the_more_frequent_of_the_first_and_the_last() -> None:
    """The first one where they come equally often, as most models have it there."""
    steps = np.eye(4, dtype=np.float32)[None]
    for said, blank in (([0, 1, 0, 3], 0), ([3, 1, 3, 0], -1), ([0, 1, 3, 2], 0), ([1, 3, 2, 1], -1)):
        assert find_ctc(["t"], [steps[:, said]]).blank == blank
    with pytest.raises(UsageError, match="neither its first nor its last"):
        find_ctc(["t"], [steps[:, [1, 2, 1]]])


def test_edit_distance_and_figures() -> None:
    assert edit_distance((1, 2, 3), (1, 3)) == 1
    assert edit_distance((), (1, 3)) == 2
    assert edit_distance((1, 2, 3, 4), (2, 1, 4, 4, 4)) == slow_distance((1, 2, 3, 4), (2, 1, 4, 4, 4))
    rng = np.random.default_rng(3)
    for _ in range(30):
        left, right = (tuple(rng.integers(0, 4, rng.integers(0, 6)).tolist()) for _ in range(2))
        assert edit_distance(left, right) == slow_distance(left, right)
    judge = find_ctc(["t"], [np.eye(3, dtype=np.float32)[None, [0, 1, 0]]])
    records = [judge.compare((1, 2), (1, 2)), judge.compare((1,), (1, 2)), judge.compare((), ())]
    assert judge.figures(records) == {"lines": pytest.approx(2 / 3), "character_error": 0.25}


def slow_distance(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    if not left or not right:
        return len(left) + len(right)
    return min(
        slow_distance(left[1:], right) + 1,
        slow_distance(left, right[1:]) + 1,
        slow_distance(left[1:], right[1:]) + (left[0] != right[0]),
    )


def test_numbers_of_characters_need_no_scores() -> None:
    for kind in (np.int64, np.float32):
        numbers = np.array([[0, 0, 5, 5, 0, 5, 2]], kind)
        assert find_ctc(["text"], [numbers]).read([numbers], "a") == (5, 5, 2)


# --- classes


def test_classes() -> None:
    judge = find_class_judge(["boxes", "logits"], [random(0, 1, 9, 4), random(0, 1, 9)])
    assert judge.output == 1
    scores = np.array([[0.0, 3, 3, 1, 2, -1, 5, -2, -3]], np.float32)
    answer = judge.read([random(0, 1, 9, 4), scores], "a")
    assert answer == (6, 1, 2, 4, 3)
    records = [judge.compare(answer, ClassTruth(number)) for number in (6, 2, 0)]
    assert judge.figures(records) == {"top1": pytest.approx(1 / 3), "top5": pytest.approx(2 / 3)}
    assert judge.figures([judge.compare(answer, judge.as_truth(answer))]) == {"agreement": 1.0}


# --- a judge of one's own


def test_own_judge() -> None:
    arrays = [np.ones((1, 3))]
    assert own_score(lambda a, b: np.float32(np.sum(a[0] * b[0])), arrays, arrays, "x") == 3.0
    assert own_figures([1.0, 0.25]) == {"score": 0.625, "least_score": 0.25}

    def spoils(a: Any, b: Any) -> float:
        a[0][:] = b[0][:] = 7
        return 1

    own_score(spoils, arrays, arrays, "x")
    assert (arrays[0] == 1).all()


def failing(a: Any, b: Any) -> float:
    raise KeyError("boxes")


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (failing, r"cat\.png: the judge raised KeyError \('boxes'\)"),
        (lambda a, b: float("nan"), r"cat\.png: the judge returned nan"),
        (lambda a, b: -np.inf, "returned -inf"),
        (lambda a, b: None, "returned None, which is not a number"),
        (lambda a, b: "good", "returned a str, which is not a number"),
        (lambda a, b: np.zeros(3), r"an array of shape \[3\]"),
        (lambda a: 1.0, "the judge raised TypeError"),
    ],
)
def test_own_judges_that_fail(judge: Callable[..., Any], why: str) -> None:
    with pytest.raises(DataError, match=why):
        own_score(judge, [np.zeros((1, 2))], [np.zeros((1, 2))], "cat.png")
    with pytest.raises(UsageError, match="a str is not a function"):
        check_own_judge("mine")


# --- outputs that fit no task


@pytest.mark.parametrize(
    ("task", "outputs", "why"),
    [
        ("segment", [random(0, 1, 10)], "none has scores of pixels"),
        ("embed", [random(0, 1, 3, 8, 8)], "none is one row of numbers"),
        ("ctc", [random(0, 1, 10)], "none has scores of characters"),
        ("keypoints", [random(0, 1, 11)], "none is known to hold points"),
        ("classify", [random(0, 1, 3, 8, 8)], "none is a row of class scores"),
        ("detect", [random(0, 1, 10)], "no decoding of boxes is known"),
        ("fly", [random(0, 1, 10)], "unknown task"),
    ],
)
def test_outputs_that_fit_no_task_are_listed(task: str, outputs: list[Any], why: str) -> None:
    feeds = {"image": random(1, 1, 3, 32, 32)}
    with pytest.raises(UsageError, match=why) as caught:
        find_judge(task, ["first"], outputs, feeds)
    if task != "fly":
        assert "outputs first 1×" in str(caught.value)


def test_the_samples_of_a_batch() -> None:
    first, second = split_samples([random(0, 2, 3), random(1, 2, 4, 4)], ["a", "b"])
    assert (second[1] == random(1, 2, 4, 4)[1:]).all() and first[0].shape == (1, 3)
    with pytest.raises(DataError, match=r"shape \[5, 2\] cannot be told apart by the 2 samples"):
        split_samples([random(0, 5, 2)], ["a", "b"])
    [alone] = split_samples([random(0, 5, 2)], ["a"])
    assert alone[0].shape == (5, 2)


# --- what no judge can be, or no output


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: CtcJudge(blank="a"), "blank: is of type str ('a'), not a whole number"),
        (lambda: CtcJudge(characters=("a", 3)), "holds a value that is of type int (3)"),
        (lambda: EmbeddingJudge("y"), "output: is of type str ('y'), not a whole number"),
        (lambda: MaskJudge(None), "head: is a NoneType, not a MaskHead. Give such as MaskJudge(MaskHead(…))"),
        (lambda: KeypointJudge(MaskHead()), "head: is a MaskHead, not a PointHead"),
        (lambda: DetectionJudge("columns"), "head: is a str, not a DetectionHead"),
        (lambda: MaskHead(0, axis=9), "MaskHead(axis=9): is none of the 3 axes behind the batch"),
        (lambda: PointHead("zebra"), "layout zebra: is unknown. Use one of columns, maps, coordinates"),
        (lambda: PointHead("columns", each=0), "PointHead(each=0): are too few for a point"),
        (lambda: KeypointJudge(PointHead("maps"), sigmas=(0.1, 0.0)), "are [0.1, 0.0], not all above 0"),
        (lambda: Purpose(EmbeddingJudge), "task: is the class EmbeddingJudge, not a judge"),
    ],
)  # fmt: skip
def test_judges_that_cannot_be(make: Callable[..., Any], why: str) -> None:
    with pytest.raises(UsageError) as refused:
        make()
    assert why in str(refused.value)


STEPS = random(0, 1, 8, 20)
POSE = np.abs(random(0, 1, 20, 84))


@pytest.mark.parametrize(
    ("judge", "output", "why"),
    [
        (CtcJudge(blank=99), STEPS, "the output has 20 characters, and no number 99 for the blank"),
        (CtcJudge(blank=-21), STEPS, "the output has 20 characters, and no number -21 for the blank"),
        (CtcJudge(characters=tuple("abc")), STEPS, "the output has 20 characters, and the CtcJudge has 3"),
        (CtcJudge(output=3), STEPS, "the model has 1 output, and no number 3"),
        (EmbeddingJudge(output=-2), STEPS, "the model has 1 output, and no number -2"),
        (ClassJudge(output=3), STEPS, "the model has 1 output, and no number 3"),
        (MaskJudge(MaskHead(3)), STEPS, "the model has 1 output, and no number 3"),
        (KeypointJudge(PointHead("maps", 3)), STEPS, "the model has 1 output, and no number 3"),
        (
            KeypointJudge(PointHead("columns", 0, 3, size=(64, 64)), sigmas=(0.1, 0.2)), POSE,
            "sigmas: are 2 for 5 points",
        ),
    ],
)  # fmt: skip
def test_outputs_that_a_judge_does_not_fit(judge: Any, output: Any, why: str) -> None:
    with pytest.raises(DataError) as refused:
        answer = judge.read([output], "a.png")
        judge.compare(answer, judge.as_truth(answer))
    assert why in str(refused.value)


def test_a_text_stands_for_its_characters_and_the_blank_counts_from_both_ends() -> None:
    judge = CtcJudge(blank=-20, characters="-abcdefghijklmnopqrs")  # type: ignore[arg-type]
    assert judge.read([STEPS], "a") == CtcJudge().read([STEPS], "a") and judge.line("abs", "a") == (1, 2, 19)
