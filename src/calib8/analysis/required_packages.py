"""Packages that calib8 needs, by its own metadata, and what of them is installed.

numpy>=1.24                          needed always
plotly>=6 ; extra == "report"        needed for what the extra ``report`` adds
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata
from typing import Final

OWN: Final = "calib8"

ADDS: Final = {
    "audio": "resampling of sound",
    "bench": "other tools, to compare with in benchmarks",
    "docs": "the documentation as a site",
    "litert": "TFLite models in LiteRT",
    "mlflow": "runs in MLflow",
    "openvino": "models in OpenVINO",
    "parquet": "data in Parquet files",
    "qat": "PyTorch modules: quantization, training",
    "ray": "calibration on a cluster",
    "remote": "data at addresses, by fsspec",
    "report": "charts on one HTML page",
    "s3": "data in S3",
    "tensorboard": "runs for TensorBoard",
    "test": "what the tests need",
    "train-demo": "training of the demo network",
    "wandb": "runs in Weights & Biases",
}
"""Extra → what can be done with it."""

RUNTIMES: Final = (
    "onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino", "onnxruntime-qnn",
    "onnxruntime-training", "ort-nightly",
)  # fmt: skip
"""Packages that bring the module ``onnxruntime``, all of them in one folder."""

_MODULES: Final = {"mlflow-skinny": "mlflow", "pillow": "PIL"}
"""Package → its module, where that is not its name."""

_REQUIREMENT: Final = re.compile(r"\s*([\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([\w.-]+)['"]""")
_RELEASE: Final = re.compile(r"\s*v?(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Package:
    """A package, as it is needed and as it is installed.

    Attributes:
        name: of the package.
        needed: bounds of its version, such as ``>=1.24``; empty: any.
        version: that is installed, None where none is.
    """

    name: str
    needed: str
    version: str | None

    @property
    def module(self) -> str:
        """What is imported of it."""
        return _MODULES.get(self.name, self.name.replace("-", "_"))

    @property
    def older(self) -> bool:
        """It is installed, and older than needed."""
        return self.version is not None and any(
            _release(self.version) < _release(bound.lstrip("=>~ "))
            for bound in self.needed.split(",")
            if bound.strip().startswith((">=", "==", "~="))
        )


@dataclass(frozen=True)
class Extra:
    """An extra of calib8, what is asked for as ``calib8[NAME]``.

    Attributes:
        name: of the extra.
        adds: what can be done with it.
        packages: that it needs beside the others.
    """

    name: str
    adds: str
    packages: tuple[Package, ...]

    @property
    def installed(self) -> bool:
        """All of its packages are."""
        return all(package.version is not None for package in self.packages)

    @property
    def command(self) -> str:
        """What adds it."""
        return f'pip install "{OWN}[{self.name}]"'


def installed_version(name: str) -> str | None:
    """Version of a package; None where it is not installed, or its metadata cannot be read."""
    try:
        found: object = metadata.version(name)
    except Exception:  # whatever is wrong with a broken installation, it has no version
        return None
    return found if isinstance(found, str) else None


def required_packages() -> tuple[tuple[Package, ...], tuple[Extra, ...]]:
    """Packages that are needed always, and the extras, both in alphabetical order.

    Empty where calib8 has no metadata: it runs from a folder that was never installed.
    """
    always: dict[str, Package] = {}
    extras: dict[str, list[Package]] = {}
    for line in _requirements():
        found = _REQUIREMENT.match(line)
        if found is None:
            continue
        name, needed, marker = found[1], "".join(found[2].split()), found[3] or ""
        package = Package(name, needed, installed_version(name))
        extra = _EXTRA.search(marker)
        if extra is None:
            always[name] = package
        else:
            extras.setdefault(extra[1], []).append(package)
    told = (Extra(name, ADDS.get(name, ""), tuple(of)) for name, of in sorted(extras.items()))
    return tuple(always[name] for name in sorted(always)), tuple(told)


def installed_runtimes() -> tuple[str, ...]:
    """Those of ``RUNTIMES`` that are installed."""
    return tuple(name for name in RUNTIMES if installed_version(name) is not None)


def _requirements() -> list[str]:
    try:
        return metadata.requires(OWN) or []
    except Exception:  # as above
        return []


def _release(text: str) -> tuple[int, ...]:
    """``1.24.0rc1`` → (1, 24): the numbers, without zeros at the end; none where there are none."""
    found = _RELEASE.match(text)
    numbers = [int(part) for part in found[1].split(".")] if found is not None else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
