"""The provider, built once and registered with the ONNX Runtime of this process."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from installed_library import PROVIDER_LIBRARY, PROVIDER_PACKAGE, installed_whole
from needed import needed_onnxruntime


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the provider."""
    return installed_whole(tmp_path_factory) / "lib" / PROVIDER_LIBRARY


@pytest.fixture(scope="session")
def package(library: Path, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The Python package as a wheel installs it, with the library beside it."""
    folder = tmp_path_factory.mktemp("site") / "onnxruntime_ep_calib8"
    folder.mkdir()
    (folder / "__init__.py").write_bytes(PROVIDER_PACKAGE.read_bytes())
    os.link(library, folder / PROVIDER_LIBRARY)
    spec = importlib.util.spec_from_file_location("onnxruntime_ep_calib8", folder / "__init__.py")
    assert spec is not None and spec.loader is not None
    found = sys.modules["onnxruntime_ep_calib8"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="session")
def registered(package: ModuleType) -> ModuleType:
    """The package, once ONNX Runtime knows its provider."""
    needed_onnxruntime((1, 23), "takes no providers from outside that compile nodes")
    package.register()
    return package
