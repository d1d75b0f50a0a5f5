"""How many places a window has along one axis.

    extent       = dilation · (kernel − 1) + 1
    Conv         outputs = ⌊(size + before + after − extent) / stride⌋ + 1
    ConvTranspose outputs = (size − 1) · stride + extent − before − after + output padding
    pools        as Conv, or rounded up where the last window still begins before the padding at the end

Source: ONNX operators Conv, ConvTranspose, MaxPool.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """A window along one axis.

    Attributes:
        size: of the input, ≥ 1.
        kernel, stride, dilation: ≥ 1.
        before, after: padding, ≥ 0.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def extent(self) -> int:
        """From the first tap to the last."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def room(self) -> int:
        """Steps between the first place and the last one that lies wholly inside the padded input."""
        return self.size + self.before + self.after - self.extent

    @property
    def problem(self) -> str | None:
        """A parameter that is no window's, None if all are in range."""
        if min(self.kernel, self.stride, self.dilation) < 1:
            return f"kernel {self.kernel}, stride {self.stride}, dilation {self.dilation} (all at least 1)"
        if min(self.before, self.after) < 0:
            return f"padding {self.before}, {self.after} (none below 0)"
        return None


def conv_size(window: Window) -> int:
    """Outputs of a convolution; below 1 where the kernel does not fit."""
    return window.room // window.stride + 1


def transposed_sizes(window: Window) -> range:
    """Outputs that a transposed convolution may have: output padding stays below stride or dilation."""
    least = (window.size - 1) * window.stride + window.extent - window.before - window.after
    return range(max(least, 1), least + max(window.stride, window.dilation))


def pool_sizes(window: Window) -> tuple[int, ...]:
    """Outputs of a pool, rounded down or up (ceil mode); the kernel must fit for the former."""
    down = window.room // window.stride + 1
    up = -(-window.room // window.stride) + 1
    begins = (up - 1) * window.stride
    return (down, up) if begins < window.size + window.before else (down,)


def empty_window(window: Window, outputs: int) -> int | None:
    """A window that sees nothing but padding, None if there is none."""
    last = (outputs - 1) * window.stride - window.before
    if last >= window.size:
        return outputs - 1
    if window.before >= window.extent:
        return 0
    # What is left: a window that begins in front and steps over the input. Its first tap at 0 or beyond
    # lies at (begin mod dilation), which repeats after ``dilation`` windows.
    in_front = min(outputs, -(-window.before // window.stride), window.dilation)
    places = (
        i for i in range(in_front) if (i * window.stride - window.before) % window.dilation >= window.size
    )
    return next(places, None)
