"""Speech with noise, made by espeak-ng: sentences in several voices, pauses between them, noise over all.

Every piece is known: the clean signal, the noisy one, and which seed made them. Signals are float32 in −1 … 1
at 16,000 samples per second.
"""

from __future__ import annotations

import io
import subprocess
import wave
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter, resample_poly

Signal = npt.NDArray[np.float32]

RATE: Final = 16000
SPOKEN_RATE: Final = 22050
"""Of what espeak-ng writes."""

VOICES: Final = (
    "en-us",
    "en-gb+f2",
    "en-us+m3",
    "de",
    "fr+f3",
    "es",
    "it+f1",
    "nl",
    "pt+m5",
    "en-gb-scotland",
)
SENTENCES: Final = (
    "The train to the coast leaves at seven in the morning.",
    "Please write the number of the room on the small card.",
    "Yesterday it rained all day, and the river rose by a metre.",
    "Can you hear me, or shall I speak a little louder?",
    "A quiet street is worth more than a wide one.",
    "We measured the same sample four times and took the mean.",
    "No, the second door on the left, behind the stairs.",
    "Her brother builds boats, and his friend paints them.",
    "Twelve, thirteen, fourteen, and the last one is missing.",
    "Who has the key to the cellar?",
    "The soup is hot; wait a moment before you taste it.",
    "Nobody knew why the lamp went out at exactly nine.",
)
NOISES: Final = ("white", "pink", "hum", "clicks")
LOUDNESS: Final = 0.08
"""Root mean square of speech."""


@dataclass(frozen=True)
class Speech:
    """A stretch of it.

    Attributes:
        clean: speech and silence.
        noisy: with noise.
    """

    clean: Signal
    noisy: Signal


def made_speech(seconds: float, seed: int) -> Speech:
    """So much speech; other seeds say other things with other voices over other noise."""
    random, parts, total = np.random.default_rng(seed), list[Signal](), 0
    clean, noisy = list[Signal](), list[Signal]()
    while total < seconds * RATE:
        spoken = _spoken(random)
        pause = np.zeros(int(random.uniform(0.2, 2.5) * RATE), np.float32)
        parts = [np.concatenate([spoken, pause]) * np.float32(random.uniform(0.4, 1.4))]
        noise = _noise(len(parts[0]), random)
        level = LOUDNESS * 10 ** (-random.uniform(0, 25) / 20)
        clean += parts
        noisy.append(parts[0] + np.float32(level) * noise)
        total += len(parts[0])
    length = int(seconds * RATE)
    joined = (np.concatenate(signals)[:length] for signals in (clean, noisy))
    first, second = (np.clip(signal, -1, 1).astype(np.float32) for signal in joined)
    return Speech(first, second)


def _spoken(random: np.random.Generator) -> Signal:
    """One sentence."""
    voice, speed, pitch = (
        str(random.choice(VOICES)),
        int(random.integers(110, 200)),
        int(random.integers(20, 80)),
    )
    return spoken(str(random.choice(SENTENCES)), voice, speed, pitch)


def spoken(text: str, voice: str, speed: int, pitch: int = 50) -> Signal:
    """What espeak-ng says, with the root mean square ``LOUDNESS``.

    Args:
        text: to say.
        voice: a name that espeak-ng knows.
        speed: words per minute.
        pitch: 0 … 99.
    """
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", text]
    sound = subprocess.run(command, check=True, capture_output=True).stdout
    with wave.open(io.BytesIO(sound)) as file:
        if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (SPOKEN_RATE, 1, 2):
            raise SystemExit("espeak-ng writes another format than expected: 22,050 Hz, one channel, 16 bits")
        codes = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    signal: Any = resample_poly(codes / 32768.0, RATE // 50, SPOKEN_RATE // 50)
    loud = float(np.sqrt(np.mean(signal**2)))
    return (signal * (LOUDNESS / max(loud, 1e-6))).astype(np.float32)


def _noise(length: int, random: np.random.Generator) -> Signal:
    """Noise of one kind with the root mean square 1."""
    kind, white = str(random.choice(NOISES)), random.standard_normal(length)
    if kind == "pink":
        white = lfilter([0.05, -0.096, 0.0506, -0.0044], [1, -2.4949, 2.0172, -0.5222], white)
    elif kind == "hum":
        time = np.arange(length) / RATE
        white = sum(np.sin(2 * np.pi * 50 * k * time + k) / k for k in range(1, 9)) + 0.1 * white
    elif kind == "clicks":
        white = 0.2 * white + 8 * (random.random(length) < 0.001) * white
    return (white / np.sqrt(np.mean(white**2))).astype(np.float32)
