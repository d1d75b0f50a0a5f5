"""The layout is a test: imports point down, without cycles; files stay small and say what they are for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "calib8"
FILES = sorted(SOURCE.rglob("*.py"))
ROOMS = (
    {"errors"},
    {"files", "ops", "qparams", "fixedpoint", "tensors", "progress", "processors", "profiles", "forks"},
    {"scheme", "table", "tflite"},
    {"model", "data"},
    {"passes"},
    {"calibration"},
    {"quantization"},
    {"tasks"},
    {"autorange"},
    {"dissection"},
    {"program", "formats", "repair"},
    {"engine", "exporting"},
    {"session", "outcomes"},
    {"analysis", "report", "int8_model"},
    {"training"},
    {"pipeline", "judge"},
    {"demo", "remedies", "tuning"},
    {"cli"},
    {"__main__"},
    {"__init__"},
)
"""From the ground up; a module imports only rooms before its own."""

RANK = {name: rank for rank, names in enumerate(ROOMS) for name in names}
NATIVE = "calib8._core"
MAX_LINES = 400


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported(path: Path) -> Iterator[str]:
    """Modules of calib8 that a file imports anywhere: in functions and under TYPE_CHECKING too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "calib8")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "calib8":
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES or full == NATIVE else str(node.module)


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_file_lies_in_a_known_room(path: Path) -> None:
    assert room(module_name(path)) in RANK
    assert "utils" not in path.stem and "manager" not in path.stem and "helpers" not in path.stem


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    own = room(module_name(path))
    for module in imported(path):
        if module == NATIVE or room(module) == own:
            continue
        assert RANK[room(module)] < RANK[own], f"{module_name(path)} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_are_absolute_and_name_files_that_exist(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    relative = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    assert not relative, f"relative import in line {relative}"
    for module in imported(path):
        assert module in MODULES or module == NATIVE, f"{module} does not exist"


def test_there_are_no_import_cycles() -> None:
    waiting = {name: {m for m in imported(path) if m in MODULES} for name, path in MODULES.items()}
    while waiting:
        free = [name for name, needs in waiting.items() if not needs & set(waiting)]
        assert free, f"import cycle among {sorted(waiting)}"
        for name in free:
            del waiting[name]


def test_only_three_rooms_import_the_native_module() -> None:
    users = {room(name) for name, path in MODULES.items() if NATIVE in imported(path)}
    assert users <= {"calibration", "engine", "repair"}


def test_only_the_training_room_imports_torch() -> None:
    users = set()
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            users |= {room(name) for each in names if each.split(".")[0] == "torch"}
    assert users == {"training"}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_file_says_what_it_is_for_and_stays_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""'), "the first line says what the file is for"
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_function_is_longer_than_forty_lines_of_code(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            length = (node.end_lineno or 0) - first.lineno + 1
            assert length <= 40, f"{node.name} has {length} lines"


def test_the_table_of_rooms_holds_no_room_twice() -> None:
    assert sum(map(len, ROOMS)) == len(RANK)
