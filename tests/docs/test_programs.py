"""The programs in the documentation run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    pytest.param(program, id=f"{page.stem}-{number}")
    for page in sorted(ROOT.glob("docs/**/*.md"))
    for number, (needs, program) in enumerate(
        re.findall(r"(<!-- needs: fleet -->\n)?```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    )
    if not needs
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_documentation_runs(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "Task" not in done.stderr, "nothing is left running at the end"


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 2
