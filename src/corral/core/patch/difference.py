"""The JSON patch (RFC 6902) that makes one document of another: what a webhook answers with."""

from __future__ import annotations

from typing import Any

Operation = dict[str, Any]


def json_patch_between(old: Any, new: Any, path: str = "") -> list[Operation]:
    """Operations that turn `old` into `new`. Lists that differ are replaced as a whole."""
    if old is new:
        return []
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if _is_same(old, new) else [{"op": "replace", "path": path, "value": new}]
    operations: list[Operation] = []
    for name, value in old.items():
        where = f"{path}/{_escaped(name)}"
        if name in new:
            operations += json_patch_between(value, new[name], where)
        else:
            operations.append({"op": "remove", "path": where})
    operations += [
        {"op": "add", "path": f"{path}/{_escaped(name)}", "value": value}
        for name, value in new.items()
        if name not in old
    ]
    return operations


def _is_same(old: Any, new: Any) -> bool:
    """Equality as JSON has it: to Python True is 1."""
    return type(old) is type(new) and bool(old == new)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
