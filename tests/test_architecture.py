"""The layout is a test: imports point down, without cycles; files stay small and say what they are for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "calib8"
FILES = sorted(SOURCE.rglob("*.py"))
ROOMS = (
    {"parameters", "signals"},
    {"addresses", "errors", "json_texts", "number_texts", "type_texts"},
    {
        "files",
        "notebook",
        "ops",
        "qparams",
        "coded_array",
        "arena",
        "fixedpoint",
        "tensors",
        "progress",
        "processors",
        "profiles",
        "forks",
        "requests",
    },
    {"scheme", "table", "tflite", "tmfile"},
    {"model", "data"},
    {"passes", "modules"},
    {"calibration"},
    {"quantization"},
    {"tasks"},
    {"autorange"},
    {"dissection"},
    {"program", "formats", "repair"},
    {"engine", "exporting"},
    {"session", "outcomes"},
    {"analysis", "report", "int8_model", "delivery"},
    {"training"},
    {"pipeline", "judge"},
    {"demo", "remedies", "tuning", "distributed"},
    {"run_report"},
    {"viewer", "tracking"},
    {"cli"},
    {"__main__"},
    {"__init__"},
)
"""From the ground up; a module imports only rooms before its own."""

RANK = {name: rank for rank, names in enumerate(ROOMS) for name in names}
NATIVE = "calib8._core"
MAX_LINES = 400
MAX_FUNCTION = 40
VAGUE = ("utils", "manager", "helpers")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, the module itself first; a file is read once for all checks."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Modules of calib8 that a file imports anywhere: in functions and under TYPE_CHECKING too."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "calib8")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "calib8":
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES or full == NATIVE else str(node.module)


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def none_of(faults: list[str]) -> None:
    """Fails with all faults, a line each; every check looks at all files before it says so."""
    assert not faults, "\n" + "\n".join(faults)


def test_there_are_files() -> None:
    assert len(FILES) > 300


def test_every_file_lies_in_a_known_room() -> None:
    odd = [path for path in FILES if room(module_name(path)) not in RANK]
    vague = [path for path in FILES if any(word in path.stem for word in VAGUE)]
    none_of([f"{name_of(path)}: is in no room that has a rank" for path in odd])
    none_of([f"{name_of(path)}: its name does not say what it is for" for path in vague])


def test_imports_point_down() -> None:
    none_of(
        [
            f"{name_of(path)}: imports {module}"
            for path, own in zip(FILES, map(room, map(module_name, FILES)), strict=True)
            for module in imported(path)
            if module != NATIVE and room(module) != own and not RANK[room(module)] < RANK[own]
        ]
    )


def test_imports_are_absolute_and_name_files_that_exist() -> None:
    relative = [
        f"{name_of(path)}:{node.lineno}: relative import"
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    missing = [
        f"{name_of(path)}: imports {module}, which does not exist"
        for path in FILES
        for module in imported(path)
        if module not in MODULES and module != NATIVE
    ]
    none_of(relative + missing)


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


def test_only_two_rooms_import_torch() -> None:
    users = set()
    for name, path in MODULES.items():
        for node in nodes_of(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            users |= {room(name) for each in names if each.split(".")[0] == "torch"}
    assert users == {"modules", "training"}


def test_every_file_says_what_it_is_for() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in FILES}
    none_of(
        [
            f"{name_of(path)}: its first line does not say what the file is for"
            for path, text in texts.items()
            if not (text.startswith('"""') and ast.get_docstring(nodes_of(path)[0]))
        ]
    )


def test_every_file_stays_small() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    none_of([f"{name_of(path)}: has {size} lines" for path, size in sizes.items() if size > MAX_LINES])


def test_no_function_is_longer_than_forty_lines_of_code() -> None:
    lengths = [
        (f"{name_of(path)}:{node.lineno}: {node.name}", code_lines(node))
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    none_of([f"{function} has {length} lines" for function, length in lengths if length > MAX_FUNCTION])


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement behind the docstring to the last one."""
    first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
    return (node.end_lineno or 0) - first.lineno + 1


def test_the_table_of_rooms_holds_no_room_twice() -> None:
    assert sum(map(len, ROOMS)) == len(RANK)
