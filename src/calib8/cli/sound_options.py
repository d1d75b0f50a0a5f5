"""Options that say how WAV files become frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Final

from calib8.cli.headings import SOUND, option
from calib8.errors import UsageError

if TYPE_CHECKING:
    from calib8.data.framing import Framing

_RATE_HELP: Final = "Samples per second that the model hears; WAV files need it."
_FRAME_HELP: Final = "Samples in a frame. Default: those of the model's input."
_HOP_HELP: Final = "Samples from the beginning of one frame to that of the next. Default: those of a frame."
_LEAD_HELP: Final = (
    "Zeros in front of the first sample, where frames begin with samples of the frame before. Default: 0."
)
_PAD_END_HELP: Final = "Fill the last frame with zeros; else samples that fill none are left out."
_CHANNEL_HELP: Final = "Channel that is heard, from 0. Default: the mean of all."
_SPECTRUM_HELP: Final = (
    "What becomes of a frame: none (its samples), magnitude, power or log-power of its spectrum. "
    "Default: none."
)
_STFT_SIZE_HELP: Final = "Samples of each part that is transformed. Default: the whole frame."
_STFT_HOP_HELP: Final = "Samples from one part to the next. Default: a quarter of a part."
_WINDOW_HELP: Final = "Factors of the samples before the transform: hann or none. Default: hann."
_RESAMPLE_HELP: Final = "Resample files of another rate (needs SciPy); else they are refused."


@dataclass(frozen=True, kw_only=True)
class SoundOptions:
    """How sound becomes frames; None: not given."""

    rate: Annotated[int | None, option(SOUND, "--rate", "HZ", _RATE_HELP)] = None
    frame: Annotated[int | None, option(SOUND, "--frame", "N", _FRAME_HELP)] = None
    hop: Annotated[int | None, option(SOUND, "--hop", "N", _HOP_HELP)] = None
    lead: Annotated[int | None, option(SOUND, "--lead", "N", _LEAD_HELP)] = None
    pad_end: Annotated[bool, option(SOUND, "--pad-end", None, _PAD_END_HELP)] = False
    channel: Annotated[int | None, option(SOUND, "--channel", "N", _CHANNEL_HELP)] = None
    spectrum: Annotated[str | None, option(SOUND, "--spectrum", "NAME", _SPECTRUM_HELP)] = None
    stft_size: Annotated[int | None, option(SOUND, "--stft-size", "N", _STFT_SIZE_HELP)] = None
    stft_hop: Annotated[int | None, option(SOUND, "--stft-hop", "N", _STFT_HOP_HELP)] = None
    window: Annotated[str | None, option(SOUND, "--window", "NAME", _WINDOW_HELP)] = None
    resample: Annotated[bool, option(SOUND, "--resample", None, _RESAMPLE_HELP)] = False

    @property
    def sound(self) -> dict[str, object]:
        """Field of a ``Framing`` → its value, of those that were given."""
        values = {one.name: getattr(self, one.name) for one in fields(SoundOptions)}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    def framing(self) -> Framing | None:
        """The framing that the flags ask for; None where there is none.

        Raises:
            UsageError: values that cannot be, or others without a rate.
        """
        given = self.sound
        if not given:
            return None
        if "rate" not in given:
            flag = flag_of_sound(next(iter(given)))
            raise UsageError(flag, "says nothing without --rate", "Give --rate too, such as --rate 16000")
        from calib8.data.framing import Framing

        return Framing(**given)  # type: ignore[arg-type]


def flag_of_sound(field: str) -> str:
    """``stft_size`` → ``--stft-size``."""
    return f"--{field.replace('_', '-')}"


def framing_flags(framing: Framing | None) -> list[str]:
    """The flags that ask for a framing; none for data that are no sound."""
    if framing is None:
        return []
    values = {one.name: getattr(framing, one.name) for one in fields(SoundOptions)}
    usual = {"lead": 0, "spectrum": "none", "window": "hann", "pad_end": False, "resample": False}
    return _flags({
        name: value for name, value in values.items() if value is not None and value != usual.get(name)
    })  # fmt: skip


def sound_flags(options: SoundOptions) -> list[str]:
    """The flags that were given."""
    return _flags(options.sound)


def _flags(given: Mapping[str, object]) -> list[str]:
    words: list[str] = []
    for name, value in given.items():
        words += [flag_of_sound(name)] if value is True else [flag_of_sound(name), str(value)]
    return words
