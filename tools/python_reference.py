"""Writes docs/reference/python.md: every public name of the Python API, from its docstrings. `tests/docs` checks that it is current."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

import corral

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "python.md"
HEAD = (Path(__file__).parent / "python_reference_head.md").read_text()
ORDER = (
    "Client", "Job", "Call", "job", "RemoteFunction", "JobOptions", "JobStatus", "Explanation", "LogLine",
    "Table", "QueueRow", "ClusterRow", "JobRow",
    "CorralError", "NotFoundError", "WaitTimeoutError", "JobFailedError", "RemoteError", "JobWarning",
    "AsyncClient", "AsyncJob", "AsyncCall",
)  # fmt: skip
THE_SAME = {"AsyncClient": "Client", "AsyncJob": "Job", "AsyncCall": "Call"}
"""Classes whose methods are those of another, to be awaited."""


def page() -> str:
    return "\n".join([HEAD, *map(_entry, ORDER)])


def _entry(name: str) -> str:
    found = getattr(corral, name)
    lines = [f"## {name}", "", _text(found.__doc__), ""]
    if name in THE_SAME:
        lines += [
            f"Its methods are those of `{THE_SAME[name]}`: what returns is awaited, what iterates is used with `async for`.",
            "",
        ]
    elif inspect.isclass(found):
        lines += [*_attributes(found), *(line for method in _methods(found) for line in _method(found, method))]
    else:
        lines[2:2] = [f"`@corral.{name}{_signature(found)}`", ""]
    return "\n".join(lines)


def _methods(kind: type) -> list[str]:
    return [
        name
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("corral.sdk")
        for name, member in vars(base).items()
        if not name.startswith("_") and inspect.isfunction(inspect.unwrap(member)) and kind.__name__ != "RemoteError"
        if name in vars(kind) or base is kind
    ]


def _method(kind: type, name: str) -> list[str]:
    function = inspect.unwrap(getattr(kind, name))
    return [f"### {kind.__name__}.{name}", "", f"`{name}{_signature(function)}`", "", _text(function.__doc__), ""]


def _signature(function: object) -> str:
    """The parameters without their types, which say more to programs than to people."""
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    shown = [one.replace(annotation=inspect.Parameter.empty) for one in parameters if one.name != "self"]
    return str(inspect.Signature(shown))


def _attributes(kind: type) -> list[str]:
    """Attributes with the sentence below each of them."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    bodies = [tree.body[0].body]  # type: ignore[attr-defined]
    bodies += [node.body for node in bodies[0] if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    rows = []
    for body in bodies:
        for node, after in zip(body, [*body[1:], None], strict=True):
            if (name := _assigned(node)) and not name.startswith("_"):
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                rows.append(f"| `{name}` | {_text(str(after.value.value)) if is_text else ''} |")  # type: ignore[union-attr]
    rows += [
        f"| `{name}` | {_text(member.fget.__doc__)} |"
        for name, member in vars(kind).items()
        if isinstance(member, property) and not name.startswith("_")
    ]
    return ["| attribute | |", "|---|---|", *rows, ""] if rows else []


def _assigned(node: ast.stmt) -> str:
    target = (
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    if isinstance(target, ast.Name):
        return target.id
    return target.attr if isinstance(target, ast.Attribute) else ""


def _text(docstring: str | None) -> str:
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(docstring or ""))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


if __name__ == "__main__":
    PAGE.write_text(page())
