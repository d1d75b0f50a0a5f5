"""Which output a judge reads: the one that the graph or the user is surest of, not the first that fits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import calib8
from calib8.errors import UsageError
from calib8.tasks.branches import Branch, Meaning, Piece, Sureness
from calib8.tasks.judges.find import find_judge
from calib8.tasks.kinds import Kind
from small_models import Array, normal, onnx_model

FED = {"x": np.zeros((1, 3, 64, 64), np.float32)}
SHAPES: dict[str, tuple[Kind, tuple[int, ...]]] = {
    "segment": ("map", (1, 3, 32, 32)),
    "embed": ("embedding", (1, 64)),
    "ctc": ("ctc", (1, 12, 9)),
    "classify": ("logits", (1, 5)),
    "keypoints": ("keypoints", (1, 17, 3)),
}


def outputs(task: str) -> list[Array]:
    arrays = [np.random.default_rng(seed).uniform(0.1, 0.9, SHAPES[task][1]) for seed in range(3)]
    for array in arrays:
        array[..., 0] += 1.0
    return [array.astype(np.float32) for array in arrays]


def meaning(*told: tuple[Kind, Sureness]) -> Meaning:
    return Meaning(
        tuple(Branch(f"o{k}", kind, (Piece(f"o{k}", k),), sure, "") for k, (kind, sure) in enumerate(told))
    )


def read(task: str, told: Meaning | None) -> int:
    judge = find_judge(task, ["o0", "o1", "o2"], outputs(task), FED, told)
    return int(judge.head.output if hasattr(judge, "head") else judge.output)  # type: ignore[attr-defined]


@pytest.mark.parametrize("task", SHAPES)
def test_the_surest_output_is_read(task: str) -> None:
    kind = SHAPES[task][0]
    assert read(task, None) == 0
    assert read(task, meaning(("other", "guessed"), (kind, "likely"), ("other", "guessed"))) == 1
    assert read(task, meaning((kind, "guessed"), (kind, "likely"), (kind, "named"))) == 2
    assert read(task, meaning(("unused", "named"), ("other", "guessed"), ("other", "guessed"))) == 1
    with pytest.raises(UsageError, match="o0, o2 all are of it, and one is judged") as refused:
        read(task, meaning((kind, "likely"), (kind, "guessed"), (kind, "likely")))
    assert "branches={'o2': 'unused'}" in str(refused.value)


def test_of_two_heads_the_user_says_which_one(tmp_path: Path) -> None:
    body = "g = GlobalAveragePool(x) f = Flatten(g) age = Gemm(f, wa) kind = Gemm(f, wk)"
    constants = {"wa": normal(4, 7), "wk": normal(4, 3, seed=1)}
    net = onnx_model("float[N,4,6,6] x", "float[N,7] age, float[N,3] kind", body, constants)
    onnx.save(net, tmp_path / "net.onnx")
    wrong = onnx.ModelProto()
    wrong.CopyFrom(net)
    for one in wrong.graph.initializer:
        if one.name == "wk":
            one.CopyFrom(onnx.numpy_helper.from_array(-normal(4, 3, seed=1), "wk"))
    wrong.graph.node.append(onnx.helper.make_node("QuantizeLinear", ["kind", "s"], ["codes"]))
    wrong.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1), "s"))
    onnx.save(wrong, tmp_path / "wrong.onnx")
    data = [{"x": normal(1, 4, 6, 6, seed=seed)} for seed in range(12)]
    pair = [tmp_path / "net.onnx", tmp_path / "wrong.onnx"]
    with pytest.raises(UsageError, match="age, kind all are of it"):
        calib8.evaluate(pair, data, task="classify", threads=1)
    for name, other, low in (("kind", "age", True), ("age", "kind", False)):
        found = calib8.evaluate(pair, data, task="classify", branches={other: "unused"}, threads=1)[1].task
        assert found is not None and (found.against_float["agreement"] < 1.0) == low, name
