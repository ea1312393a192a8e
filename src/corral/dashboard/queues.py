"""The queues of the page: each with its quota and who has it, below the cohorts that share it."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Key, Obj, name_of, spec_of, status_of
from corral.core.quantity import Quantity
from corral.dashboard.amounts import share

FlavorAndResource = tuple[str, str]


def queue(found: Obj, local_queues: dict[Key, Obj]) -> Obj:
    """A ClusterQueue."""
    spec, status = spec_of(found), status_of(found)
    active = conditions.find(found, "Active") or {}
    fair = (status.get("fairSharing") or {}).get("weightedShare")
    return {
        "name": name_of(found),
        "cohort": spec.get("cohortName") or "",
        "active": active.get("status") == "True",
        "message": active.get("message") or "",
        "pending": status.get("pendingWorkloads", 0),
        "admitted": status.get("admittedWorkloads", 0),
        "weightedShare": fair,
        "localQueues": [
            str(key) for key, one in local_queues.items() if spec_of(one).get("clusterQueue") == name_of(found)
        ],
        "quotas": _quotas(found),
    }


def _quotas(found: Obj) -> list[Obj]:
    used = {
        (str(flavor["name"]), str(resource["name"])): resource
        for flavor in status_of(found).get("flavorsReservation") or []
        for resource in flavor.get("resources") or []
    }
    return [
        _quota(pair, nominal, used.get(pair, {}).get("total", "0"), used.get(pair, {}).get("borrowed", "0"))
        for pair, nominal in _nominal(found).items()
    ]


def _nominal(found: Obj) -> dict[FlavorAndResource, str]:
    """What of each resource of each flavor a queue or a cohort has of its own, in its order."""
    flavors = [flavor for group in spec_of(found).get("resourceGroups") or [] for flavor in group.get("flavors") or []]
    return {
        (str(flavor["name"]), str(quota["name"])): str(quota.get("nominalQuota") or "0")
        for flavor in flavors
        for quota in flavor.get("resources") or []
    }


def _quota(pair: FlavorAndResource, nominal: str, used: object, borrowed: object) -> Obj:
    flavor, resource = pair
    return {
        "flavor": flavor, "resource": resource, "quota": nominal, "used": str(used), "borrowed": str(borrowed),
        "share": share(used, nominal),
    }  # fmt: skip


def cohorts(queues: list[Obj], found: list[Obj]) -> list[Obj]:
    """Every cohort with what it has together with all below it, parents before their children, each with how deep it is."""
    parents = {one["cohort"]: "" for one in queues if one["cohort"]}
    parents |= {name_of(one): str(spec_of(one).get("parentName") or "") for one in found}
    parents |= {parent: "" for parent in list(parents.values()) if parent and parent not in parents}
    own = {name_of(one): _nominal(one) for one in found}
    children: dict[str, list[str]] = {}
    for name in sorted(parents):
        children.setdefault(parents[name], []).append(name)
    shown: list[Obj] = []

    def add(name: str, depth: int) -> dict[FlavorAndResource, tuple[Quantity, Quantity]]:
        """Show a cohort and those below it; what it has and what of that is used."""
        entry: Obj = {"name": name, "parent": parents[name], "depth": depth}
        shown.append(entry)
        sums = {pair: (Quantity.parse(amount), Quantity(0)) for pair, amount in own.get(name, {}).items()}
        parts = [
            {(one["flavor"], one["resource"]): (Quantity.parse(one["quota"]), Quantity.parse(one["used"])) for one in queue["quotas"]}
            for queue in queues
            if queue["cohort"] == name
        ]  # fmt: skip
        for part in (*parts, *(add(child, depth + 1) for child in children.get(name, ()))):
            for pair, (quota, used) in part.items():
                before = sums.get(pair, (Quantity(0), Quantity(0)))
                sums[pair] = (before[0] + quota, before[1] + used)
        entry["quotas"] = [_quota(pair, str(quota), used, "0") for pair, (quota, used) in sums.items()]
        return sums

    for name in children.get("", ()):
        add(name, 0)
    return shown
