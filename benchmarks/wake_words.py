"""microWakeWord's streaming networks in calib8's engine beside LiteRT: bits of every frame, and time.

    python benchmarks/wake_words.py FOLDER --frames 1000 --json wake_words.json

FOLDER holds the .tflite files of the PyPI package pymicro-wakeword; pymicro-features makes what they hear of
speech by espeak-ng, with the words that they wait for in it. The state of both is carried over the whole
stream. Compared are the outputs of the file as it is, with LiteRT's reference kernels, and those of the file
with its states as further outputs, so that every code that goes on to the next frame is looked at.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from ai_edge_litert import interpreter as litert
from pymicro_features import MicroFrontend

import calib8
from calib8.tflite.read import read_tflite
from calib8.tflite.write import serialize
from speech_made import RATE, made_speech, spoken

Array = npt.NDArray[Any]

WORDS: Final = ("Alexa.", "Hey Jarvis.", "Hey Mycroft.", "Okay Nabu.")
EVERY: Final = 5
"""Seconds from one of them to the next."""

CHUNK: Final = RATE // 100
KERNELS: Final = {
    "litert": litert.OpResolverType.AUTO,
    "litert-reference": litert.OpResolverType.BUILTIN_REF,
}


class InLiteRt:
    """A model in LiteRT, on one thread, with what it keeps between frames."""

    def __init__(self, model: bytes, kernels: str) -> None:
        self._runner = litert.Interpreter(
            model_content=model, num_threads=1, experimental_op_resolver_type=KERNELS[kernels]
        )
        self._runner.allocate_tensors()
        self._input = self._runner.get_input_details()[0]["index"]
        self._outputs = [detail["index"] for detail in self._runner.get_output_details()]

    def run(self, frame: Array) -> list[Array]:
        self._runner.set_tensor(self._input, frame)
        self._runner.invoke()
        return [self._runner.get_tensor(index) for index in self._outputs]


def heard(seconds: float) -> Array:
    """float [F, 40]: features of speech, one row per 10 ms."""
    signal = made_speech(seconds, 3).noisy.copy()
    words = [spoken(word, "en-us", 150) for word in WORDS]
    for number, start in enumerate(range(0, len(signal) - 2 * RATE, EVERY * RATE)):
        word = words[number % len(words)]
        signal[start : start + len(word)] = 0.1 * signal[start : start + len(word)] + 2 * word
    samples = (np.clip(signal, -1, 1) * 32767).astype(np.int16)
    frontend, rows = MicroFrontend(), []
    for start in range(0, len(samples) - CHUNK + 1, CHUNK):
        found = frontend.process_samples(samples[start : start + CHUNK].tobytes()).features
        rows += [found] if found else []
    return np.array(rows, np.float32)


def fed_frames(path: Path, features: Array, count: int) -> Array:
    """Codes of the network's input, as pymicro-wakeword makes them."""
    graph = read_tflite(path)
    tensor = graph.tensors[graph.inputs[0]]
    assert tensor.quantization is not None
    rows = tensor.shape[1]
    grouped = features[: len(features) // rows * rows].reshape(-1, *tensor.shape)
    codes = np.round(grouped / tensor.quantization.scales[0] + tensor.quantization.zero_points[0])
    limits = np.iinfo(tensor.dtype)
    return np.clip(codes, limits.min, limits.max).astype(tensor.dtype)[:count]


def with_states_as_outputs(path: Path) -> bytes:
    """The file with what every state gets among its outputs."""
    graph = read_tflite(path)
    return serialize(replace(graph, outputs=(*graph.outputs, *(state.written for state in graph.states))))


def differing(path: Path, frames: Array) -> dict[str, Any]:
    """Frames and codes that differ from LiteRT's reference kernels."""
    there, wider = InLiteRt(path.read_bytes(), "litert-reference"), with_states_as_outputs(path)
    beside = InLiteRt(wider, "litert-reference")
    session, own = calib8.InferenceSession(path, threads=1), calib8.InferenceSession(wider, threads=1)
    [name] = [spec.name for spec in session.inputs]
    wrong, codes, seen = 0, 0, set()
    for frame in frames:
        expected = there.run(frame)
        wrong += not np.array_equal(session.run(None, {name: frame})[0], expected[0])
        seen.add(int(expected[0].flat[0]))
        for got, want in zip(own.run(None, {name: frame}), beside.run(frame), strict=True):
            codes += int(np.count_nonzero(got != want))
    return {
        "frames": len(frames), "states": len(session.get_states()), "frames_that_differ": wrong,
        "codes_of_outputs_and_states_that_differ": codes, "different_outputs": len(seen),
        "largest_output": max(seen),
    }  # fmt: skip


def microseconds(path: Path, frames: Array) -> dict[str, float]:
    """Of a frame, the median: a call from Python, one thread, in turns."""
    session = calib8.InferenceSession(path, threads=1)
    [name] = [spec.name for spec in session.inputs]
    runs = {"calib8": lambda frame: session.run(None, {name: frame})}
    runs |= {kernels: InLiteRt(path.read_bytes(), kernels).run for kernels in KERNELS}
    took: dict[str, list[int]] = {title: [] for title in runs}
    for frame in frames:
        for title, run in runs.items():
            start = time.perf_counter_ns()
            run(frame)
            took[title].append(time.perf_counter_ns() - start)
    return {f"{title}_us": float(np.median(each)) / 1e3 for title, each in took.items()}


def main() -> None:
    """Runs every network of the folder, and prints the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--frames", type=int, default=1000, help="of each network; the first ones of the stream"
    )
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    features = heard(asked.frames * 0.03 + 2)
    rows = []
    for path in sorted(asked.folder.glob("*.tflite")):
        frames = fed_frames(path, features, asked.frames)
        rows.append({"network": path.stem, **differing(path, frames), **microseconds(path, frames)})
        print(json.dumps(rows[-1]), flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
