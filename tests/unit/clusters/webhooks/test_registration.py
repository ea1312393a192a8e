"""The registrar: nothing is registered before somebody answers, everything is put back, and bundles follow."""

from __future__ import annotations

import base64

import pytest

from corral.clusters.webhooks import certificate_secret
from corral.clusters.webhooks.certificate_secret import CertificateSecret
from corral.clusters.webhooks.certificates import Terms
from corral.clusters.webhooks.configurations import MUTATING_NAME, VALIDATING_NAME, Endpoint
from corral.clusters.webhooks.registration import Registered, Registrar, unregister
from corral.clusters.webhooks.service import converted_kinds, reviewed_resources
from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.setup import Queueing
from corral.core.errors import NotFound
from corral.core.meta import Key, Obj
from corral.kinds.kubernetes.admissionregistration.kinds import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.core.kinds import SECRETS, SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.kinds.kueue import CLUSTER_QUEUE
from corral.kinds.machinery.crd import crd_manifest
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster

ENDPOINT = Endpoint("kueue-system", "corral-webhooks", 443)
TERMS = Terms(authority_s=3000, serving_s=600, settle_s=60)
SERVICE: Obj = {
    "metadata": {"name": "corral-webhooks", "namespace": "kueue-system"},
    "spec": {"selector": {"app": "corral"}, "ports": [{"port": 443}]},
}
SLICE: Obj = {
    "metadata": {
        "name": "corral-webhooks-1",
        "namespace": "kueue-system",
        "labels": {"kubernetes.io/service-name": "corral-webhooks"},
    },
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": True}}],
    "ports": [],
}


def registered(external_name: str = "") -> Registered:
    config = QueueingConfig()
    return Registered(
        ENDPOINT,
        config,
        Queueing(config).plugins,
        reviewed_resources(config),
        converted_kinds(),
        external_name=external_name,
    )


def start(cluster: VirtualCluster, wanted: Registered) -> CertificateSecret:
    key = Key("kueue-system", certificate_secret.NAME)
    secret = CertificateSecret(cluster.client, cluster.clock, key, ENDPOINT.hosts, TERMS)

    async def bundle() -> bytes:
        return (await secret.renew()).bundle

    Registrar(cluster.manager, wanted, bundle, TERMS.look_again_s)
    return secret


async def bundles(cluster: VirtualCluster) -> set[bytes]:
    found = [
        await cluster.client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME),
        await cluster.client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING_NAME),
    ]
    return {base64.b64decode(hook["clientConfig"]["caBundle"]) for each in found for hook in each["webhooks"]}


def test_nothing_is_registered_before_the_service_has_a_ready_endpoint() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            start(cluster, registered())
            await cluster.advance(30)
            for stage in (None, (SERVICES, SERVICE)):
                if stage is not None:
                    await cluster.client.create(*stage)
                await cluster.advance(30)
                with pytest.raises(NotFound):
                    await cluster.client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)
            await cluster.client.create(ENDPOINT_SLICES, SLICE)
            await cluster.advance(5)
            assert len(await bundles(cluster)) == 1

    run_virtual(scenario)


def test_what_somebody_deletes_is_put_back_at_once() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            start(cluster, registered("host.example"))
            await cluster.advance(5)
            assert (await cluster.client.get(SERVICES, "corral-webhooks", "kueue-system"))["spec"]["externalName"]
            await cluster.client.delete(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)
            policy = (await cluster.client.list(VALIDATING_ADMISSION_POLICIES)).items[0]["metadata"]["name"]
            await cluster.client.delete(VALIDATING_ADMISSION_POLICIES, policy)
            await cluster.settle()
            await cluster.client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)
            await cluster.client.get(VALIDATING_ADMISSION_POLICIES, policy)

    run_virtual(scenario)


def test_every_configuration_believes_a_new_authority_before_it_signs() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            secret = start(cluster, registered("host.example"))
            await cluster.advance(5)
            seen = await bundles(cluster)
            for _ in range(120):
                before = await bundles(cluster)
                await cluster.advance(30)
                kept = await secret.current()
                signer = certificates_signer(kept.serving.certificate, *before)
                assert signer, "what is served now was to be believed half a minute ago"
                seen |= await bundles(cluster)
            assert len(seen) > 2

    run_virtual(scenario)


def certificates_signer(serving: bytes, *bundles: bytes) -> bool:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    certificate = x509.load_pem_x509_certificate(serving)
    for authority in x509.load_pem_x509_certificates(b"".join(bundles)):
        try:
            certificate.verify_directly_issued_by(authority)
        except (InvalidSignature, ValueError):
            continue
        return True
    return False


def test_definitions_that_nobody_converts_are_converted_by_us_and_given_back() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, crd_manifest(CLUSTER_QUEUE))
            start(cluster, registered("host.example"))
            await cluster.advance(5)
            name = CLUSTER_QUEUE.group_resource
            crd = await cluster.client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
            assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"] == "corral-webhooks"
        removed = await unregister(cluster.client, converted_kinds(), ENDPOINT)
        assert f"conversion of {name}" in removed
        crd = await cluster.client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        assert crd["spec"]["conversion"] == {"strategy": "None"}
        with pytest.raises(NotFound):
            await cluster.client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)

    run_virtual(scenario)


def test_definitions_that_somebody_else_converts_are_left_alone() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            crd = crd_manifest(CLUSTER_QUEUE)
            theirs = {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {
                        "service": {"namespace": "kueue-system", "name": "kueue-webhook-service", "path": "/convert"}
                    },
                },
            }
            await cluster.client.create(
                CUSTOM_RESOURCE_DEFINITIONS, {**crd, "spec": {**crd["spec"], "conversion": theirs}}
            )
            start(cluster, registered("host.example"))
            await cluster.advance(5)
            kept = await cluster.client.get(CUSTOM_RESOURCE_DEFINITIONS, CLUSTER_QUEUE.group_resource)
            assert kept["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"] == "kueue-webhook-service"

    run_virtual(scenario)


def test_replicas_share_one_secret_and_a_broken_one_is_made_anew() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            key = Key("kueue-system", certificate_secret.NAME)
            one, two = (CertificateSecret(cluster.client, cluster.clock, key, ENDPOINT.hosts, TERMS) for _ in range(2))
            assert await one.current() == await two.current()
            await cluster.client.patch(SECRETS, key.name, key.namespace, {"data": {"tls.key": None}})
            made = await two.current()
            assert made == await one.current()
            assert made.bundle

    run_virtual(scenario)
