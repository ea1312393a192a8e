"""The configuration file, its defaults and what is refused."""

from __future__ import annotations

import pytest

from corral.configuration.dispatch import dispatch_settings
from corral.configuration.part import ConfigurationError
from corral.configuration.queueing import load_config
from corral.core.meta import Obj


def test_an_empty_file_means_upstreams_defaults() -> None:
    config = load_config({"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"})
    assert config.frameworks == ("batch/job",)
    assert config.wait_for_pods_ready is not None
    assert config.wait_for_pods_ready.timeout_s == 1800
    assert config.fair_sharing is None
    assert not config.managed_namespaces.matches({"kubernetes.io/metadata.name": "kube-system"})
    assert config.managed_namespaces.matches({"kubernetes.io/metadata.name": "team-a"})
    assert dispatch_settings({}).worker_lost_timeout == 900


def test_upstreams_pace_and_its_way_with_victims_can_be_asked_for() -> None:
    shipped = load_config({}).settings()
    assert (shipped.requeue_batch_s, shipped.waits_for_victims, shipped.victims_give_way) == (0, True, True)
    asked = {
        "requeueBatch": "1s",
        "waitForVictims": False,
        "victimsGiveWay": False,
        "tellOtherCohorts": False,
        "sampleStoppedQueues": False,
    }
    upstream = load_config({"corral": asked}).settings()
    assert (upstream.requeue_batch_s, upstream.waits_for_victims, upstream.victims_give_way) == (1, False, False)
    assert (shipped.tells_other_cohorts, upstream.tells_other_cohorts) == (True, False)
    assert (shipped.samples_stopped_queues, upstream.samples_stopped_queues) == (True, False)
    gate = {"featureGates": {"SchedulerLongRequeueInterval": True}}
    assert load_config(gate).settings().requeue_batch_s == 10
    assert load_config({**gate, "corral": {"requeueBatch": "2s"}}).settings().requeue_batch_s == 2


def test_everything_that_can_be_said_is_read() -> None:
    config = load_config(
        {
            "waitForPodsReady": {
                "timeout": "5m",
                "blockAdmission": True,
                "requeuingStrategy": {"timestamp": "Creation", "backoffLimitCount": 3, "backoffBaseSeconds": 10},
            },
            "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
            "resources": {
                "excludeResourcePrefixes": ["example.com/"],
                "transformations": [{"input": "a", "strategy": "Replace", "outputs": {"b": "500m"}}],
            },
            "objectRetentionPolicies": {"workloads": {"afterFinished": "1h"}},
            "featureGates": {"PartialAdmission": False},
            "admissionFairSharing": {"usageHalfLifeTime": "10m", "resourceWeights": {"cpu": 2}},
        }
    )
    settings = config.settings()
    assert settings.block_on_pods_ready
    assert not settings.eviction_timestamp
    assert settings.fair_sharing_strategies == ("LessThanInitialShare",)
    assert settings.transformations[0].outputs == {"b": "500m"}
    assert not settings.transformations[0].retain
    assert not settings.features.partial_admission
    assert config.retention.after_finished_s == 3600
    assert settings.admission_fair_sharing is not None
    assert settings.admission_fair_sharing.half_life_s == 600


@pytest.mark.parametrize(
    ("document", "want"),
    [
        ({"featureGates": {"Nonsense": True}}, "featureGates: unrecognized feature gate: Nonsense"),
        ({"waitForPodsReady": {"timeout": "soon"}}, "waitForPodsReady.timeout"),
        ({"fairSharing": {"preemptionStrategies": ["Guess"]}}, "fairSharing.preemptionStrategies"),
        ({"kind": "Deployment"}, "kind: expected Configuration"),
        (
            {"resources": {"quotaCheckStrategy": "IgnoreUndeclared", "excludeResourcePrefixes": ["x"]}},
            "resources.quotaCheckStrategy",
        ),
        (
            {"featureGates": {"MultiKueueWaitForWorkloadAdmitted": False}},
            "cannot set feature gate MultiKueueWaitForWorkloadAdmitted to false, feature is locked to true",
        ),
    ],
)
def test_wrong_files_say_where(document: Obj, want: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_config(document)
    assert want in str(caught.value)
