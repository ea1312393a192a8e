"""An AdmissionCheck in words: whether it works, what it lacks, which queues it guards and who waits for it."""

from __future__ import annotations

from typing import Final

from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, name_of, namespace_of, spec_of, status_of
from corral.inspect.explain import Explanation
from corral.inspect.lookup import visible
from corral.inspect.naming import shortened
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS, names

MULTI_KUEUE_CONFIG: Final = "MultiKueueConfig"


def explain_check(client: SyncClient, check: Obj) -> Explanation:
    """What is known of a check, as far as the user may see it."""
    name, active = name_of(check), conditions.find(check, names.ACTIVE)
    facts = [f"controller: {spec_of(check).get('controllerName')}"]
    parameters = spec_of(check).get("parameters") or {}
    if parameters:
        facts.append(f"parameters: {parameters.get('kind')} {parameters.get('name')}")
    workers, advice = _workers(client, parameters)
    facts += workers
    queues = [name_of(queue) for queue in visible(client, CLUSTER_QUEUES) if name in _checks_of(queue)]
    facts.append(f"ClusterQueues that ask it: {shortened(sorted(queues)) or 'none'}")
    waiting = [f"{namespace_of(one)}/{name_of(one)}" for one in visible(client, WORKLOADS) if _waits_for(one, name)]
    if waiting:
        facts.append(f"{len(waiting)} workloads wait for it: {shortened(sorted(waiting))}")
    if active is None:
        nobody = f"no controller has looked at it: is one called {spec_of(check).get('controllerName')} running?"
        return Explanation(f"AdmissionCheck {name}: {nobody}", tuple(facts), advice)
    if active.get("status") == "True":
        return Explanation(f"AdmissionCheck {name}: active", tuple(facts))
    return Explanation(f"AdmissionCheck {name}: not active: {active.get('message')}", tuple(facts), advice)


def _checks_of(queue: Obj) -> list[str]:
    rules = (spec_of(queue).get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    return [*(str(rule.get("name")) for rule in rules), *map(str, spec_of(queue).get("admissionChecks") or [])]


def _waits_for(workload: Obj, check: str) -> bool:
    if conditions.is_true(workload, names.FINISHED):
        return False
    states = status_of(workload).get("admissionChecks") or []
    return any(one.get("name") == check and one.get("state") in ("Pending", "Retry") for one in states)


def _workers(client: SyncClient, parameters: Obj) -> tuple[list[str], str]:
    """Of a check that dispatches: each worker, and what to do about what is missing."""
    if parameters.get("kind") != MULTI_KUEUE_CONFIG:
        return [], ""
    config = str(parameters.get("name"))
    try:
        listed = spec_of(client.get(MULTI_KUEUE_CONFIGS, config)).get("clusters") or []
    except NotFound:
        return (
            [],
            f"`corral clusters add NAME --config {config} --worker-context CONTEXT` makes {MULTI_KUEUE_CONFIG} {config}.",
        )
    except Forbidden:
        return [], ""
    found = {name_of(one): one for one in visible(client, MULTI_KUEUE_CLUSTERS)}
    facts, advice = [], ""
    for name in listed:
        active = conditions.find(found.get(name, {}), names.ACTIVE) or {}
        if name not in found:
            facts.append(f"worker {name}: there is no MultiKueueCluster of that name")
            advice = advice or f"`corral clusters add {name} --config {config} --worker-context CONTEXT` makes it."
        elif active.get("status") == "True":
            facts.append(f"worker {name}: connected")
        else:
            facts.append(f"worker {name}: {active.get('message') or 'not connected yet'}")
            advice = (
                advice
                or f"`corral clusters describe {name}` says since when; `corral clusters rotate {name}` gives it new credentials."
            )
    return facts, advice
