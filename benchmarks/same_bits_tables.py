"""Results of ``same_bits.py`` as a table and as a page, with the reasons that are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

COLUMNS: Final = ("engine_optimized", "engine_unoptimized", "engine_numpy")
NEGLIGIBLE: Final = 1e-3
"""Steps below which two float32 sums differ in their last bits only."""

MATMUL: Final = "a MatMul of attention, float32 in ONNX Runtime: one code on a tie"
PLACE: Final = re.compile(r" at /.*$")
"""Where in the file of a package a line stands: no two machines have it in the same place."""
NO_FORM: Final = re.compile(r"no form in TFLite: '[^']*' \((\w+)\)")
SUM: Final = "TFLite: int8 `SUM`, whose reference kernel in LiteRT is at fault"
REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("visformer_tiny", "visformer_small", "coat_lite_tiny"), MATMUL),
    **dict.fromkeys(
        ("vit_tiny_patch16_224", "deit_tiny_patch16_224", "swin_tiny_patch4_window7_224"), MATMUL
    ),
    "nf_regnet_b0": "layers in float add in another order; TFLite: computed weights have no form",
    "skresnet18": SUM,
    "resnest14d": SUM,
}
"""Why a network differs from ONNX Runtime's optimized run or from LiteRT, or is refused as a TFLite file."""

PAGE: Final = """# Conformance on other people's networks

Networks of timm, torchvision and ultralytics, exported by PyTorch, quantized with `--effort fast` and run
on the same images in calib8's engine and in other runtimes. Weights are random, with BatchNormalization
statistics that keep activations alive: a network that was not trained hides nothing, so that one different
code in a first layer shows in every output. Measured by `benchmarks/same_bits.py` ({versions}).

Cells compare calib8's engine with the runtime of their column: `equal` means every bit of every output;
otherwise the cell gives the share of output values that differ and the largest difference in steps, where a
step is 1/255 of the range of the output; "last bits" means less than a thousandth of a step. "Float" counts
the parts of the program that ONNX Runtime runs. The column `calib8` is about the target of that name: the
share of the multiply-accumulates that are of codes, the float parts, and how far the engine lies from ONNX
Runtime, which computes normalizations, quotients and products of two activations of such a file in float.
Where a network chooses (TopK in RT-DETR), nearly equal scores of random weights change places. "Trace" says
whether `calib8.training.prepare` traces the module. "First codes apart" is about the first tensor that
unoptimized ONNX Runtime computes differently: how many of its codes differ, on one image; empty if none
does.

{table}

## Why results differ

**ONNX Runtime, optimized** runs integer kernels as the engine does, and gives the same bits. The remaining
differences are in the column of reasons, and in [numerics](numerics.md#5-against-onnx-runtime). In networks
with attention (visformer, ViT, Swin) it is a code or two on a tie: the operands of a MatMul of activations
go through Split and Squeeze, which have no Q and DQ of their own, so ONNX Runtime multiplies in float32,
while the engine has integer sums; and of a Softmax a code in two million differs from ONNX Runtime's
(exception 3 there).

**ONNX Runtime, unoptimized** dequantizes codes, computes every layer in float32, and quantizes again. Its
sums are rounded after every addition, in an order of its own, while an integer sum is exact: some of the
values that lie on a tie fall on the other side. That is one code or a few in a tensor; later layers spread
the difference. No runtime that computes in float32 gives the same bits as one that computes in integers;
this is also true of ONNX Runtime's own two ways.

**TFLite**: the exported file in calib8's engine compared with LiteRT's reference kernels.

Two rewrites of ONNX Runtime used to make networks differ that are equal now, because the quantized model no
longer contains what they look for:

- ONNX Runtime drops factors of 1 and terms of 0 (timm's HGNet has them as constants of shape [1]). If there
  were Q and DQ around them, two pairs follow each other, and it merges them into one, with the smaller of
  the two ranges. calib8 removes such arithmetic before the model is quantized. A quantized file of another
  tool that has it still differs: calib8 computes both pairs, as ONNX says and as ONNX Runtime does
  unoptimized.
- ONNX Runtime folds weights that are computed from constants (weight standardization of timm's NF-RegNet),
  and then assumes that the weights of the layer had been forgotten and turns them into int8, with one scale
  ([quantization](quantization.md#11-which-tensors-carry-codes) has more on it). A Sum of one tensor
  protects such layers, as it does others in float.

To repeat it: `python benchmarks/same_bits.py --json FILE --page docs/conformance.md`.
"""


def rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table: a line per network and exporter."""
    titles = "ONNX Runtime, optimized | unoptimized | first codes apart | NumPy reference | TFLite: LiteRT"
    lines = [f"| network | exporter | layers in int8 | Float | {titles} | calib8 | trace | reason |"]
    lines.append("|---" * 12 + "|")
    return [*lines, *(f"| {' | '.join(cells(one))} |" for one in records)]


def cells(one: Mapping[str, Any]) -> list[str]:
    """A line of the table; where an error stopped the network, what it says."""
    name = [one["network"].removeprefix("torchvision:"), one["exporter"]]
    if "failed" in one:
        return [*name, *["–"] * 9, one["failed"]]
    onnx, tflite = one["onnxruntime"], one["tflite"]
    lite = "refused" if "failed" in tflite else apart_text(tflite["engine_litert"])
    if "failed" in onnx:
        return [*name, *["–"] * 6, lite, own_text(one), trace_text(one), onnx["failed"]]
    optimized, plain, numpy = (apart_text(onnx[key]) for key in COLUMNS)
    first = onnx["first_apart"]
    count = f"{first['differing']} of {first['values']:,}" if first else ""
    known = REASONS.get(one["network"], "") if {optimized, numpy, lite} - {"refused"} != {"equal"} else ""
    reason = "; ".join(part for part in (known, refusal(tflite)) if part)
    layers = f"{onnx['quantized']} of {onnx['layers']}"
    figures = [layers, str(onnx["floats"]), optimized, plain, count, numpy, lite]
    return [*name, *figures, own_text(one), trace_text(one), reason]


def refusal(tflite: Mapping[str, Any]) -> str:
    """What has no form in TFLite, the first of it."""
    found = NO_FORM.search(tflite.get("failed", ""))
    return f"TFLite: {found[1]} has no form" if found else ""


def own_text(one: Mapping[str, Any]) -> str:
    """Share of codes, float parts and distance from ONNX Runtime for the target calib8."""
    own = one.get("calib8")
    if own is None:
        return ""
    if "failed" in own:
        return str(own["failed"])
    share, parts = 100 * own["coded_share"], "" if not own["floats"] else f", {own['floats']} Float"
    numpy = "" if not own["engine_numpy"]["differing"] else ", not the reference's bits"
    return f"{share:.4g} %{parts}; {apart_text(own['engine_optimized'])}{numpy}"


def trace_text(one: Mapping[str, Any]) -> str:
    """``yes``, or why the module is not traced; empty where nobody tried."""
    trace = one.get("trace")
    return "" if trace is None else PLACE.sub("", str(trace.get("failed", "yes")))


def apart_text(found: Mapping[str, float]) -> str:
    """``equal``, or share of the values that differ and largest difference in steps."""
    if not found["differing"]:
        return "equal"
    if found["steps"] < NEGLIGIBLE:
        return "last bits"
    share = 100 * found["differing"] / found["values"]
    return f"{share:.{0 if share >= 10 else 1}f} %, {found['steps']:.2g} steps"


def page(records: Sequence[Mapping[str, Any]], versions: str) -> str:
    """The page docs/conformance.md; ``versions`` says of what, see ``installed``."""
    return PAGE.format(versions=versions, table="\n".join(rows(records)))


def installed() -> str:
    """Names and versions of the runtimes and of what the networks come from."""
    packages = {"ONNX Runtime": "onnxruntime", "LiteRT": "ai-edge-litert", "PyTorch": "torch", "timm": "timm"}
    return ", ".join(f"{title} {version(name)}" for title, name in packages.items())
