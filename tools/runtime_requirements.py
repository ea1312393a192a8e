"""Prints the part of constraints.txt that Corral needs to run, hashes and all: what goes into the image.

    python tools/runtime_requirements.py constraints.txt

Run it where everything in that file is installed: what needs what is read from the packages themselves."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

ROOT = Path(__file__).parents[1]


def name_of(requirement: str) -> str:
    """The package a requirement asks for, in its normal form."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", found.group()).lower() if found else ""


def closure(wanted: list[str]) -> set[str]:
    """Packages and what they need, without extras."""
    found: set[str] = set()
    left = [name_of(each) for each in wanted]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        left += [name_of(each) for each in requires(name) or [] if "extra ==" not in each]
    return found


def chosen(constraints: str, names: set[str]) -> str:
    """The entries of those packages; an entry goes on over lines that begin with spaces."""
    entries = re.findall(r"^[A-Za-z0-9].*(?:\n[ \t].*)*", constraints, re.MULTILINE)
    return "\n".join(entry for entry in entries if name_of(entry) in names) + "\n"


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # Some are for other platforms or Pythons and not installed here; they are not in the constraints either.
    print(chosen(Path(sys.argv[1]).read_text(), closure(project["dependencies"])), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
