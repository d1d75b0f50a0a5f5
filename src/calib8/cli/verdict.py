"""The last lines of ``quantize`` and ``evaluate``: what became of the model, and what to go on with."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.filesize import decimal

from calib8.addresses import without_secrets
from calib8.cli.options import RangeOptions, ReadingOptions
from calib8.cli.preprocessing import preprocessing_flags
from calib8.cli.steps import meaning_flags, reading_flags
from calib8.cli.terminal import Terminal
from calib8.number_texts import count, percent
from calib8.parameters import on_command_line
from calib8.tflite.magic import is_tflite_name
from calib8.tmfile.magic import is_tmfile_name

if TYPE_CHECKING:
    from calib8.analysis.evaluation import Evaluation
    from calib8.data.fed import Fed
    from calib8.data.preprocess import Preprocess
    from calib8.outcomes import Quantization
    from calib8.tasks.branches import Meaning
    from calib8.tasks.kinds import Kind
    from calib8.tasks.task_verdicts import TaskVerdict
    from calib8.tasks.verdict import BranchVerdict, State, Verdict

_PLACES_SHOWN: Final = 3
_LAYERS_SHOWN: Final = 3
_WIDTH: Final = 11
"""Columns of the names of figures, with the space behind them."""

OTHER_IMAGES: Final = "OTHER_IMAGES"
"""Stands for data that neither calibrated nor repaired."""

_STYLES: Final[dict[State, str]] = {"damaged": "yellow", "ruined": "red"}

_OF_FIGURES: Final[dict[str, tuple[str, str]]] = {
    "recall": ("--min-recall", "0.97"),
    "precision": ("--min-precision", "0.97"),
    "map50": ("--min-map-ratio", "0.99"),
    "map": ("--min-map-ratio", "0.99"),
    "miou": ("--min-iou", "0.985"),
    "cosine": ("--min-cosine", "0.998"),
    "lines": ("--min-lines", "0.97"),
    "oks": ("--min-oks", "0.97"),
    "found": ("--min-oks", "0.97"),
    "agreement": ("--min-agreement", "99"),
    "decisions": ("--min-decisions", "0.98"),
    "sqnr_db": ("--min-si-sdr", "20"),
    "si_sdr_db": ("--min-si-sdr", "20"),
}
"""Figure of a task that fell short → what to promise."""

_OF_BRANCHES: Final[dict[Kind, tuple[str, str]]] = {
    "logits": ("--min-agreement", "99"),
    "probabilities": ("--min-agreement", "99"),
}
"""Kind of a branch that no judge has read → the same."""

_OTHER_PROMISE: Final = ("--min-sqnr", "25")


@dataclass(frozen=True)
class Asked:
    """What the user asked ``quantize`` for, as far as the next command repeats it.

    Attributes:
        model, output: float and INT8.
        data: what calibrated; None where nothing did.
        reading, preprocess: how the data are read.
        task, branches: what the outputs mean, as they were named.
        target, weights, labels, ranges, keep_float, spots: how the model is made.
        effort: that was made; empty where repairs were named, or none was made.
        recurrent: how LSTM and GRU are computed, None for the target's own way.
        threshold: of decisions, None where none was given.
    """

    model: Path
    output: Path
    data: str | None
    reading: ReadingOptions
    preprocess: Preprocess | None
    task: str | None
    branches: Mapping[str, str]
    target: str
    weights: str
    labels: Path | None
    ranges: RangeOptions
    keep_float: Sequence[str]
    spots: Sequence[str]
    effort: str
    recurrent: str | None = None
    threshold: float | None = None

    def looking(self, task: str | None = None) -> list[str]:
        """Options that say how data are read, and what the outputs mean; ``task`` where none was named."""
        reading = reading_flags(self.reading) if self.data is not None else []
        named = self.task or task
        meant = meaning_flags(named, self.branches, self.threshold)
        return [*reading, *preprocessing_flags(self.preprocess), *meant]

    def making(self) -> list[str]:
        """Options that say how the model is made, and that ``tune`` takes as well."""
        usual = "tengine" if is_tmfile_name(self.output) else "onnxruntime"
        usual = "tflite" if is_tflite_name(self.output) else usual
        given = {
            "--target": None if self.target == usual else self.target,
            "--activations": self.ranges.activations,
            "--weights": None if self.weights == "per-channel" else self.weights,
        }
        flags = [word for name, value in given.items() if value is not None for word in (name, value)]
        flags += ["--power-of-two"] if self.ranges.power_of_two else []
        return [*flags, *_each("--range", self.ranges.range or ()), *_each("--keep-float", self.keep_float)]

    def choosing(self) -> list[str]:
        """Those that ``quantize`` alone takes."""
        ranges = self.ranges
        given = {"--labels": self.labels, "--method": ranges.method, "--percent": ranges.percent,
                 "--decay": ranges.decay, "--recurrent": self.recurrent}  # fmt: skip
        flags = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        return [*flags, *_each("--spot", self.spots)]


def _each(option: str, values: Iterable[str]) -> list[str]:
    """An option that is given once per value."""
    return [word for value in values for word in (option, value)]


@dataclass(frozen=True)
class Written:
    """The files of a run.

    Attributes:
        model: that was written.
        table: that was written, None where none was.
        float_bytes, int8_bytes: of the model that was given and of the one that was written.
    """

    model: Path
    table: Path | None
    float_bytes: int
    int8_bytes: int


def say_outcome(terminal: Terminal, result: Quantization, written: Written, command: list[str]) -> None:
    """Two columns: data, outputs, what is quantized, sizes, the verdict, samples, files, the next command."""
    nodes, quantized = len(result.placement.decisions), len(result.placement.quantized_nodes())
    share = 100 * written.int8_bytes / written.float_bytes
    fed = _fed(result)
    rows = [
        ("data", "" if fed is None else fed.data_words),
        ("images", "" if fed is None else fed.image_words),
        ("outputs", _meaning(result.meaning)),
        ("quantized", f"{quantized} of {nodes} operations"),
        ("in float", _in_float(result) if quantized < nodes else ""),
        ("size", f"{decimal(written.float_bytes)} → {decimal(written.int8_bytes)}, {share:.0f} % of before"),
        ("accuracy", "" if result.verdict is None else on_command_line(result.verdict.text)),
        ("samples", _more_samples(result)),
        ("written", str(written.model)),
        ("table", "" if written.table is None else str(written.table)),
        ("next", shlex.join(command)),
    ]
    terminal.say("")
    styles = {"accuracy": None if result.verdict is None else _STYLES.get(result.verdict.state)}
    for what, value in rows:
        if value:
            terminal.say(f"{what:<{_WIDTH}}{value}", style=styles.get(what))


def _fed(result: Quantization) -> Fed | None:
    """The data that calibrated; None where there were none."""
    from calib8.data.fed import fed_from

    made = result.calibration
    return None if made is None or made.dataset is None else fed_from(made.dataset, made.statistics.samples)


def _in_float(result: Quantization) -> str:
    """The share of the multiply-accumulates that is float, and why the largest layers are."""
    found = result.float_work()
    if not found.layers:
        return "none of the multiply-accumulates"
    shown = found.layers[:_LAYERS_SHOWN]
    each = [f"{one.node} {percent(one.share)} ({one.reason})" for one in shown]
    more = len(found.layers) - len(shown)
    each += [f"{count(more, 'more layer')}"] * (more > 0)
    return f"{percent(found.share)} of the multiply-accumulates: {'; '.join(each)}"


def _more_samples(result: Quantization) -> str:
    """How many would be enough for a sure verdict, where it is none: half of the data is held back."""
    needed = None if result.verdict is None else result.verdict.samples_needed
    if needed is None or result.verdict is None or result.verdict.shared:
        return ""
    held, have = result.verdict.samples, count(result.verdict.samples, "sample")
    were = "was" if held == 1 else "were"
    return f"{have} {were} held back, {needed} would be enough to count: calibrate with {2 * needed} or more"


def _meaning(meaning: Meaning | None) -> str:
    """What the outputs were taken for, where there are several branches or it was guessed."""
    if meaning is None or not (meaning.several or any(one.sureness == "guessed" for one in meaning.branches)):
        return ""
    each = (f"{one.kind} {_shortened(one.places)} ({one.sureness})" for one in meaning.branches)
    guessed = any(one.sureness == "guessed" for one in meaning.branches)
    return f"{', '.join(each)}{'; --branch says what they are' if guessed else ''}"


def _shortened(places: str) -> str:
    """Many places by the first ones: a raw grid has one for each anchor."""
    each = places.split(", ")
    shown = ", ".join(each[:_PLACES_SHOWN])
    return places if len(each) <= _PLACES_SHOWN + 1 else f"{shown} and {len(each) - _PLACES_SHOWN} more"


def meaning_document(meaning: Meaning | None) -> list[dict[str, Any]]:
    """One entry per branch of the outputs."""
    return [
        {"name": one.name, "kind": one.kind, "where": one.places, "sureness": one.sureness, "why": one.why}
        for one in (() if meaning is None else meaning.branches)
    ]


def next_command(verdict: Verdict, asked: Asked) -> list[str]:
    """What to do after a verdict."""
    model, output, data = str(asked.model), str(asked.output), asked.data
    if data is None or verdict.state in ("kept", "unknown"):
        task = next((one.task for one in verdict.tasks if one.state != "unknown"), None)
        all_of_them = replace(asked, reading=replace(asked.reading, samples=None))
        looking = all_of_them.looking(None if task == "classify" else task)
        return ["calib8", "evaluate", model, output, "--data", OTHER_IMAGES, *looking]
    if verdict.state == "ruined":
        return ["calib8", "diagnose", model, output, "--data", without_secrets(data), *asked.looking()]
    promise, by_task = _promise(verdict.deciding[0])
    if asked.effort == "best" or (asked.effort == "balanced" and by_task):
        read = replace(asked, reading=replace(asked.reading, batch=None)).looking()
        engine = ["--runtime", "calib8"] if asked.target == "calib8" else []
        tuned = replace(asked, output=_tuned(asked.output))
        made = [*tuned.making(), *engine, *promise, "-o", str(tuned.output)]
        return [
            "calib8",
            "tune",
            model,
            "--data",
            without_secrets(data),
            "--judge-data",
            OTHER_IMAGES,
            *read,
            *made,
        ]
    best = ["--effort", "best", "-o", _beside(asked.output, "best")]
    flags = [*asked.looking(), *asked.making(), *asked.choosing(), *best]
    return ["calib8", "quantize", model, "--data", without_secrets(data), *flags]


def _beside(output: Path, what: str) -> str:
    """Another file, so that what was written stays: ``net.onnx`` → ``net.tuned.onnx``."""
    return str(output.with_name(f"{output.stem}.{what}{output.suffix}"))


def _tuned(output: Path) -> Path:
    """Where a tuned model goes: it may keep layers in float, which a tmfile does not hold."""
    return Path(_beside(output.with_suffix(".onnx") if is_tmfile_name(output) else output, "tuned"))


def _promise(worst: TaskVerdict | BranchVerdict) -> tuple[tuple[str, str], bool]:
    """What to promise, and whether it is a figure of a task."""
    from calib8.tasks.task_verdicts import TaskVerdict

    if isinstance(worst, TaskVerdict):
        return _OF_FIGURES[worst.decided_by], True
    return _OF_BRANCHES.get(worst.kind, _OTHER_PROMISE), False


def say_verdicts(terminal: Terminal, evaluations: Sequence[Evaluation]) -> None:
    """A line per model that was judged beside the float one; then which data these were."""
    for one in evaluations:
        if one.verdict is not None:
            told = on_command_line(one.verdict.text)
            terminal.say(f"accuracy of {one.model}  {told}", style=_STYLES.get(one.verdict.state))
    fed = next((one.fed for one in evaluations if one.fed is not None), None)
    for what, value in () if fed is None else (("data", fed.data_words), ("images", fed.image_words)):
        if value:
            terminal.say(f"{what:<{_WIDTH}}{value}")


def say_next(
    terminal: Terminal, models: Sequence[Path], evaluations: Sequence[Evaluation], cure: Sequence[str]
) -> None:
    """The command to go on with behind one model beside its float one: how fast it is, or ``cure``."""
    verdict = next((one.verdict for one in evaluations if one.verdict is not None), None)
    if len(models) == 2 and verdict is not None and verdict.state != "unknown":
        kept = verdict.state == "kept"
        command = ["calib8", "benchmark", *map(str, models)] if kept else cure
        terminal.say(f"{'next':<{_WIDTH}}{shlex.join(command)}")
