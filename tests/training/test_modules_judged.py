"""Torch modules where models are judged: figures as by way of a file, errors that say what to add."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import example, network

import calib8
from calib8.errors import UsageError
from calib8.modules import export
from calib8.modules.given import as_files

NAME = "functional"
DATA = [{"x": example(NAME, batch=4, seed=seed)[0].numpy()} for seed in range(3)]
MISSING = r"torch module, and example_inputs were not given. Add example_inputs=images\[:2\], a batch as"

pytestmark = pytest.mark.usefixtures("quick_export")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The network as a float file and as an int8 one."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:  # what quick_export does for the tests
        patch.setitem(export.export_traced.__kwdefaults__, "_dynamo", False)
        onnx.save(export.export_module(network(NAME), example(NAME)), folder / "float.onnx")
    calib8.quantize(folder / "float.onnx", DATA, effort="fast").save(folder / "int8.onnx")
    return folder / "float.onnx", folder / "int8.onnx"


def test_a_module_is_evaluated_as_its_file_is(files: tuple[Path, Path]) -> None:
    by_file = calib8.evaluate(list(files), DATA)
    module = network(NAME).train()
    straight = calib8.evaluate([module, files[1]], DATA, example_inputs=example(NAME))
    assert [one.model for one in straight] == [type(module).__name__, str(files[1])]
    assert straight[1].sqnr_db == by_file[1].sqnr_db and straight[1].sqnr_db is not None
    assert module.training


def test_a_module_is_compared_as_its_file_is(files: tuple[Path, Path]) -> None:
    by_file = calib8.compare(*files, DATA)
    straight = calib8.compare(network(NAME), files[1], DATA, example_inputs=example(NAME))
    assert straight.tensors == by_file.tensors and straight.tensors


def test_a_module_is_diagnosed_as_its_file_is(files: tuple[Path, Path]) -> None:
    by_file = calib8.diagnose(*files, DATA)
    straight = calib8.diagnose(network(NAME), files[1], DATA, example_inputs=example(NAME))
    assert straight.diagnosis.layers == by_file.diagnosis.layers and by_file.diagnosis.layers


def test_a_module_is_looked_at_before_time_is_spent() -> None:
    found = calib8.preflight(network(NAME), DATA, example_inputs=example(NAME))
    assert [check.input for check in found.inputs] == ["x"]


def test_modules_are_timed_beside_files(files: tuple[Path, Path]) -> None:
    found = calib8.benchmark(
        [network(NAME), files[1]], runtimes=["onnxruntime"], threads=1, rounds=1, example_inputs=example(NAME)
    )
    assert [one.subject.model for one in found.timings] == [type(network(NAME)).__name__, str(files[1])]
    alone = calib8.benchmark(
        network(NAME), runtimes=["onnxruntime"], threads=1, rounds=1, batch=4, example_inputs=example(NAME)
    )
    [timing] = alone.timings
    assert timing.subject.batch == 4


def test_an_error_names_the_module_and_its_file_is_gone() -> None:
    module = network(NAME)
    with as_files([module, module], example(NAME)) as files:
        first, second = files.paths
        assert Path(first).is_file() and Path(second).is_file()
        called = type(module).__name__
        assert [files.named(str(path)) for path in files.paths] == [called, f"{called} (2)"]
    assert not Path(first).exists() and not Path(second).exists()
    refused = pytest.raises(UsageError, match=rf"^{called}: is of no use. Use another")
    with refused, as_files([module], example(NAME)) as files:
        raise UsageError(str(files.paths[0]), "is of no use", "Use another")
    with pytest.raises(calib8.UnsupportedModelError, match=rf"^{called}: is a float model"):
        calib8.benchmark(module, runtimes=["calib8"], threads=1, rounds=1, example_inputs=example(NAME))


def test_a_module_without_example_inputs_is_told_what_to_add(files: tuple[Path, Path]) -> None:
    module = network(NAME)
    for call in (
        lambda: calib8.evaluate([module], DATA),
        lambda: calib8.compare(module, files[1], DATA),
        lambda: calib8.diagnose(module, files[1], DATA),
        lambda: calib8.benchmark(module),
        lambda: calib8.preflight(module, DATA),
        lambda: calib8.quantize(module, DATA),
    ):
        with pytest.raises(UsageError, match=MISSING):
            call()


def test_example_inputs_without_a_module_are_refused(files: tuple[Path, Path]) -> None:
    inputs = np.zeros((1, 2))
    for call in (
        lambda: calib8.evaluate(list(files), DATA, example_inputs=inputs),
        lambda: calib8.compare(*files, DATA, example_inputs=inputs),
        lambda: calib8.diagnose(*files, DATA, example_inputs=inputs),
        lambda: calib8.benchmark(files[0], example_inputs=inputs),
        lambda: calib8.preflight(files[0], DATA, example_inputs=inputs),
    ):
        with pytest.raises(UsageError, match="example_inputs: are for torch modules only"):
            call()


def test_a_module_is_no_int8_model(files: tuple[Path, Path]) -> None:
    module, problem = network(NAME), r"int8: is a torch module \(.*\), which is not quantized. Give the path"
    with pytest.raises(UsageError, match=problem):
        calib8.compare(files[0], module, DATA)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=problem):
        calib8.diagnose(files[0], module, DATA)  # type: ignore[arg-type]


def test_one_module_is_no_list_of_them() -> None:
    with pytest.raises(UsageError, match=r"models: is one module \(.*\). Give a list"):
        calib8.evaluate(network(NAME), DATA, example_inputs=example(NAME))  # type: ignore[arg-type]
