"""From sound to the numbers a model was trained on: frames of so many samples, each ``hop`` behind the last.

    samples  0 0 0 s0 s1 s2 s3 s4 s5 s6 …      lead = 3 zeros in front
             └─ frame 0 ─┘
                └─ frame 1 ─┘                  hop = 1

    frame k     samples k·hop … k·hop + frame − 1
    spectrum    |X|, |X|² or ln(max(|X|², 1e-10)),  X = rfft(window · part) of each part of a frame

A frame of one part gives one row of size/2 + 1 numbers, one of several parts a row for each.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from calib8.errors import DataError, UsageError
from calib8.json_texts import parse_json
from calib8.parameters import one_of, parameter
from calib8.tensors import TensorSpec, shape_text

FORMAT: Final = "calib8-framing"
VERSION: Final = 1

FRAMING: Final = "framing"
"""Entry of the metadata of a model that was calibrated with sound."""

Spectrum = Literal["none", "magnitude", "power", "log-power"]
Window = Literal["hann", "none"]

_LEAST_POWER: Final = 1e-10

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Framing:
    """How sound becomes the input of a model.

    Attributes:
        rate: samples per second that the model was trained on.
        frame: samples in a frame; None: those that the model's input has, or ``stft_size``.
        hop: samples from the beginning of one frame to that of the next; None: ``frame``.
        lead: zeros in front of the first sample, where frames begin with samples of the frame before.
        pad_end: zeros fill the last frame; else samples that fill none are left out.
        channel: which channel of a file, from 0; None: their mean.
        spectrum: what becomes of a frame: its samples (``none``), or ``magnitude``, ``power`` or
            ``log-power`` of its spectrum.
        stft_size: samples of each part that is transformed; None: the whole frame.
        stft_hop: samples from one part to the next; None: a quarter of ``stft_size``.
        window: factors of the samples before the transform: ``hann`` (periodic) or ``none``.
        resample: let SciPy resample files of another rate (``pip install calib8[audio]``); else they are
            refused.

    Raises:
        UsageError: a value out of its range, or settings that say nothing beside each other.
    """

    rate: int
    frame: int | None = None
    hop: int | None = None
    lead: int = 0
    pad_end: bool = False
    channel: int | None = None
    spectrum: Spectrum = "none"
    stft_size: int | None = None
    stft_hop: int | None = None
    window: Window = "hann"
    resample: bool = False

    def __post_init__(self) -> None:
        """Refuses what no sound can be cut by."""
        for name, least in (("rate", 1), ("frame", 1), ("hop", 1), ("stft_size", 2), ("stft_hop", 1)):
            _check_number(name, getattr(self, name), least)
        _check_number("lead", self.lead, 0)
        _check_number("channel", self.channel, 0)
        for name, allowed in (("spectrum", get_args(Spectrum)), ("window", get_args(Window))):
            if getattr(self, name) not in allowed:
                cure = one_of(getattr(self, name), allowed)
                raise UsageError(parameter(name, getattr(self, name)), f"unknown {name}", cure)
        self._check_together()

    def _check_together(self) -> None:
        if self.spectrum == "none":
            for name in ("stft_size", "stft_hop"):
                if getattr(self, name) is not None:
                    problem = f"goes with {parameter('spectrum')} only"
                    raise UsageError(parameter(name), problem, "Give it too, such as 'magnitude'")
        if self.frame is not None and self.stft_size is not None and self.stft_size > self.frame:
            problem = f"is more than the {self.frame} samples of a frame"
            raise UsageError(parameter("stft_size", self.stft_size), problem, "Give at most as many")

    def fitted(self, inputs: tuple[TensorSpec, ...], source: str) -> Framing:
        """The same with frame, hop and parts filled in.

        Args:
            inputs: those of the model; sound feeds one.
            source: for messages.

        Raises:
            UsageError: the model has several inputs, or nothing says how long a frame is.
        """
        if len(inputs) != 1:
            problem = f"sound feeds one input, and these are {len(inputs)}: {', '.join(map(str, inputs))}"
            cure = f"Give arrays (.npz); {parameter('fix')} and {parameter('state')} take inputs away"
            raise UsageError(source, problem, cure)
        frame = self.frame or self.stft_size or self._frame_of(inputs[0], source)
        size = None if self.spectrum == "none" else self.stft_size or frame
        step = None if size is None else self.stft_hop or max(size // 4, 1)
        values = {
            **asdict(self),
            "frame": frame,
            "hop": self.hop or frame,
            "stft_size": size,
            "stft_hop": step,
        }
        return Framing(**values)

    def _frame_of(self, spec: TensorSpec, source: str) -> int:
        """The one size of an input that is not 1; of a spectrum what gives so many numbers."""
        sizes = [size for size in spec.shape or (None,) if size != 1]
        free = spec.shape is not None and sizes and not isinstance(spec.shape[0], int) and len(sizes) > 1
        known = sizes[1:] if free else sizes
        if len(known) != 1 or not isinstance(known[0], int):
            problem = f"the input '{spec}' does not say how many samples a frame has"
            raise UsageError(source, problem, f"Give {parameter('frame')}")
        return known[0] if self.spectrum == "none" else 2 * (known[0] - 1)

    def frames_in(self, length: int) -> int:
        """How many frames there are in so many samples; of what is ``fitted``."""
        frame, hop = self.frame or 1, self.hop or 1
        rest = length + self.lead - frame
        if self.pad_end:
            return max(-(-rest // hop), 0) + 1
        return rest // hop + 1 if rest >= 0 else 0

    def values(self, frame: F32) -> F32:
        """A frame of samples, float32 [frame], as the numbers of the model: [n], or [parts, n]."""
        if self.spectrum == "none":
            return frame
        size, hop = self.stft_size or len(frame), self.stft_hop or len(frame)
        parts = np.lib.stride_tricks.sliding_window_view(frame, size)[::hop].astype(np.float64)
        if self.window == "hann":
            parts = parts * (0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(size) / size))
        spectrum = np.abs(np.fft.rfft(parts))
        if self.spectrum != "magnitude":
            spectrum = spectrum * spectrum
        if self.spectrum == "log-power":
            spectrum = np.log(np.maximum(spectrum, _LEAST_POWER))
        return spectrum.astype(np.float32)

    def to_json(self) -> str:
        """As a model stores it."""
        return json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str, source: str) -> Framing:
        """What ``to_json`` gave.

        Raises:
            DataError: it is none; ``source`` is its subject.
        """
        cure = f"Write it again with this version of calib8, or give {parameter('rate')}"
        try:
            document: dict[str, Any] = parse_json(text)
            told = document.pop("format"), document.pop("version")
            if told != (FORMAT, VERSION) or document.keys() - {one.name for one in fields(cls)}:
                raise ValueError(told)
            return cls(**document)
        except (ValueError, TypeError, KeyError, AttributeError, UsageError) as error:
            raise DataError(source, f"holds no {FORMAT} of version {VERSION}", cure) from error


def _check_number(name: str, value: object, least: int) -> None:
    if value is None and name != "rate":
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(parameter(name, value), "is no such number", f"Give a whole number from {least}")


def placed(values: F32, spec: TensorSpec, name: str) -> F32:
    """The numbers of a frame as the model's input has them: other axes are 1.

    Args:
        values: [n], or [parts, n]; the latter may lie in the input either way, where its sizes tell.
        spec: the input.
        name: the frame, subject of errors.

    Raises:
        DataError: they fit no axes of the input.
    """
    whole = values.reshape([size for size in values.shape if size != 1] or [1])
    if spec.shape is None:
        return whole[None]
    rank = len(spec.shape)
    for one in (whole, whole.T)[: whole.ndim]:
        for axes in sorted(combinations(range(rank), one.ndim), reverse=True):
            sizes = [1] * rank
            for axis, size in zip(axes, one.shape, strict=True):
                sizes[axis] = size
            free_batch = 0 in axes and rank > one.ndim and not isinstance(spec.shape[0], int)
            pairs = zip(sizes, spec.shape, strict=True)
            if not free_batch and all(size == own or not isinstance(own, int) for size, own in pairs):
                return np.ascontiguousarray(one).reshape(sizes)
    problem = f"gives {shape_text(values.shape)} numbers for the input '{spec}'"
    cure = f"Give {parameter('frame')}, or {parameter('spectrum')} and its sizes, as the model was trained"
    raise DataError(name, problem, cure)
