"""ONNX files with plans, as calib8 exports them and as somebody else may have written them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import calib8
from calib8.delivery.exporting import Export
from small_nets import clean

Array = np.ndarray[Any, np.dtype[Any]]


def exported(name: str, folder: Path, target: str = "calib8", **words: Any) -> tuple[Path, Path, Export]:
    """A network of ``small_nets`` in int8, the file of its plans, and what export says of it."""
    model, plans = folder / f"{name}.int8.onnx", folder / f"{name}.onnx"
    onnx.save(clean(name, target), model)
    return model, plans, calib8.export(model, plans, "epcontext", **words)


def feeds_of(session: Any, samples: int = 1, seed: int = 0) -> dict[str, Array]:
    """Numbers for the inputs of a session, ours or ONNX Runtime's; free sizes become ``samples``."""
    random, feeds = np.random.default_rng(seed), {}
    for one in session.get_inputs():
        shape = [size if isinstance(size, int) else samples for size in one.shape]
        kind = {"float": "float32", "double": "float64"}.get(one.type[7:-1], one.type[7:-1])
        dtype = np.dtype(kind)
        values = random.normal(size=shape) * (1 if dtype.kind == "f" else 40)
        feeds[one.name] = (values.astype(np.int64) if dtype.kind in "iu" else values).astype(dtype)
    if "lengths" in feeds:  # of the sequences in the first input, beyond which a run is refused
        most = len(next(iter(feeds.values())))
        feeds["lengths"] = random.integers(0, most + 1, feeds["lengths"].shape).astype(np.int32)
    return feeds


def assert_same_bits(given: list[Array], wanted: list[Array]) -> None:
    assert [one.shape for one in given] == [one.shape for one in wanted]
    assert [one.dtype for one in given] == [one.dtype for one in wanted]
    assert [one.tobytes() for one in given] == [one.tobytes() for one in wanted]


def changed(path: Path, change: Callable[[onnx.ModelProto, onnx.NodeProto], None]) -> Path:
    """A copy of a file with plans, in which its first such node, or what is around it, is another."""
    model = onnx.load(path)
    change(model, next(node for node in model.graph.node if node.op_type == "EPContext"))
    other = path.with_name(f"changed_{path.name}")
    onnx.save(model, other)
    return other


def attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto:
    """To be read or changed."""
    return next(one for one in node.attribute if one.name == name)
