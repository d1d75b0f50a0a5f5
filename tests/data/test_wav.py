"""WAV files of every coding are read as what was written; broken ones are refused with one sentence."""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calib8.data.wav import read_header
from calib8.errors import DataError
from wav_files import coded, header, tone, write_wav

CODINGS = [(8, False), (16, False), (24, False), (32, False), (32, True), (64, True)]


@pytest.mark.parametrize(("bits", "is_float"), CODINGS)
@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("extensible", [False, True])
def test_samples_are_those_that_were_written(
    tmp_path: Path, bits: int, is_float: bool, channels: int, extensible: bool
) -> None:
    samples = tone(37, channels=channels)
    samples[0], samples[1] = -1.0, 0.0
    path = write_wav(tmp_path / "a.wav", samples, bits=bits, is_float=is_float, extensible=extensible)
    wav = read_header(path, "a.wav")
    assert (wav.rate, wav.channels, wav.length, wav.seconds) == (16000, channels, 37, 37 / 16000)
    found = wav.samples(0, 37)
    assert found.dtype == np.float32 and found.shape == (37, channels)
    step = 2.0**-24 if is_float or bits > 24 else 2.0 ** -(bits - 1)
    assert np.max(np.abs(found - samples)) <= step * 0.51 + 1e-7
    assert np.all(found[0] == -1.0) and np.all(found[1] == 0.0)
    assert np.array_equal(wav.samples(5, 9), found[5:9]) and wav.samples(9, 9).shape == (0, channels)


@pytest.mark.parametrize(("bits", "top"), [(8, 127 / 128), (16, 1 - 2**-15), (24, 1 - 2**-23)])
def test_the_largest_code_is_the_step_below_one(tmp_path: Path, bits: int, top: float) -> None:
    wav = read_header(write_wav(tmp_path / "a.wav", np.ones(3), bits=bits), "a.wav")
    assert np.all(wav.samples(0, 3) == np.float32(top))


def test_a_file_of_pythons_own_writer(tmp_path: Path) -> None:
    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(struct.pack("<4h", 1, -2, 300, -32768))
    (tmp_path / "a.wav").write_bytes(held.getvalue())
    wav = read_header(tmp_path / "a.wav", "a.wav")
    assert wav.rate == 8000
    assert np.array_equal(wav.samples(0, 2) * 32768, [[1, -2], [300, -32768]])


def test_a_size_that_was_never_filled_in_is_the_rest_of_the_file(tmp_path: Path) -> None:
    whole = header(coded(tone(10), 16), 16, 16000, 1, 1)
    place = whole.index(b"data") + 4
    (tmp_path / "a.wav").write_bytes(whole[:place] + b"\xff" * 4 + whole[place + 4 :])
    assert read_header(tmp_path / "a.wav", "a.wav").length == 10


def changed(at: int, value: bytes) -> Any:
    return lambda whole: whole[:at] + value + whole[at + len(value) :]


BROKEN = {
    "is empty": lambda whole: b"",
    "is no WAV file": lambda whole: b"ID3" + whole,
    "its header ends before the samples": lambda whole: whole[:12],
    "holds no samples": lambda whole: whole[: whole.index(b"data")],
    "is cut off: its header tells 20 bytes of samples, and 7 are there": lambda whole: whole[:-13],
    "holds mu-law": changed(20, struct.pack("<H", 7)),
    "holds type 4711": changed(20, struct.pack("<H", 4711)),
    "holds PCM of 12 bits": changed(34, struct.pack("<H", 12)),
    "0 channels": changed(22, struct.pack("<H", 0)),
    "tells 0 Hz": changed(24, struct.pack("<I", 0)),
    "and 9 bytes for all": changed(32, struct.pack("<H", 9)),
    "no chunk 'fmt ' says": lambda whole: whole.replace(b"fmt ", b"fmx "),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_broken_files_are_refused(tmp_path: Path, problem: str) -> None:
    whole = BROKEN[problem](header(coded(tone(10), 16), 16, 16000, 1, 1))
    (tmp_path / "b.wav").write_bytes(whole)
    with pytest.raises(DataError, match=problem) as told:
        read_header(tmp_path / "b.wav", "sub/b.wav")
    assert told.value.subject == "sub/b.wav"


def test_any_cut_of_a_file_is_refused_or_read_as_a_whole(tmp_path: Path) -> None:
    whole = header(coded(tone(10), 16), 16, 16000, 1, 1)
    for length in range(len(whole)):
        (tmp_path / "a.wav").write_bytes(whole[:length])
        with pytest.raises(DataError):
            read_header(tmp_path / "a.wav", "a.wav")


def test_what_is_not_there_or_changes_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_header(tmp_path / "a.wav", "a.wav")
    wav = read_header(write_wav(tmp_path / "a.wav", tone(10)), "a.wav")
    (tmp_path / "a.wav").write_bytes(b"")
    with pytest.raises(DataError, match="became shorter while it was read"):
        wav.samples(0, 10)
