"""No room but `jobs` knows a kind of job by name: a new kind is one folder, and nothing else has to learn of it.

Kubernetes' own kinds (Pod, Deployment, StatefulSet, Job, CronJob) are words of Kubernetes and may be spoken anywhere.
Comments and docstrings are prose and may give examples.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import corral
from corral.jobs.framework.registry import SHIPPED, job_kinds
from corral.kinds.machinery.definition import KindDef

SOURCES = Path(corral.__file__).parent
KUBERNETES = ("framework", "batch_job", "pod", "stateful_set")
"""Folders of `jobs` that others may import from: what kinds share, and Kubernetes' own kinds."""
ALLOWED = {
    "cli/demo.py": "a demonstration submits jobs of particular kinds",
    "inspect/naming.py": "an example of how a user names a job",
    "configuration/fleet.py": "`ray` is a field that users write in fleet files",
    "kinds/kueue/gates.py": "feature gates have the names Kueue gave them",
}
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_MOST_PARTS = 4


@cache
def definitions() -> tuple[KindDef, ...]:
    """What job kinds bring, but for Kubernetes' own."""
    return tuple(found for kind in job_kinds() for found in kind.part(kind.kinds) or () if not found.builtin)


@cache
def words() -> frozenset[str]:
    """What kinds are called, in small letters and in one piece."""
    folders = {folder.replace("_", "") for folder in SHIPPED if folder not in KUBERNETES}
    return frozenset(folders | {name.lower() for found in definitions() for name in (found.kind, found.plural)})


@cache
def spoken(text: str) -> frozenset[str]:
    """The kinds that an identifier or a text names, however it is written: PyTorchJob, PYTORCH_JOBS, pytorch_job."""
    squeezed = re.sub(r"[\W_]", "", text.lower())
    if not any(word in squeezed for word in words()) and "." not in text:
        return frozenset()  # most texts, told quickly
    parts = [part.lower() for part in _PARTS.findall(text)]
    joined = {"".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, i + 1 + _MOST_PARTS)}
    return words() & joined | {found.group for found in definitions() if found.group in text}


def texts_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every identifier, imported module and string of a module that is not prose."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.lineno, node.arg or ""
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from ((node.lineno, name) for alias in node.names for name in (alias.name, alias.asname or ""))
            yield node.lineno, getattr(node, "module", None) or ""


def named_in(source: str) -> list[str]:
    """Where a module names kinds of jobs."""
    found = []
    for line, text in texts_of(ast.parse(source)):
        said = set(spoken(text))
        folder = re.match(r"corral\.jobs\.(\w+)", text)
        if folder is not None and folder[1] not in KUBERNETES:
            said.add(folder[0])
        if said:
            found.append(f"line {line}: {', '.join(sorted(said))}")
    return found


def test_no_other_room_names_a_kind_of_job() -> None:
    modules = {path.relative_to(SOURCES).as_posix(): path for path in sorted(SOURCES.rglob("*.py"))}
    rooms = {name: path for name, path in modules.items() if not name.startswith("jobs/")}
    found = {name: places for name, path in rooms.items() if (places := named_in(path.read_text()))}
    assert {name: places for name, places in found.items() if name not in ALLOWED} == {}
    assert sorted(found) == sorted(ALLOWED), "an exception that is not needed any more is taken off the list"
    assert len(ALLOWED) <= 10


def test_a_name_is_recognized_however_it_is_written() -> None:
    for source in (
        "from corral.jobs.kubeflow.kind import PYTORCH_JOBS",
        "from corral.jobs import ray",
        "x = 'PyTorchJob'",
        "def make_train_job(): ...",
        "rules = ['leaderworkersets/status']",
        "f'{name}.kubeflow.org'",
        "class AppWrapperThing: ...",
        "f(ray=True)",
    ):
        assert named_in(source), source


def test_other_words_are_not_taken_for_kinds() -> None:
    for source in ("job_settings = 1", "jobs = ('Job', 'batch', 'CronJob')", "'array'", '"""As a PyTorchJob does."""'):
        assert not named_in(source), source
