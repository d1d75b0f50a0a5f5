"""From flags to a ``Preprocess``: a preset, or what a model has stored, overridden flag by flag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calib8.cli.options import PreprocessOptions
from calib8.errors import UsageError

if TYPE_CHECKING:
    from calib8.data.preprocess import Preprocess


def chosen_preprocess(options: PreprocessOptions, stored: Preprocess | None = None) -> Preprocess | None:
    """The preprocessing that the flags ask for; None where neither they nor a model say anything.

    Args:
        options: the flags.
        stored: what applies where there is no ``--preprocess``.

    Raises:
        UsageError: unknown preset, a flag that is no number, or settings that exclude each other.
    """
    from calib8.data.preprocess import Preprocess
    from calib8.data.presets import preset

    flags = given_flags(options)
    if options.preprocess is not None:
        start = preset(options.preprocess)
    elif stored is not None:
        start = stored
    elif flags:
        start = Preprocess()
    else:
        return None
    return replace(start, **{**_made_room_for(flags), **flags})


def given_flags(options: PreprocessOptions) -> dict[str, Any]:
    """Settings of a ``Preprocess`` that flags give, ``--preprocess`` aside.

    Raises:
        UsageError: a flag that is no number.
    """
    read = {
        "size": _size("--size", options.size),
        **_mean_and_scale(options),
        "color": options.color,
        "resize": options.resize,
        "filter": options.filter,
        "crop": options.crop,
        "crop_pad": options.crop_pad,
        "resize_to": _size("--resize-to", options.resize_to),
        "odd_margin": options.odd_margin,
        "letterbox_color": options.letterbox_color,
        "focus": options.focus,
        "layout": options.layout,
        "dtype": options.dtype,
    }
    return {name: value for name, value in read.items() if value is not None}


def _mean_and_scale(options: PreprocessOptions) -> dict[str, tuple[float, ...] | None]:
    """Mean and scale for pixels 0 … 255, of ``--mean`` with ``--scale``, or with ``--std``.

    Raises:
        UsageError: no numbers, ``--std`` beside ``--scale`` or without ``--mean``, ``--units`` without it.
    """
    mean, scale = _numbers("--mean", options.mean), _numbers("--scale", options.scale)
    std = _numbers("--std", options.std)
    if std is None:
        if options.units is not None:
            problem = "says what --mean and --std count in, and there is no --std"
            raise UsageError(f"--units {options.units}", problem, "Give --std in place of --scale")
        return {"mean": mean, "scale": scale}
    if scale is not None:
        problem = "contradicts --scale, which is 1/std for pixels 0 … 255"
        raise UsageError(f"--std {options.std}", problem, "Give one of them")
    if mean is None:
        raise UsageError(
            f"--std {options.std}", "needs --mean in the same units", "Give it too, if only as 0"
        )
    from calib8.data.units import mean_and_scale

    mean, scale = mean_and_scale(mean, std, options.units)
    return {"mean": mean, "scale": scale}


def preprocessing_flags(p: Preprocess | None) -> list[str]:
    """The flags that ask for a preprocessing: a preset's name where one fits; none for arrays.

    What the preset or the defaults say is left out.
    """
    if p is None:
        return []
    named, start = _nearest(p)
    flags = [] if named is None else ["--preprocess", named]
    for field in fields(p):
        value, name = getattr(p, field.name), field.name.replace("_", "-")
        if value == getattr(start, field.name) and (field.name != "mean" or named is not None):
            continue
        if isinstance(value, bool):
            flags.append(f"--{name}")
        elif isinstance(value, tuple):
            same = field.name in ("mean", "scale") and len(set(value)) == 1
            flags += [f"--{name}", ",".join(_shortest(one) for one in (value[:1] if same else value))]
        else:
            flags += [f"--{name}", str(value)]
    return flags


def _nearest(p: Preprocess) -> tuple[str | None, Preprocess]:
    """The preset that differs in size and layout at most, which models have too; else the defaults."""
    from calib8.data.preprocess import Preprocess
    from calib8.data.presets import PRESETS

    same = [field.name for field in fields(p) if field.name not in ("size", "layout")]
    for name, one in PRESETS.items():
        if all(getattr(one, field) == getattr(p, field) for field in same):
            return name, one
    return None, Preprocess()


def _shortest(value: float) -> str:
    """A number as it is written, or as 1/n where that is the same."""
    inverse = round(1.0 / value) if value else 0
    if inverse > 1 and 1.0 / inverse == value:
        return f"1/{inverse}"
    return repr(value).removesuffix(".0")


def _made_room_for(flags: dict[str, Any]) -> dict[str, Any]:
    """Settings of the starting point that a flag replaces although they bear other names."""
    cleared: dict[str, Any] = {}
    boxes = ("crop", "crop_pad", "resize_to")
    if any(box in flags for box in boxes) or flags.get("resize") in ("letterbox", "none"):
        cleared.update(dict.fromkeys(boxes))
    if flags.get("resize", "letterbox") != "letterbox":
        cleared["letterbox_color"] = None
    if flags.get("dtype") == "uint8":
        cleared.update(mean=(0.0,), scale=(1.0,))
    return cleared


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(_number(part) for part in text.split(","))
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(
            f"{option} {text}",
            "is not a list of numbers",
            f"Give one or one per channel: {option} 1,2,3",
        ) from error


def _number(text: str) -> float:
    numerator, slash, denominator = text.partition("/")
    return float(numerator) / float(denominator) if slash else float(numerator)


def _size(option: str, text: str | None) -> tuple[int, int] | None:
    """``224`` or ``224,224`` as (height, width)."""
    if text is None:
        return None
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        lengths = []
    if len(lengths) not in (1, 2):
        raise UsageError(f"{option} {text}", "is not a size in pixels", f"Write {option} 224,224")
    return lengths[0], lengths[-1]


def stored_in_file(models: Sequence[Path]) -> Preprocess | None:
    """The preprocessing that the first model with one was calibrated with; missing files are passed over.

    Raises:
        ModelError: a file is no ONNX model.
    """
    from calib8.session.stored_preprocess import stored_preprocess

    return stored_preprocess([path for path in models if path.is_file()])
