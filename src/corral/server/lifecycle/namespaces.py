"""The life of namespaces: what each has from the start, and emptying those that are being deleted."""

from __future__ import annotations

from corral.core import conditions
from corral.core.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from corral.core.meta import Key, Obj, is_deleting, spec_of, status_of
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from corral.kinds.machinery.definition import KindDef
from corral.runtime.controller import Manager, Result
from corral.server.api import Api, DeleteOptions, ListOptions
from corral.server.lifecycle.identity import system_user
from corral.server.verbs.options import PLAIN_WRITE
from corral.store import Event, ObjectKey

FINALIZER = "kubernetes"
ROOT_CA = "kube-root-ca.crt"
_ROOT_CA_NOTE = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes clusters."
}
# The pods go first: what they use must not vanish under them.
_FIRST = ("pods",)
_RECHECK_S = 5.0


class Namespaces:
    """Makes the default service account and the root certificate bundle; empties what is being deleted."""

    name = "namespace"

    def __init__(self, api: Api, manager: Manager) -> None:
        self._api = api
        self._manager = manager
        self._user = system_user("namespace-controller")
        self._queue = manager.add(self, watches=[], workers=2).about(self._find).queue
        for stored in self._api.store.scan("namespaces"):
            self._queue.add(Key("", stored.key.name))
        self._api.store.observe(self._changed)

    def _changed(self, event: Event) -> None:
        resource, namespace, name = event.stored.key
        if resource == "namespaces":
            if event.type != "DELETED":
                self._queue.add(Key("", name))
        elif event.type == "DELETED" and namespace:
            parent = self._api.store.get(ObjectKey("namespaces", "", namespace))
            # Also a live namespace: its default service account may have been deleted.
            if parent is not None and (name in ("default", ROOT_CA) or is_deleting(parent.obj)):
                self._queue.add(Key("", namespace))

    def _find(self, key: Key) -> Obj | None:
        stored = self._api.store.get(ObjectKey("namespaces", "", key.name))
        return stored.obj if stored is not None else None

    async def reconcile(self, key: Key) -> Result | None:
        stored = self._api.store.get(ObjectKey("namespaces", "", key.name))
        if stored is None:
            return None
        if not is_deleting(stored.obj):
            await self._furnish(key.name)
            return None
        return await self._empty(key.name, stored.obj)

    async def _furnish(self, namespace: str) -> None:
        account: Obj = {"metadata": {"name": "default", "namespace": namespace}}
        bundle: Obj = {
            "metadata": {"name": ROOT_CA, "namespace": namespace, "annotations": _ROOT_CA_NOTE},
            "data": {"ca.crt": self._api.root_ca},
        }
        for resource, obj in ((SERVICE_ACCOUNTS, account), (CONFIG_MAPS, bundle)):
            if self._api.store.head(ObjectKey(resource.plural, namespace, obj["metadata"]["name"])) is None:
                try:
                    await self._api.create(self._user, resource, namespace, obj)
                except (AlreadyExists, NotFound, Forbidden):
                    continue  # somebody else was faster, or the namespace is going away

    async def _empty(self, namespace: str, obj: Obj) -> Result | None:
        if FINALIZER not in (spec_of(obj).get("finalizers") or ()):
            return None
        failures = await self._delete_content(namespace)
        left = self._content(namespace)
        await self._report(namespace, left, failures)
        if left or failures:
            return Result(_RECHECK_S)
        current = (await self._api.get(self._user, NAMESPACES, "", namespace)).obj
        finalizers = [name for name in spec_of(current).get("finalizers") or () if name != FINALIZER]
        done = {**current, "spec": {**spec_of(current), "finalizers": finalizers}}
        try:
            await self._api.update(self._user, NAMESPACES, "", namespace, done, subresource="finalize")
        except NotFound:
            pass  # already gone
        except Conflict:
            self._queue.add(Key("", namespace))
        return None

    async def _delete_content(self, namespace: str) -> list[str]:
        failures: list[str] = []
        for kind in self._namespaced_kinds():
            bucket = self._api.serving.storage(kind).bucket
            if not self._api.store.count(bucket, namespace):
                continue
            options = ListOptions(namespace=namespace)
            try:
                await self._api.delete_collection(
                    self._user, kind.resource(), options, DeleteOptions(propagation="Background")
                )
            except ApiError as error:
                failures.append(f"{kind.group_resource}: {error.message}")
        return failures

    def _namespaced_kinds(self) -> list[KindDef]:
        kinds = [kind for kind in self._api.registry if kind.namespaced and "deletecollection" in kind.verbs]
        return sorted(kinds, key=lambda kind: kind.group_resource not in _FIRST)

    def _content(self, namespace: str) -> dict[str, int]:
        counts = {bucket: self._api.store.count(bucket, namespace) for bucket in self._api.store.resources()}
        return {bucket: count for bucket, count in counts.items() if count}

    async def _report(self, namespace: str, left: dict[str, int], failures: list[str]) -> None:
        """Say in the status what is still in the way."""
        stored = self._api.store.get(ObjectKey("namespaces", "", namespace))
        if stored is None:
            return
        now = self._api.clock.timestamp()
        found = status_of(stored.obj).get("conditions") or []
        updated = found
        for condition in _conditions(left, self._finalizers(namespace, left), failures):
            updated = conditions.set_condition(updated, condition, now)
        if updated != found:
            changed = {**stored.obj, "status": {**status_of(stored.obj), "conditions": updated}}
            try:
                await self._api.update(self._user, NAMESPACES, "", namespace, changed, PLAIN_WRITE, "status")
            except (Conflict, NotFound):
                pass  # the next look reports again

    def _finalizers(self, namespace: str, left: dict[str, int]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for bucket in left:
            for stored in self._api.store.scan(bucket, namespace):
                for name in stored.obj["metadata"].get("finalizers") or ():
                    counts[name] = counts.get(name, 0) + 1
        return counts


def _conditions(left: dict[str, int], finalizers: dict[str, int], failures: list[str]) -> list[Obj]:
    content = ", ".join(f"{bucket} has {count} resource instances" for bucket, count in sorted(left.items()))
    holding = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    condition = conditions.condition
    return [
        condition("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
        condition("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions",
                  "All legacy kube types successfully parsed"),
        condition("NamespaceDeletionContentFailure", "True", "ContentDeletionFailed", "; ".join(failures))
        if failures
        else condition("NamespaceDeletionContentFailure", "False", "ContentDeleted",
                       "All content successfully deleted, may be waiting on finalization"),
        condition("NamespaceContentRemaining", "True", "SomeResourcesRemain", f"Some resources are remaining: {content}")
        if left
        else condition("NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed"),
        condition("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain",
                  f"Some content in the namespace has finalizers remaining: {holding}")
        if finalizers
        else condition("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers",
                       "All content-preserving finalizers finished"),
    ]  # fmt: skip
