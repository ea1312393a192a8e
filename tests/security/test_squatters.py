"""Who may create an object can be where a job's operator is going to make its own: the operator neither uses nor changes what is not
the job's, and the job says so."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tests.conformance.jobs.test_mpi import job as mpi_job
from tests.conformance.jobs.test_trainer import runtime, step, train_job
from tests.security.deputies import STARTS_JOBS, TENANT, Court

from corral.clusters.operators import set_up_operators
from corral.core.meta import Obj, controller_of, name_of, spec_of
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.operators import OperatorSettings
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.mpijob.kind import MPI_JOBS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from corral.kinds.kubernetes.rbac import ROLE_BINDINGS, ROLES
from corral.testing import run_virtual

MADE = (SECRETS, CONFIG_MAPS, SERVICES, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, JOBS, JOB_SETS)
MPI_RUNTIME = runtime(
    {"mpi": {"numProcPerNode": 1, "mpiImplementation": "OpenMPI", "sshAuthMountPath": "/root/.ssh"}},
    step("launcher", "node", "trainer"),
    step("node", "node"),
)
KINDS: dict[str, tuple[Resource, Obj]] = {
    "MPIJob": (MPI_JOBS, mpi_job()),
    "MPIJob v1": (MPI_JOBS.at("v1"), {**mpi_job(), "apiVersion": "kubeflow.org/v1", "kind": "MPIJob"}),
    "TrainJob": (TRAIN_JOBS, train_job()),
}


async def begin() -> Court:
    court = Court()
    settings = OperatorSettings(features={"TrainJobStatus": True})
    base = court.base
    base.api.chain.plugins.extend(set_up_operators(base.manager, settings, base.rights.may_create, STARTS_JOBS))
    await court.start()
    await court.admin.create(CLUSTER_TRAINING_RUNTIMES, MPI_RUNTIME)
    return court


async def end(court: Court) -> None:
    await court.base.manager.stop()
    await court.base.store.close()


async def create(court: Court, resource: Resource, body: Obj) -> Obj:
    made = await court.admin.create(resource, {**body, "metadata": {**body["metadata"], "namespace": TENANT}})
    await court.settle()
    return made


@cache
def belongings(kind: str) -> list[tuple[Resource, Obj]]:
    """What an undisturbed job of this kind makes beside its pods."""

    async def main() -> list[tuple[Resource, Obj]]:
        court = await begin()
        made = await create(court, *KINDS[kind])
        found = [
            (resource, obj)
            for resource in MADE
            for obj in (await court.admin.list(resource, TENANT)).items
            if (controller_of(obj) or {}).get("uid") == made["metadata"]["uid"]
        ]
        await end(court)
        return found

    return run_virtual(main)


def squatter(resource: Resource, made: Obj) -> Obj:
    """Somebody else's object of that name: as valid as the job's own, and different from it."""
    body: dict[str, Any] = {"metadata": {"name": name_of(made), "namespace": TENANT, "labels": {"whose": "mine"}}}
    if resource in (SECRETS, CONFIG_MAPS):
        body["data"] = {"mine": "bWluZQ=="}
    elif resource == ROLES:
        body["rules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]
    elif resource == ROLE_BINDINGS:
        body["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "mine"}
    elif resource == SERVICES:
        body["spec"] = {"clusterIP": "None", "selector": {"mine": "yes"}}
    elif resource in (JOBS, JOB_SETS):
        spec = {name: value for name, value in spec_of(made).items() if name != "selector"}
        body["spec"] = {**spec, "suspend": True}
        if resource == JOBS:
            template = spec["template"]
            kept = {
                key: value
                for key, value in (template["metadata"].get("labels") or {}).items()
                if "job-name" not in key and "uid" not in key
            }
            body["spec"]["template"] = {**template, "metadata": {"labels": kept}}
    return body


CASES = [
    pytest.param(kind, number, id=f"{kind}, {resource.plural} {name_of(obj)}")
    for kind in KINDS
    for number, (resource, obj) in enumerate(belongings(kind))
]


def test_there_is_something_to_take() -> None:
    assert len(CASES) >= 14


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_what_belongs_to_somebody_else_is_left_alone_and_the_job_says_so(kind: str, number: int) -> None:
    resource, own = belongings(kind)[number]

    async def main() -> None:
        court = await begin()
        theirs = await create(court, resource, squatter(resource, own))
        job = await create(court, *KINDS[kind])
        after = await court.admin.get(resource, name_of(theirs), TENANT)
        without = ("managedFields", "resourceVersion")
        assert _told(after, without) == _told(theirs, without)
        events = (await court.admin.list(EVENTS, TENANT)).items
        told = [
            event["message"]
            for event in events
            if event["involvedObject"].get("uid") == job["metadata"]["uid"] and event["type"] == "Warning"
        ]
        assert any(name_of(theirs) in message and "already exists" in message for message in told), told
        await end(court)

    run_virtual(main)


def _told(obj: Obj, without: tuple[str, ...]) -> Obj:
    """What the object's owner has written."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in without}
    return {name: value for name, value in {**obj, "metadata": metadata}.items() if name != "status"}


def test_a_train_job_that_is_over_time_does_not_delete_the_job_set_of_somebody_else() -> None:
    async def main() -> None:
        court = await begin()
        own = next(obj for resource, obj in taken if resource == JOB_SETS)
        await create(court, JOB_SETS, squatter(JOB_SETS, own))
        body = train_job(activeDeadlineSeconds=5)
        await create(court, TRAIN_JOBS, body)
        await court.base.clock.sleep(400)
        assert await court.names(JOB_SETS) == [name_of(own)]
        await end(court)

    taken = belongings("TrainJob")
    run_virtual(main)
