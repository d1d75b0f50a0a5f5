"""What can be said of the provider and its package without building them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import onnxruntime
import pytest

from installed_library import PROVIDER_LIBRARY, PROVIDER_PACKAGE, ROOT
from needed import needed_program

FOLDER = ROOT / "onnxruntime_ep"
STRICT = ("-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Werror")


@pytest.fixture
def bare(tmp_path: Path) -> ModuleType:
    """The package as it is before anything is built."""
    copy = tmp_path / "__init__.py"
    copy.write_bytes(PROVIDER_PACKAGE.read_bytes())
    spec = importlib.util.spec_from_file_location("bare", copy)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_entries_are_where_onnxruntime_has_them(tmp_path: Path) -> None:
    """Places of functions and members, as the interface of version 23 numbers them."""
    places = {
        "Provider, capability": 2, "Provider, compile": 3, "Provider, release_computes": 4,
        "Provider, compatibility": 12, "Factory, devices": 3, "Factory, create": 4, "Factory, release": 5,
        "Factory, create_allocator": 9, "Factory, release_allocator": 10, "Factory, create_transfer": 11,
        "Factory, has_streams": 12, "Factory, create_stream": 13, "NodeCompute, release_state": 3,
    }  # fmt: skip
    lines = [
        f'static_assert(offsetof(calib8::ort::{name}) == {place} * sizeof(void*), "{name}");'
        for name, place in places.items()
    ]
    source = tmp_path / "places.cc"
    source.write_text("\n".join([f'#include "{FOLDER / "plugin_api.h"}"', "#include <cstddef>", *lines]))
    compiled(source)


def test_the_entry_compiles_alone() -> None:
    for name in ("library.cc", "options.cc"):
        compiled(FOLDER / name)


def compiled(source: Path) -> None:
    words = [needed_program("g++", "clang++"), *STRICT, "-fsyntax-only", str(source)]
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_no_header_of_onnxruntime_is_needed() -> None:
    for file in (*FOLDER.glob("*.h"), *FOLDER.glob("*.cc")):
        assert not re.search(r"#include .*onnxruntime", file.read_text(encoding="utf-8")), file


def test_the_versions_are_one() -> None:
    found = {
        re.search(r'^version = "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)[1]  # type: ignore[index]
        for path in (ROOT / "pyproject.toml", FOLDER / "pyproject.toml")
    }
    assert len(found) == 1
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_package_that_is_not_whole(bare: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file\. Install onnxruntime-ep-calib8 again"):
        bare.get_library_path()
    (tmp_path / PROVIDER_LIBRARY).touch()
    assert bare.get_library_path() == str(tmp_path / PROVIDER_LIBRARY)
    assert bare.get_ep_names() == [bare.NAME] == ["Calib8ExecutionProvider"]


def test_an_onnxruntime_that_is_too_old_or_missing(bare: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(onnxruntime, "register_execution_provider_library", raising=False)
    with pytest.raises(ImportError, match=r"takes no providers from outside\. Install onnxruntime 1\.23"):
        bare.register()
    monkeypatch.setattr(bare, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"there is no onnxruntime\. Install onnxruntime 1\.23 or newer"):
        bare.session_options()


def test_the_page_tells_options_and_names(bare: ModuleType) -> None:
    page = (ROOT / "docs" / "onnxruntime.md").read_text(encoding="utf-8")
    options = (FOLDER / "options.cc").read_text(encoding="utf-8")
    for name in re.findall(r'name == "(\w+)"', options):
        assert f"| `{name}` |" in page
    for word in (bare.NAME, "register()", "session_options", "ep.context_file_path", PROVIDER_LIBRARY):
        assert word in page
