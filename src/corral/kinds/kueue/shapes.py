"""Schema fragments that several kinds of `kueue.x-k8s.io` share.

The limits, defaults and rule messages are the public contract of the API: clients see them in error texts.
"""

from __future__ import annotations

from typing import Any

from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Schema

SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
MAX_CLUSTERS = 100
"""Workers of one config; upstream stops at 20."""
LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
QUALIFIED_NAME_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


def cel(*pairs: tuple[str, str]) -> tuple[Schema, ...]:
    """CEL rules, each given as (message, expression)."""
    return tuple(s.rule(expression, message) for message, expression in pairs)


def choice(*values: str, **options: Any) -> Schema:
    """A string out of a closed set."""
    return s.string(enum=values, **options)


def keyed(items: Schema, *keys: str, **options: Any) -> Schema:
    """A list that is merged by the values of `keys`."""
    return s.array(items, list_type="map", keys=keys, **options)


def atomic(items: Schema, **options: Any) -> Schema:
    """A list that is replaced as a whole."""
    return s.array(items, list_type="atomic", **options)


def conditions(old: bool) -> Schema:
    """Conditions; only the newer version bounds their number."""
    return s.conditions() if old else s.conditions(max_items=16)


def subdomain(**extra: Any) -> Schema:
    """The name of a cluster-scoped object of this group."""
    return s.string(max_length=253, pattern=SUBDOMAIN_PATTERN, **extra)


def pod_set_name(**extra: Any) -> Schema:
    """The name of a pod set."""
    return s.string(max_length=63, pattern=LABEL_PATTERN, **extra)


def tolerations(*, list_type: str | None = "atomic") -> Schema:
    """Pod tolerations, checked as core validation would check them."""
    item = s.obj(
        {
            "effect": s.string(),
            "key": s.string(),
            "operator": s.string(),
            "tolerationSeconds": s.integer("int64"),
            "value": s.string(),
        }
    )
    checks = cel(
        (
            "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
            "self.all(t, has(t.key) || t.operator == 'Exists')",
        ),
        (
            "effect must be 'NoExecute' when 'tolerationSeconds' is set",
            "self.all(t, !has(t.tolerationSeconds) || t.effect == 'NoExecute')",
        ),
        (
            "supported toleration values: 'Equal'(default), 'Exists'",
            "self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])",
        ),
        (
            "a value must be empty when 'operator' is 'Exists'",
            "self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value))",
        ),
        (
            "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
            "self.all(t, !has(t.effect) || t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
        ),
    )
    return s.array(item, list_type=list_type, max_items=8, rules=checks)


def taints() -> Schema:
    """Node taints."""
    item = s.obj(
        {"effect": s.string(), "key": s.string(), "timeAdded": s.time(), "value": s.string()},
        required=("effect", "key"),
    )
    checks = cel(
        (
            "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
            "self.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
        )
    )
    return atomic(item, max_items=8, rules=checks)


def resource_groups(*, version: str) -> Schema:
    """Quota per flavor and resource, as ClusterQueues and Cohorts declare it."""
    quota = s.obj(
        {
            "borrowingLimit": s.quantity(),
            "lendingLimit": s.quantity(),
            "name": s.string(),
            "nominalQuota": s.quantity(),
        },
        required=("name", "nominalQuota"),
    )
    flavor = s.obj(
        {"name": subdomain(), "resources": keyed(quota, "name", min_items=1, max_items=64)},
        required=("name", "resources"),
    )
    covered = s.array(s.string(), list_type=None if version == "v1beta1" else "atomic", min_items=1, max_items=64)
    same_size = cel(
        (
            "flavors must have the same number of resources as the coveredResources",
            "self.flavors.all(f, size(f.resources) == size(self.coveredResources))",
        )
    )
    group = s.obj(
        {"coveredResources": covered, "flavors": keyed(flavor, "name", min_items=1, max_items=64)},
        required=("coveredResources", "flavors"),
        rules=same_size,
    )
    return atomic(group, max_items=16)


def fair_sharing() -> Schema:
    """The weight of a queue or cohort."""
    return s.obj({"weight": s.quantity(default=1)})


def flavor_usage(*, borrowed: bool, limit: int) -> Schema:
    """Used quota per flavor and resource, as queue statuses show it."""
    amounts = {"borrowed": s.quantity()} if borrowed else {}
    resource = s.obj({**amounts, "name": s.string(), "total": s.quantity()}, required=("name",))
    flavor = s.obj(
        {"name": subdomain(), "resources": keyed(resource, "name", max_items=limit)},
        required=("name", "resources"),
    )
    return keyed(flavor, "name", max_items=limit)


def admission_fair_sharing_status() -> Schema:
    """Usage of a LocalQueue remembered between samples."""
    return s.obj(
        {"consumedResources": s.resource_list(), "lastUpdate": s.time()},
        required=("consumedResources", "lastUpdate"),
    )
