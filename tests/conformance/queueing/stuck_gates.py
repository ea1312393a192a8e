"""A pytest plug-in: every test named here runs with one feature gate stuck at its default, and has to fail.

A test that passes all the same does not depend on what is said about the gate, so it shows no effect of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corral.kinds.kueue.gates import ON_BY_DEFAULT, FeatureGates

_CRD = "tests/conformance/queueing_crd/test_validation_workload.py"
_DISPATCHING = "tests/simulation/dispatch/test_gates_of_dispatching.py"
_INCREMENTAL = f"{_DISPATCHING}::test_incremental_asks_in_the_order_and_number_its_gates_allow"
_QUEUEING = "tests/simulation/queueing"
_HEALTH = f"{_QUEUEING}/test_node_health.py::test_node"
_WAITING = f"{_QUEUEING}/test_workload_waiting.py"

SHOWN_BY = {
    "AdmissionGatedBy": f"{_WAITING}::test_waiting[WLC-45b gates do not count]",
    "CleanupProvisioningRequestsOnEviction": "tests/conformance/queueing/test_provisioning.py::"
    "test_another_attempt_after_a_delay_then_success[Failed-failure-False]",
    "ConcurrentAdmission": f"{_QUEUEING}/test_concurrent_admission.py::"
    "test_who_goes_on_trying_is_the_policy_of_the_queue[last]",
    "CustomMetricLabels": f"{_QUEUEING}/test_metrics.py::test_metrics_carry_labels_of_their_own_objects",
    "ElasticJobsViaWorkloadSlices": f"{_CRD}::test_change[WEB-122 count]",
    "ElasticJobsViaWorkloadSlicesWithTAS": f"{_QUEUEING}/test_topology.py::"
    "test_pods_of_an_elastic_job_that_grows_are_placed[keeps its places]",
    "FinishOrphanedWorkloads": f"{_QUEUEING}/test_workload_end.py::"
    "test_end[WLC-25 an orphan of a job, without the gate]",
    "LWSImmutableGroupSize": f"{_QUEUEING}/test_serving.py::"
    "test_groups_of_a_queued_leader_worker_set_keep_their_size[False]",
    "LocalQueueDefaulting": f"{_QUEUEING}/test_installation.py::test_a_restart_puts_the_changed_configuration_in_force",
    "MultiKueue": "tests/simulation/dispatch/test_concept_page.py::test_the_feature_gate_turns_dispatch_off",
    "MultiKueueAdaptersForCustomJobs": "tests/unit/configuration/test_document.py::"
    "test_gates_of_settings_take_them_back",
    "MultiKueueClusterProfile": "tests/conformance/dispatch/test_sources.py::"
    "test_a_worker_is_reached_through_its_profile[accessProviders]",
    "MultiKueueIncrementalDispatcherConfig": f"{_INCREMENTAL}[gates3-2-expected3]",
    "MultiKueueIncrementalDispatcherRespectConfigOrder": f"{_INCREMENTAL}[gates1-3-expected1]",
    "MultiKueueManagerQuotaAutomation": "tests/conformance/dispatch/test_quota_automation.py::"
    "test_the_manager_follows_its_workers",
    "MultiKueueOrchestratedPreemption": "tests/conformance/dispatch/test_orchestrated_preemption.py::"
    "test_one_job_preempts_once_where_all_jobs_are_the_managers",
    "MultiKueueRemoteSpecSync": f"{_DISPATCHING}::"
    "test_changes_of_a_running_job_follow_it_where_the_gate_is_open[False]",
    "PodIntegrationValidateGroupOwner": f"{_QUEUEING}/test_pods.py::"
    "test_a_group_named_after_the_workload_of_another_job_leaves_it_alone[False]",
    "PrioritizePreemptorWorkloads": "tests/conformance/queueing/test_integration_preemption.py::"
    "test_nobody_steals_what_a_preemptor_waits_for",
    "PriorityBoost": "tests/conformance/queueing/test_integration_scheduler.py::"
    "test_a_boost_lets_a_waiting_workload_preempt",
    "QuotaCheckStrategy": "tests/conformance/queueing/test_integration_scheduler.py::"
    "test_undeclared_resources_are_not_ignored_when_the_gate_is_off",
    "TASFailedNodeReplacementFailFast": f"{_QUEUEING}/test_node_failure.py::"
    "test_a_workload_that_waits_for_a_node_says_so",
    "TASMultiLayerTopology": "tests/unit/controllers/queueing/admission/test_topology.py::"
    "test_layers_are_part_of_the_request_and_refused_where_their_gate_is_closed",
    "TASReplaceNodeDueToNotReadyOverFixedTime": f"{_HEALTH}[not ready for long, by time]",
    "TASReplaceNodeOnNodeTaints": f"{_HEALTH}[tainted, taints do not matter]",
    "TASReplaceNodeOnPodTermination": f"{_HEALTH}[tainted, at once]",
    "UnadmittedWorkloadsExplicitStatus": f"{_WAITING}::test_waiting_by_name[WLC-51 new, explicitly]",
    "UnadmittedWorkloadsObservability": f"{_WAITING}::test_waiting_by_name[WLC-49 ClusterQueue stopped]",
    "VisibilityOnDemand": f"{_QUEUEING}/test_installation.py::"
    "test_the_visibility_gate_opens_the_api_of_who_waits[False]",
    "WorkloadIdentifierAnnotations": f"{_DISPATCHING}::"
    "test_the_copy_of_a_job_names_its_workload_where_the_gate_says[False]",
    "WorkloadPriorityClassDefaulting": f"{_QUEUEING}/test_pods.py::"
    "test_jobs_and_pods_that_name_no_priority_get_the_default_class_while_its_gate_is_open[True]",
    "WorkloadValidateResourcesAreNonNegative": f"{_CRD}::test_create[WEB-66 negative request, not looked at]",
    "WorkloadValidationForPodSetMetadata": f"{_CRD}::test_create[WEB-59 bad metadata, not looked at]",
}
"""By gate, a test that moves it from its default and sees what that does."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xfail(strict=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    (stuck,) = (gate for gate, test in SHOWN_BY.items() if test == item.nodeid)
    asked = FeatureGates.__getitem__

    def answer(gates: FeatureGates, name: str) -> bool:
        return name in ON_BY_DEFAULT if name == stuck else asked(gates, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FeatureGates, "__getitem__", answer)
        yield
