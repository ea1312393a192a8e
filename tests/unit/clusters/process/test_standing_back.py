"""Corral stands back from controllers that lead already, and says from whom."""

from __future__ import annotations

import asyncio

import pytest

from corral.clusters.process.standing_back import StandingBack, claims_of, sentence_of
from corral.core.meta import Key, Obj
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.runtime.leader import Claim
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster

KUEUES_LEASE = Key("kueue-system", "c1f6bfd2.kueue.x-k8s.io")


def test_the_leases_of_others_are_held_before_ours() -> None:
    claims = claims_of(["queueing", "dispatch"], "kueue-system", "me", takes_over=True)
    assert claims[0] == Claim(KUEUES_LEASE, "corral:me", True, "corral:")
    assert [claim.key.name for claim in claims[1:]] == ["corral-controllers", "corral-dispatch"]
    assert [claim.key.name for claim in claims_of(["dispatch"], "n", "me", takes_over=False)] == ["corral-dispatch"]
    (others, _) = claims_of(["member"], "kueue-system", "me", takes_over=False)
    assert others.key == Key("fleet-system", "136224848560.member.fleet.azure.com")
    assert not others.seizes


def test_who_leads_is_named_unless_it_is_one_of_ours() -> None:
    claim = Claim(KUEUES_LEASE, "corral:me")
    assert sentence_of(claim, "kueue-controller-manager-1_x").startswith("Kueue leads in this cluster (kueue-")
    assert sentence_of(claim, "corral:other") == ""
    assert sentence_of(Claim(Key("kueue-system", "corral-controllers"), "me"), "other") == ""


def deployment(replicas: int) -> Obj:
    labels = {"app": "kueue"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    metadata = {"name": "kueue-controller-manager", "namespace": "default"}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": metadata, "spec": spec}


def test_a_deployment_with_replicas_is_stood_back_from_until_it_has_none(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            await cluster.client.create(DEPLOYMENTS, deployment(2))
            beside = StandingBack(cluster.client, cluster.clock)
            waiting = asyncio.ensure_future(beside.while_deployed(["queueing", "dispatch"], "default"))
            await cluster.clock.sleep(60)
            assert not waiting.done()
            await cluster.client.patch(DEPLOYMENTS, "kueue-controller-manager", "default", {"spec": {"replicas": 0}})
            await cluster.clock.sleep(5)
            assert waiting.done()

    run_virtual(scenario)
    assert caplog.text.count("Kueue is installed in this cluster (Deployment default/kueue-controller-manager)") == 1
