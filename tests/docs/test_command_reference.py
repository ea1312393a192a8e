"""The page of all options is what the commands say of themselves, and the page of names has every name there is."""

from __future__ import annotations

import re
from pathlib import Path

from tools.command_reference import PAGE, page

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"\"corral\.dev/([A-Za-z][A-Za-z0-9-]*[A-Za-z0-9])[\"=]")


def test_the_page_of_options_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == page(), "`python -m tools.command_reference` writes it anew"


def test_every_name_of_corrals_own_is_explained_on_one_page() -> None:
    """Labels, annotations and conditions that begin with corral.dev/."""
    found = {name for file in (ROOT / "src").rglob("*.py") for name in NAME.findall(file.read_text())}
    listed = set(re.findall(r"`corral\.dev/([A-Za-z0-9-]+)`", (ROOT / "docs" / "reference" / "names.md").read_text()))
    assert found - listed == set()
