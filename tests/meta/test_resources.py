"""Each kind is named to clients by one constant, which stands beside its definition."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import corral
from corral.jobs.framework.served_kinds import builtin_kinds, native_kinds

SOURCES = Path(corral.__file__).parent
Name = tuple[str, str]


def _strings(tree: ast.Module) -> dict[str, str]:
    """The module's own constants that are strings: literals may name their group by one of them."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _literals(source: str) -> Iterator[Name]:
    """Group and plural of every `Resource(...)` in `source` that is written out."""
    tree = ast.parse(source)
    strings = _strings(tree)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Resource"):
            continue
        arguments = dict(zip(("group", "version", "plural"), node.args, strict=False))
        arguments |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        named = []
        for part in ("group", "plural"):
            match arguments.get(part):
                case ast.Constant(value=str(value)):
                    named.append(value)
                case ast.Name(id=name) if name in strings:
                    named.append(strings[name])
        if len(named) == 2:
            yield named[0], named[1]


def _constants(source: str) -> Iterator[str]:
    """The definitions whose resource a module gives a name: `POD` for `PODS = POD.resource()`."""
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="resource"))):
                yield name


def test_a_literal_is_found_however_it_is_written() -> None:
    source = 'G = "apps"\nA = Resource("", "v1", "pods", "Pod")\nB = Resource(G, plural="sets", version="v1", kind="S")'
    assert list(_literals(source)) == [("", "pods"), ("apps", "sets")]


def test_no_module_writes_out_a_resource_that_a_definition_or_another_module_has() -> None:
    declared = {(kind.group, kind.plural) for kind in (*builtin_kinds(), *native_kinds())}
    places = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for name in _literals(path.read_text()):
            places[name].append(str(path.relative_to(SOURCES)))
    assert {name: where for name, where in places.items() if name in declared or len(where) > 1} == {}


def test_a_definition_gives_its_resource_one_name() -> None:
    for path in sorted(SOURCES.rglob("*.py")):
        named = list(_constants(path.read_text()))
        assert len(named) == len(set(named)), path
