"""Judging models on data: accuracy side by side, and a look at what goes in before time is spent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt

from calib8.analysis.asked_judges import AskedJudges, asked_judges, check_goes_elsewhere, labels_of_images
from calib8.analysis.beside_evaluation import doubts, first_samples, timed, told_beside
from calib8.analysis.chance import doubt, hardly_better_than_guessing
from calib8.analysis.evaluate import Counting, Outputs, class_scores, evaluate_sessions, evaluations
from calib8.analysis.evaluation import Evaluation, Evaluations
from calib8.analysis.evaluation_work import EvaluationWork
from calib8.analysis.open_models import OpenModels
from calib8.analysis.paces import FirstSamples
from calib8.analysis.runtimes import OWN, Settings, default_runtime, is_float_model
from calib8.data.batches import Batch, batches
from calib8.data.finite import not_finite
from calib8.data.preflight import InputCheck, check_inputs
from calib8.data.reading import BatchWords, LabelWords, Reading, SampleWords, framed_as_stored
from calib8.data.samples import Dataset, DataSource
from calib8.data.whole import found_of_all
from calib8.errors import ModelError, UsageError
from calib8.files import checked_path
from calib8.model.runtime import Session, open_session
from calib8.modules.given import FilePath, Module, as_files, as_model, is_module
from calib8.notebook import grid, in_notebook, notes
from calib8.number_texts import count, percent
from calib8.parameters import Text, with_both
from calib8.progress import Progress, ShownProgress, callback_of, draws_progress
from calib8.requests import requested, takes_words_of
from calib8.session.stored_preprocess import stored_framing, stored_preprocess
from calib8.tasks.branches import Meaning
from calib8.tasks.judges.own import OwnJudge
from calib8.tasks.purpose import Purpose, PurposeWords, purpose_of
from calib8.tensors import TensorSpec
from calib8.tflite.magic import claims_to_be_tflite

if TYPE_CHECKING:  # plans need neither models nor what reads them
    from typing_extensions import Unpack

    from calib8.model.load import ModelSource

PREFLIGHT_SAMPLES: Final = 32


class EvaluatingWords(SampleWords, LabelWords, BatchWords, PurposeWords):
    """Keywords of ``evaluate``."""


@draws_progress
@takes_words_of(Reading, Purpose, without=("shapes",))
def evaluate(
    models: Sequence[FilePath | Module],
    data: DataSource | Reading,
    *,
    label_offset: int = 0,
    runtime: str | None = None,
    profile: str | None = None,
    integer_only: bool = False,
    judge: OwnJudge | None = None,
    example_inputs: object = None,
    progress: ShownProgress = None,
    **words: Unpack[EvaluatingWords],
) -> Evaluations:
    """Accuracy and speed of models side by side on the same data.

    The first float model of the list is the reference for agreement and SQNR.

    With ``calib8.distributed.OnRay`` in place of data a cluster runs the models: the figures are the same,
    but no time is told, and there are neither tasks nor judges of your own.

    Args:
        models: paths of .onnx, .tflite and .tmfile files of one network; saved programs too with the runtimes
            ``calib8`` and ``reference``, plans with ``calib8``; torch modules, which are float models.
        data: images or arrays, or a ``Reading``, whose other fields are keywords too. Without ``preprocess``
            that of a quantized model of the list is taken. ``labels`` are a ``file label`` list for an image
            folder; labels that are found without it and do not fit are left out with a warning. With the
            tasks ``detect`` and ``keypoints`` they are a COCO JSON file or a folder of YOLO text files, with
            ``segment`` a folder of PNGs, with ``ctc`` a list of texts.
        label_offset: what is added to every label: 1 where labels from 0 meet models with a background
            class at 0.
        runtime: ``onnxruntime``, ``openvino``, ``calib8``, ``reference`` (calib8's definition of every
            rounding), or LiteRT with its kernels of XNNPACK (``litert``), its own (``litert-optimized``) or
            those that define TFLite (``litert-reference``). None: ``calib8`` where one of the models is a
            quantized model of TFLite or Tengine, else ``onnxruntime``. With the two of calib8 float models
            run in ONNX Runtime; LiteRT is for TFLite models, and the others run there then.
        profile, integer_only: with the runtimes ``calib8`` and ``reference``, see
            ``calib8.InferenceSession``.
        judge: a function (outputs_float, outputs_int8) → score of your own, called for every sample with
            lists of arrays; ``Evaluation.own`` has its mean.
        example_inputs, progress: see ``calibrate``; the former for all torch modules of the list.
        words: fields of ``Reading`` and ``Purpose``. ``task``: what the outputs are for: ``detect``,
            ``segment``, ``classify``, ``embed``, ``ctc`` or ``keypoints``, whose figures are told too
            (``Evaluation.task``); or a judge with its head, such as ``DetectionJudge(DetectionHead(…))``,
            where the outputs do not tell how they are decoded. Each of the ``branches`` has an SQNR of its
            own.

    Raises:
        Calib8Error: what can be wrong with models, data or options, in one line each.
    """
    if isinstance(models, str | os.PathLike) or is_module(models):
        one = f"one path ('{models}')" if not is_module(models) else f"one module ({type(models).__name__})"
        raise UsageError("models", f"is {one}", "Give a list of paths")
    if isinstance(models, Mapping) or not isinstance(models, Iterable):  # of a mapping: keys or values?
        problem = f"is of type {type(models).__name__}, not a list"
        raise UsageError("models", problem, "Give a list of paths, such as models=['fp32.onnx', 'int8.onnx']")
    models = list(models)
    if not models:
        cure = "Give the paths of one or more .onnx, .tflite or .tmfile models"
        raise UsageError("evaluate", "no model was given", cure)
    for model in models:
        if not is_module(model):
            checked_path(model, "models")
    reading, purpose = requested(Reading, words, data, field="data"), purpose_of(words)
    settings = Settings(reading.threads, profile, integer_only)
    with as_files(models, example_inputs, reading.fix) as files:
        found = _evaluated(
            files.paths, reading, purpose, runtime, settings, label_offset, judge, callback_of(progress)
        )
    return Evaluations(replace(one, model=files.named(one.model)) for one in found)


def _evaluated(
    models: Sequence[FilePath],
    reading: Reading,
    purpose: Purpose,
    runtime: str | None,
    settings: Settings,
    label_offset: int,
    judge: OwnJudge | None,
    progress: Progress,
) -> list[Evaluation]:
    """Of files alone, see ``evaluate``."""
    runtime = runtime or default_runtime(models)
    opened = OpenModels(models, runtime, settings)
    sessions = opened.sessions(settings.threads)
    preprocess = stored_preprocess(models) if reading.preprocess is None else reading.preprocess
    of_images = labels_of_images(purpose.task, reading.labels)
    labels = reading.labels if of_images is None else None
    reading = framed_as_stored(reading, lambda: stored_framing(models))
    asked = replace(reading, preprocess=preprocess, labels=labels)
    reference = next((index for index, path in enumerate(models) if is_float_model(path)), None)
    dataset = _opened_for(None if reference is None else models[reference], asked, sessions)
    check_goes_elsewhere(dataset, purpose.task, judge)
    meaning = None if reference is None else meaning_of_file(models[reference], purpose, reading.state)
    told_of = meaning if reference is not None else purpose.without_graph()
    judges = asked_judges(purpose.task, judge, sessions, reference, of_images, dataset, told_of)
    labels_asked = dataset.labels_asked or label_offset != 0
    counting = Counting(reference, label_offset, labels_asked, judges.of_classes, meaning)
    work = EvaluationWork(
        opened, counting, reading.batch_size, dataset.class_names if judges.of_classes else None
    )
    told, first = _told(work, dataset, judges, reading, progress)
    results = [_with_label_warning(result, dataset) for result in judges.beside(told)]
    if reference is not None:
        doubted = doubts(models[reference], told[reference], first, dataset, reading.threads)
        warned = results[reference]
        results[reference] = replace(warned, warnings=(*warned.warnings, *doubted))
    if runtime in OWN:
        return results
    pairs = zip(results, models, strict=True)
    return [_with_saturation(result, path, runtime) for result, path in pairs]


def _opened_for(fp32: FilePath | None, reading: Reading, sessions: Sequence[Session]) -> Dataset:
    """The samples; those of a streaming model are frames with the states that the float model has."""
    inputs = _inputs_of_first(sessions)
    if fp32 is None or claims_to_be_tflite(fp32):
        return reading.opened(inputs, elsewhere=True)
    from calib8.calibration.streaming import opened_for  # plans run without the libraries of models
    from calib8.model.graph import graph_inputs
    from calib8.model.load import load_model

    model = load_model(fp32)
    counted = {spec.name: spec.counted for spec in graph_inputs(model)}
    inputs = tuple(replace(spec, counted=counted.get(spec.name)) for spec in inputs)
    return opened_for(model, reading, inputs=inputs, elsewhere=True)


def _told(
    work: EvaluationWork, dataset: Dataset, judges: AskedJudges, reading: Reading, progress: Progress
) -> tuple[list[Evaluation], Callable[[], FirstSamples]]:
    """What the models are found to be worth, here or on other machines, and what gives the first samples.

    Time is told here alone: models share other machines with whatever runs there.
    """
    first, threads = FirstSamples(), reading.threads

    def add(batch: Batch, results: Outputs) -> None:
        judges.add(batch, results)
        first.add(batch)

    elsewhere = dataset.elsewhere
    there = replace(work, beside=add) if elsewhere is None else replace(work, mixed=elsewhere.mixed)
    findings = found_of_all(there, dataset, threads, "evaluating", progress)
    sessions = work.models.sessions(threads)
    found = evaluations(sessions, findings.tallies, work.counting)
    told = told_beside(found, findings, dataset, judges.task)
    if elsewhere is None:
        return timed(told, sessions, first), lambda: first
    return told, partial(first_samples, dataset, reading.batch_size, threads)


def meaning_of_file(
    model: str | os.PathLike[str], purpose: Purpose, state: Mapping[str, str] | None = None
) -> Meaning | None:
    """What the outputs of a float model mean; None where its graph cannot be read, and nothing was named.

    ``state``: see ``Reading``; what feeds a state is not what the network is for.

    Raises:
        ModelError: it cannot be read.
        UsageError: see ``calib8.tasks.meaning.judged_meaning``.
    """
    from calib8.model.load import load_model
    from calib8.model.states import states_of, write_states
    from calib8.tasks.seen import analysable

    try:
        graph = analysable(load_model(model))
        write_states(graph, states_of(graph, state))
        return purpose.judged(graph)
    except ModelError:
        if purpose.task is not None or purpose.branches or purpose.threshold is not None:
            raise
        return None


def _with_label_warning(result: Evaluation, dataset: Dataset) -> Evaluation:
    """Says why there is no top-1 although there are labels."""
    why = dataset.why_no_labels or result.labels_left_out
    return replace(result, warnings=(*result.warnings, _labels_left_out(why, dataset))) if why else result


def _with_saturation(result: Evaluation, path: str | os.PathLike[str], runtime: str) -> Evaluation:
    """Says where the runtime gives other outputs on this CPU by default."""
    from calib8.analysis.saturation_here import saturation_notes  # plans run without the libraries of models
    from calib8.model.load import load_model

    if claims_to_be_tflite(path) or result.failure is not None:
        return result
    return replace(result, warnings=(*result.warnings, *saturation_notes(load_model(path), runtime)))


def _labels_left_out(why: str, dataset: Dataset) -> str:
    """That labels nobody asked for do not count, and what to do."""
    return Text(f"labels were found that do not fit and are left out: {why}. {with_both(dataset.label_cure)}")


def _inputs_of_first(sessions: Sequence[Session]) -> tuple[TensorSpec, ...]:
    """Of the first model that could be opened; a model that ended its runtime tells none.

    Raises:
        CrashError: there is none.
    """
    opened = [session.inputs for session in sessions if session.inputs]
    if not opened:
        sessions[0].run({})
    return opened[0]


@dataclass(frozen=True)
class Preflight:
    """A look at the data before an hour is spent.

    Attributes:
        inputs: what goes into each input, against what mean and scale imply.
        images: samples looked at.
        evaluation: the float model on them; None where none has a label, so that it would tell nothing.
        warnings: sentences about what looks wrong with its answers and inside it; ``inputs`` have their own.
    """

    inputs: tuple[InputCheck, ...]
    images: int
    evaluation: Evaluation | None
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: how much was looked at, and what looks wrong."""
        told = [f"{self.images} samples"]
        if self.evaluation is not None and self.evaluation.top1 is not None:
            told.append(f"FP32 top-1 {percent(self.evaluation.top1)}")
        warnings = len(self._all_warnings())
        told.append(count(warnings, "warning") if warnings else "nothing looks wrong")
        return f"<Preflight: {', '.join(told)}>"

    def _repr_html_(self) -> str:
        """What goes into the model, and what looks wrong with it, for notebooks."""
        seen = grid(
            ("input", "samples", "smallest", "largest", "allowed by mean and scale"), self.inputs, _input_row
        )
        return in_notebook(repr(self), seen, notes(self._all_warnings()))

    def _all_warnings(self) -> list[str]:
        """Those of the inputs too, with their names."""
        own = [f"input '{check.input}': {text}" for check in self.inputs for text in check.warnings]
        return [*own, *self.warnings]


def _input_row(check: InputCheck) -> tuple[object, ...]:
    implied = None
    if check.implied is not None:
        low, high = min(low for low, _ in check.implied), max(high for _, high in check.implied)
        implied = f"{low:.4g} … {high:.4g}"
    return (check.input, check.rows, min(check.minimum), max(check.maximum), implied)


class LookingWords(SampleWords, LabelWords):
    """Keywords of ``preflight``."""


@takes_words_of(Reading, without=("batch", "shapes"))
def preflight(
    model: ModelSource | Module,
    data: DataSource | Reading,
    *,
    example_inputs: object = None,
    **words: Unpack[LookingWords],
) -> Preflight:
    """Looks at what some samples feed to the float model: input ranges, and top-1 where there are labels.

    Of pictures it also says whether the model would rather be fed in another way.

    Args:
        model: path or ModelProto of the float model; or a torch module in float32.
        data: images or arrays, or a ``Reading``, whose other fields are keywords too. Without ``samples``
            ``PREFLIGHT_SAMPLES`` are looked at.
        example_inputs: see ``calibrate``.
        words: fields of ``Reading``.

    Raises:
        Calib8Error: what can be wrong with model, data or options, in one line each.
    """
    from calib8.analysis.second_opinion import second_opinion
    from calib8.calibration.streaming import opened_for
    from calib8.model.fix_inputs import with_fixed
    from calib8.model.load import load_model, naming_file
    from calib8.passes.branches import telling_of_branches
    from calib8.passes.prepare import refuse_unsupported

    reading = requested(Reading, words, data, field="data")
    original = load_model(with_fixed(as_model(model, example_inputs), reading.fix))
    with naming_file(original):
        refuse_unsupported(original)
    samples = PREFLIGHT_SAMPLES if reading.samples is None else reading.samples
    dataset = opened_for(original, replace(reading, samples=samples))
    with telling_of_branches(original):
        pieces = list(batches(dataset, 1, reading.threads))
    checks = check_inputs(pieces, dataset.preprocess)
    images = sum(len(piece.names) for piece in pieces)
    why = dataset.why_no_labels
    told = [_labels_left_out(why, dataset)] if why else []
    told += [
        f"{name} holds NaN or infinite values"
        for piece in pieces
        for name in not_finite(list(piece.inputs.values()), piece.names)
    ][:1]
    labelled = any(label is not None for piece in pieces for label in piece.labels)
    evaluation, session, scores = None, None, list[npt.NDArray[Any] | None]()
    if labelled:
        session = open_session(original, threads=reading.threads)
        [evaluation] = evaluate_sessions(
            [session], pieces, Counting(None, labels_asked=dataset.labels_asked),
            lambda _, results: scores.extend(_first_scores(results)),
        )  # fmt: skip
        told += _warnings(evaluation, scores[0], dataset)
    told += second_opinion(
        original, pieces, dataset.preprocess, reading.threads, session=session, scores=scores
    )
    return Preflight(checks, images, evaluation, tuple(told))


def _first_scores(results: Sequence[Sequence[npt.NDArray[Any]] | None]) -> Iterator[npt.NDArray[Any] | None]:
    """Class scores of the first output of every model; other outputs are large and not kept."""
    for outputs in results:
        yield None if outputs is None else class_scores(outputs[0])


def _warnings(evaluation: Evaluation, scores: npt.NDArray[Any] | None, dataset: Dataset) -> Iterator[str]:
    """What the answers of the float model say about data and labels."""
    if evaluation.labels_left_out:
        yield _labels_left_out(evaluation.labels_left_out, dataset)
    if evaluation.top1 is None:
        return
    labelled = evaluation.labelled
    hits = round(evaluation.top1 * labelled)
    if scores is not None and hardly_better_than_guessing(hits, labelled, scores.shape[1]):
        yield doubt(hits, labelled)
