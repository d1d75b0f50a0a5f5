"""What a benchmark says in words: how long a quantized model takes, and how many times as fast as what.

    1 thread: net.int8.onnx takes 0.066 ms in calib8
      3.4 × as fast as ONNX Runtime with the float model (0.227 ms)
      1.9 × as fast as ONNX Runtime with the same model (0.125 ms)
      in ONNX Runtime alone it is 1.8 × as fast as the float model (0.227 → 0.125 ms)

A model is told of in the runtime that is its fastest, then in each other one that runs the float model too.
What is slower is said as it is: ``0.8 × as fast``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from calib8.analysis.benchmark import Subject, Timing, beside_float

TITLES: Final = {
    "calib8": "calib8", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "litert": "LiteRT"
}  # fmt: skip
"""Runtime → what people call it."""

DISTURBED: Final = 1.5
"""95 of 100 runs of a quiet machine take no longer than so many medians."""


def conclusions(timings: Sequence[Timing]) -> tuple[str, ...]:
    """Lines for every quantized model and number of threads; empty where there is none."""
    return tuple(line for work in _works(timings) for line in _of_one(work, timings))


def _works(timings: Sequence[Timing]) -> list[list[Timing]]:
    """The timings of each quantized model with so many threads and samples, fastest first."""
    found = dict[tuple[int, str, int], list[Timing]]()
    for one in timings:
        if not one.subject.is_float:
            work = (one.subject.threads, one.subject.model, one.subject.batch)
            found.setdefault(work, []).append(one)
    return [sorted(each, key=lambda one: one.median_ms) for each in found.values()]


def _of_one(work: Sequence[Timing], timings: Sequence[Timing]) -> Iterator[str]:
    best, others = work[0], work[1:]
    floats = beside_float(best, timings)
    of = best.subject
    threads = f"{of.threads} thread{'s' * (of.threads != 1)}"
    batch = f", {of.batch} samples a run" if of.batch != 1 else ""
    yield f"{threads}{batch}: {of.model} takes {_ms(best)} in {TITLES[of.runtime]}"
    for other, model in (
        *((one, "the float model") for one in floats),
        *((one, "the same model") for one in others),
    ):
        times = other.median_ms / best.median_ms
        yield f"  {times:.1f} × as fast as {TITLES[other.subject.runtime]} with {model} ({_ms(other)})"
    yield from _in_one_runtime(others, floats)
    if not floats:
        yield f"  {_why_no_float(of, timings)}"
    yield from _disturbed(best, [*floats, *others])


def _in_one_runtime(others: Sequence[Timing], floats: Sequence[Timing]) -> Iterator[str]:
    """What the codes gain in each slower runtime by themselves."""
    there = {one.subject.runtime: one for one in floats}
    for one in others:
        plain = there.get(one.subject.runtime)
        if plain is not None:
            times = plain.median_ms / one.median_ms
            change = f"{plain.median_ms:.3f} → {one.median_ms:.3f} ms"
            yield (
                f"  in {TITLES[one.subject.runtime]} alone it is {times:.1f} × as fast as the float model "
                f"({change})"
            )


def _disturbed(best: Timing, others: Sequence[Timing]) -> Iterator[str]:
    """That medians are no good measure here, and what the fastest runs say of the first comparison."""
    uneven = max(one.p95_ms / one.median_ms for one in (best, *others))
    if uneven > DISTURBED and others:
        times = others[0].min_ms / best.min_ms
        yield (
            f"  other work disturbed these runs (95th percentile up to {uneven:.1f} × the median); "
            f"by the fastest runs the first of these is {times:.1f} ×"
        )


def _why_no_float(of: Subject, timings: Sequence[Timing]) -> str:
    if any(one.subject.is_float for one in timings):
        return "the float model is another network: it has other multiply-accumulates or samples a run"
    return "give the float model too to see how many times as fast as it this is"


def _ms(timing: Timing) -> str:
    return f"{timing.median_ms:.3f} ms"
