"""How pictures become inputs, in words that need no knowledge of the options.

the shorter side resized to 256 pixels, the middle 224 × 224 cut out (bilinear filter); RGB;
(pixel − 127.5) · 0.00784314, so that 0 … 255 become −1 … 1
"""

from __future__ import annotations

from calib8.data.preprocess import Preprocess, box_size, value_range

_COLORS = {"rgb": "RGB", "bgr": "BGR, blue first", "gray": "gray"}


def image_words(p: Preprocess) -> str:
    """The way of a picture into the model in one line, in the order in which it is gone; height × width."""
    ways = {"warp": _covered, "short-side": _covered, "letterbox": _letterbox, "none": _as_it_is}
    each = [ways[p.resize](p), _COLORS[p.color]]
    if p.focus:
        each.append("every 2 × 2 pixels as channels of one")
    return "; ".join([*each, _values(p)])


def _covered(p: Preprocess) -> str:
    """Stretched to a box or made to cover it; then what is cut out of its middle."""
    size = p.size
    if size is None:  # that of a model that is not known here
        box = "" if (p.crop, p.crop_pad, p.resize_to) == (None, None, None) else ", the middle cut out"
        how = "stretched to" if p.resize == "warp" else "resized until it just covers"
        return f"{how} the size of the model's input{box} ({p.filter} filter)"
    box_shape = box_size(p, size)
    if p.resize == "warp":
        how = f"stretched to {_shown(box_shape)}"
    elif box_shape[0] == box_shape[1]:
        how = f"the shorter side resized to {box_shape[0]} pixels"
    else:
        how = f"resized until it just covers {_shown(box_shape)}"
    cut = p.resize == "short-side" or box_shape != size
    return f"{how}{f', the middle {_shown(size)} cut out' if cut else ''} ({p.filter} filter)"


def _letterbox(p: Preprocess) -> str:
    size = "the size of the model's input" if p.size is None else _shown(p.size)
    border = "what becomes 0.5" if p.letterbox_color is None else f"{p.letterbox_color:g}"
    return f"resized to fit into {size}, the border filled with {border} ({p.filter} filter)"


def _as_it_is(p: Preprocess) -> str:
    return "in its own size" if p.size is None else f"{_shown(p.size)} as it is"


def _values(p: Preprocess) -> str:
    if p.dtype == "uint8":
        return "pixels 0 … 255 as they are"
    mean, scale = (", ".join(f"{value:.6g}" for value in numbers) for numbers in (p.mean, p.scale))
    mean, scale = (f"({one})" if "," in one else one for one in (mean, scale))
    ranges = value_range(p)
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    return f"(pixel − {mean}) · {scale}, so that 0 … 255 become {low:.3g} … {high:.3g}".replace("-", "−")


def _shown(size: tuple[int, int]) -> str:
    return f"{size[0]} × {size[1]}"
