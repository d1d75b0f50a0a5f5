"""tmfiles whose outputs nodes read; tables for files that have more tensors than the ONNX model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

import calib8
from calib8.cli import app
from calib8.delivery.exporting import export
from calib8.errors import TableError, UnsupportedModelError
from calib8.exporting.tmfile.codes import in_codes
from calib8.formats.convert import convert_table
from calib8.model.from_tmfile.translate import float_model
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.tmfile.graph import CONST, Graph, Tensor, made_for
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.write import write_tmfile
from coded_nets import met_by
from small_models import onnx_model
from tmfile_nets import CONV, Net

RNG = np.random.default_rng(30)
WEIGHTS = {
    "w": RNG.normal(size=(4, 3, 3, 3)).astype(np.float32),
    "v": RNG.normal(size=(4, 4, 1, 1)).astype(np.float32),
}
FIRST = "a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)"
NEXT = "y = Conv <kernel_shape = [1, 1]> (b, v)"

READ = onnx_model(
    "float[1, 3, 8, 8] x", "float[1, 4, 8, 8] a, float[1, 4, 8, 8] b, float[1, 4, 8, 8] y",
    f"{FIRST} c = Conv <kernel_shape = [1, 1]> (a, v) b = Relu (c) {NEXT}", WEIGHTS,
)  # fmt: skip
"""Two outputs that nodes read."""

PADDED = onnx_model(
    "float[1, 3, 8, 8] x", "float[1, 4, 8, 8] a, float[1, 4, 10, 11] y",
    f'{FIRST} b = Pad <mode = "edge"> (a, n) {NEXT}',
    WEIGHTS | {"n": np.array([0, 0, 1, 2, 0, 0, 1, 1])},
)  # fmt: skip


def placed(folder: Path, model: onnx.ModelProto) -> None:
    """The model, its float tmfile, and images."""
    onnx.save(model, folder / "net.onnx")
    np.savez(folder / "x.npz", x=RNG.normal(size=(8, 3, 8, 8)).astype(np.float32))
    export(folder / "net.onnx", folder / "net.tmfile", "tmfile")


def computed(graph: Graph) -> dict[str, float]:
    """Name → scale of what nodes compute."""
    return {one.name: float(one.quantization.scales[0]) for one in graph.tensors if one.role == "var"}


def quant(*words: object) -> Result:
    return CliRunner().invoke(app, ["tengine-quant", *map(str, words)])


def test_outputs_that_nodes_read_are_copied_at_the_end(tmp_path: Path) -> None:
    """Tengine gives their memory away when the last reader has run."""
    placed(tmp_path, READ)
    made = calib8.quantize(tmp_path / "net.onnx", tmp_path / "x.npz", target="tengine", repair=("none",))
    made.save(tmp_path / "int8.tmfile")
    graphs = [read_tmfile(tmp_path / name) for name in ("net.tmfile", "int8.tmfile")]
    for graph in graphs:
        ops = [node.op for node in graph.nodes if node.op not in (CONST, "InputOp")]
        assert ops == [*["Convolution"] * 3, "Concat", "Concat"]
        names = [graph.tensors[at].name for at in graph.output_tensors()]
        assert names == ["a/calib8_output", "c/calib8_output", "y"]
    x = {"x": RNG.normal(size=(1, 3, 8, 8)).astype(np.float32)}
    found, wanted = (open_session(one).run(x) for one in (float_model(graphs[0], "net"), load_model(READ)))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    scales = computed(graphs[1])
    assert (scales["a/calib8_output"], scales["c/calib8_output"]) == (scales["a"], scales["c"])
    result = calib8.compare(tmp_path / "net.onnx", tmp_path / "int8.tmfile", tmp_path / "x.npz")
    assert result.outputs.sqnr_db > 20


def test_a_file_whose_outputs_are_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Tengine's converter writes it, without copies."""
    monkeypatch.chdir(tmp_path)
    net, options = Net(), {**CONV, "output_channel": 4}
    first, second = (
        net.const(name, RNG.normal(size=(4, size, 3, 3)).astype(np.float32))
        for name, size in (("w", 3), ("v", 4))
    )
    x, image = net.input("x", (1, 3, 8, 8)), (1, 4, 8, 8)
    a = net.add(Tensor("a", image), "Convolution", (x, first), **options | {"input_channel": 3})
    net.add(Tensor("y", image), "Convolution", (a, second), **options | {"input_channel": 4})
    graph = net.graph()
    inner = next(at for at, node in enumerate(graph.nodes) if a in node.outputs)
    write_tmfile(replace(graph, outputs=(inner, *graph.outputs)), tmp_path / "net.tmfile")
    (tmp_path / "t.scale").write_text("x 0.02 0\na 0.05 0\ny 0.1 0\n")
    result = quant("-m", tmp_path / "net.tmfile", "-f", tmp_path / "t.scale", "-o", tmp_path / "o.tmfile")
    assert result.exit_code == 0, result.output
    assert "a: Tengine gives the memory of an output away" in " ".join(result.output.split())


def test_constants_without_a_code_are_refused() -> None:
    """Such as the −∞ of a Pad before a max pool."""
    coded = met_by(2, np.full((6, 1, 1), -np.inf, np.float32))
    floats = [replace(one, dtype="float32", quantization=None) for one in coded.tensors]
    graph = replace(coded, tensors=tuple(floats))
    live = {tensor.name: 0.02 for tensor in floats if tensor.role in ("var", "input")}
    with pytest.raises(UnsupportedModelError, match="the constant 'c' holds -inf, which has no code"):
        in_codes(graph, live)


def test_tables_cross_where_the_file_has_more_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    placed(tmp_path, PADDED)
    kinds = ("onnx", "tmfile")
    for kind in kinds:
        net = tmp_path / f"net.{kind}"
        table = calib8.calibrate(net, tmp_path / "x.npz", method="minmax").table
        convert_table(table, tmp_path / f"{kind}.scale", "tengine", model=net, lossy=True)
    more = {line.split()[0] for line in (tmp_path / "tmfile.scale").read_text().splitlines() if "/" in line}
    assert more and {made_for(name) for name in more} == {"a", "b"}
    assert "/" not in (tmp_path / "onnx.scale").read_text()
    found = []
    for kind in kinds:
        for table in kinds:
            scales = calib8.read_table(tmp_path / f"{table}.scale")
            made = calib8.quantize(tmp_path / f"net.{kind}", table=scales, target="tengine", repair=("none",))
            made.save(tmp_path / "int8.tmfile")
            found.append(computed(read_tmfile(tmp_path / "int8.tmfile")))
    assert found == [found[0]] * 4
    for table in kinds:
        words = "-m", tmp_path / "net.tmfile", "-f", tmp_path / f"{table}.scale", "-o", tmp_path / "o.tmfile"
        assert quant(*words).exit_code == 0


CHOSEN = onnx_model(
    "float[1, 3, 8, 8] x", "float[1, 4, 8, 8] a, float[1, 4, 8, 8] y",
    f"{FIRST} c = Conv <kernel_shape = [1, 1]> (a, v) d = Max (a, c) e = Min (c, d, a) b = Sub (d, e) {NEXT}",
    WEIGHTS,
)  # fmt: skip


def test_what_chooses_among_tensors_of_several_scales(tmp_path: Path) -> None:
    """Tengine's kernels round what they choose to the scale of the result; the codes are the QDQ model's."""
    placed(tmp_path, CHOSEN)
    made = calib8.quantize(tmp_path / "net.onnx", tmp_path / "x.npz", target="tengine", repair=("none",))
    made.save(tmp_path / "int8.tmfile")
    scales = computed(read_tmfile(tmp_path / "int8.tmfile"))
    assert scales["a"] != scales["c"]
    assert scales["d"] not in (scales["a"], scales["c"]) or scales["e"] not in (scales["a"], scales["c"])
    result = calib8.compare(tmp_path / "net.onnx", tmp_path / "int8.tmfile", tmp_path / "x.npz")
    assert result.outputs.sqnr_db > 20


def test_an_input_and_an_output_that_are_given_on(tmp_path: Path) -> None:
    """As copies, that int8 has too."""
    model = onnx_model(
        "float[1, 3, 8, 8] x", "float[1, 3, 8, 8] same, float[1, 4, 8, 8] y, float[1, 4, 8, 8] again",
        f"same = Identity (x) {FIRST} b = Relu (a) {NEXT} again = Identity (y)", WEIGHTS,
    )  # fmt: skip
    placed(tmp_path, model)
    graph = read_tmfile(tmp_path / "net.tmfile")
    assert [node.op for node in graph.nodes].count("Concat") >= 2
    made = calib8.quantize(tmp_path / "net.onnx", tmp_path / "x.npz", target="tengine", repair=("none",))
    made.save(tmp_path / "int8.tmfile")
    session = calib8.InferenceSession(tmp_path / "int8.tmfile")
    codes = np.random.default_rng(0).integers(-127, 128, (1, 3, 8, 8)).astype(np.int8)
    same, one, other = session.run(None, {session.inputs[0].name: codes})
    np.testing.assert_array_equal(same, codes)
    np.testing.assert_array_equal(one, other)


def test_an_output_that_nothing_computes_is_refused() -> None:
    """What yields it reads what nobody writes."""
    net = Net()
    weights = net.const("w", RNG.normal(size=(4, 3, 3, 3)).astype(np.float32))
    net.tensors.append(Tensor("lost", (1, 3, 8, 8)))
    lost = len(net.tensors) - 1
    options = {**CONV, "input_channel": 3, "output_channel": 4}
    net.add(Tensor("y", (1, 4, 8, 8)), "Convolution", (lost, weights), **options)
    with pytest.raises(UnsupportedModelError, match="'y' is computed, where a constant is needed"):
        float_model(net.graph(), "net")


@pytest.mark.parametrize("ending", ["axis3", "part2", "negated", "largest", "output"])
def test_tensors_of_the_user_with_such_names_have_scales_of_their_own(tmp_path: Path, ending: str) -> None:
    """A table that lacks them is refused: one of ``a`` says nothing of them."""
    own = f"a/{ending}"
    model = onnx_model(
        "float[1, 3, 8, 8] x", "float[1, 4, 8, 8] y",
        f'{FIRST} "{own}" = Conv <kernel_shape = [1, 1]> (a, v) '
        f'y = Conv <kernel_shape = [1, 1]> ("{own}", v)',
        WEIGHTS,
    )  # fmt: skip
    placed(tmp_path, model)
    (tmp_path / "t.scale").write_text("x 0.02 0\na 0.05 0\ny 0.1 0\n")
    for net in ("net.onnx", "net.tmfile"):
        with pytest.raises(TableError, match=f"lacks 1 of . tensors: '?{own}"):
            calib8.quantize(tmp_path / net, table=calib8.read_table(tmp_path / "t.scale"), target="tengine")
    words = "-m", tmp_path / "net.tmfile", "-f", tmp_path / "t.scale", "-o", tmp_path / "o.tmfile"
    assert quant(*words).exit_code == 1
