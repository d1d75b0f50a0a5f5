"""What a float model says of the pictures it is fed: would it rather have them prepared in another way?

1. red and blue exchanged: ``calib8.analysis.colour_order``
2. its first normalization, if it has one, sees other values than in training
3. inputs in 0 … 1: the mean and deviation of ImageNet are missing, x in place of (x − m) / s

Where a normalization sees the input and fits, so do mean and scale, and the third is not asked. Else entropy
has to tell, and more contrast alone makes many networks surer, wrongly. So (x − m) / s has to win against x
and against x / s, and against twice the contrast, 2 (x − m) / s, which is surer still where contrast is all;
and its answers must not fall into few classes, as those of networks do that are fed what they never saw.
Small networks for CIFAR-10 that were trained on 0 … 1 fail in both: twice the contrast leaves 0.6 of that
entropy at most, and 7 to 10 classes become 1 to 5. Those that were trained on (x − m) / s often show nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.colour_order import picture_axis, red_and_blue_exchanged, samples
from calib8.analysis.evaluate import FEW_CLASSES
from calib8.analysis.sureness import Witness
from calib8.analysis.wrong_statistics import sees_the_input
from calib8.data.batches import Batch
from calib8.data.channel_order import FEWEST_SAMPLES, SURER, clearly_surer
from calib8.data.preprocess import Preprocess
from calib8.data.recipes import of_deviation
from calib8.model.runtime import Session
from calib8.parameters import Text, with_both
from calib8.repair.batch_norm_statistics import BatchNormDrift, first_batch_norm_drift

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)
"""Of pixels 0 … 1 in the order of RGB."""

AS_MANY: Final = 0.9
"""Part of the classes found as fed that must be left with mean and deviation: an image more or less."""


def second_opinion(
    model: ir.Model,
    pieces: Sequence[Batch],
    p: Preprocess | None,
    threads: int,
    *,
    session: Session | None = None,
    scores: Sequence[npt.NDArray[Any] | None] = (),
) -> Iterator[str]:
    """What to say where the model would rather be fed in another way; nothing where nothing says so.

    Args:
        model: the float model.
        pieces: the samples as they are fed; those that ``are_pictures`` says no to have nothing to tell.
        p: what images went through; None for arrays.
        threads: for ONNX Runtime.
        session: the model, where it is open already.
        scores: ``class_scores`` of its first output for every piece, where it has been run already.

    Raises:
        ModelError, DataError: the model cannot be run.
    """
    if not are_pictures(pieces, p):
        return
    runs = [piece.inputs for piece in pieces]
    first = first_batch_norm_drift(model, runs, threads)
    labels = [piece.labels for piece in pieces]
    witness = Witness(model, runs, threads, labels=labels, session=session, scores=scores)
    order = red_and_blue_exchanged(witness, first, p)
    if order is not None:
        yield Text(f"{order.text}: the channels are probably in the wrong order. {with_both(order.cure)}")
    elif first is not None and first.suspicious:
        yield _adrift(first, at_input=sees_the_input(model, first.name))
    elif first is None or not sees_the_input(model, first.name):
        yield from _imagenet_missing(witness, p)


def are_pictures(pieces: Sequence[Batch], p: Preprocess | None) -> bool:
    """Whether these are enough samples for one float input of color or gray images to say something."""
    if not pieces or len(pieces[0].inputs) != 1:
        return False
    [values] = pieces[0].inputs.values()
    gray = values.ndim == 4 and 1 in (values.shape[-3], values.shape[-1])
    if values.dtype.kind != "f" or not (gray or picture_axis(pieces[0].inputs, p) is not None):
        return False
    return samples([piece.inputs for piece in pieces]) >= FEWEST_SAMPLES


def _adrift(first: BatchNormDrift, *, at_input: bool) -> str:
    own = "" if at_input else ", and its own statistics,"
    return (
        f"the first normalization ({first.name}) sees other values than in training: its means are "
        f"{first.shift:.2f} standard deviations off, its spread is {first.ratio:.2f} times as large; "
        f"compare mean, scale and colour order{own} with those of the training"
    )


def _imagenet_missing(witness: Witness, p: Preprocess | None) -> Iterator[str]:
    axis = picture_axis(witness.runs[0], p)
    if axis is None or not all(_in_unit(array) for run in witness.runs for array in run.values()):
        return
    shape = (3, 1, 1) if axis == 1 else (3,)
    mean, std = (
        np.array(numbers if p is None or p.color == "rgb" else numbers[::-1], np.float32).reshape(shape)
        for numbers in (IMAGENET_MEAN, IMAGENET_STD)
    )
    found = witness.surer(lambda values: (values - mean) / std)
    if found is None:
        return
    fed, centred = found
    if fed.of < FEW_CLASSES or centred.classes < AS_MANY * fed.classes:
        return
    steeper = witness.sureness(lambda values: values / std)
    if steeper is None or not clearly_surer(steeper.entropy, centred.entropy):
        return
    doubled = witness.sureness(lambda values: 2 * (values - mean) / std)
    if doubled is None or centred.entropy.mean() > SURER * doubled.entropy.mean():
        return
    yield Text(
        "the inputs lie in 0 … 1, and the model is surer of its classes when mean and standard deviation of "
        f"ImageNet are taken off them (entropy {fed.entropy.mean():.2f} → {centred.entropy.mean():.2f}). "
        f"{_normalize(p)}"
    )


def _in_unit(values: npt.NDArray[np.generic]) -> bool:
    return bool(values.min() >= 0.0 and values.max() <= 1.0)


def _normalize(p: Preprocess | None) -> str:
    mean, std = (",".join(map(str, numbers)) for numbers in (IMAGENET_MEAN, IMAGENET_STD))
    if p is None:
        return f"Give (array - mean) / std, mean {mean}, std {std}, or see how the model was trained"
    recipe = of_deviation(np.array(IMAGENET_MEAN), np.array(IMAGENET_STD))
    return f"Give {recipe}, or see how the model was trained"
