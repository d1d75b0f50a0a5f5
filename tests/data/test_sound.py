"""Folders of WAV files as samples: frames, spectra, marks where a file begins, and what is refused."""

from __future__ import annotations

import builtins
import cmath
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import resample_poly

from calib8.data.framing import Framing, placed
from calib8.data.opening import open_dataset
from calib8.data.samples import Dataset
from calib8.errors import DataError, UsageError
from calib8.tensors import TensorSpec
from wav_files import Array, tone, write_wav

FLOAT = np.dtype(np.float32)
MARKS = TensorSpec("reset", np.dtype(np.int64), (None,))


def spec(*shape: int | str | None) -> TensorSpec:
    return TensorSpec("x", FLOAT, shape)


def opened(path: Path, framing: Framing, *shape: int | str | None, **words: Any) -> Dataset:
    return open_dataset(path, (spec(*shape),), None, framing=framing, **words)


def frames(dataset: Dataset) -> Array:
    return np.stack([sample.inputs["x"] for sample in dataset])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files: 10 and 7 samples."""
    write_wav(tmp_path / "b.wav", tone(7, seed=2), bits=64, is_float=True)
    write_wav(tmp_path / "a" / "z.wav", tone(10, seed=1), bits=64, is_float=True)
    (tmp_path / "a" / ".hidden.wav").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("no sound")
    return tmp_path


def by_hand(samples: Array, frame: int, hop: int, lead: int = 0, *, pad: bool = False) -> Array:
    line, found, start = [0.0] * lead + list(samples.reshape(-1)), [], 0
    while start + frame <= len(line) or (pad and (not found or start < len(line) - (frame - hop))):
        found.append((line[start : start + frame] + [0.0] * frame)[:frame])
        start += hop
    return np.array(found, np.float32)


@pytest.mark.parametrize(("frame", "hop", "lead"), [(4, None, 0), (4, 2, 0), (3, 1, 2), (5, 3, 1), (6, 7, 0)])
def test_frames_come_file_by_file_in_order(folder: Path, frame: int, hop: int | None, lead: int) -> None:
    dataset = opened(folder, Framing(16000, hop=hop, lead=lead), "N", frame)
    first, second = (by_hand(tone(n, seed=s), frame, hop or frame, lead) for n, s in ((10, 1), (7, 2)))
    found = frames(dataset)
    assert found.shape[1:] == (1, frame) and np.array_equal(found[:, 0], np.concatenate([first, second]))
    names = [f"a/z.wav[{k}]" for k in range(len(first))] + [f"b.wav[{k}]" for k in range(len(second))]
    assert [sample.name for sample in dataset] == names
    assert dataset.count == dataset.total == len(names)


@pytest.mark.parametrize(("frame", "hop", "lead"), [(4, 4, 0), (5, 2, 0), (20, 3, 0), (4, 3, 2), (3, 3, 0)])
def test_the_last_frame_is_filled_where_that_is_asked_for(
    tmp_path: Path, frame: int, hop: int, lead: int
) -> None:
    path = write_wav(tmp_path / "a.wav", tone(10), bits=64, is_float=True)
    found = frames(opened(path, Framing(16000, hop=hop, lead=lead, pad_end=True), 1, frame))
    assert np.array_equal(found[:, 0], by_hand(tone(10), frame, hop, lead, pad=True))
    heard = (len(found) - 1) * hop + frame - lead
    assert (heard >= 10 and heard - hop < 10) or len(found) == 1


def test_marks_stand_where_a_file_begins(folder: Path) -> None:
    dataset = open_dataset(folder, (spec(1, 3), MARKS), None, framing=Framing(16000))
    assert [int(sample.inputs["reset"][0]) for sample in dataset] == [1, 0, 0, 1, 0]


def test_fewer_frames_are_evenly_spaced_over_all_files(folder: Path) -> None:
    dataset = opened(folder, Framing(16000), 1, 3, samples=2)
    assert [sample.name for sample in dataset] == ["a/z.wav[0]", "a/z.wav[2]"]
    assert (dataset.count, dataset.total) == (2, 5)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_several_channels_become_one(tmp_path: Path, channels: int) -> None:
    samples = tone(8, channels=channels)
    path = write_wav(tmp_path / "a.wav", samples, bits=32, is_float=True)
    mean = frames(opened(path, Framing(16000), 1, 8))
    assert np.allclose(mean[0, 0], samples.mean(axis=1), atol=1e-6)
    last = frames(opened(path, Framing(16000, channel=channels - 1), 1, 8))
    assert np.array_equal(last[0, 0], samples[:, -1].astype(np.float32))
    with pytest.raises(DataError, match=f"{channels} channel.*no number {channels}"):
        opened(path, Framing(16000, channel=channels), 1, 8)


def dft(part: Array, *, hann: bool) -> list[complex]:
    n = len(part)
    factors = [0.5 - 0.5 * math.cos(2 * math.pi * k / n) if hann else 1.0 for k in range(n)]
    heard = [f * x for f, x in zip(factors, part, strict=True)]
    return [
        sum(x * cmath.exp(-2j * math.pi * b * k / n) for k, x in enumerate(heard)) for b in range(n // 2 + 1)
    ]


@pytest.mark.parametrize("window", ["hann", "none"])
@pytest.mark.parametrize("spectrum", ["magnitude", "power", "log-power"])
def test_spectra_are_those_of_the_formula(tmp_path: Path, window: Any, spectrum: Any) -> None:
    path = write_wav(tmp_path / "a.wav", tone(16), bits=64, is_float=True)
    made = Framing(16000, frame=16, spectrum=spectrum, stft_size=8, stft_hop=4, window=window)
    [found] = frames(opened(path, made, 1, 3, 5))
    line = tone(16).reshape(-1).astype(np.float32)
    expected = np.abs([dft(line[k : k + 8], hann=window == "hann") for k in (0, 4, 8)])
    expected = expected if spectrum == "magnitude" else expected**2
    expected = np.log(np.maximum(expected, 1e-10)) if spectrum == "log-power" else expected
    assert np.allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    [turned] = frames(opened(path, made, 1, 5, 3))
    assert np.array_equal(turned[0], found[0].T)


def test_a_spectrum_of_the_whole_frame_is_one_row(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", tone(16), bits=64, is_float=True)
    dataset = opened(path, Framing(16000, hop=4, spectrum="magnitude", window="none"), 1, 1, 5)
    assert dataset.framing == Framing(
        16000, 8, 4, spectrum="magnitude", stft_size=8, stft_hop=2, window="none"
    )
    found = frames(dataset)
    assert found.shape == (3, 1, 1, 5)
    assert np.allclose(found[1, 0, 0], np.abs(np.fft.rfft(tone(16).reshape(-1)[4:12])), atol=1e-5)


@pytest.mark.parametrize(
    ("values", "shape", "result"),
    [
        ((6,), (6,), (6,)),
        ((6,), ("N", 6), (1, 6)),
        ((6,), ("N", "T"), (1, 6)),
        ((6,), (1, 6, 1), (1, 6, 1)),
        ((6,), (1, 1, 6), (1, 1, 6)),
        ((6,), ("N", 1, None), (1, 1, 6)),
        ((3, 5), (1, 1, 3, 5), (1, 1, 3, 5)),
        ((3, 5), (1, 5, 3), (1, 5, 3)),
        ((3, 5), ("N", "T", 5), (1, 3, 5)),
        ((3, 5), ("N", "T", "F"), (1, 3, 5)),
        ((3, 5), (1, 3, 5, 1), (1, 3, 5, 1)),
        ((1, 5), ("N", 5), (1, 5)),
    ],
)
def test_numbers_lie_in_the_input_as_its_sizes_say(
    values: tuple[int, ...], shape: tuple[Any, ...], result: tuple[int, ...]
) -> None:
    given = np.arange(math.prod(values), dtype=np.float32).reshape(values)
    found = placed(given, spec(*shape), "a.wav[0]")
    assert found.shape == result
    squeezed, whole = found.squeeze(), given.squeeze()
    assert np.array_equal(squeezed, whole if squeezed.shape == whole.shape else whole.T)


@pytest.mark.parametrize("shape", [(1, 5), (2, 6), (1, 6, 2), ()])
def test_numbers_that_fit_no_input_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"gives 6 numbers for the input 'x: float32"):
        placed(np.zeros(6, np.float32), spec(*shape), "a.wav[0]")


def test_other_rates_are_refused_or_resampled(tmp_path: Path) -> None:
    samples = tone(300).reshape(-1)
    path = write_wav(tmp_path / "a.wav", samples, bits=64, is_float=True, rate=44100)
    with pytest.raises(DataError, match="has 44100 samples per second, and the model hears 16000"):
        opened(path, Framing(16000), 1, 20)
    dataset = opened(path, Framing(16000, resample=True), 1, 20)
    expected = resample_poly(samples.astype(np.float32).astype(np.float64), 160, 441)
    assert dataset.count == len(expected) // 20 == 5
    assert np.allclose(frames(dataset)[:, 0], expected[:100].reshape(5, 20), atol=1e-6)


def test_without_scipy_resampling_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_wav(tmp_path / "a.wav", tone(300), rate=8000)
    real = builtins.__import__

    def without(name: str, *values: Any, **words: Any) -> Any:
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *values, **words)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"calib8\[audio\]"):
        frames(opened(path, Framing(16000, resample=True), 1, 20))


def test_bad_files_are_refused_or_passed_over(folder: Path) -> None:
    write_wav(folder / "c.wav", tone(2))
    (folder / "d.wav").write_bytes(b"RIFF")
    with pytest.raises(DataError, match=r"c.wav: holds 2 samples \(0.000125 s\), and a frame has 3"):
        opened(folder, Framing(16000), 1, 3)
    dataset = opened(folder, Framing(16000), 1, 3, skip_bad=True)
    assert len(frames(dataset)) == 5
    assert [one.name for one in dataset.skipped] == ["c.wav[0]", "d.wav[0]"]
    assert "is no WAV file" in dataset.skipped[1].reason


def test_samples_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", np.array([0.5, math.nan, 0.5, 0.5]), bits=32, is_float=True)
    with pytest.raises(DataError, match=r"a\.wav: holds samples that are NaN or infinite"):
        frames(opened(path, Framing(16000), 1, 2))


def test_folders_are_classes_of_all_frames_of_a_file(folder: Path) -> None:
    (folder / "b.wav").rename(folder / "b2.wav")
    (folder / "no").mkdir()
    (folder / "b2.wav").rename(folder / "no" / "b.wav")
    dataset = opened(folder, Framing(16000), 1, 5)
    assert [sample.label for sample in dataset] == [0, 0, 1]
    assert dataset.class_names == ("a", "no")


def test_patterns_name_files(folder: Path) -> None:
    assert opened(folder / "*" / "*.wav", Framing(16000), 1, 5).count == 2
    with pytest.raises(DataError, match=r"matches no file. WAV files are .wav, .wave"):
        opened(folder / "*.wave", Framing(16000), 1, 5)
    with pytest.raises(DataError, match="does not exist"):
        opened(folder / "none.wav", Framing(16000), 1, 5)


def test_sound_without_a_framing_and_framing_without_sound_are_refused(folder: Path, tmp_path: Path) -> None:
    for path in (folder, folder / "b.wav", folder / "*.wav"):
        with pytest.raises(UsageError, match="holds sound, and nothing says at which rate"):
            open_dataset(path, (spec(1, 3),), None)
    np.savez(tmp_path / "x.npz", x=np.zeros((4, 3), np.float32))
    for data in (tmp_path / "x.npz", {"x": np.zeros((4, 3), np.float32)}):
        with pytest.raises(UsageError, match="rate=16000: is for WAV files"):
            open_dataset(data, (spec(1, 3),), None, framing=Framing(16000))


def test_several_inputs_and_unknown_frames_are_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="sound feeds one input, and these are 2"):
        open_dataset(folder, (spec(1, 3), TensorSpec("y", FLOAT, (1, 3))), None, framing=Framing(16000))
    with pytest.raises(UsageError, match=r"does not say how many samples a frame has\. Give frame"):
        opened(folder, Framing(16000), "N", "T")
    assert opened(folder, Framing(16000, frame=5), "N", "T").count == 3


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"rate": 0}, "rate=0: is no such number"),
        ({"rate": 16000.0}, "rate=16000.0: is no such number"),
        ({"rate": None}, "rate"),
        ({"frame": 0}, "frame=0"),
        ({"hop": True}, "hop=True"),
        ({"lead": -1}, "lead=-1"),
        ({"channel": -1}, "channel=-1"),
        ({"spectrum": "mel"}, "unknown spectrum"),
        ({"window": "hamming"}, "unknown window"),
        ({"stft_size": 8}, "goes with spectrum only"),
        ({"frame": 8, "spectrum": "power", "stft_size": 16}, "more than the 8 samples of a frame"),
    ],
)
def test_framings_that_cannot_be_are_refused(words: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Framing(**{"rate": 16000, **words})


def test_a_framing_is_stored_and_read_again() -> None:
    one = Framing(8000, 512, 128, 64, True, 1, "power", 256, 64, "none", True)
    assert Framing.from_json(one.to_json(), "a.onnx") == one
    for text in ("", "{}", "[]", one.to_json().replace('"version": 1', '"version": 2'), '{"format": "x"}'):
        with pytest.raises(DataError, match=r"a\.onnx: holds no calib8-framing"):
            Framing.from_json(text, "a.onnx")


def test_fingerprints_are_those_of_what_is_heard(folder: Path, tmp_path: Path) -> None:
    marks = [item.fingerprint() for item in opened(folder, Framing(16000), 1, 3).pending()]
    assert len(set(marks)) == 5
    write_wav(tmp_path / "other" / "c.wav", tone(10, seed=1), bits=64, is_float=True)
    again = [item.fingerprint() for item in opened(tmp_path / "other", Framing(16000), 1, 3).pending()]
    assert again == marks[:3]
