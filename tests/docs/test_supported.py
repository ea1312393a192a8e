"""`docs/reference/supported.md` is what the code says, and nothing that is served is without a row."""

from __future__ import annotations

import pytest
from tools.supported.__main__ import PAGE, folded, page
from tools.supported.fields import fields, kinds, unread
from tools.supported.settings import INERT, all_settings, unread_settings

from corral.configuration.document import UNUSED
from corral.kinds.machinery.definition import KindDef


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "python -m tools.supported"


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_every_field_that_nobody_reads_is_called_inert(kind: KindDef) -> None:
    assert set(unread(kind)) - set(kind.inert_fields) == set()


def test_inert_fields_are_there() -> None:
    assert all(set(kind.inert_fields) <= set(fields(kind)) for kind in kinds())


def test_every_setting_that_nobody_reads_is_called_inert() -> None:
    assert sorted({*unread_settings(), *UNUSED} - {"controller", "metadata"}) == sorted(
        set(INERT) - {"controller", "metadata"}
    )


def test_settings_that_are_read_are_there() -> None:
    assert "waitForPodsReady.requeuingStrategy.backoffLimitCount" in all_settings()


def test_paths_are_folded() -> None:
    assert folded(["spec", "spec.a", "spec.a.b", "spec.a.c", "spec.d"]) == "`spec{a{b, c}, d}`"
