"""The page about the Python API says what the docstrings say, of every public name."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import corral

TOOL = Path(__file__).parents[2] / "tools" / "python_reference.py"


def test_the_page_is_made_from_the_docstrings_as_they_are() -> None:
    spec = importlib.util.spec_from_file_location("python_reference", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert set(tool.ORDER) == set(corral._WHERE), "every public name has its place"
    assert tool.PAGE.read_text() == tool.page(), "`python tools/python_reference.py` writes it anew"
    for name in ("Client.submit", "Client.map", "Job.logs", "Call.result", "RemoteFunction.remote"):
        assert f"### {name}\n" in tool.page()
