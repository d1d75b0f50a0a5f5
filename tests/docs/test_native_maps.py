"""The maps of the native code name every file and nothing that does not exist; names follow the rule."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from pages import PAGES, ROOT, blocks, prose, rows, sections

from bits import ISAS
from calib8 import _core

CSRC = ROOT / "csrc"
MAPS = {"csrc": PAGES["csrc/README.md"], "csrc/engine": PAGES["csrc/engine/README.md"]}
ENGINE = MAPS["csrc/engine"]
SETS = ("avx2", "avxvnni", "avx512vnni", "amx", "neon", "neondot", "neoni8mm")

FILE = re.compile(r"[\w/*]+\.(?:h|cc|cmake)\b")
ROUNDS = re.compile(
    r"nearbyint|_cvtps_epi32|_cvt_round|\brounded(?!_up)|rounding_|parts16|mulhrs|qrdmulh|floors\(|rescaled"
    r"|multipl(?:y|ied)_(?:fixed|double|single|away|wide|split)|\bHalves\b"
)
"""What code does that makes whole numbers of others, or calls for it."""


def native_files(folder: str) -> dict[str, Path]:
    """Sources by their path from a folder; those of ``csrc`` without the ones of the engine."""
    found = sorted((ROOT / folder).rglob("*"))
    files = {path.relative_to(ROOT / folder).as_posix(): path for path in found if path.is_file()}
    return {
        name: path
        for name, path in files.items()
        if path.name != "README.md" and (folder != "csrc" or not name.startswith("engine/"))
    }


def code_of(path: Path) -> str:
    """A C++ file without its comments."""
    return re.sub(r"//.*", "", path.read_text(encoding="utf-8"))


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def pattern(name: str) -> str:
    """A name of a file with NAME or SET in it, or the end of one, as a pattern."""
    return re.sub(r"^_|NAME|SET", lambda match: "*_" if match[0] == "_" else "*", name)


def file_patterns(text: str) -> set[str]:
    return {pattern(span) for span in spans(text) if FILE.fullmatch(span)}


@pytest.mark.parametrize("folder", MAPS)
def test_every_file_is_in_a_table_of_the_map(folder: str) -> None:
    listed = {
        name for row in rows(prose(MAPS[folder])) if "." in row[0] for name in file_patterns(row[0]) if name
    }
    files = native_files(folder)
    assert {name for name in files if not any(fnmatchcase(name, one) for one in listed)} == set()
    assert {one for one in listed if not any(fnmatchcase(name, one) for name in files)} == set()


@pytest.mark.parametrize("folder", MAPS)
def test_files_that_a_map_names_exist(folder: str) -> None:
    """Also those in pictures, by their path from the folder, from the one above, or by name alone."""
    everything = {*native_files("csrc"), *native_files("csrc/engine")}
    everything |= {name.rpartition("/")[2] for name in everything}
    named = {pattern(name) for name in FILE.findall(MAPS[folder]) if not name.startswith(("csrc/", "tests/"))}
    assert len(named) > 30
    assert {one for one in named if not any(fnmatchcase(name, one) for name in everything)} == set()


def tokens(text: str) -> Iterator[str]:
    """Identifiers, with the … of those that are only the beginning or the end of one."""
    for token in re.findall(r"…?[A-Za-z_]\w+…?", text):
        if not re.search("NAME|SET$", token):
            yield token


@pytest.mark.parametrize("folder", MAPS)
def test_names_in_a_map_are_names_in_the_code(folder: str) -> None:
    page = MAPS[folder]
    files = {**native_files("csrc"), **native_files("csrc/engine")}
    code = [*map(code_of, files.values()), *(path.stem for path in files.values())]
    for path in re.findall(r"`((?:src|tests)/[\w/]+\.py)`", page):
        code.append((ROOT / path).read_text(encoding="utf-8"))
    known = set(re.findall(r"\w+", "\n".join(code)))
    texts = [span for span in spans(prose(page)) if not re.search(r"\.(h|cc|py|cmake|md)$|/", span)]
    drawn = [FILE.sub("", block.text) for block in blocks(page)]
    texts += [word for text in drawn for word in re.findall(r"\w*_\w+|\w+::\w+", text)]
    for token in {token for text in texts for token in tokens(text)}:
        if token.startswith(("_", "…")):
            assert any(name.endswith(token.strip("…")) for name in known), token
        elif token.endswith(("_", "…")):
            assert any(name.startswith(token.strip("…")) for name in known), token
        else:
            assert token in known, token


def test_the_map_tells_the_kernels_of_every_set() -> None:
    """Those of the sets that this machine has."""
    part = sections(ENGINE)["How an instruction set is chosen"]
    table = {row[0].strip("`"): row[1] for row in rows(part)[2:]}
    assert set(table) == {*SETS, "reference"}
    for isa in ISAS:
        origins = _core.engine.kernel_origins(isa)
        own = {kind for kind, origin in origins.items() if origin == isa}
        named = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in spans(table[isa])}
        assert own == (set(origins) - named if table[isa].startswith("all") else named), isa


def test_every_file_that_rounds_is_told_where_rounding_is() -> None:
    listed = file_patterns(sections(ENGINE)["Where rounding happens"])
    files = native_files("csrc/engine")
    rounding = {name for name, path in files.items() if ROUNDS.search(code_of(path))}
    assert len(rounding) > 30
    assert {name for name in rounding if not any(fnmatchcase(name, one) for one in listed)} == set()


def exported(path: Path) -> list[str]:
    """Functions that a file of kernels defines outside of its anonymous namespaces."""
    text = re.sub(
        r"^namespace \{.*?^\}  // namespace$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S
    )
    return re.findall(r"^(?!#|//)\w[\w:&<> ]*?\b(\w+)\([^;{}]*\) \{", text, re.MULTILINE)


def test_entries_are_called_by_what_they_do_and_then_by_their_set() -> None:
    count = 0
    for name, path in native_files("csrc/engine").items():
        ends = [one for one in SETS if name.endswith(f"_{one}.cc")]
        if ends:
            functions = exported(path)
            assert functions and {one for one in functions if not one.endswith(f"_{ends[0]}")} == set(), name
            count += len(functions)
    assert count > 40


def test_plain_loops_are_called_so() -> None:
    files = [path for name, path in native_files("csrc/engine").items() if name.startswith("reference/ref")]
    functions = [function for path in files if path.suffix == ".cc" for function in exported(path)]
    assert len(functions) >= len(_core.engine.schemas())
    assert {name for name in functions if not name.startswith("reference_")} == set()


@pytest.mark.parametrize("folder", MAPS)
def test_the_first_line_of_a_file_says_what_it_is_for(folder: str) -> None:
    for name, path in native_files(folder).items():
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        assert re.match(r"(//|#) \S.{10}", first), name
