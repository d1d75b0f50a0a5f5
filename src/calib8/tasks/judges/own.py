"""A judge that the user has written: a Python function of the outputs of both models.

    score = judge(outputs_float, outputs_int8)      one call per sample; higher is better

Both are lists of arrays, all outputs in the order of the model, with a batch axis of length 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.tasks.judges.interface import Array, mean
from calib8.type_texts import a_type

OwnJudge: TypeAlias = "Callable[[list[Array], list[Array]], float]"


def check_own_judge(judge: object) -> None:
    """Refuses what cannot be called.

    Raises:
        UsageError: it is no function.
    """
    if not callable(judge):
        problem = f"{a_type(judge)} is not a function"
        raise UsageError("judge", problem, "Give a function (outputs_float, outputs_int8) -> score")


def own_score(judge: OwnJudge, expected: Sequence[Array], outputs: Sequence[Array], name: str) -> float:
    """What the user's function says of one sample.

    Raises:
        DataError: it raises, or returns what is no finite number; ``name`` is the subject.
    """
    try:
        found: object = judge([one.copy() for one in expected], [one.copy() for one in outputs])
    except Exception as error:  # whatever a function of the user may raise
        problem = f"the judge raised {type(error).__name__} ({error})"
        raise DataError(name, problem, "Mend the function") from error
    number = np.asarray(found) if isinstance(found, int | float | np.generic | np.ndarray) else np.empty(0)
    if number.size != 1 or number.dtype.kind not in "buif":
        problem = f"the judge returned {_shown(found)}, which is not a number"
        raise DataError(name, problem, "Return one number, higher for better")
    score = float(number.reshape(()))
    if not math.isfinite(score):
        raise DataError(name, f"the judge returned {score}", "Return a finite number, higher for better")
    return score


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {list(value.shape)}"
    return "None" if value is None else f"{a_type(value)}"


def own_figures(scores: Sequence[float]) -> dict[str, float]:
    """``score``, the mean, and ``least_score``."""
    centre = mean(scores)
    return {} if centre is None else {"score": centre, "least_score": min(scores)}
