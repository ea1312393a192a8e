"""Whose pod is this? From a pod on a worker up its owners to the job that this manager made there.

Owners in between (the JobSet of a TrainJob, the Job of a JobSet) are asked of the worker, each once; what kinds they
are is asked of its discovery, so a kind nobody here knows is no obstacle.
"""

from __future__ import annotations

from collections.abc import Callable

from corral.controllers.dispatch.workers.remotes import Remote
from corral.core.errors import ApiError
from corral.core.meta import Key, Obj, controller_of, name_of, namespace_of, owner_references_of, uid_of
from corral.core.resource import Resource, version_path
from corral.decide.dispatch.workload_copy import has_origin
from corral.jobs.framework.registry import adapter_for
from corral.kinds.kubernetes.core.kinds import PODS

Root = tuple[Resource, Obj]
MAX_DEPTH = 10


class Ancestry:
    """Finds the jobs of one worker that pods belong to."""

    def __init__(self, remote: Remote, origin: str) -> None:
        self._remote = remote
        self._origin = origin
        self._roots: dict[str, Root | None] = {}
        self._resources: dict[str, dict[str, Resource]] = {}

    async def pods_of(
        self, resource: Resource, job: Obj, *, or_else: Callable[[Obj], bool] = lambda pod: False
    ) -> list[Obj]:
        """The pods that belong to a job, in the order of their names. Whose pods they are is remembered when it is gone;
        `or_else` is asked of those nobody knows."""
        self._roots.setdefault(uid_of(job), (resource, job))
        adapter = adapter_for(resource)
        labels = adapter.pod_selector(job) if adapter is not None else ""
        found = (await self._remote.client.list(PODS, namespace_of(job), labels=labels)).items
        roots = [(pod, await self.root(pod, PODS)) for pod in sorted(found, key=name_of)]
        return [pod for pod, root in roots if (uid_of(root[1]) == uid_of(job) if root is not None else or_else(pod))]

    async def root(self, obj: Obj, resource: Resource, depth: int = 0) -> Root | None:
        """The topmost owner of an object that carries our origin label; None when none of its owners does."""
        above = await self._above(obj, depth) if depth < MAX_DEPTH else None
        return above or ((resource, obj) if has_origin(obj, self._origin) else None)

    async def _above(self, obj: Obj, depth: int) -> Root | None:
        reference = controller_of(obj) or next(iter(owner_references_of(obj)), None)
        if reference is None:
            return None
        uid = str(reference.get("uid"))
        if uid not in self._roots:
            self._roots[uid] = await self._find(reference, namespace_of(obj), depth)
        return self._roots[uid]

    async def _find(self, reference: Obj, namespace: str, depth: int) -> Root | None:
        key, uid = Key(namespace, str(reference["name"])), str(reference.get("uid"))
        for resource in self._remote.jobs:
            known = self._remote.job(resource, key)
            if known is not None and uid_of(known) == uid:
                return resource, known
        try:
            resource = await self._resource(str(reference["apiVersion"]), str(reference["kind"]))
            owner = await self._remote.client.get(resource, key.name, namespace if resource.namespaced else "")
        except (ApiError, LookupError):
            return None
        return await self.root(owner, resource, depth + 1) if uid_of(owner) == uid else None

    async def _resource(self, api_version: str, kind: str) -> Resource:
        if api_version not in self._resources:
            group, _, version = api_version.rpartition("/")
            document = await self._remote.client.raw("GET", version_path(group, version))
            self._resources[api_version] = {
                str(entry["kind"]): Resource(group, version, entry["name"], entry["kind"], bool(entry["namespaced"]))
                for entry in document.get("resources") or ()
                if "/" not in entry["name"]
            }
        return self._resources[api_version][kind]
