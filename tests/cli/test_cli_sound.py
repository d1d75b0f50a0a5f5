"""WAV files in every command that takes data: a streaming model hears them frame by frame."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from json_output import load

import calib8
from calib8.data.reading import Reading
from calib8.distributed.on_ray import _first_of
from stream_nets import FRAME, streaming
from wav_files import tone, write_wav

RATE = ("--rate", "8000")
LENGTHS = (60, 45)


def sound(folder: Path, seed: int, lengths: tuple[int, ...] = LENGTHS) -> Path:
    """Some files, and the frames and marks that they are as an .npz beside the folder."""
    lines = [tone(length, seed=seed + place).reshape(-1) for place, length in enumerate(lengths)]
    for place, line in enumerate(lines):
        write_wav(folder / f"{place}.wav", line, bits=32, is_float=True, rate=8000)
    frames = [line[: len(line) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float32) for line in lines]
    marks = np.concatenate([np.arange(len(some)) == 0 for some in frames])
    np.savez(folder.with_suffix(".npz"), x=np.concatenate(frames), reset=marks)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """net.onnx; calib and judged, as folders of WAV files and as frames."""
    place = tmp_path_factory.mktemp("sound")
    onnx.save(streaming(), place / "net.onnx")
    sound(place / "calib", 1)
    sound(place / "judged", 5)
    calib8.quantize(
        place / "net.onnx", place / "calib", framing=calib8.Framing(8000), target="calib8", effort="fast"
    ).save(place / "q.onnx")
    return place


def test_the_model_is_that_of_the_same_frames(cli, made: Path, out: Path) -> None:
    words = ("--target", "calib8", "--effort", "fast")
    result = cli("quantize", made / "net.onnx", "--data", made / "calib", *RATE, *words, "-o", out / "a.onnx")
    assert result.exit_code == 0, result.output
    other = cli("quantize", made / "net.onnx", "--data", made / "calib.npz", *words, "-o", out / "b.onnx")
    assert other.exit_code == 0, other.output
    a, b = (onnx.load(out / name) for name in ("a.onnx", "b.onnx"))
    assert a.graph == b.graph
    stored = {entry.key: entry.value for entry in a.metadata_props}
    assert json.loads(stored["calib8.framing"]) == {
        "format": "calib8-framing", "version": 1, "rate": 8000, "frame": FRAME, "hop": FRAME, "lead": 0,
        "pad_end": False, "channel": None, "spectrum": "none", "stft_size": None, "stft_hop": None,
        "window": "hann", "resample": False,
    }  # fmt: skip


def test_evaluate_and_compare_cut_sound_as_the_model_was_calibrated(cli, made: Path, out: Path) -> None:
    for command in ("evaluate", "compare"):
        figures = []
        for data in ("judged", "judged.npz"):
            place = out / f"{data}.json"
            result = cli(command, made / "net.onnx", made / "q.onnx", "--data", made / data, "--json", place)
            assert result.exit_code == 0, result.output
            found = load(place)
            figures.append(found["models"][1]["sqnr_db"] if command == "evaluate" else found["outputs"])
        assert figures[0] == figures[1]


def test_diagnose_tells_how_the_sound_was_cut(cli, made: Path) -> None:
    result = cli("diagnose", made / "net.onnx", made / "q.onnx", "--data", made / "judged", "--samples", "9")
    assert result.exit_code == 0, result.output
    assert f"--rate 8000 --frame {FRAME} --hop {FRAME}" in " ".join(result.stdout.split())


def test_calibrate_and_tune_take_sound(cli, made: Path, out: Path) -> None:
    result = cli("calibrate", made / "net.onnx", "--data", made / "calib", *RATE, "-o", out / "t.json")
    assert result.exit_code == 0, result.output
    told = cli(
        "tune", made / "net.onnx", "--data", made / "calib", "--judge-data", made / "judged", *RATE,
        "--min-sqnr", "15", "--runtime", "calib8", "--effort", "fast", "-o", out / "t.onnx",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert "17 samples judged, 17 others calibrated" in " ".join(told.stdout.split())


def test_what_is_wrong_with_sound_is_one_line(cli, made: Path, tmp_path: Path) -> None:
    net, mixed = made / "net.onnx", sound(tmp_path / "mixed", 1)
    write_wav(mixed / "2.wav", tone(60), rate=44100)
    write_wav(tmp_path / "short" / "a.wav", tone(5), rate=8000)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    for data, words, code, text in (
        (made / "calib", (), 2, "nothing says at which rate the model hears it. Give --rate 16000"),
        (made / "calib", ("--hop", "3"), 2, "--hop: says nothing without --rate"),
        (made / "calib.npz", RATE, 2, "--rate 8000: is for WAV files"),
        (made / "calib", (*RATE, "--spectrum", "mel"), 2, "--spectrum mel: unknown spectrum"),
        (made / "calib", (*RATE, "--frame", "8"), 1, "gives 8 numbers for the input 'x: float32 1×6'"),
        (made / "calib", ("--rate", "16000"), 1, "0.wav: has 8000 samples per second"),
        (mixed, RATE, 1, "2.wav: has 44100 samples per second, and the model hears 8000"),
        (tmp_path / "short", RATE, 1, "fill it with zeros: --pad-end"),
        (tmp_path / "bad", RATE, 1, "its header ends before the samples"),
    ):
        for command, name in (("calibrate", "o.json"), ("quantize", "o.onnx")):
            result = cli(command, net, "--data", data, *words, "-o", tmp_path / name)
            assert (result.exit_code, text in " ".join(result.stderr.split())) == (code, True), result.stderr
            assert not (tmp_path / name).exists()
    some = cli("calibrate", net, "--data", mixed, *RATE, "--skip-bad", "-o", tmp_path / "t.json")
    assert some.exit_code == 0 and "2.wav" in some.stdout, some.output


def test_sound_does_not_go_to_a_cluster(made: Path) -> None:
    there = SimpleNamespace(data=str(made / "calib"), column=None)
    with pytest.raises(calib8.UsageError, match="WAV files, whose frames are cut by one machine alone"):
        _first_of(there, (), Reading(None, framing=calib8.Framing(8000)))  # type: ignore[arg-type]
