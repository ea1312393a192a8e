"""What MPI's hosts share, whoever runs them: keys to trust each other by, and the agent that starts processes on them."""

from __future__ import annotations

from corral.core.meta import (
    Obj,
)

CONFIG_DIR = "/etc/mpi"
AGENT = f"{CONFIG_DIR}/mpi-agent"
AGENT_KEY = "mpi-agent"
AGENT_COMMAND = ("python3", AGENT)
"""Called through its interpreter, so that it works where a mounted file cannot be made executable."""


SSH_KEYS = (
    {"key": "ssh-privatekey", "path": "id_rsa"},
    {"key": "ssh-publickey", "path": "id_rsa.pub"},
    {"key": "ssh-publickey", "path": "authorized_keys"},
)
"""Files of the Secret by which hosts trust each other."""


def agent_env(path: str) -> list[Obj]:
    """What the agent reads: where the keys are, and which host it is on."""
    return [
        {"name": "MPI_SSH_PATH", "value": path},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]


def is_ssh_daemon(container: Obj) -> bool:
    """A worker that only waits to be logged into; here it waits for the job's own agent instead."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return not words or str(words[0]).rpartition("/")[2] == "sshd"
