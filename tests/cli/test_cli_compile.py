"""``calib8 compile``, and plans in ``run``, ``evaluate`` and ``compare``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from json_output import load
from tiny_models import FLAGS, cnn, save

from calib8 import InferenceSession, ModelError
from calib8.engine.plan_file import load_plan
from calib8.engine.run import Engine, default_isa
from small_models import onnx_model

PEAKS = """
import sys
from calib8.cli import main
names, peaks = sys.argv[1:], []
for name in names:
    sys.argv = ["calib8", "compile", name, "-o", f"{name}.c8", "--quiet"]
    try:
        main()
    except SystemExit as end:
        assert not end.code
    lines = open("/proc/self/status").read().splitlines()
    peaks += [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
print(1024 * (peaks[1] - peaks[0]))
"""
"""Bytes that the second model adds to the peak of a process; ``ru_maxrss`` would begin at its parent's."""


def dense(path: Path, inputs: int, outputs: int) -> Path:
    """A fully connected layer with weights of 8 bits."""
    weight = np.random.default_rng(0).integers(-127, 128, (outputs, inputs)).astype(np.int8)
    scale, zero = np.float32(0.01), np.uint8(128)
    constants = {"w": weight, "s": np.array(scale), "z": np.array(zero), "u": np.array(np.int8(0))}
    body = (
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) v = DequantizeLinear(w, s, u) "
        "m = Gemm<transB=1>(d, v) p = QuantizeLinear(m, s, z) y = DequantizeLinear(p, s, z)"
    )
    onnx.save(onnx_model(f"float[1,{inputs}] x", f"float[1,{outputs}] y", body, constants), path)
    return path


@pytest.fixture
def compiled(cli, int8: Path, tmp_path: Path) -> Path:
    """Its plan."""
    path = tmp_path / "int8.c8"
    result = cli("compile", int8, "-o", path)
    assert result.exit_code == 0, result.output
    return path


def test_a_model_is_compiled(cli, int8: Path, out: Path) -> None:
    result = cli("compile", int8, "-o", out / "m.c8", "--json", out / "m.json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    plan, document = load_plan(out / "m.c8"), load(out / "m.json")
    size = (out / "m.c8").stat().st_size
    assert f"{out / 'm.c8'}  {size / 1000:.1f} kB, profile onnx, made for {default_isa()}" in result.stdout
    assert "7 instructions in " in result.stdout
    assert "0 nodes without an integer form, 0.00 % of the multiply-accumulates in float" in result.stdout
    assert document["bytes"] == size
    assert (document["model"], document["output"]) == (str(int8), str(out / "m.c8"))
    assert (document["profile"], document["isa"]) == ("onnx", default_isa())
    assert document["steps"] == len(plan.rows)
    assert document["arena_bytes"] == plan.arena_bytes
    assert document["weight_bytes"] == 4 * 3 * 9 + 6 * 4 * 9 + 5 * 6
    assert document["integer_macs"] == 16 * 16 * 4 * 3 * 9 + 14 * 14 * 6 * 4 * 9 + 5 * 6
    assert (document["float_macs"], document["float_nodes"]) == (0, [])


def test_the_same_model_gives_the_same_bytes(cli, int8: Path, saved: Path, compiled: Path, out: Path) -> None:
    for source in (int8, saved):
        assert cli("compile", source, "-o", out / "again.c8", "--quiet").exit_code == 0
        assert (out / "again.c8").read_bytes() == compiled.read_bytes()


@pytest.mark.parametrize(
    ("flags", "profile"),
    [
        (("--profile", "tflite"), "tflite"),
        (("--profile", "single"), "single"),
        (("--integer-only",), "single"),
        (("--integer-only", "--profile", "tflite"), "tflite"),
    ],
)
def test_profiles(cli, int8: Path, out: Path, flags: tuple[str, ...], profile: str) -> None:
    result = cli("compile", int8, *flags, "-o", out / "p.c8", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert load_plan(out / "p.c8").profile == profile
    feeds = {"image": np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)}
    [want] = InferenceSession(int8, profile=profile, runtime="reference").run(None, feeds)
    [got] = InferenceSession(out / "p.c8").run(None, feeds)
    np.testing.assert_array_equal(got, want)


def test_shapes(cli, refused, int8: Path, out: Path) -> None:
    result = cli("compile", int8, "--shape", "image=3,3,16,16", "-o", out / "p.c8")
    assert result.exit_code == 0, result.output
    assert InferenceSession(out / "p.c8").get_outputs()[0].shape == [3, 5]
    wrong = cli("compile", int8, "--shape", "image=1,4,16,16", "-o", out / "w.c8")
    refused(wrong, 2, "shape of 'image': 1×4×16×16 does not fit")
    refused(cli("compile", int8, "--shape", "image", "-o", out / "w.c8"), 2, "--shape image: is not a name")
    huge = cli("compile", int8, "--shape", "image=999999999999999999999,3,16,16", "-o", out / "w.c8")
    refused(huge, 2, "gives 'image' more than 2,147,483,647 elements. Give smaller sizes")
    assert not (out / "w.c8").exists()


def test_the_instruction_set_is_a_name_in_the_plan(cli, refused, int8: Path, out: Path) -> None:
    for isa in ("avx2", "neondot"):
        result = cli("compile", int8, "--isa", isa, "-o", out / "p.c8")
        assert result.exit_code == 0, result.output
        assert load_plan(out / "p.c8").isa == isa
        assert f"made for {isa}" in result.stdout
        assert InferenceSession(out / "p.c8").run(None, {"image": np.zeros((1, 3, 16, 16), np.float32)})
    refused(cli("compile", int8, "--isa", "sse9", "-o", out / "w.c8"), 2, "--isa sse9: unknown", "avx512vnni")


@pytest.mark.usefixtures("nothing_left")
def test_what_cannot_be_compiled(cli, refused, model: Path, int8: Path, compiled: Path, out: Path) -> None:
    target = out / "m.c8"
    refused(cli("compile", model, "-o", target), 1, "tiny.onnx: is a float model", "Quantize it first.")
    refused(cli("compile", out / "none.onnx", "-o", target), 1, "none.onnx: no such file")
    refused(cli("compile", compiled, "-o", target), 2, "int8.c8: is a plan. Give the model or program")
    refused(cli("compile", int8, "-o", int8), 2, "--output", "is the same file as an input")
    refused(cli("compile", int8, "-o", out / "m.ONNX"), 2, "has the suffix of a model", "such as m.c8")
    refused(cli("compile", int8, "-o", out / "none" / "m.c8"), 2, "error: --output", "cannot be written")
    refused(cli("compile", int8, "--profile", "odd", "-o", target), 2, "profile 'odd': unknown")
    refused(cli("compile", int8, "-o", out / "m.c8p"), 2, "has the suffix of a program", "such as m.c8")
    conflict = ("--integer-only", "--profile", "onnx")
    refused(cli("compile", int8, *conflict, "-o", target), 2, "profile 'onnx'", "Use single or tflite.")


def test_a_part_without_an_integer_form_is_told(
    cli, refused, images: Path, tmp_path: Path, out: Path
) -> None:
    wave = onnx.helper.make_node("Sin", ["features"], ["extra"], name="wave")
    model = save(cnn([wave]), tmp_path / "m.onnx")
    flags = ("--data", images, *FLAGS, "--keep-float", "conv2", "-o", tmp_path / "q.onnx")
    assert cli("quantize", model, *flags).exit_code == 0
    result = cli("compile", tmp_path / "q.onnx", "-o", out / "q.c8", "--json", out / "q.json")
    assert result.exit_code == 0, result.output
    document = load(out / "q.json")
    share = document["float_macs"] / (document["float_macs"] + document["integer_macs"])
    counted = f"{100 * share:.2f} % of the multiply-accumulates in float (what else these nodes do is not"
    assert counted in " ".join(result.stdout.split())
    assert 0.2 < share < 0.8
    reasons = {entry["node"]: entry["reason"] for entry in document["float_nodes"]}
    assert f"conv2: {reasons['conv2']}" in result.stdout
    refusal = cli("compile", tmp_path / "q.onnx", "--integer-only", "-o", out / "w.c8")
    refused(refusal, 1, "q.onnx: ", f"conv2 (Conv): {reasons['conv2']}")
    assert not (out / "w.c8").exists()
    inspected = cli("inspect", out / "q.c8", "--json", out / "i.json")
    assert f"conv2: {reasons['conv2']}" in inspected.stdout
    assert load(out / "i.json")["plan"]["float_nodes"] == document["float_nodes"]
    running = ("--data", images, *FLAGS, "--runtime", "calib8", "--json", out / "r.json")
    assert cli("run", out / "q.c8", *running).exit_code == 0
    of_plan = load(out / "r.json")["results"]
    assert cli("run", tmp_path / "q.onnx", *running).exit_code == 0
    assert load(out / "r.json")["results"] == of_plan


def test_evaluate_in_the_engine(
    cli, model: Path, int8: Path, saved: Path, compiled: Path, images: Path, out: Path
) -> None:
    found = {}
    for runtime, models in (("calib8", (model, int8, saved, compiled)), ("reference", (model, int8))):
        flags = ("--data", images, "--runtime", runtime, "--json", out / "e.json")
        result = cli("evaluate", *models, *flags)
        assert result.exit_code == 0, result.output
        found[runtime] = load(out / "e.json")["models"]
        assert f"{models[-1].stat().st_size / 1000:.1f} kB" in result.stdout
    names = [entry["runtime"] for entry in found["calib8"]]
    assert names == ["onnxruntime", *["calib8/onnx"] * 3]
    figures = ("images", "top1", "agreement", "sqnr_db")
    for entry in found["calib8"][1:]:
        assert [entry[key] for key in figures] == [found["reference"][1][key] for key in figures]
    assert found["calib8"][1]["sqnr_db"] > 20


def test_batches_and_threads_change_no_figure(cli, model: Path, int8: Path, images: Path, out: Path) -> None:
    found = []
    for more in ((), ("--batch", 4), ("--threads", 1), ("--batch", 2, "--threads", 2)):
        flags = ("--data", images, "--runtime", "calib8", "--json", out / "e.json", *more)
        result = cli("evaluate", model, int8, *flags)
        assert result.exit_code == 0, result.output
        found.append(load(out / "e.json")["models"][1])
    for entry in found:
        assert entry["sqnr_db"] == pytest.approx(found[0]["sqnr_db"], rel=1e-6)
        assert entry["top1"] == found[0]["top1"]


def test_run_in_the_engine(cli, int8: Path, compiled: Path, images: Path, out: Path) -> None:
    picture, found = images / "a" / "0.png", []
    for source, runtime in ((int8, "reference"), (int8, "calib8"), (compiled, "calib8")):
        flags = ("--data", picture, *FLAGS, "--runtime", runtime, "--json", out / "r.json")
        result = cli("run", source, *flags)
        assert result.exit_code == 0, result.output
        found.append(load(out / "r.json")["results"])
    assert found[0] == found[1] == found[2]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("flags", [(), ("--profile", "tflite"), ("--integer-only",)])
def test_compare_in_the_engine(
    cli, model: Path, int8: Path, images: Path, out: Path, flags: tuple[str, ...]
) -> None:
    found = {}
    for runtime in ("calib8", "reference"):
        result = cli("compare", model, int8, "--data", images, "--runtime", runtime, *flags,
                     "--json", out / "c.json")  # fmt: skip
        assert result.exit_code == 0, result.output
        found[runtime] = load(out / "c.json")
    assert found["calib8"] == found["reference"]
    result = cli("compare", model, int8, "--data", images, "--json", out / "c.json")
    assert result.exit_code == 0, result.output
    assert len(found["calib8"]["tensors"]) == len(load(out / "c.json")["tensors"]) > 2
    assert found["calib8"]["outputs"]["sqnr_db"] > 20


def test_runtimes_that_compare_does_not_have(cli, refused, model: Path, int8: Path, images: Path) -> None:
    base = ("compare", model, int8, "--data", images)
    refused(cli(*base, "--runtime", "openvino"), 2, "--runtime openvino", "Use one of onnxruntime, calib8")
    refused(cli(*base, "--runtime", "toaster"), 2, "--runtime toaster: unknown")
    refused(cli(*base, "--profile", "single"), 2, "--profile single", "Use --runtime calib8 or reference.")


def test_plans_where_they_do_not_go(
    cli, refused, model: Path, compiled: Path, images: Path, out: Path
) -> None:
    for command in ("evaluate", "run"):
        base = (command, compiled, "--data", images, *FLAGS)
        refused(cli(*base), 2, "int8.c8 is a plan of calib8", "Use --runtime calib8.")
        refused(cli(*base, "--runtime", "reference"), 2, "int8.c8 is a plan of calib8")
        wrong = cli(*base, "--runtime", "calib8", "--profile", "single")
        refused(wrong, 2, "profile 'single'", "which is fixed")
        unknown = cli(command, compiled, "--data", images, "--runtime", "calib8")
        refused(unknown, 2, "images need to know")
    refused(cli("inspect", compiled, "--program"), 2, "--program: does not go with", "which is a plan")
    refused(cli("inspect", compiled, "--target", "tflite"), 2, "--target: does not go with")
    refused(cli("inspect", compiled, "--save", out / "p.c8p"), 2, "--save: does not go with")
    whole = ("--data", images, *FLAGS)
    for pair in ((model, compiled), (compiled, model)):
        refused(cli("compare", *pair, *whole), 2, "int8.c8: is a plan, which has no tensors to compare")
    refused(cli("benchmark", compiled, "--batch", 2), 2, "--batch 2: ", "--shape image=2,3,16,16")


def test_a_program_is_compared_no_more_than_a_plan(
    cli, refused, model: Path, saved: Path, images: Path
) -> None:
    refused(cli("compare", model, saved, "--data", images, *FLAGS), 2, "int8.c8p: is a saved program")


def test_a_plan_is_shown(cli, compiled: Path, out: Path) -> None:
    result = cli("inspect", compiled, "--json", out / "p.json")
    assert result.exit_code == 0, result.output
    plan, document = load_plan(compiled), load(out / "p.json")
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{compiled}: plan ")
    assert lines[0].endswith(f"profile onnx, made for {default_isa()}")
    assert lines[1] == "input image: float32 1×3×16×16"
    assert lines[2].startswith("output ") and lines[2].endswith(": float32 1×5")
    assert lines[-1] == "0 nodes without an integer form"
    shown = document["plan"]
    assert (document["kind"], document["model"]) == ("plan", str(compiled))
    assert (shown["profile"], shown["isa"]) == ("onnx", default_isa())
    assert (shown["inputs"], shown["float_nodes"]) == (["image: float32 1×3×16×16"], [])
    assert shown["steps"]["conv"] == sum(row.opcode == "conv" for row in plan.rows) > 0
    assert sum(shown["steps"].values()) == len(plan.rows)
    assert shown["integer_macs"] == 16 * 16 * 4 * 3 * 9 + 14 * 14 * 6 * 4 * 9 + 5 * 6
    assert (shown["weight_bytes"], shown["arena_bytes"]) == (4 * 3 * 9 + 6 * 4 * 9 + 5 * 6, plan.arena_bytes)
    assert shown["constant_bytes"] == plan.constants.nbytes
    assert shown["scratch_bytes"] == Engine(plan).scratch_bytes > 0


def test_a_file_named_like_a_plan(cli, refused, int8: Path, compiled: Path, images: Path, out: Path) -> None:
    """Known by its name where its first byte is damaged; never mistaken for an ONNX model."""
    content = bytearray(compiled.read_bytes())
    content[0] ^= 1
    compiled.write_bytes(content)
    (out / "text.c8").write_text("no plan at all")
    for path in (compiled, out / "text.c8"):
        problem = f"{path.name}: is not a plan: it does not begin like one"
        refused(cli("inspect", path), 1, problem, "compile it again")
        refused(cli("run", path, "--data", images, *FLAGS, "--runtime", "calib8"), 1, problem)
        refused(cli("benchmark", path), 1, problem)
    for command in (
        ("run", out / "nope.c8", "--data", images, "--runtime", "calib8"),
        ("benchmark", "nope.c8"),
    ):
        refused(cli(*command), 1, "nope.c8: no such file", "a saved program or a plan")
    with pytest.raises(ModelError, match=r"nope\.c8: no such file\. .* or a plan"):
        InferenceSession(out / "nope.c8")
    assert cli("inspect", int8, "--program", "--save", out / "p.c8p").exit_code == 0
    (out / "p.c8p").rename(out / "program.c8")
    assert cli("inspect", out / "program.c8").exit_code == 0


@pytest.mark.parametrize("share", [0.05, 0.5, 0.999])
def test_truncated_plans(cli, refused, compiled: Path, images: Path, share: float) -> None:
    content = compiled.read_bytes()
    compiled.write_bytes(content[: int(share * len(content))])
    running = ("--data", images, *FLAGS, "--runtime", "calib8")
    refused(cli("run", compiled, *running), 1, "int8.c8: is truncated", "Compile it again from the model.")
    refused(cli("evaluate", compiled, *running), 1, "int8.c8: is truncated")


def test_one_changed_byte_is_noticed(cli, refused, compiled: Path, images: Path) -> None:
    content = bytearray(compiled.read_bytes())
    content[len(content) // 2] ^= 1
    compiled.write_bytes(content)
    running = ("--data", images, *FLAGS, "--runtime", "calib8")
    refused(cli("run", compiled, *running), 1, "int8.c8: is damaged: its checksum")


def test_a_zero_of_threads_is_refused(cli, refused, compiled: Path, images: Path) -> None:
    running = ("--data", images, *FLAGS, "--runtime", "calib8")
    refused(cli("run", compiled, *running, "--threads", 0), 2, "--threads 0")


def test_opening_a_plan_on_the_command_line_reads_no_model(process, compiled: Path, images: Path) -> None:
    """A preprocessing from the flags and a plan: nothing is lowered, and ONNX is not there at all."""
    heavy = ("onnx", "onnx_ir", "onnxruntime", "google.protobuf", "calib8.program.lower")
    report = f"import atexit, sys; atexit.register(lambda: print([n for n in {heavy} if n in sys.modules]))"
    data = ("--data", images, *FLAGS, "--runtime", "calib8")
    short = ("--runtime", "calib8", "--threads", 1, "--rounds", 1, "--profile")
    for command in (
        ("run", compiled, *data),
        ("evaluate", compiled, *data),
        ("benchmark", compiled, *short),
        ("inspect", compiled),
    ):
        result = process(*command, before=report)
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines()[-1] == "[]", command[0]


def test_a_plan_of_pixels(cli, int8: Path, out: Path) -> None:
    result = cli("compile", int8, "-o", out / "p.c8", "--pixels")
    assert result.exit_code == 0, result.output
    (port,) = load_plan(out / "p.c8").inputs
    assert port.dtype == "uint8" and port.shape[-1] == 3


def test_preprocessing_flags_go_with_pixels(cli, int8: Path, out: Path) -> None:
    result = cli("compile", int8, "-o", out / "p.c8", "--mean", "127.5")
    assert result.exit_code == 2 and "--pixels" in result.stderr
    assert not (out / "p.c8").exists()


@pytest.mark.parametrize(
    "flags",
    [
        ("--dtype", "uint8"),
        ("--dtype", "float32"),
        ("--focus",),
        ("--resize", "letterbox"),
        ("--size", "3,3"),
        ("--crop", "0.5"),
        ("--crop-pad", "2"),
        ("--resize-to", "20"),
        ("--letterbox-color", "0"),
        ("--odd-margin", "even"),
        ("--filter", "box"),
        ("--color", "bgr"),
        ("--color", "gray"),
    ],
)
def test_a_plan_of_pixels_drops_no_flag(cli, refused, int8: Path, out: Path, flags: tuple[str, ...]) -> None:
    for more in ((), FLAGS):
        result = cli("compile", int8, "-o", out / "p.c8", "--pixels", *flags, *more)
        refused(result, 2, flags[0], "does not go with --pixels", "Leave it out")
    assert not (out / "p.c8").exists()


def test_flags_that_a_plan_of_pixels_carries(cli, int8: Path, out: Path) -> None:
    def plan(*flags: str) -> bytes:
        result = cli("compile", int8, "-o", out / "p.c8", "--pixels", *flags)
        assert result.exit_code == 0, result.output
        content = (out / "p.c8").read_bytes()
        assert load_plan(out / "p.c8").inputs[0].shape == (1, 16, 16, 3)
        return content

    stored = plan()
    assert plan("--layout", "NCHW") == plan("--color", "rgb") == plan(*FLAGS) == stored
    assert len({stored, plan("--mean", "100"), plan("--scale", "1"), plan("--preprocess", "caffe_bvlc")}) == 4
    swapped = plan("--preprocess", "caffe_bvlc")
    assert plan("--preprocess", "caffe_bvlc", "--color", "bgr") == swapped


def test_a_color_with_another_number_of_channels(cli, refused, tmp_path: Path, out: Path) -> None:
    model = save(cnn(), tmp_path / "m.onnx")
    arrays = tmp_path / "arrays.npz"
    np.savez(arrays, image=np.random.default_rng(0).normal(0, 1, (4, 3, 16, 16)).astype(np.float32))
    assert cli("quantize", model, "--data", arrays, "-o", tmp_path / "q.onnx").exit_code == 0
    base = ("compile", tmp_path / "q.onnx", "-o", out / "p.c8", "--pixels", *FLAGS)
    refused(cli(*base, "--color", "gray"), 2, "--color gray: has 1, but the images of", "have 3 channels")
    refused(cli(*base, "--color", "bgr"), 2, "--color bgr: does not go with --pixels")
    assert not (out / "p.c8").exists()
    assert cli(*base, "--color", "rgb").exit_code == 0
    assert cli("compile", tmp_path / "q.onnx", "-o", out / "n.c8", "--pixels").exit_code == 2


def test_an_onnx_model_named_like_a_plan(cli, refused, int8: Path, out: Path) -> None:
    named = int8.rename(int8.with_suffix(".c8"))
    line = refused(cli("compile", named, "-o", out / "p.c8"), 1, "is not a plan: it does not begin like one")
    assert "name a model .onnx" in line


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_a_large_model_is_in_memory_twice_at_most(tmp_path: Path) -> None:
    """Once as weights of the model, once as those of the plan."""
    small, large = dense(tmp_path / "small.onnx", 64, 64), dense(tmp_path / "large.onnx", 12288, 4096)
    command = [sys.executable, "-c", PEAKS, str(small), str(large)]
    added = int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert 12288 * 4096 < added < 2.5 * 12288 * 4096
