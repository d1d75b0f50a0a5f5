"""Steps that ``quantize`` and ``calibrate`` share: refuse early, look at the data, calibrate, tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from calib8.cli.options import RangeOptions, ReadingOptions, RepairOptions
from calib8.cli.progress import shown_progress
from calib8.cli.render import both_measures, say_preflight, say_skipped
from calib8.cli.sound_options import flag_of_sound, sound_flags
from calib8.cli.terminal import Terminal
from calib8.errors import UsageError
from calib8.number_texts import count
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.autorange.choose import AutoReport
    from calib8.data.reading import Reading
    from calib8.judge import Preflight
    from calib8.model.load import ModelSource
    from calib8.pipeline import Calibration, Collection
    from calib8.repair.wanted import Repairs
    from calib8.table import CalibrationTable


def check_ranges(ranges: RangeOptions, *, from_statistics: bool = False) -> None:
    """Refuses unknown or contradicting choices before any work is done.

    Raises:
        UsageError: unknown method or activation type, ones that do not fit together, or that saved statistics
            cannot serve; a range that is none.
    """
    from calib8.scheme import activation_type

    ranges.choice().wish(from_statistics=from_statistics)
    if ranges.activations is not None:
        activation_type(ranges.activations)


def check_repairs(repairs: RepairOptions, data: str | None, instead: str = "") -> None:
    """Refuses unknown or contradicting choices before any work is done.

    Args:
        repairs: what was asked for.
        data: samples to look at.
        instead: the option that was given in place of data.

    Raises:
        UsageError: an effort or a repair that does not exist, both, or one of them without data.
    """
    from calib8.repair.wanted import repairs_wanted

    wanted = repairs_wanted(repairs.effort, repairs.names, with_data=True, with_table=True)
    if data is None and instead:
        _check_without_data(wanted, instead)
    repairs_wanted(repairs.effort, repairs.names, with_data=data is not None, with_table=False)


def _check_without_data(wanted: Repairs, instead: str) -> None:
    """Refuses what looks at data beside an option that takes their place; with them it would mean another."""
    from calib8.repair.repairs import DATA_FREE

    blind = [name for name in wanted.names if name not in DATA_FREE]
    if not wanted.effort and not blind:
        return
    option = f"--effort {wanted.effort}" if wanted.effort else f"--repair {blind[0]}"
    cure = f"Leave it out, use --repair {','.join(DATA_FREE)}, or give --data in place of {instead}"
    if instead == "--table":
        cure += " (beside --data that is a file to write); calib8.quantize in Python takes both"
    raise UsageError(option, f"it looks at data, and {instead} brings none", cure)


def look_at_data(terminal: Terminal, path: Path, reading: Reading) -> tuple[ModelSource, Preflight]:
    """Shows what the model is fed, against what the preprocessing implies, and its top-1 if it can be told.

    Returns:
        The model for the steps to come, see ``calib8.model.load.kept_open``, and what was seen.

    Raises:
        Calib8Error: what can be wrong with model, data or options.
    """
    from calib8.judge import PREFLIGHT_SAMPLES, preflight
    from calib8.model.load import kept_open
    from calib8.model.memory import LARGE, release_memory

    samples = PREFLIGHT_SAMPLES if reading.samples is None else min(PREFLIGHT_SAMPLES, reading.samples)
    with shown_progress(terminal, "looking at the data"):
        model = kept_open(path)
        seen = preflight(model, replace(reading, samples=samples))
    if path.stat().st_size >= LARGE:
        release_memory()
    say_preflight(terminal, seen)
    if reading.preprocess is not None and not _has_images(seen):
        terminal.say(
            "warning: the data are arrays, not images: the preprocessing flags change nothing", style="yellow"
        )
    return model, seen


def _has_images(seen: Preflight) -> bool:
    return any(check.implied is not None for check in seen.inputs)


def refuse_together(option: str, given: Mapping[str, object], cure: str) -> None:
    """Refuses options that mean nothing beside another one.

    Args:
        option: the other one.
        given: option → its value; None, False and nothing at all are not given.
        cure: what to do.

    Raises:
        UsageError: one of them is given.
    """
    for name, value in given.items():
        if value not in (None, False, [], ()):
            raise UsageError(name, f"does not go with {option}", cure)


def reading_options(reading: ReadingOptions, labels: Path | None) -> dict[str, object]:
    """The options that say how data are read → their values, as ``refuse_together`` takes them."""
    return {
        "--labels": labels,
        "--samples": reading.samples,
        "--batch": reading.batch,
        "--threads": reading.threads,
        "--skip-bad": reading.skip_bad,
        "--input-map": reading.input_map,
        **{flag_of_sound(name): value for name, value in reading.sound.items()},
    }


def meaning_flags(task: str | None, branches: Mapping[str, str], threshold: float | None = None) -> list[str]:
    """Options that say what the outputs mean, as they were named."""
    named = [word for part, kind in branches.items() for word in ("--branch", f"{part}={kind}")]
    deciding = [] if threshold is None else ["--threshold", repr(threshold)]
    return [*([] if task is None else ["--task", task]), *named, *deciding]


def reading_flags(reading: ReadingOptions) -> list[str]:
    """The flags that were given."""
    given = {"--samples": reading.samples, "--batch": reading.batch, "--threads": reading.threads}
    words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    words += [word for pair in reading.input_map or () for word in ("--input-map", pair)]
    words += [word for pair in reading.fix or () for word in ("--fix", pair)]
    words += [word for pair in reading.state or () for word in ("--state", pair)]
    words += sound_flags(reading)
    return [*words, "--skip-bad"] if reading.skip_bad else words


def say_calibration(
    terminal: Terminal, found: Calibration | Collection, table: CalibrationTable | None
) -> None:
    """How many samples went through the model, which images were skipped, and where a run went on."""
    if found.dataset is not None:
        say_skipped(terminal, found.dataset.skipped)
    if found.fallback:
        terminal.say(f"note: values were counted behind ONNX Runtime's run, not in it: {found.fallback}")
    if found.resumed:
        terminal.say(f"{count(found.resumed, 'sample')} taken from the checkpoint")
    tensors = count(len(found.statistics.tensors), "tensor")
    where = "calibrated" if found.dataset is not None else "in the statistics"
    what = f"statistics of {tensors} gathered" if table is None else f"ranges of {tensors} chosen"
    terminal.say(f"{count(found.statistics.samples, 'sample')} {where}, {what}")
    if found.auto is not None:
        say_auto(terminal, found.auto)


def say_auto(terminal: Terminal, report: AutoReport) -> None:
    """Which table won, how often each method did, and what could not be done."""
    from calib8.autorange.choose import finishers

    finished = finishers(report.checks)
    figures = {check.name: check.sqnr_db for check in finished}
    others = [value for name, value in figures.items() if name != report.chosen]
    winner = next((check for check in finished if check.name == report.chosen), None)
    won = "" if winner is None else f", {winner.sqnr_db:.1f} dB"
    behind = len(report.checks) - len(finished)
    dropped = f", {behind} given up early" if behind else ""
    told = [] if winner is None else [both_measures(winner)]
    if others:
        told.append(f"other ranges {min(others):.1f} … {max(others):.1f} dB{dropped}")
    rest = f" ({'; '.join(told)})" if told else ""
    samples = count(report.held_back, "sample")
    terminal.say(
        f"best ranges: {report.chosen}{won}{rest} on {samples}{'' if report.shared else ' held back'}"
    )
    terminal.say("tensors by method: " + ", ".join(f"{name} {wins}" for name, wins in report.wins.items()))
    for note in report.notes:
        terminal.say(f"note: {on_command_line(note)}")
