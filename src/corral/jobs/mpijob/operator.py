"""The MPI operator: v2beta1 MPIJobs with a launcher Job, and v1 MPIJobs on the shared training engine."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import (
    Key,
    Obj,
    is_deleting,
    is_owned_by,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
    uid_of,
    with_status,
)
from corral.core.resource import Resource
from corral.decide.pods.facts import phase_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.child_objects import typed
from corral.jobs.framework.expectations import Expectations
from corral.jobs.framework.gang_operator import GangGroups
from corral.jobs.framework.growth_pacing import Steps
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.jobs.kubeflow.kind import GROUP, MPI, replica_specs_of, run_policy_of
from corral.jobs.kubeflow.operator import TrainingController
from corral.jobs.kubeflow.status import REPLICA_TYPE, index_of
from corral.jobs.kubeflow.view import Settings
from corral.jobs.mpijob.belongings import Belongings
from corral.jobs.mpijob.children import build_group, child_metadata, config_map, is_suspended, launcher_name, service
from corral.jobs.mpijob.hosts import AGENT, AGENT_COMMAND, AGENT_KEY, CONFIG_DIR, agent_env, is_ssh_daemon
from corral.jobs.mpijob.kind import MPI_JOBS, clean_policy_of, is_v1, spec_errors
from corral.jobs.mpijob.plan import MpiPlan, is_managed_here, plan_mpi
from corral.jobs.mpijob.status import is_finished
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS, SERVICE_ACCOUNTS, SERVICES
from corral.kinds.kubernetes.rbac import ROLE_BINDINGS, ROLES
from corral.runtime.controller import Manager, PermanentError, Result, Watch, owner_key

MANAGER = "mpi-operator"
SSH_PATH_V1 = "/etc/mpi-keys"


@cache
def agent_program() -> str:
    """The text of the program that carries commands from launcher to workers."""
    return Path(__file__).with_name("agent.py").read_text()


class MpiJobController:
    """Runs kubeflow.org/v2beta1 MPIJobs."""

    name = "mpijob"

    def __init__(self, manager: Manager, gang_scheduler: str = "") -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._scheduler = gang_scheduler
        self._steps = Steps(manager.clock)
        self._jobs = manager.informer(MPI_JOBS)
        self._pods = manager.informer(PODS)
        self._launchers = manager.informer(JOBS)
        index_by_controller(self._pods)
        self._private_key = manager.private_key
        self._recorder = manager.recorder.named("mpi-job-controller")
        self._belongings = Belongings(self._client, self._recorder, MANAGER)
        self._expectations = Expectations(self._pods, self._clock)
        owners = owner_key("MPIJob", GROUP)
        self._gang = GangGroups(manager, gang_scheduler, MANAGER, owners) if gang_scheduler else None
        watches = [
            Watch(MPI_JOBS),
            Watch(PODS, map=owners),
            Watch(PODS, map=self._job_of_launcher_pod),
            Watch(JOBS, map=owners),
        ]
        if self._gang is not None:
            watches.append(self._gang.watch)
        manager.add(self, watches=watches, workers=5)

    def _job_of_launcher_pod(self, pod: Obj) -> list[Key]:
        for job_key in owner_key("Job", "batch")(pod):
            launcher = self._launchers.get(job_key)
            if launcher is not None:
                return list(owner_key("MPIJob", GROUP)(launcher))
        return []

    async def reconcile(self, key: Key) -> Result | None:
        found = self._jobs.get(key)
        if found is None:
            self._expectations.forget(key)
            self._steps.forget(key)
            return None
        if is_v1(found) or is_deleting(found) or not is_managed_here(found) or not self._expectations.met(key):
            return None
        job = typed(found, MPI_JOBS.api_version, "MPIJob")
        errors = spec_errors(job)
        if errors:
            text = f"Found validation errors: {errors[0]}"
            self._recorder.event(job, "Warning", "ValidationError", text)
            return None
        workers = controlled_by(self._pods, job)
        launcher = self._launchers.get(Key(key.namespace, launcher_name(job)))
        if launcher is not None and not is_owned_by(launcher, uid_of(job)):
            self._belongings.refuse(job, JOBS, launcher_name(job))
        pods = controlled_by(self._pods, launcher) if launcher is not None else []
        plan = plan_mpi(job, workers, launcher, pods, self._clock.now(), self._scheduler, self._steps.room(key))
        for kind, reason, message in plan.events:
            self._recorder.event(job, kind, reason, message)
        if plan.status != status_of(job):
            changed = with_status(job, plan.status)
            await self._client.update(MPI_JOBS, changed, subresource="status", manager=MANAGER)
        if self._gang is not None:
            await self._group(job, plan, self._gang)
        self._steps.made(key, len(plan.create_workers))
        await self._act(key, job, plan, workers, launcher)
        return Result(self._steps.wait(key))

    async def _group(self, job: Obj, plan: MpiPlan, gang: GangGroups) -> None:
        """The PodGroup lives as long as the workers do."""
        over = is_finished(plan.status)
        if not over and not is_suspended(job):
            await gang.ensure(build_group(job, self._scheduler, gang.priority_of))
        elif not over or clean_policy_of(job) != "None":
            await gang.remove(job)

    async def _act(self, key: Key, job: Obj, plan: MpiPlan, workers: list[Obj], launcher: Obj | None) -> None:
        if plan.shared:
            await self._belongings.ensure(job, SERVICES, service(job))
            await self._belongings.ensure(job, CONFIG_MAPS, config_map(job, workers, agent_program()))
            await self._belongings.ensure_keys(job, self._private_key)
        for pod in plan.delete_workers:
            self._expectations.removing(key, pod)
            try:
                await self._client.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod))
            except NotFound:
                self._expectations.give_up(key, pod)
        for body in plan.create_workers:
            try:
                self._expectations.made(key, await self._client.create(PODS, body, manager=MANAGER))
            except AlreadyExists:
                await self._belongings.find(job, PODS, name_of(body))
        if plan.create_launcher is not None:
            await self._belongings.create(job, JOBS, plan.create_launcher)
        if plan.suspend_launcher and launcher is not None:
            changed = {**launcher, "spec": {**spec_of(launcher), "suspend": True}}
            await self._client.update(JOBS, changed, manager=MANAGER)
        if plan.resume_launcher is not None:
            await self._resume(plan.resume_launcher)

    async def _resume(self, launcher: Obj) -> None:
        status = status_of(launcher)
        if "startTime" in status:
            fresh = {name: value for name, value in status.items() if name != "startTime"}
            written = await self._client.update(
                JOBS, with_status(launcher, fresh), subresource="status", manager=MANAGER
            )
            launcher = {**written, "spec": launcher["spec"]}
        await self._client.update(JOBS, launcher, manager=MANAGER)


class MpiV1Controller(TrainingController):
    """Runs kubeflow.org/v1 MPIJobs: launcher and worker pods, no services, hosts in a ConfigMap."""

    def __init__(self, manager: Manager, gang_scheduler: str = "") -> None:
        self._private_key = manager.private_key
        self._belongings = Belongings(manager.client, manager.recorder.named("mpijob-v1"), MANAGER)
        super().__init__(manager, MPI, Settings(gang_scheduler=gang_scheduler), name="mpijob-v1")

    async def _step(self, key: Key, job: Obj) -> Result | None:
        if not is_v1(job):
            return None
        errors = spec_errors(job)
        if errors:
            self._recorder.event(job, "Warning", "MPIJobFailedValidation", str(errors[0]))
            raise PermanentError(str(errors[0]))
        if not run_policy_of(job).get("suspend"):
            await self._ensure_shared(job)
        return await super()._step(key, job)

    async def _ensure_shared(self, job: Obj) -> None:
        workers = [pod for pod in controlled_by(self._pods, job) if labels_of(pod).get(REPLICA_TYPE) == "worker"]
        await self._belongings.ensure(job, CONFIG_MAPS, _config_map_v1(job, workers))
        await self._belongings.ensure_keys(job, self._private_key)
        for resource, access in _access_v1(job, workers):
            await self._belongings.ensure(job, resource, access)

    async def _create(self, job: Obj, resource: Resource, body: Obj) -> Obj | None:
        if resource == PODS:
            launcher = labels_of(body).get(REPLICA_TYPE) == "launcher"
            if launcher and not self._workers_run(job):
                return None  # mpirun has nobody to talk to before that
            body = _pod_v1(job, body, launcher)
        return await super()._create(job, resource, body)

    def _workers_run(self, job: Obj) -> bool:
        wanted = (replica_specs_of(MPI, job).get("Worker") or {}).get("replicas") or 0
        pods = controlled_by(self._pods, job)
        running = [pod for pod in pods if labels_of(pod).get(REPLICA_TYPE) == "worker" and phase_of(pod) == "Running"]
        return len(running) >= int(wanted)


def _config_map_v1(job: Obj, workers: list[Obj]) -> Obj:
    slots = int(spec_of(job).get("slotsPerWorker") or 1)
    count = int((replica_specs_of(MPI, job).get("Worker") or {}).get("replicas") or 0)
    running = sorted((pod for pod in workers if phase_of(pod) == "Running"), key=lambda pod: index_of(pod) or 0)
    hosts = "".join(f"{name_of(job)}-worker-{index} slots={slots}\n" for index in range(count))
    # Workers of this version have no services, so their names are known to nobody but this list.
    addresses = [(name_of(pod), status_of(pod).get("podIP")) for pod in running]
    found = "\n".join(["#!/bin/sh", *(f"echo {name_of(pod)}:{slots}" for pod in running), ""])
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(job, f"{name_of(job)}-config"),
        "data": {
            "hostfile": hosts,
            "discover_hosts.sh": found,
            "hosts": "".join(f"{host} {address}\n" for host, address in addresses if address),
            "kubexec.sh": f'#!/bin/sh\nexec python3 {AGENT} "$@"\n',
            AGENT_KEY: agent_program(),
        },
    }


def _access_v1(job: Obj, workers: list[Obj]) -> list[tuple[Resource, Obj]]:
    """What lets the launcher look at its workers."""
    name, namespace = f"{name_of(job)}-launcher", namespace_of(job)
    metadata = {"name": name, "namespace": namespace, "ownerReferences": [owner_ref(job)]}
    count = int((replica_specs_of(MPI, job).get("Worker") or {}).get("replicas") or 0)
    pods = [f"{name_of(job)}-worker-{index}" for index in range(count)]
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"], "resourceNames": pods},
    ]
    group = "rbac.authorization.k8s.io"
    return [
        (SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        (ROLES, {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules}),
        (
            ROLE_BINDINGS,
            {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
                "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            },
        ),
    ]


def _pod_v1(job: Obj, body: Obj, launcher: bool) -> Obj:
    """A v1 pod with hosts and keys mounted; workers wait for commands, the launcher knows how to send them."""
    spec = dict(body["spec"])
    containers = [dict(container) for container in spec["containers"]]
    main = str(spec_of(job).get("mainContainer") or MPI.container)
    first = next((entry for entry in containers if entry.get("name") == main), containers[0])
    first["volumeMounts"] = [
        *(first.get("volumeMounts") or ()),
        {"name": "mpi-job-config", "mountPath": CONFIG_DIR},
        {"name": "ssh-auth", "mountPath": SSH_PATH_V1},
    ]
    first["env"] = [*(first.get("env") or ()), *agent_env(SSH_PATH_V1)]
    if launcher:
        values = {
            "OMPI_MCA_plm_rsh_agent": f"sh {CONFIG_DIR}/kubexec.sh",
            "OMPI_MCA_orte_default_hostfile": f"{CONFIG_DIR}/hostfile",
            "I_MPI_HYDRA_BOOTSTRAP": "rsh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": f"{CONFIG_DIR}/kubexec.sh",
            "NVIDIA_VISIBLE_DEVICES": "",
            "NVIDIA_DRIVER_CAPABILITIES": "",
        }
        first["env"] += [{"name": name, "value": value} for name, value in values.items()]
        spec["serviceAccountName"] = f"{name_of(job)}-launcher"
    elif is_ssh_daemon(first):
        first["command"], first["args"] = [*AGENT_COMMAND, "serve"], []
    spec["containers"] = containers
    spec["hostname"] = name_of(body)
    items = [
        {"key": key, "path": key, "mode": 0o444 if key in ("hostfile", "hosts") else 0o555}
        for key in ("hostfile", "hosts", "discover_hosts.sh", "kubexec.sh", AGENT_KEY)
    ]
    keys = [{"key": "ssh-privatekey", "path": "id_rsa"}, {"key": "ssh-publickey", "path": "id_rsa.pub"}]
    spec["volumes"] = [
        *(spec.get("volumes") or ()),
        {"name": "mpi-job-config", "configMap": {"name": f"{name_of(job)}-config", "items": items}},
        {"name": "ssh-auth", "secret": {"secretName": f"{name_of(job)}-ssh", "items": keys}},
    ]
    return {**body, "spec": spec}


def mpi_controllers(manager: Manager, gang_scheduler: str = "") -> tuple[MpiJobController, MpiV1Controller]:
    """Register the operators of both versions."""
    return MpiJobController(manager, gang_scheduler), MpiV1Controller(manager, gang_scheduler)


def operators(context: OperatorContext) -> None:
    mpi_controllers(context.manager, context.settings.gang_scheduler)
