"""What ``inspect`` says of LiteRT's kernel sets is what docs/numerics.md measured."""

from __future__ import annotations

import re
from pathlib import Path

from calib8.analysis.tflite_caveats import OTHER_ROUNDING, caveats
from calib8.tflite.graph import Graph, Operator, Tensor
from tflite_nets import coded, quantized_classifier

PAGE = Path(__file__).parents[2] / "docs" / "numerics.md"


def measured() -> dict[tuple[str, str], int]:
    """Operator and type → the largest difference of LiteRT's two other sets."""
    table = PAGE.read_text().split("<!-- kernels: begin -->")[1].split("<!-- kernels: end -->")[0]
    found = {}
    for line in table.strip().splitlines()[2:]:
        op, types, *sets = [cell.strip() for cell in line.strip("|").split("|")]
        apart = [text for text in sets[:2] if not re.match(r"0(;|$)", text)]
        if apart:
            most = max(int(match[1]) if (match := re.search(r"up to (\d+)", text)) else 1 for text in apart)
            listed = types.replace("*", "").split(", ")
            found |= {(op, dtype): 0 if op == "DEQUANTIZE" else most for dtype in listed}
    return found


def test_the_differences_are_those_of_the_table() -> None:
    assert dict(OTHER_ROUNDING) == measured()


def test_differences_are_told_by_operator() -> None:
    [first] = caveats(quantized_classifier())
    assert first.endswith("may differ in 1 CONV_2D (by 1)")
    x = Tensor("x", (1, 4), "int8", None, coded(0.1, 0))
    wide = Tensor("x", (1, 4), "int16", None, coded(0.1, 0))
    assert caveats(Graph((x, wide), (Operator("QUANTIZE", (0,), (1,), {}, 2),), (0,), (1,))) == ()
    axes = Tensor("axes", (1,), "int32", None)
    graph = Graph(
        (x, axes, x), (Operator("ADD", (0, 0), (2,), {}, 2), Operator("SUM", (2, 1), (0,), {}, 2)), (0,), (2,)
    )
    first, second, *_ = caveats(graph)
    assert first.endswith("may differ in 1 ADD (by up to 12), 1 SUM (by 1)")
    assert second.startswith("SUM of int8 codes: LiteRT's reference kernel reads them as uint8")
