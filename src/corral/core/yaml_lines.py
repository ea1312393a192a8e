"""Where in a YAML text a field is written: the line to name beside what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def steps(path: str) -> tuple[str | int, ...]:
    """The parts of a path such as `clusters[0].nodes`."""
    return tuple(int(found[2]) if found[2] is not None else found[1] for found in _STEP.finditer(path))


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line of the field at a path, counted from 1; 0 when it is not there."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return 0
    line = 0
    for step in path:
        found = _child(node, step)
        if found is None:
            return 0
        at, node = found
        line = at.start_mark.line + 1
    return line


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """What marks the place of an entry, and the entry."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None
