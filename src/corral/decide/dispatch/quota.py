"""Manager quota automation: the quota of a queue that dispatches is what its workers have for it together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from corral.core.meta import Obj, spec_of
from corral.core.quantity import Quantity

CONDITION: Final = "MultiKueueManagerQuotaAutomation"
_AUTOMATED = "ClusterQueue quota is automatically managed based on MultiKueue workers."
_NOT_REQUESTED = "MultiKueue manager quota automation has not been requested."
_NO_CONFIG = "The referenced MultiKueueConfig was not found."
_ONE_FLAVOR = "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor"
_NOT_COVERED = "manager-side coveredResources is missing resources configured on workers: [{}]"


class QuotaVerdict(NamedTuple):
    """What the condition says, and the ClusterQueue's spec as it should be (None: leave it)."""

    ok: bool
    reason: str
    message: str
    spec: Obj | None = None


def automated(queue: Obj, config: Obj | None, worker_queues: Iterable[Obj]) -> QuotaVerdict:
    """The quota of the manager's `queue`, from the ClusterQueues that stand behind the same LocalQueues on workers."""
    if config is None:
        return QuotaVerdict(False, "UnsupportedConfiguration", _NO_CONFIG)
    if spec_of(config).get("quotaManagement") != "Automated":
        return QuotaVerdict(False, "NotRequested", _NOT_REQUESTED)
    groups = spec_of(queue).get("resourceGroups") or []
    if [len(group.get("flavors") or []) for group in groups] != [1]:
        return QuotaVerdict(False, "UnsupportedConfiguration", _ONE_FLAVOR)
    quota = _together(worker_queues)
    covered = groups[0].get("coveredResources") or []
    missing = sorted(set(quota) - set(covered))
    if missing:
        return QuotaVerdict(False, "UnsupportedConfiguration", _NOT_COVERED.format(" ".join(missing)))
    (flavor,) = groups[0]["flavors"]
    resources = [{"name": name, "nominalQuota": str(quota.get(name, Quantity.parse("0")))} for name in covered]
    group = {**groups[0], "flavors": [{"name": flavor["name"], "resources": resources}]}
    return QuotaVerdict(True, "QuotaAutomated", _AUTOMATED, {**spec_of(queue), "resourceGroups": [group]})


def _together(queues: Iterable[Obj]) -> dict[str, Quantity]:
    """Nominal quota by resource, all queues and flavors together."""
    total: dict[str, Quantity] = {}
    for queue in queues:
        for group in spec_of(queue).get("resourceGroups") or []:
            for flavor in group.get("flavors") or []:
                for entry in flavor.get("resources") or []:
                    amount = Quantity.parse(str(entry.get("nominalQuota", "0")))
                    total[entry["name"]] = total[entry["name"]] + amount if entry["name"] in total else amount
    return total
