"""What the shipped roles hold, rule by rule, and what is needed of each: calls that nothing else of the role allows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import yaml
from tools.deployment.__main__ import CHART
from tools.deployment.needs import Need, Needs

from corral.controllers.placement.members import RULES
from corral.core.meta import Obj

WHO = {
    "manager": ("queueing", "dispatch", "process"),
    "worker": ("queueing", "process"),
    "hub": ("hub", "process"),
    "member": ("member",),
    "webhooks": ("process",),
    "hub-webhooks": ("hub",),
    "dependencies": ("dispatch",),
}
"""Whose rights a deployment has, by the file of its roles."""
SHIPPED_WITH = {
    "manager": ("manager", "webhooks", "dependencies"),
    "worker": ("worker", "webhooks"),
    "hub": ("hub", "hub-webhooks"),
    "member": ("member",),
}
"""The files of roles that the account of each deployment may have."""
GRANTED = [dict(rule) for rule in RULES]
"""What a hub gives to its members: RBAC lets nobody grant what they do not hold, and `tests/kubernetes/test_process.py` joins one."""


class Held(NamedTuple):
    """A rule, and where it holds: everywhere, or in one namespace."""

    namespace: str
    rule: Obj

    def allows(self, need: Need) -> bool:
        rule = self.rule
        names = rule.get("resourceNames") or ()
        return (
            self.namespace in ("", need.namespace)
            and (need.group in rule["apiGroups"] or "*" in rule["apiGroups"])
            and (need.verb in rule["verbs"] or "*" in rule["verbs"])
            and _is_among(need.resource, rule["resources"])
            and (not names or not need.name or need.name in names)
        )


def _is_among(resource: str, resources: Sequence[str]) -> bool:
    part = resource.partition("/")[2]
    return resource in resources or "*" in resources or (bool(part) and f"*/{part}" in resources)


class Cell(NamedTuple):
    """One thing a rule allows; `*` is anything."""

    verb: str
    group: str
    resource: str


def cells(held: Held) -> list[Cell]:
    rule = held.rule
    return [Cell(*each) for each in product(rule["verbs"], rule["apiGroups"], rule["resources"])]


def held_by(role: str) -> list[Held]:
    return [
        Held(each["metadata"].get("namespace", ""), rule)
        for each in role_documents(role)
        for rule in each.get("rules") or ()
    ]


def role_documents(role: str, without: Held | None = None) -> list[Obj]:
    """The manifests of a file of roles, but for one rule."""
    documents = [*yaml.safe_load_all((CHART / "files" / "roles" / f"{role}.yaml").read_text())]
    for each in documents:
        if without is not None and "rules" in each:
            namespace = each["metadata"].get("namespace", "")
            each["rules"] = [rule for rule in each["rules"] if Held(namespace, rule) != without]
    return documents


def missed_without(role: str, number: int, needs: Needs) -> list[Need]:
    """What is needed that the role does not allow without this rule."""
    held = held_by(role)
    removed, left = held[number], [*held[:number], *held[number + 1 :]]
    mine = [need for need in needs if need.who in WHO[role]]
    return [need for need in mine if removed.allows(need) and not any(other.allows(need) for other in left)]
