"""Streaming networks in int8 beside FP32, each with its own state carried: silero_vad and DTLN.

    python benchmarks/streams.py FOLDER --minutes 10 --json streams.json

FOLDER holds silero_vad.onnx (in the PyPI package silero-vad), dtln_model_1.onnx and dtln_model_2.onnx.
Networks are quantized for the target calib8, all else by default, with two minutes (DTLN: 40 seconds) of
speech that espeak-ng makes, and judged on other speech. FP32 runs in ONNX Runtime, int8 in calib8's engine.

silero_vad   frames of 512 samples behind the 64 before them; its decision: the probability is above 0.5
DTLN         frames of 512 samples, hop 128: a mask of the spectrum's magnitude, then a filter of the frame

    SQNR    10·log10(Σ a² / Σ (a − b)²)           a of FP32, b of int8
    SI-SDR  10·log10(Σ (k·c)² / Σ (k·c − y)²)     k = Σ c·y / Σ c²,   c clean, y enhanced
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnxruntime

import calib8
from speech_made import RATE, Signal, made_speech

Array = npt.NDArray[Any]
Step = Callable[[Array], Array]
"""Gives the result of the next frame; a state is carried inside."""

WINDOW: Final = 512
CONTEXT: Final = 64
HOP: Final = 128
CALIBRATED_SECONDS: Final = 120
DTLN_SECONDS: Final = 40
"""It has four times as many frames in a second."""

STATES: Final = {
    "dtln_model_1.onnx": {"input_3": "tf_op_layer_stack_2"},
    "dtln_model_2.onnx": {"input_5": "tf_op_layer_stack_5"},
}


def sqnr_db(expected: Array, found: Array) -> float:
    """Of int8 beside FP32."""
    noise = float(np.sum((expected.astype(np.float64) - found) ** 2))
    return 10 * float(np.log10(float(np.sum(expected.astype(np.float64) ** 2)) / max(noise, 1e-30)))


def si_sdr_db(clean: Array, found: Array) -> float:
    """Of an enhanced signal."""
    wanted = clean.astype(np.float64) * (np.dot(clean, found) / np.dot(clean, clean))
    return 10 * float(np.log10(np.sum(wanted**2) / np.sum((wanted - found) ** 2)))


def float_step(path: Path, fed: str, state: str, output: str, new: str, **fixed: Array) -> Step:
    """FP32 in ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    shape = next(one.shape for one in session.get_inputs() if one.name == state)
    kept = [np.zeros([size if isinstance(size, int) else 1 for size in shape], np.float32)]

    def step(frame: Array) -> Array:
        result, kept[0] = session.run([output, new], {fed: frame, state: kept[0], **fixed})
        return result

    return step


def int8_step(path: Path, fed: str, output: str) -> Step:
    """int8 in calib8's engine."""
    session = calib8.InferenceSession(path, threads=1)
    return lambda frame: session.run([output], {fed: frame})[0]


def quantized(path: Path, frames: Array, fed: str, output: Path, **words: Any) -> None:
    """Makes the int8 model, unless it is there."""
    if not output.exists():
        made = calib8.quantize(path, {fed: frames}, target="calib8", **words)
        made.save(output)


def vad_frames(signal: Signal) -> Array:
    """[F, 576]: 512 samples behind the 64 before them."""
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), signal])
    starts = range(0, len(signal) - WINDOW + 1, WINDOW)
    return np.stack([padded[start : start + CONTEXT + WINDOW] for start in starts])


def silero(folder: Path, made: Path, minutes: float) -> dict[str, Any]:
    """Decisions of silero_vad."""
    path, int8 = folder / "silero_vad.onnx", made / "silero_vad.int8.onnx"
    calibrating = vad_frames(made_speech(CALIBRATED_SECONDS, 1).noisy)
    quantized(path, calibrating, "input", int8, fix={"sr": RATE})
    fp32 = float_step(path, "input", "state", "output", "stateN", sr=np.array(RATE))
    code = int8_step(int8, "input", "output")
    frames = vad_frames(made_speech(60 * minutes, 2).noisy)
    expected = np.array([fp32(frame[None]).item() for frame in frames])
    found = np.array([code(frame[None]).item() for frame in frames])
    equal = (expected > 0.5) == (found > 0.5)
    return {
        "network": "silero_vad", "frames": len(frames),
        "speech_percent": 100 * float(np.mean(expected > 0.5)),
        "equal_percent": 100 * float(np.mean(equal)),
        "sqnr_db": sqnr_db(expected, found),
        "largest_difference": float(np.max(np.abs(expected - found))),
    }  # fmt: skip


def dtln_frames(signal: Signal) -> Iterator[Signal]:
    """Frames of 512 samples every 128."""
    padded = np.concatenate([np.zeros(WINDOW - HOP, np.float32), signal])
    for start in range(0, len(signal) - HOP + 1, HOP):
        yield padded[start : start + WINDOW]


def enhanced(signal: Signal, mask: Step, rest: Step) -> tuple[Signal, Array, Array, Array, Array]:
    """The enhanced signal; what went into and came out of both networks, frame by frame."""
    out = np.zeros(len(signal) + WINDOW, np.float32)
    seen: list[list[Array]] = [[], [], [], []]
    for place, frame in enumerate(dtln_frames(signal)):
        spectrum = np.fft.rfft(frame)
        magnitude = np.abs(spectrum).astype(np.float32)[None, None]
        masked = mask(magnitude)
        middle = np.fft.irfft(masked[0, 0] * spectrum).astype(np.float32)[None, None]
        last = rest(middle)
        out[place * HOP : place * HOP + WINDOW] += last[0, 0]
        for kept, array in zip(seen, (magnitude, masked, middle, last), strict=True):
            kept.append(array[0])
    return (out[WINDOW - HOP :][: len(signal)], *(np.stack(kept) for kept in seen))  # type: ignore[return-value]


def dtln(folder: Path, made: Path, minutes: float) -> dict[str, Any]:
    """Both networks of DTLN, alone and one behind the other."""
    paths = [folder / name for name in STATES]
    int8 = [made / f"{path.stem}.int8.onnx" for path in paths]
    ports = [
        ("input_2", "input_3", "activation_2", "tf_op_layer_stack_2"),
        ("input_4", "input_5", "conv1d_3", "tf_op_layer_stack_5"),
    ]

    def float_steps() -> list[Step]:
        return [float_step(path, *names) for path, names in zip(paths, ports, strict=True)]

    _, first, _, second, _ = enhanced(made_speech(DTLN_SECONDS, 1).noisy, *float_steps())
    for path, frames, names, output in zip(paths, (first, second), ports, int8, strict=True):
        quantized(path, frames, names[0], output, state=STATES[path.name])
    speech = made_speech(60 * minutes, 2)
    expected = enhanced(speech.noisy, *float_steps())
    codes = [int8_step(path, names[0], names[2]) for path, names in zip(int8, ports, strict=True)]
    alone = [
        sqnr_db(
            expected[2 * place + 2], np.stack([step(frame[None])[0] for frame in expected[2 * place + 1]])
        )
        for place, step in enumerate(codes)
    ]
    codes = [int8_step(path, names[0], names[2]) for path, names in zip(int8, ports, strict=True)]
    found = enhanced(speech.noisy, *codes)
    heard = [si_sdr_db(speech.clean, signal) for signal in (speech.noisy, expected[0], found[0])]
    return {
        "network": "DTLN", "frames": len(expected[1]),
        "sqnr_db_model_1": alone[0], "sqnr_db_model_2": alone[1],
        "sqnr_db_signal": sqnr_db(expected[0], found[0]), "si_sdr_db_noisy": heard[0],
        "si_sdr_db_fp32": heard[1], "si_sdr_db_int8": heard[2],
    }  # fmt: skip


def main() -> None:
    """Runs what the arguments name, and prints the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--made", type=Path, help="folder that keeps the int8 models; default: FOLDER")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--networks", default="silero,dtln")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    made = asked.made or asked.folder
    made.mkdir(parents=True, exist_ok=True)
    rows = [
        network(asked.folder, made, asked.minutes)
        for name, network in (("silero", silero), ("dtln", dtln))
        if name in asked.networks.split(",")
    ]
    for row in rows:
        print(
            "   ".join(
                f"{key} {value:.4g}" if isinstance(value, float) else str(value) for key, value in row.items()
            )
        )
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
