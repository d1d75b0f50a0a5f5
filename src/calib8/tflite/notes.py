"""What to tell of a TFLite model that leaves sizes free: those of its file are taken."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from calib8.parameters import Text, parameter
from calib8.tflite.magic import claims_to_be_tflite
from calib8.tflite.read import read_tflite
from calib8.tflite.resize import sizes_taken


def notes_on_sizes(
    model: str | os.PathLike[str], shapes: Mapping[str, Sequence[int]] | None, batch: int | None = None
) -> tuple[str, ...]:
    """A sentence per input whose free sizes are those of the file; none for other models.

    Args:
        model: path of any model.
        shapes: input name → sizes that were given.
        batch: what a free batch is; None: as in the file.

    Raises:
        ModelError: a TFLite model that is damaged.
    """
    if not claims_to_be_tflite(model):
        return ()
    taken = sizes_taken(read_tflite(model), shapes or {}, batch)
    return tuple(Text(f"{sentence}. Others: {parameter('shapes')}") for sentence in taken)
