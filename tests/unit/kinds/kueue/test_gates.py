"""Feature gates: which may be moved, and which of those moved are told to change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import corral
from corral.kinds.kueue.gates import INERT, LOCKED, OFF_BY_DEFAULT, ON_BY_DEFAULT, FeatureGates


@pytest.mark.parametrize("name", sorted(LOCKED))
def test_a_locked_gate_stays_at_its_default(name: str) -> None:
    default = name in ON_BY_DEFAULT
    assert FeatureGates({name: default})[name] is default
    with pytest.raises(ValueError, match=f"cannot set feature gate {name} to {str(not default).lower()}"):
        FeatureGates({name: not default})


@pytest.mark.parametrize("name", sorted(INERT))
def test_a_gate_without_effect_is_named_when_it_is_moved(name: str) -> None:
    default = name in ON_BY_DEFAULT
    assert FeatureGates({name: not default}).inert() == {name: INERT[name]}
    assert FeatureGates({name: default}).inert() == {}


def test_every_gate_has_one_default_and_one_fate() -> None:
    assert not ON_BY_DEFAULT & OFF_BY_DEFAULT
    assert LOCKED | set(INERT) <= ON_BY_DEFAULT | OFF_BY_DEFAULT
    assert not LOCKED & set(INERT)


def test_every_other_gate_is_asked_for_by_some_module() -> None:
    """A gate nobody asks for would be accepted and ignored."""
    sources = Path(corral.__file__).parent
    asked = "".join(file.read_text() for file in sources.rglob("*.py") if file.name != "gates.py")
    free = (ON_BY_DEFAULT | OFF_BY_DEFAULT) - LOCKED - set(INERT)
    assert sorted(name for name in free if f'"{name}"' not in asked) == []
    assert sorted(name for name in INERT if f'gates["{name}"]' in asked) == []
