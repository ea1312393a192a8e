"""The clusters behind a manager, asked all at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from corral.cli.options import kubeconfig_file
from corral.client import kubeconfig
from corral.client.limits import ANSWER_S
from corral.client.sync import SyncClient
from corral.core.errors import ConnectionFailed, Forbidden, NotFound
from corral.core.meta import name_of
from corral.inspect.asking import asked_at_once
from corral.inspect.placed_pods import WorkerSilent, worker_access
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS

T = TypeVar("T")


def worker_names(manager: SyncClient) -> list[str]:
    """The workers a cluster has; none where it is no manager, or they are not the user's to see."""
    try:
        return sorted(name_of(one) for one in manager.list(MULTI_KUEUE_CLUSTERS)["items"])
    except (NotFound, Forbidden):
        return []


def ask_workers(
    manager: SyncClient,
    names: list[str],
    kueue_namespace: str,
    kubeconfig_path: Path | None,
    question: Callable[[SyncClient], T],
) -> dict[str, T | Exception]:
    """What each worker answers, or why it does not."""

    def ask(name: str) -> T:
        # A connection of the manager's client is not for several threads.
        known = worker_access(SyncClient(manager.access), name, kueue_namespace)
        return question(SyncClient(as_the_user(known, kubeconfig_path), timeout=ANSWER_S))

    answers = asked_at_once({name: functools.partial(ask, name) for name in names})
    is_silent = (ConnectionFailed, TimeoutError)
    return {name: WorkerSilent(name) if isinstance(one, is_silent) else one for name, one in answers.items()}


def as_the_user(known: kubeconfig.Access, kubeconfig_path: Path | None) -> kubeconfig.Access:
    """How to reach a worker: as the user, if the kubeconfig has a context of that server, else as the manager does, who may do
    less there than its administrator."""
    file = kubeconfig_file(kubeconfig_path)
    contexts = kubeconfig.by_context(kubeconfig.load(file), file.parent, str(file))
    return kubeconfig.by_server(contexts).get(known.server, known)
