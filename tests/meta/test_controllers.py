"""How controllers are built: whatever one has is made in `__init__` (`corral.runtime.controller` says why and how)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import corral

SOURCES = Path(corral.__file__).parent

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def classes() -> dict[str, list[tuple[str, ast.ClassDef]]]:
    """Every class of the sources by its name, with the module it is in."""
    found: dict[str, list[tuple[str, ast.ClassDef]]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append((path.relative_to(SOURCES).as_posix(), node))
    return found


CLASSES = classes()


def lineage(node: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """A class and the classes of ours it inherits from."""
    yield node
    for base in node.bases:
        if isinstance(base, ast.Name):
            for _, parent in CLASSES.get(base.id, ()):
                yield from lineage(parent)


def methods(node: ast.ClassDef) -> list[FunctionNode]:
    return [part for part in node.body if isinstance(part, FunctionNode)]


def is_controller(node: ast.ClassDef) -> bool:
    is_protocol = any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
    return not is_protocol and any(method.name == "reconcile" for kind in lineage(node) for method in methods(kind))


def assigned(function: FunctionNode) -> set[str]:
    """The attributes of `self` that a method binds."""
    return {
        part.attr
        for part in ast.walk(function)
        if isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Store)
        and isinstance(part.value, ast.Name)
        and part.value.id == "self"
    }


def made_late(node: ast.ClassDef) -> set[str]:
    """Attributes that a class has only after some method other than `__init__` was called."""
    at_once: set[str] = set()
    for kind in lineage(node):
        for method in methods(kind):
            if method.name == "__init__":
                at_once |= assigned(method)
        for part in kind.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                at_once.add(part.target.id)
            elif isinstance(part, ast.Assign):
                at_once |= {target.id for target in part.targets if isinstance(target, ast.Name)}
    return set().union(*map(assigned, methods(node))) - at_once


def controllers() -> list[tuple[str, ast.ClassDef]]:
    return [(path, node) for found in CLASSES.values() for path, node in found if is_controller(node)]


def in_two_phases() -> list[str]:
    return [
        f"{path}: {node.name} makes {', '.join(sorted(late))} outside of __init__"
        for path, node in controllers()
        if (late := made_late(node))
    ]


def test_a_controller_has_all_its_attributes_when_it_is_constructed() -> None:
    assert len(controllers()) > 40
    assert in_two_phases() == []


def test_a_controller_is_not_set_up_a_second_time() -> None:
    second = [
        f"{path}: {node.name}.{method.name}"
        for path, node in controllers()
        for method in methods(node)
        if method.name in ("setup", "set_up")
    ]
    assert second == []
