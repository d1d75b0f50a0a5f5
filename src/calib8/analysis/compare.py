"""The loss of every layer: an int8 model against the float one it was made from, tensor by tensor.

    cumulative   the int8 model from its input on: what reaches this tensor of all losses before it
    local        the layer alone: it reads the float model's tensors, quantized with the int8 model's own
                 scales; weights, bias, activation and output codes are those of the int8 model

The noise of one layer goes on to everything behind it, so that a cumulative figure accuses the innocent;
a bad local figure is the layer's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.comparison import SORTS as SORTS
from calib8.analysis.comparison import Comparison as Comparison
from calib8.analysis.comparison import Sort as Sort
from calib8.analysis.comparison import TensorComparison as TensorComparison
from calib8.analysis.counterparts import CHANGED, Counterparts, Tap, find_counterparts
from calib8.analysis.float_reference import FloatReference, OpenReference, float_reference
from calib8.analysis.layer_models import local_model, tap_names, tapped_int8
from calib8.analysis.model_pair import Model, ModelPair, open_pair
from calib8.analysis.noise import DistanceSums, Spread
from calib8.analysis.output_sums import OutputSums
from calib8.analysis.runtimes import ONNXRUNTIME, OWN, USE_OWN, Settings, check_runtime, open_own
from calib8.analysis.weight_noise import weight_sqnr_db
from calib8.calibration.streaming import opened_for as opened_samples
from calib8.data.batches import Batch, batches
from calib8.data.framing import FRAMING, Framing
from calib8.data.preprocess import Preprocess
from calib8.data.reading import BatchWords, Reading, SampleWords, framed_as_stored
from calib8.data.samples import Dataset, DataSource
from calib8.errors import DataError, ModelError, UnsupportedModelError, UsageError
from calib8.model.metadata import PREFIX
from calib8.model.runtime import Session, open_session
from calib8.modules.given import Module, as_model, refuse_module
from calib8.parameters import one_of, parameter
from calib8.progress import SampleCounter, ShownProgress, callback_of, draws_progress
from calib8.quantization.qdq import holds_codes
from calib8.requests import requested, takes_words_of
from calib8.session.prepared import NATIVE
from calib8.tasks.purpose import OutputWords, Purpose, purpose_of
from calib8.tasks.seen import analysable

if TYPE_CHECKING:
    from typing_extensions import Unpack


Array = npt.NDArray[Any]


class ComparingWords(SampleWords, BatchWords, OutputWords):
    """Keywords of ``compare``."""


class DiagnosingWords(ComparingWords, total=False):
    """Keywords of ``diagnose``."""

    threshold: float | None


@draws_progress
@takes_words_of(Reading, Purpose, without=("labels", "shapes", "threshold"))
def compare(
    fp32: Model | Module,
    int8: Model,
    data: DataSource | Reading,
    *,
    runtime: str | None = None,
    profile: str | None = None,
    integer_only: bool = False,
    sort: Sort = "local",
    example_inputs: object = None,
    progress: ShownProgress = None,
    **words: Unpack[ComparingWords],
) -> Comparison:
    """Cosine and SQNR of every quantized tensor, of its layer alone and of the int8 model up to it.

    The float model and the single layers run in ONNX Runtime. Memory holds the tensors of one batch, however
    many there are.

    Args:
        fp32: path or ModelProto of the float model; or a torch module in float32.
        int8: the QDQ model made from it, by calib8 or another tool that keeps the names of tensors; or an
            int8 ``.tmfile`` of Tengine.
        data: images or arrays, or a ``Reading``, whose other fields are keywords too; without ``preprocess``
            images become inputs as the int8 model has stored it.
        runtime: what runs the int8 model as a whole: ``onnxruntime``, ``calib8`` or ``reference``; for a
            tmfile one of the latter two. None: ``calib8`` for a tmfile, else ``onnxruntime``.
        profile, integer_only: with the latter two, see ``calib8.InferenceSession``.
        sort: what is worst first: SQNR of the layer alone, or of all up to it.
        example_inputs, progress: see ``calibrate``.
        words: fields of ``Reading``, and of ``Purpose``: what the outputs mean.

    Raises:
        Calib8Error: what can be wrong with models, data or options, in one line each.
    """
    sort_order(sort)
    reading, purpose = requested(Reading, words, data, field="data"), purpose_of(words)
    refuse_module(int8, "int8")
    pair = open_pair(as_model(fp32, example_inputs), int8, reading.fix, takes_tengine=True)
    runtime = runtime or (ONNXRUNTIME if pair.tengine is None else NATIVE)
    settings = _settings(pair, runtime, reading.threads, profile, integer_only)
    meaning = purpose.meaning(analysable(pair.fp32))
    dataset = opened_for(pair, reading)
    with closing(batches(dataset, 1, 1)) as pieces:
        reference = float_reference(pair.fp32, next(pieces).inputs, pair.changes())
    found = find_counterparts(pair.int8, reference.tensors, pair.outputs, pair.changes().others)
    _check_matched(found, pair)
    seen = SampleCounter("comparing", dataset.count, callback_of(progress))
    opened = _open(pair, reference, found.taps, runtime, settings)
    sums = _run(opened, OutputSums(meaning), dataset, reading, seen)
    return _comparison(pair, reference, found, sums, sort)


def sort_order(name: str) -> Sort:
    """The order of that name.

    Raises:
        UsageError: there is none.
    """
    for order in SORTS:
        if order == name:
            return order
    raise UsageError(parameter("sort", name), "unknown order", one_of(name, SORTS))


def opened_for(pair: ModelPair, reading: Reading) -> Dataset:
    """The samples for two models; without a preprocessing, that of the int8 model is taken.

    Raises:
        Calib8Error: what can be wrong with data or options.
    """
    preprocess = stored_preprocess(pair) if reading.preprocess is None else reading.preprocess
    asked = replace(framed_as_stored(reading, lambda: _framing(pair)), preprocess=preprocess, labels=None)
    return opened_samples(pair.fp32, asked, inputs=pair.inputs)


def stored_preprocess(pair: ModelPair) -> Preprocess | None:
    """What the int8 model has stored of its preprocessing."""
    text = pair.int8.metadata_props.get(PREFIX + "preprocess")
    return None if text is None else Preprocess.from_json(text, pair.int8_name)


def _framing(pair: ModelPair) -> Framing | None:
    """How the int8 model says that sound becomes frames."""
    text = pair.int8.metadata_props.get(PREFIX + FRAMING)
    return None if text is None else Framing.from_json(text, pair.int8_name)


def _check_matched(found: Counterparts, pair: ModelPair) -> None:
    """Refuses a model without quantized activations, and one whose inner tensors are all unknown."""
    coded = [tap for tap in found.taps if tap.code is not None]
    if not coded and not found.left_out:
        problem, cure = "quantizes no activation (no QuantizeLinear reads one)", "Give a QDQ model"
        if holds_codes(pair.int8):
            problem = "has codes of recurrent weights alone, and no activation to look at"
            cure = "See what its outputs keep: 'calib8 evaluate'"
        raise UnsupportedModelError(pair.int8_name, problem, cure)
    ends = {*(spec.name for spec in pair.inputs), *pair.outputs}
    unknown = [item for item in found.left_out if item.reason != CHANGED]
    if unknown and not any(tap.reference not in ends for tap in coded):
        first = unknown[0]
        raise ModelError(
            pair.int8_name,
            f"none of its {len(found.left_out)} quantized tensors between inputs and outputs can be compared "
            f"('{first.tensor}': {first.reason}): it was not made from {pair.fp32_name}",
            "Give the float model that it was made from, as the quantizer got it",
        )


@dataclass(frozen=True)
class _Sessions:
    """Everything that runs on a batch.

    Attributes:
        pair: the models.
        taps: where they are compared.
        reference: the float model.
        int8: the int8 model, its outputs the own ones and the taps'.
        local: the model of single layers, its outputs those of the taps.
        feeds: input of ``local`` → tensor of the float model.
    """

    pair: ModelPair
    taps: tuple[Tap, ...]
    reference: OpenReference
    int8: Session
    local: Session
    feeds: dict[str, str]


def _settings(
    pair: ModelPair, runtime: str, threads: int, profile: str | None, integer_only: bool
) -> Settings:
    """How the int8 model runs.

    Raises:
        UsageError: a runtime that does not exist or cannot show what is inside, or options it does not take.
    """
    check_runtime(runtime, profile, integer_only)
    if runtime not in (ONNXRUNTIME, *OWN):
        cure = f"Use one of {ONNXRUNTIME}, {', '.join(OWN)}"
        raise UsageError(parameter("runtime", runtime), "does not give the codes between layers", cure)
    if pair.tengine is not None and runtime not in OWN:
        raise UsageError(parameter("runtime", runtime), f"{pair.int8_name} is a Tengine model", USE_OWN)
    return Settings(threads, profile, integer_only)


def _open(
    pair: ModelPair, reference: FloatReference, taps: tuple[Tap, ...], runtime: str, settings: Settings
) -> _Sessions:
    alone, threads = local_model(pair.int8, taps), settings.threads
    return _Sessions(
        pair,
        taps,
        reference.open([*(tap.reference for tap in taps), *pair.outputs], threads),
        _open_whole(pair, taps, runtime, settings),
        open_session(alone.model, threads=threads),
        alone.feeds,
    )


def _open_whole(pair: ModelPair, taps: tuple[Tap, ...], runtime: str, settings: Settings) -> Session:
    """The int8 model, its outputs the own ones and the taps'."""
    if pair.tengine is not None:
        from calib8.analysis.tmfile_pair import tapped_session  # ONNX models do without

        return tapped_session(pair.tengine, pair.int8, tap_names(taps), runtime, settings)
    whole = tapped_int8(pair.int8, taps)
    if runtime in OWN:
        return open_own(ir.to_proto(whole), runtime, settings)
    return open_session(whole, threads=settings.threads)


@dataclass
class _TapSums:
    """Running figures of one tap."""

    spread: Spread = field(default_factory=Spread)
    local: DistanceSums = field(default_factory=DistanceSums)
    cumulative: DistanceSums = field(default_factory=DistanceSums)


@dataclass
class _Sums:
    """Running figures of all taps and of the outputs."""

    taps: tuple[_TapSums, ...]
    outputs: OutputSums
    images: int = 0


def _run(
    sessions: _Sessions,
    outputs: OutputSums,
    dataset: Dataset,
    reading: Reading,
    on_batch: Callable[[int], None],
) -> _Sums:
    sums = _Sums(tuple(_TapSums() for _ in sessions.taps), outputs)
    for piece in batches(dataset, reading.batch_size, reading.threads):
        _add_batch(sessions, sums, piece)
        on_batch(len(piece.names))
    return sums


def _add_batch(sessions: _Sessions, sums: _Sums, batch: Batch) -> None:
    floats = sessions.reference.run(batch.inputs)
    _look_at_floats(sessions.taps, sums, floats, batch)
    outputs = dict(
        zip((spec.name for spec in sessions.int8.outputs), sessions.int8.run(batch.inputs), strict=True)
    )
    sums.outputs.add(sessions.pair, floats, outputs)
    for tap, tally in zip(sessions.taps, sums.taps, strict=True):
        _add(tally.cumulative, tap, floats[tap.reference], outputs[tap.output], sessions.pair)
    del outputs  # the codes of the local run take their place
    names = tap_names(sessions.taps)
    fed = {name: floats[tensor] for name, tensor in sessions.feeds.items()}
    alone = dict(zip(names, sessions.local.run({**batch.inputs, **fed}, names), strict=True))
    for tap, tally in zip(sessions.taps, sums.taps, strict=True):
        _add(tally.local, tap, floats[tap.reference], alone[tap.output], sessions.pair)
    sums.images += len(batch.names)


def _look_at_floats(taps: Sequence[Tap], sums: _Sums, floats: dict[str, Array], batch: Batch) -> None:
    for tap, tally in zip(taps, sums.taps, strict=True):
        spread = tally.spread
        spread.add(floats[tap.reference], tap.code)
        if spread.values and not np.isfinite([spread.minimum, spread.maximum]).all():
            raise DataError(
                ", ".join(batch.names),
                f"the float model has NaN or infinite values in tensor '{tap.reference}'",
                "Check the preprocessing and the float model",
            )


def _add(sums: DistanceSums, tap: Tap, reference: Array, output: Array, pair: ModelPair) -> None:
    if reference.shape != output.shape or reference.dtype != np.float32:
        raise ModelError(
            pair.int8_name,
            f"its tensor '{tap.value}' has shape {list(output.shape)}, '{tap.reference}' of {pair.fp32_name} "
            f"is {reference.dtype} {list(reference.shape)}",
            "Give the float model that it was made from",
        )
    sums.add(reference, output, tap.code)


def _comparison(
    pair: ModelPair, reference: FloatReference, found: Counterparts, sums: _Sums, sort: Sort
) -> Comparison:
    tensors = [_tensor(pair, reference, tap, tally) for tap, tally in zip(found.taps, sums.taps, strict=True)]
    other = SORTS[1 - SORTS.index(sort)]
    tensors.sort(key=lambda tensor: (getattr(tensor, sort).sqnr_db, getattr(tensor, other).sqnr_db))
    return Comparison(
        pair.fp32_name,
        pair.int8_name,
        sums.images,
        sort,
        tuple(tensors),
        found.left_out,
        sums.outputs.together.distance(),
        sums.outputs.agreement,
        pair.estimated,
        sums.outputs.distances(),
    )


def _tensor(pair: ModelPair, reference: FloatReference, tap: Tap, tally: _TapSums) -> TensorComparison:
    code, spread = tap.code, tally.spread
    values = max(spread.values, 1)
    return TensorComparison(
        tensor=tap.reference,
        node=tap.layer.node,
        op_type=tap.layer.op_type,
        nodes=tap.layer.nodes,
        dtype=None if code is None else code.spec.dtype.name,
        scale=None if code is None else code.scale,
        zero_point=None if code is None else code.zero_point,
        representable=None if code is None else code.representable,
        observed=(spread.minimum, spread.maximum),
        values=spread.values,
        saturated=None if code is None else spread.saturated / values,
        vanished=None if code is None else spread.vanished / values,
        local=tally.local.distance(),
        cumulative=tally.cumulative.distance(),
        weight_sqnr_db=weight_sqnr_db(pair.int8, tap.layer, reference),
    )
