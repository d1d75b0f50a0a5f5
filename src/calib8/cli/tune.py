"""``calib8 tune``: the cheapest int8 model that keeps a promise about its accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table

from calib8.cli.choices import JUDGES
from calib8.cli.headings import DATA, PROMISE, RESULTS, SEARCH, option
from calib8.cli.meaning_options import MeaningOptions
from calib8.cli.options import (
    DataOption,
    GivenRangesOption,
    InputMapOption,
    LabelsOption,
    ModelArgument,
    PowerOfTwoOption,
    PreprocessOptions,
    ReadingOptions,
    ReportOptions,
    SkipBadOption,
    ThreadsOption,
)
from calib8.cli.outputs import check_outputs, model_bytes_on_disk, write_json
from calib8.cli.preprocessing import chosen_preprocess
from calib8.cli.progress import shown_progress
from calib8.cli.quantize import WeightsOption
from calib8.cli.render import plain_table, say_sizes
from calib8.cli.run_report import PageOption, check_report, write_run_report
from calib8.cli.sound_options import SoundOptions
from calib8.cli.steps import look_at_data
from calib8.cli.stream_options import FixOption, StateOption
from calib8.cli.terminal import Terminal, open_terminal
from calib8.cli.tracking import LogOptions
from calib8.errors import PromiseError
from calib8.number_texts import NOTHING, count, percent, percent_cell
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.tuning.promise import Promises
    from calib8.tuning.search_choice import SearchChoice
    from calib8.tuning.trial import Trial
    from calib8.tuning.tune import Tuning

_DROP_HELP: Final = "Top-1 at most P percentage points below the float model's; needs labels."
_AGREEMENT_HELP: Final = "The best class is the float model's for at least P % of the samples."
_SQNR_HELP: Final = "Signal to noise of the outputs of at least D dB."
_MAP_HELP: Final = (
    "Mean average precision of at least S (0 … 1) of FP32's; by --labels, else FP32's boxes are the truth."
)
_RECALL_HELP: Final = "At least S (0 … 1) of FP32's boxes are found."
_IOU_HELP: Final = "Mean IoU of masks with FP32's of at least S (0 … 1)."
_COSINE_HELP: Final = "Mean cosine of embeddings with FP32's of at least S (0 … 1)."
_LINES_HELP: Final = "At least S (0 … 1) of the lines of text are FP32's."
_PRECISION_HELP: Final = "At least S (0 … 1) of the boxes found are FP32's as well."
_DECISIONS_HELP: Final = "At least S (0 … 1) of the frames are decided as FP32 decides them."
_SI_SDR_HELP: Final = "SI-SDR of the signal beside FP32's of at least D dB."
_OKS_HELP: Final = "Mean similarity of keypoints with FP32's of at least S (0 … 1)."


@dataclass(frozen=True, kw_only=True)
class PromiseOptions:
    """What has to be kept; None: not given."""

    max_drop: Annotated[float | None, option(PROMISE, "--max-drop", "P", _DROP_HELP)] = None
    min_agreement: Annotated[float | None, option(PROMISE, "--min-agreement", "P", _AGREEMENT_HELP)] = None
    min_sqnr: Annotated[float | None, option(PROMISE, "--min-sqnr", "D", _SQNR_HELP)] = None
    min_map_ratio: Annotated[float | None, option(PROMISE, "--min-map-ratio", "S", _MAP_HELP)] = None
    min_recall: Annotated[float | None, option(PROMISE, "--min-recall", "S", _RECALL_HELP)] = None
    min_precision: Annotated[float | None, option(PROMISE, "--min-precision", "S", _PRECISION_HELP)] = None
    min_iou: Annotated[float | None, option(PROMISE, "--min-iou", "S", _IOU_HELP)] = None
    min_cosine: Annotated[float | None, option(PROMISE, "--min-cosine", "S", _COSINE_HELP)] = None
    min_lines: Annotated[float | None, option(PROMISE, "--min-lines", "S", _LINES_HELP)] = None
    min_oks: Annotated[float | None, option(PROMISE, "--min-oks", "S", _OKS_HELP)] = None

    min_decisions: Annotated[float | None, option(PROMISE, "--min-decisions", "S", _DECISIONS_HELP)] = None
    min_si_sdr: Annotated[float | None, option(PROMISE, "--min-si-sdr", "D", _SI_SDR_HELP)] = None

    def promises(self) -> Promises:
        """The request that these options are.

        Raises:
            UsageError: none or several, or one that no model can keep.
        """
        from calib8.tuning.promise import Promises

        return Promises(**{one.name: getattr(self, one.name) for one in fields(self)})


_JUDGE_HELP: Final = (
    "Samples to judge with, best none of the training; all of --data calibrates then. "
    "Default: half of --data."
)
_SAMPLES_HELP: Final = "At most so many of --data, and of --judge-data, evenly spaced. Default: all."


@dataclass(frozen=True, kw_only=True)
class SampleOptions(SoundOptions):
    """How much of the data is read, and how; None: not given."""

    judge_data: Annotated[str | None, option(DATA, "--judge-data", "DIR|FILE|URL", _JUDGE_HELP)] = None
    labels: LabelsOption = None
    samples: Annotated[int | None, option(DATA, "--samples", "N", _SAMPLES_HELP)] = None
    threads: ThreadsOption = None
    skip_bad: SkipBadOption = False
    input_map: InputMapOption = None
    fix: FixOption = None
    state: StateOption = None

    @property
    def reading(self) -> ReadingOptions:
        """The options that other commands share."""
        return ReadingOptions(
            samples=self.samples, threads=self.threads, skip_bad=self.skip_bad, input_map=self.input_map,
            fix=self.fix, state=self.state,
            **{one.name: getattr(self, one.name) for one in fields(SoundOptions)},
        )  # fmt: skip


_BUDGET_HELP: Final = "Time for all runs together, such as 90s, 10m or 1h. Default: as long as it takes."
_WORK_HELP: Final = "Folder of the search, which a later run goes on with. Default: OUT.onnx.tune."
_EFFORT_HELP: Final = "The most that is tried to keep the accuracy: fast, balanced or best. Default: best."
_RUNTIME_HELP: Final = "What judges the models: onnxruntime or calib8, its own engine. Default: onnxruntime."
_TARGET_HELP: Final = "Runtime of the result, as for quantize. Default: that of --runtime."
_ACTIVATIONS_HELP: Final = "Code of the activations. Default: what the target takes."
_LATENCY_HELP: Final = "Time all models that were tried, in turns, in --runtime; no part of the budget."
_KEEP_HELP: Final = "Name of a node that is in float anyway; may be given several times."


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What is searched, where and for how long; None: not given."""

    budget: Annotated[str | None, option(SEARCH, "--budget", "TIME", _BUDGET_HELP)] = None
    work: Annotated[Path | None, option(SEARCH, "--work", "DIR", _WORK_HELP)] = None
    effort: Annotated[str | None, option(SEARCH, "--effort", "NAME", _EFFORT_HELP)] = None
    runtime: Annotated[str, option(SEARCH, "--runtime", "NAME", _RUNTIME_HELP, JUDGES)] = "onnxruntime"
    target: Annotated[str | None, option(SEARCH, "--target", "NAME", _TARGET_HELP)] = None
    activations: Annotated[str | None, option(SEARCH, "--activations", "TYPE", _ACTIVATIONS_HELP)] = None
    weights: WeightsOption = "per-channel"
    power_of_two: PowerOfTwoOption = False
    range: GivenRangesOption = None
    keep_float: Annotated[list[str] | None, option(SEARCH, "--keep-float", "NODE", _KEEP_HELP)] = None
    measure_latency: Annotated[bool, option(SEARCH, "--measure-latency", None, _LATENCY_HELP)] = False

    def choice(self) -> SearchChoice:
        """The request that these options are.

        Raises:
            UsageError: no such effort, a budget that is not a time, a range that is none.
        """
        from calib8.calibration.given import parse_given
        from calib8.tuning.search_choice import LAST_EFFORT, SearchChoice

        effort, given = self.effort or LAST_EFFORT, parse_given(self.range or ())
        return SearchChoice(
            effort, self.keep_float or (), given, self.power_of_two, self.budget, self.work,
            self.measure_latency,
        )  # fmt: skip


_OUTPUT_HELP: Final = "The INT8 model. Default: the name of MODEL with .int8.onnx, in this folder."
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="OUT.onnx", show_default=False, help=_OUTPUT_HELP, rich_help_panel=RESULTS
    ),
]


def tune(
    model: ModelArgument,
    data: DataOption,
    output: OutputOption = None,
    *,
    promises: PromiseOptions,
    data_options: SampleOptions,
    search: SearchOptions,
    meaning: MeaningOptions,
    preprocessing: PreprocessOptions,
    page: PageOption = None,
    logging: LogOptions,
    report: ReportOptions,
) -> None:
    """Find the cheapest INT8 model that keeps a promise.

    Repairs, tensors of 16 bits (target calib8) and nodes in float are tried until the promise holds on
    samples that neither calibrated nor repaired. A run that was stopped goes on where it was. Exit code 3:
    the promise is not kept.
    """
    from calib8.run_report.stage_times import StageTimes
    from calib8.tuning import tune as tuning
    from calib8.tuning.float_forms import check_tuned_model

    terminal, options = open_terminal(report.quiet), data_options.reading
    out = _output(model, output)
    judges, labels = data_options.judge_data, data_options.labels
    check_report(page)
    outputs = {"--output": out, "--json": report.json, "--report": page}
    check_outputs(outputs, [model, data, labels, judges])
    check_tuned_model(out, f"--output {out}")
    log = logging.opened([out])
    promised, choice = promises.promises(), search.choice()
    purpose, preprocess = meaning.purpose(), chosen_preprocess(preprocessing)
    reading, times = options.of(data, preprocess, labels), StageTimes()
    classes = labels if judges is None and not promised.promise().by_task else None
    loaded, _ = look_at_data(terminal, model, replace(reading, labels=classes))
    with shown_progress(terminal, "preparing the model") as progress:
        found = tuning.tune(
            loaded, reading, out, promise=promised, judge_data=judges, target=search.target,
            activations=search.activations, weights=search.weights, runtime=search.runtime, search=choice,
            task=purpose, progress=times.watching(progress),
        )  # fmt: skip
    if report.json is not None:
        write_json(report.json, tuning_document(model, found))
    _say(terminal, model, found)
    judged = reading if judges is None else replace(reading, data=judges)
    write_run_report(
        terminal, page, found, times, fp32=model, int8=found.path, reading=judged, purpose=purpose,
        log=replace(log, models=(found.path,) if log.models else ()),
    )  # fmt: skip
    if not found.kept:
        raise _broken_promise(found)
    log.end()


def _output(model: Path, output: Path | None) -> Path:
    return output or Path(model.with_suffix(".int8.onnx").name)


def work_folder(arguments: Mapping[str, Any]) -> Path | None:
    """The folder of the search that the arguments of ``tune`` name."""
    search: SearchOptions = arguments["search"]
    output = _output(arguments["model"], arguments["output"])
    return search.work or output.with_name(f"{output.name}.tune")


def _say(terminal: Terminal, model: Path, found: Tuning) -> None:
    terminal.show(trials_table(found))
    for note in found.notes:
        terminal.say(f"note: {on_command_line(note)}")
    if found.float_map is not None:
        terminal.say(f"FP32's own mAP@[.5:.95] by the labels: {percent(found.float_map)}")
    judged = count(found.judged, "sample")
    terminal.say_lines(f"{judged} judged, {found.calibrated} others calibrated; {_certainty(found)}")
    if not found.kept:
        return
    terminal.say(f"kept: {found.promise.text}; {_figures(found)}")
    floats = found.best.settings.floats
    which = (
        f"{count(len(floats), 'node')} in float: {', '.join(floats)}" if floats else "no more node in float"
    )
    terminal.say(f"{percent(found.best.cost)} of the MACs in float, {which}")
    if found.best.spots:
        told = f"{count(len(found.best.spots), 'tensor')} with 16-bit codes: {', '.join(found.best.spots)}"
        twice = f"; {percent(found.best.wide)} of the MACs read them, and are done twice"
        terminal.say(told + twice * (found.best.wide > 0.0))
    say_sizes(terminal, (model, model_bytes_on_disk(model)), (found.path, model_bytes_on_disk(found.path)))


def _certainty(found: Tuning) -> str:
    """What the bound is, and what the samples could prove without looking at margins."""
    from calib8.tuning.evidence import counted_limit, samples_to_count

    text = "'at worst': all samples like these, with 95 % certainty"
    if found.promise.kind not in ("agreement", "drop"):
        return text
    promised = found.promise.value / 100.0
    share = 1.0 - promised if found.promise.kind == "drop" else promised
    limit = percent(counted_limit(found.judged))
    needed = f", {100.0 * share:g} % takes {samples_to_count(share)}" if share < 1.0 else ""
    return (
        f"{text}\nby counting alone they prove no more than {limit} agreement{needed}: margins tell the rest"
    )


_COLUMNS: Final = {"agreement": "agreement %", "top1": "top-1 %", "sqnr": "SQNR dB"}


def trials_table(found: Tuning) -> Table:
    """One row per trial, in the order in which they were made."""
    unit, kind = found.promise.unit, found.promise.kind
    table = plain_table("trial", "effort", "Concat")
    shown = [name for name in ("agreement", "top1", "sqnr") if name != kind]
    digits = 4 if found.promise.by_task and not unit else 2
    wide = any(trial.spots for trial in found.trials)
    spots = ("spots", "spot MACs %") if wide else ()
    headers = ("float nodes", "float MACs %", *spots, f"{found.promise.noun} {unit}", f"at worst {unit}")
    for header in (
        *headers,
        *(_COLUMNS[name] for name in shown),
        "seconds",
        *["ms"] * bool(found.latencies),
        "kept",
    ):
        table.add_column(header.rstrip(), justify="right")
    for index, trial in enumerate(found.trials, 1):
        f = trial.figures
        others = {"agreement": f.agreement, "top1": f.top1, "sqnr": f.sqnr_db}
        table.add_row(
            str(index), trial.settings.effort, trial.settings.concat, str(len(trial.settings.floats)),
            percent_cell(trial.cost), *((str(len(trial.spots)), percent_cell(trial.wide)) if wide else ()),
            f"{f.value:.{digits}f}", f"{f.bound:.{digits}f}",
            *(_two(others[name]) for name in shown), f"{trial.seconds:.1f}",
            *(f"{ms:.3f}" for ms in found.latencies[index - 1 : index]),
            ("yes" if trial.kept else "no") + (" *" if trial is found.best else ""),
        )  # fmt: skip
    return table


def _figures(found: Tuning) -> str:
    figures, shown = found.best.figures, found.promise.shown
    each = ", ".join(f"{name} {figure:.1f} dB" for name, figure in figures.branches.items())
    told = f"it is {shown(figures.value)}, at worst {shown(figures.bound)}"
    return f"{told} ({each})" if each else told


def _broken_promise(found: Tuning) -> PromiseError:
    why = "is not kept" if found.complete else "is not kept within the budget"
    problem = f"{why}; the closest model: {_figures(found)}"
    cure = "Promise less, give more samples to judge with, or take it as it is"
    if not found.complete:
        cure = "Run it again with a larger --budget: it goes on where it was"
    return PromiseError(found.promise.text, f"{problem}, is {found.path}", cure)


def _two(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def tuning_document(model: Path, found: Tuning) -> dict[str, Any]:
    """The result for machines."""
    return {
        "model": str(model),
        "output": str(found.path),
        "work": str(found.work),
        "promise": {"kind": found.promise.kind, "value": found.promise.value},
        "kept": found.kept,
        "complete": found.complete,
        "calibrated": found.calibrated,
        "judged": found.judged,
        "float_top1": None if found.float_top1 is None else found.float_top1 / 100.0,
        "float_map": found.float_map,
        "best": found.trials.index(found.best),
        "trials": [
            {**_trial(trial), "latency_ms": found.latencies[index] if found.latencies else None}
            for index, trial in enumerate(found.trials)
        ],
        "notes": list(found.notes),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    f = trial.figures
    return {
        "effort": trial.settings.effort,
        "concat": trial.settings.concat,
        "floats": list(trial.settings.floats),
        "float_macs": trial.cost,
        "spots": list(trial.spots),
        "wide_macs": trial.wide,
        "kept": trial.kept,
        "value": f.value,
        "bound": f.bound,
        "agreement": None if f.agreement is None else f.agreement / 100.0,
        "top1": None if f.top1 is None else f.top1 / 100.0,
        "sqnr_db": f.sqnr_db,
        "branches": dict(f.branches),
        "samples": f.samples,
        "seconds": trial.seconds,
    }
