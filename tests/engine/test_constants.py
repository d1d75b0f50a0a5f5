"""The constants of a plan while it grows."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.engine.emitter import LEAST_ROOM, Constants


@pytest.mark.parametrize("expected", [0, 10 * LEAST_ROOM])
def test_what_was_written_stays_where_it_was(expected: int) -> None:
    """However often there is too little room."""
    constants, rng = Constants(expected), np.random.default_rng(0)
    written = []
    for size in (1, 64, 65, 0, LEAST_ROOM, 3, 5 * LEAST_ROOM, 100):
        offset, memory = constants.room(size)
        assert offset % 64 == 0 and memory.shape == (size,) and not memory.any()
        memory[:] = rng.integers(1, 256, size)
        written.append((offset, memory.copy()))
    whole = constants.whole()
    assert whole.ctypes.data % 64 == 0 and whole.size % 64 == 0 and not whole[-64:].any()
    for offset, content in written:
        np.testing.assert_array_equal(whole[offset : offset + content.size], content)
    assert int(np.count_nonzero(whole)) == sum(content.size for _, content in written)
