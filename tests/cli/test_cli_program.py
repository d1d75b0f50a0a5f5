"""``inspect --program``, and ``evaluate`` and ``run`` with ``--runtime reference``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from json_output import load
from tiny_models import FLAGS, cnn, save

from calib8 import InferenceSession
from calib8.program.file import load_program
from calib8.program.listing import listing


def test_the_program_is_listed(cli, int8: Path, out: Path) -> None:
    result = cli("inspect", int8, "--program", "--json", out / "p.json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    program = InferenceSession(int8).program
    assert listing(program).strip() in result.stdout
    assert 'program "tiny", profile onnx' in result.stdout
    assert "0 nodes without an integer form" in result.stdout
    document = load(out / "p.json")
    assert (document["kind"], document["ops"]["Conv"]) == ("quantized", 2)
    lowered = document["program"]
    assert lowered["profile"] == "onnx"
    assert lowered["inputs"] == ["image: float32 1×3×16×16"]
    assert lowered["outputs"] == ["scores: float32 1×5"]
    assert lowered["instructions"]["Conv"] == 2
    assert sum(lowered["instructions"].values()) == len(program.instructions)
    assert lowered["float_nodes"] == []
    assert lowered["integer_macs"] == 16 * 16 * 4 * 3 * 9 + 14 * 14 * 6 * 4 * 9 + 5 * 6
    assert lowered["float_macs"] == 0
    assert lowered["weight_bytes"] == (4 * 3 * 9 + 6 * 4 * 9 + 5 * 6) + 4 * (4 + 6 + 5)
    assert lowered["peak_bytes"] >= 16 * 16 * 4


def test_without_program_the_document_has_none(cli, int8: Path, out: Path) -> None:
    result = cli("inspect", int8, "--json", out / "i.json")
    assert result.exit_code == 0, result.output
    assert load(out / "i.json")["program"] is None
    assert "Quantize       %0" not in result.stdout


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
    result = cli("inspect", int8, "--program", *flags, "--save", out / "p.c8p", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert load_program(out / "p.c8p").profile == profile


def test_shapes(cli, refused, int8: Path, out: Path) -> None:
    result = cli("inspect", int8, "--program", "--shape", "image=3,3,16,16", "--save", out / "p.c8p")
    assert result.exit_code == 0, result.output
    program = load_program(out / "p.c8p")
    assert program.slots[program.inputs[0].slot].shape == (3, 3, 16, 16)
    for text in ("image", "image=", "image=1,b", "=1,3,16,16", "image=0,3,16,16", "image=-1,3,16,16"):
        result = cli("inspect", int8, "--program", "--shape", text)
        refused(result, 2, f"--shape {text}: is not a name and sizes", "--shape image=1,3,224,224")
    twice = ("--shape", "image=1,3,16,16", "--shape", "image=2,3,16,16")
    refused(cli("inspect", int8, "--program", *twice), 2, "gives 'image' a second shape")
    result = cli("inspect", int8, "--program", "--shape", "picture=1,3,16,16")
    refused(result, 2, "shape of 'picture'", "int8.onnx has no such input", "image: float32 N×3×16×16")
    result = cli("inspect", int8, "--program", "--shape", "image=1,4,16,16")
    refused(result, 2, "shape of 'image': 1×4×16×16 does not fit")


def test_a_saved_program_is_shown_like_the_model(cli, int8: Path, saved: Path, out: Path) -> None:
    of_model = cli("inspect", int8, "--program", "--json", out / "model.json")
    for flags in ((), ("--program",), ("--profile", "onnx")):
        of_file = cli("inspect", saved, *flags, "--json", out / "file.json")
        assert of_file.exit_code == 0, of_file.output
        assert of_file.stdout == of_model.stdout
        document = load(out / "file.json")
        assert (document["model"], document["kind"]) == (str(saved), "program")
        assert document["program"] == load(out / "model.json")["program"]
    again = cli("inspect", saved, "--save", out / "copy.c8p")
    assert again.exit_code == 0, again.output
    assert (out / "copy.c8p").read_bytes() == saved.read_bytes()


def test_options_that_do_not_go_with_inspect(
    cli, refused, model: Path, int8: Path, saved: Path, out: Path
) -> None:
    options = (("--profile", "single"), ("--integer-only",), ("--shape", "x=1"), ("--save", out / "p.c8p"))
    for flags in options:
        refused(
            cli("inspect", int8, *flags), 2, f"{flags[0]}: concerns the integer program", "Add --program."
        )
    lowered = ("inspect", int8, "--program")
    refused(cli(*lowered, "--profile", "odd"), 2, "profile 'odd': unknown", "onnx, tflite, single")
    refused(
        cli(*lowered, "--profile", "onnx", "--integer-only"), 2, "profile 'onnx'", "Use single or tflite."
    )
    refused(cli("inspect", saved, "--profile", "single"), 2, "profile 'single'", "'onnx', which is fixed")
    refused(cli("inspect", saved, "--integer-only"), 1, "int8.c8p: is not integer only")
    refused(cli("inspect", saved, "--target", "tflite"), 2, "--target tflite", "int8.c8p is a program")
    refused(cli("inspect", saved, "--shape", "image=2,3,16,16"), 2, "shape of 'image'", "does not fit")
    refused(cli("inspect", model, "--program"), 1, "tiny.onnx: is a float model", "Quantize it first.")
    assert list(out.iterdir()) == []


def test_a_program_does_not_overwrite_what_it_is_made_from(cli, refused, int8: Path, out: Path) -> None:
    before = int8.read_bytes()
    result = cli("inspect", int8, "--program", "--save", int8)
    refused(result, 2, "--save", "is the same file as an input")
    result = cli("inspect", int8, "--program", "--save", out / "p", "--json", out / "p")
    refused(result, 2, "is the same file as --save")
    refused(cli("inspect", int8, "--program", "--save", out / "none" / "p"), 2, "--save", "cannot be written")
    assert int8.read_bytes() == before and list(out.iterdir()) == []


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_truncated_programs(cli, refused, saved: Path, images: Path, share: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    refused(cli("inspect", saved, "--program"), 1, "int8.c8p: ")
    running = ("--data", images, *FLAGS, "--runtime", "reference")
    refused(cli("run", saved, *running), 1, "int8.c8p: ")
    refused(cli("evaluate", saved, *running), 1, "int8.c8p: ")


def test_one_changed_byte_is_noticed(cli, refused, saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[len(content) // 2] ^= 1
    saved.write_bytes(content)
    refused(cli("inspect", saved), 1, "int8.c8p: ")


def test_rules_of_a_target_beside_the_program(cli, int8: Path) -> None:
    result = cli("inspect", int8, "--program", "--target", "tensorrt")
    assert result.exit_code == 1
    assert 'program "tiny"' in result.stdout and "violations of the rules" in result.stdout


def test_evaluate_in_the_reference(
    cli, model: Path, int8: Path, saved: Path, images: Path, out: Path
) -> None:
    flags = ("--data", images, "--runtime", "reference", "--json", out / "e.json")
    result = cli("evaluate", model, int8, saved, *flags)
    assert result.exit_code == 0, result.output
    first, second, third = load(out / "e.json")["models"]
    names = [entry["runtime"] for entry in (first, second, third)]
    assert names == ["onnxruntime", "reference/onnx", "reference/onnx"]
    assert first["agreement"] is None
    assert second["sqnr_db"] > 20 and second["sqnr_db"] == third["sqnr_db"]
    assert f"{saved.stat().st_size / 1000:.1f} kB" in result.stdout
    native = cli("evaluate", model, int8, "--data", images, "--json", out / "n.json")
    assert native.exit_code == 0, native.output
    assert second["sqnr_db"] == pytest.approx(load(out / "n.json")["models"][1]["sqnr_db"], abs=1)


def test_batches_change_no_figure_of_the_reference(
    cli, model: Path, int8: Path, images: Path, out: Path
) -> None:
    found = []
    for batch in (1, 4):
        flags = ("--data", images, "--runtime", "reference", "--json", out / "e.json", "--batch", batch)
        result = cli("evaluate", model, int8, *flags)
        assert result.exit_code == 0, result.output
        found.append(load(out / "e.json")["models"][1])
        found[-1].pop("seconds")
    assert found[0]["sqnr_db"] == pytest.approx(found[1]["sqnr_db"], rel=1e-6)
    assert found[0]["top1"] == found[1]["top1"]


def test_evaluate_with_a_profile(cli, model: Path, int8: Path, images: Path, out: Path) -> None:
    for flags, name in ((("--profile", "tflite"), "tflite"), (("--integer-only",), "single")):
        result = cli("evaluate", model, int8, "--data", images, "--runtime", "reference", *flags,
                     "--json", out / "e.json")  # fmt: skip
        assert result.exit_code == 0, result.output
        entry = load(out / "e.json")["models"][1]
        assert entry["runtime"] == f"reference/{name}"
        assert entry["sqnr_db"] > 20


def test_run_in_the_reference(cli, int8: Path, saved: Path, images: Path, out: Path) -> None:
    picture = images / "a" / "0.png"
    result = cli("run", int8, "--data", picture, "--runtime", "reference", "--json", out / "r.json")
    assert result.exit_code == 0, result.output
    [entry] = load(out / "r.json")["results"]
    assert len(entry["classes"]) == 5
    of_program = cli(
        "run", saved, "--data", picture, *FLAGS, "--runtime", "reference", "--json", out / "s.json"
    )
    assert of_program.exit_code == 0, of_program.output
    assert load(out / "s.json")["results"] == [entry]
    [native] = load_run(cli, int8, picture, out)
    assert entry["scores"][0] == pytest.approx(native["scores"][0], abs=0.1)


def load_run(cli, model: Path, picture: Path, out: Path) -> list[dict[str, Any]]:
    assert cli("run", model, "--data", picture, "--json", out / "n.json").exit_code == 0
    results: list[dict[str, Any]] = load(out / "n.json")["results"]
    return results


def test_options_of_the_reference_are_refused_elsewhere(
    cli, refused, model: Path, int8: Path, saved: Path, images: Path
) -> None:
    cure = "Use --runtime calib8 or reference."
    for command in ("evaluate", "run"):
        base = (command, int8, "--data", images)
        refused(cli(*base, "--profile", "single"), 2, "--profile single: ", cure)
        refused(cli(*base, "--integer-only"), 2, "--integer-only: ", cure)
        refused(cli(*base, "--runtime", "toaster"), 2, "--runtime toaster", "reference")
        refused(cli(*base, "--runtime", "reference", "--profile", "odd"), 2, "profile 'odd'")
        program = (command, saved, "--data", images, *FLAGS)
        refused(cli(*program), 2, "int8.c8p is a program", cure)
        refused(cli(command, saved, "--data", images, "--runtime", "reference"), 2, "images need to know")
        wrong = cli(*program, "--runtime", "reference", "--profile", "tflite")
        refused(wrong, 2, "profile 'tflite'", "which is fixed")
    alone = cli("evaluate", model, "--data", images, *FLAGS, "--runtime", "reference")
    refused(alone, 2, "--runtime reference: all models are float ones")
    alone = cli("run", model, "--data", images, *FLAGS, "--runtime", "reference")
    refused(alone, 1, "tiny.onnx: is a float model", "Quantize it first.")


def test_a_part_without_an_integer_form_is_told(
    cli, refused, images: Path, tmp_path: Path, out: Path
) -> None:
    """A node that is kept float between quantized ones is run by ONNX Runtime, or refused with its name."""
    model = save(
        cnn([onnx.helper.make_node("Sin", ["features"], ["extra"], name="wave")]), tmp_path / "m.onnx"
    )
    flags = ("--data", images, *FLAGS, "--keep-float", "conv2", "-o", tmp_path / "q.onnx")
    assert cli("quantize", model, *flags).exit_code == 0
    result = cli("inspect", tmp_path / "q.onnx", "--program", "--json", out / "p.json")
    assert result.exit_code == 0, result.output
    lowered = load(out / "p.json")["program"]
    reasons = {entry["node"]: entry["reason"] for entry in lowered["float_nodes"]}
    assert reasons["conv2"]
    assert lowered["float_macs"] == 14 * 14 * 6 * 4 * 9
    assert f"conv2: {reasons['conv2']}" in result.stdout
    refused(cli("inspect", tmp_path / "q.onnx", "--program", "--integer-only"), 1, "q.onnx", "conv2")
    evaluated = cli("evaluate", model, tmp_path / "q.onnx", "--data", images, "--runtime", "reference")
    assert evaluated.exit_code == 0, evaluated.output


def test_nan_in_the_data_is_the_lowest_code(cli, int8: Path, tmp_path: Path, out: Path) -> None:
    values = np.zeros((2, 3, 16, 16), np.float32)
    values[0, :, 4, 4], values[1, :, 4, 4] = np.nan, -1e9
    np.savez(tmp_path / "d.npz", image=values)
    result = cli(
        "run", int8, "--data", tmp_path / "d.npz", "--runtime", "reference", "--json", out / "r.json"
    )
    assert result.exit_code == 0, result.output
    first, second = load(out / "r.json")["results"]
    assert first["scores"] == second["scores"]


def test_a_program_is_not_named_like_something_else(cli, refused, int8: Path, out: Path) -> None:
    for name, what in (("p.onnx", "model"), ("p.C8", "plan"), ("p.tflite", "model")):
        result = cli("inspect", int8, "--program", "--save", out / name)
        refused(result, 2, f"--save {out / name}: has the suffix of a {what}", "such as p.c8p")
        assert not (out / name).exists()
    refused(
        cli("inspect", out / "nope"),
        1,
        "nope: no such file",
        "an .onnx, .tflite or .tmfile, a saved program or a plan",
    )
