"""Log lines go to what standard error is when they are written."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest

from corral.runtime import logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, own = list(root.handlers), root.level, logging.getLogger("corral").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("corral").setLevel(own)


def test_a_stream_closed_after_set_up_does_not_spoil_later_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    logs.set_up()
    first.close()
    monkeypatch.setattr(sys, "stderr", second)
    logging.getLogger("corral.x").warning("a sentence", extra={"key": "value"})
    assert second.getvalue().endswith("WARNING corral.x: a sentence key=value\n")


def test_a_line_nobody_can_read_is_dropped_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    logs.set_up()
    monkeypatch.setattr(sys, "stderr", closed)
    logging.getLogger("corral.x").warning("a sentence")
