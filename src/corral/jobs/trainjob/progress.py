"""Progress reports of TrainJobs: what a training pod needs to report, and what a report does to the status.

Upstream's trainer runs a server of its own for this. Here the API server takes the reports, at the same path: the pods
find it by the variables every pod has, and a Role made for the TrainJob lets them.
"""

from __future__ import annotations

from corral.core.meta import Obj, name_of, namespace_of, owner_ref, status_of
from corral.jobs.trainjob.kind import TRAIN_JOBS

FOLDER = "/var/run/secrets/kubeflow/trainer"
VOLUME = "kubeflow-trainer-token"
TOKEN_SECONDS = 3600
REPORTED = ("progressPercentage", "estimatedRemainingSeconds", "metrics", "lastUpdatedTime")


def path_of(train_job: Obj) -> str:
    return TRAIN_JOBS.path(namespace_of(train_job), name_of(train_job), "status")


def environment(train_job: Obj) -> list[Obj]:
    server = "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"
    return [
        {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": f"{server}{path_of(train_job)}"},
        {"name": "KUBEFLOW_TRAINER_SERVER_CA_CERT", "value": f"{FOLDER}/ca.crt"},
        {"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": f"{FOLDER}/token"},
    ]


def mount() -> Obj:
    return {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}


def volume() -> Obj:
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    return {"name": VOLUME, "projected": {"sources": sources}}


def access(train_job: Obj, service_accounts: list[str]) -> tuple[Obj, Obj]:
    """Role and binding that let the training pods report about their own TrainJob and nothing else."""
    group, name = "rbac.authorization.k8s.io", f"{name_of(train_job)}-status"
    metadata = {"name": name, "namespace": namespace_of(train_job), "ownerReferences": [owner_ref(train_job)]}
    rule = {
        "apiGroups": ["trainer.kubeflow.org"],
        "resources": ["trainjobs/status"],
        "resourceNames": [name_of(train_job)],
        "verbs": ["create"],
    }
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}
    subjects = [
        {"kind": "ServiceAccount", "name": account, "namespace": namespace_of(train_job)}
        for account in service_accounts
    ]
    reference = {"apiGroup": group, "kind": "Role", "name": name}
    binding = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": metadata}
    return role, {**binding, "subjects": subjects, "roleRef": reference}


def with_report(train_job: Obj, report: Obj) -> Obj:
    """The status after a report: what it says replaces the last one; an empty report changes nothing."""
    reported = report.get("trainerStatus")
    if not reported:
        return status_of(train_job)
    return {**status_of(train_job), "trainerStatus": {name: reported[name] for name in REPORTED if name in reported}}
