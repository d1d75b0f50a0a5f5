"""Names with line breaks and other signs that cannot be printed stay on one line, escaped."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import FLAGS, cnn, save

ODD = "conv\n\x1b[31m2"
SHOWN = r"conv\n\x1b[31m2"


@pytest.mark.parametrize("command", ["inspect", "diagnose"])
def test_a_name_with_a_line_break_is_escaped(cli, out: Path, images: Path, command: str) -> None:
    proto = cnn()
    next(node for node in proto.graph.node if node.name == "conv2").name = ODD
    model = save(proto, out / "odd.onnx")
    options = ("--data", images, *FLAGS) if command == "diagnose" else ()
    result = cli(command, model, *options)
    assert result.exit_code == 0, result.output
    assert SHOWN in result.stdout and ODD not in result.stdout and "\x1b" not in result.stdout
