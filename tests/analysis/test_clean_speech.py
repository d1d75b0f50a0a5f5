"""SI-SDR against clean WAV files: frames put together by plain loops, FP32's and INT8's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import calib8
from calib8.analysis.clean_speech import si_sdr_db
from calib8.errors import DataError, UsageError
from small_models import run
from small_nets import Net
from wav_files import tone, write_wav

Model = Callable[[np.ndarray], np.ndarray]

FRAME, HOP, LEAD, RATE = 8, 4, 4, 8000
LENGTHS = {"a.wav": 61, "more/b.wav": 40}


def filtering(outputs: int) -> onnx.ModelProto:
    """x [1, 8] → two layers → y [1, outputs]: the last samples of the frame, a little disturbed."""
    net = Net(shape=(1, FRAME))
    start = np.eye(FRAME) + net.rng.normal(0, 0.05, (FRAME, FRAME))
    end = np.eye(FRAME)[:, FRAME - outputs :] + net.rng.normal(0, 0.05, (FRAME, outputs))
    return net.model(net.op("MatMul", net.op("MatMul", "x", net.const(start)), net.const(end), name="last"))


def masking() -> onnx.ModelProto:
    """Magnitudes [1, 5] → a mask of them."""
    net = Net(shape=(1, FRAME // 2 + 1))
    y = net.op("MatMul", "x", net.weight(FRAME // 2 + 1, FRAME // 2 + 1), name="layer")
    return net.model(net.op("Sigmoid", y))


NETS = {"samples": filtering(FRAME), "hops": filtering(HOP), "mask": masking()}


def framing(name: str) -> calib8.Framing:
    spectrum = {"spectrum": "magnitude"} if name == "mask" else {}
    return calib8.Framing(RATE, frame=FRAME, hop=HOP, lead=LEAD, **spectrum)


@pytest.fixture(scope="module", params=list(NETS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """net.onnx, q.onnx; clean and noisy files."""
    place = tmp_path_factory.mktemp(request.param)
    for seed, (name, length) in enumerate(LENGTHS.items()):
        clean = 0.7 * np.sin(np.arange(length) * 0.3 * (seed + 1))
        noise = 0.2 * tone(length, seed=seed).reshape(-1)
        write_wav(place / "clean" / name, clean, bits=32, is_float=True, rate=RATE)
        write_wav(place / "noisy" / name, clean + noise, bits=32, is_float=True, rate=RATE)
    onnx.save(NETS[request.param], place / "net.onnx")
    calib8.quantize(
        place / "net.onnx", place / "noisy", framing=framing(request.param), target="calib8", effort="fast"
    ).save(place / "q.onnx")
    return request.param, place


def held(folder: Path, name: str) -> np.ndarray:
    return np.frombuffer((folder / name).read_bytes()[-4 * LENGTHS[name] :], "<f4")


def put_together(kind: str, noisy: np.ndarray, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """What is heard of a file, sample by sample, and how much says so."""
    total, weight = np.zeros(len(noisy)), np.zeros(len(noisy))
    padded = np.concatenate([np.zeros(LEAD, np.float32), noisy])
    hann = np.array([0.5 - 0.5 * np.cos(2 * np.pi * n / FRAME) for n in range(FRAME)])
    for begin in range(0, len(padded) - FRAME + 1, HOP):
        frame = padded[begin : begin + FRAME]
        if kind == "mask":
            spectrum = np.fft.rfft(hann * frame)
            mask = model(np.abs(spectrum).astype(np.float32)[None]).reshape(-1)
            values, window = np.fft.irfft(mask * spectrum, FRAME), hann
        else:
            values = model(frame[None]).reshape(-1)
            window = np.ones(len(values))
        for place, (value, much) in enumerate(zip(values, window, strict=True)):
            at = begin + FRAME - len(values) + place - LEAD
            if at >= 0:
                total[at] += value
                weight[at] += much
    return total, weight


def by_loops(kind: str, place: Path, model: Model) -> tuple[float, float]:
    figures = []
    for name in LENGTHS:
        clean, noisy = (held(place / folder, name).astype(np.float64) for folder in ("clean", "noisy"))
        total, weight = put_together(kind, noisy.astype(np.float32), model)
        there = weight >= 0.5 * weight.max()
        figures.append([ratio(clean[there], one) for one in (total[there] / weight[there], noisy[there])])
    return tuple(np.mean(figures, axis=0))


def ratio(clean: np.ndarray, found: np.ndarray) -> float:
    wanted = clean * np.dot(clean, found) / np.dot(clean, clean)
    return float(10 * np.log10(np.sum(wanted**2) / np.sum((wanted - found) ** 2)))


def test_both_models_are_judged_by_clean_speech(made: tuple[str, Path]) -> None:
    kind, place = made
    session = calib8.InferenceSession(place / "q.onnx", threads=1)
    models = (lambda x: run(NETS[kind], {"x": x})[0]), (lambda x: session.run(None, {"x": x})[0])
    found = calib8.evaluate(
        [place / "net.onnx", place / "q.onnx"], place / "noisy", task="enhance", labels=place / "clean",
        runtime="calib8", threads=1,
    )  # fmt: skip
    for one, model in zip(found, models, strict=True):
        wanted, noisy = by_loops(kind, place, model)
        assert one.task is not None
        assert one.task.against_labels["si_sdr_db"] == pytest.approx(wanted, abs=1e-4)
        assert one.task.against_labels["si_sdr_input_db"] == pytest.approx(noisy, abs=1e-6)
    assert found[0].task.against_float == {} and set(found[1].task.against_float) == {"sqnr_db", "si_sdr_db"}


def test_a_model_alone_gives_the_same(made: tuple[str, Path]) -> None:
    _, place = made
    words = {"task": "enhance", "labels": place / "clean", "threads": 1}
    both = calib8.evaluate([place / "net.onnx", place / "q.onnx"], place / "noisy", **words)
    for number, name in enumerate(("net.onnx", "q.onnx")):
        [alone] = calib8.evaluate([place / name], place / "noisy", framing=framing(made[0]), **words)
        assert alone.task.against_labels == both[number].task.against_labels


def test_what_does_not_fit_is_refused(made: tuple[str, Path], tmp_path: Path) -> None:
    _, place = made
    models = [place / "net.onnx", place / "q.onnx"]
    words = {"task": "enhance", "runtime": "calib8", "threads": 1}
    clean = place / "clean"
    for data, labels, more, kind, told in (
        ({"x": np.zeros((4, FRAME), np.float32)}, clean, {}, UsageError, "these data are none"),
        (place / "noisy", clean, {"samples": 3}, UsageError, "samples: leaves 3 of 25 frames"),
        (place / "noisy", clean / "a.wav", {}, UsageError, "is not a folder of clean speech"),
        (place / "noisy", tmp_path, {}, DataError, "2 of 2 noisy files have no clean one, such as 'a.wav'"),
    ):
        if isinstance(data, dict) and made[0] == "mask":
            data = {"x": np.zeros((4, FRAME // 2 + 1), np.float32)}
        with pytest.raises(kind, match=told):
            calib8.evaluate(models, data, labels=labels, **words, **more)
    for name, length in LENGTHS.items():
        write_wav(tmp_path / name, tone(length + 1).reshape(-1), rate=RATE)
    with pytest.raises(DataError, match=r"has 62 samples, and the noisy file 61. Cut both alike"):
        calib8.evaluate(models, place / "noisy", labels=tmp_path, **words)
    write_wav(tmp_path / "a.wav", tone(61).reshape(-1), rate=RATE // 2)
    with pytest.raises(DataError, match="4000 samples per second"):
        calib8.evaluate(models, place / "noisy", labels=tmp_path, **words)


def test_outputs_that_are_no_sound_are_refused(tmp_path: Path) -> None:
    net = Net(shape=(1, FRAME))
    onnx.save(net.model(net.op("MatMul", "x", net.weight(FRAME, 3))), tmp_path / "net.onnx")
    for folder in ("noisy", "clean"):
        write_wav(tmp_path / folder / "a.wav", tone(61).reshape(-1), rate=RATE)
    with pytest.raises(DataError, match=r"has 3 numbers a frame, .* is compared with 8 samples"):
        calib8.evaluate(
            [tmp_path / "net.onnx"], tmp_path / "noisy", task="enhance", labels=tmp_path / "clean",
            framing=framing("samples"), threads=1,
        )  # fmt: skip


def test_ratios_at_their_ends() -> None:
    clean = np.sin(np.arange(50.0))
    assert si_sdr_db(clean, 3.0 * clean) == 120.0
    assert si_sdr_db(clean, np.zeros(50)) == -120.0
    assert si_sdr_db(clean, np.full(50, np.nan)) == -120.0
    assert si_sdr_db(clean, clean + 0.1 * np.cos(np.arange(50.0))) == pytest.approx(
        ratio(clean, clean + 0.1 * np.cos(np.arange(50.0)))
    )
