"""The same pictures in a folder, in tar shards, in Parquet files and in a store, for tests."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from calib8.data.preprocess import Preprocess
from calib8.tensors import TensorSpec
from needed import needed
from small_models import normal, onnx_model

COUNT = 10
INPUT = [TensorSpec("x", np.dtype(np.float32), ("N", 3, 5, 6))]
RECIPE = Preprocess(mean=(0.0,), scale=(1.0,))
PIXELS = np.random.default_rng(7).integers(0, 256, (COUNT, 5, 6, 3), np.uint8)
KEYS = [f"{'cat' if number < 4 else 'dog'}/{number:03}" for number in range(COUNT)]
CLASSES = [int(key.startswith("dog")) for key in KEYS]


def png(pixels: Any) -> bytes:
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, "PNG")
    return held.getvalue()


ENCODED = [png(each) for each in PIXELS]


def model() -> Any:
    return onnx_model("float[N,3,5,6] x", "float[N,2,5,6] y", "y = Conv(x, w)", {"w": normal(2, 3, 1, 1)})


def tar(members: Mapping[str, bytes] | Iterable[tuple[str, bytes]], mode: Any = "w") -> bytes:
    """An archive of members in this order."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as archive:
        for name, content in members.items() if isinstance(members, Mapping) else members:
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return held.getvalue()


def members(numbers: Iterable[int]) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for number in numbers:
        parts = {"png": ENCODED[number], "cls": str(CLASSES[number]).encode(), "json": b'{"a": 1}'}
        found += [(f"{KEYS[number]}.{suffix}", content) for suffix, content in parts.items()]
    return found


def folder(place: Path) -> Path:
    for key, content in zip(KEYS, ENCODED, strict=True):
        (place / key).parent.mkdir(parents=True, exist_ok=True)
        (place / f"{key}.png").write_bytes(content)
    return place


def shards(place: Path, suffix: str = ".tar") -> Path:
    """Three shards, of 4, 3 and 3 samples."""
    place.mkdir(parents=True, exist_ok=True)
    mode = "w" if suffix == ".tar" else "w:gz"
    for shard, numbers in enumerate((range(4), range(4, 7), range(7, COUNT))):
        (place / f"train-{shard:03}{suffix}").write_bytes(tar(members(numbers), mode))
    return place


def table(numbers: Iterable[int], struct: bool = False) -> Any:
    pyarrow = needed("pyarrow")
    images = [
        {"bytes": ENCODED[number], "path": f"{number}.png"} if struct else ENCODED[number]
        for number in numbers
    ]
    columns = {"image": images, "label": [CLASSES[number] for number in numbers]}
    return pyarrow.table(columns | {"caption": [KEYS[number] for number in numbers]})


def parquet(place: Path, struct: bool = False) -> Path:
    """Two files, of 6 rows in three groups and of 4 rows."""
    needed("pyarrow")
    from pyarrow import parquet as files

    place.mkdir(parents=True, exist_ok=True)
    files.write_table(table(range(6), struct), place / "part-0.parquet", row_group_size=2)
    files.write_table(table(range(6, COUNT), struct), place / "part-1.parquet")
    return place
