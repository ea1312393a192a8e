"""Webhook configurations follow from the plug-ins, and leave out what a cluster cannot do without."""

from __future__ import annotations

from typing import Any

import pytest

from corral.clusters.webhooks.configurations import (
    HUB_NAMES,
    MUTATING_NAME,
    NAMESPACE_NAME,
    NO_JOBS,
    VALIDATING_NAME,
    Endpoint,
    Jobs,
    is_marked,
    mutating_configuration,
    validating_configuration,
)
from corral.clusters.webhooks.registration import Registered
from corral.clusters.webhooks.reviews import probe
from corral.clusters.webhooks.service import reviewed_resources
from corral.configuration.queueing import QueueingConfig, load_config
from corral.controllers.placement.admission import MemberAdmission, NoWorkloads
from corral.controllers.placement.initial_finalizers import PlacementAdoption
from corral.controllers.queueing.setup import Queueing
from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.core.selectors import from_label_selector
from corral.jobs.framework.adapter import JobAdapter
from corral.kinds.kubernetes.admissionregistration.rules import check_webhooks
from corral.server.admission.match_conditions import evaluate

ENDPOINT = Endpoint("kueue-system", "corral-webhooks", 443, b"PEM")
EVERY = QueueingConfig()


def hooks(config: QueueingConfig) -> tuple[dict[str, Obj], dict[str, Obj]]:
    asked = (Queueing(config).plugins, reviewed_resources(config), ENDPOINT, Jobs.of(config))
    changing, refusing = mutating_configuration(*asked), validating_configuration(*asked)
    for configuration in (changing, refusing):
        assert check_webhooks(configuration) == []
    first, second = ({hook["name"]: hook for hook in each["webhooks"]} for each in (changing, refusing))
    return first, second


def test_only_the_kinds_that_are_queued_are_asked_about() -> None:
    changing, refusing = hooks(load_config({"integrations": {"frameworks": ["batch/job"]}}))
    assert list(changing) == ["mjob.kb.io", "unmarked-mjob.kb.io", "mclusterqueue.kb.io", "mresourceflavor.kb.io"]
    assert list(refusing) == [
        "vjob.kb.io",
        "unmarked-vjob.kb.io",
        "vclusterqueue.kb.io",
        "vcohort.kb.io",
        "vresourceflavor.kb.io",
        "vworkload.kb.io",
    ]
    assert refusing["vworkload.kb.io"]["rules"][0]["resources"] == ["workloads", "workloads/status"]


def test_every_adapter_reads_jobs_in_the_version_its_webhook_asks_for() -> None:
    asked = {(each.group, each.kind): each.version for each in reviewed_resources(EVERY)}
    for adapter in EVERY.job_adapters():
        assert asked[adapter.resource.group, adapter.resource.kind] == adapter.resource.version


def test_nothing_can_lock_a_cluster_out() -> None:
    changing, refusing = hooks(EVERY)
    for hook in (*changing.values(), *refusing.values()):
        assert hook["timeoutSeconds"] <= 5
        assert hook["sideEffects"] == "None"
        assert hook["matchPolicy"] == "Equivalent"
        if hook["rules"][0]["scope"] == "Namespaced":
            namespaces = from_label_selector(hook["namespaceSelector"])
            for name in ("kube-system", "kube-public", "kube-node-lease", "kueue-system"):
                assert not namespaces.matches({NAMESPACE_NAME: name})
            assert namespaces.matches({NAMESPACE_NAME: "default"})


@pytest.mark.parametrize("adapter", EVERY.job_adapters(), ids=lambda adapter: adapter.framework)
def test_only_jobs_that_name_a_queue_wait_for_an_answer(adapter: JobAdapter) -> None:
    kind = adapter.resource.kind.lower()
    changing, refusing = hooks(EVERY)
    assert (changing[f"m{kind}.kb.io"]["failurePolicy"], refusing[f"v{kind}.kb.io"]["failurePolicy"]) == (
        "Fail",
        "Fail",
    )
    assert f"unmarked-m{kind}.kb.io" in changing
    for name, hook in (changing | refusing).items():
        if name.startswith("unmarked-"):
            assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 1)


def condition(hook: Obj, obj: Obj, old: Obj | None = None) -> bool:
    (found,) = hook["matchConditions"]
    return bool(evaluate(found["expression"], {"object": obj, "oldObject": old}))


def with_labels(*labels: str, **metadata: str) -> Obj:
    return {"metadata": {"labels": dict.fromkeys(labels, "x"), **metadata}}


QUEUE = "kueue.x-k8s.io/queue-name"


@pytest.mark.parametrize(
    ("obj", "old", "strict", "lenient"),
    [
        (with_labels(), None, False, True),
        (with_labels(QUEUE), None, True, False),
        (with_labels(QUEUE), with_labels(), True, False),
        (with_labels(), with_labels(QUEUE), True, False),
        (with_labels("app"), with_labels("app"), False, True),
        (with_labels(QUEUE, deletionTimestamp="2026-01-01T00:00:00Z"), with_labels(QUEUE), False, False),
        (with_labels(deletionTimestamp="2026-01-01T00:00:00Z"), with_labels(), False, False),
    ],
)
def test_every_write_of_a_job_is_asked_about_once_or_not_at_all(
    obj: Obj, old: Obj | None, strict: bool, lenient: bool
) -> None:
    _, refusing = hooks(EVERY)
    assert condition(refusing["vjob.kb.io"], obj, old) is strict
    assert condition(refusing["unmarked-vjob.kb.io"], obj, old) is lenient


def test_jobs_of_namespaces_that_are_not_managed_are_not_asked_about() -> None:
    config = load_config({"managedJobsNamespaceSelector": {"matchLabels": {"team": "ml"}}})
    for hook in (found for each in hooks(config) for found in each.values()):
        if hook["rules"][0]["apiGroups"] == ["batch"]:
            namespaces = from_label_selector(hook["namespaceSelector"])
            assert not namespaces.matches({NAMESPACE_NAME: "default"})
            assert namespaces.matches({NAMESPACE_NAME: "default", "team": "ml"})
            assert not namespaces.matches({NAMESPACE_NAME: "kube-system", "team": "ml"})


def test_every_job_waits_where_all_have_to_be_queued() -> None:
    changing, refusing = hooks(
        load_config({"manageJobsWithoutQueueName": True, "integrations": {"frameworks": ["pod"]}})
    )
    assert not any(name.startswith("unmarked-") for name in (*changing, *refusing))
    assert condition(changing["mpod.kb.io"], with_labels())


@pytest.mark.parametrize(
    ("metadata", "marked"),
    [
        ({}, False),
        ({"labels": {"app": "x"}, "annotations": {}}, False),
        ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, True),
        ({"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}, True),
        ({"annotations": {"kueue.x-k8s.io/pod-suspending-parent": "p"}}, True),
        ({"annotations": {"kueue.x-k8s.io/queue-name": "q"}}, True),
    ],
)
def test_what_is_marked_as_queued_is_said_in_cel(metadata: Obj, marked: bool) -> None:
    assert evaluate(is_marked(), {"object": {"metadata": metadata}, "oldObject": None}) is marked


HUB_PLUGINS = [MemberAdmission(), PlacementAdoption(), NoWorkloads()]


def test_webhooks_of_a_hub_are_called_as_upstreams_and_stand_beside_those_of_queueing() -> None:
    asked = (HUB_PLUGINS, reviewed_resources(None), ENDPOINT, NO_JOBS, HUB_NAMES)
    changing, refusing = mutating_configuration(*asked), validating_configuration(*asked)
    assert check_webhooks(changing) == check_webhooks(refusing) == []
    assert {each["metadata"]["name"] for each in (changing, refusing)}.isdisjoint({MUTATING_NAME, VALIDATING_NAME})
    assert sorted(hook["name"] for hook in changing["webhooks"]) == [
        "fleet.clusterresourceplacementv1beta1.mutating",
        "fleet.resourceplacement.mutating",
    ]
    assert sorted(hook["name"] for hook in refusing["webhooks"]) == [
        "fleet.membercluster.validating",
        "fleet.pod.validating",
        "fleet.poddisruptionbudget.validating",
        "fleet.replicaset.validating",
    ]


def test_both_parts_of_a_process_that_queues_and_places_are_registered() -> None:
    config = QueueingConfig()
    both = Registered(ENDPOINT, config, Queueing(config).plugins, reviewed_resources(config), hub_plugins=HUB_PLUGINS)
    hub = Registered(ENDPOINT, None, (), reviewed_resources(None), hub_plugins=HUB_PLUGINS)
    names = {obj["metadata"]["name"] for _, obj in both.manifests()}
    assert {HUB_NAMES.mutating, HUB_NAMES.validating, MUTATING_NAME, VALIDATING_NAME} <= names
    assert {obj["metadata"]["name"] for _, obj in hub.manifests()} == {HUB_NAMES.mutating, HUB_NAMES.validating}


class Strict:
    """A plug-in of somebody's that looks at one kind of write only."""

    name = "Strict"

    def handles(self, request: AdmissionRequest) -> bool:
        return request.kind == ("example.com", "Thing") and request.operation == "DELETE"

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        return None


def test_a_plug_in_is_registered_for_what_it_handles_and_nothing_more() -> None:
    resources = [Resource("example.com", "v1", "things", "Thing"), Resource("example.com", "v1", "others", "Other")]
    found: Any = validating_configuration([Strict()], resources, ENDPOINT, Jobs.of(EVERY))["webhooks"]
    assert [(hook["name"], hook["rules"][0]["operations"]) for hook in found] == [("vthing.kb.io", ["DELETE"])]


def test_cert_manager_fills_in_the_bundle_where_it_is_to() -> None:
    endpoint = ENDPOINT._replace(bundle=b"", injected_from="kueue-system/corral")
    made = validating_configuration(Queueing().plugins, reviewed_resources(EVERY), endpoint, Jobs.of(EVERY))
    assert made["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "kueue-system/corral"}
    assert all("caBundle" not in hook["clientConfig"] for hook in made["webhooks"])


async def test_a_plug_in_changes_nothing_where_it_says_so() -> None:
    """What is not registered must not be needed."""
    for plugin in Queueing(EVERY).plugins:
        for resource in reviewed_resources(EVERY):
            for operation in ("CREATE", "UPDATE"):
                request = probe(resource, operation)
                changes: Any = getattr(plugin, "changes", None)
                assert changes is not None
                if not plugin.handles(request) or changes(request):
                    continue
                request.obj = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "spec": {}}
                assert await plugin.mutate(request) is request.obj
