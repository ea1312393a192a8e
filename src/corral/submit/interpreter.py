"""Which Python runs somebody's script: theirs, where pods are processes of this machine; the image's elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from corral.submit.errors import SubmitError

LOCAL_IMAGE = "python"
"""What a pod's image is called where no image is used."""
FOLDERS = (".venv", "venv", "env")
"""What people and uv call the environment of a folder."""


def local_python(given: str, environment: Mapping[str, str], folder: Path) -> str:
    """The interpreter of the user's environment: the one named, an active one, the folder's own, else the first on the path.

    conda's base environment is active in most shells of those who have it, and is meant only where there is no other.
    """
    if given:
        found = shutil.which(given) or ""
        if not found:
            raise SubmitError(f"there is no Python at {given}")
        return str(Path(found).absolute())
    conda = environment.get("CONDA_PREFIX", "")
    is_base = environment.get("CONDA_DEFAULT_ENV") == "base"
    uv = environment.get("UV_PROJECT_ENVIRONMENT", "")
    roots = (
        environment.get("VIRTUAL_ENV", ""),
        "" if is_base else conda,
        str(folder / uv) if uv else "",
        *(str(folder / name) for name in FOLDERS),
        conda,
    )
    for root in filter(None, roots):
        if (python := Path(root) / "bin" / "python").exists():
            return str(python.absolute())
    return shutil.which("python3", path=environment.get("PATH")) or sys.executable


def search_path(python: str, environment: Mapping[str, str]) -> str:
    """Where programs are looked for: beside the interpreter, as where its environment is active; then as in the user's shell, and at
    last beside Corral. A job that runs `python`, `torchrun` or a shell script means the same programs as its user."""
    folders = (
        str(Path(python).parent),
        *environment.get("PATH", os.defpath).split(":"),
        str(Path(sys.executable).parent),
    )
    return ":".join(dict.fromkeys(filter(None, folders)))


def uses_python(script: str) -> bool:
    """Whether a program is run by an interpreter of Python's."""
    return script.endswith(".py") or script == "-m"


def command_of(script: str, arguments: tuple[str, ...], python: str) -> tuple[str, ...]:
    """What runs a script: Python for a .py file and for `-m`, a shell for .sh, anything else by itself."""
    if uses_python(script):
        return (python, "-u", script, *arguments)
    if script.endswith(".sh"):
        return ("sh", script, *arguments)
    return (script, *arguments)
