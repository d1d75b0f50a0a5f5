"""Plans in ONNX Runtime: the bits of a session, any batch, threads, and what lives how long."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import onnx
import onnxruntime
import pytest
from plan_models import assert_same_bits, exported, feeds_of

import calib8
from calib8.program.file import save_program
from float_between import with_floats
from needed import needed_onnxruntime
from program.example_programs import EXAMPLES

pytestmark = pytest.mark.slow
NAMES = ("Calib8ExecutionProvider", "CPUExecutionProvider")
NETWORKS = (
    "classifier",
    "concat",
    "conv_chain",
    "heads",
    "normalized",
    "residual",
    "squeeze_excite",
    "upsample",
)


def opened(registered: ModuleType, path: Path, **words: object) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), registered.session_options(**words))


@pytest.mark.parametrize("target", ["calib8", "onnxruntime", "tflite"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_give_the_bits_of_a_session(
    registered: ModuleType, name: str, target: str, tmp_path: Path
) -> None:
    model, plans, told = exported(name, tmp_path, target)
    session, ours = opened(registered, plans), calib8.InferenceSession(model)
    assert session.get_providers() == list(NAMES)
    assert [one.name for one in session.get_inputs()] == [one.name for one in ours.get_inputs()]
    assert [one.name for one in session.get_outputs()] == [one.name for one in ours.get_outputs()]
    assert told.epcontext is not None and told.epcontext.free_batch
    for samples in (1, 3):
        feeds = feeds_of(ours, samples)
        assert_same_bits(session.run(None, feeds), ours.run(None, feeds))


def test_a_library_that_is_registered_under_two_names(registered: ModuleType, tmp_path: Path) -> None:
    """ONNX Runtime has the machine as two devices then, of which a session takes one."""
    model, plans, _ = exported("classifier", tmp_path, "calib8")
    onnxruntime.register_execution_provider_library("again", registered.get_library_path())
    try:
        session, ours = opened(registered, plans), calib8.InferenceSession(model)
        feeds = feeds_of(ours)
        assert_same_bits(session.run(None, feeds), ours.run(None, feeds))
        del session
    finally:
        gc.collect()
        onnxruntime.unregister_execution_provider_library("again")


def test_every_instruction_gives_the_bits_of_a_session(registered: ModuleType, tmp_path: Path) -> None:
    for program in EXAMPLES.values():
        save_program(program, tmp_path / "net.c8p")
        calib8.export(tmp_path / "net.c8p", tmp_path / "net.onnx", "epcontext")
        feeds = feeds_of(calib8.InferenceSession(program))
        given = opened(registered, tmp_path / "net.onnx", threads=1).run(None, feeds)
        assert_same_bits(given, calib8.InferenceSession(program, state={}).run(None, feeds))


def test_the_name_of_the_provider_is_enough(registered: ModuleType, tmp_path: Path) -> None:
    needed_onnxruntime((1, 25), "does not take names of providers from outside")
    model, plans, _ = exported("residual", tmp_path)
    session = onnxruntime.InferenceSession(str(plans), providers=[(NAMES[0], {"threads": "1"}), NAMES[1]])
    feeds = feeds_of(session, 2)
    assert_same_bits(session.run(None, feeds), calib8.InferenceSession(model).run(None, feeds))
    registered.register()  # once more does nothing


def test_plans_beside_the_model(registered: ModuleType, tmp_path: Path) -> None:
    for name, files in (("residual", ["residual.c8"]), ("concat", ["concat.c8"])):
        model, plans, told = exported(name, tmp_path, plan_beside=True)
        assert told.epcontext is not None and [file.name for file in told.epcontext.files] == files
        assert plans.stat().st_size < 4000 < told.epcontext.plan_bytes
        session = opened(registered, plans)
        feeds = feeds_of(session, 2)
        assert_same_bits(session.run(None, feeds), calib8.InferenceSession(model).run(None, feeds))


def test_a_model_in_memory_says_where_its_plans_are(registered: ModuleType, tmp_path: Path) -> None:
    model, plans, _ = exported("residual", tmp_path, plan_beside=True)
    options = registered.session_options()
    options.add_session_config_entry("ep.context_file_path", str(plans))
    session = onnxruntime.InferenceSession(plans.read_bytes(), options)
    feeds = feeds_of(session)
    assert_same_bits(session.run(None, feeds), calib8.InferenceSession(model).run(None, feeds))


def test_parts_in_float_stand_between_plans(registered: ModuleType, tmp_path: Path) -> None:
    model = tmp_path / "int8.onnx"
    onnx.save(with_floats(), model)
    told = calib8.export(model, tmp_path / "plans.onnx", "epcontext")
    nodes = onnx.load(tmp_path / "plans.onnx").graph.node
    kinds = [node.op_type for node in nodes]
    assert kinds.count("EPContext") == 2 and "Erf" in kinds, kinds
    assert told.epcontext is not None and told.epcontext.float_nodes
    session, ours = opened(registered, tmp_path / "plans.onnx"), calib8.InferenceSession(model)
    for samples in (1, 3):
        feeds = feeds_of(ours, samples)
        assert_same_bits(session.run(None, feeds), ours.run(None, feeds))


def test_an_output_that_nobody_reads(registered: ModuleType, tmp_path: Path) -> None:
    model, plans, _ = exported("heads", tmp_path)
    proto = onnx.load(plans)
    names = [output.name for output in proto.graph.output]
    proto.graph.value_info.append(proto.graph.output.pop(0))
    onnx.save(proto, tmp_path / "fewer.onnx")
    session, ours = opened(registered, tmp_path / "fewer.onnx"), calib8.InferenceSession(model)
    feeds = feeds_of(ours, 2)
    assert len(names) > 1
    assert_same_bits(session.run(None, feeds), ours.run(names[1:], feeds))


def test_no_sample_at_all(registered: ModuleType, tmp_path: Path) -> None:
    _, plans, _ = exported("residual", tmp_path)
    session = opened(registered, plans)
    feeds = {name: array[:0] for name, array in feeds_of(session).items()}
    assert session.run(None, feeds)[0].shape[0] == 0


@pytest.mark.parametrize("isa", ["reference", None])
def test_threads_share_a_session_and_have_their_own(
    registered: ModuleType, isa: str | None, tmp_path: Path
) -> None:
    model, plans, _ = exported("residual", tmp_path)
    ours = calib8.InferenceSession(model, threads=1)
    shared = opened(registered, plans, threads=2, isa=isa)
    cases = [feeds_of(shared, 1 + seed % 3, seed) for seed in range(8)]
    wanted = [ours.run(None, feeds) for feeds in cases]
    failed: list[BaseException] = []

    def work(place: int) -> None:
        try:
            own = opened(registered, plans, threads=1 + place % 2, isa=isa)
            for _ in range(30):
                for session in (shared, own):
                    assert_same_bits(session.run(None, cases[place]), wanted[place])
        except BaseException as error:  # told by the main thread
            failed.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    assert not failed and not any(thread.is_alive() for thread in threads)


LEFT_ALIVE = """
import gc, sys
import numpy as np, onnxruntime
library, path = sys.argv[1:]
for _ in range(3):
    onnxruntime.register_execution_provider_library("any name", library)
    devices = [one for one in onnxruntime.get_ep_devices() if one.ep_name == "Calib8ExecutionProvider"]
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(devices, {})
    session = onnxruntime.InferenceSession(path, options)
    feeds = {one.name: np.ones([1, *one.shape[1:]], np.float32) for one in session.get_inputs()}
    before = session.run(None, feeds)
    del devices
    onnxruntime.unregister_execution_provider_library("any name")
    after = session.run(None, feeds)
    assert all((a == b).all() for a, b in zip(before, after))
    del session, options
    gc.collect()
print("lived")
"""


def test_a_session_outlives_the_registration(library: Path, registered: ModuleType, tmp_path: Path) -> None:
    _, plans, _ = exported("residual", tmp_path)
    words = [sys.executable, "-c", LEFT_ALIVE, str(library), str(plans)]
    found = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (found.returncode, found.stdout) == (0, "lived\n"), found.stderr


def test_sessions_come_and_go(registered: ModuleType, tmp_path: Path) -> None:
    model, plans, _ = exported("residual", tmp_path)
    feeds = feeds_of(calib8.InferenceSession(model))
    wanted = calib8.InferenceSession(model).run(None, feeds)
    before = len(list(Path("/proc/self/task").iterdir())) if Path("/proc/self/task").is_dir() else 0
    for _ in range(25):
        assert_same_bits(opened(registered, plans, threads=2).run(None, feeds), wanted)
    if before:
        assert len(list(Path("/proc/self/task").iterdir())) <= before + 2  # their threads went with them
