"""calib8: a trained FP32 CNN becomes an INT8 one, keeps its accuracy, and proves it.

Names are loaded on first use, so that ``import calib8`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as tools that read types know it; typing itself would be half the time of this import
if TYPE_CHECKING:
    from calib8.analysis.compare import compare as compare
    from calib8.analysis.comparison import Comparison as Comparison
    from calib8.analysis.doctor import doctor as doctor
    from calib8.analysis.environment import Environment as Environment
    from calib8.analysis.evaluation import Evaluation as Evaluation
    from calib8.analysis.inspection import Inspection as Inspection
    from calib8.analysis.inspection import inspect as inspect
    from calib8.analysis.lint import lint as lint
    from calib8.analysis.speed import Benchmark as Benchmark
    from calib8.analysis.speed import benchmark as benchmark
    from calib8.calibration.gather import Checkpointing as Checkpointing
    from calib8.calibration.gatherer import Gatherer as Gatherer
    from calib8.calibration.merge import merge_statistics as merge_statistics
    from calib8.calibration.range_choice import RangeChoice as RangeChoice
    from calib8.calibration.statistics import Statistics as Statistics
    from calib8.data.framing import Framing as Framing
    from calib8.data.preprocess import Preprocess as Preprocess
    from calib8.data.presets import preset as preset
    from calib8.data.reading import Reading as Reading
    from calib8.delivery.compiling import Compilation as Compilation
    from calib8.delivery.compiling import compile as compile
    from calib8.delivery.exporting import Export as Export
    from calib8.delivery.exporting import export as export
    from calib8.errors import Calib8Error as Calib8Error
    from calib8.errors import CalibrationError as CalibrationError
    from calib8.errors import DataError as DataError
    from calib8.errors import ModelError as ModelError
    from calib8.errors import OutputError as OutputError
    from calib8.errors import TableError as TableError
    from calib8.errors import UnsupportedModelError as UnsupportedModelError
    from calib8.errors import UsageError as UsageError
    from calib8.formats.convert import TableConversion as TableConversion
    from calib8.formats.convert import convert_table as convert_table
    from calib8.formats.tables import read_table as read_table
    from calib8.judge import evaluate as evaluate
    from calib8.judge import preflight as preflight
    from calib8.pipeline import Calibration as Calibration
    from calib8.pipeline import Collection as Collection
    from calib8.pipeline import Quantization as Quantization
    from calib8.pipeline import calibrate as calibrate
    from calib8.pipeline import collect_statistics as collect_statistics
    from calib8.pipeline import quantize as quantize
    from calib8.qparams import QParams as QParams
    from calib8.qparams import QuantSpec as QuantSpec
    from calib8.remedies.diagnose import diagnose as diagnose
    from calib8.remedies.treatment import Remedy as Remedy
    from calib8.remedies.treatment import Treatment as Treatment
    from calib8.repair.wanted import RepairChoice as RepairChoice
    from calib8.run_report.write import write_report as write_report
    from calib8.scheme import QuantScheme as QuantScheme
    from calib8.scheme import TargetChoice as TargetChoice
    from calib8.session import InferenceSession as InferenceSession
    from calib8.session.bound import BoundRun as BoundRun
    from calib8.table import CalibrationTable as CalibrationTable
    from calib8.table import Range as Range
    from calib8.tasks.purpose import Purpose as Purpose
    from calib8.tracking.log_run import log_run as log_run
    from calib8.tuning.promise import Promises as Promises
    from calib8.tuning.search_choice import SearchChoice as SearchChoice
    from calib8.tuning.tune import Tuning as Tuning
    from calib8.tuning.tune import tune as tune
    from calib8.viewer.view import Viewer as Viewer
    from calib8.viewer.view import view as view

    __version__: str

_HOMES = {
    "Benchmark": "analysis.speed",
    "BoundRun": "session.bound",
    "Calib8Error": "errors",
    "Calibration": "pipeline",
    "CalibrationError": "errors",
    "CalibrationTable": "table",
    "Checkpointing": "calibration.gather",
    "Collection": "pipeline",
    "Compilation": "delivery.compiling",
    "Comparison": "analysis.comparison",
    "DataError": "errors",
    "Environment": "analysis.environment",
    "Evaluation": "analysis.evaluation",
    "Export": "delivery.exporting",
    "Framing": "data.framing",
    "Gatherer": "calibration.gatherer",
    "InferenceSession": "session",
    "Inspection": "analysis.inspection",
    "ModelError": "errors",
    "OutputError": "errors",
    "Preprocess": "data.preprocess",
    "Promises": "tuning.promise",
    "Purpose": "tasks.purpose",
    "QParams": "qparams",
    "QuantScheme": "scheme",
    "QuantSpec": "qparams",
    "Quantization": "pipeline",
    "Range": "table",
    "RangeChoice": "calibration.range_choice",
    "Reading": "data.reading",
    "Remedy": "remedies.treatment",
    "RepairChoice": "repair.wanted",
    "SearchChoice": "tuning.search_choice",
    "Statistics": "calibration.statistics",
    "TableConversion": "formats.convert",
    "TableError": "errors",
    "TargetChoice": "scheme",
    "Treatment": "remedies.treatment",
    "Tuning": "tuning.tune",
    "UnsupportedModelError": "errors",
    "UsageError": "errors",
    "Viewer": "viewer.view",
    "benchmark": "analysis.speed",
    "calibrate": "pipeline",
    "collect_statistics": "pipeline",
    "compare": "analysis.compare",
    "compile": "delivery.compiling",
    "convert_table": "formats.convert",
    "diagnose": "remedies.diagnose",
    "doctor": "analysis.doctor",
    "evaluate": "judge",
    "export": "delivery.exporting",
    "inspect": "analysis.inspection",
    "lint": "analysis.lint",
    "log_run": "tracking.log_run",
    "merge_statistics": "calibration.merge",
    "preflight": "judge",
    "preset": "data.presets",
    "quantize": "pipeline",
    "read_table": "formats.tables",
    "tune": "tuning.tune",
    "view": "viewer.view",
    "write_report": "run_report.write",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # takes longer to import than opening a plan

        globals()[name] = found = version("calib8")
        return found
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'calib8' has no attribute '{name}'")
    value = getattr(import_module(f"calib8.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
