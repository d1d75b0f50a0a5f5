"""Parts of a dataset: every sample in exactly one, as even as can be, batches kept whole."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.data.opening import open_dataset
from calib8.data.shards import Shard, one_shard
from calib8.errors import UsageError
from calib8.tensors import TensorSpec

FREE = (TensorSpec("x", np.dtype(np.float32), ("N", 2)),)
BY_THREE = (TensorSpec("x", np.dtype(np.float32), (3, 2)),)


def arrays(rows: int) -> dict[str, np.ndarray]:
    return {"x": np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)}


@pytest.mark.parametrize("rows", [1, 7, 12])
@pytest.mark.parametrize("total", [1, 2, 3, 7])
def test_every_sample_lies_in_exactly_one_shard_and_they_are_even(rows: int, total: int) -> None:
    dataset = open_dataset(arrays(rows), FREE, None)
    shards = [Shard(index, total) for index in range(1, min(total, rows) + 1)]
    parts = [one_shard(dataset, shard) for shard in shards]
    names = [[sample.name for sample in part] for part in parts]
    assert sorted(name for part in names for name in part) == sorted(sample.name for sample in dataset)
    assert [part.count for part in parts] == [len(part) for part in names]
    assert max(map(len, names)) - min(map(len, names)) <= 1
    assert all(part == sorted(part, key=lambda name: int(name[7:-1])) for part in names)


def test_the_rows_of_a_fixed_batch_stay_together() -> None:
    dataset = open_dataset(arrays(12), BY_THREE, None)
    found = [[sample.name for sample in one_shard(dataset, Shard(index, 2))] for index in (1, 2)]
    numbers = [[int(name[7:-1]) for name in part] for part in found]
    assert numbers == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]


def test_an_iterable_of_unknown_length_is_split_while_it_is_read() -> None:
    dataset = open_dataset(lambda: ({"x": np.full((1, 2), k, np.float32)} for k in range(5)), FREE, None)
    part = one_shard(dataset, Shard(2, 2))
    assert part.count is None
    assert [sample.name for sample in part] == ["sample 1", "sample 3"]


def test_too_many_shards_are_refused_with_the_number_that_fits() -> None:
    dataset = open_dataset(arrays(5), BY_THREE, None)
    assert one_shard(dataset, Shard(2, 2)).count == 2
    with pytest.raises(UsageError, match=r"none of them in shard 3/3\. Make at most 2 shards"):
        one_shard(dataset, Shard(3, 3))


@pytest.mark.parametrize("text", ["0/3", "4/3", "1/0", "1", "1/2/3", "-1/2", "a/b", "", "1 / 2", "٣/٤"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(UsageError, match="shard"):
        Shard.from_text(text)


def test_a_shard_reads_what_it_prints() -> None:
    assert Shard.from_text(str(Shard(2, 14))) == Shard(2, 14)
