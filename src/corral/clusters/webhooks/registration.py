"""Keeps a cluster calling us: configurations, policies, conversion and APIServices, as long as there is somebody to answer.

Of several replicas one does this. What somebody deletes or changes is put back, and a renewed authority is in all of them
before anything is served that it has signed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from corral.client.protocol import Client
from corral.clusters.webhooks.configurations import (
    CONVERT,
    HUB_NAMES,
    LABELS,
    NO_JOBS,
    Endpoint,
    Jobs,
    mutating_configuration,
    validating_configuration,
)
from corral.clusters.webhooks.policies import admission_policies
from corral.configuration.queueing import QueueingConfig
from corral.core.admission import AdmissionPlugin
from corral.core.errors import NotFound
from corral.core.meta import Key, Obj, labels_of, name_of, spec_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.admissionregistration.kinds import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.apiregistration import API_SERVICES
from corral.kinds.kubernetes.core.kinds import SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.kinds.kueue.names import GROUP
from corral.kinds.machinery.definition import KindDef
from corral.runtime.controller import Manager, Result, Watch

log = logging.getLogger(__name__)

MANAGER_NAME = "corral-webhooks"
NOT_YET_S = 1.0
EVERYTHING = Key("", "registration")
FOLLOWED = (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    API_SERVICES,
)

Manifest = tuple[Resource, Obj]


@dataclass(frozen=True, slots=True)
class Registered:
    """What a cluster is to call us for. `config` is None where nothing is queued, and `hub_plugins` admit what is placed, where that
    is done. `external_name` is the host we are at when we do not run in the cluster."""

    endpoint: Endpoint
    config: QueueingConfig | None
    plugins: Sequence[AdmissionPlugin]
    resources: Sequence[Resource]
    converted: Sequence[KindDef] = ()
    apis: Sequence[tuple[str, str]] = ()
    external_name: str = ""
    hub_plugins: Sequence[AdmissionPlugin] = ()

    def service(self) -> Obj:
        """The Service by whose name the API server finds a process outside of the cluster."""
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": self.endpoint.service, "namespace": self.endpoint.namespace, "labels": LABELS},
            "spec": {"type": "ExternalName", "externalName": self.external_name},
        }

    def manifests(self) -> list[Manifest]:
        """Everything that is registered, but for the conversion of kinds, which is said in their definitions."""
        return [
            *self._of_queueing(),
            *self._of_a_hub(),
            *((API_SERVICES, self._api_service(*each)) for each in self.apis),
        ]

    def _of_a_hub(self) -> list[Manifest]:
        if not self.hub_plugins:
            return []
        asked = (self.hub_plugins, self.resources, self.endpoint, NO_JOBS, HUB_NAMES)
        return [
            (VALIDATING_WEBHOOK_CONFIGURATIONS, validating_configuration(*asked)),
            (MUTATING_WEBHOOK_CONFIGURATIONS, mutating_configuration(*asked)),
        ]

    def _of_queueing(self) -> list[Manifest]:
        config = self.config
        if config is None:
            return []
        asked = (self.plugins, self.resources, self.endpoint, Jobs.of(config))
        policies = [
            (
                VALIDATING_ADMISSION_POLICIES
                if each["kind"] == "ValidatingAdmissionPolicy"
                else VALIDATING_ADMISSION_POLICY_BINDINGS,
                each,
            )
            for each in admission_policies(config)
        ]
        return [
            (VALIDATING_WEBHOOK_CONFIGURATIONS, validating_configuration(*asked)),
            (MUTATING_WEBHOOK_CONFIGURATIONS, mutating_configuration(*asked)),
            *policies,
        ]

    def _api_service(self, group: str, version: str) -> Obj:
        endpoint = self.endpoint
        service = {"namespace": endpoint.namespace, "name": endpoint.service, "port": endpoint.port}
        return {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{group}", **endpoint.metadata},
            "spec": {
                "group": group,
                "version": version,
                "service": service,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                **endpoint.believed,
            },
        }

    def conversion(self) -> Obj:
        """The `spec.conversion` of the kinds we convert."""
        webhook = {"clientConfig": self.endpoint.client_config(CONVERT), "conversionReviewVersions": ["v1"]}
        return {"strategy": "Webhook", "webhook": webhook}


def may_be_converted_by_us(crd: Obj, endpoint: Endpoint) -> bool:
    """Whether a definition is ours to say how its versions are converted: nobody converts them, or we do."""
    conversion = spec_of(crd).get("conversion") or {}
    if conversion.get("strategy", "None") == "None":
        return spec_of(crd).get("group") == GROUP or labels_of(crd).get("app.kubernetes.io/managed-by") == "corral"
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service") or {}
    return (service.get("namespace"), service.get("name")) == (endpoint.namespace, endpoint.service)


class Registrar:
    """The controller. `bundle` renews certificates when it is asked, and says what to believe."""

    name = "webhook-registration"

    def __init__(
        self, manager: Manager, wanted: Registered, bundle: Callable[[], Awaitable[bytes]], look_again_s: float
    ) -> None:
        self._client = manager.client
        self._wanted = wanted
        self._bundle = bundle
        self._look_again_s = look_again_s
        ours = {name_of(obj) for _, obj in wanted.manifests()}

        def keys(obj: Obj) -> Iterable[Key]:
            return (EVERYTHING,) if name_of(obj) in ours else ()

        controller = manager.add(self, watches=[Watch(resource, map=keys) for resource in FOLLOWED])
        controller.queue.add(EVERYTHING)

    async def reconcile(self, key: Key) -> Result | None:
        """Register everything as it should be now."""
        bundle = await self._bundle()
        wanted = replace(self._wanted, endpoint=self._wanted.endpoint._replace(bundle=bundle))
        if wanted.external_name:
            await self._client.apply(SERVICES, wanted.service(), manager=MANAGER_NAME)
        if not await _is_answered(self._client, wanted.endpoint):
            log.info(
                "webhooks are not registered before the Service has an endpoint that is ready",
                extra={"service": f"{wanted.endpoint.namespace}/{wanted.endpoint.service}"},
            )
            return Result(requeue_after=NOT_YET_S)
        await self._convert(wanted)
        for resource, obj in wanted.manifests():
            await self._client.apply(resource, obj, manager=MANAGER_NAME)
        return Result(requeue_after=self._look_again_s)

    async def _convert(self, wanted: Registered) -> None:
        for kind in wanted.converted:
            try:
                crd = await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, kind.group_resource)
            except NotFound:
                continue
            conversion = wanted.conversion()
            if may_be_converted_by_us(crd, wanted.endpoint) and spec_of(crd).get("conversion") != conversion:
                patch = {"metadata": _annotated(wanted.endpoint), "spec": {"conversion": conversion}}
                await self._client.patch(CUSTOM_RESOURCE_DEFINITIONS, kind.group_resource, "", patch)


def _annotated(endpoint: Endpoint) -> Obj:
    return {name: value for name, value in endpoint.metadata.items() if name == "annotations"}


async def _is_answered(client: Client, endpoint: Endpoint) -> bool:
    """Whether somebody is behind the Service."""
    try:
        service = await client.get(SERVICES, endpoint.service, endpoint.namespace)
    except NotFound:
        return False
    if spec_of(service).get("type") == "ExternalName":
        return True
    labels = f"kubernetes.io/service-name={endpoint.service}"
    slices = (await client.list(ENDPOINT_SLICES, endpoint.namespace, labels=labels)).items
    return any(
        (each.get("conditions") or {}).get("ready") is not False
        for found in slices
        for each in found.get("endpoints") or ()
    )


async def registered_namespaces(client: Client) -> list[str]:
    """The namespaces of the Services that a cluster calls us at."""
    found: set[str] = set()
    for resource in (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS):
        for obj in await _ours(client, resource):
            found.update(hook["clientConfig"]["service"]["namespace"] for hook in obj.get("webhooks") or ())
    return sorted(found)


async def _ours(client: Client, resource: Resource) -> list[Obj]:
    labels = ",".join(f"{name}={value}" for name, value in LABELS.items())
    return (await client.list(resource, labels=labels)).items


async def unregister(client: Client, kinds: Iterable[KindDef], endpoint: Endpoint) -> list[str]:
    """Take everything back that a Registrar wrote, so that nothing calls us any more; returns what was removed."""
    removed = []
    for resource in FOLLOWED:
        for obj in await _ours(client, resource):
            await client.delete(resource, name_of(obj))
            removed.append(f"{resource.plural}/{name_of(obj)}")
    for kind in kinds:
        try:
            crd = await client.get(CUSTOM_RESOURCE_DEFINITIONS, kind.group_resource)
        except NotFound:
            continue
        is_webhook = (spec_of(crd).get("conversion") or {}).get("strategy") == "Webhook"
        if is_webhook and may_be_converted_by_us(crd, endpoint):
            patch = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
            await client.patch(CUSTOM_RESOURCE_DEFINITIONS, kind.group_resource, "", patch)
            removed.append(f"conversion of {kind.group_resource}")
    return removed
