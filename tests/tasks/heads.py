"""Heads of detectors and other networks as their exporters write them, with few places and channels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx_ir as ir
from onnx import numpy_helper, parser

from calib8.tasks.seen import analysable
from small_models import Array, normal

ANCHORS: Final[Mapping[str, Array]] = {
    "zero": np.int64([0]),
    "two": np.int64([2]),
    "four": np.int64([4]),
    "all": np.int64([1 << 62]),
    "one": np.int64([1]),
    "last": np.int64([2]),
    "rows": np.int64([0, 13, -1]),
    "half": np.float32(0.5),
    "twice": np.float32(2.0),
    "grid": np.arange(40, dtype=np.float32).reshape(1, 2, 20),
    "strides": np.repeat(np.float32([8, 16]), [16, 4]).reshape(1, 20),
    "wide": np.arange(40, dtype=np.float32).reshape(1, 20, 2),
    "box": normal(4, 3, 1, 1),
    "nine": normal(9, 3, 1, 1, seed=1),
    "eight": normal(8, 3, 1, 1, seed=2),
    "six": normal(6, 3, 1, 1, seed=3),
    "bins": np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1),
}


def head(inputs: str, outputs: str, body: str, constants: Mapping[str, Array] | None = None) -> ir.Model:
    """A graph in the form that is analysed; constants that the body does not name are left out."""
    text = f'<ir_version: 8, opset_import: ["" : 17]> net ({inputs}) => ({outputs}) {{ {body} }}'
    model = parser.parse_model(text)
    read = {name for node in model.graph.node for name in node.input}
    for name, array in {**ANCHORS, **(constants or {})}.items():
        if name in read:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return analysable(ir.from_proto(model))


DFL: Final = """
    b1 = Conv(p, dist) c1 = Conv(p, nine) j1 = Concat<axis=1>(b1, c1) r1 = Reshape(j1, flat)
    b2 = Conv(q, dist) c2 = Conv(q, nine) j2 = Concat<axis=1>(b2, c2) r2 = Reshape(j2, flat)
    all_of = Concat<axis=2>(r1, r2)
    distances, classes = Split<axis=1>(all_of, parts)
    binned = Reshape(distances, by_bin) turned = Transpose<perm=[0,2,1,3]>(binned)
    shares = Softmax<axis=1>(turned) mean = Conv(shares, bins) four_of = Reshape(mean, by_side)
    lt = Slice(four_of, zero, two, one) rb = Slice(four_of, two, four, one)
    a = Sub(grid, lt) b = Add(grid, rb) sum = Add(a, b) middle = Mul(sum, half) size = Sub(b, a)
    boxes = Concat<axis=1>(middle, size) scaled = Mul(boxes, strides)
    scores = Sigmoid(classes)
"""
"""Two scales of 4 × 4 and 2 × 2 places, four bins, nine classes: as ultralytics writes YOLOv8 and YOLO11."""

DFL_CONSTANTS: Final[Mapping[str, Array]] = {
    "dist": normal(16, 3, 1, 1, seed=4),
    "flat": np.int64([0, 25, -1]),
    "parts": np.int64([16, 9]),
    "by_bin": np.int64([-1, 4, 4, 20]),
    "by_side": np.int64([-1, 4, 20]),
}

SCALES: Final = "float[N,3,4,4] p, float[N,3,2,2] q"


def yolo8(
    *, behind: str = "y = Concat<axis=1>(scaled, scores)", outputs: str = "float[N,13,20] y"
) -> ir.Model:
    """YOLOv8: [N, 4 + 9, 20]."""
    constants = {**DFL_CONSTANTS, "more": normal(6, 3, 1, 1, seed=9), "flat6": np.int64([0, 6, -1])}
    return head(SCALES, outputs, DFL + behind, constants)


def yolo5() -> ir.Model:
    """YOLOv5: two scales with anchors, [N, 40, 5 + 3], one Sigmoid in front of all."""
    body, constants = "", {}
    for k, (scale, places) in enumerate((("p", 4), ("q", 2))):
        constants |= {
            f"w{k}": normal(16, 3, 1, 1, seed=k),
            f"split{k}": np.int64([0, 2, 8, places, places]),
            f"grid{k}": normal(1, 2, places, places, 2, seed=k),
            f"sizes{k}": normal(1, 2, 1, 1, 2, seed=k),
            f"join{k}": np.int64([0, -1, 8]),
        }
        body += f"""
            l{k} = Conv({scale}, w{k}) s{k} = Reshape(l{k}, split{k}) t{k} = Transpose<perm=[0,1,3,4,2]>(s{k})
            g{k} = Sigmoid(t{k}) xy{k}, wh{k}, conf{k} = Split<axis=4>(g{k}, sizes)
            xa{k} = Mul(xy{k}, twice) xb{k} = Add(xa{k}, grid{k}) xc{k} = Mul(xb{k}, eights)
            wa{k} = Mul(wh{k}, twice) wb{k} = Pow(wa{k}, twice) wc{k} = Mul(wb{k}, sizes{k})
            o{k} = Concat<axis=4>(xc{k}, wc{k}, conf{k}) z{k} = Reshape(o{k}, join{k})
        """
    constants |= {"sizes": np.int64([2, 2, 4]), "eights": np.float32(8.0)}
    return head(SCALES, "float[N,40,8] y", body + "y = Concat<axis=1>(z0, z1)", constants)


def yolox() -> ir.Model:
    """YOLOX without decoding: [N, 20, 4 + 1 + 8]."""
    body = ""
    for k, scale in enumerate("pq"):
        body += f"""
            b{k} = Conv({scale}, box) o{k} = Conv({scale}, seven) os{k} = Sigmoid(o{k})
            c{k} = Conv({scale}, eight) cs{k} = Sigmoid(c{k}) j{k} = Concat<axis=1>(b{k}, os{k}, cs{k})
            r{k} = Reshape(j{k}, rows)
        """
    body += "all_of = Concat<axis=2>(r0, r1) y = Transpose<perm=[0,2,1]>(all_of)"
    return head(SCALES, "float[N,20,13] y", body, {"seven": normal(1, 3, 1, 1, seed=7)})


def ssd(classes: int, function: str) -> ir.Model:
    """Boxes [N, 20, 4] with anchors, scores [N, 20, classes] by Softmax, Sigmoid or nothing."""
    body = ""
    for k, scale in enumerate("pq"):
        body += f"""
            b{k} = Conv({scale}, box) bt{k} = Transpose<perm=[0,2,3,1]>(b{k}) br{k} = Reshape(bt{k}, by4)
            c{k} = Conv({scale}, some) ct{k} = Transpose<perm=[0,2,3,1]>(c{k}) cr{k} = Reshape(ct{k}, byc)
        """
    body += f"""
        raw = Concat<axis=1>(br0, br1)
        boxes_xy = Slice(raw, zero, two, last) boxes_wh = Slice(raw, two, four, last)
        xy = Mul(boxes_xy, wide) wh0 = Exp(boxes_wh) wh = Mul(wh0, wide) boxes = Concat<axis=2>(xy, wh)
        logits = Concat<axis=1>(cr0, cr1) scores = {function}(logits)
    """
    shapes = {"by4": np.int64([0, -1, 4]), "byc": np.int64([0, -1, classes])}
    constants = {"some": normal(classes, 3, 1, 1, seed=5), **shapes}
    return head(SCALES, f"float[N,20,4] boxes, float[N,20,{classes}] scores", body, constants)
