"""Writes `docs/reference/supported.md` from the code: `python -m tools.supported`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from tools.supported.fields import fields, kinds
from tools.supported.settings import INERT as INERT_SETTINGS
from tools.supported.settings import all_settings

from corral.kinds.kueue.gates import INERT, LOCKED, OFF_BY_DEFAULT, ON_BY_DEFAULT
from corral.kinds.machinery.definition import KindDef

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "supported.md"
HEAD = """# What has an effect

Every feature gate and setting of Kueue, and every field of the kinds of other projects that Corral serves. *Honoured* means that it
does what its project says, with the exceptions of [differences](../differences.md); *refused* that it cannot be set; *inert* that it is
taken, checked and kept, and changes nothing, for the reason given. A gate or setting that is inert is also named when it is set: in the log, in
a `NoEffect` Event of the Deployment `kueue-controller-manager`, and by `corral status`. Unknown gates are refused, and so are unknown fields of
the parts of a configuration that are Corral's own ([configuration](configuration.md)).

This page is written from the code by `python -m tools.supported`; a test compares. Another shows for every honoured gate what differs with
it on and off (`tests/conformance/queueing/test_gates.py`).
"""


def page() -> str:
    return "\n".join([HEAD, *_gates(), "", *_settings(), "", *_kinds()]) + "\n"


def _gates() -> Iterator[str]:
    yield "## Feature gates of Kueue\n"
    yield "| gate | default | |\n|---|---|---|"
    for name in sorted(ON_BY_DEFAULT | OFF_BY_DEFAULT):
        default = "on" if name in ON_BY_DEFAULT else "off"
        yield f"| {name} | {default} | {_gate(name)} |"


def _gate(name: str) -> str:
    if name in LOCKED:
        return "refused: upstream has locked it, too"
    return f"inert: {INERT[name]}" if name in INERT else "honoured"


def _settings() -> Iterator[str]:
    yield "## Kueue's Configuration\n"
    yield "| field | |\n|---|---|"
    for path in all_settings():
        why = next((why for start, why in INERT_SETTINGS.items() if _is_within(path, start)), "")
        yield f"| `{path}` | {f'inert: {why}' if why else 'honoured'} |"


def _kinds() -> Iterator[str]:
    yield "## Fields of kinds\n"
    yield (
        "Of the preferred version, without `metadata` and `status`. Pod templates, and Job templates inside others, are carried"
        " along as they are: [pods as processes](../concepts/pods-as-processes.md) says what embedded clusters make of a pod."
    )
    for group, members in groupby(kinds(), key=lambda kind: kind.group):
        yield f"\n### {group}\n\n| kind | honoured | inert |\n|---|---|---|"
        yield from map(_kind, members)


def _kind(kind: KindDef) -> str:
    ignored = kind.inert_fields
    kept = [path for path in fields(kind) if not any(_is_within(path, start) for start in ignored)]
    reasons = "<br>".join(f"`{path}`: {why}" for path, why in sorted(ignored.items()))
    return f"| {kind.kind} | {folded(kept)} | {reasons} |"


def folded(paths: Iterable[str]) -> str:
    """Paths in one text, what they begin with said once: `spec{a{b, c}, d}`."""
    tree: dict[str, dict[str, object]] = {}
    for path in paths:
        inside: dict[str, dict[str, object]] = tree
        for name in path.split("."):
            inside = inside.setdefault(name, {})  # type: ignore[assignment]
    return f"`{_written(tree)}`" if tree else ""


def _written(tree: dict[str, dict[str, object]]) -> str:
    parts = []
    for name, inner in tree.items():
        parts.append(f"{name}{{{_written(inner)}}}" if inner else name)  # type: ignore[arg-type]
    return ", ".join(parts)


def _is_within(path: str, start: str) -> bool:
    return path == start or path.startswith(f"{start}.")


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE.name} is written\n")
