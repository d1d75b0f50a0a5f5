"""``diagnose``: where an int8 model loses its accuracy, why, and what gives it back, each carried out first.

The samples that remedies are judged on are those that the diagnosis looked at; the figures are comparable
with its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import onnx_ir as ir

from calib8 import pipeline
from calib8.analysis.basis import Basis, basis_of
from calib8.analysis.compare import DiagnosingWords
from calib8.analysis.diagnose import diagnose as find_losses
from calib8.analysis.model_pair import Model
from calib8.calibration.range_choice import RangeChoice
from calib8.data.read_once import for_several_openings
from calib8.data.reading import Reading
from calib8.data.samples import DataSource
from calib8.errors import UsageError
from calib8.model.fix_inputs import with_fixed
from calib8.model.load import load_model
from calib8.modules.given import Module, as_model, refuse_module
from calib8.parameters import parameter
from calib8.progress import SampleCounter, ShownProgress, callback_of, draws_progress
from calib8.remedies.clinic import Clinic
from calib8.remedies.spot_wishes import spot_wishes
from calib8.remedies.treatment import Remedy, Treatment
from calib8.remedies.wishes import data_explain, wishes_of
from calib8.requests import requested, takes_words_of
from calib8.scheme import TargetChoice
from calib8.tasks.purpose import Purpose, purpose_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


COMPARED: Final = 32
"""Samples of the comparison where nothing else is asked for."""


@draws_progress
@takes_words_of(Reading, Purpose, without=("labels", "shapes"))
def diagnose(
    fp32: Model | Module,
    int8: Model | None = None,
    data: DataSource | Reading | None = None,
    *,
    example_inputs: object = None,
    progress: ShownProgress = None,
    **words: Unpack[DiagnosingWords],
) -> Treatment:
    """Finds out where an int8 model loses its accuracy and why, and tries what may help.

    Args:
        fp32: path or ModelProto of the float model; or a torch module in float32.
        int8: the QDQ model made from it, or an int8 ``.tmfile`` of Tengine, which is looked at as a QDQ model
            of its scales and codes; None: one made with plain ranges and without repairs.
        data: images or arrays, or a ``Reading``, whose other fields are keywords too; they calibrate what is
            made here. Without ``samples`` that is with all, and ``COMPARED`` are compared; ``batch`` is that
            of the comparison. What can be read once is read once, no further than needed.
        example_inputs, progress: see ``calib8.pipeline.calibrate``.
        words: fields of ``Reading``, and of ``Purpose``: what the outputs mean.

    Raises:
        Calib8Error: what can be wrong with models, data or options, in one line each.
    """
    reading, purpose = requested(Reading, words, data, field="data"), purpose_of(words)
    if reading.data is None:
        raise UsageError("diagnose", "no data were given", f"Give {parameter('data')}")
    reading = for_several_openings(reading)
    refuse_module(int8, "int8")
    fp32 = as_model(fp32, example_inputs)
    made, basis, watching = None, Basis(), callback_of(progress)
    quantized: Model
    if int8 is None:
        ranges = RangeChoice(basis.method)
        quantization = pipeline.quantize(
            fp32, _calibrating(reading), ranges=ranges, repair=("none",), task=purpose, progress=watching
        )
        made, quantized = quantization.calibration, ir.to_proto(quantization.model)
    else:
        quantized, basis = int8, basis_of(fp32, int8, reading.fix)
    compared = reading if reading.samples is not None else replace(reading, samples=COMPARED)
    diagnosis = find_losses(fp32, quantized, compared, task=purpose, progress=watching)
    wishes = wishes_of(diagnosis, basis, again=int8 is not None)
    remedies: tuple[Remedy, ...] = ()
    if wishes:
        if made is None:
            ranges = RangeChoice(
                basis.method, basis.percent, power_of_two=basis.power_of_two, ranges=dict(basis.ranges)
            )
            same = replace(reading, preprocess=diagnosis.preprocess, framing=diagnosis.framing)
            made = pipeline.calibrate(
                fp32, _calibrating(same), ranges=ranges,
                target=TargetChoice(basis.target, basis.activations), keep_float=basis.keep_float,
                task=purpose, progress=watching,
            )  # fmt: skip
        clinic = Clinic(diagnosis, made, basis, reading.threads, load_model(with_fixed(fp32, reading.fix)))
        basis = clinic.basis
        if not data_explain(diagnosis, again=int8 is not None):
            wishes = (*wishes, *spot_wishes(clinic, wishes))
        remedies = clinic.tried(wishes, SampleCounter("trying remedies", len(wishes), watching))
    return Treatment(diagnosis, remedies, len(wishes), basis, int8 is None, purpose)


def _calibrating(reading: Reading) -> Reading:
    """The same samples, as many per run as serves calibration; labels are not needed for that."""
    return replace(reading, batch=None, labels=None)
