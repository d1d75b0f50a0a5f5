"""What a shell offers: commands, options and the names that options take, without waiting for libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import get_args

import pytest

from calib8.analysis.benchmark_runtimes import OPENERS
from calib8.analysis.runtimes import RUNTIMES
from calib8.calibration.decide import AUTO, EMA
from calib8.calibration.ranges import METHODS
from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS
from calib8.cli import choices
from calib8.cli.choices import NAMES, completed, offered
from calib8.data.presets import PRESETS
from calib8.data.resize import PILLOW_FILTERS
from calib8.data.units import Units
from calib8.delivery.exporting import FORMS
from calib8.engine.run import ISAS
from calib8.exporting.tflite.borders import BORDER_TYPES
from calib8.formats.tables import FORMATS
from calib8.profiles import PROFILES
from calib8.repair.repairs import EFFORTS, NONE, REPAIRS
from calib8.scheme import ACTIVATION_TYPES, GRANULARITIES, TARGETS
from calib8.tasks.kinds import TASK_NAMES
from calib8.tuning.judging import JUDGES

HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "PIL", "calib8._core")


def test_the_names_are_those_of_the_code() -> None:
    """``--color`` and what else a Preprocess checks is compared with what it takes, below."""
    known = {
        "--activations": ACTIVATION_TYPES, "--effort": EFFORTS, "--format": FORMATS, "--isa": ISAS,
        "--other-format": FORMATS, "--preprocess": PRESETS, "--profile": PROFILES,
        "--repair": (NONE, *REPAIRS), "--runtime": RUNTIMES, "--table-format": FORMATS, "--target": TARGETS,
        "--task": TASK_NAMES, "--type": ACTIVATION_TYPES, "--units": get_args(Units),
        "--weights": GRANULARITIES,
    }  # fmt: skip
    for name, names in known.items():
        assert set(NAMES[name]) == set(names), name
    assert set(NAMES["--method"]) == {AUTO, *METHODS, *TWO_PASS_METHODS, EMA}
    assert set(choices.BENCHMARKED) == set(OPENERS)
    assert set(choices.FORMS) == set(FORMS)
    assert set(choices.BORDER_TYPES) == set(BORDER_TYPES)
    assert set(choices.JUDGES) == set(JUDGES)
    assert set(NAMES["--filter"]) == {*PILLOW_FILTERS, "opencv-bilinear"}
    rest = {"--color", "--dtype", "--filter", "--layout", "--method", "--odd-margin", "--resize", "--sort"}
    rest |= {"--recurrent", "--spectrum", "--window"}
    assert set(NAMES) == {*known, *rest}


@pytest.mark.parametrize("name", ["--color", "--dtype", "--filter", "--layout", "--odd-margin", "--resize"])
def test_a_preprocessing_takes_what_is_offered(name: str) -> None:
    from calib8.data.preprocess import Preprocess
    from calib8.errors import UsageError

    field = name.removeprefix("--").replace("-", "_")
    with pytest.raises(UsageError) as refused:
        Preprocess(**{field: "no such name"})
    listed = refused.value.cure.partition("Use one of ")[2].rstrip(".").split(", ")
    assert set(NAMES[name]) == set(listed)


def test_only_names_that_begin_so_are_offered() -> None:
    assert offered("--data") is None and completed("--method") is None  # no shell asks
    methods = offered("--method")
    assert methods is not None
    assert methods("entropy-t") == ["entropy-tengine", "entropy-tensorrt-exact"]
    assert methods("minmax,ma") == [] and methods("minmax,mi") == ["minmax,minmax"]
    of_few = offered("--runtime", ("calib8", "openvino"))
    assert of_few is not None and of_few("") == ["calib8", "openvino"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("calib8 qua", ["quantize"]),
        ("calib8 table ", ["convert", "diff", "plot", "show"]),
        ("calib8 quantize --meth", ["--method"]),
        ("calib8 quantize m.onnx --target tens", ["tensorrt"]),
        ("calib8 quantize --preprocess cif", ["cifar10"]),
        ("calib8 quantize --effort b", ["balanced", "best"]),
        ("calib8 evaluate m.onnx --runtime litert-", ["litert-optimized", "litert-reference"]),
        ("calib8 benchmark m.onnx --runtime calib8,o", ["calib8,onnxruntime", "calib8,openvino"]),
        ("calib8 export m.onnx --to q", ["qoperator"]),
        ("calib8 table convert t.json --to tensorrt", ["tensorrt", "tensorrt-ranges"]),
        ("calib8 inspect m.onnx --target onnxruntime-", ["onnxruntime-avx2"]),
    ],
)
def test_what_bash_is_told(words: str, names: list[str]) -> None:
    report = f"import atexit, sys; atexit.register(lambda: print([n for n in {HEAVY} if n in sys.modules]))"
    env = {
        **os.environ, "_CALIB8_COMPLETE": "complete_bash", "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }  # fmt: skip
    code = f"{report}\nfrom calib8.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    *told, loaded = done.stdout.splitlines()
    assert sorted(told) == names
    assert loaded == "[]"


def test_the_program_offers_to_install_it(cli) -> None:
    shown = cli("--help").stdout
    assert "--install-completion" in shown and "--show-completion" in shown
