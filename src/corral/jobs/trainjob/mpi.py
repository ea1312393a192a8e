"""A TrainJob that uses MPI: a launcher and nodes that share keys, hosts and an agent."""

from __future__ import annotations

from corral.core.meta import Obj, namespace_of, owner_ref
from corral.jobs.mpijob.hosts import AGENT_COMMAND, AGENT_KEY, CONFIG_DIR, SSH_KEYS, agent_env, is_ssh_daemon
from corral.jobs.trainjob.frameworks import env_values, trained
from corral.jobs.trainjob.kind import ancestor_of, gpus_in, resources_per_node
from corral.jobs.trainjob.templates import pod_spec_of, sized, with_container, with_env, with_pod_spec
from corral.jobs.trainjob.view import Training
from corral.kinds.kubernetes.core.rules import MAX_DATA


def ssh_secret_name(training: Training) -> str:
    return f"{training.name}-mpi-ssh-auth"


def hostfile(training: Training, agent: str) -> Obj:
    """The ConfigMap with the hosts, in the form the MPI implementation reads, and the agent."""
    name = training.name
    # More names than a ConfigMap holds are refused there, and so many are enough to find out.
    count = min(_nodes(training), MAX_DATA // len(f"{name}-node-0-0.{name}") + 1)
    hosts = [f"{name}-node-0-{index}.{name}" for index in range(count)]
    if training.policy_settings.get("runLauncherAsNode"):
        hosts.insert(0, f"{name}-launcher-0-0.{name}")
    by_colon = training.policy_settings.get("mpiImplementation") in ("Intel", "MPICH")
    form = "{host}:{slots}\n" if by_colon else "{host} slots={slots}\n"
    slots = _slots(training)
    lines = [form.format(host=host, slots=slots) for host in hosts]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": _hostfile_name(training),
            "namespace": namespace_of(training.job),
            "ownerReferences": [owner_ref(training.job)],
        },
        "data": {"hostfile": "".join(lines), AGENT_KEY: agent},
    }


def with_mpi(training: Training, job: Obj) -> Obj:
    """A launcher or node with keys and hosts; the launcher also has Open MPI's settings. Other steps stay."""
    if job.get("name") not in ("launcher", "node"):
        return job
    path = str(training.policy_settings.get("sshAuthMountPath") or "/root/.ssh")
    env = agent_env(path)
    if job.get("name") == "node":
        job = sized(job, _nodes(training))
    else:
        env += _launcher_env(training)
    mounts = [{"name": "mpi-ssh-auth", "mountPath": path}, {"name": "mpi-hostfile", "mountPath": CONFIG_DIR}]
    pod = pod_spec_of(job)
    job = with_pod_spec(job, {**pod, "volumes": [*(pod.get("volumes") or ()), *_volumes(training)]})

    def change(container: Obj) -> Obj:
        if ancestor_of(job) == "trainer":
            container = trained(training, container)
        elif is_ssh_daemon(container):
            container = {**container, "command": [*AGENT_COMMAND, "serve"], "args": []}
        return with_env({**container, "volumeMounts": [*(container.get("volumeMounts") or ()), *mounts]}, env)

    return with_container(job, "node", change)


def _hostfile_name(training: Training) -> str:
    return f"{training.name}-mpi-hostfile"


def _nodes(training: Training) -> int:
    """Hosts beside the launcher."""
    nodes = training.nodes
    return max(nodes - 1, 1) if training.policy_settings.get("runLauncherAsNode") else nodes


def _slots(training: Training) -> int:
    """Processes per host: as told; one that nobody asked for gives way to one per GPU."""
    given = training.trainer.get("numProcPerNode")
    if given is not None:
        return int(given)
    slots = int(training.policy_settings.get("numProcPerNode", 1))
    return max(slots, gpus_in(resources_per_node(training.job, training.runtime))) if slots == 1 else slots


def _volumes(training: Training) -> list[Obj]:
    files = [{"key": "hostfile", "path": "hostfile"}, {"key": AGENT_KEY, "path": AGENT_KEY, "mode": 0o555}]
    return [
        {"name": "mpi-ssh-auth", "secret": {"secretName": ssh_secret_name(training), "items": list(SSH_KEYS)}},
        {"name": "mpi-hostfile", "configMap": {"name": _hostfile_name(training), "items": files}},
    ]


def _launcher_env(training: Training) -> list[Obj]:
    return env_values(
        {
            "OMPI_MCA_orte_default_hostfile": f"{CONFIG_DIR}/hostfile",
            "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_set_default_slots": str(_slots(training)),
            "OMPI_MCA_plm_rsh_agent": " ".join(AGENT_COMMAND),
        }
    )
