"""Schemas of AdmissionCheck, ProvisioningRequestConfig, WorkloadPriorityClass and the two MultiKueue kinds."""

from __future__ import annotations

from corral.kinds.kueue.shapes import (
    LABEL_PATTERN,
    MAX_CLUSTERS,
    QUALIFIED_NAME_PATTERN,
    SUBDOMAIN_PATTERN,
    atomic,
    cel,
    choice,
    conditions,
    keyed,
    subdomain,
)
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Schema


def admission_check(version: str) -> Schema:
    """The schema of AdmissionCheck in `version`."""
    old = version == "v1beta1"
    filled = {} if old else {"min_length": 1}
    immutable = {"x-kubernetes-validations": cel(("field is immutable", "self == oldSelf"))}
    parameters = s.obj(
        {
            "apiGroup": s.string(max_length=253, **filled, pattern=SUBDOMAIN_PATTERN),
            "kind": s.string(max_length=63, **filled, pattern="^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$"),
            "name": s.string(max_length=63, **filled, pattern=LABEL_PATTERN),
        },
        required=("apiGroup", "kind", "name"),
    )
    spec = {
        "controllerName": s.string(**immutable) if old else s.string(max_length=253, min_length=1, **immutable),
        "parameters": parameters,
        **({"retryDelayMinutes": s.integer("int64", default=15)} if old else {}),
    }
    return s.root(spec=s.obj(spec, required=("controllerName",)), status=s.obj({"conditions": conditions(old)}))


def workload_priority_class(version: str) -> Schema:
    """The schema of WorkloadPriorityClass in `version`."""
    limit = {} if version == "v1beta1" else {"max_length": 2048}
    return s.root(more={"description": s.string(**limit), "value": s.integer()}, required=("value",))


def multi_kueue_config(version: str) -> Schema:
    """The schema of MultiKueueConfig in `version`."""
    if version == "v1beta1":
        clusters = s.array(s.string(), list_type="set", min_items=1, max_items=MAX_CLUSTERS)
        return s.root(spec=s.obj({"clusters": clusters}, required=("clusters",)))
    unique = cel(("must be unique", "self.all(a, self.exists_one(b, a == b))"))
    clusters = atomic(
        s.string(max_length=256),
        min_items=1,
        max_items=MAX_CLUSTERS,
        rules=unique,
    )
    quota_management = choice("Manual", "Automated")
    return s.root(spec=s.obj({"clusters": clusters, "quotaManagement": quota_management}, required=("clusters",)))


def multi_kueue_cluster(version: str) -> Schema:
    """The schema of MultiKueueCluster in `version`."""
    old = version == "v1beta1"
    profile = s.obj({"name": s.string(max_length=256, min_length=1)}, required=("name",))
    location = s.string() if old else s.string(max_length=256, min_length=1)
    kube_config = s.obj(
        {"location": location, "locationType": choice("Secret", "Path", default="Secret")},
        required=("location", "locationType") if old else ("location",),
    )
    if old:
        spec = s.obj({"clusterProfileRef": profile, "kubeConfig": kube_config})
    else:
        one = cel(
            (
                "exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
                "has(self.kubeConfig) != has(self.clusterProfileRef)",
            )
        )
        source = s.obj({"clusterProfileRef": profile, "kubeConfig": kube_config}, rules=one)
        spec = s.obj({"clusterSource": source}, required=("clusterSource",))
    return s.root(spec=spec, status=s.obj({"conditions": conditions(old)}))


def provisioning_request_config(version: str) -> Schema:
    """The schema of ProvisioningRequestConfig in `version`."""
    old = version == "v1beta1"
    selector = s.obj(
        {
            "key": s.string(max_length=317, min_length=1, pattern=QUALIFIED_NAME_PATTERN),
            "valueFromProvisioningClassDetail": s.string(max_length=32768, min_length=1),
        },
        required=("key", "valueFromProvisioningClassDetail"),
    )
    retry_defaults = {"backoffBaseSeconds": 60, "backoffLimitCount": 3, "backoffMaxSeconds": 1800}
    spec = s.obj(
        {
            "managedResources": s.array(s.string(), list_type="set", max_items=100),
            "parameters": s.mapping(s.string(max_length=255), max_properties=100),
            "podSetMergePolicy": choice("IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"),
            "podSetUpdates": s.obj(
                {"nodeSelector": s.array(selector, max_items=8) if old else keyed(selector, "key", max_items=8)}
            ),
            "provisioningClassName": subdomain() if old else subdomain(min_length=1),
            "retryStrategy": s.obj(
                {name: s.integer(default=value) for name, value in retry_defaults.items()}, default=retry_defaults
            ),
        },
        required=("provisioningClassName",),
    )
    return s.root(spec=spec)
