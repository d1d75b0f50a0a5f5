"""``calib8 doctor``: its text, its JSON document, its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from json_output import load

import calib8


def test_text_and_document(cli, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIB8_ISA", "reference")
    monkeypatch.setenv("CALIB8_SPEED", "much")
    result = cli("doctor", "--json", out / "here.json")
    assert result.exit_code == 0, result.output
    document = load(out / "here.json")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["calib8", calib8.__version__]
    assert document["engine"]["used"] == document["counting"]["used"] == "reference"
    assert document["variables"] == {**document["variables"], "CALIB8_ISA": "reference"}
    assert "- CALIB8_SPEED: is no variable that calib8 reads." in result.stdout
    assert [f"- {finding['text']}" for finding in document["findings"]] == lines[-len(document["findings"]) :]
    needed = {package["name"]: package["version"] for package in document["packages"]}
    assert needed["numpy"] and needed["typer"]


def test_a_wrong_instruction_set_is_a_finding(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIB8_ISA", "sse9")
    monkeypatch.delenv("CALIB8_CPU", raising=False)
    result = cli("doctor")
    assert result.exit_code == 0, result.output
    assert "- engine: no kernels can be used: CALIB8_ISA=sse9: " in result.stdout
    assert "Unset CALIB8_ISA." in result.stdout


@pytest.mark.slow
def test_quiet_and_refused(cli, refused, out: Path) -> None:
    assert cli("doctor", "--quiet").output == ""
    refused(cli("doctor", "--json", out / "none" / "here.json"), 2, "--json", "cannot be written")
