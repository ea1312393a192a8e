"""The rules in CEL: no queued job is let in that would start by itself, and none changes hands."""

from __future__ import annotations

import pytest

from corral.clusters.webhooks.policies import admission_policies
from corral.configuration.queueing import QueueingConfig, load_config
from corral.core.meta import Obj
from corral.core.selectors import from_label_selector
from corral.jobs.framework.adapter import SuspendableJob
from corral.jobs.framework.paths import get_in, set_in
from corral.kinds.kubernetes.admissionregistration.rules import check_policy, check_policy_binding
from corral.server.admission.match_conditions import evaluate

QUEUED: Obj = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "spec": {}}


def owned(api_version: str, kind: str, metadata: Obj = QUEUED["metadata"]) -> Obj:
    owner = {"apiVersion": api_version, "kind": kind, "controller": True}
    return {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": {}}


OWNED = owned("batch/v1", "Job")


def expression(adapter: SuspendableJob, name: str) -> str:
    """What a policy whose name begins so says about a kind."""
    for policy in admission_policies(QueueingConfig()):
        if policy["kind"] != "ValidatingAdmissionPolicy" or not policy["metadata"]["name"].startswith(name):
            continue
        rules = policy["spec"]["matchConstraints"]["resourceRules"]
        if [adapter.resource.group] in [
            rule["apiGroups"] for rule in rules if rule["resources"] == [adapter.resource.plural]
        ]:
            return str(policy["spec"]["validations"][0]["expression"])
    raise AssertionError(f"no policy {name} for {adapter.framework}")


SUSPENDABLE = [each for each in QueueingConfig().job_adapters() if isinstance(each, SuspendableJob)]


def test_policies_and_bindings_are_valid() -> None:
    for each in admission_policies(QueueingConfig()):
        check = check_policy if each["kind"] == "ValidatingAdmissionPolicy" else check_policy_binding
        assert check(each) == []


@pytest.mark.parametrize("adapter", SUSPENDABLE, ids=lambda adapter: adapter.framework)
def test_a_queued_job_has_to_be_suspended_when_it_is_made(adapter: SuspendableJob) -> None:
    rule = expression(adapter, "corral-queued-jobs-start-suspended")
    assert evaluate(rule, {"object": QUEUED}) is False
    assert evaluate(rule, {"object": set_in(QUEUED, adapter.suspend_path, False)}) is False
    suspended = adapter.suspend(QUEUED)
    assert get_in(suspended, adapter.suspend_path) is True
    assert evaluate(rule, {"object": suspended}) is True
    assert evaluate(rule, {"object": {"metadata": {}, "spec": {}}}) is True
    assert evaluate(rule, {"object": OWNED}) is True
    assert evaluate(rule, {"object": owned("batch/v1", "CronJob")}) is False
    assert evaluate(rule, {"object": owned("v1", "ReplicationController")}) is False


MANAGED = [each for each in SUSPENDABLE if each.managed_by_path is not None]


@pytest.mark.parametrize("adapter", MANAGED, ids=lambda adapter: adapter.framework)
def test_a_queued_job_does_not_change_hands(adapter: SuspendableJob) -> None:
    assert adapter.managed_by_path is not None
    rule = expression(adapter, "corral-queued-jobs-keep-managed-by")
    mine, yours = (set_in(QUEUED, adapter.managed_by_path, name) for name in ("mine", "yours"))
    assert evaluate(rule, {"object": mine, "oldObject": mine}) is True
    assert evaluate(rule, {"object": QUEUED, "oldObject": QUEUED}) is True
    for new, old in ((mine, yours), (mine, QUEUED), (QUEUED, mine)):
        assert evaluate(rule, {"object": new, "oldObject": old}) is False


def test_policies_hold_in_managed_namespaces_only() -> None:
    config = load_config({"managedJobsNamespaceSelector": {"matchLabels": {"team": "a"}}})
    binding = next(each for each in admission_policies(config) if each["kind"] == "ValidatingAdmissionPolicyBinding")
    selector = from_label_selector(binding["spec"]["matchResources"]["namespaceSelector"])
    assert selector.matches({"team": "a", "kubernetes.io/metadata.name": "mine"})
    assert not selector.matches({"team": "b", "kubernetes.io/metadata.name": "mine"})
    assert not selector.matches({"team": "a", "kubernetes.io/metadata.name": "kube-system"})


@pytest.mark.parametrize("adapter", SUSPENDABLE, ids=lambda adapter: adapter.framework)
def test_a_job_that_names_no_queue_is_let_in_where_its_namespace_has_no_default_one(adapter: SuspendableJob) -> None:
    rule = expression(adapter, "corral-jobs-name-the-default-queue")
    assert evaluate(rule, {"object": {"metadata": {}, "spec": {}}}) is False
    assert evaluate(rule, {"object": QUEUED}) is True
    assert evaluate(rule, {"object": owned("batch/v1", "Job", {})}) is True
    assert evaluate(rule, {"object": owned("batch/v1", "CronJob", {})}) is False
    (binding,) = (each for each in admission_policies(QueueingConfig()) if "paramRef" in each["spec"])
    assert binding["spec"]["paramRef"] == {"name": "default", "parameterNotFoundAction": "Allow"}


def test_nothing_is_said_of_default_queues_where_there_are_none() -> None:
    closed = load_config({"featureGates": {"LocalQueueDefaulting": False}})
    assert not any("paramRef" in each["spec"] for each in admission_policies(closed))
