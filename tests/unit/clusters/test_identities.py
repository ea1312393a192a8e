"""What controllers may do, against what they ask for. Features that are off by default ask for more."""

from __future__ import annotations

from corral.clusters import identities
from corral.configuration.queueing import load_config
from corral.controllers.queueing.admission.lookups import READ
from corral.core.identity import Identity
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import PODS


def may(identity: Identity, verb: str, resource: Resource) -> bool:
    return any(
        resource.group in rule["apiGroups"] and resource.plural in rule["resources"] and verb in rule["verbs"]
        for rule in identity.rules
    )


def test_admission_may_read_what_its_decisions_ask_for() -> None:
    identity = identities.queueing(load_config({}))
    assert [resource.plural for resource in READ if not may(identity, "get", resource)] == []


def test_elastic_jobs_have_their_pods_let_go_also_without_topology() -> None:
    gates = {"TopologyAwareScheduling": False, "ElasticJobsViaWorkloadSlices": True}
    document = {"featureGates": gates, "integrations": {"frameworks": ["batch/job"]}}
    identity = identities.queueing(load_config(document))
    assert may(identity, "update", PODS)
