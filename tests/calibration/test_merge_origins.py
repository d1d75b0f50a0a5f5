"""Parts from machines that compute other bits, and parts that share samples: told, or taken as asked."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calib8 import _core
from calib8.calibration.merge import merge_statistics
from calib8.calibration.origin import Origin, this_origin
from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.errors import CalibrationError, TableError

HERE, OLDER, NEWER = Origin("cpu a", "1.9"), Origin("cpu b", "1.9"), Origin("cpu a", "2.0")


def part(seed: int, *origins: Origin, digests: str = "") -> Statistics:
    values = np.random.default_rng(seed).standard_normal((2, 30)).astype(np.float32)
    known = tuple(sorted(letter.encode() * 16 for letter in digests))
    return Statistics("m", {"t": TensorStatistics.from_values(values, 2)}, None, origins, known)


@pytest.mark.parametrize("other", [OLDER, NEWER])
def test_another_cpu_type_or_runtime_is_refused_unless_mixed(tmp_path: Path, other: Origin) -> None:
    part(1, other).save(tmp_path / "b.npz")
    parts = [part(0, HERE), tmp_path / "b.npz"]
    with pytest.raises(
        TableError, match=rf"b\.npz: was gathered on {other}, .* on {HERE}: .*mixed=True takes them"
    ):
        merge_statistics(parts)
    with pytest.raises(CalibrationError, match=rf"gathered on .*{other}.*, which compute other last bits"):
        part(0, HERE).merge(part(1, other))
    merged = merge_statistics(parts, mixed=True)
    assert merged.origins == tuple(sorted((HERE, other)))
    with pytest.raises(TableError, match="statistics 2: was gathered on"):
        merge_statistics([part(2, HERE), merged])
    with pytest.raises(TableError, match="statistics 2: was gathered on"):
        merge_statistics([merged, part(2)])


def test_parts_of_unknown_origin_go_with_any_in_every_order() -> None:
    parts = [part(0, HERE), part(1), part(2, HERE)]
    found = {merge_statistics(order).to_bytes() for order in itertools.permutations(parts)}
    assert len(found) == 1
    assert Statistics.from_bytes(found.pop()).origins == (HERE,)
    mixed = [part(0, NEWER), part(1, OLDER), part(2, HERE)]
    assert len({merge_statistics(o, mixed=True).to_bytes() for o in itertools.permutations(mixed)}) == 1


def test_the_origin_names_this_machine_and_no_choice_of_it() -> None:
    import onnxruntime

    found = this_origin()
    assert found == this_origin() and found.runtime == onnxruntime.__version__
    assert found.cpu.split()[0] in ("x86_64", "aarch64", "other")
    if "avx512" in _core.available_isas():
        assert found.cpu == "x86_64 avx512f"


def test_samples_of_two_parts_are_told_and_counted_twice_only_if_asked(tmp_path: Path) -> None:
    first, second = part(0, digests="abb"), part(1, digests="bc")
    first.save(tmp_path / "first.npz")
    first.save(tmp_path / "copy.npz")
    copies = [tmp_path / "first.npz", tmp_path / "copy.npz"]
    with pytest.raises(
        TableError, match=r"copy\.npz: holds 2 samples that .*first\.npz holds too, which would"
    ):
        merge_statistics(copies)
    with pytest.raises(
        TableError, match=r"statistics 2: holds 1 sample that statistics 1 holds too.*repeated=True"
    ):
        merge_statistics([first, second])
    counted = merge_statistics([*copies, second], repeated=True)
    assert counted.samples == 6 and counted.digests == tuple(c.encode() * 16 for c in "aabbbbbc")
    apart = merge_statistics([first, part(1, digests="cd"), part(2)])
    assert apart.digests == tuple(c.encode() * 16 for c in "abbcd")


def test_equal_parts_that_know_no_samples_are_told() -> None:
    with pytest.raises(TableError, match="statistics 3: equals statistics 1, which would count twice"):
        merge_statistics([part(0), part(1), replace(part(0))])
    assert merge_statistics([part(0), part(0)], repeated=True).samples == 4
    empty = Statistics("m", {"t": TensorStatistics.empty()})
    assert merge_statistics([empty, empty, part(0)]).to_bytes() == part(0).to_bytes()


def test_the_instruction_set_of_the_kernels_is_no_part_of_the_origin() -> None:
    script = "from calib8 import _core; print(_core.isa(), _core.cpu_type())"
    told = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "CALIB8_ISA": "reference"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.split(" ", 1) == ["reference", f"{this_origin().cpu}\n"]
