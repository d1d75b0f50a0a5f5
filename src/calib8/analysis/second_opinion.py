"""What a classifier says of its inputs: is it surer of its classes when they are prepared in another way?

``calib8.data.channel_order`` says when it is clearly surer. Two other ways are tried: red and blue exchanged;
and where inputs lie in 0 … 1 the mean and deviation of ImageNet, (x − m) / s. As more contrast alone makes
many networks surer, rightly or not, the latter has to win against x / s too. On networks for photographs and
for CIFAR-10 that are fed as they were trained, 32 samples give t of 0.1 at most in one of the comparisons;
where the preparation is wrong t goes up to 7, or shows nothing either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.analysis.evaluate import FEW_CLASSES, best_classes, class_scores
from calib8.data.batches import Batch
from calib8.data.channel_order import FEWEST_SAMPLES, clearly_surer, colour_axis, reversed_channels
from calib8.data.channel_order import entropies as class_entropies
from calib8.data.preprocess import Preprocess
from calib8.model.runtime import Arrays, Session

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)
"""Of pixels 0 … 1 in the order of RGB."""

Vector = npt.NDArray[np.float64]
Change = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


@dataclass(frozen=True)
class _Sure:
    """How sure the model is of every sample, and how many of the labels it gives.

    Attributes:
        entropy: float64 [samples], in nats.
        hits: labelled samples whose best class is the label.
    """

    entropy: Vector
    hits: int


def second_opinion(session: Session, pieces: Sequence[Batch], p: Preprocess | None) -> Iterator[str]:
    """What to say where the model would rather be fed in another way; nothing where nothing says so.

    Args:
        session: the float model.
        pieces: the samples as they are fed.
        p: what images went through; None for arrays.

    Raises:
        DataError: the model cannot be run.
    """
    axis = _colour_axis(pieces[0].inputs, p) if pieces else None
    if axis is None or not are_pictures(pieces, p):
        return
    fed = _sure(session, pieces, lambda values: values)
    if fed is None:
        return
    exchanged = _sure(session, pieces, lambda values: reversed_channels(values, axis))
    if exchanged is not None and _surer(exchanged, fed):
        yield (
            f"the model is surer of its classes with red and blue exchanged ({_shown(fed, exchanged)}): the "
            f"channels are probably in the wrong order. {_exchange(p, axis)}"
        )
    if not all(_in_unit(array) for piece in pieces for array in piece.inputs.values()):
        return
    shape = (3, 1, 1) if axis == 1 else (3,)
    mean, std = (
        np.array(numbers if p is None or p.color == "rgb" else numbers[::-1], np.float32).reshape(shape)
        for numbers in (IMAGENET_MEAN, IMAGENET_STD)
    )
    centred = _sure(session, pieces, lambda values: (values - mean) / std)
    steeper = _sure(session, pieces, lambda values: values / std)
    if centred is None or steeper is None or not (_surer(centred, fed) and _surer(centred, steeper)):
        return
    yield (
        "the inputs lie in 0 … 1, and the model is surer of its classes when mean and standard deviation of "
        f"ImageNet are taken off them ({_shown(fed, centred)}). {_normalize(p)}"
    )


def are_pictures(pieces: Sequence[Batch], p: Preprocess | None) -> bool:
    """Whether these are enough samples for one float input of color or gray images to say something."""
    if sum(len(piece.names) for piece in pieces) < FEWEST_SAMPLES or len(pieces[0].inputs) != 1:
        return False
    [values] = pieces[0].inputs.values()
    gray = values.ndim == 4 and 1 in (values.shape[-3], values.shape[-1])
    return values.dtype.kind == "f" and (gray or _colour_axis(pieces[0].inputs, p) is not None)


def _surer(other: _Sure, fed: _Sure) -> bool:
    """Whether the other way is better beyond doubt, and gives no fewer of the labels."""
    return clearly_surer(fed.entropy, other.entropy) and other.hits >= fed.hits


def _shown(fed: _Sure, other: _Sure) -> str:
    return f"entropy {fed.entropy.mean():.2f} → {other.entropy.mean():.2f}"


def _in_unit(values: npt.NDArray[np.generic]) -> bool:
    return bool(values.min() >= 0.0 and values.max() <= 1.0)


def _colour_axis(inputs: Arrays, p: Preprocess | None) -> int | None:
    """The axis of red, green and blue of the only input, 1 or 3; None where there is none."""
    [values] = inputs.values() if len(inputs) == 1 else [None]
    if values is None or values.dtype.kind != "f" or values.ndim != 4:
        return None
    if p is None:
        return colour_axis(values.shape)
    found = 3 if p.layout == "NHWC" else 1
    return found if p.channels == values.shape[found] == 3 else None


def _sure(session: Session, pieces: Sequence[Batch], change: Change) -> _Sure | None:
    """With changed inputs; None where the first output is no row of scores of many classes."""
    entropies, hits = list[Vector](), 0
    for piece in pieces:
        feeds = {name: np.ascontiguousarray(change(array)) for name, array in piece.inputs.items()}
        scores = class_scores(session.run(feeds)[0])
        if scores is None or scores.shape[1] < FEW_CLASSES or len(scores) != len(piece.labels):
            return None
        entropies.append(class_entropies(scores))
        best = best_classes(scores, 1)[:, 0]
        hits += sum(label == int(first) for label, first in zip(piece.labels, best, strict=True))
    return _Sure(np.concatenate(entropies), hits)


def _exchange(p: Preprocess | None, axis: int) -> str:
    if p is None:
        code = "array[:, ::-1]" if axis == 1 else "array[..., ::-1]"
        return f"Give {code}, or see how the model was trained"
    other = "rgb" if p.color == "bgr" else "bgr"
    return f"Give --color {other} and the mean in that order, or see how the model was trained"


def _normalize(p: Preprocess | None) -> str:
    mean, std = (",".join(map(str, numbers)) for numbers in (IMAGENET_MEAN, IMAGENET_STD))
    if p is None:
        return f"Give (array - mean) / std, mean {mean}, std {std}, or see how the model was trained"
    return f"Give --mean {mean} --std {std}, or see how the model was trained"
