"""What the words of a step say about kinds that go and come."""

from __future__ import annotations

import re

from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.machinery.definition import KindDef
from multikueue.facts import Obj

REMOVED = re.compile(r"\b(remove|delete|uninstall)[ds]?\b|\bloses\b")


def definition_in(words: str) -> KindDef | None:
    """The kind whose CustomResourceDefinition the words name."""
    named = set(re.findall(r"[a-z][a-z0-9.-]+[a-z]", words)) if "CRD" in words else ()
    return next((kind for kind in native_kinds() if f"{kind.plural}.{kind.group}" in named), None)


def losing(step: Obj) -> str:
    """The cluster that loses a kind by a step, if one does."""
    words = str(step["do"])
    found = re.search(r"\b(?:on|of|from) ([\w-]+)$", words)
    if definition_in(words) is None or not REMOVED.search(words):
        return ""
    return str(step.get("cluster") or (found[1] if found else ""))
