"""Which processors this one can stand for: every choice is made once, whatever the machine has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from processors import ARM, ASKED, X86, Processor, choice, other_ways, others

ENGINE = Path(__file__).parents[1] / "csrc" / "engine"
STANDS_FOR = {
    "nehalem": [],
    "sandy-bridge": [],
    "haswell": ["nehalem"],
    "alder-lake": ["nehalem", "haswell"],
    "skylake-x": ["nehalem"],
    "cascade-lake": ["nehalem", "haswell"],
    "ice-lake": ["nehalem", "haswell", "cascade-lake"],
    "zen-5": ["nehalem", "haswell", "alder-lake", "cascade-lake"],
    "cortex-a53": [],
    "cortex-a76": ["cortex-a53"],
}
by_name = pytest.mark.parametrize("processor", (*X86, *ARM), ids=lambda processor: processor.name)


def stood_for(processor: Processor) -> list[Processor]:
    family = X86 if processor in X86 else ARM
    return others(family, processor.features, choice(processor))


@by_name
def test_one_processor_for_each_choice_but_its_own(processor: Processor) -> None:
    assert [other.name for other in stood_for(processor)] == STANDS_FOR[processor.name]


@by_name
def test_whatever_is_forced_some_processor_chooses_by_itself(processor: Processor) -> None:
    """So that the tests that ask for the chosen set need not run once more for each name in CALIB8_ISA."""
    chosen = {(choice(one).engine, choice(one).counting) for one in (processor, *stood_for(processor))}
    assert set(processor.forced.values()) <= chosen


@by_name
def test_kernels_that_take_another_way_are_named(processor: Processor) -> None:
    found = [other.name for other in other_ways(stood_for(processor), choice(processor))]
    assert found == (["cascade-lake"] if processor.name in ("ice-lake", "zen-5") else [])


def test_kernels_ask_for_no_other_features() -> None:
    """A set is chosen in dispatch.cc; what else asks what the processor has must stand in the table."""
    asked = {
        (path.stem.rpartition("_")[2], (match[1] or "anything").lower())
        for path in ENGINE.rglob("*.[hc]*")
        if path.name not in ("dispatch.cc", "bindings.cc")
        for match in re.finditer(r"\bfeatures\(\)(?: & k(\w+))?", path.read_text())
    }
    assert asked == {(name.removesuffix("vnni"), one) for name, features in ASKED.items() for one in features}
