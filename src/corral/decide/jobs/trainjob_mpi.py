"""A TrainJob that uses MPI: a launcher and nodes that share keys, hosts and an agent."""

from __future__ import annotations

from corral.core.meta import Obj, name_of, namespace_of, owner_ref, spec_of
from corral.decide.jobs.mpi_hosts import AGENT_COMMAND, AGENT_KEY, CONFIG_DIR, agent_env, is_ssh_daemon
from corral.decide.jobs.trainjob_frameworks import env_values, trained
from corral.decide.jobs.trainjob_templates import pod_spec_of, sized, with_container, with_env, with_pod_spec
from corral.kinds.trainer import (
    ancestor_of,
    gpus_in,
    resources_per_node,
)

HOSTFILE_DIR = CONFIG_DIR


def _mpi_policy(runtime: Obj) -> Obj:
    return (spec_of(runtime).get("mlPolicy") or {}).get("mpi") or {}


def _mpi_nodes(runtime: Obj, nodes: int) -> int:
    return max(nodes - 1, 1) if _mpi_policy(runtime).get("runLauncherAsNode") else nodes


def _slots(train_job: Obj, runtime: Obj) -> int:
    """Processes per host: as told; one that nobody asked for gives way to one per GPU."""
    told = (spec_of(train_job).get("trainer") or {}).get("numProcPerNode")
    if told is not None:
        return int(told)
    slots = int(_mpi_policy(runtime).get("numProcPerNode", 1))
    return max(slots, gpus_in(resources_per_node(train_job, runtime))) if slots == 1 else slots


def mpi_job(train_job: Obj, runtime: Obj, job: Obj, nodes: int) -> Obj:
    """Launcher and nodes share the keys; the launcher also has the hostfile and Open MPI's settings."""
    policy = _mpi_policy(runtime)
    keys = f"{name_of(train_job)}-mpi-ssh-auth"
    secret = {
        "name": "mpi-ssh-auth",
        "secret": {
            "secretName": keys,
            "items": [
                {"key": "ssh-privatekey", "path": "id_rsa"},
                {"key": "ssh-publickey", "path": "id_rsa.pub"},
                {"key": "ssh-publickey", "path": "authorized_keys"},
            ],
        },
    }
    path = str(policy.get("sshAuthMountPath") or "/root/.ssh")
    files = [{"key": "hostfile", "path": "hostfile"}, {"key": AGENT_KEY, "path": AGENT_KEY, "mode": 0o555}]
    config = {"name": "mpi-hostfile", "configMap": {"name": f"{name_of(train_job)}-mpi-hostfile", "items": files}}
    mounts = [{"name": "mpi-ssh-auth", "mountPath": path}, {"name": "mpi-hostfile", "mountPath": HOSTFILE_DIR}]
    if job.get("name") == "node":
        job = sized(job, _mpi_nodes(runtime, nodes))
    elif job.get("name") != "launcher":
        return job
    env = agent_env(path) + (_launcher_env(train_job, runtime) if job.get("name") == "launcher" else [])
    pod = pod_spec_of(job)
    job = with_pod_spec(job, {**pod, "volumes": [*(pod.get("volumes") or ()), secret, config]})

    def change(container: Obj) -> Obj:
        if ancestor_of(job) == "trainer":
            container = trained(train_job, container)
        elif is_ssh_daemon(container):
            container = {**container, "command": [*AGENT_COMMAND, "serve"], "args": []}
        return with_env({**container, "volumeMounts": [*(container.get("volumeMounts") or ()), *mounts]}, env)

    return with_container(job, "node", change)


def _launcher_env(train_job: Obj, runtime: Obj) -> list[Obj]:
    return env_values(
        {
            "OMPI_MCA_orte_default_hostfile": f"{HOSTFILE_DIR}/hostfile",
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_set_default_slots": str(_slots(train_job, runtime)),
            "OMPI_MCA_plm_rsh_agent": " ".join(AGENT_COMMAND),
        }
    )


def hostfile_of(train_job: Obj, runtime: Obj, nodes: int) -> Obj:
    policy, name = _mpi_policy(runtime), name_of(train_job)
    hosts = [f"{name}-node-0-{index}.{name}" for index in range(_mpi_nodes(runtime, nodes))]
    if policy.get("runLauncherAsNode"):
        hosts.insert(0, f"{name}-launcher-0-0.{name}")
    slots = _slots(train_job, runtime)
    intel = policy.get("mpiImplementation") in ("Intel", "MPICH")
    lines = [f"{host}:{slots}" if intel else f"{host} slots={slots}" for host in hosts]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{name}-mpi-hostfile",
            "namespace": namespace_of(train_job),
            "ownerReferences": [owner_ref(train_job)],
        },
        "data": {"hostfile": "\n".join(lines) + "\n"},
    }
