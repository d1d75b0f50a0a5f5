"""Known faults planted into a detector: does ``calib8 diagnose`` name layer, channel and cure?

    python benchmarks/planted_faults.py MODEL DATA [--color rgb] [--mean 127] [--scale 0.0078125]
                                        [--size 240,320] [--samples 24] [--threads 1] [--kinds …] [--treat]
                                        [--json FILE]

MODEL is a float ONNX file with one image input, DATA images that it was made for. Every fault of
``detector_faults.py`` is planted alone, the network quantized plainly and diagnosed; "none" is the network as
it is. ``--treat`` also tries the remedies, and tells the first of them and what it leaves.
"""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
import onnx_ir as ir

import calib8
from calib8.analysis.diagnose import diagnose
from calib8.analysis.findings import Finding
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.data.samples import DataSource
from calib8.model.graph import graph_inputs
from calib8.parameters import on_command_line, with_both
from detector_faults import KINDS, Fault
from fault_places import NoSpotError

SEEN = 16
"""Samples that the statistics of normalizations are taken from."""

NONE = Fault("none", onnx.ModelProto(), (), (), None, "nothing")


@dataclass(frozen=True)
class Outcome:
    """What became of one fault.

    Attributes:
        kind: of the fault.
        planted: where, and the channel.
        place: of the finding that names it, from 1; 0: there is none.
        told: that finding, else the first one.
        sqnr_db: of the outputs of the int8 network, on the data as they were fed.
        cured_db: the same by the first remedy; None where there is none.
        remedy: its options of ``calib8 quantize``.
    """

    kind: str
    planted: str
    place: int
    told: str
    sqnr_db: float
    cured_db: float | None = None
    remedy: str = ""


def names(fault: Fault, finding: Finding) -> bool:
    """Whether a finding names cause, layer, channel and cure of a fault."""
    reason = finding.reason
    cures = " ".join(
        (on_command_line(reason.advice), *(name for repairs in reason.repairs for name in repairs))
    )
    told = {finding.node, finding.tensor}
    node = bool(told & set(fault.nodes)) if fault.nodes else finding.node is None
    channel = fault.channel is None or f"channel {fault.channel} " in f"{reason.text} "
    return reason.cause in fault.causes and node and channel and fault.cure in cures


def _told(finding: Finding) -> str:
    text, advice = map(with_both, (finding.reason.text, finding.reason.advice))
    return f"{finding.node or finding.tensor or 'data'}: {text}. {advice}"


def wrong(preprocess: Preprocess | None, fault: Fault) -> Preprocess | None:
    """How the images are prepared."""
    if preprocess is None or not fault.images:
        return preprocess
    images = dict(fault.images)
    if images.get("color") == "other":
        images["color"] = "bgr" if preprocess.color == "rgb" else "rgb"
    if images.get("scale") == "other":
        unit = set(preprocess.mean) == {0.0} and max(preprocess.scale) < 0.01
        images |= {"mean": (0.0,), "scale": (1.0 if unit else 1 / 255,)}
    return replace(preprocess, **images)


def quantized(
    fault: Fault, data: DataSource, fed: Preprocess | None, samples: int | None, threads: int
) -> onnx.ModelProto:
    """The plainly quantized network with its fault."""
    own = bool(fault.calibration)
    int8 = calib8.quantize(
        fault.model, list(fault.calibration) if own else data, preprocess=None if own else fed, method="mse",
        repair=("none",), ranges=fault.ranges, samples=samples, threads=threads,
    )  # fmt: skip
    return fault.broken(ir.to_proto(int8.model))


def outcome(
    fault: Fault, data: DataSource, preprocess: Preprocess | None, samples: int | None, threads: int, *,
    treat: bool = False,
) -> Outcome:  # fmt: skip
    """Diagnoses one fault."""
    fed = wrong(preprocess, fault)
    int8 = quantized(fault, data, fed, samples, threads)
    treated = None
    if treat:
        treated = calib8.diagnose(fault.model, int8, data, preprocess=fed, samples=samples, threads=threads)
        found = treated.diagnosis
    else:
        found = diagnose(fault.model, int8, data, preprocess=fed, samples=samples, threads=threads)
    place = next((place for place, one in enumerate(found.findings, 1) if names(fault, one)), 0)
    shown = found.findings[place - 1 : place] if place else found.findings
    told = on_command_line(" ".join(map(_told, shown)))
    channel = "" if fault.channel is None else f", channel {fault.channel}"
    planted = (fault.nodes[0] if fault.nodes else "data") + channel
    if treated is None or not treated.remedies:
        return Outcome(fault.kind, planted, place, told, found.sqnr_db)
    first = treated.remedies[0]
    return Outcome(
        fault.kind, planted, place, told, found.sqnr_db, first.sqnr_db, shlex.join(treated.flags(first))
    )


def outcomes(args: argparse.Namespace) -> list[Outcome]:
    """Of all kinds that the network has a place for."""
    proto = onnx.load(args.model)
    size = None if args.size is None else tuple(int(side) for side in args.size.split(","))
    preprocess = Preprocess(
        color=args.color, mean=tuple(args.mean), scale=tuple(args.scale),
        **({} if size is None else {"size": size}),
    )  # fmt: skip
    inputs = graph_inputs(ir.from_proto(proto))
    dataset = open_dataset(args.data, inputs, preprocess, samples=min(SEEN, args.samples))
    feeds = [dict(sample.inputs) for sample in dataset]
    found = []
    for kind in args.kinds or ("none", *KINDS):
        start = time.perf_counter()
        try:
            fault = replace(NONE, model=proto) if kind == "none" else KINDS[kind](proto, feeds)
        except NoSpotError:
            print(f"{kind}: this network has no place for it", flush=True)
            continue
        one = outcome(fault, args.data, preprocess, args.samples, args.threads, treat=args.treat)
        found.append(one)
        print(f"{row(one)}  ({time.perf_counter() - start:.0f} s)", flush=True)
    return found


def row(one: Outcome) -> str:
    """One line of the table."""
    where = f"finding {one.place}" if one.place else "–" if one.kind == "none" else "NOT FOUND"
    cured = "" if one.cured_db is None else f" | {one.cured_db:.1f} dB by {one.remedy}"
    return f"{one.kind} | {one.planted} | {one.sqnr_db:.1f} dB | {where} | {one.told}{cured}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--color", default="rgb")
    parser.add_argument("--mean", type=float, nargs="+", default=[0.0])
    parser.add_argument("--scale", type=float, nargs="+", default=[1 / 255])
    parser.add_argument("--size")
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=["none", *KINDS])
    parser.add_argument("--treat", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(arguments)
    found = outcomes(args)
    planted = [one for one in found if one.kind != "none"]
    print(f"{sum(one.place > 0 for one in planted)} of {len(planted)} kinds are named")
    if args.json is not None:
        args.json.write_text(json.dumps([vars(one) for one in found], indent=1))


if __name__ == "__main__":
    main()
