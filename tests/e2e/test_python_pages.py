"""The tutorial and the notebook about the Python API do what they say: their programs run in order on a fleet of `corral up`."""

from __future__ import annotations

import json
import linecache
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.started import ROOT, started

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TUTORIAL = ROOT / "docs" / "tutorials" / "python.md"
NOTEBOOK = ROOT / "examples" / "python.ipynb"


def of_tutorial() -> list[str]:
    return re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(), flags=re.DOTALL)


def of_notebook() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with started(tmp_path_factory.mktemp("fleet"), "--workers", "2", "--cpu", "16", "--memory", "32Gi") as state:
        yield state


@pytest.mark.parametrize("is_by_value", [True, False], ids=["with cloudpickle", "without"])
@pytest.mark.parametrize("cells", [of_tutorial(), of_notebook()], ids=["tutorial", "notebook"])
def test_every_cell_runs(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: list[str], is_by_value: bool
) -> None:
    if is_by_value:
        pytest.importorskip("cloudpickle")
    else:
        monkeypatch.setitem(sys.modules, "cloudpickle", None)
    monkeypatch.setenv("KUBECONFIG", str(fleet / "kubeconfig"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "cells_of_a_notebook"}
    assert len(cells) > 5
    for number, text in enumerate(cells):
        file = f"<cell {number} of {tmp_path}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)  # as a notebook does
        exec(compile(text, file, "exec"), names)
