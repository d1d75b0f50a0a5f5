"""One HTML file with the pictures of a calibration: it needs no other file and no network.

    page.html   the frame; $names are filled in
    page.css    light and dark, by what the reader's system asks for
    page.js     sorts, searches and draws: figures from the numbers in the page
    plotly.js   the chart library, whole, from the Python package plotly

The numbers of a tensor are one JSON text in a <script> of its own, parsed when the tensor is shown.
"""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any, Final

from calib8.errors import UsageError
from calib8.files import atomic_output
from calib8.report.curves import Curve
from calib8.report.harmless import harmless_json, printable
from calib8.report.pictures import Choice, TensorPicture

_FOLDER: Final = Path(__file__).parent


def check_report_installed() -> None:
    """Makes sure, before time is spent, that there is a chart library.

    Raises:
        UsageError: plotly is not installed.
    """
    if find_spec("plotly") is None:
        raise _no_plotly()


def chart_library() -> str:
    """The text of plotly.js.

    Raises:
        UsageError: the Python package plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise _no_plotly() from error
    return str(get_plotlyjs())


def _no_plotly() -> UsageError:
    return UsageError("plots", "the package plotly is not installed", "Run: pip install 'calib8[report]'")


def write_page(
    path: str | os.PathLike[str], tensors: Sequence[TensorPicture], *, title: str, facts: Sequence[str] = ()
) -> None:
    """Writes the page; equal pictures give equal bytes with one version of plotly.

    Args:
        path: of the HTML file, about 5 MB and 10 to 20 kB per tensor.
        tensors: what is shown, in this order until the reader sorts it.
        title: heading, such as the name of the model.
        facts: short sentences below it.

    Raises:
        UsageError: plotly is not installed.
        OutputError: the file cannot be written; an old file stays intact.
    """
    text = page(tensors, title=title, facts=facts)
    with atomic_output(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def page(tensors: Sequence[TensorPicture], *, title: str, facts: Sequence[str] = ()) -> str:
    """The text of the page; see ``write_page``."""
    frame = Template((_FOLDER / "page.html").read_text(encoding="utf-8"))
    return frame.substitute(
        title=html.escape(printable(title)),
        facts="\n".join(f"<li>{html.escape(printable(fact))}</li>" for fact in facts),
        count=str(len(tensors)),
        rows="\n".join(_row(index, tensor) for index, tensor in enumerate(tensors)),
        summary=harmless_json(_summary(tensors)),
        tensors="\n".join(
            f'<script type="application/json" id="tensor-{index}">{harmless_json(_document(tensor))}</script>'
            for index, tensor in enumerate(tensors)
        ),
        style=(_FOLDER / "page.css").read_text(encoding="utf-8"),
        charts=chart_library(),
        script=(_FOLDER / "page.js").read_text(encoding="utf-8"),
    )


def _row(index: int, tensor: TensorPicture) -> str:
    """A line of the index; the page sorts by the numbers in ``data-…``."""
    name = html.escape(printable(tensor.name))
    saturated, lost = tensor.chosen.saturated, tensor.lost
    return (
        f'<tr data-index="{index}" data-name="{name}" data-saturated="{saturated!r}" data-lost="{lost!r}">'
        f'<th scope="row"><a href="#{index}">{name}</a></th>'
        f"<td>{html.escape(printable(tensor.chosen.method))}</td>"
        f"<td>{100 * saturated:.4f}</td><td>{100 * lost:.1f}</td></tr>"
    )


def _summary(tensors: Sequence[TensorPicture]) -> dict[str, Any]:
    """Thresholds divided by the largest magnitude, per tensor and method; None where all is 0."""
    methods = dict.fromkeys(choice.method for tensor in tensors for choice in tensor.methods)
    return {
        "names": [tensor.name for tensor in tensors],
        "chosen": [_ratio(tensor, tensor.chosen) for tensor in tensors],
        "methods": [
            {"method": method, "ratios": [_ratio(tensor, _of_method(tensor, method)) for tensor in tensors]}
            for method in methods
        ],
    }


def _of_method(tensor: TensorPicture, method: str) -> Choice | None:
    return next((choice for choice in tensor.methods if choice.method == method), None)


def _ratio(tensor: TensorPicture, choice: Choice | None) -> float | None:
    largest = tensor.observed.magnitude
    return _short(choice.range.magnitude / largest) if choice is not None and largest else None


def _document(tensor: TensorPicture) -> dict[str, Any]:
    histogram = tensor.histogram
    return {
        "name": tensor.name,
        "count": tensor.count,
        "others": tensor.others,
        "zeros": tensor.zeros,
        "observed": [tensor.observed.min, tensor.observed.max],
        "lost": tensor.lost,
        "histogram": {"width": histogram.width, "below": histogram.below, "counts": histogram.counts},
        "chosen": _choice(tensor.chosen),
        "methods": [_choice(choice) for choice in tensor.methods],
        "kl": _curve(tensor.kl),
        "mse": _curve(tensor.mse),
    }


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "method": choice.method,
        "low": choice.range.min,
        "high": choice.range.max,
        "threshold": choice.range.magnitude,
        "saturated": choice.saturated,
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {"t": [_short(t) for t in curve.thresholds], "e": [_short(error) for error in curve.errors]}


def _short(value: float) -> float:
    """Six digits: what a picture can show."""
    return float(f"{value:.6g}")
