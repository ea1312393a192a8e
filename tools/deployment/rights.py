"""What the account of each deployment may do: rules of RBAC for what its controllers call.

Those of queueing, dispatch, hub and member are the ones embedded clusters enforce (`clusters/identities.py`), for every kind
of job and every setting that comes with Corral; what only a process over a real cluster does is added here."""

from __future__ import annotations

from corral.clusters import identities
from corral.clusters.process.configuration_in_force import CONFIG_MAP
from corral.clusters.webhooks import certificate_secret
from corral.clusters.webhooks.front_proxy import CONFIG_NAME, CONFIG_NAMESPACE
from corral.clusters.webhooks.registration import FOLLOWED
from corral.configuration.dispatch import DispatchSettings
from corral.configuration.queueing import load_config
from corral.core.identity import Identity, Rules, merged, rights
from corral.core.meta import Obj
from corral.jobs.framework.registry import dispatched_adapters, shipped_frameworks
from corral.kinds.kubernetes.admissionregistration.kinds import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.authentication import TOKEN_REVIEWS
from corral.kinds.kubernetes.authorization import SUBJECT_ACCESS_REVIEWS
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, SECRETS, SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES

EVERYTHING: Obj = {
    "integrations": {"frameworks": list(shipped_frameworks())},
    "featureGates": {"KueueDRAIntegration": True, "TopologyAwareScheduling": True},
    "objectRetentionPolicies": {"workloads": {"afterDeactivatedByKueue": "1h"}},
}
"""A configuration that asks for everything."""


def queueing() -> Identity:
    return identities.queueing(load_config(EVERYTHING))


def dispatch() -> Identity:
    settings = DispatchSettings(profiles=True, automates_quota=True)
    return identities.dispatch(settings, dispatched_adapters())


def dependencies() -> Rules:
    """What dispatch besides needs where jobs take their ConfigMaps and Secrets along: it reads all of them."""
    everything = identities.dispatch(DispatchSettings(propagate=True), dispatched_adapters())
    return tuple(rule for rule in everything.rules if rule["verbs"] == ["get"])


def process() -> Rules:
    """Whom a process tells more than its health: it asks who they are and what they may."""
    return rights("create", TOKEN_REVIEWS, SUBJECT_ACCESS_REVIEWS)


def process_in_own_namespace() -> Rules:
    """Leases, the configuration, and whether somebody else's controllers are deployed there."""
    return (
        *rights("create get update", LEASES),
        *rights("get list watch", CONFIG_MAPS, names=[CONFIG_MAP]),
        *rights("get", DEPLOYMENTS),
    )


def webhooks() -> Rules:
    """Keeping the cluster calling us."""
    return (
        *rights("create list patch watch", *FOLLOWED),
        *rights("get patch", CUSTOM_RESOURCE_DEFINITIONS),
    )


def webhooks_in_own_namespace() -> Rules:
    return (
        *rights("create", SECRETS),
        *rights("get list update watch", SECRETS, names=[certificate_secret.NAME]),
        *rights("get", SERVICES),
        *rights("list", ENDPOINT_SLICES),
    )


def webhooks_in_kube_system() -> tuple[str, Rules]:
    """Who the API server is when it comes as the front of an aggregated API."""
    return CONFIG_NAMESPACE, rights("list watch", CONFIG_MAPS, names=[CONFIG_NAME])


def hub_webhooks() -> Rules:
    """The same on a hub, whose controllers read everything already; it converts nothing, and serves no API of its own."""
    return rights("create patch", MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS)


def hub_webhooks_in_own_namespace() -> Rules:
    return (*rights("create", SECRETS), *rights("update", SECRETS, names=[certificate_secret.NAME]))


def inside(namespace: str, *parts: Identity) -> Rules:
    """What identities may do in a namespace, and what their process does there."""
    held = [rule for part in parts for rule in part.inside.get(namespace, ())]
    return without_covered(merged((*process_in_own_namespace(), *held)), everywhere(*parts))


def everywhere(*parts: Identity) -> Rules:
    return without_covered(merged((*process(), *(rule for part in parts for rule in part.rules))))


def without_covered(rules: Rules, beside: Rules = ()) -> Rules:
    """The same rights without rules that another one holds already: whoever reads a role sees what each of its rules is for."""
    left = list(rules)
    for rule in rules:
        others = [other for other in left if other is not rule]
        if any(_covers(other, rule) for other in (*others, *beside)):
            left = others
    return tuple(left)


def _covers(wide: Obj, narrow: Obj) -> bool:
    names = wide.get("resourceNames")
    is_named_so = not names or set(narrow.get("resourceNames") or ("",)) <= set(names)
    if not is_named_so or not all(
        "*" in wide[part] or set(narrow[part]) <= set(wide[part]) for part in ("apiGroups", "verbs")
    ):
        return False
    return all(
        name in wide["resources"] or "*" in wide["resources"] or f"*/{name.partition('/')[2]}" in wide["resources"]
        for name in narrow["resources"]
    )
