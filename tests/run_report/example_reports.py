"""Made-up reports: as many layers as are wanted, in a row with skips, with whatever names."""

from __future__ import annotations

import numpy as np

from calib8.analysis.tensor_codes import TensorCode
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import UINT8
from calib8.run_report.pictures import data_uri
from calib8.run_report.tensor_charts import tensor_shown
from calib8.run_report.told import (
    Answer,
    Attempt,
    Box,
    Candidates,
    CandidateShown,
    Channels,
    Figure,
    Finding,
    Headline,
    LayerRow,
    ModelRow,
    Models,
    NetworkNode,
    RunReport,
    SampleShown,
    Work,
)

NASTY = "</script><img src=x onerror=alert(1)> & \"'\u202e\ud800\n\x00é${x}$$"
CODE = TensorCode((0.02,), (128,), 0, UINT8)


def report(count: int = 6, name: str = "layer", *, skips: bool = True) -> RunReport:
    """``count`` layers of which the k-th has a local SQNR of 50 − k dB, so that the last one is the worst."""
    rng = np.random.default_rng(0)
    values = [rng.laplace(size=3000).astype(np.float32) for _ in range(3)]
    counts = [TensorStatistics.from_values(np.where(one < -1, 0, one)) for one in values]
    tensors = tuple(tensor_shown(f"{name} out {k}", counts[k % 3], CODE, None) for k in range(count))
    low = tuple(float(x) for x in -rng.random(32))
    order = list(reversed(range(count)))
    layers = tuple(
        LayerRow(
            f"{name} {k}", "Conv" if k % 2 else "Relu", "float" if k == 1 else "int8", "asked for" * (k == 1),
            50.0 - k * 40.0 / max(count, 1), 40.0 - k * 30.0 / max(count, 1), 45.0, 0.001 * k,
            (k,) if k == 0 else (k, k - 1), Channels(64, low, tuple(-x for x in low), 2) if k % 2 else None,
            macs=0.01,
        )
        for k in order
    )  # fmt: skip
    network = tuple(
        NetworkNode(
            f"{name} {k}", "Conv" if k % 2 else "Relu",
            () if k == 0 else (k - 3, k - 1) if skips and k > 3 and k % 4 == 0 else (k - 1,),
            order.index(k), "float" if k == 1 else "int8",
        )
        for k in range(count)
    )  # fmt: skip
    return RunReport(
        name, "quantize",
        Headline("damaged", "visibly damaged", f"97 % of {name} on 64 samples held back",
                 (Figure("agreement", "97.00 %", "on 64 samples"), Figure("size", "1.0 MB")), "calib8 run"),
        Work((Figure("target", name),), (("mse", 4), (name, 2)),
             (Attempt(name, 20.0, 22.5, kept=True, notes=(name,)),), (Finding(name, "its bias ran over"),),
             (name,)),
        Models(("top-1", "size"), (ModelRow(name, ("90 %", "1 MB")),)),
        layers, "Compared on 8 samples.", network, tensors, "Counted on 8 samples.", samples(name),
        "The worst of 8 samples.", candidates(name), (("calibrating", 1.25),), (Figure("processor", name),),
    )  # fmt: skip


def samples(name: str) -> tuple[SampleShown, ...]:
    """One with boxes, one with classes, one that nothing decodes."""
    picture, size = data_uri(np.full((30, 40, 3), 90, np.uint8))
    box = Box(0.1, 0.2, 0.5, 0.6, f"class 1 {name}")
    boxes = (Answer((name,), (box,)), Answer((name,), (box, box)))
    classes = (Answer(("class 1: 90.0 %",)), Answer(("class 2: 60.0 %",)))
    return (
        SampleShown(name, 12.0, picture, size, *boxes, None),
        SampleShown("plain", 13.0, picture, size, *classes, same=False),
        SampleShown("array", 14.0, "", (0, 0), None, None, None),
    )


def candidates(name: str) -> Candidates:
    """Two on the front, one behind."""
    return Candidates(
        "agreement", "%", 99.0, False,
        (
            CandidateShown(f"fast {name}", 0.0, 97.0, 96.0, 0, 1000, kept=False, chosen=False, front=True),
            CandidateShown("best, 2 in float", 3.0, 99.5, 99.1, 2, 4000, kept=True, chosen=True, front=True),
            CandidateShown("best, 5", 9.0, 98.0, 97.0, 5, None, kept=False, chosen=False, front=False),
        ),
    )  # fmt: skip
