"""Steps that ``quantize`` and ``calibrate`` share: refuse early, look at the data, calibrate, tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from calib8.cli.options import RangeOptions, ReadingOptions
from calib8.cli.progress import shown_progress
from calib8.cli.render import count, say_preflight, say_skipped
from calib8.cli.terminal import Terminal

if TYPE_CHECKING:
    from calib8.data.preprocess import Preprocess
    from calib8.judge import Preflight
    from calib8.pipeline import Calibration


def check_ranges(ranges: RangeOptions, target: str | None = None) -> None:
    """Refuses unknown or contradicting choices before any work is done.

    Raises:
        UsageError: unknown target, method or activation type, or ones that do not fit together.
    """
    from calib8.calibration.choose import check_method
    from calib8.pipeline import DEFAULT_METHOD
    from calib8.scheme import activation_type, target_scheme

    check_method(ranges.method or DEFAULT_METHOD, ranges.percent)
    scheme = None if target is None else target_scheme(target)
    if ranges.activations is not None:
        activation_type(ranges.activations)
        if scheme is not None:
            scheme.with_activations(ranges.activations)


def look_at_data(
    terminal: Terminal,
    model: Path,
    data: Path,
    preprocess: Preprocess | None,
    labels: Path | None,
    reading: ReadingOptions,
) -> Preflight:
    """Shows what the model is fed, against what the preprocessing implies, and its top-1 if it can be told.

    Raises:
        Calib8Error: what can be wrong with model, data or options.
    """
    from calib8.judge import PREFLIGHT_SAMPLES, preflight
    from calib8.progress import check_positive

    check_positive("--batch", reading.batch_size)
    check_positive("--threads", reading.thread_count)
    samples = PREFLIGHT_SAMPLES if reading.samples is None else min(PREFLIGHT_SAMPLES, reading.samples)
    with shown_progress(terminal, "looking at the data"):
        seen = preflight(
            model,
            data,
            preprocess=preprocess,
            labels=labels,
            samples=samples,
            threads=reading.thread_count,
            skip_bad=reading.skip_bad,
        )
    say_preflight(terminal, seen)
    if preprocess is not None and not _has_images(seen):
        terminal.say(
            "warning: the data are arrays, not images: the preprocessing flags change nothing", style="yellow"
        )
    return seen


def _has_images(seen: Preflight) -> bool:
    return any(check.implied is not None for check in seen.inputs)


def say_calibration(terminal: Terminal, found: Calibration, samples: int) -> None:
    """How many samples went through the model, and which images were skipped."""
    say_skipped(terminal, found.dataset.skipped)
    tensors = count(len(found.table.entries), "tensor")
    terminal.say(f"{count(samples, 'sample')} calibrated, ranges of {tensors} chosen")
