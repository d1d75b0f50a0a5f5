"""What the int8 networks of MLPerf Tiny are fed: real images, and words that espeak-ng says.

    python benchmarks/mcu_inputs.py DATA FOLDER        writes resnet8.npy, person.npy and words.npy

Each array is int8 [inputs, …], codes of the input. DATA holds ``cifar10/test5000.npz``, ``imagenet/eval`` and
``photos``. Words become 49 frames of 10 mel-frequency cepstral coefficients, as the network was trained with:
windows of 30 ms every 20 ms, 40 mel bins between 20 and 4,000 Hz.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import wave
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy.signal import resample_poly

Array = npt.NDArray[Any]

IMAGES: Final = 40
WORDS: Final = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes", "seven", "marvin")
VOICES: Final = ("en-us", "en-gb+f2", "en-us+m3")
RATE, SPOKEN_RATE = 16000, 22050
WINDOW, STEP, BINS, KEPT = 480, 320, 40, 10
LOWEST, HIGHEST = 20.0, 4000.0
SCALE, ZERO_POINT = 0.5847029, 83
"""Of the input of the network for words."""


def images_of_cifar(data: Path) -> Array:
    """uint8 minus 128."""
    with np.load(data / "cifar10" / "test5000.npz") as stored:
        return (stored["images"][:IMAGES].astype(np.int16) - 128).astype(np.int8)


def pictures(data: Path) -> Array:
    """Photographs at 96 × 96, uint8 minus 128."""
    paths = [
        *sorted((data / "imagenet" / "eval").glob("*.jp*g"))[:IMAGES],
        *sorted((data / "photos").glob("*.jpg")),
    ]
    shown = [Image.open(path).convert("RGB").resize((96, 96), Image.Resampling.BILINEAR) for path in paths]
    return (np.stack([np.asarray(image) for image in shown]).astype(np.int16) - 128).astype(np.int8)


def spoken(word: str, voice: str) -> npt.NDArray[np.float64]:
    """One second of a word at 16 kHz, loudest sample 0.5, over a little noise."""
    done = subprocess.run(["espeak-ng", "-v", voice, "--stdout", word], capture_output=True, check=True)
    with wave.open(io.BytesIO(done.stdout)) as file:
        if file.getframerate() != SPOKEN_RATE or file.getsampwidth() != 2:
            raise SystemExit("espeak-ng writes another format than expected: 22,050 Hz, 16 bits")
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float64)
    sound = resample_poly(samples, 320, 441)[:RATE]
    second = np.zeros(RATE)
    first = (RATE - len(sound)) // 2
    second[first : first + len(sound)] = 0.5 * sound / np.abs(sound).max()
    return second + np.random.default_rng(len(word)).normal(0, 1e-3, RATE)


def coefficients(sound: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[49, 10]: logarithms of mel bins, turned by a cosine transform."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::STEP]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    spectrum = np.abs(np.fft.rfft(frames * hann, 512))
    log_mel = np.log(spectrum @ _mel(spectrum.shape[1]) + 1e-6)
    angles = np.pi / BINS * np.outer(np.arange(BINS) + 0.5, np.arange(KEPT))
    return 2 / np.sqrt(2 * BINS) * log_mel @ np.cos(angles)


def _mel(lines: int) -> npt.NDArray[np.float64]:
    """Triangles between evenly spaced pitches: [lines, bins]."""
    pitch = 1127 * np.log1p(np.linspace(0, RATE / 2, lines) / 700)
    ends = np.linspace(1127 * np.log1p(LOWEST / 700), 1127 * np.log1p(HIGHEST / 700), BINS + 2)
    up = (pitch[:, None] - ends[:-2]) / (ends[1:-1] - ends[:-2])
    down = (ends[2:] - pitch[:, None]) / (ends[2:] - ends[1:-1])
    bins = np.maximum(0, np.minimum(up, down))
    bins[0] = 0
    return bins


def words() -> Array:
    """Codes of words in several voices."""
    found = [coefficients(spoken(word, voice)) for voice in VOICES for word in WORDS]
    codes = np.clip(np.rint(np.stack(found) / SCALE) + ZERO_POINT, -128, 127)
    return codes.astype(np.int8)[..., None]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, array in (
        ("resnet8", images_of_cifar(given.data)), ("person", pictures(given.data)), ("words", words()),
    ):  # fmt: skip
        np.save(given.folder / f"{name}.npy", array)
        print(f"{name}.npy: {array.shape}, codes {array.min()} … {array.max()}")


if __name__ == "__main__":
    main()
